"""The driver's own time: what a leg costs besides its agent, and how long an agent waits at a boundary.

Both are taken from the agent's own clock, so that nothing that the driver does in between is left out: what an agent
does not spend between an answer and its next question is the driver's.
"""

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from tests.bench.table import Row, median, percentile
from tests.bench.world import git

LEG_GOAL = 0.5  # seconds
BOUNDARY_GOAL = 20.0  # milliseconds, of 95 in a hundred
AGENT = Path(__file__).with_name("agent.py")


@dataclass(frozen=True, slots=True)
class Ran:
    """One leg as its agent saw it, in seconds of the monotonic clock."""

    began: float
    ended: float
    asked: list[float]
    answered: list[float]

    @property
    def busy(self) -> float:
        """What the agent itself took: from its first line to its last, without the waits for an answer."""
        return self.ended - self.began - sum(self.waits)

    @property
    def waits(self) -> list[float]:
        return [answer - ask for ask, answer in zip(self.asked, self.answered, strict=True)]


def rows(folder: Path, legs: int, boundaries: int) -> list[Row]:
    alone = _relay(folder, "alone", legs, boundaries)
    _drive_here(alone.pk)
    apart = _relay(folder, "apart", legs, boundaries)
    rung = time.monotonic()
    _drive_by_processes(apart.pk, legs)
    here, there = _ran(folder, "alone", legs), _ran(folder, "apart", legs)
    waits = [wait * 1000 for leg in (*here, *there) for wait in leg.waits[:-1]]  # the last one ends the leg
    return [
        _per_leg("driver's time a leg, supervised in this process", here),
        _per_leg("driver's time a leg, in processes that the driver starts", there),
        Row("a supervisor's process, from the bell to its first agent", there[0].began - rung, "s"),
        Row("boundary decision, 50 in 100, as the agent waits", median(waits), "ms"),
        Row(
            "boundary decision, 95 in 100, as the agent waits",
            percentile(waits, 0.95),
            "ms",
            goal=BOUNDARY_GOAL,
            detail={"boundaries": len(waits), "longest": max(waits)},
        ),
    ]


def _per_leg(what: str, ran: list[Ran]) -> Row:
    """From the start of one agent to the start of the next, without what the agent took: its own start is in it."""
    took = [later.began - leg.began - leg.busy for leg, later in zip(ran, ran[1:], strict=False)]
    return Row(what, median(took), "s", goal=LEG_GOAL, detail={"legs": len(took), "longest": max(took)})


def _relay(folder: Path, name: str, legs: int, boundaries: int):
    from django.contrib.auth.models import Group, User

    from relays.actions import start
    from relays.actions.base import Actor

    operator, made = User.objects.get_or_create(username="bench")
    if made:
        operator.groups.add(*Group.objects.filter(name__in=("operator", "reviewer", "viewer")))
    repo = folder / name
    repo.mkdir()
    git(repo, "init", "-q", "-b", "main")
    (repo / "README.md").write_text("A repository of the bench.\n")
    git(repo, "add", "-A")
    identity = ("-c", "user.name=Bench", "-c", "user.email=bench@example.org")
    git(repo, *identity, "commit", "-q", "-m", "Begin")
    argv = [sys.executable, "-S", "-E", str(AGENT), str(folder / f"{name}.jsonl"), str(boundaries), str(legs)]
    with mock.patch("relays.driver.spawn.supervisor", lambda *_: False):
        return start.start(
            Actor(operator),
            start.StartRequest(
                repo=str(repo),
                objective="Make one file a leg.",
                done_when="file:done.txt",
                agent="command",
                agent_args={"argv": json.dumps(argv)},
                sets=["rotations_per_hour=0"],
            ),
        )


def _drive_here(relay_id: str) -> None:
    from relays.driver import spawn
    from relays.driver.supervise import supervise
    from relays.models import OPEN_STATES, Leg, Relay, RelayStatus

    with mock.patch.object(spawn, "supervisor", lambda *_: False):
        while Relay.objects.get(pk=relay_id).status in (RelayStatus.READY, RelayStatus.RUNNING):
            supervise(Leg.objects.get(relay=relay_id, state__in=OPEN_STATES).pk)
    _check_done(relay_id)


def _drive_by_processes(relay_id: str, legs: int) -> None:
    from relays.driver import foreground

    foreground.drive(relay_id, seconds=30 + 10.0 * legs)
    _check_done(relay_id)


def _check_done(relay_id: str) -> None:
    from relays.models import Relay, RelayStatus

    relay = Relay.objects.get(pk=relay_id)
    if relay.status != RelayStatus.DONE:
        raise RuntimeError(f"the relay of the bench did not end: {relay.status} {relay.status_why}")


def _ran(folder: Path, name: str, legs: int) -> list[Ran]:
    lines = [json.loads(line) for line in (folder / f"{name}.jsonl").read_text().splitlines()]
    if [line["leg"] for line in lines] != list(range(legs)):
        raise RuntimeError(f"{legs} legs were to run, and these did: {[line['leg'] for line in lines]}")
    return [Ran(line["began"], line["ended"], line["asked"], line["answered"]) for line in lines]
