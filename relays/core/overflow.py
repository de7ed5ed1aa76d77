"""What leaves a new baton so that it stays small: the oldest entries, for one ledger row that lists them.

baton.md, Bounds ("this is what makes it O(1)"): "At 12 KiB or a full list the oldest entries move into one ledger row
that lists them and points at the previous such row, and the baton points at that row: nothing is lost and the size
stays flat after 1,000 legs as after 10." Pure: who calls writes the row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from relays.core.baton import Artifact, Baton, Bounds, canonical, unique
from relays.core.strictjson import write

#: entries move when the whole takes more than this part of its bound: 12 of 16 KiB
SOFT: Final = (3, 4)
#: questions and dead ends of earlier legs together take at most this part of the bound, so that a relay which learns a
#: little in every leg hands over no more after 1,000 legs than after 10
CARRIED: Final = (1, 10)
#: bytes that stay free for the pointer at the row
POINTER: Final = 160

_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Fitted:
    """A baton within its bounds, and what moved out of it, oldest first: `kind:ref`, an entry with its label.

    Where something moved, the pointer at the row that lists it is still to be set with `pointing_at`.
    """

    baton: Baton
    moved: tuple[str, ...]

    def pointing_at(self, row: Artifact) -> Baton:
        return replace(self.baton, artifacts=(row, *self.baton.artifacts))


def fit(baton: Baton, bounds: Bounds, *, head: Artifact | None = None, carried: frozenset[str] = _NONE) -> Fitted:
    """Move the oldest entries out until the baton is within its bounds. The same baton gives the same result.

    `head`: the newest row of entries that moved before; a baton that keeps all it has goes on pointing at it, first in
    its artifacts. `carried`: the questions and dead ends of earlier legs.
    """
    artifacts = [one for one in unique(baton.artifacts) if one != head]
    questions, dead_ends = list(unique(baton.open_questions)), list(unique(baton.do_not_rederive))
    moved: list[str] = []

    most = _part(CARRIED, bounds)
    if _bytes([*questions, *dead_ends], carried) > most:
        # down to the half, so that not every later leg writes a row; an open question gives way last
        dead_ends = _age(dead_ends, carried, most // 2 - _bytes(questions, carried), moved)
        questions = _age(questions, carried, most - _bytes(dead_ends, carried), moved)
    _cut(artifacts, bounds.artifacts - (head is not None or len(artifacts) > bounds.artifacts), moved)
    _cut(questions, bounds.open_questions, moved)
    _cut(dead_ends, bounds.do_not_rederive, moved)

    def made() -> Baton:
        return replace(
            baton,
            artifacts=tuple(artifacts),
            open_questions=tuple(questions),
            do_not_rederive=tuple(dead_ends),
        )

    while len(canonical(made())) + POINTER > _part(SOFT, bounds):
        lists: tuple[list[Artifact] | list[str], ...] = (artifacts, dead_ends, questions)
        largest = max(lists, key=lambda entries: len(write(_texts(entries))))
        if not largest:
            break  # the fixed part alone: who starts a relay sees to it that it fits
        _cut(largest, len(largest) * 3 // 4, moved)
    # the row is one of the artifacts
    _cut(artifacts, bounds.artifacts - bool(moved or head), moved)
    fitted = Fitted(made(), tuple(moved))
    return fitted if moved or head is None else Fitted(fitted.pointing_at(head), ())


def _part(part: tuple[int, int], bounds: Bounds) -> int:
    return bounds.total * part[0] // part[1]


def _texts(entries: Sequence[Artifact | str]) -> list[str]:
    return [entry if isinstance(entry, str) else f"{entry.kind}:{entry.ref}" for entry in entries]


def _size(entry: str) -> int:
    """Bytes in canonical form, with the comma after it."""
    return len(write(entry).encode()) + 1


def _bytes(entries: Sequence[str], carried: frozenset[str]) -> int:
    return sum(_size(entry) for entry in entries if entry in carried)


def _age(entries: list[str], carried: frozenset[str], most: int, moved: list[str]) -> list[str]:
    """Move the oldest entries of earlier legs until those that stay take at most `most` bytes."""
    kept: list[str] = []
    over = _bytes(entries, carried) - most
    for entry in entries:
        if entry in carried and over > 0:
            over -= _size(entry)
            moved.append(entry)
        else:
            kept.append(entry)
    return kept


def _cut(entries: list[Artifact] | list[str], keep: int, moved: list[str]) -> None:
    """Move the oldest until `keep` stay."""
    over = max(len(entries) - max(keep, 0), 0)
    moved += _texts(entries[:over])
    del entries[:over]
