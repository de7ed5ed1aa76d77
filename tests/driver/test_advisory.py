"""rules.md, Advisory before enforcement: what shadow and advise record, that they change nothing, and how it is scored.

"Shadow and advise never hold, stop or rotate, not at the ceiling either (advise answers `wind_down <HOLD>`, shadow
`go`); ladder, region, envelope, containment and a person's park and stop always act."
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relays.actions import park as parking
from relays.actions import resume as resuming
from relays.actions.base import Refused
from relays.core import baton as batons
from relays.driver import would
from relays.driver.claim import Claim, LostClaim
from relays.models import Boundary, DriverClaim, LedgerRow, Relay, RelayStatus, ResetTransaction, WouldBe
from relays.reports import advisory, status
from tests.builders import git
from tests.driver.course import boundary, commit, loop, operator, player, start_relay, turn

Start = Callable[..., Any]

SMALL = ["window_tokens=1000"]
DIRTY = [{"do": "write", "path": "half-$LEG.txt", "text": "x"}]
CLEAN = [{"do": "commit", "message": "The other half"}]
FULL = [*turn(700), *boundary("Go on.")]
END = [*turn(700), *boundary("Go on.", final=True)]
#: arms at a safe point, then is in the middle of something, then at a safe point again, then ends
WATCHED = [*commit("a-$LEG.txt"), *FULL, *FULL, *DIRTY, *FULL, *CLEAN, *FULL, *END]


def would_be(relay: Any) -> list[WouldBe]:
    return list(WouldBe.objects.filter(leg__relay=relay.pk).select_related("boundary").order_by("id"))


def score(relay: Any) -> dict[str, Any]:
    found = status.status(relay.pk)["advisory"]
    assert isinstance(found, dict)
    return found


def resume(relay: Any) -> None:
    resuming.resume(operator(), relay.pk, "Go on.")


def test_shadow_records_all_that_enforce_would_do_and_changes_nothing(course: Start) -> None:
    relay = course(**player(WATCHED), sets=SMALL, mode="shadow")
    relay.drive()

    assert relay.answers(0) == ["go", "go", "go", "go", "stop"], "at its own end it is let go"
    (leg,) = relay.legs
    assert (leg.armed, leg.reason, leg.cause, leg.advisory) == (True, "RELAY_ROTATED", "", True)
    said = [boundary.decision["would"] for boundary in relay.boundaries(0)]
    assert [one.get("end") for one in said] == [True, True, False, True, None]
    assert said[2] == {"step": "wind_down", "hold": "TREE_DIRTY_UNPARKED", "end": False, "cause": ""}

    # the first of each streak of equal ends, with the baton that it would have handed over
    first, second = would_be(relay)
    assert [first.boundary.number, second.boundary.number] == [0, 3]
    assert [one.reason for one in (first, second)] == ["RELAY_ROTATED"] * 2
    for one in (first, second):
        baton = batons.read(one.text).baton
        assert baton is not None and batons.digest(baton) == one.digest
        batons.check_new(baton)
        assert (baton.relay_id, baton.leg, baton.next_action) == (relay.pk, 0, "Go on.")
        assert baton.cursor.start_sha == one.boundary.decision["tip"]
        assert baton.tombstone.reason == "RELAY_ROTATED"
    shas = [json.loads(one.text)["progress_cursor"]["start_sha"] for one in (first, second)]
    assert shas == git(relay.worktree, "rev-list", "--reverse", f"{leg.cursor_sha}..HEAD").split()

    # nothing was changed: no successor, episode, ledger row or ref; one baton, that of the real end
    assert relay.relay.status == RelayStatus.PARKED and relay.open_leg is None and relay.gates == []
    assert relay.relay.status_why == "RELAY_ROTATED in mode shadow: an operator resumes or stops the relay"
    assert not LedgerRow.objects.filter(relay=relay.pk).exists() and not ResetTransaction.objects.exists()
    assert git(relay.worktree, "for-each-ref", "refs/relay") == ""
    assert relay.baton.tombstone.at_sha == shas[1]
    assert score(relay) == {
        "mode": "shadow",
        "said": "would have rotated 3 times: 0 right, 0 wrong, 3 not yet",
        "rotated": {"times": 3, "right": 0, "wrong": 0, "not_yet": 3},
        "done": {"times": 0, "right": 0, "wrong": 0, "not_yet": 0},
        "asked": {"times": 0, "right": 0, "wrong": 0, "not_yet": 0},
        "legs": 1,
        "armed": 1,
        "holds": {"TREE_DIRTY_UNPARKED": 1},
    }


def test_an_operator_resumes_it_and_the_following_leg_says_which_rotation_was_right(course: Start) -> None:
    amended = [{"do": "git", "args": ["commit", "-q", "--amend", "-m", "Better words"]}]
    first = [*commit("a.txt"), *FULL, *amended, *DIRTY, *FULL, *CLEAN, *FULL, *END]
    relay = course(**player({"0": first, "*": [*turn(), *boundary("Go on.", final=True)]}), sets=SMALL, mode="shadow")
    relay.drive()
    assert score(relay)["rotated"] == {"times": 3, "right": 0, "wrong": 0, "not_yet": 3}
    resume(relay)
    relay.drive()
    assert [leg.number for leg in relay.legs] == [0, 1]
    # the commit that the first one pointed at is not on the branch any more
    early, late = would_be(relay)
    assert early.dangling and early.judged_at is not None
    assert (late.dangling, late.unknown) == (0, 0) and late.verified
    # right: the late one and the end of leg 0; leg 1 has no following leg yet
    assert score(relay)["rotated"] == {"times": 4, "right": 2, "wrong": 1, "not_yet": 1}
    assert score(relay)["said"] == "would have rotated 4 times: 2 right, 1 wrong, 1 not yet"


@pytest.mark.slow
def test_a_store_that_does_not_answer_proves_neither_and_is_asked_again(
    course: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = course(**player(WATCHED), sets=SMALL, mode="shadow")
    relay.drive()
    from django.utils import timezone

    from relays.core.pointers import Answer, Verdict
    from relays.driver import reload
    from relays.stores.bundle import Stores

    stores = reload.stores_for(relay.relay)
    fence = DriverClaim.objects.get(relay=relay.pk).fence
    claim, late = Claim(relay.pk, fence), Claim(relay.pk, fence - 1)
    with pytest.raises(LostClaim):
        would.judge(relay.relay, stores, late, timezone.now())
    assert {one.judged_at for one in would_be(relay)} == {None}, "a driver with an old fence writes nothing"
    assert would.judge(relay.relay, None, claim, timezone.now()) == 0, "no store, no verdict"
    with monkeypatch.context() as silent:
        silent.setattr(Stores, "resolve", lambda _, asked: {one: Answer(Verdict.UNKNOWN, "no answer") for one in asked})
        assert would.judge(relay.relay, stores, claim, timezone.now()) == 2
    assert score(relay)["rotated"]["not_yet"] == 3
    assert would.judge(relay.relay, stores, claim, timezone.now()) == 2
    assert score(relay)["rotated"] == {"times": 3, "right": 2, "wrong": 0, "not_yet": 1}
    assert would.judge(relay.relay, stores, claim, timezone.now()) == 0, "what is judged stays judged"


def test_advise_tells_the_agent_what_enforce_would_do_and_lets_it_go_on(course: Start) -> None:
    steps = [*commit("a.txt"), *turn(300), *boundary("Go on."), *FULL, *DIRTY, *FULL, *turn(950), *boundary("Go on.")]
    relay = course(**player([*steps, *CLEAN, *turn(960), *boundary("Go on."), *END]), sets=SMALL, mode="advise")
    relay.drive()
    held = "wind_down TREE_DIRTY_UNPARKED"
    assert relay.answers(0) == ["go", "wind_down", held, held, "wind_down", "stop"], "not at the ceiling either"
    (leg,) = relay.legs
    assert (leg.reason, leg.advisory, leg.peak_tokens) == ("RELAY_ROTATED", True, 960)
    assert relay.relay.status == RelayStatus.PARKED and relay.gates == [] and relay.open_leg is None
    rotated, asked, again = would_be(relay)
    assert (asked.reason, asked.cause, asked.hold) == ("RELAY_PARKED_UNSAFE", "ceiling", "TREE_DIRTY_UNPARKED")
    assert (rotated.reason, again.reason) == ("RELAY_ROTATED", "RELAY_ROTATED")
    assert score(relay)["asked"] == {"times": 1, "right": 0, "wrong": 1, "not_yet": 0}, "a safe point came after all"


def test_asking_a_person_was_right_where_no_safe_point_came(course: Start) -> None:
    past = [step for used in (950, 960, 970) for step in (*turn(used), *boundary("Go on."))]
    relay = course(**player([*DIRTY, *past, {"do": "exit", "code": 0}]), sets=SMALL, mode="shadow")
    relay.drive()
    (leg,) = relay.legs
    assert (leg.reason, leg.advisory) == ("RELAY_PARKED_UNSAFE", True) and relay.gates == []
    assert len(would_be(relay)) == 1, "boundary after boundary it is one end"
    assert score(relay)["said"] == "would have asked a person once: 1 right, 0 wrong, 0 not yet"


@pytest.mark.slow
def test_what_is_kept_of_one_leg_is_bounded(course: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(would, "PER_LEG", 2)
    turns = [step for _ in range(4) for step in (*FULL, *DIRTY, *FULL, *CLEAN)]
    relay = course(**player([*turns, *END]), sets=SMALL, mode="shadow")
    relay.drive()
    assert len(would_be(relay)) == 2


@pytest.mark.slow
def test_in_shadow_nobody_owes_a_statement_that_was_never_asked_for(course: Start) -> None:
    """rules.md, Externalize gate: "must have said `externalized` … or gets `wind_down`", which shadow never answers."""
    unsaid = boundary("Go on.", said=False)
    # at the mark, and at the ceiling: in enforce the first of them would have been the only one
    silent = [*commit("a.txt"), *turn(700), *unsaid, *turn(950), *unsaid, *turn(700)]
    script = [*silent, *boundary("Go on.", final=True, said=False)]
    watched = course(**player(script), sets=SMALL, mode="shadow")
    watched.drive()
    assert [one.reason for one in would_be(watched)] == ["RELAY_ROTATED"] and watched.holds(0) == ["", "", ""]
    assert watched.legs[0].reason == "RELAY_ROTATED"
    advised = course(**player(script), sets=SMALL, mode="advise")
    advised.step()
    assert advised.answers(0)[0] == "wind_down RELAY_NOT_EXTERNALIZED", "which advise did ask for"


@pytest.mark.slow
def test_the_green_command_is_asked_beside_a_watched_leg_too(course: Start) -> None:
    wait = {"do": "sleep", "seconds": 0.4}
    steps = [*commit("a.txt"), *[step for _ in range(8) for step in (*FULL, wait)], *END]
    relay = course(**player(steps), sets=[*SMALL, "green=test -f a.txt"], mode="shadow")
    relay.drive()
    held, *_ = relay.boundaries(0)
    assert held.hold == "NOT_AT_SAFE_POINT" and set(relay.answers(0)) == {"go", "stop"}
    (one,) = would_be(relay)
    assert one.reason == "RELAY_ROTATED" and one.boundary.number > 0, "once its answer is known"


@pytest.mark.slow
def test_a_goal_that_a_watched_leg_reached_ends_the_relay_only_when_it_is_resumed(course: Start) -> None:
    """ "When the agent ends, the leg closes with enforce's reason marked advisory; the relay parks"."""
    steps = [*turn(), *boundary("Go on."), *commit("a.txt"), *turn(), *boundary("Go on."), *turn(), *boundary("Go on.")]
    relay = course(**player([*steps, *turn(), *boundary("Go on.", final=True)]), done="file:a.txt", mode="shadow")
    relay.drive()
    assert relay.answers(0) == ["go", "go", "go", "stop"]
    (one,) = would_be(relay)
    assert (one.reason, one.boundary.number) == ("RELAY_GOAL_DONE", 1), "unarmed: done comes before any rotation"
    (leg,) = relay.legs
    assert (leg.reason, leg.advisory, relay.relay.status) == ("RELAY_GOAL_DONE", True, RelayStatus.PARKED)
    resume(relay)
    relay.step()
    assert relay.relay.status == RelayStatus.DONE and len(relay.legs) == 1
    assert score(relay)["done"] == {"times": 2, "right": 2, "wrong": 0, "not_yet": 0}


# --- what acts in every mode


@pytest.mark.parametrize("mode", ["shadow", pytest.param("advise", marks=pytest.mark.slow)])
def test_a_spent_envelope_drains_a_watched_leg_and_asks(course: Start, mode: str) -> None:
    relay = course(**player([loop(*turn(950), *boundary("Go on."))]), sets=[*SMALL, "envelope.turns=3"], mode=mode)
    relay.drive()
    (leg,) = relay.legs
    assert (leg.reason, leg.drain_reason, leg.advisory) == ("RELAY_ROTATED", "envelope", False)
    assert relay.waiting == ["BUDGET_EXHAUSTED"] and relay.relay.status == RelayStatus.PARKED


def test_a_persons_park_drains_a_watched_leg_to_its_safe_point_past_the_ceiling(
    course: Start, meanwhile: Callable[..., None]
) -> None:
    steps = [*commit("a.txt"), *DIRTY, *turn(950), *boundary("Go on."), *turn(960), *boundary("Go on.")]
    relay = course(**player([*steps, *CLEAN, *turn(970), *boundary("Go on."), *FULL]), sets=SMALL, mode="shadow")
    meanwhile(1, lambda: parking.park(operator(), relay.pk))
    relay.drive()
    assert relay.answers(0) == ["go", "wind_down TREE_DIRTY_UNPARKED", "stop"]
    (leg,) = relay.legs
    assert (leg.reason, leg.drain_reason, leg.advisory) == ("RELAY_ROTATED", "park", False)
    assert relay.relay.status == RelayStatus.PARKED and relay.gates == [] and relay.open_leg is None


@pytest.mark.slow
def test_park_now_ends_a_watched_leg_at_once_and_asks(course: Start, meanwhile: Callable[..., None]) -> None:
    relay = course(**player([*DIRTY, loop(*turn(700), *boundary("Go on."))]), sets=SMALL, mode="advise")
    meanwhile(2, lambda: parking.park(operator(), relay.pk, now=True))
    relay.drive()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.advisory) == ("RELAY_PARKED_UNSAFE", "park_now", False)
    assert relay.waiting == ["RELAY_PARKED_UNSAFE"]


@pytest.mark.slow
def test_the_ladder_and_the_region_act_in_shadow(course: Start) -> None:
    relay = course(**player([*commit("a-$LEG.txt"), *END]), sets=SMALL, mode="shadow")
    with pytest.raises(Refused, match="COLLISION_RISK"):
        start_relay(Path(relay.relay.repo), **player(END), mode="shadow")
    relay.drive()
    git(relay.worktree, "reset", "-q", "--hard", relay.relay.start_sha)
    resume(relay)
    relay.drive()
    assert relay.reload.outcome == "stale" and relay.reload.rebuilt
    assert relay.legs[1].cursor_sha == relay.relay.start_sha


# --- the three modes beside each other


@pytest.mark.slow
def test_one_course_in_three_modes(course: Start) -> None:
    """The same agent: enforce stops it at its first safe point, the other two say that they would have."""
    courses = {mode: course(**player(WATCHED), sets=SMALL, mode=mode) for mode in ("enforce", "advise", "shadow")}
    for relay in courses.values():
        relay.step()
    enforced, advised, watched = courses.values()
    assert (enforced.answers(0), enforced.legs[0].advisory) == (["stop"], False)
    assert enforced.relay.status == RelayStatus.READY and enforced.open_leg is not None
    assert advised.answers(0) == ["wind_down", "wind_down", "wind_down TREE_DIRTY_UNPARKED", "wind_down", "stop"]
    assert watched.answers(0) == ["go", "go", "go", "go", "stop"]
    for relay in (advised, watched):
        made = json.loads(would_be(relay)[0].text)
        real = json.loads(enforced.relay.batons.get().text)
        for key in ("done_when", "next_action", "open_questions", "do_not_rederive", "leg", "schema"):
            assert made[key] == real[key], "the baton that enforce wrote, but for its names"
        assert made["tombstone"]["reason"] == real["tombstone"]["reason"]
        assert len(made["artifacts"]) == len(real["artifacts"]) == 1
    assert not WouldBe.objects.filter(leg__relay=enforced.pk).exists()
    assert status.status(enforced.pk)["advisory"] is None, "nothing of it was only advised"
    assert all(one.decision["would"] == {} for one in Boundary.objects.filter(leg__relay=enforced.pk))


@pytest.mark.slow
def test_who_switched_on_enforcement_still_sees_the_score(course: Start) -> None:
    relay = course(**player(WATCHED), sets=SMALL, mode="shadow")
    relay.drive()
    Relay.objects.filter(pk=relay.pk).update(mode="enforce")
    found = advisory.advice(relay.relay)
    assert found is not None and found.mode == "enforce" and found.said.startswith("would have rotated 3 times")
