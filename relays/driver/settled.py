"""What people made of the subjects of an ask: an assumption that was confirmed may be leaned on from then on.

Mission: "Low-confidence, stale, inferred, or unknown assumptions turn into a query or refresh action before they can
support an effectful step." The query is answered by a recorded decision; the newest one about a key holds.
"""

from collections.abc import Sequence
from typing import Any

from relays.core import assumptions, settling
from relays.core.pointers import one_line
from relays.core.settling import KEY_BYTES
from relays.models import Assumption, Decision, Relay

ACT = "assumption"


def confirmed(relay_id: str, keys: Sequence[str]) -> dict[str, assumptions.Assessment]:
    """Those of these keys that the newest decision about them confirmed, as what a person states. One query."""
    if not keys:
        return {}
    latest: dict[str, Any] = {}
    for detail in Decision.objects.filter(relay=relay_id, act=ACT).order_by("seq").values_list("detail", flat=True):
        if isinstance(detail, dict):
            latest[str(detail.get("key"))] = detail.get("became")
    stated = assumptions.assess(assumptions.Source.USER_STATED)
    return {key: stated for key in keys if latest.get(one_line(key, KEY_BYTES)) == settling.CONFIRMED}


def keep(relay: Relay, key: str, became: str) -> None:
    """Let the records of a key say what a person made of it; in the transaction of that decision."""
    source = assumptions.Source.USER_STATED if became == settling.CONFIRMED else assumptions.Source.STALE
    action = assumptions.assess(source).action
    for row in Assumption.objects.filter(leg__relay=relay).exclude(action="use"):
        if one_line(row.key, KEY_BYTES) == key:
            Assumption.objects.filter(pk=row.pk).update(source=source, confidence=None, action=action)
