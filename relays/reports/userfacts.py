"""The facts and pins of people that stand for a relay, as pages and the command line show them."""

from datetime import datetime
from typing import Any

from relays.core import userfacts
from relays.core.userfacts import UserFact
from relays.models import Decision


def standing(relay_id: str, at: datetime | None = None) -> tuple[UserFact, ...]:
    """What stands now, or stood `at` a moment. One query."""
    rows = Decision.objects.filter(relay=relay_id, act__in=userfacts.ACTS)
    if at is not None:
        rows = rows.filter(at__lte=at)
    return userfacts.standing(rows.order_by("seq").values_list("act", "detail", "seq"))


def as_mapping(facts: tuple[UserFact, ...]) -> list[dict[str, Any]]:
    """As JSON: `text` null where it is a pin's, or where only the pointer is known."""
    return [{"kind": one.kind, "pointer": one.pointer, "text": one.text or None} for one in facts]
