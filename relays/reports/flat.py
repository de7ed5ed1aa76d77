"""The flat-context graph: resident tokens per turn over the whole goal, leg after leg.

Mission: the window "is bounded per leg, however long the goal runs". The graph can show that only if no peak is lost:
points are reduced by buckets that keep their minimum and their maximum, never by averages.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from relays.core.vocabulary import Category, token
from relays.models import Boundary, Call, Leg

POINTS = 4_000  # drawn at most
READ = 20_000  # turns that one page reads; beyond, each leg is drawn from its roll-ups
HOLD_MARKS = 600
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Point:
    """One turn: `x` = turn of the whole goal (from 1), `turn` = turn of its leg, `tokens` = resident at that turn."""

    x: int
    turn: int
    tokens: int


@dataclass(frozen=True, slots=True)
class LegLine:
    """One leg as a line. `start` is the number of turns before it; token counts are 0 where nothing is recorded."""

    number: int
    start: int
    turns: int
    first: int | None
    peak: int
    peak_turn: int
    mark: int
    ceiling: int
    window: int
    reason: str
    parked: bool
    points: tuple[Point, ...]

    @property
    def of_ceiling(self) -> float | None:
        """Peak as a part of the ceiling in percent; None without a ceiling."""
        return 100 * self.peak / self.ceiling if self.ceiling else None


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened on the event lane: the end of a leg, or a boundary that was held."""

    x: int
    leg: int
    token: str
    tone: str
    shape: str
    held: bool


@dataclass(frozen=True, slots=True)
class Flat:
    """What the graph draws. `from_rollups`: too many turns to read, so each leg is its peak and its last turn."""

    legs: tuple[LegLine, ...]
    marks: tuple[Mark, ...]
    turns: int
    read: int
    drawn: int
    from_rollups: bool
    scripted: bool

    @property
    def window(self) -> int:
        return max((leg.window for leg in self.legs), default=0)

    @property
    def peak(self) -> LegLine | None:
        """The leg with the highest peak."""
        return max(self.legs, key=lambda leg: leg.peak, default=None)


def reduced(items: Sequence[T], values: Sequence[int], limit: int) -> list[T]:
    """At most `limit` (≥ 4) of `items` in their order: both ends, and each bucket's smallest and largest value.

    Buckets are equal runs of neighbours. Nothing is made up: every item returned is one that was given.
    """
    if len(items) <= limit:
        return list(items)
    buckets = (limit - 2) // 2
    keep = {0, len(items) - 1}
    for bucket in range(buckets):
        low, high = bucket * len(items) // buckets, (bucket + 1) * len(items) // buckets
        keep.add(min(range(low, high), key=values.__getitem__))
        keep.add(max(range(low, high), key=values.__getitem__))
    return [items[index] for index in sorted(keep)]


def spread(lines: Sequence[Sequence[Point]], limit: int = POINTS) -> list[list[Point]]:
    """The points of each leg, at most `limit` in all; a leg keeps its own peak wherever there is room for that."""
    total = sum(len(points) for points in lines)
    if total <= limit:
        return [list(points) for points in lines]
    if len(lines) * 8 <= limit:
        room = limit - 4 * len(lines)
        return [_line(points, 4 + room * len(points) // total) for points in lines]
    flat = [(number, point) for number, points in enumerate(lines) for point in points]
    out: list[list[Point]] = [[] for _ in lines]
    for number, point in reduced(flat, [point.tokens for _, point in flat], limit):
        out[number].append(point)
    return out


def _line(points: Sequence[Point], limit: int) -> list[Point]:
    return reduced(points, [point.tokens for point in points], limit)


def flat(relay_id: str) -> Flat:
    """The graph of one relay, in three queries, one where it is drawn from roll-ups."""
    legs = list(
        Leg.objects.filter(relay_id=relay_id, turns__gt=0)
        .order_by("number")
        .values(
            "id", "number", "turns", "peak_tokens", "peak_turn", "resident_tokens", "mark_tokens", "ceiling_tokens",
            "window_tokens", "reason", "scripted", "advisory",
        )
    )  # fmt: skip
    too_many = sum(leg["turns"] for leg in legs) > READ
    read = {} if too_many else _calls(relay_id)
    starts, lines, x = [], [], 0
    for leg in legs:
        starts.append(x)
        lines.append(_points(leg, x, read.get(leg["number"], [])))
        x += leg["turns"]
    drawn = spread(lines)
    rows = tuple(
        LegLine(
            number=leg["number"], start=start, turns=leg["turns"],
            first=line[0].tokens if line and not too_many else None, peak=leg["peak_tokens"],
            peak_turn=leg["peak_turn"], mark=leg["mark_tokens"], ceiling=leg["ceiling_tokens"],
            window=leg["window_tokens"], reason=leg["reason"], parked=_parked(leg["reason"]), points=tuple(points),
        )
        for leg, start, line, points in zip(legs, starts, lines, drawn, strict=True)
    )  # fmt: skip
    held = [] if too_many else _holds(relay_id, dict(zip((leg["number"] for leg in legs), starts, strict=True)))
    return Flat(
        legs=rows,
        marks=(*_ends(rows), *held),
        turns=x,
        read=sum(len(line) for line in lines),
        drawn=sum(len(points) for points in drawn),
        from_rollups=too_many,
        scripted=any(leg["scripted"] for leg in legs),
    )


def turns_csv(relay_id: str) -> Iterable[tuple[object, ...]]:
    """Every turn with its leg, resident tokens and hold, streamed row by row; the first row names the columns."""
    yield ("leg", "turn of leg", "resident tokens", "model", "hold", "answer")
    held = {
        (number, turn): (hold, answer)
        for number, turn, hold, answer in Boundary.objects.filter(leg__relay_id=relay_id)
        .order_by("leg__number", "number")
        .values_list("leg__number", "turn", "hold", "answer")
    }
    calls = Call.objects.filter(leg__relay_id=relay_id, main=True).order_by("leg__number", "turn", "id")
    for number, turn, tokens, model in calls.values_list("leg__number", "turn", "resident_tokens", "model").iterator():
        yield (number, turn, tokens, model, *held.get((number, turn), ("", "")))


def _calls(relay_id: str) -> dict[int, list[tuple[int, int]]]:
    read: dict[int, list[tuple[int, int]]] = {}
    rows = Call.objects.filter(leg__relay_id=relay_id, main=True).order_by("leg__number", "turn", "id")
    for number, turn, tokens in rows.values_list("leg__number", "turn", "resident_tokens"):
        read.setdefault(number, []).append((turn, tokens))
    return read


def _points(leg: Mapping[str, Any], start: int, calls: Sequence[tuple[int, int]]) -> list[Point]:
    if not calls:  # roll-ups: the peak where it was, and the last turn
        calls = [(leg["peak_turn"] or leg["turns"], leg["peak_tokens"]), (leg["turns"], leg["resident_tokens"])]
        calls = calls[:1] if calls[0][0] >= calls[1][0] else calls
    return [Point(start + turn, turn, tokens) for turn, tokens in calls]


def _parked(reason: str) -> bool:
    return token(reason).category is Category.OPERATOR_GATE if reason else False


def _ends(legs: Iterable[LegLine]) -> Iterable[Mark]:
    for leg in legs:
        if leg.reason:
            word = token(leg.reason)
            yield Mark(leg.start + leg.turns, leg.number, leg.reason, word.tone, word.shape, held=False)


def _holds(relay_id: str, starts: dict[int, int]) -> list[Mark]:
    rows = (
        Boundary.objects.filter(leg__relay_id=relay_id)
        .exclude(hold="")
        .order_by("leg__number", "number")
        .values_list("leg__number", "turn", "hold")[: READ * 2]
    )
    marks = []
    for number, turn, hold in rows:
        word = token(hold)
        marks.append(Mark(starts.get(number, 0) + turn, number, hold, word.tone, word.shape, held=True))
    step = -(-len(marks) // HOLD_MARKS) or 1  # marks one beside the other look the same as marks on each other
    return marks[::step]
