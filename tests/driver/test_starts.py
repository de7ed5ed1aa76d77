"""A leg whose agent does not start: tried again, then a person is asked; and who may drive it at all."""

import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.utils import timezone

from relays.actions import park, resume
from relays.actions.base import Usage
from relays.agents import process
from relays.driver import claim
from relays.driver.supervise import Supervisor
from relays.models import Counted, DriverClaim, Leg, LegState, RegionLease, Relay, RelayStatus
from tests.builders import git
from tests.driver.conftest import Killed
from tests.driver.course import boundary, commit, loop, operator, player, turn

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
Start = Callable[..., Any]
At = Callable[..., None]

MISSING = {"agent": "command", "args": {"argv": '["/nowhere/agent"]'}}
GONE_AT_ONCE = {"agent": "command", "args": {"argv": f'["{sys.executable}", "-S", "-c", "import sys; sys.exit(7)"]'}}
MISNAMED = {"agent": "command", "args": {"argv": '["relaysite-no-such-program"]'}}


@pytest.mark.parametrize(
    ("agent", "evidence"),
    [
        pytest.param(MISSING, "/nowhere/agent", id="no program"),
        pytest.param(GONE_AT_ONCE, "exited with 7", id="exits at once"),
        pytest.param(MISNAMED, "relaysite-no-such-program", id="not on the path", marks=pytest.mark.slow),
    ],
)
def test_two_failed_starts_wait_and_the_third_asks(course: Start, agent: dict[str, Any], evidence: str) -> None:
    relay = course(**agent)
    delays = []
    for attempt in (1, 2):
        relay.step()
        found, leg = relay.relay, relay.open_leg
        assert (found.status, leg.state, leg.attempts) == (RelayStatus.WAITING, LegState.PENDING, attempt)
        assert evidence in found.status_why and evidence in leg.start_error
        delays.append(round((found.next_at - found.status_at).total_seconds()))
        assert relay.gates == []
        relay.time_passes()
    assert delays == [5, 10]
    relay.step()
    assert relay.relay.status == RelayStatus.PARKED and relay.waiting == ["RELAY_PARKED_UNSAFE"]
    assert any(item == "cause: start_failed" for item in relay.gates[0].items)
    assert any(evidence in item for item in relay.gates[0].items)
    assert relay.relay.legs_used == 0, "a leg counts from running"
    assert relay.open_leg.number == 0, "and its number is not used up"


@pytest.mark.parametrize("act", ["park", "stop"])
@pytest.mark.parametrize("way", ["fails", "dies"])
def test_a_start_that_leads_nowhere_carries_out_what_a_person_asked_meanwhile(
    course: Start, monkeypatch: Any, killed: Any, act: str, way: str
) -> None:
    relay = course(**GONE_AT_ONCE)
    launch = Supervisor._launch

    def launched(self: Any, ready: Any) -> None:
        launch(self, ready)
        assert getattr(park, act)(operator(), relay.pk).will == "drain"
        monkeypatch.setattr(Supervisor, "_launch", launch)

    monkeypatch.setattr(Supervisor, "_launch", launched)
    if way == "dies":
        killed(Supervisor, "_wait_for_first_event")
        with pytest.raises(Killed):
            relay.step()
        assert relay.open_leg.state == LegState.STARTING
    relay.step()
    found = relay.relay
    assert (found.status, found.park, found.stop) == (
        RelayStatus.PARKED if act == "park" else RelayStatus.STOPPED,
        "",
        "",
    )
    assert relay.gates == [] and found.legs_used == 0
    if act == "stop":
        assert relay.open_leg is None and not RegionLease.objects.filter(relay=relay.pk, held=True).exists()
    else:
        assert resume.resume(operator(), relay.pk).will == "start"
        assert relay.relay.status == RelayStatus.READY and relay.open_leg.number == 0


@pytest.mark.parametrize("between", ["it is tried again", "a person approves it"])
def test_a_commit_that_was_made_before_a_start_failed_is_still_the_legs_own(course: Start, between: str) -> None:
    """rules.md, Verified progress: commits "created by its HEAD reflog during the leg", from its first start on."""
    relay = course(**player([*commit("early.txt"), {"do": "exit", "code": 7}]))
    relay.step()
    early = relay.worktree.joinpath("early.txt")
    assert early.exists() and relay.open_leg.attempts == 1 and relay.legs == []
    if between == "a person approves it":
        for _ in range(2):
            relay.time_passes()
            relay.step()
        relay.approve("RELAY_PARKED_UNSAFE")
    else:
        relay.time_passes()
    works = player([*commit("late.txt"), *turn(), *boundary("Go on.", final=True)])
    Relay.objects.filter(pk=relay.pk).update(agent_args=works["args"])
    relay.step()
    (leg,) = relay.legs
    assert leg.progress_detail["foreign"] == []
    assert leg.progress == (2 if between == "it is tried again" else 4)


@pytest.mark.parametrize(
    ("way", "after"),
    [("fails", "the goal is reached"), ("fails", "a person stops it"), ("dies", "the goal is reached")],
)
def test_a_commit_of_a_start_that_failed_is_the_legs_own_when_none_follows(
    course: Start, killed: Any, way: str, after: str
) -> None:
    """Its last commit reaches the goal before the agent is heard once: no leg runs any more, and the commit is no
    stranger's."""
    relay = course(**player([*commit("goal.txt"), {"do": "exit", "code": 7}]), done="file:goal.txt")
    if way == "dies":
        # the agent's commit stands when its supervisor goes
        killed(Supervisor, "_start_failed")
        with pytest.raises(Killed):
            relay.step()
        assert relay.open_leg.state == LegState.STARTING
    relay.step()
    if way == "fails":  # who takes over from a dead supervisor starts the leg at once, and finds the goal reached
        assert relay.relay.status == RelayStatus.WAITING
        if after == "a person stops it":
            park.stop(operator(), relay.pk)
        else:
            relay.time_passes()
            relay.step()
    found = relay.relay
    leg = Leg.objects.get(relay=relay.pk)
    assert found.status in (RelayStatus.DONE, RelayStatus.STOPPED) and leg.state == LegState.VOID
    tip = git(relay.worktree, "rev-parse", "HEAD")
    assert [one["sha"] for one in leg.progress_detail["commits"]] == [tip]
    assert Counted.objects.filter(leg=leg, kind=Counted.Kind.COMMIT).values_list("value", "counts").get() == (tip, True)
    assert found.progress_total == leg.progress > 0


def test_a_start_that_fails_from_a_gate_takes_it_back_with_its_error(course: Start) -> None:
    dirty = [*turn(950), {"do": "write", "path": "half.txt", "text": "x"}, *boundary("Go on.")]
    relay = course(
        **player({"0": dirty, "1": [*commit("a.txt"), *turn(), *boundary("Go on.", final=True)]}),
        sets=["window_tokens=1000"],
    )
    relay.step()
    good = relay.relay.agent_args
    Relay.objects.filter(pk=relay.pk).update(agent_args=MISSING["args"])
    relay.approve("RELAY_PARKED_UNSAFE")
    assert relay.gates[0].state == "requested"
    relay.step()
    (gate,) = relay.gates
    assert gate.state == "waiting" and "/nowhere/agent" in gate.error, "the first failure, not the third"
    assert relay.relay.status == RelayStatus.PARKED

    Relay.objects.filter(pk=relay.pk).update(agent_args=good)
    relay.approve("RELAY_PARKED_UNSAFE")
    relay.step()
    (gate,) = relay.gates
    assert gate.state == "confirmed"
    assert [leg.number for leg in relay.legs] == [0, 1]


@pytest.mark.slow
def test_a_gate_is_dispatched_by_the_start_and_confirmed_by_the_first_event(course: Start, meanwhile: At) -> None:
    dirty = [*turn(950), {"do": "write", "path": "half.txt", "text": "x"}, *boundary("Go on.")]
    relay = course(
        **player({"0": dirty, "1": [*turn(), *boundary(), loop(*turn(950), *boundary("Go on."))]}),
        sets=["window_tokens=1000"],
    )
    relay.step()
    relay.approve("RELAY_PARKED_UNSAFE")
    states: list[str] = []
    meanwhile(1, lambda: states.append(relay.gates[0].state))
    relay.step()
    assert states == ["confirmed"]


# --- who drives


def test_a_relay_that_is_driven_is_left_alone(course: Start) -> None:
    relay = course()
    with claim.kernel_lock(relay.pk):
        assert "driven already" in relay.step()
    assert relay.open_leg.state == LegState.PENDING
    assert not DriverClaim.objects.filter(relay=relay.pk, fence__gt=0).exists()


def test_a_host_that_still_beats_keeps_its_relay(course: Start) -> None:
    relay = course()
    DriverClaim.objects.create(relay_id=relay.pk, fence=4, holder="far:1", host="far", pid=1, heartbeat=timezone.now())
    assert "driven already" in relay.step()
    assert relay.open_leg.state == LegState.PENDING


def test_a_supervisor_with_an_old_fence_ends_its_agent_and_writes_nothing(course: Start, meanwhile: At) -> None:
    relay = course(issues=2, args={"items": "3", "pace": "0.2"})
    seen: dict[str, Any] = {}

    def taken_over() -> None:
        DriverClaim.objects.filter(relay=relay.pk).update(fence=F("fence") + 1)
        leg = relay.open_leg
        seen.update(pid=leg.agent_pid, marker=leg.marker, turns=leg.turns, boundaries=len(relay.boundaries(0)))

    meanwhile(2, taken_over)
    assert relay.step().startswith("claim lost")
    leg = relay.open_leg
    assert (leg.state, leg.turns, len(relay.boundaries(0))) == ("running", seen["turns"], seen["boundaries"])
    assert not process.living(seen["marker"]), "its agent is gone"


def test_a_lost_host_closes_its_leg_unsafe_and_the_approval_must_say_so(course: Start, killed: Any) -> None:
    from relays.driver.boundaries import Boundaries
    from tests.driver.conftest import Killed

    relay = course(**player([*commit("a.txt"), loop(*turn(), *boundary("Go on."))]))
    killed(Boundaries, "judge", nth=2)
    with pytest.raises(Killed):
        relay.step()
    DriverClaim.objects.filter(relay=relay.pk).update(
        holder="far:1", host="far", pid=1, heartbeat=timezone.now() - timedelta(minutes=11)
    )
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause) == ("RELAY_PARKED_UNSAFE", "host_lost")
    assert leg.end_sha == leg.progress_detail["commits"][0]["sha"], "closed at the last recorded tip"
    with pytest.raises(Usage, match="host"):
        relay.approve("RELAY_PARKED_UNSAFE")
    relay.approve("RELAY_PARKED_UNSAFE", host_dead=True)
    assert relay.open_leg.number == 1


@pytest.mark.slow
def test_of_two_supervisors_one_drives_and_the_other_leaves_it_alone(
    course: Start, process_env: dict[str, str], settings: Any
) -> None:
    slowly = [*commit("a.txt"), *turn(), {"do": "sleep", "seconds": 4}, *boundary("Go on.", final=True)]
    relay = course(**player(slowly), sets=["envelope.legs=1"])
    env = {**process_env, "RELAY_VAR": str(settings.RELAY_VAR)}
    command = [sys.executable, "manage.py", "relay", "supervise", str(relay.open_leg.pk)]
    both = [
        subprocess.Popen(command, cwd=settings.BASE_DIR, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for _ in range(2)
    ]
    said = [one.communicate(timeout=90)[0].decode() for one in both]
    assert sum("driven already" in text for text in said) == 1, said
    (leg,) = relay.legs
    assert (leg.number, leg.reason, leg.attempts, leg.turns) == (0, "RELAY_ROTATED", 0, 1)
    assert relay.open_leg is None and relay.relay.legs_used == 1
