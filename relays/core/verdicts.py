"""Computed verdicts over a relay's legs: `holds`, `violated` or `not yet`, each with its numbers.

Mission: "every closed issue / commit is still attributable and the objective pin is byte-identical end to end";
"no accuracy decay". `flat` and `fidelity` have modules of their own.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from relays.core.sentences import Sentence, phrase

Judgement = Literal["holds", "violated", "not yet"]

#: below these, an error rate says nothing
ROT_CALLS = 30
ROT_LEGS = 3

#: two-sided 95 % of the normal distribution
Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class VerdictLine:
    """One verdict: the word, one line that says why, and the figures it rests on (JSON-able).

    A `said` that is text comes from a record, which is told as it was recorded.
    """

    verdict: Judgement
    said: Sentence | str
    numbers: dict[str, object] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """The line in English, for programs."""
        return str(self.said)


def attribution(
    legs: int, commits: int, shared: Mapping[str, Sequence[int]], foreign: Sequence[str] = (), foreign_count: int = 0
) -> VerdictLine:
    """ "a commit in two legs → violated; foreign commits are listed".

    `legs`: how many ended legs were counted; 0: not yet. `commits`: how many different ones they made. `shared`: each
    commit that more than one leg made, with the numbers of those legs. `foreign`: by others, the first of
    `foreign_count`.
    """
    numbers: dict[str, object] = {
        "legs": legs,
        "commits": commits,
        "shared": {sha: sorted(set(where)) for sha, where in sorted(shared.items())},
        "foreign": sorted(set(foreign)),
        "foreign_count": max(foreign_count, len(set(foreign))),
    }
    if not legs:
        return VerdictLine("not yet", phrase("no leg has ended"), numbers)
    if shared:
        sha, where = min(shared.items())
        listed = ", ".join(map(str, sorted(set(where))))
        twice = phrase("%(n)s commits in two legs: %(sha)s in legs %(legs)s", n=len(shared), sha=sha[:12], legs=listed)
        return VerdictLine("violated", twice, numbers)
    if others := max(foreign_count, len(set(foreign))):
        told = phrase("each of %(n)s commits belongs to one leg; by others: %(others)s", n=commits, others=others)
    else:
        told = phrase("each of %(n)s commits belongs to one leg", n=commits)
    return VerdictLine("holds", told, numbers)


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
        return VerdictLine("not yet", phrase("no baton"), numbers)
    for position in range(1, len(digests)):
        if digests[position] != digests[position - 1] and position not in changed_at:
            numbers["first_change"] = position
            told = phrase("the digest changed at baton %(number)s without a decision", number=str(position))
            return VerdictLine("violated", told, numbers)
    return VerdictLine("holds", phrase("one digest between decisions; batons: %(n)s", n=len(digests)), numbers)


@dataclass(frozen=True, slots=True)
class LegErrors:
    """How many tool calls a leg made and how many of them failed.

    `fullness`: tenth of the window that was full when a tool was called -> (calls, errors); empty = not recorded.
    """

    number: int
    calls: int
    errors: int
    fullness: Mapping[int, tuple[int, int]] = field(default_factory=dict)


def rot(legs: Sequence[LegErrors]) -> VerdictLine:
    """ "tool-error rate over leg number and over how full the window was, with interval".

    Violated when the later half of the legs, or the fuller part of the windows, fails more tool calls beyond chance:
    the 95 % interval of the difference lies above 0. Too few calls or legs: not yet. Windows that were only ever
    equally full say nothing about fuller ones; the line says so, and the legs alone decide.
    """
    worked = sorted((leg for leg in legs if leg.calls > 0), key=lambda leg: leg.number)
    calls = sum(leg.calls for leg in worked)
    numbers: dict[str, object] = {"legs": len(worked), "calls": calls, "errors": sum(leg.errors for leg in worked)}
    window, said = _by_fullness(worked)
    numbers["fullness"] = window
    if len(worked) < ROT_LEGS or calls < ROT_CALLS:
        few = phrase("tool calls: %(calls)s, legs: %(legs)s", calls=calls, legs=len(worked))
        return VerdictLine("not yet", few, numbers)
    half = (len(worked) + 1) // 2
    early, late = _sums(worked[:half]), _sums(worked[half:])
    low, high = difference(early[1], early[0], late[1], late[0])
    numbers |= {"early": _rate(*early), "late": _rate(*late), "difference": [low, high]}
    rates = phrase(
        "%(early)s/%(early_n)s early, %(late)s/%(late_n)s late; %(fullness)s",
        early=early[1], early_n=early[0], late=late[1], late_n=late[0], fullness=said,
    )  # fmt: skip
    if low > 0:
        return VerdictLine(
            "violated", phrase("later legs fail more tool calls beyond chance: %(rates)s", rates=rates), numbers
        )
    if window["verdict"] == "violated":
        return VerdictLine(
            "violated", phrase("fuller windows fail more tool calls beyond chance: %(rates)s", rates=rates), numbers
        )
    return VerdictLine("holds", phrase("later legs are not worse beyond chance: %(rates)s", rates=rates), numbers)


def _sums(legs: Sequence[LegErrors]) -> tuple[int, int]:
    """Calls and errors."""
    calls = sum(leg.calls for leg in legs)
    return calls, min(sum(leg.errors for leg in legs), calls)


def _rate(calls: int, errors: int) -> dict[str, object]:
    return {"calls": calls, "errors": errors, "rate": errors / calls}


def _by_fullness(legs: Sequence[LegErrors]) -> tuple[dict[str, object], Sentence]:
    """The comparison over how full the window was, as numbers with its own verdict, and in words."""
    tenths = [[0, 0] for _ in range(10)]
    for leg in legs:
        for tenth, (calls, errors) in leg.fullness.items():
            tenths[tenth][0] += calls
            tenths[tenth][1] += min(errors, calls)
    calls = sum(tenth[0] for tenth in tenths)
    numbers: dict[str, object] = {"verdict": "not yet", "calls": calls, "tenths": tenths}
    if calls < ROT_CALLS:
        return numbers, phrase("by fullness not yet: %(n)s tool calls", n=calls)
    # the edge between two tenths that comes nearest to halving the calls
    below = [sum(tenth[0] for tenth in tenths[:edge]) for edge in range(11)]
    edge = min((edge for edge in range(1, 10)), key=lambda edge: (abs(2 * below[edge] - calls), edge))
    emptier, fuller = below[edge], calls - below[edge]
    if not emptier or not fuller:
        return numbers, phrase("by fullness not yet: all tool calls came in one tenth of the window")
    failed = sum(tenth[1] for tenth in tenths[:edge]), sum(tenth[1] for tenth in tenths[edge:])
    low, high = difference(failed[0], emptier, failed[1], fuller)
    numbers |= {
        "verdict": "violated" if low > 0 else "holds",
        "edge": edge / 10,
        "emptier": _rate(emptier, failed[0]),
        "fuller": _rate(fuller, failed[1]),
        "difference": [low, high],
    }
    return numbers, phrase(
        "%(below)s/%(below_n)s below %(percent)s %% full, %(above)s/%(above_n)s above",
        below=failed[0], below_n=emptier, percent=10 * edge, above=failed[1], above_n=fuller,
    )  # fmt: skip


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
