"""What a relay's envelope has left, from the relay's own roll-ups.

rules.md: "Every leg debits; what is left goes to the successor: a spent budget stays spent."
"""

from typing import Any

from relays.core import budget
from relays.core.policy import Policy, from_snapshot
from relays.models import Relay

SPEND_UNKNOWN = "spend_unknown"  # in Relay.warned_axes: a person was asked once about unpriced calls


def policy_of(relay: Relay) -> Policy:
    return from_snapshot(relay.policy)


def rearm(relay: Relay) -> dict[str, Any]:
    """Per axis what crosses the rotation; the window's axis is the leg's own."""
    return dict(budget.rearm(policy_of(relay).envelope, relay.spent))
