"""Approve or refuse a gate: a recorded decision, bound to what was shown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone

from relays.actions.base import (
    Actor,
    ChangedSinceSeen,
    Held,
    NotLegalNow,
    NotPermitted,
    Usage,
    gate_or_refuse,
    need,
    record,
)
from relays.actions import people
from relays.core import objective, pointers, policy, region, safepoint
from relays.core.vocabulary import Ask, Cause, Extra
from relays.driver import budgets, gates, git, leases, rebaton, successor
from relays.driver.changes import INBOX, RELAYS, bump, change_gate, change_relay, ring, topic
from relays.models import Baton, Decision, GateEpisode, GateState, Leg, LegState, Relay, RelayStatus, Request
from relays.reports import gate as gate_report
from relays.stores.base import StoreUnavailable


@dataclass(frozen=True, slots=True)
class GateOutcome:
    """The shape of `approve` and `refuse`."""

    gate: int
    state: str
    decision: int
    have: int
    need: int
    note: str = ""


def approve(
    actor: Actor,
    gate_id: object,
    *,
    seen: str,
    comment: str,
    next_action: str = "",
    answers: Mapping[str, str] | None = None,
    region: Sequence[str] = (),
    sets: Sequence[str] = (),
    objective: str = "",
    host_dead: bool = False,
) -> GateOutcome:
    """Approve a waiting gate, with changes where wanted; the Nth approval requests the resume (`on_approve`).

    `seen` is the digest that the gate's page and `status` show; when what it stands for has changed meanwhile,
    ChangedSinceSeen is raised and nothing happens.
    """
    gate, relay = _load(actor, gate_id, "approve", comment)
    changes = _changes(relay, next_action, answers or {}, region, sets, objective)
    rules = budgets.policy_of(relay)
    tip = _tip(relay)
    moment = timezone.now()
    with transaction.atomic():
        gate, relay = _locked(gate, relay, seen, tip, "approve")
        note = _four_eyes(actor, gate, relay, rules)
        if gate.leg and gate.leg.cause == Cause.HOST_LOST and not host_dead:
            raise Usage(f"approve {gate.pk}: the host was lost; confirm that it is dead with --host-dead")
        if gate.token == Ask.BUDGET_EXHAUSTED and not changes.policy:
            raise Usage(f"approve {gate.pk}: {gate.token} needs a new limit, such as --set envelope.turns=200")
        decision = record(
            actor,
            "approve",
            now=moment,
            relay=relay,
            gate=gate,
            comment=comment,
            seen=seen,
            detail={"round": gate.round, "host_dead": host_dead, "note": note, **changes.detail},
        )
        _apply(relay, changes, decision, moment)
        have = len(
            {
                row.actor_id
                for row in Decision.objects.filter(gate=gate, act="approve")
                if row.detail.get("round") == gate.round
            }
        )
        if have >= rules.approvals:
            change_gate(gate.pk, GateState.APPROVED, frm=[GateState.WAITING], now=moment, error="")
            others = GateEpisode.objects.filter(relay=relay, state=GateState.WAITING).exists()
            if rules.resume == "on_approve" and not others and relay.status == RelayStatus.PARKED:
                approved = list(GateEpisode.objects.filter(relay=relay, state=GateState.APPROVED))
                relay.refresh_from_db()
                successor.request(relay, moment, gates_approved=approved)
        bump(topic(relay.pk), RELAYS, INBOX)
        ring(relay.pk)
    gate.refresh_from_db()
    return GateOutcome(gate.pk, gate.state, decision.seq, have, rules.approvals, note)


def refuse(
    actor: Actor,
    gate_id: object,
    *,
    seen: str,
    comment: str,
    then: str = "",
    objective: str = "",
    reopen: bool = False,
) -> GateOutcome:
    """Refuse a waiting gate: the relay stays parked, or (`then="stop"`) is stopped. `reopen` takes up a refused one."""
    gate, relay = _load(actor, gate_id, "refuse", comment)
    if then not in ("", "stop"):
        raise Usage(f"refuse {gate.pk}: --then {then!r} is not known; it is stop, or left out")
    changes = _changes(relay, "", {}, (), (), objective)
    tip = _tip(relay)
    moment = timezone.now()
    with transaction.atomic():
        if reopen:
            return _reopen(actor, gate, relay, comment, moment)
        gate, relay = _locked(gate, relay, seen, tip, "refuse")
        decision = record(
            actor,
            "refuse",
            now=moment,
            relay=relay,
            gate=gate,
            comment=comment,
            seen=seen,
            detail={"then": then, **changes.detail},
        )
        change_gate(gate.pk, GateState.REFUSED, frm=[GateState.WAITING], now=moment)
        _apply(relay, changes, decision, moment)
        if then == "stop":
            Leg.objects.filter(relay=relay, state=LegState.PENDING).update(state=LegState.VOID)
            change_relay(
                relay.pk,
                RelayStatus.STOPPED,
                frm=[RelayStatus.PARKED],
                now=moment,
                why=f"refused and stopped by {actor.user.get_username()}",
                ended_reason="STOPPED",
                ended_at=moment,
                next_at=None,
                park=Request.NONE,
                stop=Request.NONE,
            )
            gates.supersede_open(relay.pk, moment)
            leases.release(relay.pk)
        bump(topic(relay.pk), RELAYS, INBOX)
    gate.refresh_from_db()
    return GateOutcome(gate.pk, gate.state, decision.seq, 0, budgets.policy_of(relay).approvals)


@dataclass(frozen=True, slots=True)
class _Changes:
    next_action: str
    answers: Mapping[str, str]
    region: tuple[str, ...]
    policy: Mapping[str, Any]
    objective: objective.Pin | None

    @property
    def detail(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.next_action:
            found["next_action"] = self.next_action
        if self.answers:
            found["answers"] = dict(self.answers)
        if self.region:
            found["region"] = list(self.region)
        if self.policy:
            found["policy"] = dict(self.policy)
        if self.objective:
            found["objective_digest"] = self.objective.digest
        return found


def _load(actor: Actor, gate_id: object, act: str, comment: str) -> tuple[GateEpisode, Relay]:
    gate = gate_or_refuse(gate_id)
    need(actor, "review", f"{act} gate {gate.pk}")
    if not comment.strip():
        raise Usage(f"{act} {gate.pk}: a comment is required; say why in --comment")
    return gate, gate.relay


def _tip(relay: Relay) -> str:
    """The branch tip now; asked before the transaction, since no git runs inside one."""
    try:
        return git.store(relay).tip(relay.branch) or ""
    except StoreUnavailable:
        return ""


def _locked(gate: GateEpisode, relay: Relay, seen: str, tip: str, act: str) -> tuple[GateEpisode, Relay]:
    """Lock the gate's row, then compare what was seen with what stands now."""
    GateEpisode.objects.filter(pk=gate.pk).update(state_at=gate.state_at)
    gate.refresh_from_db()
    relay.refresh_from_db()
    if gate.state != GateState.WAITING:
        raise NotLegalNow(f"{act} {gate.pk}: it is {gate.state}, not waiting; look at `relay status {relay.pk}`")
    if gate_report.seen_digest(gate, tip) != seen:
        raise ChangedSinceSeen(
            f"{act} {gate.pk}: changed since you looked; look at gate {gate.pk} again and decide on what it shows now"
        )
    return gate, relay


def _four_eyes(actor: Actor, gate: GateEpisode, relay: Relay, rules: policy.Policy) -> str:
    if Decision.objects.filter(gate=gate, act="approve", actor=actor.user, detail__round=gate.round).exists():
        raise NotLegalNow(f"approve {gate.pk}: user {actor.user.get_username()} has approved it already")
    if not rules.four_eyes or actor.user.pk != relay.owner_id:
        return ""
    if people.approvers() < 2:
        return "four eyes did not bind: fewer than two people may approve"
    raise NotPermitted(
        f"approve {gate.pk}: four eyes: user {actor.user.get_username()} started {relay.pk}; another reviewer approves"
    )


def _changes(
    relay: Relay,
    next_action: str,
    answers: Mapping[str, str],
    new_region: Sequence[str],
    sets: Sequence[str],
    new_objective: str,
) -> _Changes:
    """Check every change before anything is written."""
    chosen = ""
    if next_action.strip():
        choice = safepoint.choose_next_action([next_action])
        if choice.text is None:
            raise Usage("--next-action must be one line of at most 200 bytes")
        chosen = choice.text
    try:
        for ref in answers:
            pointers.parse_pointer(ref)
        globs = region.check_region(tuple(new_region)) if new_region else ()
        limits = policy.to_snapshot(policy.with_sets(budgets.policy_of(relay), sets)) if sets else {}
        pin = objective.make_pin(relay.pin_id, new_objective) if new_objective.strip() else None
    except (pointers.PointerError, region.RegionError, policy.PolicyError, objective.ObjectiveError) as error:
        raise Usage(f"decision: {error}") from error
    for ref, answer in answers.items():
        if not answer.strip() or len(answer.encode()) > 500 or not answer.isprintable():
            raise Usage(f"--answer {ref}: an answer is one line of at most 500 bytes")
    return _Changes(chosen, answers, tuple(globs), limits, pin)


def _apply(relay: Relay, changes: _Changes, decision: Decision, moment: datetime) -> None:
    """Carry changes into the relay and into a new current baton, in the decision's own transaction."""
    if changes.policy:
        Relay.objects.filter(pk=relay.pk).update(policy=dict(changes.policy), warned_axes=[])
        relay.policy = dict(changes.policy)
    if changes.region:
        holder = leases.acquire(relay, changes.region, moment)
        if holder:
            raise Held(f"decision: {Extra.COLLISION_RISK}: {holder} holds a region that overlaps {changes.region}")
        Relay.objects.filter(pk=relay.pk).update(region=list(changes.region))
        relay.region = list(changes.region)
    if changes.objective:
        Relay.objects.filter(pk=relay.pk).update(
            objective=changes.objective.text, objective_digest=changes.objective.digest
        )
        relay.objective, relay.objective_digest = changes.objective.text, changes.objective.digest
    if changes.next_action or changes.answers or changes.region or changes.objective:
        current = Baton.objects.filter(relay=relay, current=True).first()
        if current is not None:
            rebaton.after_decision(
                relay,
                current,
                decision_seq=decision.seq,
                next_action=changes.next_action,
                answers=changes.answers,
                now=moment,
            )


def _reopen(actor: Actor, gate: GateEpisode, relay: Relay, comment: str, moment: datetime) -> GateOutcome:
    if gate.state not in (GateState.REFUSED, GateState.EXPIRED):
        raise NotLegalNow(f"refuse {gate.pk} --reopen: it is {gate.state}; only a refused or expired gate is reopened")
    if relay.final:
        raise NotLegalNow(f"refuse {gate.pk} --reopen: {relay.pk} is {relay.status}")
    decision = record(actor, "reopen", now=moment, relay=relay, gate=gate, comment=comment)
    again = GateEpisode.objects.create(
        relay=relay,
        leg=gate.leg,
        token=gate.token,
        items=gate.items,
        blocks=gate.blocks,
        opened_at=moment,
        state_at=moment,
        reopened_from=gate,
    )
    bump(topic(relay.pk), RELAYS, INBOX)
    return GateOutcome(again.pk, again.state, decision.seq, 0, budgets.policy_of(relay).approvals)
