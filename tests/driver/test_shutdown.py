"""What Ctrl-C asks of a running relay: its leg ends at a safe point and the next start goes on; or it is killed."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from django.conf import settings

from relays.driver import shutdown
from relays.models import DriverClaim, Leg, LegState, RelayStatus
from tests.driver.course import Course, boundary, commit, loop, player, turn

ROOT = Path(__file__).resolve().parents[2]
Start = Callable[..., Course]

#: one commit, then turns without end, each with a boundary at which the leg may end
WORK = player([*commit("work.txt"), loop(*turn(), {"do": "sleep", "seconds": 0.1}, *boundary("Go on."))])


@contextmanager
def supervised(relay: Course, env: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """A supervisor of the open leg as a process of its own; it has judged a boundary."""
    leg = relay.open_leg
    assert leg is not None
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "manage.py"), "relay", "supervise", str(leg.pk)],
        env={**env, "RELAY_VAR": str(settings.RELAY_VAR)},
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    Thread(target=process.wait, daemon=True).start()  # as init would: an ended one is no process any more
    try:
        deadline = time.monotonic() + 60
        while not relay.boundaries(leg.number):
            assert process.poll() is None and time.monotonic() < deadline, "it does not run"
            time.sleep(0.1)
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_nothing_runs_and_nothing_is_asked(transactional_db: None) -> None:
    assert shutdown.living() == []
    assert shutdown.wind_down(0) == []
    assert shutdown.end_now() == []


def test_a_claim_of_another_host_or_of_a_dead_process_is_not_ours(course: Start) -> None:
    relay = course(**WORK)
    DriverClaim.objects.create(relay=relay.relay, holder="h:1", host="elsewhere", pid=os.getpid())
    assert shutdown.living() == []
    DriverClaim.objects.update(host=shutdown.process.this_process()[3], pid_started=1)
    assert shutdown.living() == [], "a pid alone is no identity"


def test_what_was_ended_is_told_by_its_leg(course: Start) -> None:
    relay = course(**WORK)
    assert shutdown.said([]) == "nothing was running"
    assert shutdown.said([relay.pk]) == f"the supervisor of {relay.pk} was ended between two legs"
    Leg.objects.filter(relay=relay.pk).update(state=LegState.RUNNING)
    assert shutdown.said([relay.pk]) == f"leg 0 of {relay.pk} was ended without a safe point"


@pytest.mark.slow
def test_a_running_relay_winds_down_at_a_safe_point(course: Start, process_env: dict[str, str]) -> None:
    relay = course(**WORK)
    with supervised(relay, process_env) as process:
        assert [claim.relay_id for claim in shutdown.living()] == [relay.pk]
        assert shutdown.wind_down(60) == []
        assert process.wait(timeout=10) == 0
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.drain_reason) == ("RELAY_ROTATED", "", "shutdown")
    assert relay.boundaries(0)[-1].answer == "stop"
    successor = relay.open_leg
    assert successor is not None
    assert (successor.number, successor.state, relay.relay.status) == (1, LegState.PENDING, RelayStatus.READY)
    assert relay.waiting == []
    assert shutdown.living() == []


@pytest.mark.slow
def test_one_that_reaches_no_safe_point_is_named_and_can_be_killed(
    course: Start, process_env: dict[str, str], killed_agents: Callable[[Course], bool]
) -> None:
    held = [{"do": "write", "path": "half.txt", "text": "half\n"}]
    pause: dict[str, Any] = {"do": "sleep", "seconds": 0.1}
    relay = course(**player([*held, loop(*turn(), pause, *boundary("Go on."))]))
    with supervised(relay, process_env):
        assert shutdown.wind_down(3) == [relay.pk]
        assert Leg.objects.get(relay=relay.pk).state == LegState.DRAINING
        assert relay.boundaries(0)[-1].answer == "wind_down TREE_DIRTY_UNPARKED"
        assert shutdown.end_now() == [relay.pk]
        deadline = time.monotonic() + 10
        while (shutdown.living() or not killed_agents(relay)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert shutdown.said([relay.pk]) == f"leg 0 of {relay.pk} was ended without a safe point"
        assert shutdown.living() == []
        assert killed_agents(relay), "the kernel takes the agents along"
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "supervisor_crash", "TREE_DIRTY_UNPARKED")
    assert leg.wip_sha, "what it had written is kept"


@pytest.fixture
def killed_agents() -> Callable[[Course], bool]:
    """Whether no process carries the marker of the relay's leg any more."""

    def gone(relay: Course) -> bool:
        marker = Leg.objects.filter(relay=relay.pk).exclude(marker="").values_list("marker", flat=True).get()
        for place in Path("/proc").glob("[0-9]*"):
            try:
                if marker.encode() in (place / "environ").read_bytes():
                    return False
            except OSError:
                continue
        return True

    return gone
