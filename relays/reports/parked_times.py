"""How long relays have waited for people in all."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from relays.models import OPEN_GATES, GateEpisode, Relay, RelayStatus


def parked_times(relays: dict[str, Relay], now: datetime) -> dict[str, timedelta]:
    """How long each relay has waited for people in all: the union of its gate episodes and of its present park.

    One query. Two episodes that were open at the same time count once.
    """
    spans: dict[str, list[tuple[datetime, datetime]]] = {relay_id: [] for relay_id in relays}
    rows = GateEpisode.objects.filter(relay_id__in=relays).values_list("relay_id", "opened_at", "state_at", "state")
    for relay_id, opened, changed, state in rows:
        spans[relay_id].append((opened, now if state in OPEN_GATES else changed))
    for relay_id, relay in relays.items():
        if relay.status == RelayStatus.PARKED:
            spans[relay_id].append((relay.status_at, now))
    return {relay_id: _union(of_relay) for relay_id, of_relay in spans.items()}


def _union(spans: Iterable[tuple[datetime, datetime]]) -> timedelta:
    total, end = timedelta(0), None
    for start, stop in sorted(spans):
        begin = start if end is None else max(start, end)
        if stop > begin:
            total += stop - begin
        end = stop if end is None else max(end, stop)
    return total
