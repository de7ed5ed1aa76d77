"""Everything that a person needs to decide on one gate, and the digest of it that the decision is bound to.

Mission: "a human is called once, at the end of the drain, with everything needed to decide". Interface: "The decision
carries the digest of what was shown (baton digest, branch tip, verification)".
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from relays.core import budget, externalize
from relays.core.baton import read
from relays.core.pointers import Answer, Verdict, parse_entry
from relays.core.safepoint import choose_next_action
from relays.core.vocabulary import Ask, Cause, Hold, Reason, Token, token
from relays.models import (
    NEXT_LEG,
    OPEN_GATES,
    Baton,
    Boundary,
    Check,
    Decision,
    Fact,
    GateEpisode,
    GateState,
    Leg,
    Relay,
    Tombstone,
    Verification,
)
from relays.reports import approvals
from relays.reports.asked import Asked, asked
from relays.reports.legs import LegRow, holds_by_leg, row
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore

STEPS = (GateState.WAITING, GateState.APPROVED, GateState.REQUESTED, GateState.DISPATCHED, GateState.CONFIRMED)
FACTS = 60
PATHS = 100

_CAUSES = {
    Cause.CEILING: "reached its ceiling",
    Cause.OVERRUN: "ran past its ceiling",
    Cause.AGENT_EXIT: "ended by itself",
    Cause.AGENT_CRASH: "ended because its agent crashed",
    Cause.SILENCE: "went silent",
    Cause.SUPERVISOR_CRASH: "ended because its supervisor crashed",
    Cause.PARK_NOW: "was parked at once",
    Cause.STOP: "was stopped",
    Cause.SIGN_IN: "ended because its agent's sign-in was lost",
    Cause.HOST_LOST: "ended because its host was lost",
    Cause.ENVELOPE: "ended because the envelope was spent",
    Cause.START_FAILED: "did not start",
}
_NEEDS_LIMIT = frozenset({Ask.BUDGET_EXHAUSTED})


@dataclass(frozen=True, slots=True)
class Question:
    """An open question: `ref` names it in an answer (its pointer, or its text where it has none)."""

    ref: str
    text: str
    durable: bool


@dataclass(frozen=True, slots=True)
class Loose:
    """A load-bearing fact that the gate did not pass, with what would externalize it."""

    label: str
    kind: str
    backing: str
    verdict: str
    evidence: str
    fix: str


@dataclass(frozen=True, slots=True)
class Shown:
    """What the decision is bound to. `tip` is "" where the branch could not be read; `problem` then says why."""

    baton: Baton | None
    verification: Verification | None
    tip: str
    problem: str
    digest: str


@dataclass(frozen=True, slots=True)
class Step:
    """One state of the episode on its way: `place` is was, now or "" (ahead)."""

    state: str
    place: str


@dataclass(frozen=True, slots=True)
class GatePage:
    """The page's data. Counts are exact; lists are capped where they say so."""

    gate: GateEpisode
    relay: Relay
    word: Token
    headline: str
    leg: LegRow | None
    next_leg: int
    start: str
    wip: str
    last: tuple[LegRow, ...]
    tombstone: Tombstone | None
    armed_turn: int | None
    boundary: Boundary | None
    dirty: tuple[str, ...]
    loose: tuple[Loose, ...]
    loose_more: bool
    unresolved: tuple[Check, ...]
    resolved: int
    next_action: str
    candidates: tuple[tuple[str, str], ...]
    questions: tuple[Question, ...]
    decisions: tuple[Decision, ...]
    have: int
    need: int
    others: int
    steps: tuple[Step, ...]
    ended: str
    shown: Shown
    needs_limit: bool
    host_lost: bool
    asked: Asked | None  # None: a stop, which asks nothing but to look

    @property
    def confirms(self) -> bool:
        """Approving says that a goal in prose is reached: the relay is done, no leg follows."""
        return self.gate.token == Ask.DONE_UNCONFIRMED

    @property
    def limit_example(self) -> str:
        """How new limits are written, for the axes that are spent where the gate asks for them."""
        return budget.limit_example(self.gate.items)

    @property
    def open(self) -> bool:
        return self.gate.state in OPEN_GATES

    @property
    def pointer_count(self) -> int:
        return self.resolved + len(self.unresolved)

    @property
    def waiting(self) -> bool:
        return self.gate.state == GateState.WAITING

    @property
    def reopenable(self) -> bool:
        return self.gate.state in (GateState.REFUSED, GateState.EXPIRED) and not self.relay.final


def store(relay: Relay) -> GitStore:
    """The relay's repository, read through our own; raises StoreUnavailable."""
    return GitStore(Path(relay.git_dir), Path(settings.RELAY_VAR) / "shield", exact=True)


def branch_tip(relay: Relay) -> tuple[str, str]:
    """(tip of the relay's branch, "") or ("", one line that says why it is not known)."""
    try:
        tip = store(relay).tip(relay.branch)
    except StoreUnavailable as error:
        return "", error.evidence
    return (tip, "") if tip else ("", f"the branch {relay.branch} is gone")


def seen_digest(gate: GateEpisode, tip: str) -> str:
    """sha256 of what a person sees of this gate: its round and items, the current baton, the branch tip, and the
    outcome and pointer verdicts of the newest verification. A check that finds the same again changes nothing."""
    return seen_digests([gate], tip)[gate.pk]


def seen_digests(gates: Sequence[GateEpisode], tip: str) -> dict[int, str]:
    """`seen_digest` of several gates of one relay by their key, in three queries together."""
    if not gates:
        return {}
    baton = Baton.objects.filter(relay_id=gates[0].relay_id, current=True).first()
    verification = _newest(baton)
    verdicts = _pointer_verdicts(verification)
    return {gate.pk: _digest(gate, tip, baton, verification, verdicts) for gate in gates}


def _newest(baton: Baton | None) -> Verification | None:
    return Verification.objects.filter(baton=baton).order_by("-id").first() if baton else None


def _pointer_verdicts(verification: Verification | None) -> list[tuple[str, str]]:
    if verification is None:
        return []
    checks = Check.objects.filter(verification=verification, pointer=True).order_by("number")
    return list(checks.values_list("path", "verdict"))


def _digest(
    gate: GateEpisode,
    tip: str,
    baton: Baton | None,
    verification: Verification | None,
    verdicts: Sequence[tuple[str, str]],
) -> str:
    content = {
        "gate": gate.pk,
        "round": gate.round,
        "items": gate.items,
        "baton": baton.digest if baton else "",
        "tip": tip,
        "verification": {"outcome": verification.outcome, "pointers": verdicts} if verification else None,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def headline(gate: GateEpisode, leg: Leg | None) -> str:
    """The finding in one sentence, made from records only."""
    word = token(gate.token)
    if gate.token == Reason.PARKED_UNSAFE and leg is not None:
        how = _CAUSES.get(Cause(leg.cause)) if leg.cause in set(Cause) else None
        at = f" at {leg.peak_tokens:,} tokens" if leg.cause in (Cause.CEILING, Cause.OVERRUN) else ""
        return f"Leg {leg.number} {how or 'ended'}{at} without a safe point"
    if gate.token == Reason.NO_PROGRESS:
        run = gate.relay.empty_run
        upto = f", up to leg {leg.number}" if leg else ""
        return f"{run} legs in a row without verified progress{upto}" if run > 1 else f"No verified progress{upto}"
    return word.meaning[:1].upper() + word.meaning[1:] + (f" (leg {leg.number})" if leg else "")


def gate_page(gate: GateEpisode, now: datetime, tip: str, problem: str = "") -> GatePage:
    """The whole page of a gate that was loaded with its relay and leg; a constant number of queries."""
    relay = gate.relay
    newest = list(Leg.objects.filter(relay=relay).exclude(state="void").order_by("-number")[:1])
    upto = gate.leg.number if gate.leg else (newest[0].number if newest else 0)
    legs = list(Leg.objects.filter(relay=relay, number__lte=upto).exclude(state="void").order_by("-number")[:3])
    leg = next((one for one in legs if one.number == upto), None)
    held = holds_by_leg([one.pk for one in legs])
    rows = tuple(row(one, held.get(one.pk, ()), now) for one in legs)
    baton = Baton.objects.filter(relay=relay, current=True).first()
    verification = _newest(baton)
    checks = (
        list(Check.objects.filter(verification=verification, pointer=True).order_by("number")) if verification else []
    )
    boundary = Boundary.objects.filter(leg=leg).order_by("-number").first() if leg else None
    named = Boundary.objects.filter(leg=leg).exclude(next_actions=[]).order_by("-number").first() if leg else None
    armed = Boundary.objects.filter(leg=leg, armed=True).order_by("number").first() if leg else None
    facts = list(_loose(leg)[: FACTS + 1]) if leg else []
    decisions = list(Decision.objects.filter(gate=gate).select_related("actor").order_by("seq"))
    carried = read(baton.text).baton if baton else None
    next_action = carried.next_action if carried else ""
    steps, ended = _steps(gate)
    digest = _digest(gate, tip, baton, verification, [(check.path, check.verdict) for check in checks])
    return GatePage(
        gate=gate, relay=relay, word=token(gate.token), headline=headline(gate, leg),
        leg=rows[0] if rows and leg else None, next_leg=(newest[0].number if newest else -1) + 1,
        start=carried.cursor.start_sha if carried else "", wip=leg.wip_sha if leg else "", last=rows,
        tombstone=Tombstone.objects.filter(leg=leg).first() if leg else None,
        armed_turn=armed.turn if armed else None, boundary=boundary, dirty=_dirty(leg, boundary),
        loose=tuple(_fixed(fact) for fact in facts[:FACTS]), loose_more=len(facts) > FACTS,
        unresolved=tuple(check for check in checks if check.verdict != "verified"),
        resolved=sum(check.verdict == "verified" for check in checks), next_action=next_action,
        candidates=_candidates(named, next_action, carried.leg if carried else None, leg),
        questions=_questions(carried.open_questions if carried else (), leg),
        decisions=tuple(decisions), have=_approvals(gate, decisions, digest, tip, baton), need=_wanted(relay),
        others=_others(gate), steps=steps, ended=ended, shown=Shown(baton, verification, tip, problem, digest),
        needs_limit=gate.token in _NEEDS_LIMIT, host_lost=bool(leg and leg.cause == Cause.HOST_LOST),
        asked=asked(gate, carried, checks),
    )  # fmt: skip


def _steps(gate: GateEpisode) -> tuple[tuple[Step, ...], str]:
    """The way of an episode; `ended` is refused, expired or superseded where it left it."""
    if gate.state not in STEPS:
        return tuple(Step(state, "was" if state == GateState.WAITING else "") for state in STEPS), gate.state
    at = STEPS.index(GateState(gate.state))
    return tuple(Step(state, "now" if n == at else "was" if n < at else "") for n, state in enumerate(STEPS)), ""


def _loose(leg: Leg) -> QuerySet[Fact]:
    """Facts that the gate refuses: all but the ephemeral class, unless their backing is verified.

    An artifact is a pointer and no fact: one that does not resolve is left out of the baton, and stands on the leg.
    """
    facts = Fact.objects.filter(leg=leg).exclude(kind=Fact.Kind.ARTIFACT).exclude(durability="turn")
    return facts.exclude(verdict="verified").order_by("seq")


def _fixed(fact: Fact) -> Loose:
    """The rule's own words for what would externalize it."""
    kind = next((word for word in (fact.kind, fact.durability) if word in externalize.FIXES), "fact")
    source: externalize.Source = "detected" if fact.kind == Fact.Kind.DETECTED else "declared"
    bearing = externalize.LoadBearing(fact.label, kind, fact.durability, fact.backing, source)
    answers = {fact.backing: Answer(Verdict(fact.verdict), fact.evidence)} if fact.verdict in set(Verdict) else {}
    judged = externalize.gate([bearing], answers, statement_required=False, statement_holds=True)
    fix = judged.culprits[0].fix if judged.culprits else ""
    evidence = fact.evidence or judged.facts[0][2]
    words = externalize.DETECTED.get(fact.durability, "detected") if source == "detected" else fact.kind
    return Loose(
        fact.label,
        words.replace("_", " "),
        fact.backing,
        fact.verdict or ("refused" if fact.evidence else "not yet"),
        evidence,
        fix,
    )


def _recorded(leg: Leg | None) -> dict[str, Any]:
    return leg.end_decision if leg and isinstance(leg.end_decision, dict) else {}


def _dirty(leg: Leg | None, boundary: Boundary | None) -> tuple[str, ...]:
    """Paths that were neither committed nor parked when the leg was judged."""
    found = _recorded(leg).get("dirty")
    if isinstance(found, list):
        return tuple(str(path) for path in found[:PATHS])
    if boundary and boundary.hold == Hold.TREE_DIRTY_UNPARKED:
        return tuple(str(path) for path in boundary.hold_detail[:PATHS])
    return ()


def _candidates(
    named: Boundary | None, carried: str, carried_leg: int | None, leg: Leg | None
) -> tuple[tuple[str, str], ...]:
    """(next action, where it comes from): the agent's own last candidates, then what the baton carries."""
    found: dict[str, str] = {}
    last = _recorded(leg).get("candidates") or (named.next_actions if named else ())
    for text in choose_next_action([str(one) for one in last]).candidates:
        found.setdefault(text, f"named by leg {leg.number}" if leg else "")
    if carried:
        found.setdefault(carried, f"from the baton of leg {carried_leg}")
    return tuple(list(found.items())[:12])


def _questions(carried: Sequence[str], leg: Leg | None) -> tuple[Question, ...]:
    found: dict[str, Question] = {}
    for entry in carried:
        pointer, label = parse_entry(entry)
        ref = str(pointer) if pointer else label
        found.setdefault(ref, Question(ref, label or ref, pointer is not None))
    if leg is not None:
        for fact in Fact.objects.filter(leg=leg, kind=Fact.Kind.OPEN_QUESTION).order_by("seq")[:FACTS]:
            ref = fact.backing or fact.label
            found.setdefault(ref, Question(ref, fact.label, bool(fact.backing)))
    return tuple(list(found.values())[:64])


def _wanted(relay: Relay) -> int:
    wanted = relay.policy.get("approvals") if isinstance(relay.policy, dict) else None
    return wanted if isinstance(wanted, int) and wanted > 0 else 1


def _approvals(gate: GateEpisode, decisions: Sequence[Decision], digest: str, tip: str, baton: Baton | None) -> int:
    """Different people whose approval stands for what is shown; once decided, those of the round that decided."""
    if gate.state != GateState.WAITING:
        turns = [(one.actor_id, one.detail.get("round")) for one in decisions if one.act == "approve"]
        return len({actor for actor, turn in turns if turn == gate.round})
    return len(approvals.standing(gate, decisions, seen=digest, tip=tip, baton=baton))


def _others(gate: GateEpisode) -> int:
    """Other episodes that keep this relay's next leg waiting as well."""
    waiting = GateEpisode.objects.filter(relay_id=gate.relay_id, state=GateState.WAITING, blocks=NEXT_LEG)
    return waiting.exclude(pk=gate.pk).count()
