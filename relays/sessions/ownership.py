"""Which of several rows of the same call or boundary counts. Pure: depends on the rows alone, never on their order.

sessions.md, dedup rule: "Per key: field-wise max"; "Attribute a key to the session/file that saw it first …, other
files get 'inherited'". Cost: "One API call counts once".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from decimal import Decimal
from operator import attrgetter
from typing import Final

import orjson

from relays.core.usage import Buckets

#: (says of itself that it is a copy, first time, id, agent): the smaller one made the call first
Rank = tuple[bool, str, str, str]
#: after every time
NEVER: Final = "9999"

_CHAINS: Final = {"main": 0, "aux": 1, "sub": 2}
#: what a file says of its own rows and what keeps them from counting
NOT_OWN: Final = frozenset(("replay", "estimated"))
INHERITED: Final = "inherited"


@dataclass(slots=True)
class Row:
    """A row of a call: as its file shows it, with what all rows of its key share. `pk` 0 = not stored yet."""

    pk: int
    source: int
    session: int
    key: str
    line: int
    chain: str
    agent_id: str
    model: str
    at: str
    input: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int
    output: int
    reasoning: int
    lower_bound: bool
    window: int | None
    vector: str
    turn: str
    tools: int
    tool_errors: int
    fill: str
    claimed: str
    reported_cost: Decimal | None
    resident: int = 0
    copied: str = ""
    shown: bool = True
    counts: bool = True
    cost: Decimal | float | None = None
    price: int | None = None

    @property
    def buckets(self) -> Buckets:
        return Buckets(self.input, self.cache_read, self.cache_write_5m, self.cache_write_1h, self.output)


#: the fields of a row in their order: what `dataclasses.astuple` gives, without copying each value
values: Final = attrgetter(*(one.name for one in fields(Row)))

#: the fields of which all rows of a key carry the largest
_COUNTS: Final = (
    "input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning", "tools", "tool_errors",
)  # fmt: skip
_counts: Final = attrgetter(*_COUNTS)


def merge(known: Row, again: Row) -> None:
    """The same call in the same file once more: `known` takes the field-wise maximum and the first line."""
    first = again if again.line < known.line else known
    other = known if first is again else again
    known.model = first.model or other.model
    known.line = first.line
    known.agent_id = max(known.agent_id, again.agent_id)
    known.at = min(filter(None, (known.at, again.at)), default="")
    known.window = max(filter(None, (known.window, again.window)), default=None)
    known.vector = max(known.vector, again.vector)
    known.turn = max(known.turn, again.turn)
    known.claimed = first.claimed and other.claimed
    if known.fill != again.fill:
        known.fill = _merge_fill(known.fill, again.fill)
    known.reported_cost = max(filter(None, (known.reported_cost, again.reported_cost)), default=None)
    _join((known, again))


def settle(rows: Sequence[Row], ranks: Mapping[int, Rank], paths: Mapping[int, str]) -> None:
    """All rows of ONE key: they get the same maximum, and of them exactly one counts, unless all are repetitions.

    `shown` is the first row of each session; `copied` says why a session's rows do not count.
    """
    if len(rows) == 1:
        row = rows[0]
        row.shown = True
        row.copied = row.claimed
        row.counts = row.claimed not in NOT_OWN
        row.resident = _resident(row)
        return
    _join(rows)
    ordered = sorted(rows, key=lambda row: (*ranks[row.session], paths[row.source], row.line))
    owner = next((row.session for row in ordered if row.claimed not in NOT_OWN), None)
    shown: set[int] = set()
    counted = False
    for row in ordered:
        row.resident = _resident(row)
        row.shown = row.session not in shown
        shown.add(row.session)
        if row.claimed in NOT_OWN:
            row.copied, row.counts = row.claimed, False
        elif row.session == owner:
            row.copied, row.counts = "", not counted
            counted = True
        else:
            row.copied, row.counts = INHERITED, False


def _resident(row: Row) -> int:
    if row.chain != "main":
        return 0
    return row.input + row.cache_read + row.cache_write_5m + row.cache_write_1h


def _join(rows: Iterable[Row]) -> None:
    rows = tuple(rows)
    chain = min((row.chain for row in rows), key=_CHAINS.__getitem__)
    most = [max(column) for column in zip(*map(_counts, rows), strict=True)]
    # one amount whose split a row may not know: see `relays.core.usage.merge_max`
    written = max(row.cache_write_5m + row.cache_write_1h for row in rows)
    lower_bound = all(row.lower_bound for row in rows)
    for row in rows:
        row.chain = chain
        row.lower_bound = lower_bound
        for name, value in zip(_COUNTS, most, strict=True):
            setattr(row, name, value)
        row.cache_write_5m = written - row.cache_write_1h


def _merge_fill(one: str, other: str) -> str:
    a, b = orjson.loads(one), orjson.loads(other)
    return orjson.dumps(
        {kind: max(a.get(kind, 0), b.get(kind, 0)) for kind in {*a, *b}}, option=orjson.OPT_SORT_KEYS
    ).decode()


@dataclass(slots=True)
class Mark:
    """A row of a boundary, as far as counting needs it."""

    pk: int
    source: int
    session: int
    uid: str
    line: int
    shown: bool
    counts: bool


def settle_marks(marks: Sequence[Mark], ranks: Mapping[int, Rank], paths: Mapping[int, str]) -> None:
    """All boundaries of ONE uid: the first of each session is shown, the first of all counts."""
    ordered = sorted(marks, key=lambda mark: (*ranks[mark.session], paths[mark.source], mark.line))
    shown: set[int] = set()
    for at, mark in enumerate(ordered):
        mark.shown = mark.session not in shown
        mark.counts = at == 0
        shown.add(mark.session)


def mark_scope(uid: str, session: int) -> tuple[int, str]:
    """What makes two boundaries the same one: a uid, but one that is only a place in a file is its session's own."""
    return (session, uid) if uid.startswith("line:") else (0, uid)
