"""The observed rot curve over all sessions that were read: tool errors against how full the window was, per model.

cost.md, Charts: "tool-error rate against how full the window was (observed rot curve, with its confidence interval and
n)". The counts are kept per session as its files are read; nothing here looks at a call.
"""

from dataclasses import dataclass

from django.db.models import Count, Sum
from django.utils.translation import gettext as _

from relays.core import rot
from relays.models import FullnessCount

MODELS = 6  # drawn; the table has them all


@dataclass(frozen=True, slots=True)
class Curves:
    """One curve per model, most tool results first. `drawn`: those with a bin that has enough results."""

    all: tuple[rot.Curve, ...]
    sessions: int

    @property
    def drawn(self) -> tuple[rot.Curve, ...]:
        return tuple(curve for curve in self.all if any(one.rate is not None for one in curve.bins))[:MODELS]

    @property
    def n(self) -> int:
        return sum(curve.n for curve in self.all)


def curves() -> Curves:
    """Two queries. A file that claims more failures than results is shown as if each had failed."""
    rows = (
        FullnessCount.objects.order_by().values_list("model", "twentieth").annotate(n=Sum("tools"), bad=Sum("errors"))
    )
    counted = FullnessCount.objects.aggregate(n=Count("session", distinct=True))
    sane = [(model or _("model not named"), min(at, rot.TWENTIETHS), n, min(bad, n)) for model, at, n, bad in rows]
    return Curves(tuple(rot.curves(sane)), counted["n"])
