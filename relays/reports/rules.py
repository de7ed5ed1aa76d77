"""The policy that a relay runs under, as pages read it, and how people call its axes."""

from relays.core import policy
from relays.models import Relay


def rules_of(relay: Relay) -> policy.Policy:
    """The policy that the relay runs under; one that cannot be read any more shows as the defaults."""
    try:
        return policy.from_snapshot(relay.policy)
    except policy.PolicyError:
        return policy.build({}, None, {})


#: axis of the envelope -> how people call it
AXES = {
    "spend": "money",
    "turns": "turns",
    "output_tokens": "output tokens",
    "wall": "running time",
    "legs": "legs",
    "queries": "questions",
}
