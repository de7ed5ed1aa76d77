"""The facts and pins of people that every leg of a relay is given by pointer, from its decisions."""

from relays.core import userfacts
from relays.core.userfacts import UserFact
from relays.models import Decision


def of(relay_id: str) -> tuple[UserFact, ...]:
    """What stands now. One query, few rows: people decide seldom."""
    rows = Decision.objects.filter(relay=relay_id, act__in=userfacts.ACTS).order_by("seq")
    return userfacts.standing(rows.values_list("act", "detail", "seq"))


def pointers(relay_id: str) -> tuple[str, ...]:
    """What stands now, as a seed takes it."""
    return tuple(one.pointer for one in of(relay_id))
