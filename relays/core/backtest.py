"""How far the engine is to be believed: what it says of sessions that really compacted, beside what they really did.

Cost: "The engine is only believed as far as it predicts. For each imported session that really compacted, it predicts
the session's own cost and compaction points from the work stream before them"; "where its file lacks the compaction's
own call, that call is left out on both sides". Goal: "≤ 5 % median on cost, compaction count right in ≥ 90 %".
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from statistics import median
from typing import Final

from relays.core.baselines import Setting
from relays.core.carryover import Carried, Work, play
from relays.core.carryover_prices import EXACT, Prices

#: the goals
ERROR_GOAL: Final = 0.05
COUNT_GOAL: Final = 0.90


@dataclass(frozen=True, slots=True)
class Predicted:
    """One session, predicted by parameters that were learned without it, beside itself.

    `cost`, `predicted_cost`: of its main calls, in the unit of the prices; the summaries' own calls are in both or in
    neither (`own_calls`). `error`: (predicted - observed) / observed, None where nothing was paid. `points`: the calls
    after which it compacted, from 1.
    """

    cost: Decimal
    predicted_cost: Decimal
    points: tuple[int, ...]
    predicted_points: tuple[int, ...]
    own_calls: bool
    carried: Carried

    @property
    def error(self) -> float | None:
        if self.cost <= 0:
            return None
        return float(EXACT.divide(EXACT.subtract(self.predicted_cost, self.cost), self.cost))

    @property
    def count_right(self) -> bool:
        return len(self.points) == len(self.predicted_points)

    @property
    def off_by(self) -> tuple[int | None, ...]:
        """How many calls each observed point is from the nearest predicted one; None where none is predicted."""
        return tuple(
            min((abs(point - other) for other in self.predicted_points), default=None) for point in self.points
        )


def predict(
    work: Work,
    setting: Setting,
    prices: Prices | Sequence[Prices],
    cost: Decimal,
    points: Sequence[int],
    *,
    own_calls: bool = False,
) -> Predicted:
    """Play the session's work through compaction and put it beside what the session did.

    `work`: the stream without what the session's own compactions did to its window; what it read again after them is
    in it, so that `reread` of the setting must be 0 (or taken out of the stream). `cost`: of the same calls as the
    stream's. `own_calls`: the summaries' calls are in `cost`.
    """
    carried = play(work, setting.policy("compaction"), prices)
    money = carried.money if own_calls else EXACT.subtract(carried.money, carried.extra)
    return Predicted(cost, money, tuple(points), carried.events, own_calls, carried)


@dataclass(frozen=True, slots=True)
class Trust:
    """Over all sessions: the median absolute error and the part with the right count, None without a session."""

    sessions: int
    median_abs_error: float | None
    count_right: float | None

    @property
    def met(self) -> bool | None:
        """Whether both goals are; None without a session."""
        if self.median_abs_error is None or self.count_right is None:
            return None
        return self.median_abs_error <= ERROR_GOAL and self.count_right >= COUNT_GOAL


def trust(errors: Sequence[float | None], counts: Sequence[bool]) -> Trust:
    """Of each session its error (None = not priced, left out of the median) and whether its count was right."""
    known = [abs(error) for error in errors if error is not None]
    return Trust(
        len(counts), median(known) if known else None, sum(counts) / len(counts) if counts else None
    )  # fmt: skip
