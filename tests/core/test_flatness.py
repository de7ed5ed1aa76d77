import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.flatness import LegPeak, flat, theil_sen

WINDOW = 200_000
CEILING = 180_000


def leg(number, peak, *, armed=True, largest=0, ceiling=CEILING, window=WINDOW):
    return LegPeak(number, peak, ceiling, window, largest, armed)


def test_fewer_than_three_armed_legs_say_nothing():
    assert flat([]).verdict == "not yet"
    assert flat([leg(0, 120_000), leg(1, 120_000), leg(2, 120_000, armed=False)]).verdict == "not yet"


def test_equal_peaks_hold():
    line = flat([leg(number, 121_000) for number in range(12)])
    assert line.verdict == "holds"
    assert line.numbers["slope_per_10_legs"] == 0


def test_a_steady_rise_is_violated():
    line = flat([leg(number, 100_000 + 1000 * number) for number in range(12)])
    assert line.verdict == "violated"
    assert line.numbers["slope_per_10_legs"] == pytest.approx(0.05)


def test_a_rise_of_one_percent_per_ten_legs_is_allowed():
    assert flat([leg(number, 100_000 + 199 * number) for number in range(40)]).verdict == "holds"
    assert flat([leg(number, 100_000 + 202 * number) for number in range(40)]).verdict == "violated"


def test_three_rising_legs_may_be_chance():
    """Three points in order come up by chance in one of six: no 95 % bound exists."""
    line = flat([leg(0, 100_000), leg(1, 110_000), leg(2, 120_000)])
    assert (line.verdict, line.numbers["low_per_10_legs"]) == ("holds", None)
    assert str(line.said) == (
        "slope 50.00 % of the window per 10 legs over 3 armed legs: too few to tell it from chance"
    )


def test_a_steep_slope_that_holds_names_the_bound_that_it_is_judged_by():
    """Nobody believes "slope 20 %, holds" without the reason."""
    noisy = [leg(number, 100_000 + 4000 * number + 30_000 * (number % 2)) for number in range(6)]
    line = flat(noisy)
    assert line.verdict == "holds"
    assert "its lower 95 % bound is" in str(line.said)
    level = flat([leg(number, 100_000) for number in range(6)])
    assert str(level.said) == "slope 0.00 % of the window per 10 legs over 6 armed legs"


def test_one_outlier_does_not_move_a_robust_slope():
    peaks = [leg(number, 120_000) for number in range(11)]
    assert flat([*peaks, leg(11, 179_000)]).verdict == "holds"


def test_legs_that_did_not_arm_do_not_make_a_slope():
    armed = [leg(number, 120_000) for number in range(5)]
    short = [leg(number, 10_000 * number, armed=False) for number in range(5, 15)]
    assert flat([*armed, *short]).verdict == "holds"


@pytest.mark.parametrize(("peak", "verdict"), [(CEILING + 5000, "not yet"), (CEILING + 5001, "violated")])
def test_a_peak_may_pass_its_ceiling_by_one_tool_result(peak, verdict):
    line = flat([leg(0, 1000), leg(1, peak, armed=False, largest=5000)])
    assert line.verdict == verdict
    if verdict == "violated":
        assert line.numbers["over"] == [1]


def test_an_unknown_ceiling_or_window_judges_nothing():
    assert flat([leg(number, 999_999, ceiling=0, window=0) for number in range(5)]).verdict == "not yet"


def test_windows_of_different_size_are_compared_as_parts():
    legs = [
        leg(number, 60_000 if number % 2 else 600_000, window=100_000 if number % 2 else 1_000_000, ceiling=0)
        for number in range(10)
    ]
    assert flat(legs).verdict == "holds"


def test_the_slope_and_its_bounds_are_those_of_sen_1968():
    # his example: t = 1 2 3 4 10 12 18, X = 9 15 19 20 45 55 78; slope 4, interval 26/7 to 35/8
    points = list(zip((1.0, 2.0, 3.0, 4.0, 10.0, 12.0, 18.0), (9.0, 15.0, 19.0, 20.0, 45.0, 55.0, 78.0), strict=True))
    slope = theil_sen(points)
    assert slope.value == pytest.approx(4)
    assert (slope.low, slope.high) == (pytest.approx(26 / 7), pytest.approx(35 / 8))


def test_ties_narrow_the_interval():
    points = [(float(place * place), float(place // 4)) for place in range(12)]
    slopes = sorted((b[1] - a[1]) / (b[0] - a[0]) for place, a in enumerate(points) for b in points[place + 1 :])
    # var S = (12·11·29 - 3·(4·3·13)) / 18 = 186.67, so the rank is (66 - 1.96·13.66) / 2 = 19.6; without ties 18.7
    assert slopes[18] < slopes[19]
    assert theil_sen(points).low == slopes[19]
    assert theil_sen(points).high == slopes[-20]


def test_a_slope_needs_two_places():
    with pytest.raises(ValueError, match="two"):
        theil_sen([(1.0, 2.0)])


def test_noise_around_a_flat_level_is_rarely_called_a_rise():
    chance = random.Random(7)
    violated = sum(
        flat([leg(number, 120_000 + chance.randint(-8000, 8000)) for number in range(12)]).verdict == "violated"
        for _ in range(300)
    )
    assert violated <= 18  # 2.5 % expected, 6 % is far out


def test_ten_thousand_legs_are_judged_too():
    chance = random.Random(3)
    flat_legs = [leg(number, 120_000 + chance.randint(-3000, 3000)) for number in range(10_000)]
    rising = [leg(number, 100_000 + 3 * number + chance.randint(-3000, 3000)) for number in range(10_000)]
    assert flat(flat_legs).verdict == "holds"
    assert flat(rising).verdict == "holds"  # 30 tokens in 10 legs are under 1 % of the window
    steep = [leg(number, 6000 * number, window=3_000_000, ceiling=0) for number in range(10_000)]
    line = flat(steep)
    assert line.verdict == "violated"
    assert line.numbers["slope_per_10_legs"] == pytest.approx(0.02)


peaks = st.lists(st.integers(0, CEILING), min_size=3, max_size=25)


@given(peaks, st.randoms(use_true_random=False))
def test_the_order_in_which_legs_are_given_does_not_matter(values, chance):
    legs = [leg(number, peak) for number, peak in enumerate(values)]
    mixed = legs[:]
    chance.shuffle(mixed)
    assert flat(mixed) == flat(legs)


@given(peaks)
def test_falling_or_level_peaks_are_never_violated(values):
    legs = [leg(number, peak) for number, peak in enumerate(sorted(values, reverse=True))]
    assert flat(legs).verdict == "holds"


@given(peaks, st.integers(1, 20))
def test_the_bound_lies_below_the_slope_and_both_follow_the_scale(values, factor):
    points = [(float(place), float(value)) for place, value in enumerate(values)]
    slope, scaled = theil_sen(points), theil_sen([(x, y * factor) for x, y in points])
    assert scaled.value == pytest.approx(slope.value * factor)
    if slope.low is not None and slope.high is not None:
        assert slope.low <= slope.value <= slope.high
