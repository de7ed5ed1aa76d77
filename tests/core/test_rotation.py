"""Arm and fire, hysteresis, the rotation cap and the ceiling."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.policy import Policy, build
from relays.core.rotation import (
    AxisUse,
    axis_uses,
    cap,
    ceiling_hit,
    ceiling_tokens,
    context_mark,
    crossed,
    mark_tokens,
    may_arm,
    verified_total,
)

START = datetime(2026, 1, 1, tzinfo=UTC)


def policy(**start: Any) -> Policy:
    return build({}, None, start)


def uses(
    given_policy: Policy,
    *,
    resident: int = 0,
    turns: int = 0,
    wall: timedelta = timedelta(0),
    spend: Decimal | None = Decimal(0),
    output: int = 0,
) -> tuple[AxisUse, ...]:
    return axis_uses(given_policy, 1000, resident, turns, wall, spend, output)


LIMITS = {"leg": {"turns": 10, "wall": "100s", "spend": "1.00", "output_tokens": 1000}}


def test_axes_come_in_priority_order_and_unset_ones_are_off() -> None:
    assert [use.axis for use in uses(policy(**LIMITS))] == ["context", "turns", "wall", "spend", "output"]
    assert [use.axis for use in uses(policy())] == ["context"]


@pytest.mark.parametrize(
    ("used", "axis"),
    [
        ({"resident": 600, "turns": 9}, "context"),
        ({"turns": 8, "wall": timedelta(seconds=99)}, "turns"),
        ({"wall": timedelta(seconds=80), "spend": Decimal(1)}, "wall"),
        ({"spend": Decimal("0.80"), "output": 1000}, "spend"),
        ({"output": 800}, "output"),
    ],
)
def test_the_first_axis_over_its_mark_is_named(used: dict[str, Any], axis: str) -> None:
    found = crossed(uses(policy(**LIMITS), **used))
    assert found is not None
    assert found.axis == axis


@pytest.mark.parametrize(
    "used",
    [
        {"resident": 599},
        {"turns": 7},
        {"wall": timedelta(seconds=79.999)},
        {"spend": Decimal("0.7999999999")},
        {"output": 799},
    ],
)
def test_below_the_mark_nothing_arms(used: dict[str, Any]) -> None:
    assert crossed(uses(policy(**LIMITS), **used)) is None


def test_money_that_is_not_known_never_arms_and_is_never_nought() -> None:
    spend = next(use for use in uses(policy(**LIMITS), spend=None) if use.axis == "spend")
    assert spend.used is None
    assert spend.fraction is None
    assert not spend.crossed


@pytest.mark.parametrize("part", range(1, 101))
def test_division_form_arms_at_exactly_the_mark(part: int) -> None:
    assert AxisUse("context", part, 100, part / 100).crossed
    assert AxisUse("spend", Decimal(part), Decimal(100), part / 100).crossed


def test_nothing_used_and_no_cap_never_cross() -> None:
    assert not AxisUse("turns", 0, 10, 0.1).crossed
    assert not AxisUse("turns", 5, 0, 0.1).crossed
    assert not AxisUse("turns", 5, -1, 0.1).crossed


@pytest.mark.parametrize("mark", [0, -0.1, 1.0001, float("nan")])
def test_a_mark_outside_its_range_never_gets_this_far(mark: float) -> None:
    with pytest.raises(ValueError, match="mark"):
        AxisUse("context", 1, 2, mark)


def test_the_lower_of_mark_and_absolute_mark_arms() -> None:
    assert context_mark(policy(mark={"context_tokens": 50_000}), 200_000) == 0.25
    assert context_mark(policy(mark={"context_tokens": 150_000}), 200_000) == 0.6
    assert mark_tokens(policy(mark={"context_tokens": 50_000}), 200_000) == 50_000
    assert mark_tokens(policy(), 200_000) == 120_000


@given(st.integers(1, 2_000_000), st.floats(0.0001, 1), st.none() | st.integers(1, 2_000_000))
def test_mark_tokens_is_where_the_axis_begins_to_cross(window: int, mark: float, absolute: int | None) -> None:
    marks = {"context": mark, "context_tokens": "none" if absolute is None else absolute}
    given_policy = policy(mark=marks)
    tokens = mark_tokens(given_policy, window)

    def arms(resident: int) -> bool:
        context = axis_uses(given_policy, window, resident, 0, timedelta(0), None, 0)[0]
        return context.crossed

    assert arms(tokens)
    assert not arms(tokens - 1)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**6), st.floats(0.001, 1))
def test_arming_is_monotone_in_what_is_used(used: int, more: int, limit: int, mark: float) -> None:
    if AxisUse("turns", used, limit, mark).crossed:
        assert AxisUse("turns", used + more, limit, mark).crossed


def test_ceiling_is_taken_in_decimals() -> None:
    assert ceiling_tokens(policy(), 200_000) == 180_000
    assert ceiling_tokens(policy(ceiling=0.29), 100) == 29
    assert ceiling_tokens(policy(ceiling=1), 200_000) == 200_000


@pytest.mark.parametrize(
    ("resident", "growth", "output", "results", "hit"),
    [
        (100, 50, 10, 20, False),
        (130, 50, 10, 20, True),  # by the last growth
        (130, 10, 20, 30, True),  # by output and results together
        (130, 10, 20, 29, False),
        (180, 0, 0, 0, True),
        (180, -50, 0, 0, True),  # a window that shrank makes no room
    ],
)
def test_no_call_is_let_through_that_could_pass_the_ceiling(
    resident: int, growth: int, output: int, results: int, hit: bool
) -> None:
    assert ceiling_hit(resident, growth, output, results, 180) is hit


def test_hysteresis() -> None:
    assert may_arm(0, 0, 1)  # the first arm is free
    assert not may_arm(1, 0, 1)
    assert may_arm(1, 1, 1)
    assert not may_arm(3, 4, 5)
    assert may_arm(3, 0, 0)  # off


def test_a_store_that_does_not_answer_shows_nothing_more() -> None:
    assert verified_total(4, None) == verified_total(4, 0) == 4
    assert verified_total(4, 3) == 7


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_more_progress_never_forbids_an_arm(armed: int, progress: int, more: int, least: int) -> None:
    if may_arm(armed, progress, least):
        assert may_arm(armed, progress + more, least)


def test_cap_says_when_it_admits_again() -> None:
    entries = [START + timedelta(seconds=second) for second in (1200, 0, 600)]
    verdict = cap(entries, START + timedelta(seconds=1800), 3)
    assert (verdict.admit, verdict.used, verdict.limit) == (False, 3, 3)
    assert verdict.next_at == START + timedelta(hours=1)
    assert cap(entries, START + timedelta(hours=1), 3).admit


def test_an_entry_of_exactly_an_hour_is_outside() -> None:
    assert not cap([START], START + timedelta(seconds=3599, microseconds=999_999), 1).admit
    assert cap([START], START + timedelta(seconds=3600), 1).admit


def test_a_clock_set_back_does_not_open_the_cap() -> None:
    assert not cap([START + timedelta(minutes=5)], START, 1).admit


def test_nought_is_off() -> None:
    verdict = cap([START] * 50, START, 0)
    assert verdict.admit
    assert verdict.next_at is None


@given(st.lists(st.integers(0, 4000), max_size=60), st.integers(1, 5))
def test_never_more_than_the_limit_in_any_window(gaps: list[int], limit: int) -> None:
    now, entries = START, list[datetime]()
    for gap in gaps:
        now += timedelta(seconds=gap)
        verdict = cap(entries, now, limit)
        if verdict.admit:
            entries.append(now)
        else:
            assert verdict.next_at is not None
            assert now < verdict.next_at <= now + timedelta(hours=1)
            assert cap(entries, verdict.next_at, limit).admit
    for entry in entries:
        assert sum(entry <= other < entry + timedelta(hours=1) for other in entries) <= limit


def test_the_fewest_tokens_that_arm_are_found_from_either_side() -> None:
    """rules.md, Arm and fire: "used / cap ≥ mark (division form: 55/100 arms at 0.55)"."""
    for window in (1, 3, 7, 100, 1000, 200_000):
        for hundredths in range(1, 101):
            policy = build({}, None, {"mark.context": hundredths / 100})
            least = mark_tokens(policy, window)
            assert least / window >= hundredths / 100
            assert least == 1 or (least - 1) / window < hundredths / 100
