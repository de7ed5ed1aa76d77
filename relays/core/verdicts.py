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
        return VerdictLine("not yet", "no leg has ended", numbers)
    if shared:
        sha, where = min(shared.items())
        listed = ", ".join(map(str, sorted(set(where))))
        return VerdictLine("violated", f"{len(shared)} commits in two legs: {sha[:12]} in legs {listed}", numbers)
    others = f"; by others: {numbers['foreign_count']}" if numbers["foreign_count"] else ""
    return VerdictLine("holds", f"each of {commits} commits belongs to one leg{others}", numbers)


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
        return VerdictLine("not yet", f"tool calls: {calls}, legs: {len(worked)}", numbers)
    half = (len(worked) + 1) // 2
    early, late = _sums(worked[:half]), _sums(worked[half:])
    low, high = difference(early[1], early[0], late[1], late[0])
    numbers |= {"early": _rate(*early), "late": _rate(*late), "difference": [low, high]}
    rates = f"{early[1]}/{early[0]} early, {late[1]}/{late[0]} late; {said}"
    if low > 0:
        return VerdictLine("violated", f"later legs fail more tool calls beyond chance: {rates}", numbers)
    if window["verdict"] == "violated":
        return VerdictLine("violated", f"fuller windows fail more tool calls beyond chance: {rates}", numbers)
    return VerdictLine("holds", f"later legs are not worse beyond chance: {rates}", numbers)


def _sums(legs: Sequence[LegErrors]) -> tuple[int, int]:
    """Calls and errors."""
    calls = sum(leg.calls for leg in legs)
    return calls, min(sum(leg.errors for leg in legs), calls)


def _rate(calls: int, errors: int) -> dict[str, object]:
    return {"calls": calls, "errors": errors, "rate": errors / calls}


def _by_fullness(legs: Sequence[LegErrors]) -> tuple[dict[str, object], str]:
    """The comparison over how full the window was, as numbers with its own verdict, and in words."""
    tenths = [[0, 0] for _ in range(10)]
    for leg in legs:
        for tenth, (calls, errors) in leg.fullness.items():
            tenths[tenth][0] += calls
            tenths[tenth][1] += min(errors, calls)
    calls = sum(tenth[0] for tenth in tenths)
    numbers: dict[str, object] = {"verdict": "not yet", "calls": calls, "tenths": tenths}
    if calls < ROT_CALLS:
        return numbers, f"by fullness not yet: {calls} tool calls"
    # the edge between two tenths that comes nearest to halving the calls
    below = [sum(tenth[0] for tenth in tenths[:edge]) for edge in range(11)]
    edge = min((edge for edge in range(1, 10)), key=lambda edge: (abs(2 * below[edge] - calls), edge))
    emptier, fuller = below[edge], calls - below[edge]
    if not emptier or not fuller:
        return numbers, "by fullness not yet: all tool calls came in one tenth of the window"
    failed = sum(tenth[1] for tenth in tenths[:edge]), sum(tenth[1] for tenth in tenths[edge:])
    low, high = difference(failed[0], emptier, failed[1], fuller)
    numbers |= {
        "verdict": "violated" if low > 0 else "holds",
        "edge": edge / 10,
        "emptier": _rate(emptier, failed[0]),
        "fuller": _rate(fuller, failed[1]),
        "difference": [low, high],
    }
    return numbers, f"{failed[0]}/{emptier} below {edge}0 % full, {failed[1]}/{fuller} above"


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
