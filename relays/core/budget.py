"""The relay's envelope: what is left of it, which axis is spent, and when to warn.

Mission: "Budgets do not reset accidentally. Token, turn, context, clarification-query, and wall-clock budgets move
forward across a hidden reset." Nothing here adds to a budget: 0 left is spent, never "no budget", and a call without
a price makes the money unknown, never free.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TypeVar

from relays.core.policy import Envelope
from relays.core.vocabulary import StopReason

Amount = int | Decimal | timedelta

#: axis -> the reason that it stops a relay with; in this order, spend first: "when several end at once spend wins"
STOP_REASONS: dict[str, StopReason] = {
    "spend": StopReason.SPEND,
    "turns": StopReason.TURNS,
    "output_tokens": StopReason.TOKENS,
    "wall": StopReason.TIME,
    "legs": StopReason.LEGS,
    "queries": StopReason.QUERIES,
}
_EXAMPLES = {"spend": "20", "turns": "400", "output_tokens": "2000000", "wall": "12h", "legs": "40", "queries": "20"}


def limit_example(items: Collection[str]) -> str:
    """How new limits are written, for the axes that `items` (an episode's lines) name as spent."""
    axes = [axis for axis, reason in STOP_REASONS.items() if reason in items] or ["turns"]
    return " ".join(f"envelope.{axis}={_EXAMPLES[axis]}" for axis in axes)


@dataclass(frozen=True, slots=True)
class Spent:
    """What a relay has used over all its legs. `spend` is what is priced; `unpriced_calls` are beside it.

    `wall` is running time over restarts, without pauses and waiting. `legs` counts a leg from `running` on.
    """

    turns: int = 0
    output_tokens: int = 0
    spend: Decimal = Decimal(0)
    unpriced_calls: int = 0
    wall: timedelta = timedelta(0)
    legs: int = 0
    queries: int = 0


@dataclass(frozen=True, slots=True)
class AxisLeft:
    """One axis. `left` None: there is no limit (`limit` None too) or it is not known (`unknown`); never negative.

    Where `unknown`, `used` is what is priced: a lower bound.
    """

    axis: str
    limit: Amount | None
    used: Amount
    left: Amount | None
    unknown: bool = False

    @property
    def spent(self) -> bool:
        """At or over its limit for certain; a known lower bound at the limit is certain enough."""
        return self.limit is not None and _reaches(self.used, self.limit)

    @property
    def low(self) -> bool:
        """Under a fifth for certain."""
        return self.limit is not None and (
            self.spent or _reaches(_times(self.used, 5), _times(self.limit, 4), over=True)
        )

    @property
    def plain(self) -> dict[str, object]:
        """As JSON: money as text, wall in seconds, None as null."""
        return {
            "limit": _plain(self.limit),
            "used": _plain(self.used),
            "left": _plain(self.left),
            "unknown": self.unknown,
        }


def left(envelope: Envelope, spent: Spent) -> tuple[AxisLeft, ...]:
    """All six axes, spend first."""
    unknown = spent.unpriced_calls > 0
    return (
        _left("spend", envelope.spend, spent.spend, Decimal(0), unknown=unknown),
        _left("turns", envelope.turns, spent.turns, 0),
        _left("output_tokens", envelope.output_tokens, spent.output_tokens, 0),
        _left("wall", envelope.wall, spent.wall, timedelta(0)),
        _left("legs", envelope.legs, spent.legs, 0),
        _left("queries", envelope.queries, spent.queries, 0),
    )


def exhausted(envelope: Envelope, spent: Spent) -> tuple[StopReason, ...]:
    """The axes at or over their limit, spend first. A limit of 0 is spent from the start."""
    return tuple(STOP_REASONS[axis.axis] for axis in left(envelope, spent) if axis.spent)


def drains(envelope: Envelope, spent: Spent) -> tuple[StopReason, ...]:
    """Those that end a running leg: the last leg of the budget runs its course, and a spent query is refused."""
    over = spent.legs > envelope.legs if envelope.legs is not None else False
    return tuple(
        reason
        for reason in exhausted(envelope, spent)
        if reason is not StopReason.QUERIES and (reason is not StopReason.LEGS or over)
    )


def forbids_leg(envelope: Envelope, spent: Spent) -> tuple[StopReason, ...]:
    """Those that forbid a further leg: all but queries, which only refuse the question."""
    return tuple(reason for reason in exhausted(envelope, spent) if reason is not StopReason.QUERIES)


def refuses_query(envelope: Envelope, spent: Spent) -> bool:
    """Whether the budget of clarification queries is spent, so that a further question is refused."""
    return StopReason.QUERIES in exhausted(envelope, spent)


def spend_unknown(envelope: Envelope, spent: Spent) -> bool:
    """True when money is limited, some calls have no price, and what is priced is below the limit: asked once."""
    return envelope.spend is not None and spent.unpriced_calls > 0 and spent.spend < envelope.spend


def newly_low(envelope: Envelope, spent: Spent, warned: Collection[str]) -> tuple[str, ...]:
    """Axes that fell under a fifth and are not in `warned`: "one warning when an axis first falls under a fifth"."""
    return tuple(axis.axis for axis in left(envelope, spent) if axis.low and axis.axis not in warned)


def rearm(envelope: Envelope, spent: Spent) -> dict[str, dict[str, object]]:
    """The reset transaction's `budget re-arm per axis`, as JSON: money as text, wall in seconds, None as null."""
    return {axis.axis: axis.plain for axis in left(envelope, spent)}


A = TypeVar("A", int, Decimal, timedelta)


def _left(axis: str, limit: A | None, used: A, zero: A, *, unknown: bool = False) -> AxisLeft:
    if limit is None:
        return AxisLeft(axis, None, used, None, unknown)
    if unknown and used < limit:
        return AxisLeft(axis, limit, used, None, True)
    return AxisLeft(axis, limit, used, max(zero, limit - used), unknown)


def _scalar(amount: Amount) -> Decimal:
    if isinstance(amount, timedelta):
        return Decimal(amount // timedelta(microseconds=1))
    return Decimal(amount)


def _times(amount: Amount, factor: int) -> Decimal:
    return _scalar(amount) * factor


def _reaches(used: Amount, limit: Amount, *, over: bool = False) -> bool:
    have, need = _scalar(used), _scalar(limit)
    return have > need if over else have >= need


def _plain(amount: Amount | None) -> object:
    if isinstance(amount, timedelta):
        return amount.total_seconds()
    return format(amount, "f") if isinstance(amount, Decimal) else amount
