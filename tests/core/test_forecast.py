"""How far the envelope reaches at the pace so far, and where nothing can be said."""

from datetime import timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from relays.core.budget import Spent
from relays.core.forecast import ENOUGH, reach, soonest
from relays.core.policy import Envelope

D = Decimal


def test_the_axis_that_ends_first_stands_at_the_front():
    envelope = Envelope(spend=D(10), turns=1_000, wall=timedelta(hours=10))
    found, why = reach(envelope, Spent(turns=100, spend=D(4), wall=timedelta(hours=1)), 4, 8)
    assert why == ""
    assert [one.axis for one in found] == ["spend", "turns", "wall"]
    spend, _, wall = found
    assert (spend.limit, spend.used, spend.per_leg) == (D(10), D(4), D(1))
    assert (spend.legs_left, spend.progress_left) == (6, 12)
    assert (wall.limit, wall.per_leg, wall.legs_left) == (D(36_000), D(900), 36)
    assert soonest(found) is spend


def test_what_is_spent_reaches_no_leg_more():
    found, _ = reach(Envelope(turns=10), Spent(turns=14), 3, 3)
    assert (found[0].legs_left, found[0].progress_left) == (0, 0)


def test_a_leg_is_not_lost_to_the_digits_of_a_pace():
    found, _ = reach(Envelope(turns=4), Spent(turns=2), 3, 0)  # two thirds a leg: three more make four
    assert found[0].legs_left == 3


def test_an_axis_that_legs_do_not_use_up_has_no_end():
    found, why = reach(Envelope(queries=5, turns=10), Spent(turns=3), 3, 0)
    assert why == ""
    assert [(one.axis, one.legs_left, one.progress_left) for one in found] == [
        ("turns", 7, None), ("queries", None, None),
    ]  # fmt: skip
    assert soonest(found[1:]) is None


def test_where_nothing_can_be_said_it_says_why():
    assert reach(Envelope(), Spent(turns=9), 9, 9) == ((), "no limit is set: the envelope has no axis")
    assert reach(Envelope(turns=10), Spent(turns=2), 2, 9) == ((), "legs that ended: 2 of 3")
    found, why = reach(Envelope(spend=D(10), turns=9), Spent(turns=3, spend=D(1), unpriced_calls=1), 3, 1)
    assert [one.axis for one in found] == ["turns"]
    assert why == "spend: some calls have no price"
    assert soonest(()) is None


@given(st.integers(ENOUGH, 50), st.integers(0, 10_000), st.integers(0, 10_000), st.integers(0, 500))
def test_at_that_pace_so_many_legs_more_fit_and_not_one_above(ended, limit, used, progress):
    found, _ = reach(Envelope(turns=limit), Spent(turns=used), ended, progress)
    (one,) = found
    if not used:
        assert one.legs_left is None
    elif used >= limit:
        assert one.legs_left == 0
    else:
        assert used * (ended + one.legs_left) <= limit * ended
        assert used * (ended + one.legs_left + 1) > limit * ended
