"""What a relay's envelope has left, from the relay's own roll-ups.

rules.md: "Every leg debits; what is left goes to the successor: a spent budget stays spent."
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from django.utils import timezone

from relays.core import budget
from relays.core.policy import Envelope, Policy, from_snapshot
from relays.driver.changes import INBOX, RELAYS, bump, topic
from relays.models import Notice, Relay, owed

SPEND_UNKNOWN = "spend_unknown"  # in Relay.warned_axes: a person was asked once about unpriced calls

#: the columns of `Relay.spent`
SPENT = (
    "turns_used",
    "output_used",
    "spend_used",
    "unpriced_calls",
    "wall_used",
    "legs_used",
    "queries_used",
)


_last: tuple[Mapping[str, Any], Policy] | None = None  # the snapshot that was read last, and what it says


def policy_of(relay: Relay) -> Policy:
    """Raises PolicyError. Read anew only where it is another than the last one: a supervisor asks for its relay's."""
    global _last
    known = _last
    if known is None or known[0] != relay.policy:
        known = _last = deepcopy(relay.policy), from_snapshot(relay.policy)
    return known[1]


def limited(relay: Relay) -> bool:
    """Whether there is any limit that could be warned of."""
    envelope = policy_of(relay).envelope
    return any(getattr(envelope, axis) is not None for axis in budget.STOP_REASONS)


def rearm(relay: Relay) -> dict[str, Any]:
    """Per axis what crosses the rotation; the window's axis is the leg's own."""
    return dict(budget.rearm(policy_of(relay).envelope, relay.spent))


def warn(relay_id: str) -> None:
    """ "One warning when an axis first falls under a fifth": kept in Relay.warned_axes, in the caller's transaction.

    Called last where something is debited, with the relay's row held by that debit. Pages show it; nothing is stopped.
    """
    relay = Relay.objects.only("policy", "warned_axes", *SPENT).get(pk=relay_id)
    low = budget.newly_low(policy_of(relay).envelope, relay.spent, relay.warned_axes)
    if low:
        Relay.objects.filter(pk=relay_id).update(warned_axes=[*relay.warned_axes, *low])
        for axis in low:
            key = f"budget:{relay_id}:{axis}:{getattr(policy_of(relay).envelope, axis)}"
            owed.owe(Notice.Event.BUDGET_WARNING, key, timezone.now(), relay_id=relay_id, detail={"axis": str(axis)})
        bump(topic(relay_id), RELAYS, INBOX)


def still_warned(before: Envelope, after: Envelope, warned: Sequence[str]) -> list[str]:
    """What stays warned of after a decision on limits: an axis warns again only where it has got a new limit.

    That spend is unknown stays asked: a person knows it, and no limit makes it known.
    """
    changed = {axis for axis in budget.STOP_REASONS if getattr(before, axis) != getattr(after, axis)}
    return [axis for axis in warned if axis not in changed]
