"""A leg's agent and the line to it: started or taken over, read, answered, ended whole."""

import logging
import time
from collections.abc import Callable, Iterator

from django.db import transaction
from django.utils import timezone

from relays.agents import limits, process
from relays.agents.channel import Channel, ChannelError, Query
from relays.agents.outliving import OutlivingAgent
from relays.agents.process import AgentProcess
from relays.core.boundary import Step
from relays.core.lines import recorded
from relays.driver import launching
from relays.driver.claim import Claim
from relays.driver.prepare import Ready
from relays.models import Leg, Relay

log = logging.getLogger(__name__)


class Attached:
    """What a supervisor holds of the outside world while its leg lives."""

    def __init__(self, relay: Relay, leg: Leg, claim: Claim) -> None:
        self.relay, self.leg, self.claim = relay, leg, claim
        self.agent: AgentProcess | OutlivingAgent | None = None
        self.channel: Channel | None = None
        self.told_stop = False
        self.outlives = launching.outlives(relay)
        self.over = ""  # which of its limits it is over, in words
        self._since = time.monotonic()

    def start(self, ready: Ready) -> None:
        """Raises AgentArgError, LaunchError, ChannelError or OSError, and LostClaim."""
        self.channel = launching.open_channel(self.relay, self.leg)
        self.agent = launching.launch(self.relay, self.leg, self.claim, ready, self.channel)
        self._since = time.monotonic()

    def take_over(self) -> bool:
        """Find the agent that a supervisor before us started and open its socket again; False where it is gone.

        rules.md, The driver: "agent alive and this leg's → re-adopt where the adapter can, else end it". One that is
        ours but cannot be reached any more is not taken over: whoever asked ends it by its marker.
        """
        if not self.outlives:
            return False
        found = launching.find(self.relay, self.leg)
        if found is None:
            return False
        agent, socket_path = found
        try:
            self.channel = launching.open_channel(self.relay, self.leg, socket_path)
        except (ChannelError, OSError) as error:
            log.warning("%s: its agent lives and cannot come back: %s", self.leg, error)
            return False
        self.channel.withheld = launching.withheld(self.relay)
        self.channel.attach(None)
        self.agent = agent
        began = self.leg.started_at
        if began is not None:
            self._since -= max(0.0, (timezone.now() - began).total_seconds())
        return True

    @property
    def exited(self) -> bool:
        return self.agent is not None and self.agent.poll() is not None

    @property
    def exit_code(self) -> int | None:
        return self.agent.poll() if self.agent is not None else None

    @property
    def silent_for_good(self) -> bool:
        """Whether nothing can come any more over the line."""
        return self.channel is not None and self.channel.closed

    @property
    def back(self) -> bool:
        """Whether an agent that was taken over is connected again."""
        return self.channel is not None and self.channel.connected

    def read(self, timeout: float) -> list[bytes]:
        return self.channel.wait(timeout) if self.channel is not None else []

    def rest(self) -> list[bytes]:
        """What can still be read without waiting."""
        return self.channel.drain() if self.channel is not None else []

    def queries(self) -> Iterator[Query]:
        """The uses of the query tool that wait for their answer, in their order; each is given out once."""
        while self.channel is not None and self.channel.queries:
            yield self.channel.queries.popleft()

    def waiting_queries(self) -> list[Query]:
        """The same, left where they are."""
        return [] if self.channel is None else list(self.channel.queries)

    def reply(self, query: Query, line: bytes) -> None:
        if self.channel is not None:
            self.channel.reply(query, line)

    def answer(self, line: str) -> None:
        if self.channel is not None:
            self.channel.answer(line)
        if line == Step.STOP:
            self.told_stop = True

    def answer_tool(self, asked: bytes, line: str) -> None:
        """To whoever asked by that line whether a tool may run."""
        if self.channel is not None:
            self.channel.answer_tool(asked, line)

    def keep_up(self) -> None:
        """Now and then: an agent's own log stays small, and whether its tree keeps within its limits is looked at."""
        if isinstance(self.agent, OutlivingAgent):
            self.agent.trim_log()
        if self.agent is None or self.over or self.exited:
            return
        bounds = limits.read(self.relay.agent_args)
        lived = time.monotonic() - self._since
        if bounds.time is not None and lived > bounds.time:
            self.over = recorded(
                "time: it ran for more than %(time)s s (agent argument time)", time=f"{bounds.time:.0f}"
            )
        elif bounds.memory is not None and (used := limits.resident(self.agent.members())) > bounds.memory:
            most = limits.spelled(bounds.memory)
            self.over = recorded(
                "memory: its processes held %(used)s of %(most)s (agent argument memory)",
                used=limits.spelled(used),
                most=most,
            )

    def end(self, grace: float, late: Callable[[list[bytes]], None], keep: bool = True) -> int | None:
        """Wait up to `grace` seconds for the exit of an agent that was told `stop`, then end its whole tree.

        `late` takes the lines that it still says meanwhile. Returns how it exited, where that is known; `keep` False
        leaves it to the caller to write that down. Raises StillAlive.
        """
        if self.agent is None:
            return None
        deadline = time.monotonic() + grace
        while self.told_stop and self.agent.poll() is None and time.monotonic() < deadline:
            late(self.read(0.05))
        self.agent.kill_tree()
        if isinstance(self.agent, OutlivingAgent):
            self.agent.withhold(launching.withheld(self.relay))
        code = self.agent.poll()
        if code is not None and keep:
            with transaction.atomic():
                self.claim.hold()
                Leg.objects.filter(pk=self.leg.pk).update(exit_code=code)
        return code

    def let_go(self, *, leave: bool = False) -> None:
        """Close the line and end what still lives; `leave`: one that outlives us is left to the next supervisor."""
        leave = leave and isinstance(self.agent, OutlivingAgent)
        if self.channel is not None:
            self.channel.close(keep=leave)
        if self.agent is None:
            return
        try:
            if self.agent.poll() is None and not leave:
                self.agent.kill_tree()
        finally:
            self.agent.close()


def end_strays(leg: Leg) -> None:
    """End whatever of this leg's agent still runs, however it was started. Raises StillAlive."""
    found = launching.find(leg.relay, leg)
    if found is not None:
        found[0].kill_tree()
    if leg.marker:
        process.kill_by_marker(leg.marker)
