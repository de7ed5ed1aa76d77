import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.verdicts import LegErrors, attribution, difference, objective_line, rot, wilson


def test_each_commit_belongs_to_one_leg():
    assert attribution(0, 0, {}).verdict == "not yet"
    line = attribution(3, 3, {}, ["z", "y", "z"], 2)
    assert line.verdict == "holds"
    assert line.numbers == {"legs": 3, "commits": 3, "shared": {}, "foreign": ["y", "z"], "foreign_count": 2}
    assert line.what == "each of 3 commits belongs to one leg; by others: 2"


def test_a_commit_in_two_legs_is_violated():
    line = attribution(3, 2, {"b": [4, 3, 4], "a": [3, 0]})
    assert line.verdict == "violated"
    assert line.numbers["shared"] == {"a": [0, 3], "b": [3, 4]}
    assert "2 commits in two legs: a in legs 0, 3" in line.what


def test_of_many_foreign_commits_some_are_named_and_all_are_counted():
    assert attribution(1, 0, {}, ["a", "b"], 70).numbers["foreign_count"] == 70


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


# --- rules.md, Computed verdicts: "tool-error rate over leg number and over how full the window was, with interval"


def full(number, *tenths):
    """A leg whose tool calls came at these fullnesses: (tenth, calls, errors)."""
    fullness = {tenth: (calls, errors) for tenth, calls, errors in tenths}
    return LegErrors(number, sum(calls for _, calls, _ in tenths), sum(errors for *_, errors in tenths), fullness)


def test_rot_is_violated_when_fuller_windows_are_worse_beyond_chance():
    line = rot([full(number, (1, 20, 1), (5, 20, 10)) for number in range(4)])
    assert line.verdict == "violated"
    assert "fuller windows fail more tool calls beyond chance" in line.what
    window = line.numbers["fullness"]
    assert (window["verdict"], window["calls"], window["edge"]) == ("violated", 160, 0.2)
    assert window["emptier"] == {"calls": 80, "errors": 4, "rate": 0.05}
    assert window["fuller"] == {"calls": 80, "errors": 40, "rate": 0.5}
    assert window["difference"] == list(difference(4, 80, 40, 80))
    assert line.numbers["difference"][0] <= 0 <= line.numbers["difference"][1], "the legs themselves are alike"


def test_fuller_windows_that_may_be_worse_by_chance_hold():
    line = rot([full(number, (0, 10, 1), (6, 10, 2)) for number in range(3)])
    assert (line.verdict, line.numbers["fullness"]["verdict"]) == ("holds", "holds")
    assert "3/30 below 10 % full, 6/30 above" in line.what


@pytest.mark.parametrize("tenth", [0, 4, 9])
def test_windows_that_were_equally_full_say_nothing_about_fuller_ones(tenth):
    line = rot([full(number, (tenth, 20, 0)) for number in range(3)])
    assert (line.verdict, line.numbers["fullness"]["verdict"]) == ("holds", "not yet")
    assert "by fullness not yet: all tool calls came in one tenth of the window" in line.what


def test_what_has_no_record_of_fullness_reads_not_yet():
    line = rot([LegErrors(number, 20, 0) for number in range(3)])
    assert line.numbers["fullness"]["verdict"] == "not yet"
    assert "by fullness not yet: 0 tool calls" in line.what


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 40), st.integers(0, 40)), max_size=12))
def test_the_edge_parts_all_recorded_calls(tenths):
    window = rot([full(number, (tenth, calls, min(errors, calls))) for number, (tenth, calls, errors) in
                  enumerate(tenths)]).numbers["fullness"]  # fmt: skip
    assert window["calls"] == sum(calls for _, calls, _ in tenths)
    if window["verdict"] != "not yet":
        assert window["emptier"]["calls"] + window["fuller"]["calls"] == window["calls"] >= 30
        assert min(window["emptier"]["calls"], window["fuller"]["calls"]) > 0
        low, high = window["difference"]
        assert low <= window["fuller"]["rate"] - window["emptier"]["rate"] <= high
        assert (window["verdict"] == "violated") == (low > 0)


@given(st.integers(1, 500).flatmap(lambda calls: st.tuples(st.integers(0, calls), st.just(calls))))
def test_a_score_interval_holds_its_rate(pair):
    errors, calls = pair
    low, high = wilson(errors, calls)
    assert 0 <= low <= errors / calls + 1e-12
    assert errors / calls - 1e-12 <= high <= 1
