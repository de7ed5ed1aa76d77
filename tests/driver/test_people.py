"""Park, resume and stop: what a person's word does to a leg that runs."""

from collections.abc import Callable
from typing import Any

import pytest

from relays.actions import park, resume
from relays.driver import advance
from relays.models import LegState, RegionLease, Relay, RelayStatus
from tests.builders import git
from tests.driver.course import boundary, commit, loop, operator, player, turn

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
Start = Callable[..., Any]
At = Callable[..., None]

WORKS = [loop(*turn(), *boundary("Go on."))]


def test_a_park_drains_to_a_rotation_without_successor_or_episode(course: Start, meanwhile: At) -> None:
    relay = course(issues=3, args={"items": "3"})
    meanwhile(2, lambda: park.park(operator(), relay.pk))
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.drain_reason) == ("RELAY_ROTATED", "", "park")
    assert relay.answers(0)[-1] == "stop" and not leg.armed
    assert leg.progress_detail["issues"] == ["issue:#1"], "the item under way was finished, no further one begun"
    found = relay.relay
    assert (found.status, found.park) == (RelayStatus.PARKED, "")
    assert relay.open_leg is None and relay.gates == []
    assert relay.baton.tombstone.reason == "RELAY_ROTATED"


@pytest.mark.slow
def test_a_draining_leg_is_told_what_holds(course: Start, meanwhile: At) -> None:
    relay = course(issues=3, args={"items": "3"})
    meanwhile(1, lambda: park.park(operator(), relay.pk))
    relay.step()
    assert relay.answers(0)[1:-1] == ["wind_down TREE_DIRTY_UNPARKED"] * len(relay.answers(0)[1:-1])
    assert len(relay.answers(0)) > 2


def test_resume_starts_the_next_leg_from_the_baton(course: Start, meanwhile: At) -> None:
    relay = course(issues=2, args={"items": "3"})
    meanwhile(2, lambda: park.park(operator(), relay.pk))
    relay.step()
    assert advance.advance(relay.pk) == "nothing to do", "a relay that a person parked never resumes by itself"
    outcome = resume.resume(operator(), relay.pk)
    assert (outcome.status, outcome.leg, outcome.will) == ("ready", 1, "start")
    relay.step()
    assert [leg.number for leg in relay.legs] == [0, 1]
    assert relay.legs[1].parent_trace == relay.legs[0].trace
    assert relay.relay.status == RelayStatus.DONE


def test_a_park_that_is_withdrawn_while_it_drains_changes_nothing(course: Start, meanwhile: At) -> None:
    relay = course(issues=1, args={"items": "3"})
    meanwhile(1, lambda: park.park(operator(), relay.pk))
    meanwhile(2, lambda: resume.resume(operator(), relay.pk))
    relay.step()
    (leg,) = relay.legs
    assert leg.drain_reason == ""
    assert leg.reason == "RELAY_GOAL_DONE"
    assert relay.boundaries(0)[1].answer.startswith("wind_down"), "it was draining then"


def test_park_now_ends_in_mid_turn_and_asks(course: Start, meanwhile: At) -> None:
    relay = course(issues=3, args={"items": "3", "pace": "0.6"})
    meanwhile(2, lambda: park.park(operator(), relay.pk, now=True))
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause) == ("RELAY_PARKED_UNSAFE", "park_now")
    assert leg.hold in ("IN_FLIGHT_TOOL_CALL", "TREE_DIRTY_UNPARKED")
    assert leg.wip_sha == relay.baton.cursor.wip_tree != "", "the half-done item is kept"
    assert relay.waiting == ["RELAY_PARKED_UNSAFE"] and relay.open_leg is None
    assert relay.relay.park == ""
    relay.approve("RELAY_PARKED_UNSAFE")
    Relay.objects.filter(pk=relay.pk).update(agent_args={"items": "3"})  # quick again
    relay.step()
    assert relay.legs[1].wip_laid_back == "applied"
    assert [gate.state for gate in relay.gates] == ["confirmed"]


def test_stop_drains_and_ends_the_relay_for_good(course: Start, meanwhile: At) -> None:
    relay = course(**player(WORKS))
    meanwhile(2, lambda: park.stop(operator(), relay.pk))
    relay.step()
    (leg,) = relay.legs
    assert leg.reason == "RELAY_ROTATED"
    found = relay.relay
    assert (found.status, found.ended_reason, found.stop) == (RelayStatus.STOPPED, "STOPPED", "")
    assert relay.open_leg is None and relay.gates == [], "no successor, no episode"
    assert not RegionLease.objects.get(relay=relay.pk).held


def test_stop_now_without_a_safe_point_keeps_the_work_and_asks_nobody(course: Start, meanwhile: At) -> None:
    relay = course(issues=3, args={"items": "3", "pace": "0.6"})
    meanwhile(2, lambda: park.stop(operator(), relay.pk, now=True))
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause) == ("RELAY_PARKED_UNSAFE", "stop")
    assert git(relay.relay.git_dir, "rev-parse", f"refs/relay/wip/{relay.pk}/0") == leg.wip_sha
    assert relay.relay.status == RelayStatus.STOPPED and relay.gates == []


def test_stop_before_the_first_leg_leaves_none(course: Start) -> None:
    relay = course()
    park.stop(operator(), relay.pk)
    assert relay.relay.status == RelayStatus.STOPPED
    assert relay.open_leg is None and relay.relay.legs.get().state == LegState.VOID
    assert relay.relay.legs_used == 0


def test_park_now_in_a_leg_that_has_not_spoken_yet_is_carried_out(course: Start, monkeypatch: Any) -> None:
    relay = course(**player([{"do": "sleep", "seconds": 30}]))
    from relays.driver.supervise import Supervisor

    launch = Supervisor._launch

    def launched(self: Any, ready: Any) -> None:
        launch(self, ready)
        park.park(operator(), relay.pk, now=True)

    monkeypatch.setattr(Supervisor, "_launch", launched)
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause) == ("RELAY_PARKED_UNSAFE", "park_now")
    assert relay.relay.status == RelayStatus.PARKED


def test_a_spent_envelope_ends_a_drain_that_finds_no_safe_point(course: Start, meanwhile: At) -> None:
    relay = course(
        **player([*turn(), {"do": "write", "path": "half.txt", "text": "x"}, loop(*turn(), *boundary("Go on."))]),
        sets=["envelope.turns=5", "drain_turns=2"],
    )
    meanwhile(1, lambda: park.park(operator(), relay.pk))
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "envelope", "TREE_DIRTY_UNPARKED")
    assert leg.turns == 7


def test_resume_restarts_the_empty_run_and_hysteresis_but_not_the_cap(course: Start, meanwhile: At) -> None:
    relay = course(
        **player([*commit("work-$LEG.txt"), *turn(), *boundary("Go on.", final=True)]), sets=["rotations_per_hour=1"]
    )
    relay.step()
    relay.step()
    assert relay.relay.status == RelayStatus.WAITING, "one rotation is all that the hour admits"
    park.park(operator(), relay.pk)
    resume.resume(operator(), relay.pk)
    assert (relay.relay.empty_run, relay.relay.armed_legs) == (0, 0)
    said = relay.step()
    assert "ROTATION_CAPPED" in said
    assert relay.relay.status == RelayStatus.WAITING and len(relay.legs) == 2
    relay.time_passes()
    from datetime import timedelta

    from relays.models import Leg

    for leg in relay.legs:
        Leg.objects.filter(pk=leg.pk).update(started_at=leg.started_at - timedelta(hours=1))
    relay.step()
    assert len(relay.legs) == 3
