"""What arms a leg, what holds it back from arming, and the budgets that no reset refills."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from relays.actions.base import Usage
from relays.models import Leg, Relay, RelayStatus
from tests.driver.course import boundary, commit, loop, player, turn

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
Start = Callable[..., Any]

EMPTY = [*turn(), *boundary("Go on.", final=True)]
WORK = [*commit("work-$LEG.txt"), *turn(), *boundary("Go on.", final=True)]
SMALL = ["window_tokens=1000"]


# --- no progress


def test_three_empty_legs_in_a_row_ask_for_a_person(course: Start) -> None:
    relay = course(**player(EMPTY))
    relay.drive()
    assert [leg.reason for leg in relay.legs] == ["RELAY_ROTATED", "RELAY_ROTATED", "RELAY_NO_PROGRESS"]
    assert [leg.progress for leg in relay.legs] == [0, 0, 0]
    assert relay.relay.status == RelayStatus.PARKED and relay.waiting == ["RELAY_NO_PROGRESS"]
    assert relay.open_leg is None
    relay.approve("RELAY_NO_PROGRESS")
    assert relay.relay.empty_run == 0, "the run begins anew"


def test_progress_resets_the_run(course: Start) -> None:
    script = {"1": [{"do": "write", "path": "one.txt", "text": "1"}, {"do": "commit"}, *EMPTY], "*": EMPTY}
    relay = course(**player(script), sets=["no_progress_legs=2"])
    relay.drive()
    assert [leg.reason for leg in relay.legs] == ["RELAY_ROTATED"] * 3 + ["RELAY_NO_PROGRESS"]
    assert [leg.progress for leg in relay.legs] == [0, 1, 0, 0]


def test_empty_legs_at_the_ceiling_are_counted_too(course: Start) -> None:
    relay = course(**player([loop(*turn(950), *boundary("Go on."))]), sets=[*SMALL, "no_progress_legs=2"])
    relay.drive()
    assert [leg.reason for leg in relay.legs] == ["RELAY_ROTATED", "RELAY_NO_PROGRESS"]


def test_an_empty_commit_and_doing_and_undoing_are_no_progress(course: Start) -> None:
    undone = [
        {"do": "commit", "message": "Empty"},
        *commit("a.txt"),
        {"do": "git", "args": ["revert", "--no-edit", "HEAD"]},
        *EMPTY,
    ]
    relay = course(**player(undone), sets=["no_progress_legs=1"])
    relay.drive()
    (leg,) = relay.legs
    assert (leg.reason, leg.progress) == ("RELAY_NO_PROGRESS", 0)
    assert len(leg.progress_detail["empty"]) == 1 and len(leg.progress_detail["undone"]) == 2


def test_a_commit_outside_the_region_is_a_finding_and_no_progress(course: Start) -> None:
    relay = course(**player([*commit("elsewhere.txt"), *EMPTY]), region=["work/"], sets=["no_progress_legs=1"])
    relay.drive()
    (leg,) = relay.legs
    assert (leg.reason, leg.progress) == ("RELAY_NO_PROGRESS", 0)
    assert leg.progress_detail["outside"] == [leg.end_sha]


# --- arming


@pytest.mark.parametrize(
    ("sets", "axis"),
    [
        (["leg.turns=2"], "turns"),
        (["leg.output_tokens=25"], "output"),
        (["leg.wall=1s", "mark.wall=0.3"], "wall"),
        pytest.param(["leg.spend=1"], "spend", marks=pytest.mark.slow),
        pytest.param(["mark.context_tokens=1000"], "context", marks=pytest.mark.slow),
    ],
    ids=["turns", "output", "wall", "spend", "context"],
)
def test_each_limit_of_a_leg_arms_it(course: Start, sets: list[str], axis: str) -> None:
    step = [*turn(1000, 10, cost="0.5"), *boundary("Go on."), {"do": "sleep", "seconds": 0.2 * (axis == "wall")}]
    relay = course(**player([*commit("a.txt"), loop(*step)]), sets=sets)
    relay.step()
    (leg,) = relay.legs
    assert (leg.armed, leg.armed_axis, leg.reason) == (True, axis, "RELAY_ROTATED")
    assert relay.boundaries(0)[-1].axes[axis][0] > 0


@pytest.mark.slow
def test_a_leg_without_limits_arms_by_its_window_alone(course: Start) -> None:
    rising = [step for used in (300, 599, 600) for step in (*turn(used), *boundary("Go on."))]
    relay = course(**player(rising), sets=SMALL)
    relay.step()
    assert [boundary.armed for boundary in relay.boundaries(0)] == [False, False, True]
    assert (relay.legs[0].mark_tokens, relay.legs[0].ceiling_tokens) == (600, 900)


def test_the_first_arm_is_free_and_a_later_one_needs_progress(course: Start) -> None:
    arms = [*turn(700), *boundary("Go on.")]
    script = {
        "0": arms,
        "1": [*arms, *commit("one.txt"), *turn(700), *boundary("Go on.")],
        "2": [*arms, *turn(700), *boundary("Go on.", final=True)],
    }
    relay = course(**player(script), sets=SMALL)
    relay.step()
    assert relay.legs[0].armed, "without any progress"
    relay.step()
    assert relay.holds(1) == ["HYSTERESIS", ""] and relay.answers(1) == ["go", "stop"]
    assert relay.legs[1].armed, "with progress since leg 0 armed"
    relay.step()
    # leg 1 armed after its commit was counted, so leg 2 has none since; an end by itself is not held by it
    assert relay.holds(2) == ["HYSTERESIS", "HYSTERESIS"] or relay.holds(2) == ["HYSTERESIS", ""]
    assert (relay.legs[2].armed, relay.legs[2].reason) == (False, "RELAY_ROTATED")


@pytest.mark.slow
def test_the_ceiling_knows_no_hysteresis(course: Start) -> None:
    script = {"0": [*turn(700), *boundary("Go on.")], "*": [*turn(950), *boundary("Go on.")]}
    relay = course(**player(script), sets=SMALL)
    relay.step()
    relay.step()
    assert (relay.legs[1].reason, relay.legs[1].armed) == ("RELAY_ROTATED", False)


def test_the_ceiling_looks_one_call_ahead(course: Start) -> None:
    big = {"kind": "tool_ended", "id": "t$SEQ", "ok": True, "result_tokens": 350}
    relay = course(**player([*turn(500, 50), big, *boundary("Go on.")]), sets=SMALL)
    relay.step()
    (leg,) = relay.legs
    assert leg.peak_tokens == 500 and relay.answers(0) == ["stop"], "500 + 50 + 350 would reach 900"


def test_the_ceiling_waits_for_a_running_tool_and_then_stops(course: Start) -> None:
    script = [
        *turn(950),
        {"kind": "tool_started", "id": "t1", "name": "shell"},
        {"kind": "externalized"},
        {"do": "raw", "text": '{"kind": "boundary", "seq": 90, "next_actions": ["Go on."], "final": false}'},
        {"do": "sleep", "seconds": 0.5},
        {"do": "raw", "text": '{"kind": "tool_ended", "seq": 91, "id": "t1", "ok": true, "result_tokens": 1}'},
        {"do": "ask"},
    ]
    relay = course(**player(script), sets=SMALL)
    relay.step()
    (leg,) = relay.legs
    assert relay.holds(0) == ["IN_FLIGHT_TOOL_CALL"]
    assert leg.reason == "RELAY_ROTATED" and leg.exit_code == 0, "told to stop, it ended by itself"


def test_a_tool_that_outlasts_tool_limit_at_the_ceiling_counts_as_in_flight(course: Start) -> None:
    script = [
        *turn(950),
        {"kind": "tool_started", "id": "t1", "name": "shell"},
        *boundary("Go on."),
        {"do": "sleep", "seconds": 60},
    ]
    relay = course(**player(script), sets=[*SMALL, "tool_limit=1"])
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "ceiling", "IN_FLIGHT_TOOL_CALL")


# --- the cap


def test_the_cap_makes_the_relay_wait_until_the_oldest_rotation_is_an_hour_old(course: Start) -> None:
    relay = course(**player(WORK), sets=["rotations_per_hour=2"])
    relay.drive()
    found = relay.relay
    assert (found.status, len(relay.legs)) == (RelayStatus.WAITING, 3), "two successors started in this hour"
    assert found.status_why.startswith("ROTATION_CAPPED")
    assert found.next_at == relay.legs[1].started_at + timedelta(hours=1)
    assert relay.open_leg is not None and relay.open_leg.number == 3, "the successor stands ready"
    assert relay.gates == []
    Leg.objects.filter(pk=relay.legs[1].pk).update(started_at=relay.legs[1].started_at - timedelta(hours=1))
    relay.time_passes()
    relay.step()
    assert len(relay.legs) == 4


def test_below_the_ceiling_a_capped_leg_works_on(course: Start) -> None:
    steady = [*commit("work-$LEG.txt"), *turn(700), *boundary("Go on."), *turn(700), *boundary("Go on.", final=True)]
    relay = course(**player(steady), sets=[*SMALL, "rotations_per_hour=1"])
    relay.drive()
    assert [leg.number for leg in relay.legs] == [0, 1]
    assert relay.answers(1) == ["wind_down ROTATION_CAPPED", "stop"]
    assert relay.legs[1].reason == "RELAY_ROTATED", "it closes as judged"
    assert relay.relay.status == RelayStatus.WAITING


# --- the envelope


def test_a_spent_envelope_drains_and_asks_once(course: Start) -> None:
    relay = course(**player([loop(*turn(), *boundary("Go on."))]), sets=["envelope.turns=3"])
    relay.drive()
    (leg,) = relay.legs
    assert (leg.reason, leg.drain_reason, leg.turns) == ("RELAY_ROTATED", "envelope", 3)
    assert relay.relay.status == RelayStatus.PARKED and relay.open_leg is None
    (gate,) = relay.gates
    assert gate.token == "BUDGET_EXHAUSTED" and "BUDGET_TURNS_EXHAUSTED" in gate.items


def test_after_drain_turns_no_model_call_passes(course: Start) -> None:
    held = [{"do": "write", "path": "half.txt", "text": "x"}, loop(*turn(), *boundary("Go on."))]
    relay = course(**player(held), sets=["envelope.turns=2", "drain_turns=2"])
    relay.drive()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "envelope", "TREE_DIRTY_UNPARKED")
    assert leg.turns == 4
    assert relay.waiting == ["BUDGET_EXHAUSTED"], "one episode, whatever the tombstone says"
    assert any("RELAY_PARKED_UNSAFE" in item for item in relay.gates[0].items)


def test_a_spent_budget_stays_spent_until_a_person_gives_a_new_limit(course: Start) -> None:
    relay = course(**player(EMPTY), sets=["envelope.legs=2", "no_progress_legs=0"])
    relay.drive()
    assert len(relay.legs) == 2 and relay.waiting == ["BUDGET_EXHAUSTED"]
    with pytest.raises(Usage):
        relay.approve("BUDGET_EXHAUSTED")
    relay.approve("BUDGET_EXHAUSTED", sets=["envelope.legs=3"])
    relay.drive()
    assert len(relay.legs) == 3 and relay.waiting == ["BUDGET_EXHAUSTED"]
    assert relay.relay.legs_used == 3


@pytest.mark.slow
def test_what_is_left_crosses_the_rotation(course: Start) -> None:
    relay = course(**player(WORK), sets=["envelope.turns=2"])
    relay.drive()
    assert [leg.turns for leg in relay.legs] == [1, 1], "the second leg began with one turn left"
    assert relay.relay.turns_used == 2 and relay.waiting == ["BUDGET_EXHAUSTED"]


def test_spend_without_a_price_is_asked_once_and_never_counted_as_nothing(course: Start) -> None:
    relay = course(**player([loop(*turn(), *boundary("Go on."))]), sets=["envelope.spend=5"])
    relay.drive()
    (gate,) = relay.gates
    assert gate.token == "BUDGET_EXHAUSTED" and any("no price" in item for item in gate.items)


def test_wall_clock_is_debited_while_a_leg_runs(course: Start) -> None:
    relay = course(**player([*turn(), {"do": "sleep", "seconds": 1}, *boundary("Go on.", final=True)]))
    relay.step()
    used = relay.relay.wall_used
    leg = relay.legs[0]
    assert timedelta(seconds=1) <= used <= leg.ended_at - leg.started_at


# --- a policy that changes while a leg runs


def test_a_policy_that_is_changed_holds_from_the_next_boundary_on(
    course: Start, meanwhile: Callable[..., None]
) -> None:
    """rules.md, Policy is data: "changes only by a recorded decision, from the next boundary on"."""
    goes_on = [*turn(), *boundary("Go on.")]
    relay = course(**player([*commit("a.txt"), *goes_on * 4, *turn(), *boundary("Go on.", final=True)]))

    def decided() -> None:
        kept = relay.relay.policy
        Relay.objects.filter(pk=relay.pk).update(policy={**kept, "leg": {**kept["leg"], "turns": 1}})

    meanwhile(2, decided)
    relay.step()
    assert relay.answers(0) == ["go", "go", "stop"], "not for the boundary that was under way"
    assert (relay.legs[0].armed_axis, relay.legs[0].turns) == ("turns", 3)
