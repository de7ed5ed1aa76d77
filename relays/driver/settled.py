"""What people made of the subjects of an ask: an assumption that was confirmed may be leaned on from then on.

Mission: "Low-confidence, stale, inferred, or unknown assumptions turn into a query or refresh action before they can
support an effectful step." The query is answered by a recorded decision; the newest one about a key holds.
"""

import hashlib
from collections.abc import Sequence

from relays.core import assumptions, settling
from relays.core.pointers import one_line
from relays.core.settling import KEY_BYTES
from relays.models import Assumption, Decision, Relay

ACT = "assumption"


def confirmed(relay_id: str, keys: Sequence[str]) -> dict[str, assumptions.Assessment]:
    """Those of these keys that the newest decision about them confirmed, as what a person states. Two queries.

    What was confirmed is a statement: another one that is said under its key later is not.
    """
    if not keys:
        return {}
    said: dict[str, set[str] | None] = {}  # None: any statement, of a decision that recorded none
    for detail in Decision.objects.filter(relay=relay_id, act=ACT).order_by("seq").values_list("detail", flat=True):
        if isinstance(detail, dict):
            key, of = str(detail.get("key")), detail.get("statements")
            if detail.get("became") != settling.CONFIRMED:
                said.pop(key, None)
            else:
                said[key] = None if not isinstance(of, list) else (said.get(key) or set()) | set(map(str, of))
    rows = Assumption.objects.filter(leg__relay=relay_id, key__in=keys).order_by("at", "pk") if said else []
    newest = {row.key: digest(row.statement) for row in rows}
    stated = assumptions.assess(assumptions.Source.USER_STATED)
    found: dict[str, assumptions.Assessment] = {}
    for key in keys:
        of = said.get(one_line(key, KEY_BYTES), set())
        # cited without being stated: what was confirmed is what is meant
        if of is None or (of and (key not in newest or newest[key] in of)):
            found[key] = stated
    return found


def statements(relay: Relay, key: str) -> list[str]:
    """The digests of what is stated under a key and waits for a person; before `keep` takes note of their word."""
    rows = Assumption.objects.filter(leg__relay=relay).exclude(action="use").order_by("pk")
    return sorted({digest(row.statement) for row in rows if one_line(row.key, KEY_BYTES) == key})


def digest(statement: str) -> str:
    return hashlib.sha256(statement.encode("utf-8", "replace")).hexdigest()


def keep(relay: Relay, key: str, became: str) -> None:
    """Let the records of a key say what a person made of it; in the transaction of that decision."""
    source = assumptions.Source.USER_STATED if became == settling.CONFIRMED else assumptions.Source.STALE
    action = assumptions.assess(source).action
    for row in Assumption.objects.filter(leg__relay=relay).exclude(action="use"):
        if one_line(row.key, KEY_BYTES) == key:
            Assumption.objects.filter(pk=row.pk).update(source=source, confidence=None, action=action)
