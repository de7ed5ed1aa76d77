"""The tables of one cost page as rows, the first of them the names of the columns; money exact, not rounded."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from relays.reports.cost import CostPage

Rows = Iterable[tuple[object, ...]]


def ways(page: CostPage) -> Rows:
    yield (
        "policy", "provenance", "money", "money per verified unit", "band low", "band high", "peak tokens", "events",
        "cache-bust tokens", "hit rate", "window full at call", "unpriced calls",
    )  # fmt: skip
    for one in page.ways:
        yield (
            one.name, one.provenance, one.cost, one.per_unit, one.band[0] if one.band else None,
            one.band[1] if one.band else None, one.peak, one.events, one.bust, one.hit_rate, one.exceeded_at,
            page.data.observed.unpriced if one.own else None,
        )  # fmt: skip


def cumulative(page: CostPage) -> Rows:
    """Every point that is kept."""
    data = page.data.series
    yield ("call", f"{page.subject.own}, OBSERVED", f"{page.subject.base}, SIMULATED", "band low", "band high")
    for nth, call in enumerate(data.x):
        lines = (data.observed, data.base, data.low, data.high)
        yield (call, *(line[nth] if line else None for line in lines))


def legs(page: CostPage) -> Rows:
    yield (
        "leg",
        "calls",
        "uncached input",
        "cache read",
        "cache write",
        "output",
        "money",
        "unpriced calls",
        "peak tokens",
    )
    for one in page.data.legs:
        yield (
            one.name, one.calls, one.input, one.cache_read, one.cache_write, one.output, one.total, one.unpriced,
            one.peak,
        )  # fmt: skip


def busts(page: CostPage) -> Rows:
    yield ("boundary", "ended leg", "after its call", "tokens written again")
    for nth, one in enumerate(page.data.busts, start=1):
        yield (nth, one.leg, one.turn, one.tokens)


def parameters(page: CostPage) -> Rows:
    yield ("parameter", "value", "unit", "range", "provenance", "source")
    for one in page.parameters:
        yield (one.words, one.shown, one.unit, one.range, one.provenance, one.source)


def sensitivity(page: CostPage) -> Rows:
    yield ("parameter", "range", "saved at its low end", "saved at its high end", "verdict turns at")
    for one in page.sensitivity:
        yield (one.words, one.range, one.saving_low, one.saving_high, one.turns_at or None)


TABLES: Final[Mapping[str, Callable[[CostPage], Rows]]] = {
    "ways": ways,
    "cumulative": cumulative,
    "legs": legs,
    "busts": busts,
    "parameters": parameters,
    "sensitivity": sensitivity,
}
