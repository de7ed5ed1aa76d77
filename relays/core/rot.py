"""The observed rot curve: how often tool calls fail against how full the window was, per model.

Cost, Charts: "tool-error rate against how full the window was (observed rot curve, with its confidence interval and
n)"; "What has no record reads 'not yet'". Counts only: nothing is fitted or smoothed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from relays.core.sentences import Places, Sentence, phrase
from relays.core.verdicts import VerdictLine, difference, wilson

TWENTIETHS: Final = 20  # bin 20 = the window was over-full
LEAST_IN_BIN: Final = 30
LEAST_IN_ALL: Final = 100


def twentieth(resident: int, window: int) -> int:
    """The bin of a call: twentieths of the window that were full, 0 to 19; 20 = at or over the window."""
    return min(resident * TWENTIETHS // window, TWENTIETHS)


@dataclass(frozen=True, slots=True)
class Bin:
    """Tool results that came while the window was `low` to `high` full (parts of it; `high` None = over-full).

    `rate`, `interval`: None below 30 results.
    """

    twentieth: int
    n: int
    errors: int
    rate: float | None
    interval: tuple[float, float] | None

    @property
    def low(self) -> float:
        return self.twentieth / TWENTIETHS

    @property
    def high(self) -> float | None:
        return None if self.twentieth >= TWENTIETHS else (self.twentieth + 1) / TWENTIETHS

    @property
    def said(self) -> Sentence:
        """`3.1 % of 420 (1.8–5.2 %)`, or `not yet: n = 12`."""
        if self.rate is None or self.interval is None:
            return phrase("not yet: n = %(n)s", n=self.n)
        rate, low, high = (Places(100 * part, 1) for part in (self.rate, *self.interval))
        return phrase("%(rate)s %% of %(n)s (%(low)s–%(high)s %%)", rate=rate, n=self.n, low=low, high=high)


@dataclass(frozen=True, slots=True)
class Curve:
    """One model's: only bins that have results; `verdict` compares emptier windows with fuller ones."""

    model: str
    bins: tuple[Bin, ...]
    n: int
    errors: int
    verdict: VerdictLine


def curve(model: str, counts: Mapping[int, tuple[int, int]]) -> Curve:
    """From twentieth -> (tool results, failures). Raises ValueError for counts that cannot be."""
    bins: list[Bin] = []
    for at in sorted(counts):
        n, errors = counts[at]
        if not 0 <= errors <= n or not 0 <= at <= TWENTIETHS:
            raise ValueError(f"bin {at} has {errors} failures of {n} results")
        if n:
            enough = n >= LEAST_IN_BIN
            bins.append(Bin(at, n, errors, errors / n if enough else None, wilson(errors, n) if enough else None))
    total, failed = sum(one.n for one in bins), sum(one.errors for one in bins)
    return Curve(model, tuple(bins), total, failed, _verdict(bins, total))


def _verdict(bins: Sequence[Bin], total: int) -> VerdictLine:
    """The emptier and the fuller part of the window, parted where the results are best halved.

    Violated when the 95 % interval of the difference of their rates lies above 0: worse beyond chance.
    """
    numbers: dict[str, object] = {"n": total}
    if total < LEAST_IN_ALL:
        few = phrase("%(n)s tool results, %(least)s are needed", n=total, least=LEAST_IN_ALL)
        return VerdictLine("not yet", few, numbers)
    below = [0]
    for one in bins:
        below.append(below[-1] + one.n)
    edge = min(range(len(below)), key=lambda at: (abs(2 * below[at] - total), at))
    n_low, n_high = below[edge], total - below[edge]
    numbers |= {"emptier_n": n_low, "fuller_n": n_high}
    if min(n_low, n_high) < LEAST_IN_BIN:
        return VerdictLine("not yet", phrase("the window was nearly always equally full"), numbers)
    low = sum(one.errors for one in bins[:edge])
    high = sum(one.errors for one in bins[edge:])
    least, most = difference(low, n_low, high, n_high)
    part = bins[edge].low
    numbers |= {"emptier": low / n_low, "fuller": high / n_high, "difference": [least, most], "parted_at": part}
    rates = phrase(
        "%(below)s/%(below_n)s below %(percent)s %% full, %(above)s/%(above_n)s above",
        below=low, below_n=n_low, percent=Places(100 * part, 0), above=high, above_n=n_high,
    )  # fmt: skip
    if least > 0:
        return VerdictLine(
            "violated", phrase("fuller windows fail more tool calls beyond chance: %(rates)s", rates=rates), numbers
        )
    return VerdictLine("holds", phrase("fuller windows are not worse beyond chance: %(rates)s", rates=rates), numbers)


def curves(rows: Iterable[tuple[str, int, int, int]]) -> list[Curve]:
    """One curve per model from (model, twentieth, results, failures) rows, added up; most results first."""
    counts: dict[str, dict[int, tuple[int, int]]] = {}
    for model, at, n, errors in rows:
        mine = counts.setdefault(model, {})
        before = mine.get(at, (0, 0))
        mine[at] = before[0] + n, before[1] + errors
    found = [curve(model, mine) for model, mine in counts.items()]
    return sorted(found, key=lambda one: (-one.n, one.model))
