"""Approve or refuse a gate: a recorded decision, bound to what was shown."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions import carried, people, reviewers
from relays.actions.base import (
    Actor,
    ChangedSinceSeen,
    NotLegalNow,
    NotPermitted,
    Usage,
    check_comment,
    gate_or_refuse,
    lock,
    need,
    record,
)
from relays.core import policy
from relays.core.lines import recorded
from relays.core.settling import Settling
from relays.core.vocabulary import Ask, Cause
from relays.driver import budgets, causes, finals, gates, git, memory_ops, successor
from relays.driver.changes import INBOX, RELAYS, bump, change_gate, keep_step, ring, topic
from relays.models import (
    NEXT_LEG,
    OPEN_GATES,
    Baton,
    Decision,
    GateEpisode,
    GateState,
    Notice,
    Relay,
    RelayStatus,
    owed,
)
from relays.reports import approvals
from relays.reports import gate as gate_report
from relays.reports import reviewers as reviewer_names
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
    said: Settling | None = None,
) -> GateOutcome:
    """Approve a waiting gate, with changes where wanted; the Nth approval requests the resume (`on_approve`).

    `seen` is the digest that the gate's page and `status` show; when what it stands for has changed meanwhile,
    ChangedSinceSeen is raised and nothing happens. `DONE_UNCONFIRMED` approved is the goal confirmed: the relay is
    done, no leg follows. `OBJECTIVE_DRIFT` approved without a new objective confirms the relay's own. `said`: what
    becomes of each assumption (confirmed, where nothing is said) or page fault (tried again, where nothing is said).
    """
    gate, relay = _load(actor, gate_id, "approve", comment)
    tip = _tip(relay)
    moment = timezone.now()
    with transaction.atomic():
        _locked(actor, gate, relay, seen, tip, "approve")
        rules = budgets.policy_of(relay)
        note = _four_eyes(actor, gate, relay, rules)
        before = _standing(gate, seen, tip)
        if actor.user.pk in before:
            raise NotLegalNow(
                _("approve %(gate)s: user %(user)s has approved it already")
                % {"gate": gate.pk, "user": actor.user.get_username()}
            )
        if gate.leg and gate.leg.cause == Cause.HOST_LOST and not host_dead:
            raise Usage(
                _("approve %(gate)s: the host was lost; confirm that it is dead with --host-dead") % {"gate": gate.pk}
            )
        stated = carried.stated(gate, before.values())
        changes = carried.check(
            gate, relay, next_action, answers or {}, region, sets, objective, approves=True, said=said
        ).beyond(stated)
        if gate.token == Ask.DONE_UNCONFIRMED and changes.acts:
            raise Usage(
                _(
                    "approve %(gate)s: to confirm %(token)s ends %(relay)s, so nothing can be carried over; approve "
                    "alone, or refuse with --next-action or --objective: that says what is missing"
                )
                % {"gate": gate.pk, "token": gate.token, "relay": relay.pk}
            )
        if gate.token == Ask.BUDGET_EXHAUSTED:
            carried.needs_limit(gate, relay, rules, changes, given=any(act == "limit" for act, _changed in stated))
        # who may decide no more counts no more; and nobody who has not seen what this approval changes
        able = set(reviewer_names.able(relay.reviewers).values_list("pk", flat=True))
        before = {pk: one for pk, one in before.items() if pk in able}
        lapsed = sorted(one.actor.get_username() for one in before.values()) if changes.acts else []
        have = 1 if changes.acts else len({*before, actor.user.pk})
        carried.hold_region(relay, changes, moment)
        decision = record(
            actor,
            "approve",
            now=moment,
            relay=relay,
            gate=gate,
            comment=comment,
            seen=seen,
            detail={
                "round": gate.round,
                "tip": tip,
                "host_dead": host_dead,
                "note": note,
                "carries": list(changes.acts),
                "lapsed": lapsed,
                "form": form_digest(next_action, answers, region, sets, objective, said, host_dead=host_dead),
            },
        )
        carried.apply(actor, gate, relay, changes, decision, moment)
        causes.settle(relay, moment, but=gate.pk)
        if have >= rules.approvals:
            _move(actor, gate, GateState.APPROVED, GateState.WAITING, moment, error="")
            memory_ops.decide(gate, consents=True, now=moment)
            if gate.token == Ask.DONE_UNCONFIRMED:
                _confirm(actor, gate, relay, moment)
            else:
                _request(actor, gate, relay, rules, moment)
        elif lapsed:
            owed.gate_waits_again(gate, decision.seq, moment)
            note = ". ".join(part for part in (note, _lapsed(lapsed)) if part)
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
    next_action: str = "",
    answers: Mapping[str, str] | None = None,
    region: Sequence[str] = (),
    sets: Sequence[str] = (),
    objective: str = "",
    reopen: bool = False,
) -> GateOutcome:
    """Refuse a waiting gate: the relay stays parked, or (`then="stop"`) is stopped. `reopen` takes up a refused one.

    A refusal may carry what an approval may; one that states a new objective, or says what a goal in prose still
    lacks, lets an operator resume.
    """
    gate, relay = _load(actor, gate_id, "refuse", comment)
    if then not in ("", "stop"):
        raise Usage(
            _("refuse %(gate)s: --then %(then)s is not known; it is stop, or left out")
            % {"gate": gate.pk, "then": repr(then)}
        )
    carries = bool(next_action.strip() or answers or region or sets or objective.strip())
    if reopen and (then or carries):
        raise Usage(
            _("refuse %(gate)s: --reopen goes alone; decide on the reopened gate afterwards") % {"gate": gate.pk}
        )
    tip = "" if reopen else _tip(relay)
    moment = timezone.now()
    with transaction.atomic():
        if reopen:
            return _reopen(actor, gate, relay, comment, moment)
        _locked(actor, gate, relay, seen, tip, "refuse")
        changes = carried.check(gate, relay, next_action, answers or {}, region, sets, objective, approves=False)
        if then == "stop" and changes.acts:
            raise Usage(
                _("refuse %(gate)s --then stop: a stopped relay takes nothing over; leave the changes out")
                % {"gate": gate.pk}
            )
        if then == "stop" and relay.status != RelayStatus.PARKED:
            raise NotLegalNow(
                _("refuse %(gate)s --then stop: %(relay)s is %(status)s; use `relay stop %(relay)s`")
                % {"gate": gate.pk, "relay": relay.pk, "status": _(relay.status)}
            )
        carried.hold_region(relay, changes, moment)
        decision = record(
            actor,
            "refuse",
            now=moment,
            relay=relay,
            gate=gate,
            comment=comment,
            seen=seen,
            detail={
                "then": then,
                "carries": list(changes.acts),
                "form": form_digest(next_action, answers, region, sets, objective, then=then),
            },
        )
        _move(actor, gate, GateState.REFUSED, GateState.WAITING, moment)
        memory_ops.decide(gate, consents=False, now=moment)
        carried.apply(actor, gate, relay, changes, decision, moment)
        causes.settle(relay, moment, but=gate.pk)
        if then == "stop":
            finals.stopped(
                relay.pk,
                frm=[RelayStatus.PARKED],
                now=moment,
                why=recorded("refused and stopped by %(name)s", name=actor.user.get_username()),
            )
        bump(topic(relay.pk), RELAYS, INBOX)
    gate.refresh_from_db()
    return GateOutcome(gate.pk, gate.state, decision.seq, 0, budgets.policy_of(relay).approvals)


def _load(actor: Actor, gate_id: object, act: str, comment: str) -> tuple[GateEpisode, Relay]:
    gate = gate_or_refuse(gate_id)
    need(actor, "review", _("%(act)s gate %(gate)s") % {"act": _(act), "gate": gate.pk})
    if not comment.strip():
        raise Usage(
            _("%(act)s %(gate)s: a comment is required; say why in --comment") % {"act": _(act), "gate": gate.pk}
        )
    check_comment(f"{_(act)} {gate.pk}", comment)
    return gate, gate.relay


def _tip(relay: Relay) -> str:
    """The branch tip now; asked before the transaction, since no git runs inside one."""
    try:
        return git.store(relay).tip(relay.branch) or ""
    except StoreUnavailable:
        return ""


def _locked(actor: Actor, gate: GateEpisode, relay: Relay, seen: str, tip: str, act: str) -> None:
    """Lock the relay, read it and the gate anew, then judge who decides, and what was seen against what stands now."""
    lock(relay)
    # who lost the role, or was let in no more, while the branch was asked for its tip
    fresh = User.objects.get(pk=actor.user.pk)
    need(Actor(fresh, actor.os_user), "review", _("%(act)s gate %(gate)s") % {"act": _(act), "gate": gate.pk})
    reviewers.check_member(actor, relay, f"{_(act)} {gate.pk}")
    gate.refresh_from_db()
    if gate.state != GateState.WAITING:
        raise NotLegalNow(
            _("%(act)s %(gate)s: it is %(state)s, not waiting; look at `relay status %(relay)s`")
            % {"act": _(act), "gate": gate.pk, "state": _(gate.state), "relay": relay.pk}
        )
    if gate_report.seen_digest(gate, tip) != seen:
        raise ChangedSinceSeen(
            _("%(act)s %(gate)s: changed since you looked; look at gate %(gate)s again and decide on what it shows now")
            % {"act": _(act), "gate": gate.pk}
        )


def _standing(gate: GateEpisode, seen: str, tip: str) -> dict[int, Decision]:
    baton = Baton.objects.filter(relay_id=gate.relay_id, current=True).first()
    rows = Decision.objects.filter(gate=gate)
    return approvals.standing(gate, rows, seen=seen, tip=tip, baton=baton)


def _four_eyes(actor: Actor, gate: GateEpisode, relay: Relay, rules: policy.Policy) -> str:
    """A note for the decision, or NotPermitted: "With `four_eyes` nobody approves what they started"."""
    if not rules.four_eyes or actor.user.pk != relay.owner_id:
        return ""
    name = actor.user.get_username()
    if not any(other != name for other in people.approvers()):
        return recorded("four eyes did not bind: fewer than two people may approve")
    others = [other for other in reviewer_names.names_of(relay.reviewers) if other != name]
    raise NotPermitted(
        _(
            "approve %(gate)s: four eyes: user %(name)s started %(relay)s; another reviewer approves, "
            "signed in or with --as: %(others)s"
        )
        % {
            "gate": gate.pk,
            "name": name,
            "relay": relay.pk,
            "others": ", ".join(others[:5]) or _("nobody is left in its group; an admin adds somebody"),
        }
    )


def _move(actor: Actor, gate: GateEpisode, to: str, frm: str, moment: datetime, **values: Any) -> None:
    """Bring the gate there, or NotLegalNow where something else moved it first: then nothing of the act stands."""
    if not change_gate(gate.pk, to, frm=[frm], now=moment, by=actor.user, **values):
        gate.refresh_from_db()
        raise NotLegalNow(
            _("gate %(gate)s: it is %(state)s since a moment ago; look at it again, nothing was changed")
            % {"gate": gate.pk, "state": _(gate.state)}
        )


def _lapsed(names: Sequence[str]) -> str:
    return _("the approval of %(names)s was given without this change and lapses: they look again") % {
        "names": ", ".join(names[:8])
    }


def form_digest(
    next_action: str,
    answers: Mapping[str, str] | None,
    region: Sequence[str],
    sets: Sequence[str],
    objective: str,
    said: Settling | None = None,
    *,
    host_dead: bool = False,
    then: str = "",
) -> str:
    """sha256 of all that a decision was sent with beside its comment: by which the same form is known when it comes
    again, and another one is not taken for it."""
    settled = said or Settling()
    content = [
        next_action.strip(), sorted((answers or {}).items()), list(region), list(sets), objective.strip(), host_dead,
        then, sorted(settled.confirm), sorted(settled.refresh), sorted(settled.serve.items()), sorted(settled.waive),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(content, ensure_ascii=True).encode("ascii")).hexdigest()


def _confirm(actor: Actor, gate: GateEpisode, relay: Relay, moment: datetime) -> None:
    """A goal in prose is reached because a reviewer says so: the relay is done, no leg is needed."""
    _move(actor, gate, GateState.CONFIRMED, GateState.APPROVED, moment)
    why = recorded("%(token)s: confirmed by %(name)s", token=gate.token, name=actor.user.get_username())
    if not finals.done(relay.pk, frm=[RelayStatus.PARKED], now=moment, why=why):
        raise NotLegalNow(
            _("approve %(gate)s: %(relay)s is %(status)s, not parked; look at its page again")
            % {"gate": gate.pk, "relay": relay.pk, "status": _(relay.status)}
        )


def _request(actor: Actor, gate: GateEpisode, relay: Relay, rules: policy.Policy, moment: datetime) -> None:
    """On approval: the resume is requested, unless a person resumes, or another episode still keeps the relay.

    What was asked while the relay goes on, or kept another step waiting, is answered: "`confirmed`: no leg is needed".
    """
    relay.refresh_from_db()
    if relay.status != RelayStatus.PARKED or gate.blocks != NEXT_LEG:
        _move(actor, gate, GateState.CONFIRMED, GateState.APPROVED, moment, why=recorded("no leg was needed"))
        return
    if rules.resume != "on_approve":
        return
    if gates.undecided(relay.pk).exists() or approvals.standing_refusal(relay.pk):
        return
    approved = list(GateEpisode.objects.filter(relay=relay, state=GateState.APPROVED))
    successor.request(relay, moment, gates_approved=approved, by=actor.user)


def _reopen(actor: Actor, gate: GateEpisode, relay: Relay, comment: str, moment: datetime) -> GateOutcome:
    lock(relay)
    reviewers.check_member(actor, relay, _("refuse %(gate)s --reopen") % {"gate": gate.pk})
    gate.refresh_from_db()
    if gate.state not in (GateState.REFUSED, GateState.EXPIRED):
        raise NotLegalNow(
            _("refuse %(gate)s --reopen: it is %(state)s; only a refused or expired gate is reopened")
            % {"gate": gate.pk, "state": _(gate.state)}
        )
    if relay.final:
        raise NotLegalNow(
            _("refuse %(gate)s --reopen: %(relay)s is %(status)s; start a new relay for more work")
            % {"gate": gate.pk, "relay": relay.pk, "status": _(relay.status)}
        )
    later = (
        GateEpisode.objects.filter(reopened_from=gate).first()
        or GateEpisode.objects.filter(relay=relay, token=gate.token, state__in=OPEN_GATES).first()
    )
    if later is not None:
        raise NotLegalNow(
            _("refuse %(gate)s --reopen: gate %(later)s took its place; decide on that one")
            % {"gate": gate.pk, "later": later.pk}
        )
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
    keep_step(
        again.pk, GateState.WAITING, now=moment, by=actor.user, why=recorded("gate %(gate)s was reopened", gate=gate.pk)
    )
    owed.gate_told(again, Notice.Event.GATE_OPENED, again.state, moment)
    bump(topic(relay.pk), RELAYS, INBOX)
    return GateOutcome(again.pk, again.state, decision.seq, 0, budgets.policy_of(relay).approvals)
