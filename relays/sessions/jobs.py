"""The life of an import: waiting, running, then done, cancelled or failed; a follow runs until somebody cancels it.

Architecture: "Every task may run twice, late, or never: a periodic `reconcile` finds what should be running". An import
is read in steps of at most `STEP_TAKES` seconds. Between two steps nobody holds it and everything that was read is
committed, so that a worker that dies costs a step and nothing is read twice.

One step runs at a time on the whole site: the workers drive relays too, and one of them always stays free for that.
Whoever is due for longest has the next one.
"""

import logging
import os
import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path

from django.contrib.auth.models import User
from django.db import OperationalError, transaction
from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from relays.core.lines import recorded
from relays.models import Import, ImportedFile, SessionFile
from relays.models.pulse import bump
from relays.sessions import project, run, topics
from relaysite import bell

log = logging.getLogger(__name__)

STEP_TAKES = 20.0  # seconds
STEP_TAKES_BESIDE = 5.0  # seconds, while another import or follow is due
READING = 0.7  # of a step
AFTER_READING = 6.0  # seconds, in which the figures of what was read are brought up to date and repositories asked
BEAT_EVERY = 0.5  # seconds; progress is written, and a cancel is seen, as often
BEAT_STALE = timedelta(seconds=30)  # whoever beat last before that is dead or lost
TRY_AGAIN = timedelta(seconds=15)  # after a database that did not answer
MOST_PROBLEMS = 100
#: a follow looks again after a tenth of the time for which nothing changed, within these
LOOK_SOONEST = timedelta(seconds=2)
LOOK_LATEST = timedelta(seconds=15)

OPEN = (Import.Status.WAITING, Import.Status.RUNNING)
RESUMABLE = (Import.Status.CANCELLED, Import.Status.FAILED)


def exists(path: Path) -> bool:
    """Whether something is there; what may not be looked at is there, and is named when it is read."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False
    except OSError:
        return True
    return True


# what a person asks for, inside the transaction that records it -----------------------------------------------------


def begin(user: User, paths: Sequence[str], *, follow: bool, now: datetime) -> Import:
    """A new import of absolute paths without links; a worker takes it up after the commit."""
    job = Import.objects.create(paths=list(paths), follow=follow, asked_by=user, asked_at=now)
    bump(topics.SESSIONS, topics.job(job.pk))
    ring(job.pk)
    return job


def cancel(job_id: int, *, now: datetime) -> bool:
    """End it, at once where nobody works on it, else at that one's next beat; False when it has ended already."""
    job = Import.objects.filter(pk=job_id, status__in=OPEN)
    idle = job.filter(_unheld(now)).update(status=Import.Status.CANCELLED, cancel=True, **_ended(now))
    if not idle and not job.update(cancel=True):
        return False
    bump(topics.SESSIONS, topics.job(job_id))
    return True


def resume(job_id: int, *, now: datetime) -> bool:
    """Let a cancelled or failed import go on where it stood; False when it is neither."""
    ended = Import.objects.filter(pk=job_id, status__in=RESUMABLE)
    if not ended.update(status=Import.Status.WAITING, cancel=False, ended_at=None, next_at=now, error=""):
        return False
    bump(topics.SESSIONS, topics.job(job_id))
    ring(job_id)
    return True


# the bells -----------------------------------------------------------------------------------------------------------


def ring(job_id: int) -> None:
    """Ring for an import after the commit."""
    bell.ring("relays.tasks.import_step", job_id)


def ring_due(now: datetime) -> bool:
    """Ring for the import that is due for longest, unless a step runs just now; whether it rang."""
    due = _due(now).first()
    if due is None or Import.objects.filter(status__in=OPEN).exclude(_unheld(now)).exists():
        return False
    ring(due.pk)
    return True


def _due(now: datetime) -> QuerySet[Import]:
    """Those that nobody reads for and whose time has come, longest due first."""
    due = Import.objects.filter(_unheld(now), Q(next_at__isnull=True) | Q(next_at__lte=now), status__in=OPEN)
    return due.order_by(F("next_at").asc(nulls_first=True), "pk")


def _unheld(now: datetime) -> Q:
    return Q(beat_at__isnull=True) | Q(beat_at__lt=now - BEAT_STALE)


def _ended(now: datetime) -> dict[str, datetime | None]:
    return {"ended_at": now, "beat_at": None, "next_at": None}


# the work ------------------------------------------------------------------------------------------------------------


def step(job_id: int, seconds: float = STEP_TAKES) -> str:
    """Read on for an import: what a worker does when it is rung for. One word says what came of it.

    `busy`: another step runs. `not due`: it has ended, or looks again later. `lost`: somebody took it over meanwhile.
    Else how it stands: `running` (it goes on in a next step), `done`, `cancelled`, `failed`.
    """
    hold = _claim(job_id, timezone.now())
    if isinstance(hold, str):
        return hold
    job = Import.objects.get(pk=job_id)
    if job.cancel:
        return hold.release()
    if _due(timezone.now()).exclude(pk=job_id).exists():
        seconds = min(seconds, STEP_TAKES_BESIDE)
    try:
        paths, strayed = _where_they_were(job.paths)
        outcome = run.import_paths(
            paths, job=job, progress=hold.tell, cancelled=hold.asked_to_stop, seconds=seconds * READING
        )
        outcome.problems += strayed
        until = time.monotonic() + AFTER_READING
        if not outcome.finished and not hold.lost:
            # a page shows what was read so far, also where a cancel ends it here
            project.project(outcome.changed, lambda: hold.taken_over() or time.monotonic() > until)
        # what still grows would be judged again with every line: that waits for a look that finds nothing new
        calm = outcome.finished and not (job.follow and outcome.changed)
        judged = not calm or _judge(job, hold, until)
    except OperationalError as error:
        # a lock that was not had in time, a server that restarts, a full disk: the next step finds it as it was
        log.warning("import %s: the database did not answer (%s); it is tried again", job_id, error)
        return hold.release(
            error=recorded("the database did not answer (%(error)s); it is tried again", error=error), again=TRY_AGAIN
        )
    except Exception as error:
        log.exception("import %s failed", job_id)
        return hold.release(error=f"{type(error).__name__}: {error}", failed=True)
    return hold.release(outcome, more=not judged)


def _claim(job_id: int, now: datetime) -> "_Hold | str":
    """The right to work on it, until its beat is stale. Who claims at the same time comes after."""
    with transaction.atomic():
        jobs = Import.objects.select_for_update().filter(status__in=OPEN).order_by("pk")
        beats = {pk: (beat, due) for pk, beat, due in jobs.values_list("pk", "beat_at", "next_at")}
        if job_id not in beats or (beats[job_id][1] or now) > now:
            return "not due"
        if any(beat is not None and beat >= now - BEAT_STALE for beat, _ in beats.values()):
            return "busy"
        Import.objects.filter(pk=job_id).update(status=Import.Status.RUNNING, beat_at=now)
        bump(topics.job(job_id))
    return _Hold(job_id, now)


def _where_they_were(paths: Sequence[str]) -> tuple[list[str], list[run.Problem]]:
    """Those paths that still lead where they led when a person named them, and the others.

    A link that was put in the way of one since then must not lead the reader out of the folders that were allowed.
    """
    found, strayed = [], []
    for path in paths:
        if os.path.realpath(path) == path:
            found.append(path)
        else:
            strayed.append(
                run.Problem(path, recorded("a symbolic link is in its way since it was named; name the folder anew"))
            )
    return found, strayed


def _judge(job: Import, hold: "_Hold", until: float) -> bool:
    """Ask the repositories about the would-be batons of the job's sessions; whether all of them are judged."""
    files = ImportedFile.objects.filter(job=job).values("source")
    sessions = SessionFile.objects.filter(source__in=files).values("session")
    # the stores of repositories take a while to load: who lists sessions does not wait for them
    from relays.sessions import judging

    return judging.judge_waiting(sessions, lambda: hold.asked_to_stop() or time.monotonic() > until)


class _Hold:
    """The claim of one step on its import: the beat that was written last is its token."""

    def __init__(self, job_id: int, beat: datetime) -> None:
        self.job_id = job_id
        self.beat = beat
        self.cancelled = False
        self.lost = False
        self.next_beat = time.monotonic() + BEAT_EVERY
        self.progress: run.Progress | None = None

    def tell(self, progress: run.Progress) -> None:
        """How far it is; written with the next beat."""
        self.progress = progress
        self._beat_if_due()

    def asked_to_stop(self) -> bool:
        """Whether somebody cancelled, or took over because no beat came in time."""
        return self.taken_over() or self.cancelled

    def taken_over(self) -> bool:
        """Whether somebody took over; a sign of life while nobody has."""
        self._beat_if_due()
        return self.lost

    def _beat_if_due(self) -> None:
        if self.lost or time.monotonic() < self.next_beat:
            return
        now = timezone.now()
        with transaction.atomic():
            mine = Import.objects.filter(pk=self.job_id, beat_at=self.beat)
            if not mine.update(beat_at=now, **_figures(self.progress)):
                self.lost = True
                return
            self.beat = now
            self.cancelled = Import.objects.filter(pk=self.job_id, cancel=True).exists()
            bump(topics.job(self.job_id))
        self.next_beat = time.monotonic() + BEAT_EVERY

    def release(
        self,
        outcome: run.Outcome | None = None,
        *,
        error: str = "",
        failed: bool = False,
        more: bool = False,
        again: timedelta = timedelta(),
    ) -> str:
        """Let go, write down how it stands, and ring for whoever is due next. `more`: something is left to be done."""
        now = timezone.now()
        with transaction.atomic():
            job = Import.objects.select_for_update().get(pk=self.job_id)
            if job.beat_at != self.beat:
                return "lost"
            job.error = _text(" ".join(error.split()), 500)
            for name, value in _figures(outcome or self.progress).items():
                setattr(job, name, value)
            if outcome:
                job.problems = _problems(job.problems, outcome)
            over = outcome is not None and outcome.finished and not more
            if job.cancel or failed or (over and not job.follow):
                job.status = (
                    Import.Status.CANCELLED if job.cancel else Import.Status.FAILED if failed else Import.Status.DONE
                )
                job.ended_at, job.next_at = now, None
            else:
                job.next_at = now + (_rest(job, outcome, now) if outcome and over else again)
            job.beat_at = None
            job.save()
            bump(topics.SESSIONS, topics.job(job.pk))
            # a bell for another while this one is let go: nobody waits for the next `reconcile`
            due = _due(now).first()
            if due is not None:
                ring(due.pk)
        return str(job.status)


def _figures(of: run.Progress | run.Outcome | None) -> dict[str, int]:
    if of is None:
        return {}
    names = ("files_total", "files_done", "bytes_total", "bytes_done")
    return {name: int(getattr(of, name)) for name in names}


def _problems(before: Sequence[dict[str, str]], outcome: run.Outcome) -> list[dict[str, str]]:
    """Of a whole look what it met; of a part of one also what the parts before it met. The first hundred."""
    met = [{"path": _text(one.path, 4096), "why": _text(one.why, 300)} for one in outcome.problems]
    if not outcome.finished:
        met = [*before, *met]
    return list({one["path"]: one for one in met}.values())[:MOST_PROBLEMS]


def _text(words: str, most: int) -> str:
    """Words that both databases keep: a name of any bytes on disk may hold what is no text."""
    return words.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")[:most]


def _rest(job: Import, outcome: run.Outcome, now: datetime) -> timedelta:
    """For how long a follow rests: short while its files change, longer the longer they did not."""
    if outcome.changed:
        return LOOK_SOONEST
    files = ImportedFile.objects.filter(job=job)
    latest = files.aggregate(at=Max("source__mtime_ns"))["at"]
    quiet = now.timestamp() - (latest or 0) / 1e9
    return min(max(timedelta(seconds=quiet / 10), LOOK_SOONEST), LOOK_LATEST) if quiet < 3600 else LOOK_LATEST
