"""The relay's envelope: what is left, what is spent, when to warn."""

import json
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.budget import (
    STOP_REASONS,
    Spent,
    drains,
    exhausted,
    forbids_leg,
    left,
    limit_example,
    newly_low,
    rearm,
    spend_unknown,
)
from relays.core.policy import Envelope
from relays.core.vocabulary import StopReason

EVERY_LIMIT = Envelope(
    legs=10, spend=Decimal("5.00"), wall=timedelta(hours=1), turns=100, output_tokens=1000, queries=2
)
HALF = Spent(50, 500, Decimal("2.50"), 0, timedelta(minutes=30), 5, 1)


def by_axis(envelope: Envelope, spent: Spent) -> dict[str, object]:
    return {axis.axis: axis.left for axis in left(envelope, spent)}


def test_what_is_left_keeps_its_unit() -> None:
    assert by_axis(EVERY_LIMIT, HALF) == {
        "spend": Decimal("2.50"),
        "turns": 50,
        "output_tokens": 500,
        "wall": timedelta(minutes=30),
        "legs": 5,
        "queries": 1,
    }
    assert exhausted(EVERY_LIMIT, HALF) == ()


def test_no_limit_is_none_and_nothing_left_is_nought() -> None:
    assert set(by_axis(Envelope(), HALF).values()) == {None}
    over = Spent(101, 0, Decimal(0), 0, timedelta(0), 0, 0)
    assert by_axis(EVERY_LIMIT, over)["turns"] == 0
    assert exhausted(EVERY_LIMIT, over) == (StopReason.TURNS,)


def test_a_limit_of_nought_is_spent_and_not_no_budget() -> None:
    nought = Envelope(legs=0, spend=Decimal(0), wall=timedelta(0), turns=0, output_tokens=0, queries=0)
    assert exhausted(nought, Spent()) == tuple(STOP_REASONS.values())
    assert all(axis.left is not None and not axis.left for axis in left(nought, Spent()))


def test_spend_wins_when_several_end_at_once() -> None:
    gone = Spent(100, 1000, Decimal(5), 0, timedelta(hours=1), 10, 2)
    assert exhausted(EVERY_LIMIT, gone)[0] is StopReason.SPEND
    assert exhausted(EVERY_LIMIT, gone)[1:] == (
        StopReason.TURNS,
        StopReason.TOKENS,
        StopReason.TIME,
        StopReason.LEGS,
        StopReason.QUERIES,
    )


def test_the_last_leg_of_the_budget_runs_and_the_next_one_is_forbidden() -> None:
    last = Spent(legs=10)
    assert drains(EVERY_LIMIT, last) == ()
    assert forbids_leg(EVERY_LIMIT, last) == (StopReason.LEGS,)
    assert drains(EVERY_LIMIT, Spent(legs=11)) == (StopReason.LEGS,)


def test_spent_queries_refuse_the_question_and_stop_no_leg() -> None:
    asked = Spent(queries=2)
    assert exhausted(EVERY_LIMIT, asked) == (StopReason.QUERIES,)
    assert drains(EVERY_LIMIT, asked) == ()
    assert forbids_leg(EVERY_LIMIT, asked) == ()


def test_a_call_without_a_price_makes_money_unknown_and_never_nought() -> None:
    unpriced = Spent(spend=Decimal("1.00"), unpriced_calls=1)
    spend = left(EVERY_LIMIT, unpriced)[0]
    assert (spend.axis, spend.left, spend.unknown) == ("spend", None, True)
    assert spend_unknown(EVERY_LIMIT, unpriced)
    assert not spend_unknown(Envelope(), unpriced)
    assert left(Envelope(), unpriced)[0].unknown


def test_what_is_priced_may_already_be_too_much() -> None:
    over = Spent(spend=Decimal("5.00"), unpriced_calls=3)
    assert exhausted(EVERY_LIMIT, over) == (StopReason.SPEND,)
    assert left(EVERY_LIMIT, over)[0].left == Decimal(0)
    assert not spend_unknown(EVERY_LIMIT, over)


@pytest.mark.parametrize(("turns", "low"), [(80, False), (81, True), (100, True)])
def test_low_is_under_a_fifth(turns: int, low: bool) -> None:
    assert ("turns" in newly_low(EVERY_LIMIT, Spent(turns=turns), ())) is low


def test_one_warning_an_axis() -> None:
    spent = Spent(turns=90, wall=timedelta(minutes=50))
    assert newly_low(EVERY_LIMIT, spent, ()) == ("turns", "wall")
    assert newly_low(EVERY_LIMIT, spent, ("turns",)) == ("wall",)
    assert newly_low(EVERY_LIMIT, spent, ("turns", "wall")) == ()
    assert newly_low(Envelope(), spent, ()) == ()


def test_rearm_is_json_and_shows_the_remainder() -> None:
    record = json.loads(json.dumps(rearm(EVERY_LIMIT, HALF)))
    assert record["spend"] == {"limit": "5.00", "used": "2.50", "left": "2.50", "unknown": False}
    assert record["wall"] == {"limit": 3600.0, "used": 1800.0, "left": 1800.0, "unknown": False}
    assert rearm(Envelope(), HALF)["turns"] == {"limit": None, "used": 50, "left": None, "unknown": False}


amounts = st.integers(0, 1000)
spents = st.builds(
    Spent,
    turns=amounts,
    output_tokens=amounts,
    spend=st.decimals(0, 10, places=4),
    unpriced_calls=st.integers(0, 2),
    wall=amounts.map(lambda minutes: timedelta(minutes=minutes)),
    legs=amounts,
    queries=amounts,
)
envelopes = st.builds(
    Envelope,
    legs=st.none() | amounts,
    spend=st.none() | st.decimals(0, 10, places=4),
    wall=st.none() | amounts.map(lambda minutes: timedelta(minutes=minutes)),
    turns=st.none() | amounts,
    output_tokens=st.none() | amounts,
    queries=st.none() | amounts,
)


@given(envelopes, spents, spents)
def test_a_spent_budget_stays_spent_whatever_comes_after(envelope: Envelope, spent: Spent, more: Spent) -> None:
    later = Spent(
        spent.turns + more.turns,
        spent.output_tokens + more.output_tokens,
        spent.spend + more.spend,
        spent.unpriced_calls + more.unpriced_calls,
        spent.wall + more.wall,
        spent.legs + more.legs,
        spent.queries + more.queries,
    )
    assert set(exhausted(envelope, spent)) <= set(exhausted(envelope, later))
    assert set(newly_low(envelope, spent, ())) <= set(newly_low(envelope, later, ()))


@given(envelopes, spents)
def test_spent_low_and_left_agree(envelope: Envelope, spent: Spent) -> None:
    reasons = exhausted(envelope, spent)
    for axis in left(envelope, spent):
        assert axis.spent == (STOP_REASONS[axis.axis] in reasons)
        if axis.spent:
            assert axis.low
            assert axis.left is not None
            assert not axis.left
        elif axis.left is not None:
            assert axis.left  # something is left exactly as long as the axis is not spent


@pytest.mark.parametrize("axis", STOP_REASONS)
def test_the_example_of_a_new_limit_is_of_the_spent_axis_and_is_one(axis: str) -> None:
    key, _, value = limit_example([STOP_REASONS[axis], "tombstone of leg 1: RELAY_ROTATED"]).partition("=")
    assert key == f"envelope.{axis}"
    assert getattr(Envelope.model_validate({axis: value}), axis) is not None
    both = limit_example([StopReason.LEGS, StopReason.TURNS])
    assert both == "envelope.turns=400 envelope.legs=40"
    assert limit_example(["spend unknown: 4 calls have no price"]) == "envelope.turns=400"
