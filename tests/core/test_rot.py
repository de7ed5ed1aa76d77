"""cost.md, Charts: "tool-error rate against how full the window was (observed rot curve)", with interval and n."""

from math import isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core import rot


def test_bins_are_twentieths_and_the_last_is_over_full() -> None:
    assert [rot.twentieth(at, 200_000) for at in (0, 9_999, 10_000, 199_999, 200_000, 10**9)] == [0, 0, 1, 19, 20, 20]


def test_a_bin_has_its_rate_n_and_interval() -> None:
    """Wilson's score interval of 5 in 100, from the textbook: 2.15 % to 11.18 %."""
    one = rot.curve("m", {4: (100, 5)}).bins[0]
    assert one.interval is not None and one.rate == 0.05
    assert isclose(one.interval[0], 0.0215, abs_tol=5e-5) and isclose(one.interval[1], 0.1118, abs_tol=5e-5)
    assert (one.low, one.high, str(one.said)) == (0.2, 0.25, "5.0 % of 100 (2.2–11.2 %)")
    over = rot.curve("m", {20: (100, 5)}).bins[0]
    assert (over.low, over.high) == (1.0, None)


def test_below_thirty_results_a_bin_says_not_yet() -> None:
    thin, enough = rot.curve("m", {1: (29, 29), 2: (30, 0)}).bins
    assert (thin.rate, thin.interval, str(thin.said)) == (None, None, "not yet: n = 29")
    assert enough.rate == 0 and enough.interval is not None and enough.interval[1] > 0.1


def test_below_a_hundred_results_the_curve_says_not_yet() -> None:
    curve = rot.curve("m", {1: (50, 0), 15: (49, 49)})
    assert (curve.verdict.verdict, curve.n, curve.errors) == ("not yet", 99, 49)
    assert curve.verdict.what == "99 tool results, 100 are needed"
    assert rot.curve("m", {}).verdict.verdict == "not yet"


def test_equally_full_windows_say_nothing_of_fuller_ones() -> None:
    curve = rot.curve("m", {3: (1_000, 10), 4: (29, 29)})
    assert curve.verdict.verdict == "not yet" and "equally full" in curve.verdict.what
    assert rot.curve("m", {3: (1_000, 10)}).verdict.verdict == "not yet"


def test_worse_beyond_chance_is_violated_and_a_little_worse_holds() -> None:
    worse = rot.curve("m", {2: (300, 6), 12: (300, 60)}).verdict
    assert worse.verdict == "violated" and worse.numbers["parted_at"] == 0.6
    assert worse.what.endswith("6/300 below 60 % full, 60/300 above")
    assert rot.curve("m", {2: (300, 6), 12: (300, 8)}).verdict.verdict == "holds"
    assert rot.curve("m", {2: (300, 60), 12: (300, 6)}).verdict.verdict == "holds"


@pytest.mark.parametrize("counts", [{1: (5, 6)}, {1: (-1, 0)}, {1: (5, -1)}, {21: (5, 0)}, {-1: (5, 0)}])
def test_counts_that_cannot_be_are_refused(counts: dict[int, tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match="bin"):
        rot.curve("m", counts)


def test_rows_are_added_up_per_model_most_results_first() -> None:
    rows = [("b", 1, 5, 1), ("a", 1, 5, 1), ("c", 2, 10, 0), ("a", 1, 20, 2), ("a", 3, 0, 0)]
    found = rot.curves(rows)
    assert [(one.model, one.n, one.errors) for one in found] == [("a", 25, 3), ("c", 10, 0), ("b", 5, 1)]
    assert [one.twentieth for one in found[0].bins] == [1], "a bin without results is none"


@given(st.dictionaries(st.integers(0, 20), st.tuples(st.integers(0, 500), st.integers(0, 500)), max_size=21))
def test_nothing_is_lost_and_every_interval_holds_its_rate(raw: dict[int, tuple[int, int]]) -> None:
    counts = {at: (n, min(n, bad)) for at, (n, bad) in raw.items()}
    curve = rot.curve("m", counts)
    assert curve.n == sum(n for n, _ in counts.values()) and curve.errors == sum(bad for _, bad in counts.values())
    for one in curve.bins:
        assert (one.rate is None) == (one.n < rot.LEAST_IN_BIN)
        if one.rate is not None and one.interval is not None:
            low, high = one.interval
            assert -1e-12 <= low - 1e-12 <= one.rate <= high + 1e-12 and 0 <= low <= high <= 1
