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
from django.db import transaction
from django.utils import timezone

from relays.agents import process
from relays.agents.base import ALLOWED
from relays.agents.process import AgentProcess
from relays.core import donewhen
from relays.core.policy import Policy
from relays.driver import git, places
from relays.driver.claim import Claim
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

    def __init__(self, relay: Relay, policy: Policy, command: str, tip: str, claim: Claim | None = None) -> None:
        self.relay, self.command, self.tip, self.claim = relay, command, tip, claim
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
        return keep(self.relay, self.command, self.tip, self.claim, code == 0, None if timed_out else code, text)

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


def keep(
    relay: Relay, command: str, tip: str, claim: Claim | None, passed: bool, code: int | None, output: str
) -> CommandResult:
    """One answer for one tip; under the fence of a driver that has one. Raises LostClaim.

    The newest replaces what was kept: a watch asks again and again, and its records stay flat.
    """
    with transaction.atomic():
        if claim is not None:
            claim.hold()
        kept = CommandResult.objects.create(
            relay=relay, command=command, tip=tip, passed=passed, exit_code=code, output=output, at=timezone.now()
        )
        CommandResult.objects.filter(relay=relay, command=command, tip=tip, pk__lt=kept.pk).delete()
        return kept


class Commands:
    """The commands that a relay's rules ask for, at most one running at a time.

    `claim`: the driver's, which each kept answer is written under. `beat`: called while a command is waited for, the
    driver's sign of life. `impatient`: whether nobody waits for an answer any more; `interrupted` says that one was
    given up for it, and then none is waited for again.
    """

    def __init__(self, relay: Relay, policy: Policy, claim: Claim | None = None) -> None:
        self.relay, self.policy, self.claim = relay, policy, claim
        done = donewhen.parse(relay.done_when)
        self.clauses = tuple(clause.value for clause in done.clauses if clause.kind == "cmd")
        self.running: Running | None = None
        self.beat: Callable[[], object] = lambda: None
        self.impatient: Callable[[], bool] = lambda: False
        self.interrupted = False

    def want(self, tip: str, now: datetime, *, green: bool = False) -> None:
        """Start what is missing for this tip, beside the leg; a `cmd` at most every `done_check_every`."""
        if self.running is not None:
            return
        for command in self.clauses:
            last = CommandResult.objects.filter(relay=self.relay, command=command).order_by("-at").first()
            # what a watch's command looks at may change though the branch stands still
            again = last is not None and (last.tip != tip or self.relay.watch)
            if last is None or (again and now - last.at >= self.policy.done_check_every):
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
            if not self._answers(tip, command):
                if self.impatient():
                    self.interrupted = True
                    return came
                self._start(command, tip)
                self._finish()
                came = True
        return came

    def _answers(self, tip: str, command: str) -> bool:
        """Whether the kept answer for this tip stands: for good, but that of a watch's clause for `done_check_every`
        only, since what it looks at may change though the branch stands still."""
        kept = CommandResult.objects.filter(relay=self.relay, command=command, tip=tip)
        if self.relay.watch and command in self.clauses:
            kept = kept.filter(at__gt=timezone.now() - self.policy.done_check_every)
        return kept.exists()

    def again(self, tip: str) -> None:
        """Run every `cmd` clause anew at this tip, whatever was kept for it: a watch looks by itself."""
        for command in self.clauses:
            self._start(command, tip)
            self._finish()

    def _finish(self) -> bool:
        waited = self.running is not None
        while self.running is not None:
            self.tick()
            self.beat()
            if self.running is not None and self.impatient():
                self.close()
                self.interrupted = True
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
            self.running = Running(self.relay, self.policy, command, tip, self.claim)
        except (StoreUnavailable, process.LaunchError, OSError) as error:
            # it could not even be tried: that is a failed command with its evidence, not a hidden one
            keep(self.relay, command, tip, self.claim, False, None, f"could not start: {error}"[:OUTPUT_KEPT])


def forget_checkouts(relay_id: str) -> None:
    """Remove checkouts that a killed supervisor left behind."""
    folder: Path = places.checkouts(relay_id)
    shutil.rmtree(folder, ignore_errors=True)
