"""Is a rotation more faithful than a compaction: what had to be read again, and what was no longer reached.

Cost, More faithful: "Of the files and references that were resident before a compaction, the share that is read again
within 20 calls after it, against the coverage of a rotation and the share re-read in a leg's first 20 calls. OBSERVED
only; 'not yet' below 5 of either." rules.md: "`faithful` and `cheaper`: `cost.md`; they may say that the relay lost".
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from relays.core.verdicts import VerdictLine, difference, wilson

#: calls after a cut in which reading counts as reading again
SOON: Final = 20
#: fewer cuts of either kind than this say nothing
LEAST: Final = 5


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """One cut: how many files and references the window held before it, and how many were read again within `SOON`

    calls. Raises ValueError for counts that cannot be.
    """

    resident: int
    again: int

    def __post_init__(self) -> None:
        if not 0 <= self.again <= self.resident:
            raise ValueError(f"{self.again} of {self.resident} were read again")


@dataclass(frozen=True, slots=True)
class Rotation:
    """One rotation: what was read again, None where that is not known; of what the leg durably `made`, how much its

    successor `reached` from the baton (see `relays.core.coverage`), both 0 where it made nothing or was not judged.
    """

    read: ReadAgain | None
    made: int = 0
    reached: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.reached <= self.made:
            raise ValueError(f"{self.reached} of {self.made} were reached")


def read_again(before: Iterable[str], after: Sequence[Iterable[str]]) -> ReadAgain:
    """`before`: the files and references that the window held. `after`: what each call after the cut read, in order."""
    held = set(before)
    return ReadAgain(len(held), len(held & {name for names in after[:SOON] for name in names}))


def judge(compactions: Sequence[ReadAgain], rotations: Sequence[Rotation]) -> VerdictLine:
    """`holds`: after rotations a smaller share is read again than after compactions, and a smaller share of what was

    made is out of reach, both beyond chance (95 %). `violated`: one of the two is greater beyond chance: the relay
    lost. Winning takes as much as losing does. Else, and below `LEAST` cuts of either kind, `not yet`. A cut of an
    empty window is none.
    """
    compacted = [one for one in compactions if one.resident]
    read = [one.read for one in rotations if one.read is not None and one.read.resident]
    judged = [one for one in rotations if one.made]
    made, reached = sum(one.made for one in judged), sum(one.reached for one in judged)
    after_compactions, after_rotations = _counts(compacted), _counts(read)
    numbers: dict[str, object] = {
        "compactions": {"n": len(compacted), **_share(*after_compactions)},
        "rotations": {"n": len(read), **_share(*after_rotations)},
        "coverage": {"n": len(judged), "made": made, "reached": reached, "share": reached / made if made else None},
    }
    few = [
        f"{count} of 5 {what}"
        for count, what in (
            (len(compacted), "compactions"),
            (len(read), "rotations with what was read again"),
            (len(judged), "rotations with their coverage"),
        )
        if count < LEAST
    ]
    if few:
        return VerdictLine("not yet", ", ".join(few), numbers)
    lost = made - reached
    again = difference(after_compactions[1], after_compactions[0], after_rotations[1], after_rotations[0])
    missed = difference(after_compactions[1], after_compactions[0], lost, made)
    numbers |= {"read_again_difference": list(again), "out_of_reach_difference": list(missed)}
    said = (
        f"read again: {_percent(*after_compactions)} after {len(compacted)} compactions, "
        f"{_percent(*after_rotations)} after {len(read)} rotations; "
        f"out of reach after rotations: {_percent(made, lost)}"
    )
    if again[0] > 0 or missed[0] > 0:
        return VerdictLine("violated", f"the relay lost: {said}", numbers)
    if again[1] < 0 and missed[1] < 0:
        return VerdictLine("holds", said, numbers)
    return VerdictLine("not yet", f"too close to tell: {said}", numbers)


def _counts(cuts: Sequence[ReadAgain]) -> tuple[int, int]:
    """Resident and read again."""
    return sum(one.resident for one in cuts), sum(one.again for one in cuts)


def _share(resident: int, again: int) -> dict[str, object]:
    return {
        "resident": resident,
        "again": again,
        "share": again / resident if resident else None,
        "interval": list(wilson(again, resident)) if resident else None,
    }


def _percent(whole: int, part: int) -> str:
    return f"{100 * part / whole:.1f} % of {whole}"
