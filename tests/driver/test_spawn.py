"""One supervisor for one relay: none beside a living one, none while one is being started."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from relays.agents import process, tree
from relays.driver import places, spawn
from relays.driver.claim import kernel_lock
from relays.models import DriverClaim
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> list[dict[str, Any]]:
    """The processes that would have been started, each with its arguments."""
    settings.RELAY_VAR = tmp_path / "var"
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(spawn.subprocess, "Popen", lambda argv, **values: found.append({"argv": argv, **values}))
    return found


@pytest.fixture
def leg(started: list[dict[str, Any]]) -> Any:
    return make_leg(make_relay(status="ready"), 0, state="pending", started_at=None)


def spawned_at(relay_id: str) -> Any:
    return DriverClaim.objects.get(relay=relay_id).spawned_at


def test_a_look_at_a_watch_is_a_process_like_a_supervisor_and_never_beside_one(leg: Any, started: list[Any]) -> None:
    assert spawn.looker(leg.relay_id)
    assert started[0]["argv"][2:] == ["relay", "look", leg.relay_id]
    assert not spawn.looker(leg.relay_id) and not spawn.supervisor(leg.relay_id, leg.pk), "within its grace"
    spawn.forget_spawn(leg.relay_id)
    with kernel_lock(leg.relay_id):
        assert not spawn.looker(leg.relay_id), "its driver lives"
    assert len(started) == 1


def test_it_is_a_process_of_its_own(leg: Any, started: list[dict[str, Any]]) -> None:
    assert spawn.supervisor(leg.relay_id, leg.pk)
    (process,) = started
    assert process["argv"] == [sys.executable, str(ROOT / "manage.py"), "relay", "supervise", str(leg.pk)]
    assert process["start_new_session"], "a signal to whoever started it does not reach it"
    assert process["stdout"].name == str(places.relay_folder(leg.relay_id) / "supervisor.log")
    assert process["stdin"] == spawn.subprocess.DEVNULL


def test_none_is_started_within_the_grace_of_another(leg: Any, started: list[dict[str, Any]]) -> None:
    assert spawn.supervisor(leg.relay_id, leg.pk)
    at = spawned_at(leg.relay_id)
    assert not spawn.supervisor(leg.relay_id, leg.pk)
    assert len(started) == 1
    assert spawned_at(leg.relay_id) == at, "a refused start does not prolong the grace"
    DriverClaim.objects.update(spawned_at=timezone.now() - spawn.START_GRACE + timedelta(seconds=2))
    assert not spawn.supervisor(leg.relay_id, leg.pk)
    DriverClaim.objects.update(spawned_at=timezone.now() - spawn.START_GRACE - timedelta(seconds=1))
    assert spawn.supervisor(leg.relay_id, leg.pk)
    assert len(started) == 2


def test_none_is_started_while_one_holds_the_lock(leg: Any, started: list[dict[str, Any]]) -> None:
    with kernel_lock(leg.relay_id):
        assert not spawn.supervisor(leg.relay_id, leg.pk)
    assert started == []
    assert not DriverClaim.objects.filter(relay=leg.relay_id).exists(), "no grace began"
    assert spawn.supervisor(leg.relay_id, leg.pk)


def test_the_lock_of_one_relay_keeps_no_other_waiting(leg: Any, started: list[dict[str, Any]]) -> None:
    other = make_leg(make_relay(status="ready"), 0, state="pending", started_at=None)
    with kernel_lock(other.relay_id):
        assert spawn.supervisor(leg.relay_id, leg.pk)
    assert len(started) == 1


def test_one_that_ended_well_lets_the_next_start_at_once(leg: Any, started: list[dict[str, Any]]) -> None:
    assert spawn.supervisor(leg.relay_id, leg.pk)
    spawn.forget_spawn(leg.relay_id)
    assert spawn.supervisor(leg.relay_id, leg.pk)
    assert len(started) == 2


# --- one that lives and does nothing

HOLDS = """
import fcntl, sys, time
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(leg: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of this host that holds the relay's lock and claim."""
    path = places.lock_file(leg.relay_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    monkeypatch.undo()  # a process, really
    with subprocess.Popen([sys.executable, "-S", "-c", HOLDS, str(path)], stdout=subprocess.PIPE) as holds:
        try:
            assert holds.stdout is not None and holds.stdout.readline() == b"held\n"
            seen = tree.identity(holds.pid)
            assert seen is not None
            host = process.this_process()[3]
            DriverClaim.objects.create(
                relay_id=leg.relay_id, fence=1, holder=f"{host}:{holds.pid}", host=host, pid=holds.pid,
                pid_started=seen[0], boot_id=seen[1], heartbeat=timezone.now(), spawned_at=timezone.now(),
            )  # fmt: skip
            yield holds
        finally:
            holds.kill()


def silent(relay_id: str, minutes: int, seen: int | None = None) -> None:
    """Its last heartbeat is so old, and it was seen so that many seconds ago."""
    beat = timezone.now() - timedelta(minutes=minutes)
    looked = beat if seen is None else timezone.now() - timedelta(seconds=seen)
    DriverClaim.objects.filter(relay=relay_id).update(heartbeat=beat, spawned_at=looked)


def test_a_stopped_supervisor_is_ended_when_patience_is_over(leg: Any, holder: Any) -> None:
    os.kill(holder.pid, signal.SIGSTOP)
    silent(leg.relay_id, 11)
    assert not spawn.supervisor(leg.relay_id, leg.pk)
    assert holder.poll() is None, "one look is not enough: the whole machine may have slept"
    silent(leg.relay_id, 11, seen=9)
    assert not spawn.supervisor(leg.relay_id, leg.pk)
    assert holder.wait(timeout=20) == -signal.SIGKILL
    with kernel_lock(leg.relay_id):
        pass  # the kernel freed it: the next look starts another


@pytest.mark.parametrize("why", ["it beats", "it woke up", "another host's", "another process"])
def test_one_that_may_well_be_alive_is_left_alone(leg: Any, holder: Any, why: str) -> None:
    silent(leg.relay_id, 11, seen=9)
    changes: dict[str, dict[str, Any]] = {
        "it beats": {"heartbeat": timezone.now() - timedelta(minutes=9)},
        "it woke up": {"heartbeat": timezone.now()},
        "another host's": {"host": "far"},
        "another process": {"pid_started": 1},
    }
    DriverClaim.objects.filter(relay=leg.relay_id).update(**changes[why])
    assert not spawn.supervisor(leg.relay_id, leg.pk)
    assert holder.poll() is None
