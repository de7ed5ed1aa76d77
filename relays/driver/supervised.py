"""What one supervisor knows of its leg, how it hears people and the clock, and how the leg ends.

states.md, Order of closing: "end decision recorded → agent told `stop` → its process tree gone → tip and tree read
again (changed: judged again) → the rotation transaction".
"""

import time
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from django.db import transaction
from django.utils import timezone

from relays.core.advisory import closes_as_advice
from relays.core.boundary import Step
from relays.core.events import parse_line
from relays.core.legview import LegView
from relays.core.lifecycle import EndDecision
from relays.core.vocabulary import Cause, Mode
from relays.driver import budgets, commands, recalling
from relays.driver.answering import Answering
from relays.driver.attached import Attached
from relays.driver.backing_off import BackOff
from relays.driver.boundaries import Boundaries
from relays.driver.claim import Claim
from relays.driver.draining import Drain
from relays.driver.ending import Ending, Judged, charge_wall, forced_by
from relays.driver.ingest import Ingest
from relays.driver.measure import Measure
from relays.driver.window import Window
from relays.models import Boundary, Leg, LegState, Relay, RelayStatus
from relays.models.statements import Followed

POLL = 0.4  # seconds between two looks at the database
BEAT = 2.0  # seconds between two heartbeats
ANSWERING = 1.0  # seconds that uses of the query tool may take before the clock, the exit and people are looked at
STOP_GRACE = 10.0  # seconds that an agent has to exit after it was told `stop`


class Host(Protocol):
    """A process that drives legs one after the other. `down`: it was asked to end, between two legs perhaps."""

    down: bool

    def start(self, relay_id: str, leg_pk: int) -> bool: ...


class Supervised:
    """The state of one supervised leg."""

    def __init__(self, leg: Leg, claim: Claim, host: Host | None = None) -> None:
        self.host = host
        self.relay: Relay = leg.relay
        self.relay.refresh_from_db()
        self.followed = Followed(self.relay)
        self.leg, self.claim = leg, claim
        self.policy = budgets.policy_of(self.relay)
        self.view = LegView()
        self.commands = commands.Commands(self.relay, self.policy, claim)
        self.measure = Measure(self.relay, leg, self.policy, self.view, self.commands)
        self.ending = Ending(self.measure, claim, self.policy)
        self.ingest = Ingest(self.relay, leg, claim, self.view)
        self.ingest.fault_of = lambda payload: recalling.of_event(self.relay, self.measure.git, payload)
        self.answering = Answering(self.relay, leg, claim, self.ingest, self.measure)
        self.boundaries = Boundaries(self.relay, leg, claim, self.measure)
        self.line = Attached(self.relay, leg, claim)
        self.drain = Drain(self.relay, leg, claim)
        self.back_off = BackOff(self.relay, leg, claim, self.view)
        self.window = Window(leg, claim)
        self.asked = True  # a boundary was asked since the last main call: the program can be held
        self.passed = True  # the last main call was let through at a boundary
        self.last_event = time.monotonic()
        self.waiting_since: float | None = None  # no further model call, but tools still run
        self.waiting_for = Cause.CEILING
        self.after_boundary = 0  # events since the last boundary
        self.queue: deque[bytes] = deque()  # lines that were read and not looked at
        self.gathering = 0.0  # since when words wait for those that follow them at once; 0.0: none do
        self.beaten = self.polled = self.listened = 0.0
        self.commands.beat = self._heartbeat
        self.commands.impatient = self._impatient

    def _at_once(self) -> Cause | None:
        """What a person wants now, without a safe point; a leg in back-off has nothing that a stop would drain."""
        if self.relay.stop == "now" or (self.relay.stop and self.leg.state == LegState.BACKOFF):
            return Cause.STOP
        return Cause.PARK_NOW if self.relay.park == "now" else None

    # --- people, budgets, drain

    def _poll(self, force: bool = False) -> None:
        """Requests of people and the claim, at most every POLL seconds."""
        if not force and time.monotonic() - self.polled < POLL:
            return
        self.polled = time.monotonic()
        self.followed.refresh()
        fresh = budgets.policy_of(self.relay)
        if fresh != self.policy:
            # "A running relay's policy changes only by a recorded decision, from the next boundary on"
            self.policy = self.measure.policy = self.ending.policy = fresh
            self.commands.policy = fresh
        self.drain.follow(self.policy, self.view.turns)

    def _impatient(self) -> bool:
        """Whether a person wants an end now, or the leg is not to start any more: no command is waited for then."""
        if time.monotonic() - self.listened >= POLL:
            self.listened = time.monotonic()
            self.relay.refresh_from_db(fields=["park", "stop", "status"])
        off = self.leg.state == LegState.PENDING and self.relay.status != RelayStatus.READY
        return off or self._at_once() is not None

    def _beat(self) -> None:
        if self._heartbeat():
            self.boundaries.refresh_commands(timezone.now())

    def _heartbeat(self) -> bool:
        """Claim and wall clock: running time is debited as it passes, so that no restart mints a fresh budget."""
        if time.monotonic() - self.beaten < BEAT:
            return False
        self.beaten = time.monotonic()
        now = timezone.now()
        with transaction.atomic():
            self.claim.hold(now)
            if self.leg.started_at and self.line.agent is not None and self.leg.state != LegState.BACKOFF:
                self.leg.charged_until = charge_wall(self.relay.pk, self.leg.pk, now, self.leg.charged_until)
        self.line.keep_up()
        return True

    # --- the end

    def _end(self, cause: Cause | None, *, judged_at_boundary: bool = False) -> str:
        """Judge the leg on the tree as it stands, record, tell the agent, wait for its end, close."""
        self.ingest.flush(timezone.now())
        crashed = cause in (Cause.AGENT_CRASH, Cause.SILENCE, Cause.SUPERVISOR_CRASH, Cause.SIGN_IN)
        candidates = self._last_candidates() if crashed else None
        if cause in (Cause.PARK_NOW, Cause.STOP) and self.after_boundary:
            candidates = ()  # in mid-turn there is no boundary, so no next action was offered
        judged = self.ending.judge(cause, agent_ended=cause is Cause.AGENT_EXIT, candidates=candidates)
        if self.commands.interrupted and (at_once := self._at_once()) and cause is not at_once:
            # a person did not wait for what the judgement waited for
            cause = at_once
            judged = self.ending.judge(cause, candidates=judged.measured.candidates)
        as_advice = closes_as_advice(Mode(self.relay.mode), draining=self.leg.drain_reason, cause=cause)
        self.ending.record(judged, timezone.now(), forced=cause, advisory=as_advice)
        if judged_at_boundary:
            self.line.answer(str(Step.STOP))
        return self._finish(judged)

    def _finish_recorded(self) -> str:
        """A decision that was recorded is finished, whatever came after it."""
        recorded = self.leg.end_decision or {}
        cause = forced_by(recorded)
        judged = self.ending.judge(
            cause, agent_ended=cause is Cause.AGENT_EXIT, candidates=tuple(recorded.get("candidates", ()))
        )
        judged = Judged(EndDecision.from_mapping(recorded), judged.measured, judged.made, judged.empty_run)
        return self._finish(judged)

    def _finish(self, judged: Judged) -> str:
        code = self.line.end(STOP_GRACE, self._late_lines, False)
        self._keep_last_words()
        now = timezone.now()
        with transaction.atomic():
            self.claim.hold(now)
            if code is not None:
                Leg.objects.filter(pk=self.leg.pk).update(exit_code=code)
            charge_wall(self.relay.pk, self.leg.pk, min(now, self._died_at(now)), self.leg.charged_until)
        judged = self.ending.again(judged, now)
        status = self.ending.close(judged)
        self.leg.refresh_from_db()
        return f"{self.leg}: {self.leg.reason} {self.leg.cause}".rstrip() + f"; relay {status}"

    def _died_at(self, now: datetime) -> datetime:
        """After a crash only the time up to the last sign of life was running time."""
        if self.line.agent is not None:
            return now
        return self.leg.last_event_at or self.leg.charged_until or now

    def _last_candidates(self) -> tuple[str, ...]:
        """What the last boundary offered: of one that was seen but not judged any more, else of the last that was."""
        if self.view.next_actions:
            return self.view.next_actions
        last = Boundary.objects.filter(leg=self.leg).order_by("-number").values_list("next_actions", flat=True).first()
        return tuple(last or ())

    def _queries(self) -> None:
        """Answer the uses of the query tool, after the lines that were read before them, as the agent's own word.

        A flood of them keeps neither the clock nor people waiting: what is over waits for the next look.
        """
        began = time.monotonic()
        for query in self.line.queries():
            told = self.view.told
            answer = self.answering.answer(query.line, timezone.now())
            if self.answering.ours(query.line):
                self.last_event = time.monotonic()
            self.after_boundary += self.view.told - told
            self.line.reply(query, answer)
            if time.monotonic() - began >= ANSWERING:
                return

    def _late_lines(self, lines: Iterable[bytes]) -> None:
        """Lines that are kept and asked about no more: the leg is ending, or its supervisor died before."""
        for query in self.line.queries():
            self.line.reply(query, self.answering.refusal())
        for line in lines:
            parsed = parse_line(line)
            if parsed.event is None:
                self.ingest.heard.unreadable(parsed.problem or "")
            said = parsed.event or parsed.declares
            if said is None:
                continue
            now = timezone.now()
            if self.ingest.take(replace(said, at=said.at or now), now):
                self.after_boundary = 0 if said.kind == "boundary" else self.after_boundary + 1

    def _keep_last_words(self) -> None:
        self._late_lines([*self.queue, *self.line.rest()])
        self.queue.clear()
        self.ingest.flush(timezone.now(), last=True)
