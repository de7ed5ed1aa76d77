"""How far the envelope reaches at the pace so far: legs and verified units of progress until an axis is spent.

Mission: budgets are carried over, never reset; an operator wants to know before they are gone. From stored spending per
ended leg only: with fewer than `ENOUGH` ended legs nothing is forecast, and an axis whose use is unknown (calls without
a price) has no forecast.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_FLOOR, Decimal
from typing import Final

from relays.core.budget import Spent, left
from relays.core.lines import recorded
from relays.core.policy import Envelope

#: ended legs without which no pace is known
ENOUGH: Final = 3


@dataclass(frozen=True, slots=True)
class Reach:
    """One limited axis. `limit`, `used`, `per_leg`: dollars, seconds of `wall`, else counts.

    `legs_left`: whole legs at that pace, None where the axis is not used up by legs; `progress_left`: verified units
    that those legs would bring at the rate so far, None where nothing was verified yet.
    """

    axis: str
    limit: Decimal
    used: Decimal
    per_leg: Decimal
    legs_left: int | None
    progress_left: int | None


def reach(envelope: Envelope, spent: Spent, ended: int, progress: int) -> tuple[tuple[Reach, ...], str]:
    """The limited axes, the one that ends first at the front, and why nothing can be said ("" where it can).

    `ended`: legs that ended; `progress`: verified units in all.
    """
    limited = [axis for axis in left(envelope, spent) if axis.limit is not None]
    if not limited:
        return (), recorded("no limit is set: the envelope has no axis")
    if ended < ENOUGH:
        return (), recorded("legs that ended: %(ended)s of %(enough)s", ended=ended, enough=ENOUGH)
    found: list[Reach] = []
    unknown: list[str] = []
    for axis in limited:
        if axis.axis == "spend" and spent.unpriced_calls:
            unknown.append(recorded("spend: some calls have no price"))
            continue
        limit, used = _number(axis.limit), _number(axis.used)
        pace = used / ended
        # multiplied first: a pace such as 2/3 is no whole number of digits, and a leg must not be lost to them
        legs = int(((limit - used) * ended / used).to_integral_value(ROUND_FLOOR)) if used > 0 else None
        units = None
        if progress and used > 0:
            units = int(((limit - used) * progress / used).to_integral_value(ROUND_FLOOR))
        found.append(Reach(axis.axis, limit, used, pace, max(0, legs) if legs is not None else None,
                           max(0, units) if units is not None else None))  # fmt: skip
    found.sort(key=lambda one: (one.legs_left is None, one.legs_left or 0))
    return tuple(found), "; ".join(unknown)


def soonest(found: Sequence[Reach]) -> Reach | None:
    """The axis that ends first."""
    return next((one for one in found if one.legs_left is not None), None)


def _number(value: object) -> Decimal:
    if isinstance(value, timedelta):
        return Decimal(value // timedelta(milliseconds=1)) / 1_000
    return Decimal(str(value if value is not None else 0))
