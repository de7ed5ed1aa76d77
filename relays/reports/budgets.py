"""`/budgets/`: what the relays of each owner may cost in a month, and what they cost."""

from dataclasses import dataclass
from decimal import Decimal

from django.contrib.auth.models import User

from relays.costs.rollups import dollars
from relays.models import OwnerBudget, OwnerMonth
from relays.reports.roles import roles_of

SHOWN = 200
SETTERS = frozenset({"manager", "admin"})


@dataclass(frozen=True, slots=True)
class Month:
    row: OwnerMonth
    spent: Decimal
    share: float | None


@dataclass(frozen=True, slots=True)
class Page:
    budgets: tuple[OwnerBudget, ...]
    months: tuple[Month, ...]
    owners: tuple[str, ...]


def budgets() -> Page:
    """Three queries; the newest SHOWN of each."""
    rows = OwnerMonth.objects.select_related("owner").order_by("-month", "-units")[:SHOWN]
    months = []
    for row in rows:
        spent = dollars(row.units)
        months.append(Month(row, spent, float(spent / row.limit) if row.limit else None))
    found = OwnerBudget.objects.select_related("owner", "set_by").order_by("owner__username", "-month")[:SHOWN]
    owners = User.objects.filter(relays__isnull=False).order_by("username").distinct()
    return Page(tuple(found), tuple(months), tuple(owners.values_list("username", flat=True)[:SHOWN]))


def may_set(user: User) -> bool:
    """Managers and admins."""
    return bool(SETTERS & set(roles_of(user)))
