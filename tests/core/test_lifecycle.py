"""The three tables of states.md, whole, and how the end of a leg is judged."""

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.backoff import WORDS, Trouble
from relays.core.donewhen import DoneVerdict, Truth
from relays.core.externalize import GateVerdict, LoadBearing, gate
from relays.core.lifecycle import (
    CRASHES,
    GATE,
    GAVE_UP,
    LEG,
    NEVER_ROTATES,
    NEW,
    RELAY,
    EndDecision,
    EndView,
    IllegalChange,
    check_change,
    final_states,
    has_successor,
    judge_end,
    may_change,
    sources,
)
from relays.core.safepoint import NextAction, TreeState, choose_next_action, judge
from relays.core.vocabulary import HOLD_ORDER, Cause, Hold, Mode, Reason

TABLES = {"relay": RELAY, "gate": GATE, "leg": LEG}

# states.md again, pair by pair: a table is only right when it has these changes and no other
LEGAL = {
    "relay": """
        new>ready new>waiting
        ready>running ready>done ready>idle ready>waiting ready>parked ready>stopped
        waiting>ready waiting>running waiting>parked waiting>stopped
        running>ready running>waiting running>idle running>done running>parked running>stopped
        idle>ready idle>waiting idle>parked idle>stopped
        parked>ready parked>done parked>stopped
    """,
    "gate": """
        new>waiting
        waiting>approved waiting>refused waiting>expired waiting>superseded
        approved>requested approved>confirmed approved>waiting approved>superseded
        requested>dispatched requested>confirmed requested>approved requested>superseded
        dispatched>confirmed dispatched>waiting dispatched>superseded
    """,
    "leg": """
        new>pending
        pending>starting pending>void
        starting>running starting>pending starting>ending
        running>draining running>backoff running>ending
        draining>ending draining>running
        backoff>running backoff>ending
        ending>ended
    """,
}
FINAL = {
    "relay": {"done", "stopped"},
    "gate": {"confirmed", "refused", "expired", "superseded"},
    "leg": {"ended", "void"},
}
STATES = {
    "relay": {"ready", "running", "waiting", "idle", "parked", "done", "stopped"},
    "gate": {"waiting", "approved", "requested", "dispatched", "confirmed", "refused", "expired", "superseded"},
    "leg": {"pending", "starting", "running", "draining", "backoff", "ending", "ended", "void"},
}


@pytest.mark.parametrize("name", TABLES)
def test_exactly_the_legal_changes_are_accepted(name: str) -> None:
    table, legal = TABLES[name], set(LEGAL[name].split())
    for frm, to in itertools.product([*STATES[name], NEW, "nonsense"], repeat=2):
        assert may_change(table, frm, to) == (f"{frm}>{to}" in legal), (frm, to)
        if f"{frm}>{to}" in legal:
            check_change(table, frm, to)
        else:
            with pytest.raises(IllegalChange, match="does not change to"):
                check_change(table, frm, to)


@pytest.mark.parametrize("name", TABLES)
def test_final_states_have_no_way_out_and_others_have_one(name: str) -> None:
    table = TABLES[name]
    assert set(table) == STATES[name] | {NEW}
    assert final_states(table) == FINAL[name]


@pytest.mark.parametrize("name", TABLES)
def test_every_state_is_reached_from_new_and_reaches_a_final_one(name: str) -> None:
    table = TABLES[name]
    assert reached(table, NEW) == STATES[name]
    for state in STATES[name] - FINAL[name]:
        assert reached(table, state) & FINAL[name]


@pytest.mark.parametrize("name", TABLES)
def test_sources_are_the_table_read_backwards(name: str) -> None:
    table = TABLES[name]
    for to in STATES[name]:
        assert sources(table, to) == {frm for frm in STATES[name] if to in table[frm]}


@given(st.sampled_from(sorted(TABLES)), st.lists(st.sampled_from(sorted(set().union(*STATES.values()))), max_size=20))
def test_no_walk_leaves_the_table(name: str, wanted: list[str]) -> None:
    state = NEW
    for to in wanted:
        if may_change(TABLES[name], state, to):
            assert f"{state}>{to}" in LEGAL[name].split()
            state = to
    assert state == NEW or state in STATES[name]


def reached(table: Mapping[str, frozenset[str]], start: str) -> set[str]:
    seen: set[str] = set()
    edge = {start}
    while edge := {to for frm in edge for to in table[frm]} - seen:
        seen |= edge
    return seen


# --- the end of a leg

DONE = DoneVerdict(Truth.TRUE, (), False)
NOT_DONE = DoneVerdict(Truth.FALSE, (), False)
CLEAN = TreeState()
DIRTY = TreeState(dirty=("a.py",))
ONE = choose_next_action(["go on"])
NONE = choose_next_action([])
TWO = choose_next_action(["a", "b"])
ADMITS = GateVerdict(True)
REFUSES = gate([LoadBearing("planted")], {}, statement_required=False, statement_holds=False)


def view(
    tree: TreeState = CLEAN,
    next_action: NextAction = ONE,
    in_flight: tuple[str, ...] = (),
    done: DoneVerdict | None = NOT_DONE,
    verdict: GateVerdict = ADMITS,
    cause: Cause | None = None,
    **others: Any,
) -> EndView:
    plain = EndView(
        done=done,
        watch=False,
        watch_pending=False,
        safe=judge(in_flight, tree, next_action),
        gate=verdict,
        tree_ok=tree.green_or_parked,
        empty_legs=0,
        no_progress_legs=3,
        cause=cause,
        agent_ended=False,
        prose=False,
    )
    return replace(plain, **others)


def reason(**given_view: Any) -> Reason:
    return judge_end(view(**given_view)).reason


def test_done_wins_over_rotation_and_needs_no_next_action() -> None:
    for next_action in (ONE, NONE, TWO):
        assert reason(done=DONE, next_action=next_action) is Reason.GOAL_DONE
    assert reason(done=DONE, tree=TreeState(dirty=("a",), parked=True)) is Reason.GOAL_DONE
    assert reason(done=DONE, cause=Cause.CEILING, next_action=NONE) is Reason.GOAL_DONE


@pytest.mark.parametrize(
    ("against", "hold"),
    [
        ({"tree": DIRTY}, Hold.TREE_DIRTY_UNPARKED),
        ({"tree": TreeState(operation="merge")}, Hold.NOT_AT_SAFE_POINT),
        ({"tree": TreeState(known=False)}, Hold.TREE_DIRTY_UNPARKED),
        ({"verdict": REFUSES}, Hold.NOT_EXTERNALIZED),
        ({"in_flight": ("bash",)}, Hold.IN_FLIGHT_TOOL_CALL),
    ],
)
def test_done_needs_tree_and_gate_and_nothing_in_flight(against: dict[str, Any], hold: Hold) -> None:
    decision = judge_end(view(done=DONE, cause=Cause.CEILING, **against))
    assert (decision.reason, decision.hold, decision.cause) == (Reason.PARKED_UNSAFE, hold, "ceiling")


@pytest.mark.parametrize("truth", [Truth.FALSE, Truth.UNKNOWN])
def test_unknown_is_not_done(truth: Truth) -> None:
    assert reason(done=DoneVerdict(truth, (), False)) is Reason.ROTATED
    assert reason(done=None) is Reason.ROTATED


def test_a_watch_with_nothing_pending_is_idle_and_else_goes_on() -> None:
    assert reason(done=DONE, watch=True) is Reason.IDLE_PARKED
    assert reason(done=DONE, watch=True, next_action=NONE) is Reason.IDLE_PARKED
    assert reason(done=DONE, watch=True, watch_pending=True) is Reason.ROTATED
    assert reason(done=NOT_DONE, watch=True) is Reason.ROTATED
    # idle is no empty leg: it wins over the K-th one
    assert reason(done=DONE, watch=True, empty_legs=3) is Reason.IDLE_PARKED


@pytest.mark.parametrize(
    ("empty", "limit", "expected"),
    [
        (0, 3, Reason.ROTATED),
        (2, 3, Reason.ROTATED),
        (3, 3, Reason.NO_PROGRESS),
        (4, 3, Reason.NO_PROGRESS),
        (1, 1, Reason.NO_PROGRESS),
        (99, 0, Reason.ROTATED),
    ],
)
def test_the_kth_empty_leg(empty: int, limit: int, expected: Reason) -> None:
    assert reason(empty_legs=empty, no_progress_legs=limit) is expected
    assert reason(empty_legs=empty, no_progress_legs=limit, cause=Cause.CEILING) is expected


def test_an_unsafe_empty_leg_is_parked_unsafe_and_not_no_progress() -> None:
    assert reason(tree=DIRTY, empty_legs=3, cause=Cause.AGENT_EXIT) is Reason.PARKED_UNSAFE


@pytest.mark.parametrize("cause", sorted(set(Cause) - NEVER_ROTATES))
def test_a_forced_end_at_a_safe_point_is_a_rotation(cause: Cause) -> None:
    decision = judge_end(view(cause=cause))
    assert (decision.reason, decision.cause, decision.hold) == (Reason.ROTATED, "", "")
    assert f"what ended it: {cause}" in decision.detail


@pytest.mark.parametrize("cause", sorted(NEVER_ROTATES))
def test_some_ends_park_wherever_the_tree_stands(cause: Cause) -> None:
    decision = judge_end(view(cause=cause))
    assert (decision.reason, decision.cause, decision.hold) == (Reason.PARKED_UNSAFE, str(cause), "")


@pytest.mark.parametrize("cause", sorted(CRASHES))
def test_on_crash_park_lets_no_crash_rotate(cause: Cause) -> None:
    assert reason(cause=cause) is Reason.ROTATED
    assert reason(cause=cause, crash_parks=True) is Reason.PARKED_UNSAFE
    assert reason(cause=cause, crash_parks=True, empty_legs=3) is Reason.PARKED_UNSAFE
    assert reason(cause=cause, crash_parks=True, done=DONE) is Reason.GOAL_DONE
    assert reason(cause=Cause.CEILING, crash_parks=True) is Reason.ROTATED


def test_prose_that_the_agent_believes_reached_is_asked() -> None:
    decision = judge_end(view(prose=True, agent_ended=True, next_action=NONE, cause=Cause.AGENT_EXIT))
    assert (decision.reason, decision.ask) == (Reason.ROTATED, "DONE_UNCONFIRMED")


@pytest.mark.parametrize(
    "against",
    [
        {"next_action": TWO},
        {"tree": DIRTY},
        {"tree": TreeState(operation="rebase")},
        {"verdict": REFUSES},
        {"in_flight": ("bash",)},
        {"agent_ended": False},
        {"prose": False},
        {"cause": Cause.OVERRUN},
    ],
)
def test_prose_is_asked_only_at_a_clean_end_without_next_action(against: dict[str, Any]) -> None:
    given_view: dict[str, Any] = {"prose": True, "agent_ended": True, "next_action": NONE, **against}
    decision = judge_end(view(**given_view))
    assert (decision.reason, decision.ask) == (Reason.PARKED_UNSAFE, "")


def test_prose_with_one_next_action_rotates_without_an_ask() -> None:
    decision = judge_end(view(prose=True, agent_ended=True))
    assert (decision.reason, decision.ask) == (Reason.ROTATED, "")


def test_a_failed_green_command_is_judged_where_it_would_fire_only() -> None:
    decision = judge_end(view(green_failed=True, cause=Cause.CEILING))
    assert (decision.reason, decision.hold) == (Reason.PARKED_UNSAFE, Hold.NOT_AT_SAFE_POINT)
    assert "the green command failed at this tip" in decision.detail
    assert reason(green_failed=True, done=DONE) is Reason.GOAL_DONE
    # a prose goal that is believed reached does not fire: a person is asked
    asked = judge_end(view(green_failed=True, prose=True, agent_ended=True, next_action=NONE))
    assert asked.ask == "DONE_UNCONFIRMED"
    # and it is not named where the leg would not have fired anyway
    merging = judge_end(view(green_failed=True, tree=TreeState(operation="merge"), cause=Cause.CEILING))
    assert merging.detail == ("git is in the middle of: merge",)


def test_the_strongest_hold_is_recorded_with_what_it_names() -> None:
    both = judge_end(view(tree=DIRTY, verdict=REFUSES, next_action=TWO, cause=Cause.CEILING))
    assert (both.hold, both.detail) == (Hold.TREE_DIRTY_UNPARKED, ("a.py",))
    gate_only = judge_end(view(verdict=REFUSES, cause=Cause.CEILING))
    assert gate_only.hold == Hold.NOT_EXTERNALIZED
    assert gate_only.detail[0].startswith("planted: ")


def test_an_end_that_fired_and_found_the_tree_changed_has_the_cause_agent_exit() -> None:
    assert judge_end(view(tree=DIRTY)).cause == "agent_exit"


def test_a_view_that_contradicts_itself_fails_closed() -> None:
    torn = replace(view(), tree_ok=False)
    assert judge_end(torn).hold == Hold.TREE_DIRTY_UNPARKED
    assert judge_end(replace(torn, done=DONE)).reason is Reason.PARKED_UNSAFE
    assert judge_end(replace(view(), safe=replace(view().safe, safe=False))).reason is Reason.PARKED_UNSAFE


def test_a_decision_survives_its_record() -> None:
    decision = judge_end(view(tree=DIRTY, cause=Cause.CEILING))
    assert EndDecision.from_mapping(json.loads(json.dumps(decision.as_mapping()))) == decision


@pytest.mark.parametrize(
    ("against", "made"),
    [
        ({}, True),
        ({"park": True}, False),
        ({"stop": True}, False),
        ({"envelope_spent": True}, False),
        ({"blocking_ask": True}, False),
        ({"mode": Mode.SHADOW}, False),
        ({"mode": Mode.ADVISE}, False),
    ],
)
def test_a_successor_only_after_a_rotation_that_nothing_stops(against: dict[str, Any], made: bool) -> None:
    given_end: dict[str, Any] = {
        "park": False,
        "stop": False,
        "envelope_spent": False,
        "blocking_ask": False,
        "mode": Mode.ENFORCE,
        **against,
    }
    assert has_successor(EndDecision(Reason.ROTATED), **given_end) is made
    for other in set(Reason) - {Reason.ROTATED}:
        assert not has_successor(EndDecision(other), **given_end)
    assert not has_successor(EndDecision(Reason.ROTATED, ask="DONE_UNCONFIRMED"), **given_end)


ends = st.builds(
    view,
    tree=st.sampled_from([CLEAN, DIRTY, TreeState(dirty=("a",), parked=True), TreeState(operation="merge")]),
    next_action=st.sampled_from([ONE, NONE, TWO]),
    in_flight=st.sampled_from([(), ("bash",)]),
    done=st.sampled_from([None, DONE, NOT_DONE]),
    verdict=st.sampled_from([ADMITS, REFUSES]),
    cause=st.none() | st.sampled_from(Cause),
    watch=st.booleans(),
    watch_pending=st.booleans(),
    empty_legs=st.integers(0, 4),
    no_progress_legs=st.integers(0, 3),
    agent_ended=st.booleans(),
    prose=st.booleans(),
    green_failed=st.booleans(),
    crash_parks=st.booleans(),
)


@given(ends)
def test_every_end_has_one_of_five_reasons_and_a_clean_one_is_really_clean(end: EndView) -> None:
    decision = judge_end(end)
    clean = end.tree_ok and end.gate.admit and Hold.IN_FLIGHT_TOOL_CALL not in end.safe.holds
    if decision.reason is Reason.PARKED_UNSAFE:
        assert decision.cause in set(Cause)
        assert decision.hold or end.cause in NEVER_ROTATES | CRASHES
        assert decision.hold in {"", *HOLD_ORDER}
        assert not decision.ask
    else:
        assert clean
        assert decision.reason in {Reason.GOAL_DONE, Reason.IDLE_PARKED, Reason.ROTATED, Reason.NO_PROGRESS}
        assert (decision.cause, decision.hold) == ("", "")
    if clean and end.done is DONE and not end.watch:
        assert decision.reason is Reason.GOAL_DONE
    if decision.reason in {Reason.ROTATED, Reason.NO_PROGRESS}:
        assert decision.ask or (end.safe.safe and not end.green_failed)


# --- what kept the model's answer away


@pytest.mark.parametrize("cause", sorted(GAVE_UP))
@pytest.mark.parametrize("trouble", Trouble)
def test_retries_that_are_over_park_in_plain_words_wherever_the_tree_stands(cause: Cause, trouble: Trouble) -> None:
    decision = judge_end(view(cause=cause, trouble=trouble))
    assert (decision.reason, decision.cause, decision.hold) == (Reason.PARKED_UNSAFE, cause, "")
    assert decision.detail == (f"no answer of the model: {WORDS[trouble]}",)
    held = judge_end(view(cause=cause, trouble=trouble, tree=DIRTY))
    assert held.hold == Hold.TREE_DIRTY_UNPARKED and held.detail[0] == decision.detail[0]
    assert judge_end(view(cause=cause, trouble=trouble, done=DONE)).reason is Reason.GOAL_DONE


@pytest.mark.parametrize("cause", sorted(set(Cause) - NEVER_ROTATES - GAVE_UP))
def test_any_other_end_in_back_off_is_judged_as_ever(cause: Cause) -> None:
    assert judge_end(view(cause=cause, trouble=Trouble.OVERLOAD)) == judge_end(view(cause=cause))
