"""Everything that a person needs to decide on one gate, and the digest of it that the decision is bound to.

Mission: "a human is called once, at the end of the drain, with everything needed to decide". Interface: "The decision
carries the digest of what was shown (baton digest, branch tip, verification)".
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from django.utils.translation import gettext as _

from relays.core import budget, externalize
from relays.core.baton import read
from relays.core.pointers import Answer, Verdict, parse_entry
from relays.core.safepoint import choose_next_action
from relays.core.vocabulary import Ask, Cause, Hold, Token, token
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
from relays.reports.asked import Asked, asked
from relays.reports.cold import ColdPrefix, cold_prefixes
from relays.reports.decisions import Row, row_of
from relays.reports.gate_words import cause_of, headline, said_beside
from relays.reports.gateway import Approval, Way, approvals_of, way
from relays.reports.legs import LegRow, holds_by_leg, next_number, row
from relays.reports.parked_times import parked_times
from relays.reports.reviewers import Deciders, deciders
from relays.reports.rules import rules_of
from relays.reports.sentences import told
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore

FACTS = 60
QUESTIONS = 250

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
class GatePage:
    """The page's data. Counts are exact; lists are capped where they say so."""

    gate: GateEpisode
    relay: Relay
    word: Token
    headline: str
    cause: str  # what ended the leg, or kept it from starting
    items: tuple[str, ...]  # what the gate says beside its cause and hold
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
    questions_more: int
    decisions: tuple[Row, ...]
    approvals: tuple[Approval, ...]
    need: int
    others: int
    way: Way
    deciders: Deciders
    expires_at: datetime | None  # None: it waits for as long as it takes
    parked_for: timedelta  # all the time that this relay has waited for people
    cold: ColdPrefix | None  # None: no leg of it has called a model
    shown: Shown
    needs_limit: bool
    on_approve: bool  # the last approval requests the resume; else an operator resumes
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
    def state_word(self) -> str:
        return _(str(self.gate.state))

    @property
    def decided_by(self) -> str:
        """Who brought it where it is; "" where the machine did."""
        if self.way.ended is not None:
            return self.way.ended.by
        taken = [step for step in self.way.steps if step.place]
        return next((step.by for step in reversed(taken) if step.by), "")

    @property
    def question_count(self) -> int:
        return len(self.questions) + self.questions_more

    @property
    def resumes(self) -> bool:
        """Whether one more approval lets the next leg start, so that the button may say it."""
        alone = self.have + 1 >= self.need and not self.others
        return alone and self.on_approve and not self.confirms and self.gate.blocks == NEXT_LEG

    @property
    def short(self) -> str:
        """In words, where fewer people may approve than the policy wants; "" where they are enough."""
        able = {*self.deciders.approving, *(one.name for one in self.approvals)}
        if not self.waiting or len(able) >= self.need:
            return ""
        return _("%(need)d approvals are wanted and %(able)d may approve: an admin adds somebody.") % {
            "need": self.need,
            "able": len(able),
        }

    @property
    def have(self) -> int:
        """Different people whose approval counts."""
        return len(self.approvals)

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
        return "", told(error.evidence)
    return (tip, "") if tip else ("", _("the branch %(branch)s is gone") % {"branch": relay.branch})


def seen_digest(gate: GateEpisode, tip: str) -> str:
    """sha256 of what a person sees of this gate: its round and items, the current baton, the relay's objective, region
    and policy (which no baton tells before a leg has ended), the branch tip, and the outcome and pointer verdicts of
    the newest verification. A check that finds the same again changes nothing."""
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
        "relay": [gate.relay.objective_digest, gate.relay.region, gate.relay.policy],
        "tip": tip,
        "verification": {"outcome": verification.outcome, "pointers": verdicts} if verification else None,
    }
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


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
    questions, questions_more = _questions(carried.open_questions if carried else (), leg)
    rules = rules_of(relay)
    digest = _digest(gate, tip, baton, verification, [(check.path, check.verdict) for check in checks])
    who = deciders(relay, rules.four_eyes)
    approvals = approvals_of(gate, decisions, digest=digest, tip=tip, baton=baton)
    if gate.state == GateState.WAITING:  # of whoever may decide no more none counts, as in the act
        approvals = tuple(one for one in approvals if one.name in who.names)
    return GatePage(
        gate=gate, relay=relay, word=token(gate.token), headline=headline(gate, leg),
        cause=cause_of(gate, leg), items=said_beside(gate, leg),
        leg=rows[0] if rows and leg else None, next_leg=next_number(newest[0] if newest else None),
        start=carried.cursor.start_sha if carried else "", wip=leg.wip_sha if leg else "", last=rows,
        tombstone=Tombstone.objects.filter(leg=leg).first() if leg else None,
        armed_turn=armed.turn if armed else None, boundary=boundary, dirty=_dirty(leg, boundary),
        loose=tuple(_fixed(fact) for fact in facts[:FACTS]), loose_more=len(facts) > FACTS,
        unresolved=tuple(check for check in checks if check.verdict != "verified"),
        resolved=sum(check.verdict == "verified" for check in checks), next_action=next_action,
        candidates=_candidates(named, next_action, carried.leg if carried else None, leg),
        questions=questions, questions_more=questions_more, decisions=tuple(row_of(one) for one in decisions),
        approvals=approvals, need=rules.approvals,
        others=_others(gate), way=way(gate), deciders=who,
        expires_at=gate.state_at + rules.gate_expiry if rules.gate_expiry else None,
        parked_for=parked_times({relay.pk: relay}, now)[relay.pk], cold=cold_prefixes([relay], now).get(relay.pk),
        shown=Shown(baton, verification, tip, problem, digest),
        needs_limit=gate.token in _NEEDS_LIMIT and not _limit_given(decisions, approvals),
        on_approve=rules.resume == "on_approve",
        host_lost=bool(leg and leg.cause == Cause.HOST_LOST),
        asked=asked(gate, carried, checks),
    )  # fmt: skip


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
        return tuple(str(path) for path in found)
    if boundary and boundary.hold == Hold.TREE_DIRTY_UNPARKED:
        return tuple(str(path) for path in boundary.hold_detail)
    return ()


def _candidates(
    named: Boundary | None, carried: str, carried_leg: int | None, leg: Leg | None
) -> tuple[tuple[str, str], ...]:
    """(next action, where it comes from): the agent's own last candidates, then what the baton carries."""
    found: dict[str, str] = {}
    last = _recorded(leg).get("candidates") or (named.next_actions if named else ())
    for text in choose_next_action([str(one) for one in last]).candidates:
        found.setdefault(text, _("named by leg %(leg)d") % {"leg": leg.number} if leg else "")
    if carried:
        found.setdefault(carried, _("from the baton of leg %(leg)s") % {"leg": carried_leg})
    return tuple(list(found.items())[:12])


def _questions(carried: Sequence[str], leg: Leg | None) -> tuple[tuple[Question, ...], int]:
    """The first of them, and how many there are beside those."""
    found: dict[str, Question] = {}
    for entry in carried:
        pointer, label = parse_entry(entry)
        ref = str(pointer) if pointer else label
        found.setdefault(ref, Question(ref, label or ref, pointer is not None))
    if leg is not None:
        asked_here = Fact.objects.filter(leg=leg, kind=Fact.Kind.OPEN_QUESTION).order_by("seq")
        for backing, label in asked_here.values_list("backing", "label"):
            ref = backing or label
            found.setdefault(ref, Question(ref, label, bool(backing)))
    return tuple(list(found.values())[:QUESTIONS]), max(len(found) - QUESTIONS, 0)


def decided_before(gate: GateEpisode, actor: int, act: str, seen: str, comment: str, form: str) -> int | None:
    """The number of the decision that this person made with this very form, if they made one. `form`: the digest of
    all else that the form carries; one that carried something else is another."""
    name = "refuse" if act == "refuse_stop" else act
    rows = Decision.objects.filter(gate=gate, actor=actor, act=name, comment=comment)
    if name != "reopen":
        rows = rows.filter(seen=seen).exclude(seen="")
    found = rows.order_by("-seq").values_list("seq", "detail")
    return next((seq for seq, detail in found if detail.get("form", form) == form), None)


def _limit_given(decisions: Sequence[Decision], approvals: Sequence[Approval]) -> bool:
    """Whether an approval that counts carries a new limit."""
    standing = {one.seq for one in approvals}
    return any(one.act == "limit" and one.detail.get("of") in standing for one in decisions)


def _others(gate: GateEpisode) -> int:
    """Other episodes that keep this relay's next leg waiting as well."""
    waiting = GateEpisode.objects.filter(relay_id=gate.relay_id, state=GateState.WAITING, blocks=NEXT_LEG)
    return waiting.exclude(pk=gate.pk).count()
