"""Computed verdicts over a relay's legs: `holds`, `violated` or `not yet`, each with its numbers.

Mission: "every closed issue / commit is still attributable and the objective pin is byte-identical end to end";
"no accuracy decay". `flat` and `fidelity` have modules of their own.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Judgement = Literal["holds", "violated", "not yet"]

#: below these, an error rate says nothing
ROT_CALLS = 30
ROT_LEGS = 3

#: two-sided 95 % of the normal distribution
Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """One verdict: the word, one line that says why, and the figures it rests on (JSON-able)."""

    verdict: Judgement
    what: str
    numbers: dict[str, object] = field(default_factory=dict)


def attribution(legs: Mapping[int, Sequence[str]], foreign: Collection[str] = ()) -> VerdictLine:
    """ "a commit in two legs → violated; foreign commits are listed".

    `legs`: ended legs by number with the commits that each made; none: not yet.
    """
    if not legs:
        return VerdictLine("not yet", "no leg has ended", {"legs": 0, "commits": 0, "foreign": sorted(set(foreign))})
    owners: dict[str, set[int]] = {}
    for number, shas in legs.items():
        for sha in shas:
            owners.setdefault(sha, set()).add(number)
    shared = {sha: sorted(numbers) for sha, numbers in sorted(owners.items()) if len(numbers) > 1}
    numbers: dict[str, object] = {
        "legs": len(legs),
        "commits": len(owners),
        "shared": shared,
        "foreign": sorted(set(foreign)),
    }
    if shared:
        sha, where = next(iter(shared.items()))
        listed = ", ".join(map(str, where))
        return VerdictLine("violated", f"{len(shared)} commits in two legs: {sha[:12]} in legs {listed}", numbers)
    return VerdictLine("holds", f"each of {len(owners)} commits belongs to one leg", numbers)


def objective_line(digests: Sequence[str], changed_at: Collection[int] = ()) -> VerdictLine:
    """Pin digests of the batons in order: "one digest between decisions".

    `changed_at` holds the positions in `digests` before which a person decided on a new objective.
    """
    numbers: dict[str, object] = {
        "batons": len(digests),
        "digests": len(set(digests)),
        "decisions": len(set(changed_at)),
    }
    if not digests:
        return VerdictLine("not yet", "no baton", numbers)
    for position in range(1, len(digests)):
        if digests[position] != digests[position - 1] and position not in changed_at:
            numbers["first_change"] = position
            return VerdictLine("violated", f"the digest changed at baton {position} without a decision", numbers)
    return VerdictLine("holds", f"one digest between decisions; batons: {len(digests)}", numbers)


@dataclass(frozen=True, slots=True)
class LegErrors:
    """How many tool calls a leg made and how many of them failed."""

    number: int
    calls: int
    errors: int


def rot(legs: Sequence[LegErrors]) -> VerdictLine:
    """Does work get worse with the legs? "violated when later legs are worse beyond chance".

    Compares the tool-error rate of the later half of the legs (by number; an odd middle leg is early) with that of
    the earlier half: Newcombe's 95 % interval of the difference of two proportions. Below 30 calls or 3 legs: not yet.
    """
    worked = sorted((leg for leg in legs if leg.calls > 0), key=lambda leg: leg.number)
    calls = sum(leg.calls for leg in worked)
    numbers: dict[str, object] = {"legs": len(worked), "calls": calls, "errors": sum(leg.errors for leg in worked)}
    if len(worked) < ROT_LEGS or calls < ROT_CALLS:
        return VerdictLine("not yet", f"{calls} tool calls over {len(worked)} legs", numbers)
    half = (len(worked) + 1) // 2
    early, late = worked[:half], worked[half:]
    early_errors, early_calls = _sums(early)
    late_errors, late_calls = _sums(late)
    low, high = difference(early_errors, early_calls, late_errors, late_calls)
    numbers |= {
        "early": {"calls": early_calls, "errors": early_errors, "rate": early_errors / early_calls},
        "late": {"calls": late_calls, "errors": late_errors, "rate": late_errors / late_calls},
        "difference": [low, high],
    }
    rates = f"{early_errors}/{early_calls} early, {late_errors}/{late_calls} late"
    if low > 0:
        return VerdictLine("violated", f"later legs fail more tool calls beyond chance: {rates}", numbers)
    return VerdictLine("holds", f"later legs are not worse beyond chance: {rates}", numbers)


def _sums(legs: Sequence[LegErrors]) -> tuple[int, int]:
    calls = sum(leg.calls for leg in legs)
    return min(sum(leg.errors for leg in legs), calls), calls


def wilson(errors: int, calls: int) -> tuple[float, float]:
    """95 % score interval of a proportion; right at 0 and 1 too. `calls` > 0."""
    rate = errors / calls
    weight = Z95 * Z95 / calls
    middle = (rate + weight / 2) / (1 + weight)
    spread = Z95 * math.sqrt(rate * (1 - rate) / calls + weight / (4 * calls)) / (1 + weight)
    return max(0.0, middle - spread), min(1.0, middle + spread)


def difference(early_errors: int, early_calls: int, late_errors: int, late_calls: int) -> tuple[float, float]:
    """95 % interval of (late rate - early rate), by Newcombe's square-and-add of two score intervals."""
    early, late = early_errors / early_calls, late_errors / late_calls
    early_low, early_high = wilson(early_errors, early_calls)
    late_low, late_high = wilson(late_errors, late_calls)
    gap = late - early
    return (
        gap - math.hypot(late - late_low, early_high - early),
        gap + math.hypot(late_high - late, early - early_low),
    )
