"""More faithful? What was read again after compactions against what a rotation's successor read again; OBSERVED only.

The rule is in `relays.core.faithful`.
"""

from typing import Any

from relays.models import Relay, Session


def of_relay(relay: Relay) -> dict[str, Any]:
    """The JSON of `Comparison.faithful`."""
    return {"verdict": "not yet", "what": "", "rows": []}


def of_session(session: Session) -> dict[str, Any]:
    """The JSON of `Comparison.faithful`."""
    return {"verdict": "not yet", "what": "", "rows": []}
