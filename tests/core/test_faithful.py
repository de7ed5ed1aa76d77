"""What compactions and rotations made an agent read again, as a verdict that may say that the relay lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.faithful import LEAST, ReadAgain, Rotation, judge, read_again


def rotations(count: int, resident: int, again: int, made: int = 10, reached: int = 10) -> list[Rotation]:
    return [Rotation(ReadAgain(resident, again), made, reached)] * count


def test_a_relay_that_reads_less_again_and_reaches_all_holds():
    line = judge([ReadAgain(20, 8)] * 5, rotations(5, 20, 4))
    assert line.verdict == "holds"
    assert line.what == (
        "read again: 40.0 % of 100 after 5 compactions, 20.0 % of 100 after 5 rotations; "
        "out of reach after rotations: 0.0 % of 50"
    )
    assert line.numbers["coverage"] == {"n": 5, "made": 50, "reached": 50, "share": 1.0}


def test_a_relay_that_reads_more_again_beyond_chance_lost():
    line = judge([ReadAgain(20, 2)] * 5, rotations(5, 20, 12))
    assert line.verdict == "violated"
    assert line.what.startswith("the relay lost: read again")


def test_a_relay_whose_successors_miss_what_was_made_lost():
    line = judge([ReadAgain(20, 2)] * 5, rotations(5, 20, 1, made=20, reached=8))
    assert line.verdict == "violated"
    assert "out of reach after rotations: 60.0 % of 100" in line.what


def test_what_is_worse_by_chance_is_not_told_yet():
    line = judge([ReadAgain(20, 4)] * 5, rotations(5, 20, 5))
    assert (line.verdict, line.what[:17]) == ("not yet", "too close to tell")


@pytest.mark.parametrize(
    ("compactions", "rotated", "words"),
    [
        (4, rotations(9, 5, 1), "4 of 5 compactions"),
        (9, rotations(4, 5, 1), "4 of 5 rotations with what was read again, 4 of 5 rotations with their coverage"),
        (9, rotations(9, 5, 1, made=0, reached=0), "0 of 5 rotations with their coverage"),
        (9, [Rotation(None, 3, 3)] * 9, "0 of 5 rotations with what was read again"),
        (0, [], "0 of 5 compactions, 0 of 5 rotations with what was read again, 0 of 5 rotations with their coverage"),
    ],
)
def test_below_five_of_either_nothing_is_said(compactions, rotated, words):
    line = judge([ReadAgain(5, 1)] * compactions, rotated)
    assert (line.verdict, line.what) == ("not yet", words)


def test_a_cut_of_an_empty_window_is_none():
    assert judge([ReadAgain(0, 0)] * 9, rotations(9, 5, 1)).what == "0 of 5 compactions"


def test_reading_again_counts_each_file_once_within_twenty_calls():
    before = ["a.py", "b.py", "a.py", "commit:1"]
    after = [["a.py"], ["a.py", "new.py"], *[[]] * 18, ["b.py"]]
    assert read_again(before, after) == ReadAgain(3, 1)
    assert read_again(before, after[1:]) == ReadAgain(3, 2)
    assert read_again([], after) == ReadAgain(0, 0)


def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match="3 of 2 were read again"):
        ReadAgain(2, 3)
    with pytest.raises(ValueError, match="1 of 0 were reached"):
        Rotation(None, 0, 1)


cuts = st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda pair: ReadAgain(max(pair), min(pair)))
rotated = st.builds(
    lambda read, pair: Rotation(read, max(pair), min(pair)),
    st.one_of(st.none(), cuts),
    st.tuples(st.integers(0, 30), st.integers(0, 30)),
)


@given(st.lists(cuts, max_size=12), st.lists(rotated, max_size=12))
def test_it_never_speaks_too_early_and_more_reading_never_helps(compactions, legs):
    line = judge(compactions, legs)
    enough = (
        sum(one.resident > 0 for one in compactions) >= LEAST
        and sum(one.read is not None and one.read.resident > 0 for one in legs) >= LEAST
        and sum(one.made > 0 for one in legs) >= LEAST
    )
    assert enough or line.verdict == "not yet"
    worse = [
        Rotation(one.read and ReadAgain(one.read.resident, one.read.resident), one.made, one.reached) for one in legs
    ]
    order = ["violated", "not yet", "holds"]
    assert order.index(judge(compactions, worse).verdict) <= order.index(line.verdict)


def test_winning_takes_as_much_as_losing_does():
    """A little less by chance is no more a verdict than a little more by chance."""
    better = judge([ReadAgain(20, 5)] * 5, rotations(5, 20, 4))
    assert (better.verdict, better.what[:17]) == ("not yet", "too close to tell")
