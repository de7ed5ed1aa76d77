"""One running leg = one supervisor: it owns the agent's process tree, asks the rules at every boundary, ends the leg.

architecture.md, The way of control. Single-threaded: one loop over the agent's lines, its exit, the clock and the
requests of people. Whoever kills it at any moment finds everything that it decided in the database.
"""

import logging
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import FrameType
from typing import Any

from django.db import transaction
from django.utils import timezone

from relays.agents import process
from relays.agents.base import AgentArgError
from relays.agents.channel import ChannelError
from relays.agents.process import LaunchError
from relays.core.backoff import Trouble
from relays.core.boundary import BoundaryDecision, Step
from relays.core.events import TOLD, parse_line
from relays.core.lines import recorded
from relays.core.vocabulary import Cause, Hold, Mode
from relays.driver import asked, attached, commands, findings, launching, progress, reload, starts, tools, unheard
from relays.driver.claim import LostClaim
from relays.driver.places import leg_folder
from relays.driver.prepare import NotNow, Prepare, Ready
from relays.driver.supervised import Supervised
from relays.models import Boundary, Event, Leg, LegState, RelayStatus
from relays.stores.base import StoreUnavailable

log = logging.getLogger(__name__)

TICK = 0.2  # seconds between two looks at the clock and at people's requests while the agent is silent
LOOK = 1.0  # seconds that lines which wait may take before the clock, the exit and people are looked at again
BREATH = 0.01  # seconds of silence after which what was said is written
UNWRITTEN = 0.3  # seconds that the first of it may wait for that
WAITING = 4 * 1024 * 1024  # bytes of lines that may wait to be looked at
EARLY = 1000  # malformed declarations before the first event that are kept
FIRST_EVENT = 60.0  # seconds that an agent has for its first event
COME_BACK = 30.0  # seconds that an agent which was taken over has to connect again


class Supervisor(Supervised):
    """Drives one leg: starts its agent or takes it over, asks the rules at each boundary, and ends it."""

    def run(self) -> str:
        before = signal.signal(signal.SIGTERM, self._on_term)
        if self.host is not None and self.host.down:  # after the last leg, and before this one listened
            self.drain.shutdown = True
        leave = False
        try:
            return self._drive()
        except NotNow as error:
            return f"{self.leg}: not now: {error}"
        except process.StillAlive as error:
            # the leg stays as it is recorded and is taken up again: nothing is closed while its agent may still write
            log.error("%s: %s", self.leg, error)
            return f"{self.leg}: not closed yet: {error}"
        except (LostClaim, KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            leave = True  # an agent that outlives us is the next supervisor's
            raise
        finally:
            self.commands.close()
            self.measure.worktree.forget()
            self.line.let_go(leave=leave)
            signal.signal(signal.SIGTERM, before)

    def _drive(self) -> str:
        state = self.leg.state
        if state in (LegState.ENDED, LegState.VOID):
            return f"{self.leg}: {state} already"
        if self.leg.marker:
            process.kill_by_marker(commands.marker_of(self.relay.pk))
            commands.forget_checkouts(self.relay.pk)
            works = state in (LegState.RUNNING, LegState.DRAINING, LegState.BACKOFF)
            if works and not self.claim.lost_host and self.line.take_over():
                return self._go_on()
            attached.end_strays(self.leg)
        if state == LegState.STARTING:
            why = recorded("the supervisor died before the agent's first event")
            starts.back_to_pending(self.leg, self.claim, why, self._made_unseen())
            state = self.leg.state
        if state == LegState.PENDING:
            return self._start_and_run()
        self._resume()
        if state == LegState.ENDING:
            return self._finish_recorded()
        return self._recover()

    # --- start

    def _start_and_run(self) -> str:
        if self.relay.status != RelayStatus.READY:
            return f"{self.leg}: relay is {self.relay.status}"
        now = timezone.now()
        if (
            self.relay.parks_now or self.relay.stop
        ):  # as it was just read; what is asked for later the start itself finds
            with transaction.atomic():
                self.claim.hold(now)
                done = asked.carry_out(self.relay.pk, now)
            if done:
                return f"{self.leg}: not started; relay {done}"
        ready = Prepare(
            self.relay, self.leg, self.claim, self.policy, self.commands, self.measure.git, self.measure.worktree
        ).run()
        try:
            self._launch(ready)
            first = self._wait_for_first_event()
        except (LaunchError, ChannelError, AgentArgError, OSError) as error:
            return self._start_failed(str(error))
        if first:
            return self._start_failed(first)
        return self._loop()

    def _launch(self, ready: Ready) -> None:
        self.line.start(ready)

    def _wait_for_first_event(self) -> str:
        """ "" once the leg runs; else why it did not start."""
        deadline = time.monotonic() + FIRST_EVENT
        while time.monotonic() < deadline:
            lines = self.line.read(TICK)
            for index, line in enumerate(lines):
                parsed = parse_line(line)
                if parsed.event is not None:
                    self._running()
                    self.queue.extend(lines[index:])
                    return ""
                if parsed.declares is not None and len(self.queue) < EARLY:
                    self.queue.append(line)
            if any(self.answering.ours(query.line) for query in self.line.waiting_queries()):
                self._running()  # an agent that asks where it stands works, whoever speaks for it later
                return ""
            if self.line.exited and self.line.silent_for_good:
                return recorded(
                    "the agent exited with %(exit_code)s before its first event", exit_code=self.line.exit_code
                )
            self._beat()
            self.relay.refresh_from_db()
            if self._at_once():
                self._running()
                return ""
        return recorded("no event within %(first_event)s s", first_event=f"{FIRST_EVENT:.0f}")

    def _running(self) -> None:
        starts.running(self.leg, self.claim, timezone.now())
        self.relay.refresh_from_db()
        self.measure.warm()
        self.last_event = time.monotonic()
        self.beaten = time.monotonic()

    def _start_failed(self, error: str) -> str:
        self.line.end(0.0, self._late_lines)
        tail = launching.last_words(self.relay, self.leg)
        text = f"{error}{f': {tail}' if tail else ''}"[:1000]
        starts.back_to_pending(self.leg, self.claim, text, self._made_unseen())
        wished = starts.failed(self.leg, self.claim, text)
        return f"{self.leg}: start failed: {text}" + (f"; relay {wished}" if wished else "")

    def _made_unseen(self) -> progress.Made | None:
        """What an agent that was never heard did before it was gone; None where the stores do not answer."""
        try:
            stores = reload.stores_for(self.relay, self.measure.git)
            return progress.of_leg(self.relay, self.leg, stores, self.measure.worktree)
        except StoreUnavailable:
            return None

    # --- after a supervisor that died

    def _resume(self) -> None:
        """What is stored and what the stream kept is what was said: fold it again in its order."""
        self.ingest.resume_from_records()
        self._late_lines(unheard.lines(leg_folder(self.relay.pk, self.leg.number), self.view.last_seq))
        self.ingest.flush(timezone.now())

    def _go_on(self) -> str:
        """The agent lives and was taken over: once it is connected again its leg goes on; else it counts as crashed."""
        self._resume()
        said = Event.objects.filter(leg=self.leg, seq__lt=TOLD)
        last = said.filter(kind="boundary").order_by("-seq").values_list("seq", flat=True).first() or 0
        self.after_boundary = said.filter(seq__gt=last).count()
        self.asked = not said.filter(seq__gt=last, kind="usage", payload__chain="main").exists()
        self.back_off.taken_over()
        self.back_off.heard()
        deadline = time.monotonic() + COME_BACK
        while not self.queue and not self.line.back:
            if self.line.exited or time.monotonic() > deadline:
                self.line.end(0.0, self._late_lines)
                return self._recover()
            self.queue.extend(self.line.read(TICK))
            self._beat()
            self._poll()
            if cause := self._at_once():
                return self._end(cause)
        log.warning("%s: its supervisor died; its agent is back and goes on", self.leg)
        self.last_event = time.monotonic()
        return self._loop()

    def _recover(self) -> str:
        """The supervisor died with a running leg, and its agent is gone. Judged from records."""
        self.after_boundary = 0
        if not self.claim.lost_host:
            return self._end(Cause.SUPERVISOR_CRASH)
        self.measure.lost_host = self.claim.lost_host
        return self._end(Cause.HOST_LOST)

    # --- the loop

    def _loop(self) -> str:
        while True:
            looked = time.monotonic()
            while self.queue and time.monotonic() - looked < LOOK:  # a flood of lines keeps nobody else waiting
                if ended := self._line(self.queue.popleft()):
                    return ended
            if self._more_comes():
                continue
            self.ingest.flush(timezone.now())
            if not self.queue:
                self._queries()
            if ended := self._tick():
                return ended
            if sum(map(len, self.queue)) < WAITING:  # else it waits with its next words, and so cannot end unseen
                self.queue.extend(self.line.read(0 if self.queue or self.line.waiting_queries() else TICK))

    def _more_comes(self) -> bool:
        """Whether the agent goes on at once: words that come together are written together.

        A tool's end, its usage and the boundary are said in one breath. A write that began with the first of them would
        keep the agent waiting at the last.
        """
        now = time.monotonic()
        if not self.queue and self.ingest.waiting and now - (self.gathering or now) < UNWRITTEN:
            self.gathering = self.gathering or now
            self.queue.extend(self.line.read(BREATH))
            if self.queue:
                return True
        self.gathering = 0.0
        return False

    def _line(self, line: bytes) -> str:
        """One line of the agent; not "" when the leg ended by it."""
        parsed = parse_line(line)
        if parsed.event is None:
            self.ingest.heard.unreadable(parsed.problem or "")
            if parsed.kind == "boundary":
                return self._malformed_boundary()
            if parsed.kind == "tool_asked":
                self.line.answer_tool(
                    line,
                    f"{tools.DENY} the question cannot be read: {parsed.problem}",
                )
        said = parsed.event or parsed.declares
        if said is None:
            return ""
        now = timezone.now()
        event = replace(said, at=said.at or now)
        begins = event.payload.get("message_id") not in self.view.calls  # of a usage: said again, it is the same call
        if not self.ingest.take(event, now):
            if event.kind == "boundary" and self.ingest.refused:
                return self._malformed_boundary()  # its number was used before, or lies too far ahead
            if event.kind == "tool_asked":
                self._tool_asked(line, event.payload, now)
            return self._asked_again(event.seq, now) if event.kind == "boundary" and self.line.outlives else ""
        self.last_event = time.monotonic()
        self.after_boundary += 1
        self.back_off.heard()
        if self.view.trouble == Trouble.SIGN_IN and (self.relay.mode == Mode.ENFORCE or self.leg.drain_reason):
            self.ingest.flush(now)
            return self._end(Cause.SIGN_IN)
        if event.kind == "compacted" and (self.relay.mode == Mode.ENFORCE or self.leg.drain_reason):
            # "treat any compact_boundary as a leg that ran too long"
            self.ingest.flush(now)
            return self._end(Cause.OVERRUN)
        if event.kind == "usage" and event.payload.get("chain") == "main":
            self.window.heard(self.view.model, self.policy)
            if begins:
                self.passed, self.asked = self.asked, False
            if self.view.resident > self.leg.ceiling_tokens and not self.passed and self.relay.mode == Mode.ENFORCE:
                self.ingest.flush(now)
                return self._end(Cause.OVERRUN)
        if event.kind == "tool_asked":
            self._tool_asked(line, event.payload, now)
        if event.kind == "boundary":
            self.asked = True
            self.after_boundary = 0
            self.measure.worktree.foresee()  # while the events are written: the agent waits, and changes nothing
            self.ingest.flush(now)
            return self._boundary(event.seq, now)
        return ""

    def _tool_asked(self, line: bytes, payload: Mapping[str, Any], now: datetime) -> None:
        """ "denied by the adapter's hook where it has one": the agent waits here. Shadow and advise never hold."""
        self.ingest.flush(now)
        holds = self.relay.mode == Mode.ENFORCE
        self.line.answer_tool(line, tools.answer(self.leg, self.policy, payload) if holds else tools.ALLOW)

    def _boundary(self, seq: int, now: datetime) -> str:
        self._poll(force=True)
        decision = self.boundaries.judge(
            seq, now, draining=self.leg.drain_reason, drain_over=self.drain.over(self.policy, self.view.turns)
        )
        if not decision.end and (cause := self._at_once()):
            # asked for while the agent waits here: it goes no further
            return self._end(cause, judged_at_boundary=True)
        return self._carry_out(decision)

    def _asked_again(self, seq: int, now: datetime) -> str:
        """An agent that connected again still waits at its last boundary: it gets the answer that was kept for it."""
        if seq != self.view.last_seq:
            return ""
        self.last_event = time.monotonic()
        kept = Boundary.objects.filter(leg=self.leg, seq=seq).first()
        if kept is not None and kept.decision.get("step") in (Step.GO, Step.WIND_DOWN):
            self.asked, self.after_boundary = True, 0
            self.line.answer(kept.answer)
            return ""
        return self._boundary(seq, now)

    def _malformed_boundary(self) -> str:
        """A boundary that does not parse still waits for its answer: it offered no next action."""
        if self.relay.mode == Mode.SHADOW and not self.leg.drain_reason:
            self.line.answer(str(Step.GO))
            return ""
        if self.relay.mode == Mode.ENFORCE and self.measure.ceiling():
            return self._end(Cause.CEILING, judged_at_boundary=True)
        if self.drain.over(self.policy, self.view.turns):
            return self._end(Cause.ENVELOPE, judged_at_boundary=True)
        self.line.answer(f"{Step.WIND_DOWN} {Hold.NO_NEXT_ACTION}")
        return ""

    def _carry_out(self, decision: BoundaryDecision) -> str:
        if decision.step is Step.WAIT:
            self.waiting_since = self.waiting_since or time.monotonic()
            self.waiting_for = decision.cause or Cause.CEILING
            self.drain.at_ceiling(self.view.turns)
            return ""
        self.waiting_since = None
        if not decision.end:
            self.line.answer(decision.answer)
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
        if self.line.exited:
            return self._agent_ended()
        self.back_off.tick()
        if self.back_off.retries_over(self.policy):
            return self._end(Cause.SILENCE)
        silent = time.monotonic() - max(self.last_event, self.back_off.patient_until)
        if silent > self.policy.silence_limit.total_seconds() and not self.view.in_flight:
            return self._end(Cause.SILENCE)
        self._beat()
        return self._over_limits() if self.line.over else ""

    def _over_limits(self) -> str:
        """Its tree is larger or older than its limits let it be: ended at once, whatever the mode."""
        log.warning("%s: %s", self.leg, self.line.over)
        with transaction.atomic():
            self.claim.hold()
            findings.put(
                self.relay.pk,
                f"{recorded('leg %(leg)d limits', leg=self.leg.number)}: ",
                [recorded("ended over its %(over)s", over=self.line.over)],
            )
        return self._end(Cause.AGENT_CRASH)

    def _agent_ended(self) -> str:
        """ "A signal, an exit code other than 0, no result … is a crash"; else the agent ended by itself."""
        self._late_lines([*self.queue, *self.line.rest()])
        self.queue.clear()
        self.ingest.flush(timezone.now(), last=True)
        code = self.line.exit_code
        with transaction.atomic():
            self.claim.hold()
            Leg.objects.filter(pk=self.leg.pk).update(exit_code=code)
        # a result is a boundary with nothing after it
        has_result = self.view.boundaries > 0 and self.after_boundary == 0
        if self.view.trouble == Trouble.SIGN_IN:
            return self._end(Cause.SIGN_IN)
        return self._end(Cause.AGENT_EXIT if code == 0 and has_result else Cause.AGENT_CRASH)

    def _on_term(self, _signum: int, _frame: FrameType | None) -> None:
        self.drain.shutdown = True
