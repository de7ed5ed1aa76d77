"""Which leading calls of a Codex file repeat its parent's, and what the turns of a headless thread added.

sessions.md, Codex: "Fork/subagent files replay the whole parent history including token_count, re-stamped to the fork
second". A repeated call is the parent's and counts there; where the parent's file is missing the boundary is only
estimated, and said to be. "usage is cumulative over the thread, also across resume": a turn is what it added.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from relays.core.meter import Copied
from relays.core.usage import Buckets

How = Literal["", "parent's totals", "parent's turns", "own times", "estimated"]


@dataclass(frozen=True, slots=True)
class Row:
    """One call of one file in file order: the running total after it, its turn, and what its own file says of it."""

    vector: str
    turn: str = ""
    copied: Copied = ""


class Split(NamedTuple):
    """The first `rows` calls of the child are its parent's; `how` names what proves it, "" = none are."""

    rows: int
    how: How


NONE: Final = Split(0, "")


def split(child: Sequence[Row], parent: Sequence[Row] | None) -> Split:
    """Where a child's own calls begin.

    `parent`: all calls of the parent's file in file order, those that it repeats of its own parent included; None =
    not known. In this order: (a) the common beginning of both files' running totals; (b) further calls of turns that
    the parent has (a line may be missing in one of the files); else what the child's own file says: (c) times that
    prove it, (d) what can only be estimated. A parent that ends within the common beginning may not have been read to
    its end: there the child's own word extends it.
    """
    own = _own(child)
    if not parent:
        return own
    shared = _common(child, parent)
    by_turns = _known_turns(child, shared, parent)
    if by_turns > shared:
        found, how = by_turns, _BY_TURNS
    elif shared:
        found, how = shared, _BY_TOTALS
    else:
        return own
    if shared == len(parent) and own.rows > found:
        return own
    return Split(found, how)


_BY_TURNS: Final[How] = "parent's turns"
_BY_TOTALS: Final[How] = "parent's totals"


def _own(child: Sequence[Row]) -> Split:
    rows = next((at for at, row in enumerate(child) if not row.copied), len(child))
    if not rows:
        return NONE
    proven = all(row.copied == "replay" for row in child[:rows])
    return Split(rows, "own times" if proven else "estimated")


def _common(child: Sequence[Row], parent: Sequence[Row]) -> int:
    rows = 0
    for ours, theirs in zip(child, parent, strict=False):
        if not ours.vector or ours.vector != theirs.vector:
            break
        rows += 1
    return rows


def _known_turns(child: Sequence[Row], start: int, parent: Sequence[Row]) -> int:
    turns = {row.turn for row in parent if row.turn}
    rows = start
    while rows < len(child) and child[rows].turn in turns:
        rows += 1
    return rows


def vector(input_side: int, cached: int, output: int, reasoning: int) -> str:
    """A running total as a call carries it; `cached` is part of `input_side`, `reasoning` of `output`."""
    return f"{input_side}/{cached}/{output}/{reasoning}"


def turns(vectors: Iterable[str]) -> dict[str, Buckets]:
    """What each turn of a headless thread added, from the running totals of all streams of that thread.

    Copies, order and cutting of the streams change nothing: each total counts once, against the next smaller one.
    A text that is no running total is left out. The running total of one thread only grows.
    """
    known = sorted({total for total in map(_read, vectors) if total}, key=lambda total: (total[0] + total[2], total))
    added: dict[str, Buckets] = {}
    before = (0, 0, 0, 0)
    for total in known:
        input_side, cached, output, _ = (max(0, now - then) for now, then in zip(total, before, strict=True))
        cached = min(cached, input_side)
        added[vector(*total)] = Buckets(input=input_side - cached, cache_read=cached, output=output)
        before = total
    return added


def _read(text: str) -> tuple[int, int, int, int] | None:
    parts = text.split("/")
    if len(parts) != 4 or not all(part.isascii() and part.isdigit() for part in parts):
        return None
    a, b, c, d = (int(part) for part in parts)
    return a, b, c, d
