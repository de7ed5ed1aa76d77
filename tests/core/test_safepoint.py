"""The safe point: nothing in flight, the tree green or explicitly parked, exactly one next action."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.safepoint import NextAction, TreeState, choose_next_action, judge, running
from relays.core.vocabulary import HOLD_ORDER, Hold

ONE = choose_next_action(["run the tests"])
CLEAN = TreeState()


def test_safe_when_all_three_hold() -> None:
    point = judge((), CLEAN, ONE)
    assert point.safe
    assert point.hold is None
    assert point.holds == frozenset()


def test_every_hold_is_kept_with_its_evidence_and_the_strongest_is_recorded() -> None:
    point = judge(
        [running("t1", "bash")], TreeState(dirty=("a.py",), operation="merge"), choose_next_action(["a", "b"])
    )
    assert not point.safe
    assert point.hold is Hold.IN_FLIGHT_TOOL_CALL
    assert point.detail == {
        Hold.IN_FLIGHT_TOOL_CALL: ("tool call t1 was still running (bash)",),
        Hold.TREE_DIRTY_UNPARKED: ("a.py",),
        Hold.AMBIGUOUS_NEXT_ACTION: ("a", "b"),
        Hold.NOT_AT_SAFE_POINT: ("git is in the middle of: merge",),
    }


@pytest.mark.parametrize("operation", ["merge", "rebase", "cherry-pick", "revert", "bisect", "index.lock"])
def test_git_in_mid_operation_is_no_safe_point_even_when_parked(operation: str) -> None:
    tree = TreeState(dirty=("a",), parked=True, operation=operation)
    assert not tree.green_or_parked
    assert judge((), tree, ONE).holds == {Hold.NOT_AT_SAFE_POINT}


def test_a_tree_that_could_not_be_read_counts_as_dirty() -> None:
    for tree in (TreeState(known=False), TreeState(parked=True, known=False)):
        assert not tree.green_or_parked
        assert judge((), tree, ONE).hold is Hold.TREE_DIRTY_UNPARKED
    why = judge((), TreeState(dirty=("git did not answer",), known=False), ONE).detail[Hold.TREE_DIRTY_UNPARKED]
    assert why == ("the tree could not be read: git did not answer",)


def test_parked_means_that_the_agent_said_so() -> None:
    assert TreeState(dirty=("a", "b"), parked=True).green_or_parked
    assert TreeState(dirty=("a", "b"), parked=True, parked_paths=("a",)).unparked == ("b",)
    assert TreeState(dirty=("a",), parked=False, parked_paths=("a",)).unparked == ("a",)


def test_a_hold_without_text_never_counts_as_one_next_action() -> None:
    assert judge((), CLEAN, NextAction(None, None, ())).hold is Hold.NO_NEXT_ACTION


@pytest.mark.parametrize(
    "candidate",
    ["", "  ", "a\nb", "a\rb", "a\x0bb", "a\x85b", "a\u2028b", "a\x00b", "a\tb", "x" * 201, "é" * 101, "\ud800"],
)
def test_what_is_no_line_of_a_baton_is_dropped(candidate: str) -> None:
    assert choose_next_action([candidate]) == NextAction(None, Hold.NO_NEXT_ACTION, ())
    assert choose_next_action([candidate, "keep"]).text == "keep"


def test_length_is_counted_in_bytes() -> None:
    assert choose_next_action(["é" * 100]).text == "é" * 100


texts = st.text(max_size=210) | st.sampled_from(["a", " a ", "b", "", "b\nc"])


@given(st.lists(texts, max_size=6))
def test_exactly_one_distinct_line_passes(candidates: list[str]) -> None:
    chosen = choose_next_action(candidates)
    assert (chosen.text is None) == (chosen.hold is not None)
    assert len(set(chosen.candidates)) == len(chosen.candidates)
    if chosen.text is not None:
        assert chosen.candidates == (chosen.text,)
        assert chosen.text in {candidate.strip() for candidate in candidates}
        assert 0 < len(chosen.text.encode()) <= 200
        assert chosen.text.splitlines() == [chosen.text]
    else:
        assert chosen.hold is (Hold.AMBIGUOUS_NEXT_ACTION if len(chosen.candidates) > 1 else Hold.NO_NEXT_ACTION)
    # order and repetition change nothing, and the choice is a fixed point
    assert choose_next_action([*reversed(candidates), *candidates]).text == chosen.text
    assert choose_next_action(chosen.candidates) == chosen


def test_a_tool_call_in_flight_is_named_by_what_it_runs() -> None:
    assert running("call-11", "shell") == "tool call call-11 was still running (shell)"
    assert running("call-11", "") == "tool call call-11 was still running", "an agent may give it no name"


trees = st.builds(
    TreeState,
    dirty=st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(tuple),
    parked=st.booleans(),
    parked_paths=st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(tuple),
    operation=st.sampled_from(["", "merge"]),
    known=st.booleans(),
)


@given(st.sets(st.sampled_from(["t1", "t2"])), trees, st.lists(st.sampled_from(["x", "y"])))
def test_safe_is_the_conjunction_and_nothing_else(in_flight: set[str], tree: TreeState, candidates: list[str]) -> None:
    chosen = choose_next_action(candidates)
    point = judge(in_flight, tree, chosen)
    assert point.safe == (not in_flight and tree.green_or_parked and chosen.text is not None)
    assert point.safe == (not point.holds)
    assert set(point.detail) == point.holds
    if point.holds:
        assert point.hold == min(point.holds, key=HOLD_ORDER.index)
