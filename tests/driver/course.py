"""Takes a relay's steps one by one in this process: the same `supervise` that a supervisor's process runs."""

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User
from django.utils import timezone

from relays.actions import decide, start
from relays.actions.base import Actor
from relays.core import baton as batons
from relays.core.baton import Baton as CoreBaton
from relays.driver.advance import DRIVEN
from relays.driver.supervise import supervise
from relays.models import (
    OPEN_STATES,
    Baton,
    Boundary,
    GateEpisode,
    GateState,
    Leg,
    LegState,
    Relay,
    RelayStatus,
    Verification,
)
from relays.reports import gate as gate_report
from tests.web_builders import make_user

AGENTS = Path(__file__).parent / "agents"
#: no cap, and one item fills the window to its mark
ONE_ITEM = {"items": "1"}


def user(name: str, *roles: str) -> User:
    return User.objects.filter(username=name).first() or make_user(name, *roles)


def operator() -> Actor:
    return Actor(user("pat", "operator"))


def reviewer() -> Actor:
    return Actor(user("rae", "reviewer"))


def start_relay(
    repo: Path,
    *,
    done: str = "issues:none open",
    agent: str = "scripted",
    args: Mapping[str, str] = ONE_ITEM,
    sets: Sequence[str] = (),
    region: Sequence[str] = (),
    mode: str = "",
    objective: str = "Close every open issue.",
    watch: bool = False,
) -> Relay:
    """Start by the act that pages and the command line use."""
    reviewer()
    request = start.StartRequest(
        repo=str(repo),
        objective=objective,
        done_when=done,
        agent=agent,
        region=region,
        agent_args=args,
        sets=["rotations_per_hour=0", *sets],
        mode=mode,
        watch=watch,
    )
    return start.start(operator(), request)


def program(name: str, *args: str) -> dict[str, str]:
    """Arguments of the command adapter that run one of the small programs in `agents/`."""
    return {"argv": json.dumps([sys.executable, "-S", str(AGENTS / name), *args])}


class Course:
    """One relay under test, read anew at each look."""

    def __init__(self, relay_id: str) -> None:
        self.pk = relay_id

    @property
    def relay(self) -> Relay:
        return Relay.objects.get(pk=self.pk)

    @property
    def worktree(self) -> Path:
        return Path(self.relay.worktree)

    @property
    def legs(self) -> list[Leg]:
        """Legs that ran, in their order."""
        return list(Leg.objects.filter(relay=self.pk, state=LegState.ENDED).order_by("number"))

    @property
    def open_leg(self) -> Leg | None:
        return Leg.objects.filter(relay=self.pk, state__in=OPEN_STATES).first()

    @property
    def baton(self) -> CoreBaton:
        """The current one, read strictly."""
        row = Baton.objects.get(relay=self.pk, current=True)
        baton = batons.read(row.text).baton
        assert baton is not None
        return baton

    @property
    def gates(self) -> list[GateEpisode]:
        return list(GateEpisode.objects.filter(relay=self.pk).order_by("pk"))

    @property
    def waiting(self) -> list[str]:
        """Tokens of the episodes that wait for a person."""
        return [gate.token for gate in self.gates if gate.state == GateState.WAITING]

    @property
    def reload(self) -> Verification:
        """The newest climb of the ladder."""
        found = Verification.objects.filter(relay=self.pk, purpose="reload").order_by("-pk").first()
        assert found is not None
        return found

    def boundaries(self, number: int) -> list[Boundary]:
        return list(Boundary.objects.filter(leg__relay=self.pk, leg__number=number).order_by("number"))

    def holds(self, number: int) -> list[str]:
        return [boundary.hold for boundary in self.boundaries(number)]

    def answers(self, number: int) -> list[str]:
        return [boundary.answer for boundary in self.boundaries(number)]

    def step(self) -> str:
        """Supervise the open leg once: what a doorbell would lead to."""
        leg = self.open_leg
        assert leg is not None, f"{self.pk} has no open leg: {self.relay.status} {self.relay.status_why}"
        before = signal.getsignal(signal.SIGTERM)
        try:
            return supervise(leg.pk)
        finally:
            signal.signal(signal.SIGTERM, before)

    def drive(self, legs: int = 40) -> Relay:
        """Step until the relay waits, parks or ends."""
        for _ in range(legs):
            if self.relay.status not in (RelayStatus.READY, RelayStatus.RUNNING):
                return self.relay
            self.step()
        raise AssertionError(f"{self.pk} still runs after {legs} steps: {self.relay.status_why}")

    def time_passes(self, by: timedelta = timedelta(hours=2)) -> None:
        """A wait is over: `next_at` lies behind, and the relay is looked at again."""
        relay = self.relay
        assert relay.status == RelayStatus.WAITING and relay.next_at is not None, relay.status
        Relay.objects.filter(pk=self.pk).update(next_at=relay.next_at - by)
        from relays.driver import advance

        assert advance._due(self.relay, timezone.now())

    def approve(self, token: str, **values: Any) -> decide.GateOutcome:
        gate = GateEpisode.objects.get(relay=self.pk, token=token, state=GateState.WAITING)
        seen = gate_report.seen_digest(gate, decide._tip(self.relay))
        return decide.approve(reviewer(), gate.pk, seen=seen, comment="Looked at it.", **values)

    @property
    def driven(self) -> bool:
        return self.relay.status in DRIVEN


# --- what the player in `agents/` is told to do

Step = dict[str, Any]


def turn(resident: int = 1000, output: int = 10, **more: Any) -> list[Step]:
    """One model call of the main chain with that many resident tokens."""
    return [
        {"kind": "turn_started"},
        {
            "kind": "usage",
            "model": "scripted-player",
            "message_id": "m$LEG-$SEQ",
            "input": resident,
            "cache_read": 0,
            "cache_write_5m": 0,
            "cache_write_1h": 0,
            "output": output,
            "chain": "main",
            **more,
        },
    ]


def boundary(*next_actions: str, final: bool = False, said: bool = True) -> list[Step]:
    """A boundary that waits for its answer; before it, unless `said` is false, the statement of the gate."""
    asked: Step = {"kind": "boundary", "next_actions": list(next_actions), "final": final}
    return [{"kind": "externalized"}, asked] if said else [asked]


def commit(path: str, text: str = "work\n", message: str = "Work") -> list[Step]:
    return [{"do": "write", "path": path, "text": text}, {"do": "commit", "message": message}]


def loop(*steps: Step) -> Step:
    return {"do": "loop", "steps": list(steps)}


def player(script: Any, way: str = "stdout") -> dict[str, Any]:
    """Keywords of `course` for an agent that plays this script."""
    return {"agent": "command", "args": program("player.py", way, json.dumps(script))}
