"""A person's park or stop that came while a leg was starting, when that start led nowhere.

rules.md: a person's park and stop "always act". A leg without a first event has nothing to drain, so the relay goes
where it would have gone had it been ready when the person asked.
"""

from datetime import datetime

from relays.core.lines import recorded
from relays.driver import finals, gates
from relays.driver.changes import INBOX, RELAYS, bump, change_relay, lock, topic
from relays.models import RelayStatus, Request

NOTHING_RAN = recorded("asked for before the agent's first event")


def carry_out(relay_id: str, now: datetime, error: str = NOTHING_RAN) -> str:
    """The relay's new status, or "" when nobody asked; inside the caller's transaction, with the leg pending."""
    relay = lock(relay_id)
    if relay.status != RelayStatus.READY or not (relay.stop or relay.parks_now):
        return ""
    if relay.stop:
        finals.stopped(relay_id, frm=[RelayStatus.READY], now=now, why=recorded("stopped by a person"))
    else:
        change_relay(
            relay_id,
            RelayStatus.PARKED,
            frm=[RelayStatus.READY],
            now=now,
            why=recorded("parked by a person; the leg did not start: %(error)s", error=error),
            next_at=None,
            park=Request.NONE,
        )
        gates.start_failed(relay_id, error, now)
    bump(topic(relay_id), RELAYS, INBOX)
    return RelayStatus.STOPPED if relay.stop else RelayStatus.PARKED
