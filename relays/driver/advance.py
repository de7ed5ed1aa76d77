"""One short idempotent step for one relay: what a doorbell leads to, on whichever worker hears it."""

from collections.abc import Callable
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from relays.driver import idle, spawn
from relays.driver.changes import INBOX, RELAYS, bump, change_relay, topic
from relays.models import LIVE_STATES, OPEN_STATES, Leg, Relay, RelayStatus

DRIVEN = (RelayStatus.READY, RelayStatus.RUNNING, RelayStatus.WAITING)


def advance(relay_id: str, start: Callable[[str, int], bool] | None = None) -> str:
    """Look at one relay and do the one thing that is due. Safe to repeat. `start`: in place of `spawn.supervisor`.

    Nothing, `ready`, a supervisor started, or a look at a watch that rests; a watch that wakes by it goes on at once.
    """
    now = timezone.now()
    relay = Relay.objects.filter(pk=relay_id).first()
    if relay is not None and relay.status == RelayStatus.IDLE:
        said = idle.look(relay_id, now)
        if said != idle.WOKEN:
            return said
        relay.refresh_from_db()
    if relay is None or relay.status not in DRIVEN:
        return "nothing to do"
    leg = Leg.objects.filter(relay=relay, state__in=OPEN_STATES).first()
    if leg is None:
        return "no open leg"
    if leg.state not in LIVE_STATES:
        if relay.status == RelayStatus.WAITING and not _due(relay, now):
            return "waits"
        if relay.status != RelayStatus.READY:
            return "waits"
    return "started" if (start or spawn.supervisor)(relay_id, leg.pk) else "driven"


def _due(relay: Relay, now: datetime) -> bool:
    """A wait that is over makes the relay ready."""
    if relay.next_at is not None and relay.next_at > now:
        return False
    with transaction.atomic():
        moved = change_relay(relay.pk, RelayStatus.READY, frm=[RelayStatus.WAITING], now=now, next_at=None)
        bump(topic(relay.pk), RELAYS, INBOX)
    relay.refresh_from_db()
    return moved
