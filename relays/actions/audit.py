"""Verify the chain of decisions from the page: asked for by whoever may read, read in steps, to be cancelled.

Interface: "Long work (import, verification, report) shows progress and can be cancelled." Architecture: "no task waits
or runs longer than a minute": a step reads for some seconds, writes down its place and rings for the next one.
"""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions.base import Actor, NotFound, NotLegalNow, need
from relays.models import AuditRun
from relays.models.pulse import bump
from relays.reports import audit, roles
from relaysite import bell

TOPIC = "audit"
TASK = "relays.tasks.audit_step"
FIRST_TAKES = 1.0  # seconds that the press of the button itself reads for: a short chain is judged at once
STEP_TAKES = 15.0
BEAT_EVERY = 0.5
BEAT_STALE = timedelta(seconds=30)  # whoever beat last before that is dead


def begin(actor: Actor) -> AuditRun:
    """Begin a verification, and read as much as fits into a second. One goes on already: that one is meant."""
    need(actor, roles.READ, _("verify the chain"))
    now = timezone.now()
    try:
        with transaction.atomic():
            run = AuditRun.objects.create(asked_by=actor.user, asked_at=now, total=audit.size())
            bump(TOPIC)
    except IntegrityError:
        going = AuditRun.objects.filter(running=True).first()
        if going is None:
            return begin(actor)  # it ended between the two looks
        return going
    step(run.pk, FIRST_TAKES)
    run.refresh_from_db()
    return run


def cancel(actor: Actor, pk: int) -> AuditRun:
    """End it without a result; whoever reads for it sees that with its next beat."""
    need(actor, roles.READ, _("cancel a verification"))
    now = timezone.now()
    with transaction.atomic():
        run = AuditRun.objects.select_for_update().filter(pk=pk).first() if 0 < pk < 2**63 else None
        if run is None:
            raise NotFound(_("verification %(pk)s is not known here") % {"pk": pk})
        if run.ended_at is not None:
            raise NotLegalNow(_("verification %(pk)s has ended already; its result stands on the page") % {"pk": pk})
        AuditRun.objects.filter(pk=pk).update(cancelled=True, running=None, ended_at=now, beat_at=None)
        bump(TOPIC)
    run.refresh_from_db()
    return run


def step(pk: int, seconds: float = STEP_TAKES) -> str:
    """Read on: what a worker does when it is rung for. `busy`: another one reads; `over`: it has ended; `lost`: it was
    cancelled or taken over meanwhile; else `goes on` or `done`."""
    now = timezone.now()
    if not _unheld(now).filter(pk=pk).update(beat_at=now):
        return "busy" if AuditRun.objects.filter(pk=pk, running=True).exists() else "over"
    run = AuditRun.objects.get(pk=pk)
    hold = _Hold(pk, now, time.monotonic() + seconds)
    begun = audit.Place() if not run.done else _place(run)
    try:
        place = audit.go_on(begun, hold.enough)
    except Exception:
        hold.write(beat_at=None)  # the next bell takes it up from the last place that was written
        raise
    if hold.lost:
        return "lost"
    ended = {} if place.phase else {
        "running": None, "ended_at": timezone.now(), "ok": place.first_bad is None and not place.why
    }  # fmt: skip
    with transaction.atomic():
        if not hold.write(**_fields(place), **ended, beat_at=None):
            return "lost"
        bump(TOPIC)
        if not ended:
            bell.ring(TASK, pk)
    return "done" if ended else "goes on"


class _Hold:
    """The right to read for a run: the beat that was written last is its token."""

    def __init__(self, pk: int, beat: datetime, until: float) -> None:
        self.pk, self.beat, self.until = pk, beat, until
        self.next_beat = time.monotonic() + BEAT_EVERY
        self.lost = False

    def enough(self, place: audit.Place) -> bool:
        now = time.monotonic()
        if now >= self.next_beat:
            self.next_beat = now + BEAT_EVERY
            at = timezone.now()
            with transaction.atomic():
                self.lost = not self.write(**_fields(place), beat_at=at)
                if not self.lost:
                    self.beat = at
                    bump(TOPIC)
        return self.lost or now >= self.until

    def write(self, **fields: Any) -> bool:
        return bool(AuditRun.objects.filter(pk=self.pk, running=True, beat_at=self.beat).update(**fields))


def _unheld(now: datetime) -> QuerySet[AuditRun]:
    return AuditRun.objects.filter(Q(beat_at__isnull=True) | Q(beat_at__lt=now - BEAT_STALE), running=True)


def _place(run: AuditRun) -> audit.Place:
    return audit.Place(run.phase, run.place, run.done, run.rows, run.head, run.first_bad, tuple(run.why))


def _fields(place: audit.Place) -> dict[str, Any]:
    return {
        "phase": place.phase or AuditRun.Phase.BATONS, "place": place.at, "done": place.done, "rows": place.rows,
        "head": _text(place.head)[:64], "first_bad": place.first_bad, "why": [_text(line) for line in place.why],
    }  # fmt: skip


def _text(found: str) -> str:
    """What was changed may hold bytes that are no text; what is kept of it is."""
    return str(found).encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")


def ring_due(ring: Callable[[str, int], None] = bell.ring) -> bool:
    """Ring for a verification that goes on and that nobody reads for: its bell was lost, or its worker died."""
    pk = _unheld(timezone.now()).values_list("pk", flat=True).first()
    if pk is not None:
        ring(TASK, pk)
    return pk is not None
