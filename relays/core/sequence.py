"""Which numbered events of a leg were seen, so that a replay changes nothing and a gap is known.

Interface: "unique (leg, seq); a replay is 200 and changes nothing; a gap or a fork is reported, not swallowed". A
number comes from an agent: one forged far ahead must not make every honest event after it look like a replay.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

#: how far ahead of the highest number an event may jump; one further ahead is not taken
FAR: Final = 1_000_000
#: gaps that are remembered; the oldest are forgotten first, and what comes late for them is not taken
GAPS: Final = 1024

Verdict = Literal["new", "late", "seen", "far"]


@dataclass(slots=True)
class Seen:
    """The numbers of one stream. `last`: the highest taken, -1 before the first, which may be any number."""

    last: int = -1
    first: int = -1
    late: int = 0
    _gaps: list[tuple[int, int]] = field(default_factory=list)  # (first, last) absent number of each, ascending

    def judge(self, seq: int) -> Verdict:
        """`new`: above all; `late`: in a gap; `seen`: taken before, or too old to tell; `far`: a jump too far."""
        if self.first < 0:
            return "new"
        if seq > self.last:
            return "new" if seq - self.last <= FAR else "far"
        return "late" if self._gap_of(seq) is not None else "seen"

    def take(self, seq: int) -> bool:
        """Count this number as seen; False where it is `seen` or `far`, and nothing changes."""
        verdict = self.judge(seq)
        if verdict in ("seen", "far"):
            return False
        if self.first < 0:
            self.first = seq
            self._open(0, seq - 1)
        elif verdict == "new":
            self._open(self.last + 1, seq - 1)
        else:
            self._fill(seq)
        self.last = max(self.last, seq)
        return True

    @property
    def missing(self) -> tuple[int, tuple[int, int] | None]:
        """How many numbers above the first one are absent, and the first run of them."""
        gaps = [gap for gap in self._gaps if gap[0] > self.first]
        return sum(last - first + 1 for first, last in gaps), gaps[0] if gaps else None

    def _open(self, first: int, last: int) -> None:
        if first <= last:
            self._gaps.append((first, last))
            del self._gaps[: max(0, len(self._gaps) - GAPS)]

    def _gap_of(self, seq: int) -> int | None:
        low, high = 0, len(self._gaps)
        while low < high:
            middle = (low + high) // 2
            if self._gaps[middle][1] < seq:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self._gaps) and self._gaps[low][0] <= seq else None

    def _fill(self, seq: int) -> None:
        place = self._gap_of(seq)
        if place is None:
            return
        first, last = self._gaps[place]
        parts = [part for part in ((first, seq - 1), (seq + 1, last)) if part[0] <= part[1]]
        self._gaps[place : place + 1] = parts
        self.late += 1
