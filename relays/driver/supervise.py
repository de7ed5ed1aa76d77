"""One running leg = one supervisor: it owns the agent's process tree, asks the rules at every boundary, ends the leg.

architecture.md, The way of control. Single-threaded: one loop over the agent's lines, its exit, the clock and the
requests of people. Whoever kills it at any moment finds everything that it decided in the database.
"""

import logging
import signal
import time
from dataclasses import replace
from datetime import datetime
from types import FrameType

from django.db import transaction
from django.utils import timezone

from relays.agents import process
from relays.agents.base import AgentArgError
from relays.agents.channel import Channel, ChannelError
from relays.agents.process import AgentProcess, LaunchError
from relays.core.boundary import BoundaryDecision, Step
from relays.core.events import parse_line
from relays.core.legview import LegView
from relays.core.lifecycle import EndDecision
from relays.core.vocabulary import Cause, Hold, Mode
from relays.driver import advance, asked, budgets, commands, launching, spawn, starts
from relays.driver.boundaries import Boundaries
from relays.driver.changes import RELAYS, bump, topic
from relays.driver.claim import AlreadyDriven, Claim, LostClaim, kernel_lock, take
from relays.driver.draining import Drain
from relays.driver.ending import Ending, Judged, charge_wall, forced_by
from relays.driver.ingest import Ingest
from relays.driver.measure import Measure
from relays.driver.prepare import NotNow, Prepare, Ready
from relays.models import Boundary, Leg, LegState, Relay, RelayStatus
from relays.stores.gitrun import plain

log = logging.getLogger(__name__)

TICK = 0.2  # seconds between two looks at the clock and at people's requests while the agent is silent
POLL = 0.4  # seconds between two looks at the database
BEAT = 2.0  # seconds between two heartbeats
FIRST_EVENT = 60.0  # seconds that an agent has for its first event
STOP_GRACE = 10.0  # seconds that an agent has to exit after it was told `stop`


def supervise(leg_pk: int) -> str:
    """Drive one leg to its end, whatever state it is found in. Returns one line that says what happened."""
    leg = Leg.objects.select_related("relay").filter(pk=leg_pk).first()
    if leg is None:
        return f"leg {leg_pk} is not known"
    policy = budgets.policy_of(leg.relay)
    try:
        with kernel_lock(leg.relay_id):
            claim = take(leg.relay_id, policy.host_patience)
            try:
                leg.refresh_from_db()
                supervisor = Supervisor(leg, claim)
                said = supervisor.run()
                # after a failure the grace of a spawn stays: what fails at once is not tried in a hot loop
                spawn.forget_spawn(leg.relay_id)
            except (AlreadyDriven, LostClaim):
                raise
            except Exception as error:
                # it is tried again for as long as it takes; a person must see that, and why
                _say_why(claim, f"the supervisor failed and is started again: {type(error).__name__}: {error}")
                raise
            finally:
                claim.release()
        if not supervisor.drain.shutdown:
            # what a bell would lead to, without the way over the broker; reconcile finds it if we die before
            advance.advance(leg.relay_id)
        return said
    except AlreadyDriven as error:
        return f"{error}: driven already"
    except LostClaim as error:
        return f"claim lost: {error}"


def _say_why(claim: Claim, why: str) -> None:
    with transaction.atomic():
        claim.hold()
        Relay.objects.filter(pk=claim.relay_id).update(status_why=plain(why)[:500])
        bump(topic(claim.relay_id), RELAYS)


class Supervisor:
    """The state of one supervised leg."""

    def __init__(self, leg: Leg, claim: Claim) -> None:
        self.relay: Relay = leg.relay
        self.relay.refresh_from_db()
        self.leg, self.claim = leg, claim
        self.policy = budgets.policy_of(self.relay)
        self.view = LegView()
        self.commands = commands.Commands(self.relay, self.policy)
        self.measure = Measure(self.relay, leg, self.policy, self.view, self.commands)
        self.ending = Ending(self.measure, claim, self.policy)
        self.ingest = Ingest(self.relay, leg, claim, self.view)
        self.boundaries = Boundaries(self.relay, leg, claim, self.measure)
        self.agent: AgentProcess | None = None
        self.channel: Channel | None = None
        self.drain = Drain(self.relay, leg, claim)
        self.asked = True  # a boundary was asked since the last main call: the program can be held
        self.last_event = time.monotonic()
        self.waiting_since: float | None = None  # no further model call, but tools still run
        self.waiting_for = Cause.CEILING
        self.after_boundary = 0  # events since the last boundary
        self.pending_lines: list[bytes] = []  # read while the first event was awaited
        self.beaten = self.polled = 0.0
        self.told_stop = False
        self.commands.beat = self._heartbeat

    def run(self) -> str:
        signal.signal(signal.SIGTERM, self._on_term)
        try:
            state = self.leg.state
            if state in (LegState.ENDED, LegState.VOID):
                return f"{self.leg}: {state} already"
            if self.leg.marker:
                process.kill_by_marker(self.leg.marker)
                process.kill_by_marker(commands.marker_of(self.relay.pk))
                commands.forget_checkouts(self.relay.pk)
            if state == LegState.STARTING:
                starts.back_to_pending(self.leg, self.claim, "the supervisor died before the agent's first event")
                state = self.leg.state
            if state == LegState.PENDING:
                return self._start_and_run()
            self.ingest.resume_from_records()
            if state == LegState.ENDING:
                return self._finish_recorded()
            return self._recover()
        except NotNow as error:
            return f"{self.leg}: not now: {error}"
        except process.StillAlive as error:
            # the leg stays as it is recorded and is taken up again: nothing is closed while its agent may still write
            log.error("%s: %s", self.leg, error)
            return f"{self.leg}: not closed yet: {error}"
        finally:
            self.commands.close()
            self._let_go()

    # --- start

    def _start_and_run(self) -> str:
        if self.relay.status != RelayStatus.READY:
            return f"{self.leg}: relay is {self.relay.status}"
        now = timezone.now()
        with transaction.atomic():
            self.claim.hold(now)
            done = asked.carry_out(self.relay.pk, now)
        if done:
            return f"{self.leg}: not started; relay {done}"
        ready = Prepare(self.relay, self.leg, self.claim, self.policy, self.commands).run()
        try:
            self._launch(ready)
            first = self._wait_for_first_event()
        except (LaunchError, ChannelError, AgentArgError, OSError) as error:
            return self._start_failed(str(error))
        if first:
            return self._start_failed(first)
        return self._loop()

    def _launch(self, ready: Ready) -> None:
        self.channel = launching.open_channel(self.relay, self.leg)
        self.agent = launching.launch(self.relay, self.leg, self.claim, ready, self.channel)

    def _wait_for_first_event(self) -> str:
        """ "" once the leg runs; else why it did not start."""
        deadline = time.monotonic() + FIRST_EVENT
        while time.monotonic() < deadline:
            lines = self._read(TICK)
            for index, line in enumerate(lines):
                if parse_line(line).event is not None:
                    self._running()
                    self.pending_lines = lines[index:]
                    return ""
            if self._exited() and self.channel is not None and self.channel.closed:
                return f"the agent exited with {self.agent.poll() if self.agent else '?'} before its first event"
            self._beat()
            self.relay.refresh_from_db()
            if self.relay.park == "now" or self.relay.stop == "now":
                self._running()
                return ""
        return f"no event within {FIRST_EVENT:.0f} s"

    def _running(self) -> None:
        starts.running(self.leg, self.claim, timezone.now())
        self.relay.refresh_from_db()
        self.last_event = time.monotonic()
        self.beaten = time.monotonic()

    def _start_failed(self, error: str) -> str:
        self._end_agent()
        tail = launching.last_words(self.relay, self.leg)
        text = f"{error}{f': {tail}' if tail else ''}"[:1000]
        starts.back_to_pending(self.leg, self.claim, text)
        wished = starts.failed(self.leg, self.claim, text)
        return f"{self.leg}: start failed: {text}" + (f"; relay {wished}" if wished else "")

    # --- the loop

    def _loop(self) -> str:
        lines = self.pending_lines
        while True:
            for line in lines:
                ended = self._line(line)
                if ended:
                    return ended
            self.ingest.flush(timezone.now())
            ended = self._tick()
            if ended:
                return ended
            lines = self._read(TICK)

    def _line(self, line: bytes) -> str:
        """One line of the agent; not "" when the leg ended by it."""
        parsed = parse_line(line)
        if parsed.event is None:
            log.warning("%s: malformed line: %s", self.leg, parsed.problem)
            return self._malformed_boundary() if parsed.kind == "boundary" else ""
        now = timezone.now()
        event = replace(parsed.event, at=parsed.event.at or now)
        if not self.ingest.take(event, now):
            return ""
        self.last_event = time.monotonic()
        self.after_boundary += 1
        if event.kind == "usage" and event.payload.get("chain") == "main":
            if self.view.resident > self.leg.ceiling_tokens and not self.asked and self.relay.mode == Mode.ENFORCE:
                self.ingest.flush(now)
                return self._end(Cause.OVERRUN)
            self.asked = False
        if event.kind == "boundary":
            self.asked = True
            self.after_boundary = 0
            self.ingest.flush(now)
            return self._boundary(event.seq, now)
        return ""

    def _boundary(self, seq: int, now: datetime) -> str:
        self._poll(force=True)
        decision = self.boundaries.judge(
            seq, now, draining=self.leg.drain_reason, drain_over=self.drain.over(self.policy, self.view.turns)
        )
        if not decision.end and (cause := self._at_once()):
            # asked for while the agent waits here: it goes no further
            return self._end(cause, judged_at_boundary=True)
        return self._carry_out(decision)

    def _at_once(self) -> Cause | None:
        """What a person wants now, without a safe point."""
        if self.relay.stop == "now":
            return Cause.STOP
        return Cause.PARK_NOW if self.relay.park == "now" else None

    def _malformed_boundary(self) -> str:
        """A boundary that does not parse still waits for its answer: it offered no next action."""
        if self.relay.mode == Mode.SHADOW and not self.leg.drain_reason:
            self._answer(str(Step.GO))
            return ""
        if self.relay.mode == Mode.ENFORCE and self.measure.ceiling():
            return self._end(Cause.CEILING, judged_at_boundary=True)
        if self.drain.over(self.policy, self.view.turns):
            return self._end(Cause.ENVELOPE, judged_at_boundary=True)
        self._answer(f"{Step.WIND_DOWN} {Hold.NO_NEXT_ACTION}")
        return ""

    def _carry_out(self, decision: BoundaryDecision) -> str:
        if decision.step is Step.WAIT:
            self.waiting_since = self.waiting_since or time.monotonic()
            self.waiting_for = decision.cause or Cause.CEILING
            self.drain.at_ceiling(self.view.turns)
            return ""
        self.waiting_since = None
        if not decision.end:
            self._answer(decision.answer)
            return ""
        return self._end(decision.cause, judged_at_boundary=True)

    def _tick(self) -> str:
        """The clock's and people's part: requests, ceiling waits, exit, silence, heartbeat."""
        if self.commands.tick():
            self.polled = 0.0
        self._poll()
        if cause := self._at_once():
            return self._end(cause)
        if self.waiting_since is not None and (
            not self.view.in_flight or time.monotonic() - self.waiting_since > self.policy.tool_limit.total_seconds()
        ):
            self.waiting_since = None
            return self._end(self.waiting_for, judged_at_boundary=True)
        if self._exited():
            return self._agent_ended()
        silent = time.monotonic() - self.last_event
        if silent > self.policy.silence_limit.total_seconds() and not self.view.in_flight:
            return self._end(Cause.SILENCE)
        self._beat()
        return ""

    def _exited(self) -> bool:
        return self.agent is not None and self.agent.poll() is not None

    def _agent_ended(self) -> str:
        """ "A signal, an exit code other than 0, no result … is a crash"; else the agent ended by itself."""
        if self.channel is not None:
            for line in self.channel.drain():
                parsed = parse_line(line)
                if parsed.event is not None:
                    self.ingest.take(replace(parsed.event, at=parsed.event.at or timezone.now()), timezone.now())
                    self.after_boundary = 0 if parsed.event.kind == "boundary" else self.after_boundary + 1
        self.ingest.flush(timezone.now())
        code = self.agent.poll() if self.agent else None
        Leg.objects.filter(pk=self.leg.pk).update(exit_code=code)
        # a result is a boundary with nothing after it
        has_result = self.view.boundaries > 0 and self.after_boundary == 0
        return self._end(Cause.AGENT_EXIT if code == 0 and has_result else Cause.AGENT_CRASH)

    # --- people, budgets, drain

    def _poll(self, force: bool = False) -> None:
        """Requests of people and the claim, at most every POLL seconds."""
        if not force and time.monotonic() - self.polled < POLL:
            return
        self.polled = time.monotonic()
        self.relay.refresh_from_db()
        fresh = budgets.policy_of(self.relay)
        if fresh != self.policy:
            # "A running relay's policy changes only by a recorded decision, from the next boundary on"
            self.policy = self.measure.policy = self.ending.policy = fresh
            self.commands.policy = fresh
        self.drain.follow(self.policy, self.view.turns)

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
            if self.leg.started_at and self.agent is not None:
                self.leg.charged_until = charge_wall(self.relay.pk, self.leg.pk, now, self.leg.charged_until)
        return True

    # --- the end

    def _end(self, cause: Cause | None, *, judged_at_boundary: bool = False) -> str:
        """Judge the leg on the tree as it stands, record, tell the agent, wait for its end, close."""
        self.ingest.flush(timezone.now())
        crashed = cause in (Cause.AGENT_CRASH, Cause.SILENCE, Cause.SUPERVISOR_CRASH)
        candidates = self._last_candidates() if crashed else None
        if cause in (Cause.PARK_NOW, Cause.STOP) and self.after_boundary:
            candidates = ()  # in mid-turn there is no boundary, so no next action was offered
        judged = self.ending.judge(cause, agent_ended=cause is Cause.AGENT_EXIT, candidates=candidates)
        advisory = self.relay.mode != Mode.ENFORCE and not self.leg.drain_reason
        self.ending.record(judged, timezone.now(), forced=cause, advisory=advisory)
        if judged_at_boundary:
            self._answer(str(Step.STOP))
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

    def _recover(self) -> str:
        """The supervisor died with a running leg; its agent died with it. Judged from records."""
        self.after_boundary = 0
        if not self.claim.lost_host:
            return self._end(Cause.SUPERVISOR_CRASH)
        self.measure.lost_host = self.claim.lost_host
        return self._end(Cause.HOST_LOST)

    def _finish(self, judged: Judged) -> str:
        self._end_agent(grace=STOP_GRACE)
        self._keep_last_words()
        now = timezone.now()
        with transaction.atomic():
            self.claim.hold(now)
            charge_wall(self.relay.pk, self.leg.pk, min(now, self._died_at(now)), self.leg.charged_until)
        judged = self.ending.again(judged, now)
        status = self.ending.close(judged)
        self.leg.refresh_from_db()
        return f"{self.leg}: {self.leg.reason} {self.leg.cause}".rstrip() + f"; relay {status}"

    def _died_at(self, now: datetime) -> datetime:
        """After a crash only the time up to the last sign of life was running time."""
        if self.agent is not None:
            return now
        return self.leg.last_event_at or self.leg.charged_until or now

    def _last_candidates(self) -> tuple[str, ...]:
        """What the last boundary offered: of one that was seen but not judged any more, else of the last that was."""
        if self.view.next_actions:
            return self.view.next_actions
        last = Boundary.objects.filter(leg=self.leg).order_by("-number").values_list("next_actions", flat=True).first()
        return tuple(last or ())

    def _end_agent(self, grace: float = 0.0) -> None:
        """Wait up to `grace` for the agent's own exit, then end its whole tree."""
        if self.agent is None:
            return
        deadline = time.monotonic() + grace
        while self.agent.poll() is None and time.monotonic() < deadline:
            if self.channel is None or not self.leg.end_decision:
                break
            self._late_lines(self._read(0.05))
            if not self.told_stop:
                break
        self.agent.kill_tree()
        if self.agent.poll() is not None:
            Leg.objects.filter(pk=self.leg.pk).update(exit_code=self.agent.poll())

    def _answer(self, line: str) -> None:
        if self.channel is not None:
            self.channel.answer(line)
        if line == Step.STOP:
            self.told_stop = True

    def _late_lines(self, lines: list[bytes]) -> None:
        for line in lines:
            parsed = parse_line(line)
            if parsed.event is not None:
                self.ingest.take(replace(parsed.event, at=parsed.event.at or timezone.now()), timezone.now())

    def _keep_last_words(self) -> None:
        if self.channel is not None:
            self._late_lines(self.channel.drain())
        self.ingest.flush(timezone.now())

    def _let_go(self) -> None:
        if self.channel is not None:
            self.channel.close()
        if self.agent is not None:
            if self.agent.poll() is None:
                self.agent.kill_tree()
            self.agent.close()

    def _read(self, timeout: float) -> list[bytes]:
        return self.channel.wait(timeout) if self.channel is not None else []

    def _on_term(self, _signum: int, _frame: FrameType | None) -> None:
        self.drain.shutdown = True
