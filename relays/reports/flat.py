"""The flat-context graph: resident tokens per turn over the whole goal, leg after leg.

Mission: the window "is bounded per leg, however long the goal runs". The graph can show that only if no peak is lost:
points are reduced by buckets that keep their minimum and their maximum, never by averages.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import Count, OuterRef, Subquery, Sum

from relays.core.vocabulary import Category, Reason, token
from relays.models import OPEN_GATES, Boundary, Call, Comparison, GateEpisode, Leg

POINTS = 4_000  # drawn at most
READ = 20_000  # turns that one page reads; beyond, each leg is drawn from its roll-ups
HOLD_MARKS = 600
GATES = 300  # newest episodes that are marked
TAIL = 200  # newest turns that a live page is given
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Point:
    """One turn: `x` = turn of the whole goal (from 1), `turn` = turn of its leg, `tokens` = resident at that turn.

    `buckets`: uncached input, cache read, cache writes; None where the leg is drawn from its roll-ups. `hold`: what
    held at the boundary after it.
    """

    x: int
    turn: int
    tokens: int
    buckets: tuple[int, int, int] | None = None
    hold: str = ""


@dataclass(frozen=True, slots=True)
class LegLine:
    """One leg as a line. `start` is the number of turns before it; token counts are 0 where nothing is recorded.

    `odd`: every second leg of those that are drawn, whichever of them are shown.
    """

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
    odd: bool = False

    @property
    def of_ceiling(self) -> float | None:
        """Peak as a part of the ceiling in percent; None without a ceiling."""
        return 100 * self.peak / self.ceiling if self.ceiling else None


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened on the event lane: the end of a leg, a boundary that was held, a gate or an ask.

    `gate`: the episode that it leads to; `waits`: a person is still to decide it. `turn`: of the leg, where one is
    known.
    """

    x: int
    leg: int
    token: str
    tone: str
    shape: str
    held: bool
    turn: int | None = None
    gate: int | None = None
    waits: bool = False
    state: str = ""


@dataclass(frozen=True, slots=True)
class Base:
    """The window of the baseline over the same work (SIMULATED), as the carry-over engine stored it.

    Its calls are laid over the goal's turns in proportion: the same place is the same work done.
    """

    policy: str
    points: tuple[tuple[float, int], ...]
    events: tuple[float, ...]
    peak: int


@dataclass(frozen=True, slots=True)
class Flat:
    """What the graph draws. `from_rollups`: too many turns to read, so each leg is its peak and its last turn.

    `focus`: the leg that is zoomed into, alone in `legs`; `previous` and `next`: its neighbours. `turns` and `all_legs`
    are of the whole goal. `key`: what a live page compares; while it stays, new turns only lengthen the newest line.
    """

    legs: tuple[LegLine, ...]
    marks: tuple[Mark, ...]
    turns: int
    read: int
    drawn: int
    from_rollups: bool
    scripted: bool
    base: Base | None = None
    focus: int | None = None
    previous: int | None = None
    next: int | None = None
    all_legs: int = 0
    running: bool = False
    key: str = ""

    @property
    def window(self) -> int:
        return max((leg.window for leg in self.legs), default=0)

    @property
    def peak(self) -> LegLine | None:
        """The leg with the highest peak."""
        return max(self.legs, key=lambda leg: leg.peak, default=None)


@dataclass(frozen=True, slots=True)
class Tail:
    """The newest turns, for pages that have the others: `points` in their order, with the holds after them."""

    key: str
    turns: int
    leg: int | None
    odd: bool
    points: tuple[Point, ...]
    holds: tuple[Mark, ...]


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


def flat(relay_id: str, leg: int | None = None) -> Flat:
    """The graph of one relay, or of one of its legs in full: five queries, three where it is drawn from roll-ups.

    An unknown `leg` is the whole goal.
    """
    legs = _legs(relay_id)
    index = {one["number"]: at for at, one in enumerate(legs)}
    focus = leg if leg in index else None
    total = sum(one["turns"] for one in legs)
    shown = [legs[index[focus]]] if focus is not None else legs
    too_many = sum(one["turns"] for one in shown) > READ
    held = [] if too_many else _held(relay_id, focus)
    said = {(number, turn): hold for number, turn, hold in held}
    read = {} if too_many else _calls(relay_id, focus)
    starts: dict[int, int] = {}
    x = 0
    for one in legs:
        starts[one["number"]] = x
        x += one["turns"]
    lines = [_points(one, starts[one["number"]], read.get(one["number"], []), said) for one in shown]
    drawn = spread(lines)
    rows = tuple(
        LegLine(
            number=one["number"], start=starts[one["number"]], turns=one["turns"],
            first=line[0].tokens if line and not too_many else None, peak=one["peak_tokens"],
            peak_turn=one["peak_turn"], mark=one["mark_tokens"], ceiling=one["ceiling_tokens"],
            window=one["window_tokens"], reason=one["reason"], parked=_parked(one["reason"]), points=tuple(points),
            odd=bool(index[one["number"]] % 2),
        )
        for one, line, points in zip(shown, lines, drawn, strict=True)
    )  # fmt: skip
    gates = _gates(relay_id)
    ends = [(one["number"], starts[one["number"]] + one["turns"], one["turns"], one["reason"]) for one in shown]
    ended = list(_ends(ends, gates))
    # of thousands of quiet rotations some stand for all; whatever else ended a leg is marked
    quiet = _thinned([mark for mark in ended if mark.token == Reason.ROTATED])
    loud = [mark for mark in ended if mark.token != Reason.ROTATED]
    marks = (*quiet, *loud, *_thinned(_holds(held, starts)), *_asks(gates, ends, starts))
    at = index[focus] if focus is not None else 0
    return Flat(
        legs=rows,
        marks=marks,
        turns=total,
        read=sum(len(line) for line in lines),
        drawn=sum(len(points) for points in drawn),
        from_rollups=too_many,
        scripted=any(one["scripted"] for one in shown),
        base=_base(relay_id, rows[0] if focus is not None else None),
        focus=focus,
        previous=legs[at - 1]["number"] if focus is not None and at else None,
        next=legs[at + 1]["number"] if focus is not None and at + 1 < len(legs) else None,
        all_legs=len(legs),
        running=bool(legs and not legs[-1]["reason"]),
        key=_key(len(legs), legs[-1] if legs else None, gates),
    )


_COLUMNS = (
    "id", "number", "turns", "peak_tokens", "peak_turn", "resident_tokens", "mark_tokens", "ceiling_tokens",
    "window_tokens", "reason", "scripted", "advisory",
)  # fmt: skip
_CALL = ("leg__number", "turn", "resident_tokens", "input_tokens", "cache_read", "cache_write_5m", "cache_write_1h")


def _legs(relay_id: str) -> list[dict[str, Any]]:
    return list(Leg.objects.filter(relay_id=relay_id, turns__gt=0).order_by("number").values(*_COLUMNS))


def tail(relay_id: str) -> Tail:
    """What a live page adds to the graph that it has: five queries, whatever the number of legs and turns."""
    before = Leg.objects.filter(relay_id=relay_id, turns__gt=0)
    newest = before.order_by("-number").values(*_COLUMNS).first()
    sums = before.aggregate(turns=Sum("turns"), legs=Count("id"))
    gates = _gates(relay_id)
    if newest is None:
        return Tail(_key(0, None, gates), 0, None, False, (), ())
    start = sums["turns"] - newest["turns"]
    number, since = newest["number"], max(0, newest["turns"] - TAIL)
    held = list(
        Boundary.objects.filter(leg_id=newest["id"], turn__gt=since)
        .exclude(hold="")
        .order_by("number")
        .values_list("leg__number", "turn", "hold")
    )
    calls = Call.objects.filter(leg_id=newest["id"], turn__gt=since, main=True).order_by("turn", "id")
    read = [(row[1], row[2], (row[3], row[4], row[5] + row[6])) for row in calls.values_list(*_CALL)]
    points = _points(newest, start, read, {(number, turn): hold for _, turn, hold in held}) if read else []
    return Tail(
        key=_key(sums["legs"], newest, gates), turns=sums["turns"], leg=number, odd=not sums["legs"] % 2,
        points=tuple(points), holds=tuple(_holds(held, {number: start})),
    )  # fmt: skip


def turns_csv(relay_id: str) -> Iterable[tuple[object, ...]]:
    """Every turn with its leg, tokens by bucket and hold, streamed row by row; the first row names the columns."""
    yield (
        "leg", "turn of leg", "resident tokens", "model", "hold", "answer", "uncached input", "cache read",
        "cache writes", "output",
    )  # fmt: skip
    held = {
        (number, turn): (hold, answer)
        for number, turn, hold, answer in Boundary.objects.filter(leg__relay_id=relay_id)
        .order_by("leg__number", "number")
        .values_list("leg__number", "turn", "hold", "answer")
    }
    calls = Call.objects.filter(leg__relay_id=relay_id, main=True).order_by("leg__number", "turn", "id")
    for number, turn, tokens, fresh, read, short, long, model, output in calls.values_list(
        *_CALL, "model", "output_tokens"
    ).iterator():
        yield (number, turn, tokens, model, *held.get((number, turn), ("", "")), fresh, read, short + long, output)


Called = tuple[int, int, tuple[int, int, int] | None]


def _calls(relay_id: str, focus: int | None) -> dict[int, list[Called]]:
    read: dict[int, list[Called]] = {}
    wanted = Call.objects.filter(leg__relay_id=relay_id, main=True)
    if focus is not None:
        wanted = wanted.filter(leg__number=focus)
    for number, turn, tokens, fresh, cached, short, long in wanted.order_by("leg__number", "turn", "id").values_list(
        *_CALL
    ):
        read.setdefault(number, []).append((turn, tokens, (fresh, cached, short + long)))
    return read


def _points(
    leg: Mapping[str, Any], start: int, calls: Sequence[Called], held: Mapping[tuple[int, int], str]
) -> list[Point]:
    if not calls:  # roll-ups: the peak where it was, and the last turn
        ends: list[Called] = [
            (leg["peak_turn"] or leg["turns"], leg["peak_tokens"], None),
            (leg["turns"], leg["resident_tokens"], None),
        ]
        calls = ends[:1] if ends[0][0] >= ends[1][0] else ends
    number = leg["number"]
    return [Point(start + turn, turn, tokens, buckets, held.get((number, turn), "")) for turn, tokens, buckets in calls]


def _parked(reason: str) -> bool:
    return token(reason).category is Category.OPERATOR_GATE if reason else False


Ended = tuple[int, int, int, str]  # leg, x of its last turn, its turns, its reason


def _ends(legs: Iterable[Ended], gates: Sequence[Mapping[str, Any]]) -> Iterable[Mark]:
    """A stop that became a gate leads there; one leg opens at most one episode of its own reason."""
    opened = {(gate["leg__number"], gate["token"]): gate for gate in gates}
    for number, x, turns, reason in legs:
        if reason:
            word = token(reason)
            gate = opened.get((number, reason))
            yield Mark(
                x, number, reason, word.tone, word.shape, held=False, turn=turns, gate=gate["id"] if gate else None,
                waits=bool(gate and gate["state"] in OPEN_GATES), state=gate["state"] if gate else "",
            )  # fmt: skip


def _held(relay_id: str, focus: int | None) -> list[tuple[int, int, str]]:
    wanted = Boundary.objects.filter(leg__relay_id=relay_id).exclude(hold="")
    if focus is not None:
        wanted = wanted.filter(leg__number=focus)
    return list(wanted.order_by("leg__number", "number").values_list("leg__number", "turn", "hold")[: READ * 2])


def _holds(rows: Iterable[tuple[int, int, str]], starts: Mapping[int, int]) -> list[Mark]:
    marks = []
    for number, turn, hold in rows:
        word = token(hold)
        marks.append(Mark(starts.get(number, 0) + turn, number, hold, word.tone, word.shape, held=True, turn=turn))
    return marks


def _thinned(marks: Sequence[Mark]) -> Sequence[Mark]:
    step = -(-len(marks) // HOLD_MARKS) or 1  # marks one beside the other look the same as marks on each other
    return marks[::step]


def _gates(relay_id: str) -> list[dict[str, Any]]:
    """The newest episodes with the turn of their leg at which they opened; one query."""
    turn = Call.objects.filter(leg=OuterRef("leg"), main=True, at__lte=OuterRef("opened_at")).order_by("-turn")
    found = (
        GateEpisode.objects.filter(relay_id=relay_id)
        .order_by("-opened_at", "-id")
        .annotate(turn=Subquery(turn.values("turn")[:1]))
        .values("id", "leg__number", "token", "state", "turn")[:GATES]
    )
    return [dict(one) for one in found][::-1]


def _asks(gates: Iterable[Mapping[str, Any]], legs: Sequence[Ended], starts: Mapping[int, int]) -> Iterable[Mark]:
    """Episodes that are not the end of their leg: what was asked, at the turn at which it was."""
    reasons = {number: reason for number, _, _, reason in legs}
    for gate in gates:
        number = gate["leg__number"]
        if number not in reasons or reasons[number] == gate["token"]:
            continue
        word = token(gate["token"])
        turn = gate["turn"] or 1
        yield Mark(
            starts[number] + turn, number, gate["token"], word.tone, word.shape, held=False, turn=turn,
            gate=gate["id"], waits=gate["state"] in OPEN_GATES, state=gate["state"],
        )  # fmt: skip


def _key(legs: int, newest: Mapping[str, Any] | None, gates: Sequence[Mapping[str, Any]]) -> str:
    """Changes whenever more than the newest line does: another leg, an end, a gate, another limit."""
    last = newest or {}
    parts = [
        legs, *(last.get(name) for name in ("number", "reason", "mark_tokens", "ceiling_tokens", "window_tokens")),
        [(gate["id"], gate["state"]) for gate in gates],
    ]  # fmt: skip
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _base(relay_id: str, only: LegLine | None) -> Base | None:
    """The stored window of the baseline that the verdict is about, cut to one leg; None = not yet."""
    stored = Comparison.objects.filter(relay_id=relay_id).values_list("residency", flat=True).first()
    if not isinstance(stored, Mapping) or not stored.get("points"):
        return None
    calls, before = int(stored["calls"]), int(stored["before"])
    scale = (int(stored["turns"]) - before) / calls
    points = [(round(before + call * scale, 2), int(tokens)) for call, tokens in stored["points"]]
    events = [round(before + call * scale, 2) for call in stored["events"]]
    if only is not None:
        low, high = only.start, only.start + only.turns + 1
        points = [point for point in points if low <= point[0] <= high]
        events = [at for at in events if low <= at <= high]
    return Base(str(stored["policy"]), tuple(points), tuple(events), int(stored["peak"]))
