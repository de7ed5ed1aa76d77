"""Baton fidelity: how much of what a leg handed over was still true when its successor read it.

Mission: "an operator can see, per relay: … baton fidelity". Judged at the successor's reload over ALL pointers;
"One dangling → violated; some unknown or nothing judged → not yet; never 100 % of nothing."
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from relays.core.sentences import phrase
from relays.core.verdicts import Judgement, VerdictLine


@dataclass(frozen=True, slots=True)
class Score:
    """One baton's pointers by verdict; `score` = verified / (verified + dangling), None where nothing was judged."""

    verified: int
    dangling: int
    unknown: int
    score: float | None
    verdict: Judgement

    @property
    def judged(self) -> int:
        """Those that a store answered for."""
        return self.verified + self.dangling

    @property
    def total(self) -> int:
        return self.judged + self.unknown

    @property
    def unresolved(self) -> int:
        return self.dangling + self.unknown

    @property
    def text(self) -> str:
        """`9/14`: verified of those that a store answered for."""
        return f"{self.verified}/{self.judged}"


def score_of(verified: int, dangling: int, unknown: int) -> Score:
    """A score from stored counts."""
    judged = verified + dangling
    if dangling:
        verdict: Judgement = "violated"
    elif unknown or not judged:
        verdict = "not yet"
    else:
        verdict = "holds"
    return Score(verified, dangling, unknown, verified / judged if judged else None, verdict)


def score(verdicts: Iterable[str]) -> Score:
    """A score from one verdict per pointer. A word that is none of the three is `unknown`, never verified."""
    counts = {"verified": 0, "dangling": 0, "unknown": 0}
    for verdict in verdicts:
        counts[verdict if verdict in counts else "unknown"] += 1
    return score_of(counts["verified"], counts["dangling"], counts["unknown"])


def over_legs(scores: Sequence[Score]) -> VerdictLine:
    """The relay's verdict over its judged batons; "a baton without a successor does not count": leave it out."""
    verified = sum(one.verified for one in scores)
    dangling = sum(one.dangling for one in scores)
    unknown = sum(one.unknown for one in scores)
    whole = score_of(verified, dangling, unknown)
    numbers: dict[str, object] = {
        "batons": len(scores),
        "verified": verified,
        "dangling": dangling,
        "unknown": unknown,
        "score": whole.score,
    }
    if whole.verdict == "holds" and any(one.verdict != "holds" for one in scores):
        empty = sum(one.total == 0 for one in scores)
        some = phrase("nothing judged in %(empty)s of %(n)s batons", empty=empty, n=len(scores))
        return VerdictLine("not yet", some, numbers)
    if whole.verdict == "violated":
        lost = phrase("%(dangling)s of %(n)s judged pointers do not resolve", dangling=dangling, n=verified + dangling)
        return VerdictLine("violated", lost, numbers)
    if whole.verdict == "not yet":
        open_ones = phrase("%(n)s pointers unknown", n=unknown) if unknown else phrase("nothing judged")
        return VerdictLine("not yet", open_ones, numbers)
    all_of = phrase("all pointers verified: %(verified)s, of batons: %(n)s", verified=verified, n=len(scores))
    return VerdictLine("holds", all_of, numbers)
