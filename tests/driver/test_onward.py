"""Legs that follow each other in one process: the same legs, and an end that is asked for at any moment is heard."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from relays.driver import onward, spawn
from relays.driver.claim import Claim
from relays.models import DriverClaim, LegState, RelayStatus
from tests.driver.course import Course

Start = Callable[..., Course]
Started = list[tuple[str, int]]

ONE_A_LEG: dict[str, Any] = {
    "issues": 3,
    "done": "issues:none open",
    "sets": ["leg.turns=4", "rotations_per_hour=0"],
}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    """The supervisors that would have got a process of their own."""
    found: Started = []
    monkeypatch.setattr(spawn, "supervisor", lambda *leg: bool(found.append(leg)) or True)
    return found


def drive(relay: Course, after: Callable[[int], object] = lambda count: None) -> list[str]:
    """Drive it in this process; `after(n)` happens when n legs have ended. What was said of each."""
    said: list[str] = []
    assert relay.open_leg is not None

    def say(_leg: int, line: str) -> None:
        said.append(line)
        after(len(said))

    before = signal.getsignal(signal.SIGTERM)
    onward.drive(relay.open_leg.pk, say)
    assert signal.getsignal(signal.SIGTERM) is before
    return said


def test_one_process_drives_every_leg_under_a_fence_of_its_own(course: Start, started: Started) -> None:
    relay = course(**ONE_A_LEG)
    said = drive(relay)
    assert relay.relay.status == RelayStatus.DONE and started == []
    assert len(said) == len(relay.legs) > 1
    claim = DriverClaim.objects.get(relay=relay.pk)
    assert (claim.fence, claim.holder) == (len(said), ""), "claimed and given back once a leg"


def test_asked_between_two_legs_the_next_one_ends_at_its_first_safe_point(course: Start, started: Started) -> None:
    relay = course(**ONE_A_LEG)
    said = drive(relay, lambda count: os.kill(os.getpid(), signal.SIGTERM) if count == 1 else None)
    assert len(said) == 2 and started == []
    assert relay.legs[1].drain_reason == "shutdown"
    assert relay.relay.status == RelayStatus.READY
    assert relay.open_leg is not None and relay.open_leg.state == LegState.PENDING


def test_asked_before_a_successor_is_looked_for_none_starts(
    course: Start, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = course(**ONE_A_LEG)
    release = Claim.release

    def asked(claim: Claim, **values: Any) -> None:
        release(claim, **values)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Claim, "release", asked)
    assert len(drive(relay)) == 1 and started == []
    assert relay.relay.status == RelayStatus.READY


def test_new_code_and_many_legs_get_a_process_of_their_own(
    course: Start, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = course(**ONE_A_LEG)
    monkeypatch.setattr(onward.time, "time", lambda: os.stat(onward.__file__).st_ctime - 1)
    assert len(drive(relay)) == 1
    assert relay.open_leg is not None and started == [(relay.pk, relay.open_leg.pk)]
    monkeypatch.undo()
    monkeypatch.setattr(spawn, "supervisor", lambda *leg: bool(started.append(leg)))
    monkeypatch.setattr(onward, "LEGS", 1)
    assert len(drive(relay)) == 1 and len(started) == 2


def test_a_leg_that_another_process_was_started_for_is_left_to_it(course: Start, started: Started) -> None:
    relay = course(**ONE_A_LEG)
    host = onward.Onward(0)
    assert host.start(relay.pk, 1) and host.next == 1
    host.next = None
    assert not host.start(relay.pk, 1), "within its grace"
    spawn.forget_spawn(relay.pk)
    with spawn.claim.kernel_lock(relay.pk):
        assert not host.start(relay.pk, 1), "its driver lives"
    assert host.next is None and started == []


def test_a_leg_that_is_tried_again_gets_a_process_of_its_own(course: Start, started: Started) -> None:
    host = onward.Onward(7)
    assert host.start(course().pk, 7)
    assert host.next is None and [leg for _, leg in started] == [7]
