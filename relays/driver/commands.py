"""`cmd` clauses and the green command: run contained on a clean checkout of the tip, beside the leg, kept per tip.

rules.md, done_when: "`sh -c` on a clean checkout of the tip, contained like an agent, with a time limit; exit 0".
"""

import contextlib
import hashlib
import os
import select
import shutil
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import IO

from django.conf import settings
from django.utils import timezone

from relays.agents import process
from relays.agents.base import ALLOWED
from relays.agents.process import AgentProcess
from relays.core import donewhen
from relays.core.policy import Policy
from relays.driver import git, places
from relays.models import CommandResult, Relay
from relays.stores import checkout as checkouts
from relays.stores.base import StoreUnavailable

OUTPUT_KEPT = 4000


def marker_of(relay_id: str) -> str:
    """In the environment of every command of a relay, so that whoever recovers it finds strays. One at a time runs.

    Two houses on one machine may have relays of one name: the folder of this one tells them apart.
    """
    house = hashlib.sha256(str(settings.RELAY_VAR).encode()).hexdigest()[:12]
    return f"cmd-{house}-{relay_id}"


class Running:
    """One command on one tip; `poll()` gives its kept result once it has ended. Main thread only."""

    def __init__(self, relay: Relay, policy: Policy, command: str, tip: str) -> None:
        self.relay, self.command, self.tip = relay, command, tip
        self.deadline = time.monotonic() + policy.tool_limit.total_seconds()
        self.folder = places.checkouts(relay.pk) / f"{tip[:16]}-{time.monotonic_ns()}"
        self.output = b""
        self.folder.mkdir(parents=True)
        checkout = self.folder / "tree"
        checkouts.checkout_for_command(git.store(relay), tip, checkout)
        self.process: AgentProcess = process.launch(
            ["sh", "-c", command],
            cwd=checkout,
            env=_environment(),
            marker=marker_of(relay.pk),
            log_dir=self.folder,
        )
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def poll(self) -> CommandResult | None:
        self._drain()
        code = self.process.poll()
        timed_out = code is None and time.monotonic() > self.deadline
        if code is None and not timed_out:
            return None
        self.process.kill_tree()
        self._drain()
        errors = b""
        with contextlib.suppress(OSError):
            errors = (self.folder / "stderr.log").read_bytes()[-OUTPUT_KEPT:]
        self.process.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        text = (self.output + errors).decode("utf-8", "replace")[-OUTPUT_KEPT:].replace("\0", "\ufffd")
        return CommandResult.objects.create(
            relay=self.relay,
            command=self.command,
            tip=self.tip,
            passed=code == 0,
            exit_code=None if timed_out else code,
            output=text,
            at=timezone.now(),
        )

    def abandon(self) -> None:
        self.process.kill_tree()
        self.process.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _drain(self) -> None:
        while self.process.drain_stderr() and _readable(self.process.stderr):
            pass
        while True:
            try:
                chunk = self.process.stdout.read(65536)
            except (BlockingIOError, ValueError, OSError):
                return
            if not chunk:
                return
            self.output = (self.output + chunk)[-OUTPUT_KEPT:]


def _readable(pipe: IO[bytes]) -> bool:
    return bool(select.select([pipe], [], [], 0)[0])


def _environment() -> dict[str, str]:
    """The allowlist of an agent's environment, without anything of a leg."""
    return {name: os.environ[name] for name in ALLOWED if name in os.environ}


class Commands:
    """The commands that a relay's rules ask for, at most one running at a time."""

    def __init__(self, relay: Relay, policy: Policy) -> None:
        self.relay, self.policy = relay, policy
        done = donewhen.parse(relay.done_when)
        self.clauses = tuple(clause.value for clause in done.clauses if clause.kind == "cmd")
        self.running: Running | None = None
        self.beat: Callable[[], object] = lambda: None  # the driver's sign of life while a command is waited for

    def want(self, tip: str, now: datetime, *, green: bool = False) -> None:
        """Start what is missing for this tip, beside the leg; a `cmd` at most every `done_check_every`."""
        if self.running is not None:
            return
        for command in self.clauses:
            last = CommandResult.objects.filter(relay=self.relay, command=command).order_by("-at").first()
            if last is None or (last.tip != tip and now - last.at >= self.policy.done_check_every):
                self._start(command, tip)
                return
        if green and self.policy.green and self.green_result(tip) is None:
            self._start(self.policy.green, tip)

    def tick(self) -> bool:
        """Whether a result came in."""
        if self.running is not None and self.running.poll() is not None:
            self.running = None
            return True
        return False

    def settle(self, tip: str, *, green: bool) -> bool:
        """Run to the end what the present tip lacks: at the ceiling, when the agent ended, before a leg starts.

        Whether anything came in by it.
        """
        if self.running is not None and self.running.tip != tip:
            self.close()  # nobody asks for that tip's answer any more
        came = self._finish()
        wanted = [*self.clauses, *([self.policy.green] if green and self.policy.green else [])]
        for command in wanted:
            if not CommandResult.objects.filter(relay=self.relay, command=command, tip=tip).exists():
                self._start(command, tip)
                self._finish()
                came = True
        return came

    def _finish(self) -> bool:
        waited = self.running is not None
        while self.running is not None:
            self.tick()
            self.beat()
            time.sleep(0.02)
        return waited

    def green_result(self, tip: str) -> CommandResult | None:
        return (
            CommandResult.objects.filter(relay=self.relay, command=self.policy.green, tip=tip).order_by("-at").first()
        )

    def close(self) -> None:
        if self.running is not None:
            self.running.abandon()
            self.running = None

    def _start(self, command: str, tip: str) -> None:
        try:
            self.running = Running(self.relay, self.policy, command, tip)
        except (StoreUnavailable, process.LaunchError, OSError) as error:
            # it could not even be tried: that is a failed command with its evidence, not a hidden one
            CommandResult.objects.create(
                relay=self.relay,
                command=command,
                tip=tip,
                passed=False,
                exit_code=None,
                output=f"could not start: {error}"[:OUTPUT_KEPT],
                at=timezone.now(),
            )


def forget_checkouts(relay_id: str) -> None:
    """Remove checkouts that a killed supervisor left behind."""
    folder: Path = places.checkouts(relay_id)
    shutil.rmtree(folder, ignore_errors=True)
