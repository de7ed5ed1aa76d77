"""rules.md, Arm and fire, and No progress and watch: a relay whose trigger fires again and again does not spin.

Mission: "Drive the trigger to fire repeatedly and assert hysteresis + RELAY_NO_PROGRESS stop the spin."
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from relays.driver import budgets, successor
from relays.models import Leg, Relay, RelayStatus, ResetTransaction
from tests.driver.course import boundary, commit, player, turn
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.slow

Start = Callable[..., Any]

SMALL = ["window_tokens=1000"]
#: over the mark at every boundary, and then so full that one more call could pass the ceiling
FIRES = [step for used in (700, 780, 850) for step in (*turn(used), *boundary("Go on."))]


def test_a_trigger_that_fires_again_and_again_ends_with_a_person(course: Start) -> None:
    relay = course(**player(FIRES), sets=SMALL)
    relay.drive()
    # the first arm is free; from then on nothing arms without progress, and a leg works on until its ceiling
    assert relay.answers(0) == ["stop"] and relay.legs[0].armed
    for number in (1, 2):
        assert relay.holds(number)[:2] == ["HYSTERESIS", "HYSTERESIS"]
        assert relay.answers(number) == ["go", "go", "stop"]
        assert not relay.legs[number].armed
    assert [leg.reason for leg in relay.legs] == ["RELAY_ROTATED", "RELAY_ROTATED", "RELAY_NO_PROGRESS"]
    assert [leg.cause for leg in relay.legs] == ["", "", ""]
    assert all(leg.peak_tokens <= leg.ceiling_tokens for leg in relay.legs)
    # it asks, and no leg follows by itself
    assert relay.relay.status == RelayStatus.PARKED and relay.open_leg is None
    assert relay.waiting == ["RELAY_NO_PROGRESS"] and relay.relay.empty_run == 3
    assert any("3 of 3" in item for item in relay.gates[0].items)


def test_a_person_restarts_hysteresis_and_the_run_and_the_spin_ends_again(course: Start) -> None:
    """rules.md, Park, approve, resume, stop: "Resume restarts hysteresis and the empty run, not the cap"."""
    relay = course(**player(FIRES), sets=[*SMALL, "no_progress_legs=2"])
    relay.drive()
    assert [leg.armed for leg in relay.legs] == [True, False] and relay.waiting == ["RELAY_NO_PROGRESS"]
    relay.approve("RELAY_NO_PROGRESS")
    assert (relay.relay.empty_run, relay.relay.armed_legs) == (0, 0)
    relay.drive()
    assert [leg.armed for leg in relay.legs] == [True, False, True, False], "the first arm after it is free again"
    assert relay.legs[-1].reason == "RELAY_NO_PROGRESS" and relay.waiting == ["RELAY_NO_PROGRESS"]


def test_progress_lets_it_arm_again_and_ends_the_run(course: Start) -> None:
    works = {"0": FIRES, "1": [*turn(700), *boundary("Go on."), *commit("a.txt"), *FIRES], "*": FIRES}
    relay = course(**player(works), sets=[*SMALL, "no_progress_legs=3"])
    relay.drive()
    assert [leg.progress for leg in relay.legs] == [0, 1, 0, 0, 0]
    assert [leg.armed for leg in relay.legs] == [True, True, False, False, False]
    assert relay.legs[-1].reason == "RELAY_NO_PROGRESS"


def test_a_capped_leg_that_meets_its_ceiling_closes_as_judged_and_the_relay_waits(course: Start) -> None:
    """ "Where it cannot (ceiling, agent ended) it closes as judged and the relay is `waiting`"."""
    works = [*commit("a-$LEG.txt"), *turn(700), *boundary("Go on."), *turn(850), *boundary("Go on.")]
    relay = course(**player(works), sets=[*SMALL, "rotations_per_hour=1"])
    relay.drive()
    assert [leg.reason for leg in relay.legs] == ["RELAY_ROTATED"] * 2
    assert relay.answers(1) == ["wind_down ROTATION_CAPPED", "stop"]
    found = relay.relay
    assert found.status == RelayStatus.WAITING and found.status_why.startswith("ROTATION_CAPPED")
    assert found.next_at == relay.legs[1].started_at + timedelta(hours=1)
    assert relay.gates == [] and relay.open_leg is not None and relay.open_leg.number == 2


@pytest.mark.django_db
def test_an_entry_of_the_cap_is_the_start_of_a_successor_of_a_rotation_within_the_hour() -> None:
    """ "Sliding 3,600 s (an entry exactly 3,600 s old is outside) …; a refused rotation is not recorded"."""
    relay: Relay = make_relay(policy={"rotations_per_hour": 2})
    now = timezone.now()

    def follow(number: int, reason: str, started: timedelta | None) -> None:
        """A leg after one that ended for `reason`; started so long ago, or still waiting for its start."""
        old = Leg.objects.get(relay=relay, number=number - 1)
        Leg.objects.filter(pk=old.pk).update(state="ended", reason=reason, ended_at=now)
        at = None if started is None else now - started
        new = make_leg(relay, number, started_at=at, state="running" if at else "pending")
        ResetTransaction.objects.create(
            old_leg=old, new_leg=new, old_trace=old.trace, new_trace=new.trace, seed_digest="", contributors=[],
            omitted=[], rearm={}, at=now,
        )  # fmt: skip

    make_leg(relay, 0)
    policy = budgets.policy_of(relay)
    counts = []
    follows = [
        ("RELAY_ROTATED", timedelta(hours=1)),  # exactly an hour old
        ("RELAY_PARKED_UNSAFE", timedelta(minutes=50)),  # resumed by a person: no rotation
        ("RELAY_ROTATED", timedelta(minutes=40)),
        ("RELAY_ROTATED", timedelta(minutes=10)),
        ("RELAY_ROTATED", None),  # refused until now: it has not started
    ]
    for number, (reason, started) in enumerate(follows, 1):
        follow(number, reason, started)
        counts.append(successor.cap(relay, policy, now).used)
    assert counts == [0, 0, 1, 2, 2]
    found = successor.cap(relay, policy, now)
    assert (found.admit, found.next_at) == (False, now - timedelta(minutes=40) + timedelta(hours=1))
    assert successor.cap(relay, policy, now + timedelta(minutes=20)).admit
