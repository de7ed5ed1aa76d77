"""The periodic look at everything: rings for what should be running, carries out what is owed.

architecture.md: "Every task may run twice, late, or never: a periodic `reconcile` finds what should be running".
"""

import logging
import socket

from django.db.models import F, Q
from django.utils import timezone

from relays.driver import advance, gates, outbox
from relays.models import Heartbeat, Relay, RelayStatus

log = logging.getLogger(__name__)

#: relays looked at in one pass, oldest sign of life first: those that are driven beat and so make room for the others
BATCH = 200


def reconcile() -> int:
    """One pass; how many supervisors it started."""
    now = timezone.now()
    Heartbeat.objects.update_or_create(name=f"worker:{socket.gethostname()}", defaults={"at": now})
    due = Relay.objects.filter(
        Q(status__in=[RelayStatus.READY, RelayStatus.RUNNING])
        | (Q(status=RelayStatus.WAITING) & (Q(next_at__isnull=True) | Q(next_at__lte=now)))
    ).order_by(F("claim__heartbeat").asc(nulls_first=True), "status_at")
    started = 0
    for relay_id in due.values_list("pk", flat=True)[:BATCH]:
        started += advance.advance(relay_id) == "started"
    outbox.carry_out()
    gates.expire(now)
    return started
