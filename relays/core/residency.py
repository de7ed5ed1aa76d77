"""What is resident, what was left out and why, and what happens when something left out is needed again.

Mission: "A span that leaves the current view is cold, not forgotten. If a later turn needs it, the page-in path
produces a typed page-fault outcome rather than silently pretending the span was never needed."
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from relays.core.lines import recorded
from relays.core.vocabulary import Ask


class FaultOutcome(StrEnum):
    PAGE_IN = "page_in"
    CONTINUE_WITH_POINTER = "continue_with_pointer"
    QUERY_USER = "query_user"
    DENY = "deny"


#: classes that outlive their turn
LASTING = frozenset({"bounded", "durable"})
#: what `recall` can serve: records of durable stores, "never transcript bytes (recorded as `deny`)"
RECALLABLE = frozenset({"commit", "issue", "memory", "ledger", "file"})


@dataclass(frozen=True, slots=True)
class Fault:
    """A record that is needed and not resident. `state`: live, gone, tombstoned; any other word is unknown.

    `rebuildable`: it can be read back from its store without asking anybody.
    """

    state: str
    required: bool
    rebuildable: bool = False
    durability: str = ""
    kind: str = "memory"


@dataclass(frozen=True, slots=True)
class FaultVerdict:
    outcome: FaultOutcome
    reason: str
    ask: Ask | None = None


def state_of(verdict: str) -> str:
    """The state of a record by its pointer's verdict: verified → live, dangling → gone, else unknown."""
    return {"verified": "live", "dangling": "gone"}.get(verdict, "unknown")


def judge_fault(fault: Fault) -> FaultVerdict:
    """Decide one page fault (rules.md, Page fault). A required record that cannot come opens `UNSERVED_PAGE_FAULT`."""
    if fault.kind not in RECALLABLE:
        return FaultVerdict(
            FaultOutcome.DENY, recorded("only records of durable stores are served, never transcript bytes")
        )
    if fault.state != "live":
        state = fault.state if fault.state in {"gone", "tombstoned"} else "unknown"
        if fault.required:
            return FaultVerdict(
                FaultOutcome.DENY, recorded("required and %(state)s", state=state), Ask.UNSERVED_PAGE_FAULT
            )
        return FaultVerdict(FaultOutcome.CONTINUE_WITH_POINTER, recorded("optional and %(state)s", state=state))
    if not fault.rebuildable:
        return FaultVerdict(FaultOutcome.QUERY_USER, recorded("live, but not without asking"), Ask.UNSERVED_PAGE_FAULT)
    if not fault.required and fault.durability in LASTING:
        return FaultVerdict(
            FaultOutcome.CONTINUE_WITH_POINTER,
            recorded("optional and %(durability)s: it can be read later", durability=fault.durability),
        )
    return FaultVerdict(FaultOutcome.PAGE_IN, recorded("live and rebuildable"))


def unasked(payload: Mapping[str, Any], verdict: str = "unknown") -> Fault:
    """The fault of a `page_fault` event. `verdict`: of its pointer; what resolves in a durable store can be read back
    from it, and what no store was asked about is unknown."""
    state = state_of(verdict)
    return Fault(
        state=state,
        required=payload["required"] is True,
        rebuildable=state == "live",
        durability=str(payload["durability"]),
        kind=str(payload["kind"]),
    )


def decide_fault_of(payload: Mapping[str, Any], verdict: str = "unknown") -> FaultOutcome:
    """The outcome for a `page_fault` event; see `unasked`."""
    return judge_fault(unasked(payload, verdict)).outcome


@dataclass(frozen=True, slots=True)
class FaultTally:
    """ "page_in served; deny and query_user refused"; continuing with the pointer is neither."""

    served: int
    refused: int


def tally_faults(outcomes: Iterable[tuple[str, int]]) -> FaultTally:
    """`outcomes`: (outcome, how many), in any number of parts."""
    counts = dict.fromkeys(map(str, FaultOutcome), 0)
    for outcome, number in outcomes:
        counts[FaultOutcome(outcome)] += number
    return FaultTally(counts[FaultOutcome.PAGE_IN], counts[FaultOutcome.DENY] + counts[FaultOutcome.QUERY_USER])


Role = Literal["seed", "recalled", "turn"]

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Span:
    """A part of a window: of the seed, a recalled record, or a turn of leg `leg`. `digest`: sha256 of its bytes."""

    id: str
    leg: int
    role: Role
    digest: str


@dataclass(frozen=True, slots=True)
class Elision:
    """A span that is not resident any more, still named by id and digest."""

    id: str
    role: Role
    digest: str
    reason: str


@dataclass(frozen=True, slots=True)
class ViewPlan:
    """The resident view: which spans are in it, which are not and why."""

    selected: tuple[Span, ...]
    elided: tuple[Elision, ...]


class PlanRefused(ValueError):
    """The plan would forget a span: it has no id or no digest by which it could be found again."""


def plan(spans: Sequence[Span], *, open_leg: int | None) -> ViewPlan:
    """ "A leg's own spans are selected until it closes, then elided with digest and reason."

    `open_leg`: number of the leg that is still open, None when all are closed.
    Raises PlanRefused for an elided span without id or digest, and for an id given twice.
    """
    selected: list[Span] = []
    elided: list[Elision] = []
    seen: set[str] = set()
    for place, span in enumerate(spans):
        if span.id and span.id in seen:
            raise PlanRefused(recorded("span %(place)d: the id %(id)s is given twice", place=place, id=repr(span.id)))
        seen.add(span.id)
        if span.leg == open_leg:
            selected.append(span)
            continue
        if not span.id.strip():
            raise PlanRefused(recorded("span %(place)d: elided without an id", place=place))
        if not _DIGEST.fullmatch(span.digest):
            raise PlanRefused(recorded("span %(place)d: elided without a digest", place=place))
        elided.append(Elision(span.id, span.role, span.digest, recorded("leg %(leg)s closed", leg=span.leg)))
    return ViewPlan(tuple(selected), tuple(elided))
