"""The flat-context verdict: does a leg's peak grow with the number of legs?

Mission: "A relay that runs for a week should peak no higher than one leg with the same budget."
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from relays.core.sentences import Places, phrase
from relays.core.verdicts import Z95, VerdictLine

#: fewer armed legs than this say nothing
ARMED_LEGS = 3
#: part of the window per 10 legs by which peaks may rise
LIMIT = 0.01
#: above this many armed legs the slope is taken over equal runs of neighbours, each by its medians, so that the cost
#: stays the same after 10,000 legs; the ceiling is still judged leg by leg
POINTS = 400


@dataclass(frozen=True, slots=True)
class LegPeak:
    """A leg's highest resident tokens with what bounded it (all in tokens); ceiling or window 0 = not known."""

    number: int
    peak: int
    ceiling: int
    window: int
    largest_result: int
    armed: bool


@dataclass(frozen=True, slots=True)
class Slope:
    """Theil–Sen slope with Sen's 95 % interval; a bound is None where so few points cannot give one."""

    value: float
    low: float | None
    high: float | None


def theil_sen(points: Sequence[tuple[float, float]]) -> Slope:
    """The median of all pairwise slopes; its bounds by rank, from the variance of Kendall's S with ties in y.

    Needs at least two different x.
    """
    ordered = sorted(points)
    slopes = sorted(
        (second[1] - first[1]) / (second[0] - first[0])
        for place, first in enumerate(ordered)
        for second in ordered[place + 1 :]
        if second[0] != first[0]
    )
    if not slopes:
        raise ValueError("a slope needs two different positions")
    count = len(ordered)
    ties = Counter(y for _, y in ordered)
    variance = (
        count * (count - 1) * (2 * count + 5) - sum(many * (many - 1) * (2 * many + 5) for many in ties.values())
    ) / 18
    if variance <= 0:  # all y are equal: the slope is exactly 0
        return Slope(median(slopes), slopes[0], slopes[-1])
    rank = round((len(slopes) - Z95 * math.sqrt(variance)) / 2)
    if rank < 1:
        return Slope(median(slopes), None, None)
    return Slope(median(slopes), slopes[rank - 1], slopes[-rank])


def flat(peaks: Sequence[LegPeak]) -> VerdictLine:
    """Violated when a peak passes its ceiling by more than that leg's largest tool result, or when the slope's lower
    95 % bound over the armed legs is above 1 % of the window per 10 legs; fewer than 3 armed legs: not yet.
    """
    armed = sorted((leg for leg in peaks if leg.armed and leg.window > 0), key=lambda leg: leg.number)
    numbers: dict[str, object] = {
        "legs": len(peaks),
        "armed": len(armed),
        "peak": max((leg.peak for leg in peaks), default=None),
        "limit_per_10_legs": LIMIT,
        "slope_per_10_legs": None,
        "low_per_10_legs": None,
    }
    over = [leg for leg in peaks if leg.ceiling > 0 and leg.peak > leg.ceiling + leg.largest_result]
    if over:
        worst = max(over, key=lambda leg: leg.peak - leg.ceiling)
        numbers |= {"over": [leg.number for leg in over], "worst_leg": worst.number}
        return VerdictLine(
            "violated",
            phrase(
                "leg %(leg)s peaked at %(peak)s tokens, over its ceiling of %(ceiling)s "
                "by more than its largest tool result (%(largest)s)",
                leg=str(worst.number), peak=worst.peak, ceiling=worst.ceiling, largest=worst.largest_result,
            ),
            numbers,
        )  # fmt: skip
    if len(armed) < ARMED_LEGS:
        few = phrase("armed legs: %(n)s, %(least)s are needed", n=len(armed), least=ARMED_LEGS)
        return VerdictLine("not yet", few, numbers)
    slope = theil_sen(_thinned([(float(leg.number), leg.peak / leg.window) for leg in armed]))
    numbers["slope_per_10_legs"] = slope.value * 10
    numbers["low_per_10_legs"] = None if slope.low is None else slope.low * 10
    shown = phrase(
        "%(slope)s %% of the window per 10 legs over %(n)s armed legs",
        slope=Places(slope.value * 1000, 2),
        n=len(armed),
    )
    if slope.low is not None and slope.low * 10 > LIMIT:
        return VerdictLine("violated", phrase("peaks rise by %(slope)s, surely more than 1 %%", slope=shown), numbers)
    if slope.value * 10 <= LIMIT:
        return VerdictLine("holds", phrase("slope %(slope)s", slope=shown), numbers)
    # a steep slope beside "holds" must say why it is not yet a rise
    if slope.low is None:
        return VerdictLine("holds", phrase("slope %(slope)s: too few to tell it from chance", slope=shown), numbers)
    low = Places(slope.low * 1000, 2)
    chance = phrase("slope %(slope)s: its lower 95 %% bound is %(low)s %%, so it may be chance", slope=shown, low=low)
    return VerdictLine("holds", chance, numbers)


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    if len(points) <= POINTS:
        return points
    edges = [place * len(points) // POINTS for place in range(POINTS + 1)]
    runs = [points[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return [(median(x for x, _ in run), median(y for _, y in run)) for run in runs]
