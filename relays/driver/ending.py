"""The end of a leg: judged once, recorded, carried out, and closed in ONE transaction.

states.md, Order of closing: "end decision recorded → agent told `stop` → its process tree gone → tip and tree read
again (changed: judged again) → the rotation transaction → git note through the outbox. A recorded end decision is
finished whatever `on_crash` says."
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from relays.core import backoff, budget, donewhen, reset, watch
from relays.core import progress as core_progress
from relays.core.boundary import owes_statement
from relays.core.lifecycle import GAVE_UP, EndDecision, EndView, has_successor, judge_end
from relays.core.lines import recorded
from relays.core.policy import Policy
from relays.core.vocabulary import Ask, Cause, Hold, Mode, Reason, token
from relays.driver import (
    baton_maker,
    budgets,
    effects,
    finals,
    gates,
    git,
    memories,
    progress,
    rebaton,
    starts,
    successor,
)
from relays.driver.changes import INBOX, RELAYS, bump, change_leg, change_relay, lock, topic
from relays.driver.claim import Claim
from relays.driver.measure import Measure, Measured, keep_verdicts
from relays.models import (
    LIVE_STATES,
    Baton,
    Boundary,
    Leg,
    LegState,
    Outbox,
    Relay,
    RelayStatus,
    Request,
    Tombstone,
)
from relays.stores.base import StoreUnavailable


@dataclass(frozen=True, slots=True)
class Judged:
    """An end decision with what it was judged on."""

    decision: EndDecision
    measured: Measured
    made: progress.Made | None
    empty_run: int


class Ending:
    """Closes one leg. Each step can be repeated after a crash and leads to the same result."""

    def __init__(self, measure: Measure, claim: Claim, policy: Policy) -> None:
        self.measure, self.claim, self.policy = measure, claim, policy
        self.relay, self.leg = measure.relay, measure.leg

    def judge(
        self,
        cause: Cause | None,
        *,
        agent_ended: bool = False,
        candidates: tuple[str, ...] | None = None,
    ) -> Judged:
        """Judge the leg on the tree as the agent left it; commands for the present tip are run where it would fire."""
        required = owes_statement(Mode(self.relay.mode), armed=self.leg.armed, draining=self.leg.drain_reason)
        measured = self.measure.look(statement_required=required, candidates=candidates)
        if measured.stores is not None and self.measure.commands.settle(
            measured.tip, green=measured.safe.safe and measured.gate.admit
        ):
            measured = self.measure.look(statement_required=required, candidates=candidates)
        made = self.measure.made(measured)
        total = made.progress.total if made else None
        run = core_progress.after_leg(self.relay.empty_run, total)
        decision = judge_end(end_view(self.measure, measured, run, cause, agent_ended=agent_ended))
        return Judged(decision, measured, made, watch.empty_run(decision.reason, self.relay.empty_run, total))

    def record(self, judged: Judged, now: datetime, *, forced: Cause | None, advisory: bool = False) -> None:
        """The decision first: whoever finds this leg later finishes it. `forced`: what forced the end, None = fired."""
        record = {
            **judged.decision.as_mapping(),
            "forced": str(forced or ""),
            "advisory": advisory,
            "tip": judged.measured.tip,
            "dirty": list(judged.measured.tree.dirty[:200]),
            "parked": judged.measured.tree.parked,
            "operation": judged.measured.tree.operation,
            "candidates": list(judged.measured.candidates[:16]),
            "in_flight": sorted(judged.measured.in_flight)[:64],
        }
        with transaction.atomic():
            self.claim.hold(now)
            change_leg(
                self.leg.pk,
                LegState.ENDING,
                frm=[state for state in LIVE_STATES if state != LegState.ENDING],
                end_decision=record,
            )
            starts.runs_again(self.relay.pk, self.leg.pk, now)
            keep_verdicts(self.leg, judged.measured.gate)
            bump(topic(self.relay.pk), RELAYS)
        self.leg.refresh_from_db()

    def again(self, judged: Judged, now: datetime) -> Judged:
        """After the process tree is gone: judge again if tip or tree changed since the decision was recorded."""
        recorded = self.leg.end_decision or {}
        cause = forced_by(recorded)
        later = self.judge(cause, agent_ended=cause is Cause.AGENT_EXIT, candidates=judged.measured.candidates)
        same = (
            later.measured.tip == recorded.get("tip")
            and list(later.measured.tree.dirty[:200]) == recorded.get("dirty")
            and later.measured.tree.operation == recorded.get("operation")
        )
        if same:
            total = later.made.progress.total if later.made else None
            run = watch.empty_run(judged.decision.reason, self.relay.empty_run, total)
            return Judged(judged.decision, later.measured, later.made, run)
        self.leg.end_decision = {**recorded, **later.decision.as_mapping(), "tip": later.measured.tip}
        with transaction.atomic():
            self.claim.hold(now)
            Leg.objects.filter(pk=self.leg.pk, state=LegState.ENDING).update(end_decision=self.leg.end_decision)
        return later

    def store_work(self) -> str:
        """Dirty work under refs/relay/wip/<relay>/<leg>, "so that parked never means lost"; "" when there is none."""
        tree = git.tree(self.relay)
        name = f"refs/relay/wip/{self.relay.pk}/{self.leg.number}"
        return tree.store_wip(name, f"Work in progress of {self.relay.pk} leg {self.leg.number}") or ""

    def close(self, judged: Judged) -> str:
        """The rotation transaction: tombstone, baton, the leg's end, the reset transaction, the successor's row.

        Returns the relay's new status. A leg that is closed already is left as it is.
        """
        wip, wip_error = "", ""
        tree = judged.measured.tree
        try:
            if tree.dirty or tree.operation or not tree.known:
                with transaction.atomic():
                    self.claim.hold()  # who has lost it leaves the refs alone, too
                wip = self.store_work()
        except StoreUnavailable as error:
            wip_error = error.evidence
        decision, measured = judged.decision, judged.measured
        issues = _issues(decision, measured)
        now = timezone.now()
        self._remember(measured, now)
        parts = baton_maker.gather(self.leg, measured, judged.made)
        # the process tree is gone, so no event follows; nobody waits for the database while they are read
        turns = successor.turns_of(self.leg)
        advisory = bool((self.leg.end_decision or {}).get("advisory"))
        with transaction.atomic():
            self.claim.hold(now)
            # locked: a park or stop that a person asks for now is in this judgement or finds its outcome
            relay = lock(self.relay.pk)
            at_sha = measured.tip or self.leg.cursor_sha or relay.start_sha
            total = judged.made.progress.total if judged.made else 0
            closed = change_leg(
                self.leg.pk,
                LegState.ENDED,
                frm=[LegState.ENDING],
                ended_at=now,
                reason=decision.reason,
                cause=decision.cause,
                hold=decision.hold,
                end_sha=at_sha,
                wip_sha=wip,
                advisory=advisory,
                turns_digest=reset.whole_digest(turns.digests),
                progress=total if judged.made else None,
                progress_detail=judged.made.detail if judged.made else {},
            )
            if not closed:
                return relay.status
            self.leg.refresh_from_db()
            progress.keep(self.leg, self.leg.progress_detail)
            relay.empty_run = judged.empty_run
            relay.progress_total += total
            baton = baton_maker.make(relay, self.leg, measured, parts, decision, wip, now)
            row = rebaton.store(relay, self.leg, baton, "rotation", now)
            baton_maker.keep_verdicts(self.leg, parts)
            Tombstone.objects.create(
                leg=self.leg,
                reason=decision.reason,
                cause=decision.cause,
                hold=decision.hold,
                at_sha=at_sha,
                note=baton.tombstone.note,
                assessment=baton_maker.assessment(self.leg, judged.made, parts, decision, wip, wip_error),
                at=now,
            )
            status = self._move_on(relay, decision, row, measured, issues, advisory, turns, now)
            Outbox.objects.get_or_create(
                kind=Outbox.Kind.GIT_NOTE, target=str(row.pk), defaults={"relay": relay, "not_before": now}
            )
            Outbox.objects.get_or_create(
                kind=Outbox.Kind.LEDGER_REF,
                target=f"{relay.pk}.{self.leg.number}",
                defaults={"relay": relay, "not_before": now},
            )
            bump(topic(relay.pk), RELAYS, INBOX)
        return status

    def _remember(self, measured: Measured, now: datetime) -> None:
        """What the leg wanted to become memory, by evidence that resolves now: the baton carries what was earned."""
        judged = effects.judge_promotions(self.leg, measured.stores)
        lost = memories.found_or_none(self.relay, self.leg, measured.stores)
        if judged or lost.slugs:
            with transaction.atomic():
                self.claim.hold(now)
                effects.keep_promotions(self.leg, judged, now)
                memories.ask_about_found(self.leg, lost, now)
                bump(topic(self.relay.pk), INBOX)

    def _move_on(
        self,
        relay: Relay,
        decision: EndDecision,
        row: Baton,
        measured: Measured,
        issues: str,
        advisory: bool,
        turns: successor.Turns | None,
        now: datetime,
    ) -> str:
        """Where the relay goes: done, idle, ready with a successor, waiting at the cap, parked, or stopped."""
        fields: dict[str, Any] = {
            "empty_run": relay.empty_run,
            "progress_total": relay.progress_total,
            "park": Request.NONE,
            "next_at": None,
            "attempts": 0,
        }
        if (self.leg.progress or 0) > 0:
            fields["progress_at"] = now
        live = (RelayStatus.RUNNING, RelayStatus.READY, RelayStatus.WAITING)
        present = [relay.status] if relay.status in live else list(live)
        # an advisory end parks, even a done one: the done-check of a resumed relay ends it
        if decision.reason is Reason.GOAL_DONE and (relay.stop or not advisory):
            # a relay whose leg never ran is ready still; done is legal from both
            finals.done(relay.pk, frm=[s for s in present if s != RelayStatus.WAITING], now=now, **fields)
            return RelayStatus.DONE
        asked = gates.undecided(relay.pk).exists()
        if decision.reason is Reason.IDLE_PARKED and not (relay.stop or relay.park or advisory or asked):
            # a spent envelope asks nobody while there is nothing to do: the start of the next leg does
            frm = [s for s in present if s != RelayStatus.WAITING]
            finals.idle(relay.pk, frm=frm, now=now, tip=measured.tip, issues=issues, **fields)
            return RelayStatus.IDLE
        if relay.stop:
            finals.stopped(relay.pk, frm=present, now=now, why=recorded("stopped by a person"), **fields)
            return RelayStatus.STOPPED
        over = budget.forbids_leg(self.policy.envelope, relay.spent)
        unknown_spend = budget.spend_unknown(self.policy.envelope, relay.spent) and (
            budgets.SPEND_UNKNOWN not in relay.warned_axes
        )
        spent = bool(over) or unknown_spend or decision.cause == Cause.ENVELOPE
        if has_successor(
            decision,
            park=bool(relay.park),
            stop=False,
            envelope_spent=spent,
            blocking_ask=asked,
            mode=Mode(relay.mode),
        ):
            return self._succeed(relay, row, fields, turns, now)
        return self._park(relay, decision, fields, present, advisory, over, unknown_spend, spent, now)

    def _succeed(
        self, relay: Relay, row: Baton, fields: dict[str, Any], turns: successor.Turns | None, now: datetime
    ) -> str:
        successor.make(relay, self.leg, row, now, turns=turns)
        capped = self.measure.cap(now)
        if capped.admit:
            change_relay(relay.pk, RelayStatus.READY, frm=[RelayStatus.RUNNING], now=now, **fields)
            return RelayStatus.READY
        change_relay(
            relay.pk,
            RelayStatus.WAITING,
            frm=[RelayStatus.RUNNING],
            now=now,
            why=recorded(
                "ROTATION_CAPPED: %(used)s of %(limit)s rotations in the last hour",
                used=capped.used,
                limit=capped.limit,
            ),
            **(fields | {"next_at": capped.next_at}),
        )
        return RelayStatus.WAITING

    def _park(
        self,
        relay: Relay,
        decision: EndDecision,
        fields: dict[str, Any],
        present: Sequence[str],
        advisory: bool,
        over: tuple[str, ...],
        unknown_spend: bool,
        spent: bool,
        now: datetime,
    ) -> str:
        why = f"{decision.reason}: {decision.cause or 'no successor'}"
        asked = decision.ask or (Ask.BUDGET_EXHAUSTED if spent else None)
        if advisory:
            why = recorded(
                "%(reason)s in mode %(mode)s: an operator resumes or stops the relay",
                reason=decision.reason,
                mode=relay.mode,
            )
        elif decision.cause in GAVE_UP and self.measure.view.trouble:
            why = f"{why}: {backoff.WORDS[self.measure.view.trouble]}"
        elif asked and not decision.cause:
            why = f"{asked}: {token(asked).meaning}"
        if relay.park and decision.reason in (Reason.ROTATED, Reason.IDLE_PARKED):
            at = (
                recorded("behind the one leg that was to run")
                if relay.park == Request.LEG
                else recorded("at a safe point")
            )
            why = recorded("parked by a person %(at)s", at=at)
        change_relay(relay.pk, RelayStatus.PARKED, frm=present, now=now, why=why, **fields)
        if advisory:
            return RelayStatus.PARKED
        items = [line for line in decision.detail if line]
        if Boundary.objects.filter(leg=self.leg, hold=Hold.ROTATION_CAPPED).exists():
            limit = self.policy.rotations_per_hour
            items.append(
                recorded(
                    "earlier safe points were held by the rotation cap (%(limit)d an hour): rotations_per_hour",
                    limit=limit,
                )
            )
        if decision.ask:
            gates.open_episode(relay.pk, decision.ask, leg=self.leg, items=items, now=now)
        if spent and not relay.park:
            axes = [f"{reason}" for reason in over]
            if unknown_spend:
                axes.append(
                    recorded(
                        "spend unknown: %(unpriced_calls)s calls have no price", unpriced_calls=relay.unpriced_calls
                    )
                )
                Relay.objects.filter(pk=relay.pk).update(warned_axes=[*relay.warned_axes, budgets.SPEND_UNKNOWN])
            gates.open_episode(
                relay.pk,
                Ask.BUDGET_EXHAUSTED,
                leg=self.leg,
                items=[*axes, f"tombstone of leg {self.leg.number}: {decision.reason}"],
                now=now,
            )
        elif decision.reason in (Reason.PARKED_UNSAFE, Reason.NO_PROGRESS):
            gates.open_episode(relay.pk, decision.reason, leg=self.leg, items=items, now=now)
        return RelayStatus.PARKED


def _issues(decision: EndDecision, measured: Measured) -> str:
    """The digest of the issue store that an idle watch was judged at; "" where it is not wanted or does not answer."""
    if decision.reason is not Reason.IDLE_PARKED or measured.stores is None:
        return ""
    try:
        return measured.stores.issue_digest()
    except StoreUnavailable:
        return ""


def end_view(
    measure: Measure, measured: Measured, empty_run: int, cause: Cause | None, *, agent_ended: bool = False
) -> EndView:
    """What the end of a leg is judged by; the green command only from its kept answer for the tip."""
    policy = measure.policy
    green = measure.commands.green_result(measured.tip) if policy.green else None
    return EndView(
        done=measured.done,
        watch=measure.relay.watch,
        watch_pending=not measured.watch_quiet,
        safe=measured.safe,
        gate=measured.gate,
        tree_ok=measured.tree.green_or_parked,
        empty_legs=empty_run,
        no_progress_legs=policy.no_progress_legs,
        cause=cause,
        agent_ended=agent_ended,
        prose=donewhen.parse(measure.relay.done_when).prose,
        green_failed=bool(policy.green) and (green is None or not green.passed),
        crash_parks=policy.on_crash == "park",
        trouble=measure.view.trouble,
    )


def forced_by(record: Mapping[str, Any]) -> Cause | None:
    """What forced a recorded end: a rotation has no cause of its own, yet is judged again under what ended it."""
    return Cause(record["forced"]) if record.get("forced") else None


def charge_wall(relay_pk: str, leg_pk: int, until: datetime, since: datetime | None) -> datetime:
    """Debit running time up to `until`; pauses and waiting are never in it. Call inside a transaction."""
    debited = until - since if since is not None else timedelta(0)
    if debited > timedelta(0):
        Relay.objects.filter(pk=relay_pk).update(wall_used=F("wall_used") + debited)
    Leg.objects.filter(pk=leg_pk).update(charged_until=until)
    if debited > timedelta(0):
        budgets.warn(relay_pk)
    return until
