"""rules.md, Advisory before enforcement: whose end is only advice, and how a recorded decision is scored later."""

import pytest

from relays.core import advisory
from relays.core.advisory import Act, Outcome, Tally
from relays.core.vocabulary import Cause, Mode, Reason

ACTING = {Cause.PARK_NOW, Cause.STOP, Cause.ENVELOPE, Cause.HOST_LOST}


@pytest.mark.parametrize("cause", [None, *Cause])
def test_a_watched_leg_closes_as_advice_unless_what_always_acts_ended_it(cause: Cause | None) -> None:
    """ "ladder, region, envelope, containment and a person's park and stop always act" """
    for mode in Mode:
        advised = advisory.closes_as_advice(mode, draining="", cause=cause)
        assert advised == (mode is not Mode.ENFORCE and cause not in ACTING)
        for draining in ("park", "stop", "envelope", "shutdown"):
            assert not advisory.closes_as_advice(mode, draining=draining, cause=cause)


def test_every_reason_that_ends_a_leg_has_one_act() -> None:
    assert {reason: advisory.act_of(reason) for reason in Reason} == {
        Reason.ARMED: None,
        Reason.ROTATED: Act.ROTATED,
        Reason.GOAL_DONE: Act.DONE,
        Reason.NOT_EXTERNALIZED: None,
        Reason.PARKED_UNSAFE: Act.ASKED,
        Reason.BATON_STALE: None,
        Reason.NO_PROGRESS: Act.ASKED,
        Reason.IDLE_PARKED: Act.DONE,
    }
    assert advisory.act_of("A_WORD_FROM_ELSEWHERE") is None


@pytest.mark.parametrize(
    ("counts", "outcome"),
    [
        ((None, None, None), Outcome.NOT_YET),
        ((4, 0, 0), Outcome.RIGHT),
        ((4, 1, 0), Outcome.WRONG),
        ((4, 1, 3), Outcome.WRONG),
        ((4, 0, 1), Outcome.NOT_YET),
        ((0, 0, 0), Outcome.NOT_YET),
    ],
)
def test_a_rotation_is_judged_by_its_batons_fidelity(
    counts: tuple[int | None, int | None, int | None], outcome: Outcome
) -> None:
    """ "by later evidence (baton fidelity at the following leg or session)"; unknown is never verified."""
    assert advisory.handed_over(*counts) is outcome


@pytest.mark.parametrize(
    ("ended", "came_free", "outcome"),
    [
        ("", False, Outcome.NOT_YET),
        ("", True, Outcome.WRONG),
        ("RELAY_PARKED_UNSAFE", False, Outcome.RIGHT),
        ("RELAY_PARKED_UNSAFE", True, Outcome.WRONG),
        ("RELAY_ROTATED", False, Outcome.WRONG),
        ("RELAY_GOAL_DONE", False, Outcome.WRONG),
    ],
)
def test_asking_for_want_of_a_safe_point_was_right_where_none_came(
    ended: str, came_free: bool, outcome: Outcome
) -> None:
    assert advisory.asked("RELAY_PARKED_UNSAFE", ended=ended, came_free=came_free, progress=3) is outcome


@pytest.mark.parametrize(
    ("ended", "progress", "outcome"),
    [
        ("", None, Outcome.NOT_YET),
        ("RELAY_ROTATED", None, Outcome.NOT_YET),
        ("RELAY_NO_PROGRESS", 0, Outcome.RIGHT),
        ("RELAY_ROTATED", 2, Outcome.WRONG),
    ],
)
def test_asking_after_empty_legs_was_right_where_this_one_stayed_empty(
    ended: str, progress: int | None, outcome: Outcome
) -> None:
    assert advisory.asked("RELAY_NO_PROGRESS", ended=ended, came_free=True, progress=progress) is outcome


def test_the_score_in_words_and_never_a_part_of_nothing() -> None:
    found = advisory.tally([Outcome.RIGHT] * 12 + [Outcome.WRONG, Outcome.NOT_YET])
    assert found == Tally(12, 1, 1) and found.text == "14 times: 12 right, 1 wrong, 1 not yet"
    assert found.as_mapping() == {"times": 14, "right": 12, "wrong": 1, "not_yet": 1}
    assert advisory.tally([Outcome.RIGHT]).text == "once: 1 right, 0 wrong, 0 not yet"
    assert advisory.tally([]).text == "not yet"
