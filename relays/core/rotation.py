"""Arm and fire: when a leg is told to rotate, how often a relay may, and where the window ends.

Mission: "Rotation is two-phase (arm, then fire) so it never lands mid-action", with hysteresis and a cap against
thrash, and a hard ceiling as the fail-closed backstop.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from relays.core.policy import Policy

#: the sliding window of the rotation cap; an entry of exactly this age is outside
CAP_WINDOW = timedelta(seconds=3600)


@dataclass(frozen=True, slots=True)
class AxisUse:
    """One axis of a leg: `used` of `cap` (tokens, turns, seconds or money) and its soft mark, 0 < mark <= 1.

    `used` is None where it is not known, and `cap` 0 where the axis is off: neither ever arms.
    """

    axis: str
    used: int | float | Decimal | None
    cap: int | float | Decimal
    mark: float

    def __post_init__(self) -> None:
        if not 0 < self.mark <= 1:
            raise ValueError(f"the mark of {self.axis} is {self.mark}: a policy refuses a mark outside (0, 1]")

    @property
    def fraction(self) -> float | None:
        """used / cap; None where one of them says nothing."""
        if self.used is None or self.cap <= 0 or self.used <= 0:
            return None
        if isinstance(self.used, Decimal) or isinstance(self.cap, Decimal):
            return float(Decimal(self.used) / Decimal(self.cap))
        return self.used / self.cap

    @property
    def crossed(self) -> bool:
        """Division form, so that 55 of 100 crosses a mark of 0.55."""
        fraction = self.fraction
        return fraction is not None and fraction >= self.mark


def axis_uses(
    policy: Policy,
    window: int,
    resident: int,
    turns: int,
    wall: timedelta,
    spend: Decimal | None,
    output: int,
) -> tuple[AxisUse, ...]:
    """The axes of a leg in their order of priority: context, turns, wall, spend, output.

    Axes without a limit are left out. `window` and `resident` in tokens; `turns`, `wall`, `spend` and `output` count
    from the leg's start. `spend` is what is priced (a lower bound where calls have no price), or None for not known.
    """
    leg, mark = policy.leg, policy.mark
    uses = [AxisUse("context", resident, window, context_mark(policy, window))]
    if leg.turns:
        uses.append(AxisUse("turns", turns, leg.turns, mark.turns))
    if leg.wall:
        uses.append(AxisUse("wall", wall.total_seconds(), leg.wall.total_seconds(), mark.wall))
    if leg.spend:
        uses.append(AxisUse("spend", spend, leg.spend, mark.spend))
    if leg.output_tokens:
        uses.append(AxisUse("output", output, leg.output_tokens, mark.output_tokens))
    return tuple(uses)


def context_mark(policy: Policy, window: int) -> float:
    """The soft mark as a part of the window: `mark.context`, or `mark.context_tokens` where that is lower."""
    absolute = policy.mark.context_tokens
    if absolute is None or window <= 0:
        return policy.mark.context
    return min(policy.mark.context, absolute / window)


def mark_tokens(policy: Policy, window: int) -> int:
    """The fewest resident tokens that arm."""
    mark = context_mark(policy, window)
    tokens = int(mark * window)
    while tokens / window < mark:
        tokens += 1
    while tokens > 1 and (tokens - 1) / window >= mark:
        tokens -= 1
    return max(tokens, 1)


def ceiling_tokens(policy: Policy, window: int) -> int:
    """The ceiling in whole tokens, rounded down; taken in decimals, so that 0.29 of 100 is 29."""
    return int(Decimal(repr(policy.ceiling)) * window)


def crossed(uses: Sequence[AxisUse]) -> AxisUse | None:
    """The first axis over its mark, in the order given (priority order), or None."""
    return next((use for use in uses if use.crossed), None)


def may_arm(armed_legs_before: int, progress_since_arm: int, min_progress: int) -> bool:
    """Hysteresis: the first arm of a relay is free, a later one needs verified progress since an earlier leg armed.

    `min_progress` 0 = off. Mission: "a leg must make some minimum verified progress before it is allowed to arm again".
    """
    return min_progress <= 0 or armed_legs_before <= 0 or progress_since_arm >= min_progress


def verified_total(closed: int, this_leg: int | None) -> int:
    """The relay's verified progress now: that of its `closed` legs and of the one that runs.

    `this_leg` None = the store did not answer: nothing more is shown than before. Where a leg arms, this is also the
    baseline that later progress is measured from, so that an answer that did not come moves nothing.
    """
    return closed + (this_leg or 0)


@dataclass(frozen=True, slots=True)
class CapVerdict:
    """Whether one more rotation is admitted: `used` of `limit` in the window (limit 0 = off).

    `next_at` is None when admitted, else the time at which the oldest rotation in the window leaves it.
    """

    admit: bool
    used: int
    limit: int
    next_at: datetime | None


def cap(entries: Sequence[datetime], now: datetime, per_hour: int) -> CapVerdict:
    """The rotation cap at `now`. `entries`: when successors were started after `RELAY_ROTATED`, in any order.

    A refused rotation is not an entry. An entry later than `now` (a clock that was set back) counts as inside.
    """
    inside = sorted(entry for entry in entries if now - entry < CAP_WINDOW)
    if per_hour <= 0 or len(inside) < per_hour:
        return CapVerdict(True, len(inside), max(per_hour, 0), None)
    return CapVerdict(False, len(inside), per_hour, inside[0] + CAP_WINDOW)


def ceiling_hit(resident: int, last_growth: int, output: int, new_results: int, ceiling_tokens: int) -> bool:
    """True when the next model call could pass the ceiling, so that none is let through. All in tokens.

    `output` is this call's output, `new_results` the tool results since. "Never blow the window to keep going."
    """
    return resident + max(last_growth, output + new_results) >= ceiling_tokens
