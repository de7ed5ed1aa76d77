"""interface.md, `POST legs/id/events`: "a replay … changes nothing; a gap or a fork is reported, not swallowed"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.sequence import FAR, GAPS, Seen


def after(*numbers: int) -> Seen:
    seen = Seen()
    for number in numbers:
        assert seen.take(number)
    return seen


def test_a_replay_is_not_taken_again():
    seen = after(1, 2, 3)
    assert [seen.take(number) for number in (1, 2, 3)] == [False] * 3
    assert seen.missing == (0, None)


@pytest.mark.parametrize("start", [0, 1, 7, 10**12])
def test_an_agent_may_begin_at_any_number(start):
    assert after(start, start + 1).missing == (0, None)


def test_a_gap_is_known_and_what_comes_late_for_it_is_taken_once():
    seen = after(1, 2, 10)
    assert seen.missing == (7, (3, 9))
    assert seen.take(5)
    assert not seen.take(5)
    assert seen.missing == (6, (3, 4))
    assert (seen.late, seen.last) == (1, 10)
    assert all(seen.take(number) for number in (3, 4, 6, 7, 8, 9))
    assert seen.missing == (0, None)


def test_a_forged_jump_is_not_taken_and_hides_nobody():
    seen = after(1, 2)
    assert seen.judge(2**61) == "far"
    assert not seen.take(2**61)
    assert not seen.take(2 + FAR + 1)
    assert seen.take(3)
    # the widest jump that is taken: the honest ones below are late, not replays
    assert seen.take(3 + FAR)
    assert all(seen.take(number) for number in range(4, 50))


def test_what_came_before_the_first_number_is_late_and_not_missing():
    seen = after(100)
    assert seen.take(3)
    assert seen.missing == (0, None)


def test_gaps_are_bounded_and_the_newest_stay():
    seen = after(*range(0, 4 * GAPS, 2))
    assert seen.missing[0] == GAPS
    assert seen.judge(4 * GAPS - 3) == "late"
    assert seen.judge(1) == "seen"


@given(st.lists(st.integers(0, 60), max_size=120))
def test_every_number_is_taken_exactly_once_in_whatever_order(numbers):
    seen = Seen()
    taken = [number for number in numbers if seen.take(number)]
    assert taken == list(dict.fromkeys(numbers))
    if numbers:
        absent = set(range(numbers[0], max(numbers) + 1)) - set(numbers)
        assert seen.missing[0] == len(absent)
        assert seen.missing[1] is None or seen.missing[1][0] == min(absent)
