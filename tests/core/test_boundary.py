"""The one decision at a boundary: every combination of what it is judged by, and the sentences it must keep."""

from dataclasses import replace
from datetime import UTC, datetime
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core.boundary import BoundaryDecision, BoundaryView, Green, Step, decide, owes_statement
from relays.core.donewhen import DoneVerdict, Truth
from relays.core.externalize import Culprit, GateVerdict
from relays.core.rotation import AxisUse, CapVerdict
from relays.core.safepoint import NextAction, SafePoint, TreeState, choose_next_action, judge
from relays.core.vocabulary import Cause, Hold, Mode

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
CROSSED = AxisUse("context", 130_000, 200_000, 0.6)
REFUSES = GateVerdict(False, (Culprit("a plan", "", None, "commit it"),))
ADMITS = GateVerdict(True)
CAPPED = CapVerdict(False, 6, 6, NOW)
FREE = CapVerdict(True, 0, 6, None)
STRENGTH = list(Hold)

TREES = [
    TreeState(),
    TreeState(dirty=("a.txt",)),
    TreeState(dirty=("a.txt",), parked=True),
    TreeState(operation="rebase"),
    TreeState(dirty=("cannot be read",), known=False),
]
ACTIONS: list[tuple[str, ...]] = [(), ("Go on.",), ("Go on.", "Go back.")]
DONE = [None, *(DoneVerdict(truth, (), False) for truth in Truth)]


def view(
    *,
    tree: TreeState = TREES[0],
    in_flight: frozenset[str] = frozenset(),
    actions: tuple[str, ...] = ("Go on.",),
    **given_values: object,
) -> BoundaryView:
    safe: SafePoint = judge(in_flight, tree, choose_next_action(actions))
    values: dict[str, object] = {
        "mode": Mode.ENFORCE,
        "armed": False,
        "crossed": None,
        "may_arm": True,
        "gate": ADMITS,
        "done": None,
        "watch_quiet": None,
        "ceiling": False,
        "draining": "",
        "drain_over": False,
        "cap": FREE,
        "green": Green.NONE,
        "final": False,
        "told": False,
        **given_values,
    }
    return BoundaryView(in_flight=in_flight, tree=tree, safe=safe, **values)  # type: ignore[arg-type]


AXES: dict[str, list[object]] = {
    "tree": list(TREES),
    "in_flight": [frozenset(), frozenset({"shell"})],
    "actions": list(ACTIONS),
    "mode": [*Mode, Mode.ENFORCE, Mode.ENFORCE],
    "armed": [False, True],
    "crossed": [None, CROSSED],
    "may_arm": [False, True],
    "gate": [ADMITS, REFUSES],
    "done": list(DONE),
    "watch_quiet": [None, True, False],
    "ceiling": [False, False, False, True],
    "draining": ["", "park", "stop", "envelope", "shutdown"],
    "drain_over": [False, True],
    "cap": [FREE, CAPPED],
    "green": list(Green),
    "final": [False, True],
    "told": [False, True],
}


def nth(number: int) -> BoundaryView:
    """The view with that number among all combinations: one draw, and every one can be reached."""
    values: dict[str, object] = {}
    for name, choices in AXES.items():
        number, place = divmod(number, len(choices))
        values[name] = choices[place]
    values["drain_over"] = bool(values["drain_over"]) and values["draining"] == "envelope"
    return view(**values)  # type: ignore[arg-type]


def views() -> st.SearchStrategy[BoundaryView]:
    return st.integers(0, prod(len(choices) for choices in AXES.values()) - 1).map(nth)


def stands(one: BoundaryView) -> bool:
    return one.safe.safe and one.gate.admit


def is_done(one: BoundaryView) -> bool:
    return one.done is not None and one.done.truth is Truth.TRUE


properties = settings(max_examples=400, deadline=None)


@properties
@given(views())
def test_shadow_and_advise_never_stop_a_leg_of_themselves(one: BoundaryView) -> None:
    decision = decide(one)
    if one.mode is not Mode.ENFORCE and not one.draining and not one.final:
        assert decision.step in (Step.GO, Step.WIND_DOWN) and not decision.end
        assert set(decision.would) == {"step", "hold", "end", "cause"}, "what enforce would have done is kept"


@properties
@given(views())
def test_shadow_answers_go_and_nothing_else_while_the_agent_works(one: BoundaryView) -> None:
    decision = decide(one)
    if one.mode is Mode.SHADOW and not one.draining:
        assert decision.answer == "go" or (one.final and decision.end)


@properties
@given(views())
def test_what_shadow_and_advise_would_have_done_is_what_enforce_does(one: BoundaryView) -> None:
    decision = decide(one)
    if decision.would:
        enforced = decide(BoundaryView(**{**{n: getattr(one, n) for n in one.__slots__}, "mode": Mode.ENFORCE}))
        assert decision.would == {
            "step": enforced.step,
            "hold": enforced.hold or "",
            "end": enforced.end,
            "cause": enforced.cause or "",
        }
        assert (decision.hold, decision.armed) == (enforced.hold, enforced.armed)
        assert decision.needs_green == enforced.needs_green, "what enforce would do hangs on it"


@properties
@given(views())
def test_what_acts_in_every_mode_acts_as_in_enforce_below_the_ceiling(one: BoundaryView) -> None:
    """rules.md, Advisory before enforcement: "envelope … and a person's park and stop always act"."""
    if one.draining or one.final:
        enforced = decide(replace(one, mode=Mode.ENFORCE, ceiling=False))
        if one.draining or enforced.end:
            assert decide(replace(one, mode=Mode.SHADOW)) == decide(replace(one, mode=Mode.ADVISE)) == enforced


@properties
@given(views())
def test_advise_tells_whatever_enforce_does_not_let_pass(one: BoundaryView) -> None:
    """rules.md, Advisory before enforcement: "advise answers `wind_down <HOLD>`, shadow `go`", also at the ceiling."""
    told, enforced = decide(replace(one, mode=Mode.ADVISE)), decide(replace(one, mode=Mode.ENFORCE))
    if told.would:
        held = f" {enforced.hold}" if enforced.hold else ""
        assert told.answer == ("go" if enforced.step is Step.GO else f"wind_down{held}")
        assert decide(replace(one, mode=Mode.SHADOW)).answer == "go"


@properties
@given(views())
def test_armed_is_sticky_and_comes_only_from_a_crossed_axis(one: BoundaryView) -> None:
    decision = decide(one)
    assert decision.armed == (one.armed or (one.crossed is not None and one.may_arm))


@properties
@given(views())
def test_an_end_that_nothing_forces_has_a_safe_point_and_the_gate_or_is_done(one: BoundaryView) -> None:
    decision = decide(one)
    if decision.end and decision.cause is None:
        fires = stands(one) and (decision.armed or bool(one.draining))
        done = is_done(one) and one.gate.admit and one.tree.green_or_parked and not one.in_flight
        assert fires or done


@properties
@given(views())
def test_what_fires_has_its_green_answer_and_below_a_drain_its_cap(one: BoundaryView) -> None:
    decision = decide(one)
    if decision.end and decision.cause is None and not is_done(one):
        assert one.green in (Green.NONE, Green.PASSED)
        assert one.cap.admit or one.final or one.draining


@properties
@given(views())
def test_no_model_call_passes_the_ceiling(one: BoundaryView) -> None:
    decision = decide(one)
    if one.ceiling and one.mode is Mode.ENFORCE:
        assert decision.end or decision.step is Step.WAIT
        assert (decision.step is Step.WAIT) == bool(one.in_flight)
        assert decision.cause is Cause.CEILING


@properties
@given(views())
def test_the_hold_is_the_strongest_of_those_that_hold(one: BoundaryView) -> None:
    decision = decide(one)
    if decision.hold is None or decision.end:
        return
    holds = set(one.safe.holds) | (set() if one.gate.admit else {Hold.NOT_EXTERNALIZED})
    assert all(STRENGTH.index(decision.hold) <= STRENGTH.index(hold) for hold in holds)
    assert decision.hold in holds | {Hold.HYSTERESIS, Hold.ROTATION_CAPPED, Hold.NOT_AT_SAFE_POINT}


@properties
@given(views())
def test_a_boundary_that_holds_says_why_and_one_that_goes_on_is_answered(one: BoundaryView) -> None:
    decision = decide(one)
    if decision.step is Step.WIND_DOWN and one.mode is Mode.ENFORCE:
        assert decision.hold is not None and decision.answer == f"wind_down {decision.hold}"
    if decision.end:
        assert decision.step is Step.STOP
    assert "\n" not in decision.answer


@properties
@given(views())
def test_an_agent_that_offers_its_end_is_told_what_holds_once_and_then_let_go(one: BoundaryView) -> None:
    decision = decide(one)
    if one.final and one.told and one.mode is Mode.ENFORCE:
        assert decision.end or decision.step is Step.WAIT


@properties
@given(views())
def test_a_spent_envelope_ends_or_waits_for_running_tools(one: BoundaryView) -> None:
    decision = decide(one)
    if one.drain_over:
        assert decision.end or decision.step is Step.WAIT


# --- single sentences


def test_arming_and_firing_may_happen_at_one_boundary() -> None:
    decision = decide(view(crossed=CROSSED))
    assert decision == BoundaryDecision(Step.STOP, True, None, end=True)


@pytest.mark.parametrize("armed", [False, True])
def test_a_boundary_has_its_hold_whether_armed_or_not_and_none_where_nothing_holds(armed: bool) -> None:
    """rules.md, Reason tokens: "One at most per boundary, armed or not; a boundary without a hold records none"."""
    assert decide(view(armed=armed)).hold is None
    assert decide(view(armed=armed, tree=TREES[1], actions=())).hold is Hold.TREE_DIRTY_UNPARKED
    assert decide(view(armed=armed, gate=REFUSES)).hold is Hold.NOT_EXTERNALIZED


def test_a_leg_below_its_marks_goes_on_though_it_is_safe() -> None:
    assert decide(view()).answer == "go"


def test_hysteresis_is_recorded_and_the_leg_works_on() -> None:
    decision = decide(view(crossed=CROSSED, may_arm=False))
    assert (decision.answer, decision.hold, decision.armed) == ("go", Hold.HYSTERESIS, False)


def test_a_capped_leg_below_the_ceiling_works_on() -> None:
    decision = decide(view(armed=True, cap=CAPPED))
    assert (decision.answer, decision.end) == ("wind_down ROTATION_CAPPED", False)


def test_the_cap_is_the_stronger_hold_and_spares_the_green_command() -> None:
    """rules.md, Reason tokens: "strongest first: … `ROTATION_CAPPED`, `NOT_AT_SAFE_POINT`"."""
    for answer in (Green.FAILED, Green.NOT_KNOWN):
        decision = decide(view(armed=True, cap=CAPPED, green=answer))
        assert (decision.hold, decision.needs_green) == (Hold.ROTATION_CAPPED, False)


def test_an_agent_that_ends_at_the_ceiling_of_a_watched_leg_ended_by_itself() -> None:
    for mode in (Mode.SHADOW, Mode.ADVISE):
        decision = decide(view(mode=mode, ceiling=True, final=True))
        assert (decision.end, decision.cause) == (True, Cause.AGENT_EXIT)


def test_a_drain_of_a_watched_leg_goes_on_to_its_safe_point_past_the_ceiling() -> None:
    held = decide(view(mode=Mode.SHADOW, ceiling=True, draining="park", tree=TREES[1]))
    assert (held.answer, held.end) == ("wind_down TREE_DIRTY_UNPARKED", False)
    assert decide(view(mode=Mode.SHADOW, ceiling=True, draining="park")).end


@pytest.mark.parametrize("draining", ["park", "stop", "envelope", "shutdown"])
def test_who_owes_the_statement_of_the_gate(draining: str) -> None:
    """rules.md, Externalize gate: "A leg that is armed or draining must have said `externalized`" """
    for mode in Mode:
        assert owes_statement(mode, armed=False, draining=draining), "a drain is told in every mode"
        assert not owes_statement(mode, armed=False, draining="")
        assert not owes_statement(mode, armed=False, draining="ceiling"), "nothing was told before it waits"
        assert owes_statement(mode, armed=True, draining="") == (mode is not Mode.SHADOW), "never told in shadow"


def test_neither_cap_nor_hysteresis_holds_an_agent_that_ends_by_itself() -> None:
    assert decide(view(armed=True, cap=CAPPED, final=True)).end
    assert decide(view(crossed=CROSSED, may_arm=False, final=True)).end


def test_a_drain_needs_a_safe_point_and_the_gate_but_neither_mark_nor_cap() -> None:
    decision = decide(view(draining="park", cap=CAPPED))
    assert decision.end and decision.cause is None
    held = decide(view(draining="park", tree=TREES[1], crossed=CROSSED, may_arm=False))
    assert (held.answer, held.end) == ("wind_down TREE_DIRTY_UNPARKED", False)


def test_a_drain_waits_for_the_green_command_too() -> None:
    for answer in (Green.FAILED, Green.NOT_KNOWN):
        decision = decide(view(draining="park", green=answer))
        assert (decision.answer, decision.end) == ("wind_down NOT_AT_SAFE_POINT", False)
        assert decision.needs_green == (answer is Green.NOT_KNOWN)


def test_green_is_judged_only_where_it_would_fire() -> None:
    assert decide(view(green=Green.FAILED)).hold is None
    assert decide(view(armed=True, tree=TREES[1], green=Green.NOT_KNOWN)).needs_green is False
    assert decide(view(armed=True, green=Green.NOT_KNOWN)).needs_green is True


def test_done_needs_no_next_action_but_the_tree_and_the_gate() -> None:
    done = DoneVerdict(Truth.TRUE, (), False)
    assert decide(view(done=done, actions=())).end
    assert not decide(view(done=done, tree=TREES[1])).end
    assert not decide(view(done=done, gate=REFUSES)).end
    assert not decide(view(done=done, in_flight=frozenset({"shell"}))).end
    assert not decide(view(done=DoneVerdict(Truth.UNKNOWN, (), False))).end


def test_the_ceiling_waits_for_running_tools() -> None:
    decision = decide(view(ceiling=True, in_flight=frozenset({"shell"})))
    assert (decision.step, decision.hold, decision.end) == (Step.WAIT, Hold.IN_FLIGHT_TOOL_CALL, False)


def test_advise_tells_and_shadow_does_not() -> None:
    held = {"armed": True, "tree": TREES[1]}
    assert decide(view(mode=Mode.ADVISE, **held)).answer == "wind_down TREE_DIRTY_UNPARKED"
    assert decide(view(mode=Mode.SHADOW, **held)).answer == "go"
    assert decide(view(mode=Mode.SHADOW, final=True, tree=TREES[1])).answer == "go"


def test_no_next_action_is_named_with_its_candidates() -> None:
    offered: NextAction = choose_next_action(ACTIONS[2])
    decision = decide(view(armed=True, actions=ACTIONS[2]))
    assert decision.hold is Hold.AMBIGUOUS_NEXT_ACTION and decision.detail == offered.candidates


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=12))
def test_armed_is_sticky_and_phases_only_go_forward(steps: list[tuple[bool, bool]]) -> None:
    """One leg, boundary after boundary: (a mark is crossed, the safe point holds)."""
    armed = False
    for number, (is_crossed, is_safe) in enumerate(steps):
        decision = decide(
            view(armed=armed, crossed=CROSSED if is_crossed else None, tree=TREES[0] if is_safe else TREES[1])
        )
        assert decision.armed == any(crossed for crossed, _ in steps[: number + 1])
        assert decision.end == (decision.armed and is_safe)
        if decision.end:
            return
        armed = decision.armed


def test_an_end_that_an_agent_offers_waits_for_the_green_command() -> None:
    """rules.md, done_when: "`green` and the cap are judged only where it would fire": at an agent's own end, too."""
    for answer in (Green.FAILED, Green.NOT_KNOWN):
        held = decide(view(final=True, green=answer))
        assert (held.answer, held.end) == ("wind_down NOT_AT_SAFE_POINT", False)
        assert decide(view(final=True, green=answer, told=True)).end, "told once"
    assert decide(view(final=True, green=Green.PASSED)).end
