import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.verdicts import LegErrors, attribution, difference, objective_line, rot, wilson


def test_each_commit_belongs_to_one_leg():
    assert attribution({}).verdict == "not yet"
    line = attribution({0: ["a", "b"], 1: ["c"], 2: []}, foreign=["z", "y", "z"])
    assert line.verdict == "holds"
    assert line.numbers == {"legs": 3, "commits": 3, "shared": {}, "foreign": ["y", "z"]}


def test_a_commit_in_two_legs_is_violated():
    line = attribution({0: ["a"], 3: ["a", "b"], 4: ["b", "b"]})
    assert line.verdict == "violated"
    assert line.numbers["shared"] == {"a": [0, 3], "b": [3, 4]}


def test_a_commit_named_twice_by_its_own_leg_is_one():
    assert attribution({0: ["a", "a"]}).verdict == "holds"


@given(st.dictionaries(st.integers(0, 5), st.lists(st.sampled_from("abcd"), max_size=4)))
def test_attribution_is_violated_exactly_when_legs_share_a_commit(legs):
    shared = any(set(a) & set(b) for x, a in legs.items() for y, b in legs.items() if x < y)
    assert (attribution(legs).verdict == "violated") == shared


def test_one_objective_digest_between_decisions():
    assert objective_line([]).verdict == "not yet"
    assert objective_line(["d"] * 12).verdict == "holds"
    changed = objective_line(["d", "d", "e", "e"])
    assert (changed.verdict, changed.numbers["first_change"]) == ("violated", 2)
    assert objective_line(["d", "d", "e", "e"], changed_at={2}).verdict == "holds"
    assert objective_line(["d", "e", "d"], changed_at={1}).verdict == "violated"


def test_rot_needs_thirty_calls_over_three_legs():
    assert rot([]).verdict == "not yet"
    assert rot([LegErrors(0, 50, 0), LegErrors(1, 50, 50)]).verdict == "not yet"
    assert rot([LegErrors(number, 9, 9) for number in range(3)]).verdict == "not yet"
    assert rot([LegErrors(0, 30, 0), LegErrors(1, 0, 0), LegErrors(2, 0, 0)]).verdict == "not yet"
    assert rot([LegErrors(number, 10, 0) for number in range(3)]).verdict == "holds"


def test_rot_is_violated_when_later_legs_are_worse_beyond_chance():
    worse = [LegErrors(number, 40, 2 if number < 3 else 20) for number in range(6)]
    line = rot(list(reversed(worse)))
    assert line.verdict == "violated"
    assert line.numbers["early"] == {"calls": 120, "errors": 6, "rate": 0.05}
    assert line.numbers["difference"][0] > 0


def test_rot_holds_when_the_difference_may_be_chance_or_later_legs_are_better():
    assert rot([LegErrors(0, 10, 1), LegErrors(1, 10, 1), LegErrors(2, 10, 3)]).verdict == "holds"
    assert rot([LegErrors(number, 40, 20 if number < 3 else 2) for number in range(6)]).verdict == "holds"


def test_the_interval_of_two_proportions_is_newcombes():
    # Newcombe 1998, method 10: 56/70 - 48/80 gives 0.0524 to 0.3339
    low, high = difference(48, 80, 56, 70)
    assert (low, high) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))


@given(st.integers(1, 500).flatmap(lambda calls: st.tuples(st.integers(0, calls), st.just(calls))))
def test_a_score_interval_holds_its_rate(pair):
    errors, calls = pair
    low, high = wilson(errors, calls)
    assert 0 <= low <= errors / calls + 1e-12
    assert errors / calls - 1e-12 <= high <= 1
