"""How far the envelope still goes, as it has gone so far: in legs and in verified units.

Interface, page 7: "forecast to the envelope". What is stored is shown; without two finished legs it says `not yet`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from relays.reports import compared as stored
from relays.reports import stored_json
from relays.reports.compared import Compared
from relays.reports.cost import money
from relays.reports.figures import places, whole

#: axis of the envelope -> words, and what its amounts are
_AXES: dict[str, tuple[str, str]] = {
    "spend": (gettext_noop("money"), "dollars"),
    "turns": (gettext_noop("turns"), ""),
    "output_tokens": (gettext_noop("output tokens"), "tokens"),
    "wall": (gettext_noop("running time"), "seconds"),
    "legs": (gettext_noop("legs"), ""),
    "queries": (gettext_noop("questions"), ""),
}


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """An axis of the envelope as text: used, limit, and what is left of it in legs and in verified units."""

    words: str
    used: str
    limit: str
    legs_left: int | None
    progress_left: int | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """`shown`: legs until the first axis of the envelope is spent, "" where that is not known; `words` says why."""

    shown: str
    unit: str
    words: str
    axes: tuple[ForecastRow, ...]


def forecast(data: Compared) -> Forecast:
    """No query."""
    axes = tuple(_axis(one) for one in data.forecast)
    first = nearest(data.forecast)
    if first is None or first.legs_left is None:
        return Forecast("", "", data.forecast_why or _("needs an envelope and two finished legs"), axes)
    units = (
        _(", about %(progress_left)s more verified units") % {"progress_left": whole(first.progress_left)}
        if first.progress_left is not None
        else ""
    )
    words = _("until %(words)s is spent: %(used)s of %(limit)s%(units)s") % {
        "words": first.words,
        "used": first.used,
        "limit": first.limit,
        "units": units,
    }
    return Forecast(whole(first.legs_left), ngettext("leg", "legs", first.legs_left), words, axes)


def nearest(axes: Sequence[stored.Axis]) -> ForecastRow | None:
    """The axis that is spent first; None where nothing can be said of any."""
    known = [one for one in axes if one.legs_left is not None]
    first = min(known, key=lambda one: one.legs_left or 0, default=None)
    return _axis(first) if first is not None else None


def _axis(one: stored.Axis) -> ForecastRow:
    words, kind = _AXES.get(one.axis, (one.axis.replace("_", " "), ""))
    return ForecastRow(_(words), _amount(one.used, kind), _amount(one.limit, kind), one.legs_left, one.progress_left)


def _amount(value: object, kind: str) -> str:
    found = stored_json.amount(value)
    if found is None:
        return str(value) if value not in (None, "") else "—"
    if kind == "dollars":
        return money(found)
    if kind == "seconds":
        return f"{places(found / 3600, 1)} h"
    return places(found, 0)
