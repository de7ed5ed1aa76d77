"""rules.md, The driver: "whoever retries any step after a crash reaches the same result, never a second successor";
"a supervisor with an old fence ends its agent and writes nothing". rules.md, Park, approve, resume, stop: park and stop
act whenever they come. states.md: whatever meets whatever, every change is one of its tables.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from django.apps import apps
from django.conf import settings
from django.db import connection
from django.db.models import F
from django.utils import timezone

from relays import tasks
from relays.actions import park, resume
from relays.actions.base import Refused
from relays.agents import process, tree
from relays.driver import advance, baton_maker, commands, reload, spawn, supervise, supervised
from relays.driver.boundaries import Boundaries
from relays.driver.ending import Ending
from relays.driver.ingest import Ingest
from relays.driver.prepare import Prepare
from relays.driver.supervisor import Supervisor
from relays.models import (
    Baton,
    CommandResult,
    DriverClaim,
    Event,
    Leg,
    LegState,
    Outbox,
    Relay,
    RelayStatus,
    Tombstone,
)
from tests import histories
from tests.builders import git
from tests.driver.course import Course, boundary, commit, loop, operator, player, turn

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
Start = Callable[..., Course]
Act = Callable[[], object]
ROOT = Path(__file__).resolve().parents[2]

DIRTY = {"do": "write", "path": "half.txt", "text": "half\n"}
WORK = [*commit("work.txt"), *turn(), *boundary("Go on.", final=True)]
UNSAFE = [*commit("work.txt"), *turn(), DIRTY, *boundary("Go on."), {"do": "exit", "code": 3}]
SLOW_COMMAND = "sleep 40"


@pytest.fixture(autouse=True)
def legal(transactional_db: None) -> Iterator[None]:
    """Every change that a test brings about is legal."""
    with histories.recorded(connection) as changes:
        yield
        assert histories.illegal(changes()) == []


@pytest.fixture
def at_step(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`at_step(owner, "name", act, after=False)`: beside the first call of that method, `act()` happens, once."""

    def arrange(owner: Any, name: str, act: Act, *, after: bool = False) -> None:
        real = getattr(owner, name)
        done = False

        def meeting(*args: Any, **values: Any) -> Any:
            nonlocal done
            first, done = not done, True
            if first and not after:
                act()
            found = real(*args, **values)
            if first and after:
                act()
            return found

        monkeypatch.setattr(owner, name, meeting)

    return arrange


# --- a claim that is lost


def stored(relay: Course) -> dict[str, Any]:
    """All rows in every table, and every ref that a driver writes: the branch is its agent's."""
    found: dict[str, Any] = {"refs": git(relay.relay.git_dir, "for-each-ref", "refs/relay", "refs/notes")}
    for model in apps.get_app_config("relays").get_models():
        if model.__name__ not in ("Pulse", "Topic", "Heartbeat", "Repository"):
            found[model.__name__] = list(model._default_manager.order_by("pk").values())
    return found


LOSSES: list[tuple[str, Any, str, bool]] = [
    ("before the ladder", Prepare, "_climb", False),
    ("before the climb is kept", Prepare, "_judge_fidelity", False),
    ("before the leg is starting", Prepare, "_to_starting", False),
    ("before its process", Supervisor, "_launch", False),
    ("its process lives", Supervisor, "_wait_for_first_event", False),
    ("before the first event is kept", Supervisor, "_running", False),
    ("before events are stored", Ingest, "flush", False),
    ("before the boundary", Boundaries, "judge", False),
    ("before the end is judged", Ending, "judge", False),
    ("before the end is recorded", Ending, "record", False),
    ("the end is recorded", Ending, "record", True),
    ("before it is judged again", Ending, "again", False),
    ("before it is closed", Ending, "close", False),
    ("before the transaction", baton_maker, "gather", True),
]


#: tried by every run; the others by `make slow`
TOLD = {"before the ladder", "before it is closed"}
LOST = [pytest.param(*one[1:], id=one[0], marks=() if one[0] in TOLD else pytest.mark.slow) for one in LOSSES]


@pytest.mark.parametrize(("owner", "name", "after"), LOST)
def test_whoever_lost_its_claim_ends_its_agent_and_writes_nothing(
    course: Start, at_step: Callable[..., None], owner: Any, name: str, after: bool
) -> None:
    relay = course(**player({"0": WORK, "*": UNSAFE}))
    relay.step()
    before: dict[str, Any] = {}

    def taken_over() -> None:
        DriverClaim.objects.filter(relay=relay.pk).update(fence=F("fence") + 1, holder="far:1", host="far")
        before.update(stored(relay))

    at_step(owner, name, taken_over, after=after)
    said = relay.step()
    assert said.startswith("claim lost"), said
    assert stored(relay) == before
    marker = relay.open_leg.marker
    assert not marker or not process.living(marker), "its agent is gone"


def test_a_claim_that_is_lost_inside_the_rotation_takes_all_of_it_back(
    course: Start, at_step: Callable[..., None]
) -> None:
    relay = course(**player(WORK))
    at_step(Ending, "_move_on", lambda: DriverClaim.objects.filter(relay=relay.pk).update(fence=F("fence") + 1))
    assert relay.step().startswith("claim lost")
    leg = relay.open_leg
    assert (leg.number, leg.state, leg.reason) == (0, LegState.ENDING, "")
    assert not Tombstone.objects.exists() and not Baton.objects.exists() and not Outbox.objects.exists()
    relay.step()
    assert [(leg.number, leg.reason) for leg in relay.legs] == [(0, "RELAY_ROTATED")]


def test_a_stale_baton_is_not_rebuilt_by_whoever_lost_its_claim(course: Start, at_step: Callable[..., None]) -> None:
    relay = course(**player({"*": WORK}))
    relay.step()
    git(relay.worktree, "reset", "-q", "--hard", relay.relay.start_sha)
    at_step(reload, "rebuild", lambda: DriverClaim.objects.filter(relay=relay.pk).update(fence=F("fence") + 1))
    assert relay.step().startswith("claim lost")
    assert [row.why for row in Baton.objects.all()] == ["rotation"]
    relay.step()
    assert Baton.objects.filter(why="stale").count() == 1


@pytest.mark.slow
def test_a_stopped_supervisor_that_wakes_up_taken_over_writes_nothing(
    course: Start, process_env: dict[str, str]
) -> None:
    relay = course(
        **player([*commit("a.txt"), DIRTY, loop(*turn(), {"do": "sleep", "seconds": 0.1}, *boundary("On."))])
    )
    command = [sys.executable, str(ROOT / "manage.py"), "relay", "supervise", str(relay.open_leg.pk)]
    env = {**process_env, "RELAY_VAR": str(settings.RELAY_VAR)}
    with subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        try:
            wait_until(lambda: relay.boundaries(0) or running.poll() is not None)
            os.kill(running.pid, signal.SIGSTOP)
            wait_until(lambda: (tree.stat(running.pid) or "?")[0] == "T")
            marker = relay.open_leg.marker
            assert process.living(marker)
            DriverClaim.objects.filter(relay=relay.pk).update(fence=F("fence") + 1, holder="far:1", host="far")
            before = stored(relay)
            os.kill(running.pid, signal.SIGCONT)
            said = running.communicate(timeout=60)[0].decode()
        finally:
            running.kill()
    assert "claim lost" in said
    assert stored(relay) == before
    wait_until(lambda: not process.living(marker), 10)


# --- a person at any step

STEPS: list[tuple[str, Any, str, bool]] = [
    ("before the ladder", Prepare, "run", False),
    ("before the leg is starting", Prepare, "_to_starting", False),
    ("the leg is starting", Prepare, "_to_starting", True),
    ("its process lives", Supervisor, "_launch", True),
    ("the leg runs", Supervisor, "_running", True),
    ("before events are stored", Ingest, "flush", False),
    ("before the boundary", Boundaries, "judge", False),
    ("the boundary is kept", Boundaries, "judge", True),
    ("before the end is judged", Ending, "judge", False),
    ("before the end is recorded", Ending, "record", False),
    ("the end is recorded", Ending, "record", True),
    ("before it is judged again", Ending, "again", False),
    ("before it is closed", Ending, "close", False),
    ("the leg is closed", Ending, "close", True),
]
#: tried by every run; the others by `make slow`
TELLING = {"the end is recorded"}


def person(relay: Course, wish: str) -> object:
    act = park.park if wish.startswith("park") else park.stop
    return act(operator(), relay.pk, now=wish.endswith("now"))


@pytest.mark.parametrize("wish", ["park", "park now", "stop", "stop now"])
@pytest.mark.parametrize(
    ("owner", "name", "after"),
    [pytest.param(*one[1:], id=one[0], marks=() if one[0] in TELLING else pytest.mark.slow) for one in STEPS],
)
def test_what_a_person_wants_is_done_whenever_it_comes(
    course: Start, at_step: Callable[..., None], owner: Any, name: str, after: bool, wish: str
) -> None:
    relay = course(**player({"*": [*commit("w-$LEG.txt"), *turn(), *boundary("Go on."), *boundary("On.", final=True)]}))
    at_step(owner, name, lambda: person(relay, wish), after=after)
    relay.drive(3)
    found = relay.relay
    assert found.status == (RelayStatus.PARKED if wish.startswith("park") else RelayStatus.STOPPED), found.status_why
    assert (found.park, found.stop) == ("", ""), "a wish that is done is no wish any more"
    assert not Leg.objects.filter(relay=relay.pk).exclude(state__in=["pending", "ended", "void"]).exists()
    assert [leg.marker for leg in relay.relay.legs.all() if leg.marker and process.living(leg.marker)] == []
    numbers = [leg.number for leg in relay.legs]
    assert numbers in ([], [0]), "no leg began after it"
    if wish.startswith("stop"):
        assert relay.open_leg is None and relay.waiting == []
        return
    # and it goes on from there
    if relay.waiting:
        relay.approve(relay.waiting[0], next_action="Go on.")
    else:
        resume.resume(operator(), relay.pk)
    relay.step()
    assert [leg.number for leg in relay.legs] == [*numbers, len(numbers)]


def test_resume_meets_the_end_of_the_drain(course: Start, at_step: Callable[..., None], meanwhile: Any) -> None:
    """A park that is withdrawn after its leg was judged, and before it is closed, is no park."""
    relay = course(**player({"*": [*commit("w-$LEG.txt"), *turn(), *boundary("Go on.")]}))
    meanwhile(1, lambda: park.park(operator(), relay.pk))
    at_step(Ending, "close", lambda: resume.resume(operator(), relay.pk))
    relay.step()
    assert relay.relay.status == RelayStatus.READY and relay.open_leg.number == 1


# --- a person while a command runs


def in_a_moment(act: Act, seconds: float = 1.5) -> Thread:
    """`act` in a thread with a connection of its own, in a moment."""

    def later() -> None:
        time.sleep(seconds)
        try:
            act()
        finally:
            connection.close()

    thread = Thread(target=later)
    thread.start()
    return thread


@pytest.mark.parametrize("wish", ["park now", "stop now"])
def test_now_is_heard_while_the_end_waits_for_the_green_command(course: Start, wish: str) -> None:
    relay = course(**player(WORK), sets=[f"green={SLOW_COMMAND}", "mark.turns=1", "leg.turns=1"])
    operator()
    thread = in_a_moment(lambda: person(relay, wish))
    began = time.monotonic()
    relay.step()
    thread.join()
    assert time.monotonic() - began < 25, "nobody waits for the command's end"
    (leg,) = relay.legs
    cause = "park_now" if wish == "park now" else "stop"
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", cause, "NOT_AT_SAFE_POINT")
    assert relay.relay.status == (RelayStatus.PARKED if wish == "park now" else RelayStatus.STOPPED)
    assert not CommandResult.objects.filter(relay=relay.pk).exists(), "it was given up: it neither passed nor failed"
    assert not commands_alive(relay)


@pytest.mark.parametrize("wish", ["park", "stop"])
def test_a_person_is_heard_while_a_start_waits_for_a_command(course: Start, wish: str) -> None:
    relay = course(**player(WORK), done=f'cmd:"{SLOW_COMMAND}"')
    operator()
    thread = in_a_moment(lambda: person(relay, wish))
    began = time.monotonic()
    relay.step()
    thread.join()
    assert time.monotonic() - began < 25
    assert relay.legs == [] and not commands_alive(relay)
    assert relay.relay.status == (RelayStatus.PARKED if wish == "park" else RelayStatus.STOPPED)


def commands_alive(relay: Course) -> list[int]:
    return process.living(commands.marker_of(relay.pk))


# --- a flood of boundaries

FLOOD = {"do": "flood", "count": 1500}


def test_a_flood_of_boundaries_keeps_nobody_waiting(course: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised, "STOP_GRACE", 1.0)
    relay = course(**player([*turn(), FLOOD, {"do": "sleep", "seconds": 60}], way="socket"))
    operator()
    thread = in_a_moment(lambda: person(relay, "stop now"), 2.0)
    began = time.monotonic()
    relay.step()
    thread.join()
    assert relay.relay.status == RelayStatus.STOPPED
    assert time.monotonic() - began < 20, "1,500 boundaries take longer than that"
    assert 0 < len(relay.boundaries(0)) < 1400


@pytest.mark.slow
def test_the_exit_of_an_agent_is_seen_behind_its_flood(course: Start) -> None:
    relay = course(**player([*turn(), FLOOD, {"do": "exit", "code": 5}], way="socket"), sets=["on_crash=park"])
    began = time.monotonic()
    relay.step()
    assert time.monotonic() - began < 20
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.exit_code) == ("RELAY_PARKED_UNSAFE", "agent_crash", 5)
    assert 0 < len(relay.boundaries(0)) < 1400
    assert Event.objects.filter(leg=leg, kind="boundary").count() == FLOOD["count"], "all that it said is kept"


# --- bells that ring twice, late, or all at once


def wait_until(what: Callable[[], Any], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.1)


def test_bells_that_ring_at_once_start_one_supervisor(
    course: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    relay = course(**player(WORK))
    monkeypatch.undo()
    monkeypatch.setattr("relaysite.celery.app.send_task", lambda *_, **__: None)
    settings.RELAY_VAR = tmp_path / "var"
    started: list[list[str]] = []
    monkeypatch.setattr(spawn.subprocess, "Popen", lambda argv, **_: started.append(argv))
    barrier = Barrier(6)
    failed: list[BaseException] = []

    def ring() -> None:
        try:
            barrier.wait(20)
            for task in (lambda: tasks.advance(relay.pk), tasks.reconcile):
                task()
        except BaseException as error:  # noqa: BLE001 - judged below
            failed.append(error)
        finally:
            connection.close()

    threads = [Thread(target=ring) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failed == [] and len(started) == 1


@pytest.mark.parametrize("end", ["done", "parked", "stopped", "waiting"])
def test_a_bell_that_comes_late_changes_nothing(course: Start, end: str) -> None:
    relay = course(issues=1) if end == "done" else course(**player({"*": WORK}))
    first = relay.open_leg.pk
    relay.step()
    if end == "parked":
        park.park(operator(), relay.pk)
    elif end == "stopped":
        park.stop(operator(), relay.pk)
    elif end == "waiting":
        later = timezone.now() + timedelta(hours=1)
        Relay.objects.filter(pk=relay.pk).update(status=RelayStatus.WAITING, next_at=later)
    before = stored(relay)
    assert advance.advance(relay.pk) in ("nothing to do", "waits")
    tasks.advance(relay.pk)
    tasks.advance("RLY-20000101-0001")
    claim = before.pop("DriverClaim")
    for _ in range(2):
        assert "ended already" in supervise.supervise(first), "the same leg, once more"
    if (leg := relay.open_leg) is not None:
        assert f"relay is {end}" in supervise.supervise(leg.pk)
    found = stored(relay)
    assert found.pop("DriverClaim")[0]["fence"] >= claim[0]["fence"]
    assert found == before


def test_a_leg_that_is_over_is_not_driven_by_whoever_comes_for_its_successor(course: Start) -> None:
    relay = course(**player({"*": WORK}))
    first = relay.open_leg.pk
    relay.step()
    assert "ended already" in supervise.supervise(first)
    assert relay.open_leg.number == 1 and relay.open_leg.state == LegState.PENDING
    relay.step()
    assert [leg.number for leg in relay.legs] == [0, 1]


@pytest.mark.parametrize("act", [park.park, resume.resume])
def test_people_are_refused_what_a_relay_that_ended_cannot_do(course: Start, act: Any) -> None:
    relay = course(issues=1)
    relay.step()
    assert relay.relay.status == RelayStatus.DONE
    before = stored(relay)
    with pytest.raises(Refused):
        act(operator(), relay.pk)
    assert stored(relay) == before
