"""A program that nobody drives calls home through its hooks: kept, counted, and its transcript read from now on.

interface.md: "`POST hooks/claude-code` (the program's own hook JSON; always 200 with an empty body or JSON)". Nothing
that comes here changes the program's run, unless the site's HOOKS_BLOCK_COMPACTION says so for compactions.
"""

import json
import threading
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from relays.actions.base import Actor, record
from relays.actions.import_sessions import inside_roots
from relays.core import hooks
from relays.models import ApiToken, HookEvent, HookFollow, HookTally, Import, Session
from relays.models.pulse import bump
from relays.sessions import jobs, topics

AGENT: Final = "claude-code"
MOST_BYTES: Final = 1_048_576
PER_MINUTE: Final = 600  # kept calls of one token
MOST_FOLLOWED: Final = 50  # transcripts that hooks have read at a time; the ones silent for longest end first
LAST_LOOK: Final = timedelta(seconds=5)  # after a session said that it ended
_FLUSH_EVERY: Final = 1.0  # seconds between two writes of what was refused, in one process

Answer = tuple[str, dict[str, str]]  # what became of the call: kept, dropped, torn, refused; and what is answered


def receive(token: ApiToken, body: bytes) -> Answer:
    """Keep one call of a token that may send. Never raises for what the body holds."""
    now = timezone.now()
    call = _read(body)
    if call is None:
        _count(token, now, "torn")
        return "torn", {}
    if not _admit(token, now):
        return "dropped", {}
    answer = hooks.answer(call, blocks_compaction=settings.HOOKS_BLOCK_COMPACTION)
    with transaction.atomic():
        HookEvent.objects.create(
            token=token,
            agent=AGENT,
            sid=call.sid,
            event=call.event,
            known=call.known,
            signal=call.signal,
            blocked=bool(answer),
            said=dict(call.said),
            size=len(body),
            at=now,
        )
        _follow(token, call, now)
        known = Session.objects.filter(agent=AGENT, sid=call.sid).values_list("pk", flat=True).first()
        bump(topics.SESSIONS, *([topics.session(known)] if known else []))
    return "kept", answer


def _read(body: bytes) -> hooks.HookCall | None:
    if len(body) > MOST_BYTES:
        return None
    try:
        return hooks.read_call(json.loads(body))
    except (ValueError, RecursionError):
        return None


# how many ------------------------------------------------------------------------------------------------------------


def _minute(now: datetime) -> datetime:
    return now.replace(second=0, microsecond=0)


def _admit(token: ApiToken, now: datetime) -> bool:
    """Count it as kept while the minute has room, else as dropped: the database decides, whatever runs beside."""
    rows = HookTally.objects.filter(token=token, minute=_minute(now))
    if rows.filter(kept__lt=PER_MINUTE).update(kept=F("kept") + 1):
        return True
    if rows.update(dropped=F("dropped") + 1):
        return False
    _count(token, now, "kept")
    return True


def _count(token: ApiToken | None, now: datetime, what: str, number: int = 1) -> None:
    rows = HookTally.objects.filter(token=token, minute=_minute(now))
    if rows.update(**{what: F(what) + number}):
        return
    try:
        with transaction.atomic():
            HookTally.objects.create(token=token, minute=_minute(now), **{what: number})
    except IntegrityError:
        rows.update(**{what: F(what) + number})


class _Refused:
    """Calls without a token that stands: counted here and written once a second, so that no stranger makes us write."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pending = 0
        self.written = 0.0

    def add(self) -> None:
        with self.lock:
            self.pending += 1
            if time.monotonic() - self.written < _FLUSH_EVERY and self.written:
                return
            number, self.pending, self.written = self.pending, 0, time.monotonic()
        _count(None, timezone.now(), "refused", number)


_refused = _Refused()


def refuse() -> None:
    """Count a call that came without a token that stands and may send."""
    _refused.add()


# reading what it names -----------------------------------------------------------------------------------------------


def _follow(token: ApiToken, call: hooks.HookCall, now: datetime) -> None:
    """Have the session's transcript read soon, and until it ends; only what lies inside SESSION_ROOTS is looked at.

    In the caller's transaction. A person who cancels such a follow is obeyed: it is not begun again.
    """
    path = inside_roots(call.transcript) if call.transcript else None
    if path is None or path.suffix != ".jsonl":
        return
    row = HookFollow.objects.select_related("job").filter(agent=AGENT, sid=call.sid).first()
    job = row.job if row else None
    if row is not None and job is not None and row.path == str(path):
        HookFollow.objects.filter(pk=row.pk).update(at=now)
        _look_soon(job, call, now)
        return
    if not _is_file(path):
        return  # the program writes it later, and calls again
    # two calls of one session may come at the same moment: one of them begins the follow, the other finds it
    ApiToken.objects.select_for_update().filter(pk=token.pk).first()
    if HookFollow.objects.filter(agent=AGENT, sid=call.sid, path=str(path), job__isnull=False).exists():
        return
    covering = _covering(path)
    if covering:
        _soon(covering, now)
        return
    new = _begin(token, path, now)
    HookFollow.objects.update_or_create(
        agent=AGENT, sid=call.sid, defaults={"path": str(path), "job": new, "user": token.user, "at": now}
    )
    if job is not None:  # the session writes another file now: the one before is read once more and left
        Import.objects.filter(pk=job.pk, status__in=jobs.OPEN).update(follow=False)
    _end_the_silent()


def _is_file(path: Path) -> bool:
    """False also for a path that no disk can hold."""
    try:
        return path.is_file()
    except OSError:
        return False


def _begin(token: ApiToken, path: Path, now: datetime) -> Import:
    job = jobs.begin(token.user, [str(path)], follow=True, now=now)
    detail: dict[str, Any] = {"import": job.pk, "paths": [str(path)], "follow": True, "hook": token.pk}
    record(Actor(token.user), "import", now=now, detail=detail)
    return job


def _look_soon(job: Import, call: hooks.HookCall, now: datetime) -> None:
    if job.status == Import.Status.DONE and call.signal != "ended":
        # the session went on after it had ended
        Import.objects.filter(pk=job.pk, status=Import.Status.DONE).update(
            status=Import.Status.WAITING, follow=True, ended_at=None, next_at=now, cancel=False
        )
        jobs.ring(job.pk)
        return
    if job.status not in jobs.OPEN:
        return
    if call.signal == "ended":
        # the program writes its file behind the hook: one last look, a little later
        Import.objects.filter(pk=job.pk, status__in=jobs.OPEN).update(follow=False, next_at=now + LAST_LOOK)
        return
    Import.objects.filter(pk=job.pk, status__in=jobs.OPEN).update(follow=True)
    _soon(job.pk, now)


def _soon(job: int, now: datetime) -> None:
    """The next look comes now, unless it is due within a second anyway."""
    if Import.objects.filter(pk=job, next_at__gt=now + timedelta(seconds=1)).update(next_at=now):
        jobs.ring(job)


def _covering(path: Path) -> int:
    """A follow that somebody began and that reads the file anyway, 0 where there is none."""
    for pk, paths in Import.objects.filter(follow=True, status__in=jobs.OPEN).values_list("pk", "paths"):
        if any(path.is_relative_to(one) for one in paths):
            return int(pk)
    return 0


def _end_the_silent() -> None:
    """Of more than MOST_FOLLOWED transcripts the ones that no hook named for longest are read once more and left."""
    following = HookFollow.objects.filter(job__follow=True, job__status__in=jobs.OPEN).order_by("-at", "-pk")
    over = list(following.values_list("job_id", flat=True)[MOST_FOLLOWED:])
    if over:
        Import.objects.filter(pk__in=over).update(follow=False)
