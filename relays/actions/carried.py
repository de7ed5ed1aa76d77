"""What a decision on a gate may carry: a next action, answers, a narrowed region, a new limit, a new objective.

rules.md: "it may carry: a chosen next action, answers to questions, a narrowed region, a new limit, a new objective;
each is a decision row that the next baton points at", and: "A decision that changes one of them (or the next action)
writes, in its own transaction, a new current baton of the same closing leg: same cursor and tombstone, the new values,
a `ledger` artifact that mirrors the decision".
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from relays.actions.base import Actor, Held, NotLegalNow, Usage, record
from relays.core import baton, budget, donewhen, objective, pointers, policy, region, safepoint, settling
from relays.core.settling import Settled, Settling
from relays.core.vocabulary import Ask, Extra, StopReason
from relays.driver import budgets, leases, rebaton, settled
from relays.models import LIVE_STATES, Baton, Decision, Fact, GateEpisode, Leg, Relay
from relays.reports.sentences import refused

ANSWER_BYTES = 500
#: what a relay stands on from its start: who decides, and where it works
NO_LIMITS = frozenset({"approvals", "four_eyes", "workspace"})


SETTLES = (settled.ACT, "page_fault")
#: one change as the decision that it is: its act, and what it changed
Part = tuple[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes of one decision, all checked."""

    next_action: str
    answers: Mapping[str, str]
    region: tuple[str, ...]
    policy: policy.Policy | None
    sets: tuple[str, ...]
    objective: objective.Pin | None
    settled: tuple[Settled, ...] = ()

    @property
    def waived(self) -> frozenset[str]:
        """Optional pointers that the next baton does without."""
        return frozenset(one.subject for one in self.settled if one.became == settling.WAIVED)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Each change as the decision that it is: its act, and what it changed."""
        found: list[Part] = []
        if self.next_action:
            found.append(("next_action", {"next_action": self.next_action}))
        found += [("answer", {"question": ref, "answer": text}) for ref, text in self.answers.items()]
        if self.region:
            found.append(("region", {"region": list(self.region)}))
        if self.policy:
            found.append(("limit", {"sets": list(self.sets), "policy": policy.to_snapshot(self.policy)}))
        if self.objective:
            found.append(("objective", {"objective_digest": self.objective.digest}))
        for one in self.settled:
            if one.became in (settling.CONFIRMED, settling.REFRESHED):
                found.append((settled.ACT, {"key": one.subject, "became": one.became}))
            else:
                served = {"by": one.text} if one.text else {}
                found.append(("page_fault", {"record": one.subject, "became": one.became, **served}))
        return tuple(found)

    @property
    def acts(self) -> tuple[str, ...]:
        return tuple(act for act, _ in self.parts)

    def beyond(self, stated: Sequence[Part]) -> "Changes":
        """Without what stands already: to say the same again is to agree with it, no change of its own."""
        left = [part for part in self.parts if part not in stated]
        acts = {act for act, _ in left}
        answered = {changed["question"] for act, changed in left if act == "answer"}
        subjects = {changed.get("key", changed.get("record")) for act, changed in left if act in SETTLES}
        return replace(
            self,
            next_action=self.next_action if "next_action" in acts else "",
            answers={ref: text for ref, text in self.answers.items() if ref in answered},
            region=self.region if "region" in acts else (),
            policy=self.policy if "limit" in acts else None,
            sets=self.sets if "limit" in acts else (),
            objective=self.objective if "objective" in acts else None,
            settled=tuple(one for one in self.settled if one.subject in subjects),
        )


def stated(gate: GateEpisode, approvals: Iterable[Decision]) -> tuple[Part, ...]:
    """What these approvals carried: shown to whoever decides after them. One query, where there are any."""
    numbers = {one.seq for one in approvals}
    if not numbers:
        return ()
    rows = Decision.objects.filter(gate=gate).values_list("act", "detail")
    beside = ("of", "statements")
    return tuple(
        (act, {key: value for key, value in detail.items() if key not in beside})
        for act, detail in rows
        if detail.get("of") in numbers
    )


def check(
    gate: GateEpisode,
    relay: Relay,
    next_action: str,
    answers: Mapping[str, str],
    new_region: Sequence[str],
    sets: Sequence[str],
    new_objective: str,
    *,
    approves: bool,
    said: Settling | None = None,
) -> Changes:
    """Check every change before anything is written. `approves`: else it is a refusal that carries them.

    `said`: what becomes of each thing that the episode asks about, where it asks about several.
    """
    chosen = ""
    if next_action.strip():
        choice = safepoint.choose_next_action([next_action])
        if choice.text is None or not choice.text.isprintable():
            raise Usage(_("--next-action must be one line of at most 200 bytes"))
        chosen = choice.text
    try:
        globs = region.check_region(tuple(new_region)) if new_region else ()
        limits = policy.with_sets(budgets.policy_of(relay), sets) if sets else None
        pin = _pin(gate, relay, new_objective, approves)
        check_fit(relay, limits, pin, globs)
    except (region.RegionError, policy.PolicyError, objective.ObjectiveError, baton.BatonError) as error:
        raise Usage(_("decision: %(error)s") % {"error": refused(error)}) from error
    for glob in globs:
        if not _within(glob, relay.region):
            raise Usage(
                _("--region %(glob)s: not within the relay's region %(region)s; only narrow it")
                % {"glob": glob, "region": " ".join(relay.region)[:200]}
            )
    for text in sets:
        if (key := policy.parse_set(text)[0]) in NO_LIMITS:
            raise Usage(
                _("--set %(key)s: no limit, and fixed when a relay starts; a decision changes limits only")
                % {"key": key}
            )
    answered = _answers(gate, relay, answers)
    live = Leg.objects.filter(relay=relay, state__in=LIVE_STATES).first()
    # an answer to a leg that still runs is carried by that leg's own baton
    if (chosen or (answered and not live)) and not Baton.objects.filter(relay=relay, current=True).exists():
        raise NotLegalNow(
            _(
                "decision on %(gate)s: no leg of %(relay)s has ended, so no baton can carry a next action or an "
                "answer; decide without them"
            )
            % {"gate": gate.pk, "relay": relay.pk}
        )
    if chosen and live:
        raise NotLegalNow(
            _(
                "decision on %(gate)s: leg %(live_number)s of %(relay)s is %(state)s and names its own next "
                "action; decide without one, or when the leg has ended"
            )
            % {"gate": gate.pk, "live_number": live.number, "relay": relay.pk, "state": _(live.state)}
        )
    made = _settled(gate, relay, said or Settling()) if approves else ()
    found = Changes(chosen, answered, tuple(globs), limits, tuple(sets), pin, made)
    if found.acts and not can_carry(relay):
        raise NotLegalNow(
            _(
                "decision on %(gate)s: the stored baton of %(relay)s does not read, so it can carry nothing; "
                "decide without changes, or stop the relay"
            )
            % {"gate": gate.pk, "relay": relay.pk}
        )
    return found


def check_fit(relay: Relay, limits: policy.Policy | None, pin: objective.Pin | None, globs: Sequence[str] = ()) -> None:
    """Raise PolicyError or BatonError where the relay's goal cannot run under these, or no baton could carry them."""
    if limits:
        done = donewhen.parse(relay.done_when)
        has_cmd = any(clause.kind == "cmd" for clause in done.clauses)
        policy.check_goal(limits, prose=done.prose, watch=relay.watch, has_cmd=has_cmd)
    if globs or pin:
        bounds = budgets.policy_of(relay).baton
        rebaton.check_room(pin or relay.pin, relay.done_when, globs or relay.region, bounds)


def can_carry(relay: Relay) -> bool:
    """Whether the current baton, if there is one, reads, so that a decision can write the next one from it."""
    return _carried(relay) is not None or not Baton.objects.filter(relay=relay, current=True).exists()


def _settled(gate: GateEpisode, relay: Relay, said: Settling) -> tuple[Settled, ...]:
    """What becomes of what the episode asks about. An assumption that another approver settled is not settled twice."""
    subjects: Sequence[str] = ()
    waivable: Sequence[str] = ()
    if gate.token == Ask.LOW_CONFIDENCE_ASSUMPTION:
        done = settled.confirmed(relay.pk, settling.assumptions_of(gate.items))
        subjects = [key for key in settling.assumptions_of(gate.items) if key not in done or key in said.refresh]
    elif gate.token == Ask.UNSERVED_PAGE_FAULT:
        subjects, waivable = settling.faults_of(gate.items), optional_pointers(relay)
    try:
        return settling.settle(gate.token, said, subjects=subjects, waivable=waivable)
    except settling.SettleError as error:
        raise Usage(_("approve %(gate)s: %(error)s") % {"gate": gate.pk, "error": refused(error)}) from error


def optional_pointers(relay: Relay) -> tuple[str, ...]:
    """The pointers of the current baton that are no anchors: artifacts, and those of questions and dead ends."""
    carried = _carried(relay)
    if carried is None:
        return ()
    named = [f"{one.kind}:{one.ref}" for one in carried.artifacts]
    entries = [pointers.parse_entry(entry)[0] for entry in (*carried.open_questions, *carried.do_not_rederive)]
    return tuple(dict.fromkeys([*named, *(str(one) for one in entries if one is not None)]))


def _pin(gate: GateEpisode, relay: Relay, stated: str, approves: bool) -> objective.Pin | None:
    """The objective as a person states it now, or None where it stays.

    To approve `OBJECTIVE_DRIFT` and state none is to confirm the relay's own as it stands here: that is a statement
    too, unless another approver has made it already.
    """
    if stated.strip():
        return objective.make_pin(pin_id(relay), stated)
    if gate.token != Ask.OBJECTIVE_DRIFT or not approves:
        return None
    try:
        own = objective.make_pin(pin_id(relay), relay.objective)
    except objective.ObjectiveError as error:
        raise Usage(
            _("decision: the relay's objective cannot stand (%(error)s); state one with --objective")
            % {"error": refused(error)}
        ) from error
    carried = _carried(relay)
    settled = objective.reconcile(carried.objective if carried else None, relay.pin)
    return None if settled is objective.Reconciliation.PRESERVED else own


def pin_id(relay: Relay) -> str:
    """The objective's identity: the relay's own, else the one that its baton carries. What names none keeps a person
    from nothing: it is named anew."""
    carried = _carried(relay)
    for name in (relay.pin_id, carried.objective.pin_id if carried else ""):
        try:
            return objective.make_pin(name, "any").pin_id
        except objective.ObjectiveError:
            continue
    return f"pin-{relay.pk.lower()}"


def _carried(relay: Relay) -> baton.Baton | None:
    """The current baton; None where there is none, or where what is stored does not read."""
    text = Baton.objects.filter(relay=relay, current=True).values_list("text", flat=True).first()
    return baton.read(text, budgets.policy_of(relay).baton).baton if text else None


def _within(glob: str, held: Sequence[str]) -> bool:
    """Whether all that `glob` matches is seen to lie in the region: by its own text, or in a folder that is held."""
    literal = not set(glob) & set("*?[")
    for own in held or region.EVERYTHING:
        folder = own.removesuffix("/**").rstrip("/")
        inside = "/" in own and not set(folder) & set("*?[") and glob.startswith(f"{folder}/")
        if own in ("**", glob) or inside or (literal and region.glob_matches(own, glob)):
            return True
    return False


def _answers(gate: GateEpisode, relay: Relay, answers: Mapping[str, str]) -> dict[str, str]:
    """The answers by the reference that the gate's page shows: a question's pointer, or its text where it has none."""
    if not answers:
        return {}
    asked = _questions(gate, relay)
    found: dict[str, str] = {}
    for given, answer in answers.items():
        ref = _canonical(given)
        if ref not in asked:
            known = ", ".join(sorted(asked)[:8]) or _("none")
            raise Usage(
                _("--answer %(given)s: no open question of gate %(gate)s; open are: %(known)s")
                % {"given": given[:200], "gate": gate.pk, "known": known}
            )
        if not answer.strip() or not answer.isprintable() or len(answer.encode()) > ANSWER_BYTES:
            raise Usage(
                _("--answer %(given)s: an answer is one line of at most %(answer_bytes)s bytes")
                % {"given": given[:200], "answer_bytes": ANSWER_BYTES}
            )
        found[ref] = answer.strip()
    return found


def _questions(gate: GateEpisode, relay: Relay) -> set[str]:
    carried = _carried(relay)
    found = set()
    for entry in carried.open_questions if carried else ():
        pointer, label = pointers.parse_entry(entry)
        found.add(str(pointer) if pointer else label)
    if gate.leg:
        rows = Fact.objects.filter(leg=gate.leg, kind=Fact.Kind.OPEN_QUESTION).values_list("backing", "label")
        found.update(_canonical(backing or label) for backing, label in rows)
    return found


def _canonical(ref: str) -> str:
    try:
        return str(pointers.parse_pointer(ref))
    except pointers.PointerError:
        return ref


def needs_limit(
    gate: GateEpisode, relay: Relay, rules: policy.Policy, changes: Changes, *, given: bool = False
) -> None:
    """rules.md: "after `BUDGET_EXHAUSTED` it needs a new limit", one that leaves something.

    `given`: an approval that stands carries one; then who approves after it need not give another.
    """
    envelope = changes.policy.envelope if changes.policy else rules.envelope
    if envelope == rules.envelope and not given:
        such = budget.limit_example(gate.items)
        raise Usage(
            _("approve %(gate)s: %(token)s needs a new limit, such as --set %(such)s")
            % {"gate": gate.pk, "token": gate.token, "such": such}
        )
    over = budget.forbids_leg(envelope, relay.spent)
    if StopReason.QUERIES in gate.items and budget.refuses_query(envelope, relay.spent):
        over = (*over, StopReason.QUERIES)
    if over:
        raise Usage(
            _("approve %(gate)s: with that limit %(over)s still holds; give a higher one in --set")
            % {"gate": gate.pk, "over": ", ".join(over)}
        )


def hold_region(relay: Relay, changes: Changes, moment: datetime) -> None:
    """Before the decision is recorded: a start takes region and decision chain in this order too."""
    if changes.region:
        holder = leases.acquire(relay, changes.region, moment)
        if holder:
            raise Held(
                _(
                    "decision: %(COLLISION_RISK)s: %(holder)s holds a region that overlaps %(region)s; narrow "
                    "--region, or wait until %(holder)s is done or stopped"
                )
                % {"COLLISION_RISK": Extra.COLLISION_RISK, "holder": holder, "region": " ".join(changes.region)}
            )


def apply(
    actor: Actor, gate: GateEpisode | None, relay: Relay, changes: Changes, decision: Decision, moment: datetime
) -> None:
    """Carry changes into the relay and into a new current baton, in the transaction of the decision that carries them.

    Each change is a decision of its own behind it (`of`: its number), and the baton points at the mirror of each.
    """
    fields: dict[str, Any] = {}
    if changes.policy:
        before, after = budgets.policy_of(relay).envelope, changes.policy.envelope
        fields |= {
            "policy": policy.to_snapshot(changes.policy),
            "mode": changes.policy.mode,
            "warned_axes": budgets.still_warned(before, after, relay.warned_axes),
        }
    if changes.region:
        fields["region"] = list(changes.region)
    if changes.objective:
        new = changes.objective
        fields |= {"pin_id": new.pin_id, "objective": new.text, "objective_digest": new.digest}
    if changes.next_action:
        # a person says what is next: a watch that rested is not told to restore its invariant instead
        fields |= {"idle_tip": "", "idle_issues": ""}
    if fields:
        Relay.objects.filter(pk=relay.pk).update(**fields)
        relay.refresh_from_db()
    stated: dict[str, dict[str, Any]] = {}  # of each assumption: which statements the person's word is about
    for one in changes.settled:
        if one.became in (settling.CONFIRMED, settling.REFRESHED):
            if digests := settled.statements(relay, one.subject):
                stated[one.subject] = {"statements": digests}
            settled.keep(relay, one.subject, one.became)
    mirrors = []
    for act, changed in changes.parts:
        row = record(
            actor,
            act,
            now=moment,
            relay=relay,
            gate=gate,
            seen=decision.seen,
            detail={"of": decision.seq, **changed, **stated.get(changed.get("key", ""), {})},
        )
        told = {key: value for key, value in changed.items() if key != "policy"}  # that it has by its own snapshot
        mirrors.append(rebaton.Mirror(row.seq, told, changed.get("question", "")))
    if not mirrors:
        return
    current = Baton.objects.filter(relay=relay, current=True).first()
    if current is None:
        rebaton.mirror(relay, None, mirrors, moment)
        return
    rebaton.after_decision(
        relay,
        current,
        mirrors=mirrors,
        next_action=changes.next_action,
        answers=changes.answers,
        now=moment,
        waived=changes.waived,
    )
