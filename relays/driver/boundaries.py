"""One boundary: look at the world, let the rules decide, keep the record, and only then answer."""

from datetime import datetime

from django.db import transaction
from django.db.models import Count, F, Max

from relays.core import rotation
from relays.core.boundary import BoundaryDecision, Step, decide, owes_statement
from relays.core.vocabulary import Mode
from relays.driver import would
from relays.driver.changes import RELAYS, bump, topic
from relays.driver.claim import Claim
from relays.driver.measure import Measure, Measured, keep_verdicts
from relays.models import Boundary, Leg, LegState, Relay, statements

LINES_KEPT = 50


class Boundaries:
    """Judges the boundaries of one leg in their order."""

    def __init__(self, relay: Relay, leg: Leg, claim: Claim, measure: Measure) -> None:
        self.relay, self.leg, self.claim, self.measure = relay, leg, claim, measure
        self.last_tip = ""
        # what is stored of this leg, by nobody else: (boundaries, the last one's seq), and whether any verdict may be;
        # of a leg that was started before it is not known
        fresh = leg.state == LegState.PENDING
        self.stored: tuple[int, int] | None = (0, -1) if fresh else None
        self.judged = not fresh

    def judge(self, seq: int, now: datetime, *, draining: str, drain_over: bool) -> BoundaryDecision:
        """Decide one boundary and write it down in one transaction; the caller carries the decision out."""
        ceiling = self.measure.ceiling()
        decision, measured = self._decide(now, draining, drain_over, ceiling)
        if decision.armed and not self.leg.armed:
            # armed only now: a leg that is armed must have said `externalized`, so the gate is judged again with it
            self._arm(measured, now)
            decision, measured = self._decide(now, draining, drain_over, ceiling)
        self.last_tip = measured.tip
        self._keep(seq, decision, measured, now)
        if decision.needs_green:
            self.measure.commands.want(measured.tip, now, green=True)
        elif self.measure.commands.clauses:
            self.measure.commands.want(measured.tip, now)
        return decision

    def refresh_commands(self, now: datetime) -> None:
        """Between boundaries: `cmd` clauses beside the leg, at most every `done_check_every`."""
        if self.last_tip and self.measure.commands.clauses:
            self.measure.commands.want(self.last_tip, now)

    def _decide(
        self, now: datetime, draining: str, drain_over: bool, ceiling: bool
    ) -> tuple[BoundaryDecision, Measured]:
        required = owes_statement(Mode(self.relay.mode), armed=self.leg.armed, draining=draining)
        measured = self.measure.look(statement_required=required)
        view = self.measure.boundary_view(measured, draining=draining, drain_over=drain_over, now=now, ceiling=ceiling)
        return decide(view), measured

    def _arm(self, measured: Measured, now: datetime) -> None:
        """Armed is sticky for the leg; what later hysteresis is measured from is set here."""
        crossed = rotation.crossed(self.measure.axes(now))
        total = self.measure.verified_total(measured)
        with transaction.atomic():
            self.claim.hold(now)
            Leg.objects.filter(pk=self.leg.pk, armed=False).update(
                armed=True, armed_axis=crossed.axis if crossed else "", armed_at=now
            )
            Relay.objects.filter(pk=self.relay.pk).update(armed_legs=F("armed_legs") + 1, progress_at_arm=total)
            bump(topic(self.relay.pk), RELAYS)
        self.leg.refresh_from_db()
        self.relay.refresh_from_db()

    def _keep(self, seq: int, decision: BoundaryDecision, measured: Measured, now: datetime) -> None:
        view = self.measure.view
        advised, end = would.end_at(self.measure, decision, measured)
        told: str | None = None
        with transaction.atomic():
            self.claim.hold(now)
            count, last = self.stored or self._stored()
            kept = {
                "number": count,
                "turn": view.turns,
                "at": now,
                "resident_tokens": view.resident,
                "axes": {use.axis: _numbers(use) for use in self.measure.axes(now)},
                "armed": decision.armed,
                "hold": decision.hold or "",
                "hold_detail": [line[:500] for line in decision.detail[:LINES_KEPT]],
                "next_actions": list(measured.candidates[:16]),
                "answer": decision.answer[:60],
                "final": view.final,
                "decision": {
                    "step": str(decision.step),
                    "end": decision.end,
                    "cause": str(decision.cause or ""),
                    "tip": measured.tip,
                    "done": str(measured.done.truth) if measured.done else "not judged",
                    "gate": measured.gate.admit,
                    "would": advised,
                },
            }
            # one that was asked before keeps its first record
            if end is None:
                statements.insert([Boundary(leg_id=self.leg.pk, seq=seq, **kept)])
            else:
                row, _ = Boundary.objects.get_or_create(leg=self.leg, seq=seq, defaults=kept)
                would.keep(self.leg, row, end, now)
            if view.final and decision.step is Step.WIND_DOWN and not self.leg.told_hold:
                told = decision.hold or ""
                Leg.objects.filter(pk=self.leg.pk).update(told_hold=told)
            if measured.gate.facts or self.judged:
                keep_verdicts(self.leg, measured.gate)
            bump(topic(self.relay.pk), RELAYS)
        self.stored = (count + 1, seq) if seq > last else None
        self.judged = bool(measured.gate.facts)
        if told is not None:
            self.leg.told_hold = told

    def _stored(self) -> tuple[int, int]:
        found = Boundary.objects.filter(leg=self.leg).aggregate(count=Count("pk"), last=Max("seq"))
        return found["count"], -1 if found["last"] is None else found["last"]


def _numbers(use: rotation.AxisUse) -> list[float]:
    return [float(use.used or 0), float(use.cap), float(use.mark)]
