"""The periodic look at everything: rings for what should be running, carries out what is owed.

architecture.md: "Every task may run twice, late, or never: a periodic `reconcile` finds what should be running".
"""

import logging
import socket
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from django.db.models import F, Q
from django.utils import timezone

from relays.driver import advance, causes, gates, outbox, pushing
from relays.models import Heartbeat, Relay, RelayStatus
from relays.sessions import jobs

log = logging.getLogger(__name__)

#: relays looked at in one pass, oldest sign of life first: those that are driven beat and so make room for the others
BATCH = 200
#: watches at rest looked at in one pass, the one that was not looked at for longest first; each costs a git process
LOOKS = 50
LOOKS_TAKE = 8.0  # seconds; a pass begins no further look after that, whatever its number
PASS_TAKES = 40.0  # seconds; no task runs longer than a minute: what is left over is due in the next pass
LOOK_AGAIN = timedelta(seconds=1.5)  # no watch is looked at more often

Answer = TypeVar("Answer")


def reconcile() -> int:
    """One pass; how many supervisors it started. What fails is logged and left for the next pass, the rest goes on."""
    now, until = timezone.now(), time.monotonic() + PASS_TAKES
    _try("heartbeat", partial(_beat, now))
    started = 0
    for relay_id in _try("what is due", partial(_due, now)) or ():
        if time.monotonic() > until:
            break
        started += _try(relay_id, partial(advance.advance, relay_id)) == "started"
    _try("outbox", outbox.carry_out)
    _try("pushes", pushing.carry_out)
    _try("gates that expire", partial(gates.expire, now))
    _try("imports", partial(jobs.ring_due, now))
    started += _looks(now, min(until, time.monotonic() + LOOKS_TAKE))
    _try("gates whose cause is gone", partial(causes.look, now, min(until, time.monotonic() + LOOKS_TAKE)))
    return started


def _try(what: str, step: Callable[[], Answer]) -> Answer | None:
    """The step's answer; None, and a line in the log, when it failed: no relay keeps the others from their turn."""
    try:
        return step()
    except Exception:  # noqa: BLE001 - the pass's duty: whatever one step meets, the others are taken
        log.exception("reconcile: %s failed; it is tried again in the next pass", what)
        return None


def _beat(now: datetime) -> None:
    Heartbeat.objects.update_or_create(name=f"worker:{socket.gethostname()}", defaults={"at": now})


def _due(now: datetime) -> list[str]:
    due = Relay.objects.filter(
        Q(status__in=[RelayStatus.READY, RelayStatus.RUNNING])
        | (Q(status=RelayStatus.WAITING) & (Q(next_at__isnull=True) | Q(next_at__lte=now)))
    ).order_by(F("claim__heartbeat").asc(nulls_first=True), "status_at")
    return list(due.values_list("pk", flat=True)[:BATCH])


def _looks(now: datetime, until: float) -> int:
    """Look at watches that rest, last in the pass and within its time; how many supervisors that started."""
    started = 0
    for relay_id in _try("watches at rest", partial(_resting, now)) or ():
        if time.monotonic() > until:
            break
        started += _try(relay_id, partial(advance.advance, relay_id)) == "started"
    return started


def _resting(now: datetime) -> list[str]:
    """The watches whose turn it is. That they were chosen is written down first: one that cannot be looked at, or not
    in this pass, comes last in the next and keeps nobody from their turn."""
    resting = Relay.objects.filter(status=RelayStatus.IDLE).exclude(idle_looked_at__gt=now - LOOK_AGAIN)
    order = resting.order_by(F("idle_looked_at").asc(nulls_first=True), "pk").values_list("pk", flat=True)
    chosen = list(order[:LOOKS])
    if chosen:
        Relay.objects.filter(pk__in=chosen, status=RelayStatus.IDLE).update(idle_looked_at=now)
    return chosen
