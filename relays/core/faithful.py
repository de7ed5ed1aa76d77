"""Is a rotation more faithful than a compaction: what had to be read again, and what was no longer reached.

Cost, More faithful: "Of the files and references that were resident before a compaction, the share that is read again
within 20 calls after it, against the coverage of a rotation and the share re-read in a leg's first 20 calls. OBSERVED
only; 'not yet' below 5 of either." rules.md: "`faithful` and `cheaper`: `cost.md`; they may say that the relay lost".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from relays.core.sentences import Places, Sentence, phrase
from relays.core.verdicts import Judgement, VerdictLine, difference, wilson

#: calls after a cut in which reading counts as reading again
SOON: Final = 20
#: fewer cuts of either kind than this say nothing
LEAST: Final = 5
#: what each group of the figures is
LABELS: Final = {
    "compactions": "read again within 20 calls after compactions",
    "rotations": "read again in a leg's first 20 calls",
    "coverage": "of what a leg made, reached from its baton",
}


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
    if min(len(compacted), len(read), len(judged)) < LEAST:
        return VerdictLine("not yet", sentence("not yet", numbers), numbers)
    lost = made - reached
    again = difference(after_compactions[1], after_compactions[0], after_rotations[1], after_rotations[0])
    missed = difference(after_compactions[1], after_compactions[0], lost, made)
    numbers |= {"read_again_difference": list(again), "out_of_reach_difference": list(missed)}
    verdict: Judgement = "not yet"
    if again[0] > 0 or missed[0] > 0:
        verdict = "violated"
    elif again[1] < 0 and missed[1] < 0:
        verdict = "holds"
    return VerdictLine(verdict, sentence(verdict, numbers), numbers)


def sentence(verdict: str, numbers: Mapping[str, Any]) -> Sentence:
    """What `judge` says of its own numbers, also where they were stored. LookupError, TypeError for others."""
    compactions, rotations, coverage = numbers["compactions"], numbers["rotations"], numbers["coverage"]
    few: list[Sentence] = []
    if compactions["n"] < LEAST:
        few.append(phrase("%(n)s of 5 compactions", n=compactions["n"]))
    if rotations["n"] < LEAST:
        few.append(phrase("%(n)s of 5 rotations with what was read again", n=rotations["n"]))
    if coverage["n"] < LEAST:
        few.append(phrase("%(n)s of 5 rotations with their coverage", n=coverage["n"]))
    if few:
        return _listed(few)
    said = phrase(
        "read again: %(compacted)s after %(compactions)s compactions, %(rotated)s after %(rotations)s rotations; "
        "out of reach after rotations: %(lost)s",
        compacted=_percent(compactions["resident"], compactions["again"]), compactions=compactions["n"],
        rotated=_percent(rotations["resident"], rotations["again"]), rotations=rotations["n"],
        lost=_percent(coverage["made"], coverage["made"] - coverage["reached"]),
    )  # fmt: skip
    if verdict == "violated":
        return phrase("the relay lost: %(said)s", said=said)
    return said if verdict == "holds" else phrase("too close to tell: %(said)s", said=said)


def stored(kept: Mapping[str, Any]) -> Sentence | str:
    """Of a stored {"verdict", "what", "numbers"}: the sentence where its numbers still say it, else `what` as it is."""
    what = str(kept.get("what") or "")
    try:
        said = sentence(str(kept.get("verdict")), kept["numbers"])
    except (LookupError, TypeError, ArithmeticError):
        return what
    return said if str(said) == what else what


def _listed(sentences: Sequence[Sentence]) -> Sentence:
    first, *more = sentences
    return phrase("%(first)s, %(more)s", first=first, more=_listed(more)) if more else first


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


def _percent(whole: int, part: int) -> Sentence:
    return phrase("%(percent)s %% of %(n)s", percent=Places(100 * part / whole, 1), n=whole)
