"""How a person has pages laid out."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from relays.models import Layout
from relays.reports.relay import TABS

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User

DENSITIES = {"roomy": "roomy", "compact": "compact: more rows on a screen"}
#: panels beside a relay's graph -> what they are called
PANELS = {
    "verdicts": "Verdicts",
    "advice": "Advice",
    "findings": "Findings",
    "readout": "Operator readout",
    "pin": "Objective pin",
    "facts": "Pins and facts",
}


@dataclass(frozen=True, slots=True)
class Chosen:
    """What stands for a person; the defaults where they chose nothing."""

    density: str = "roomy"
    first_tab: str = TABS[0]
    closed: tuple[str, ...] = ()


def of(user: "User | AnonymousUser") -> Chosen:
    """One query. A word that is no choice any more counts as the default."""
    row = Layout.objects.filter(user=user.pk).first() if user.is_authenticated else None
    if row is None:
        return Chosen()
    return Chosen(
        row.density if row.density in DENSITIES else "roomy",
        row.first_tab if row.first_tab in TABS else TABS[0],
        tuple(name for name in PANELS if name in row.closed),
    )
