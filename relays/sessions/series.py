"""The window of a session over its calls, folded in one pass: what it held, what filled it, where it shrank.

Pure. Memory grows with the number of main calls by a few numbers each, never by their texts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

#: a window that shrinks by more than both without a boundary is unexplained
DROP_PART: Final = 0.30
DROP_TOKENS: Final = 10_000
POINTS: Final = 1_000
#: growth that no record accounts for
UNKNOWN: Final = "unknown"


@dataclass(slots=True)
class Window:
    """Fed with the main calls of a session in order, copies included, and the boundaries between them.

    `residents`: of each call; `flags`: 1 = an earlier session or the parent made it. `drops`: calls, from 1, at which
    the window shrank without a boundary.
    """

    residents: list[int] = field(default_factory=list)
    flags: bytearray = field(default_factory=bytearray)
    after_boundary: bytearray = field(default_factory=bytearray)  # 1 = a compaction was recorded just before the call
    drops: list[int] = field(default_factory=list)
    _filled: dict[str, int] = field(default_factory=dict)  # before the window last shrank
    _now: dict[str, int] = field(default_factory=dict)
    _now_base: int = 0
    _crossed: bool = False  # a boundary since the last call
    _compacted: bool = False

    def boundary(self, compaction: bool = True) -> None:
        """A boundary was recorded here; a microcompact one explains a drop and ends no leg."""
        self._crossed = True
        self._compacted = self._compacted or compaction

    def call(self, resident: int, copied: bool, fill: Mapping[str, int]) -> None:
        """The next main call; `fill`: bytes by kind of record that came in since the call before it."""
        residents = self.residents
        before = residents[-1] if residents else None
        residents.append(resident)
        self.flags.append(1 if copied else 0)
        self.after_boundary.append(1 if self._compacted else 0)
        if before is None:
            self._now_base = resident
        elif self._crossed:
            self._begin(resident)
        elif resident < before:
            if before - resident > DROP_TOKENS and before - resident > DROP_PART * before:
                self.drops.append(len(residents))
            self._begin(resident)
        elif resident > before:
            now = self._now
            for kind, tokens in shared_out(resident - before, fill):
                now[kind] = now[kind] + tokens if kind in now else tokens
        self._crossed = self._compacted = False

    def _begin(self, resident: int) -> None:
        """The window shrank to this."""
        for kind, tokens in self._now.items():
            self._filled[kind] = self._filled.get(kind, 0) + tokens
        self._now, self._now_base = {}, resident

    def fill(self) -> dict[str, Any]:
        """JSON for `Session.fill`: tokens by kind in all and since the window last shrank, with what it began from.

        `resident`: what the window holds now, null right after a boundary (never the figure from before it).
        """
        total = dict(self._filled)
        for kind, tokens in self._now.items():
            total[kind] = total.get(kind, 0) + tokens
        return {
            "total": dict(sorted(total.items())),
            "now": {} if self._crossed else dict(sorted(self._now.items())),
            "base": self.residents[0] if self.residents else 0,
            "now_base": None if self._crossed or not self.residents else self._now_base,
            "resident": None if self._crossed or not self.residents else self.residents[-1],
        }

    def series(self) -> dict[str, Any]:
        """JSON for `Session.series`: {"n", "points": [[call from 1, resident, flag]…]}, at most 1,000 points."""
        return {"n": len(self.residents), "points": reduced(self.residents, self.flags)}


def reduced(residents: Sequence[int], flags: Sequence[int], most: int = POINTS) -> list[list[int]]:
    """[call from 1, resident, flag] in order; of each of equal stretches its first, last, minimum and maximum."""
    count = len(residents)
    keep: Sequence[int]
    if count <= most:
        keep = range(count)
    else:
        stretches = most // 4
        chosen: set[int] = set()
        for number in range(stretches):
            stretch = range(number * count // stretches, (number + 1) * count // stretches)
            low = min(stretch, key=residents.__getitem__)
            high = max(stretch, key=residents.__getitem__)
            chosen |= {stretch[0], low, high, stretch[-1]}
        keep = sorted(chosen)
    return [[at + 1, residents[at], flags[at]] for at in keep]


def shared_out(tokens: int, fill: Mapping[str, int]) -> Iterable[tuple[str, int]]:
    """`tokens` split by the bytes of each kind, (kind, part); the parts add up to it exactly."""
    if len(fill) == 1:
        if any(fill.values()):
            return [(next(iter(fill)), tokens)]
        return [(UNKNOWN, tokens)]
    total = sum(fill.values())
    if not total:
        return [(UNKNOWN, tokens)]
    rest = tokens
    parts: list[tuple[str, int]] = []
    over: list[tuple[int, str, int]] = []
    for kind, size in fill.items():
        whole = tokens * size
        part = whole // total
        rest -= part
        over.append((part * total - whole, kind, part))
    if rest:
        # a token each to those whose share was cut most
        over.sort()
    for _, kind, part in over:
        if rest:
            rest -= 1
            parts.append((kind, part + 1))
        elif part:
            parts.append((kind, part))
    return parts
