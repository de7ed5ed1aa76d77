"""The figure of money by day, stacked by model; days are of the fleet's zone."""

from collections.abc import Sequence
from datetime import date

from django.utils.translation import gettext as _

from relays.charts.cost import dollars, layout, money_axis
from relays.charts.drawing import Drawing, bar
from relays.charts.flat import axis, var
from relays.reports.figures import whole
from relays.reports.fleet_cost import DRAWN_DAYS, UNIT, DayRow

#: of a day, in ms: left to itself a lone bar is a hair
BAR = 0.75 * 86_400_000
COLOURS = ("b1", "b2", "b3", "drain", "stale")


def models_of(days: Sequence[DayRow]) -> list[tuple[str, str]]:
    """(model, colour) of the dearest models, and of the rest as one where there are more than have a colour."""
    sums: dict[str, int] = {}
    for row in days:
        for model, units in row.models.items():
            sums[model] = sums.get(model, 0) + units
    ordered = sorted((model for model, units in sums.items() if units), key=lambda model: (-sums[model], model))
    most = len(COLOURS)
    named = ordered if len(ordered) <= most else ordered[:most]
    rest = [("", "b4")] if len(ordered) > most else []
    return [*zip(named, COLOURS, strict=False), *rest]


def figure(days: Sequence[DayRow]) -> Drawing:
    """The newest `DRAWN_DAYS` days; a day without a call has no bar."""
    drawn = [row for row in days if row.day is not None][-DRAWN_DAYS:]
    fig, models = Drawing(), models_of(drawn)
    x = [row.day.isoformat() for row in drawn if row.day]
    named = {model for model, _ in models if model}
    top = max([float(row.all.money) for row in drawn], default=0.0)
    for model, colour in models:
        y = [
            float(
                sum(units for one, units in row.models.items() if (one == model if model else one not in named)) / UNIT
            )
            for row in drawn
        ]
        words = model[:60] or _("other models")
        fig.add_trace(
            bar(
                x=x, y=y, width=BAR, name=words, marker={"color": var(colour)},
                hovertemplate=f"%{{x|%Y-%m-%d}} · {words}<br>$%{{y:,.2f}}<extra>OBSERVED</extra>",
            )
        )  # fmt: skip
    fig.update_layout(
        **layout(
            barmode="stack", margin={"l": 60, "r": 20, "t": 12, "b": 28},
            xaxis=axis(showgrid=False, type="date", nticks=12, tickangle=0, **_range(drawn)),
            yaxis=money_axis(top, nticks=5, rangemode="tozero"),
            meta={"narrow": {"margin": {"l": 48, "r": 10, "t": 12, "b": 28}, "nticks": 5}},
        )
    )  # fmt: skip
    return fig


def _range(drawn: Sequence[DayRow]) -> dict[str, object]:
    """At least a week wide, so that a single day is a bar and no wall."""
    known = [row.day for row in drawn if row.day]
    if not known:
        return {}
    first, last = known[0].toordinal(), known[-1].toordinal()
    missing = max(0, 7 - (last - first + 1))
    start, stop = date.fromordinal(max(first - missing, 1)), date.fromordinal(last)
    long = last - first > 300
    wanted = {"tickformat": "%b %Y" if long else "%b %-d"}
    return {**wanted, "range": [f"{date.fromordinal(start.toordinal() - 1)} 12:00", f"{stop} 12:00"]}


def alternative(days: Sequence[DayRow]) -> str:
    known = [row for row in days if row.day]
    if not known:
        return _("No day has a call.")
    dear = max(known, key=lambda row: row.all.units)
    return _("Money by day over %(known)s days with calls; the dearest is %(day)s with %(money)s.") % {
        "known": whole(len(known)),
        "day": dear.day,
        "money": dollars(dear.all.money),
    }
