"""Done-check first, at boundaries, and what commands say: `done_when` in the driver's hands."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from relays.agents import process
from relays.driver import advance
from relays.driver.budgets import policy_of
from relays.driver.commands import Commands, marker_of
from relays.models import CommandResult, LegState, RegionLease, Relay, RelayStatus
from tests.builders import commit as made
from tests.builders import make_repo
from tests.driver.course import boundary, commit, loop, player, turn
from tests.web_builders import make_relay

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
Start = Callable[..., Any]

ENDS = [*turn(), *boundary("Go on.", final=True)]


def test_a_goal_that_holds_at_the_start_makes_no_leg(course: Start) -> None:
    relay = course(issues=1, done="file:.relay/issues.jsonl")
    relay.step()
    found = relay.relay
    assert (found.status, found.ended_reason, found.legs_used) == (RelayStatus.DONE, "RELAY_GOAL_DONE", 0)
    assert relay.legs == [] and found.legs.get().state == LegState.VOID
    assert not RegionLease.objects.get(relay=relay.pk).held
    assert advance.advance(relay.pk) == "nothing to do"


def test_a_goal_that_comes_true_between_legs_ends_the_relay_before_the_next_one(course: Start) -> None:
    relay = course(**player(ENDS), done="file:goal.txt", sets=["envelope.legs=9"])
    relay.step()
    made(relay.worktree, {"goal.txt": "here\n"}, "By somebody else")
    Relay.objects.filter(pk=relay.pk).update(legs_used=9)
    relay.step()
    assert relay.relay.status == RelayStatus.DONE, "a goal that is reached needs no budget"
    assert len(relay.legs) == 1 and relay.gates == []
    assert relay.reload.outcome == "done"


@pytest.mark.parametrize("goal", ["file:goal.txt", 'file:goal.txt and cmd:"test -f goal.txt"'])
def test_a_goal_that_is_made_ends_the_relay(course: Start, goal: str) -> None:
    relay = course(**player([*commit("goal.txt"), *turn(), *boundary(final=True)]), done=goal)
    relay.drive()
    (leg,) = relay.legs
    assert leg.reason == "RELAY_GOAL_DONE", "done needs no next action"
    assert relay.relay.status == RelayStatus.DONE


def test_a_goal_with_a_dirty_tree_is_not_done(course: Start) -> None:
    dirty = [*commit("goal.txt"), {"do": "write", "path": "half.txt", "text": "x"}]
    relay = course(
        **player([*dirty, *turn(), *boundary("Go on.", final=True), *boundary("Go on.", final=True)]),
        done="file:goal.txt",
    )
    relay.drive()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "agent_exit", "TREE_DIRTY_UNPARKED")
    assert leg.told_hold == "TREE_DIRTY_UNPARKED"


def test_a_command_runs_on_a_clean_checkout_of_the_tip(course: Start, tmp_path: Any) -> None:
    seen = tmp_path / "seen.txt"
    relay = course(**player(ENDS), done=f'cmd:"pwd > {seen}; git status --porcelain >> {seen}; false"')
    relay.step()
    where, *status = seen.read_text().splitlines()
    assert where != str(relay.worktree) and status == []
    assert relay.legs[0].reason == "RELAY_ROTATED", "a command that fails is false, never unknown"


def test_a_command_is_contained_like_an_agent(course: Start, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it started ends with it, and nothing of ours is in its environment."""
    monkeypatch.setenv("SECRET_KEY", "not for commands")
    seen = tmp_path / "env.txt"
    relay = course(**player(ENDS), done=f'cmd:"env > {seen}; setsid sleep 97 > /dev/null 2>&1 & false"')
    relay.step()
    assert "PATH=" in seen.read_text() and "not for commands" not in seen.read_text()
    assert process.living(marker_of(relay.pk)) == []


def test_a_command_that_takes_too_long_is_false_with_its_evidence(course: Start) -> None:
    relay = course(**player(ENDS), done='cmd:"sleep 60"', sets=["tool_limit=1"])
    begun = time.monotonic()
    relay.step()
    assert time.monotonic() - begun < 30
    result = CommandResult.objects.filter(relay=relay.pk).first()
    assert result is not None and not result.passed and result.exit_code is None
    assert relay.legs[0].reason == "RELAY_ROTATED"


def test_a_command_for_the_present_tip_is_waited_for_when_the_agent_ends(course: Start) -> None:
    # the first answer is for the start commit; the goal comes true with the leg's own commit
    relay = course(
        **player([*turn(), *commit("goal.txt"), {"kind": "turn_started"}, *boundary(final=True)]),
        done='cmd:"test -f goal.txt"',
    )
    relay.step()
    assert relay.legs[0].reason == "RELAY_GOAL_DONE"
    assert {result.tip for result in CommandResult.objects.all()} == {relay.legs[0].end_sha, relay.relay.start_sha}


@pytest.mark.django_db
@pytest.mark.parametrize(("tip", "watch", "runs"), [("a", False, ()), ("b", False, (60,)), ("a", True, (60,))])
def test_beside_a_leg_a_command_runs_at_most_every_done_check_every(
    monkeypatch: pytest.MonkeyPatch, tip: str, watch: bool, runs: tuple[int, ...]
) -> None:
    """For a new tip; a watch's command may change its answer though the tip stands still."""
    relay = make_relay(done_when='cmd:"true"', watch=watch)
    asks = Commands(relay, policy_of(relay))
    asked: list[str] = []
    monkeypatch.setattr(asks, "_start", lambda command, at: asked.append(at))
    now = timezone.now()
    asks.want(tip, now)
    assert asked == [tip], "none is known yet"
    CommandResult.objects.create(relay=relay, command="true", tip="a", passed=False, at=now)
    for seconds in (1, 59, 60):
        asked.clear()
        asks.want(tip, now + timedelta(seconds=seconds))
        assert asked == [tip] * (seconds in runs), seconds


def test_a_green_command_that_fails_holds_the_leg(course: Start) -> None:
    relay = course(
        **player(
            [
                *turn(700),
                *boundary("Go on."),
                {"do": "sleep", "seconds": 0.6},
                *turn(700),
                *boundary("Go on."),
                loop(*turn(950), *boundary("Go on.")),
            ]
        ),
        done="file:goal.txt",
        sets=["green=false", "window_tokens=1000"],
    )
    relay.step()
    (leg,) = relay.legs
    assert relay.holds(0)[0] == "NOT_AT_SAFE_POINT", "not known yet is not green"
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "ceiling", "NOT_AT_SAFE_POINT")
    assert CommandResult.objects.get(relay=relay.pk, command="false").tip == leg.end_sha


def test_a_green_command_that_passes_lets_it_rotate_and_is_kept_for_its_tip(course: Start) -> None:
    relay = course(
        **player([loop(*turn(700), *boundary("Go on."), {"do": "sleep", "seconds": 0.4})]),
        done="file:goal.txt",
        sets=["green=true", "window_tokens=1000", "min_progress=0"],
    )
    relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED"
    relay.step()
    assert CommandResult.objects.filter(relay=relay.pk, command="true").count() == 1, "the tip is the same"


@pytest.mark.slow
def test_no_issue_file_is_not_done(course: Start, tmp_path: Any) -> None:
    relay = course(repo=make_repo(tmp_path / "bare"), **player(ENDS))
    relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED"
