"""Vectors of the public reference: arming, the safe point, the gate, hysteresis, the cap, empty legs.

Every `exact` vector gives its outcome; every `spec wins` one has a test of its own that shows ours.
"""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from relays.core.boundary import BoundaryView, Green, decide
from relays.core.donewhen import DoneVerdict, Truth
from relays.core.externalize import GateVerdict, LoadBearing, ephemeral, gate
from relays.core.lifecycle import EndView, judge_end
from relays.core.pointers import Answer, Kind, PointerError, Verdict, parse_pointer
from relays.core.policy import PolicyError, build
from relays.core.progress import after_leg, count
from relays.core.rotation import (
    AxisUse,
    cap,
    ceiling_hit,
    ceiling_tokens,
    crossed,
    may_arm,
    verified_total,
)
from relays.core.safepoint import NextAction, SafePoint, TreeState, choose_next_action, judge
from relays.core.vocabulary import Cause, Hold, Mode, Reason
from tests.vectors.load import exact, vector, vectors

AREAS = (
    "arm_triggers",
    "arm_fire",
    "safe_point",
    "in_flight_guard",
    "tree_gate",
    "next_action",
    "classifier",
    "externalize_gate",
    "externalize_gate_classified",
    "hysteresis",
    "rotation_cap",
    "no_progress",
)
ONE = choose_next_action(["go on"])
NONE = choose_next_action([])
START = datetime(2026, 1, 1, tzinfo=UTC)
SHA = "a" * 40


def by_id(row: dict[str, Any]) -> str:
    return str(row["id"])


#: the `spec wins` vectors, each with the test below that shows our outcome
SPEC_WINS = {
    "axis-mark-zero": "test_a_mark_outside_its_range_is_refused_by_the_policy",
    "axis-mark-above-one": "test_a_mark_outside_its_range_is_refused_by_the_policy",
    "gate-all-backed": "test_backing_must_resolve_and_an_abbreviated_sha_does_not",
    "gate-empty-list": "test_no_facts_admit_only_with_the_statement",
    "gate-mixed-order": "test_an_abbreviated_sha_is_a_culprit_in_its_place",
    "noprogress-shrink": "test_progress_is_the_set_of_new_resolved_references",
    "cap-3": "test_the_cap_is_a_hold_of_the_vocabulary",
    "driver-exhaustion": "test_the_ceiling_is_in_tokens_and_not_in_boundaries",
    "progress-fragment": "test_a_ledger_line_is_a_pointer_that_the_gate_asks_for",
}


def test_no_vector_of_these_areas_is_left_out() -> None:
    differing = {row["id"] for area in AREAS for row in vectors(area) if row["use"].startswith("spec wins")}
    assert differing <= set(SPEC_WINS)
    assert all(vector(identifier)["use"].startswith("spec wins") for identifier in SPEC_WINS)
    assert all(callable(globals()[name]) for name in SPEC_WINS.values())
    assert all(row["use"] == "exact" or row["id"] in SPEC_WINS for area in AREAS for row in vectors(area))


# --- arm


@pytest.mark.parametrize("row", exact("arm_triggers"), ids=by_id)
def test_arm_triggers(row: dict[str, Any]) -> None:
    mark, table = row["input"]["soft_mark"], row["input"]["usage_used_cap"]
    order = ("context", "turns", "wall", "spend", "output")
    uses = [
        AxisUse(axis, number(axis)(table[axis][0]), number(axis)(table[axis][1]), mark)
        for axis in order
        if axis in table
    ]
    found = crossed(uses)
    assert (found is not None) is row["expected"]["crossed"]
    assert (found.axis if found else "") == row["expected"]["axis"]


def number(axis: str) -> type:
    return {"spend": Decimal, "wall": float}.get(axis, int)


@pytest.mark.parametrize("identifier", ["axis-mark-zero", "axis-mark-above-one"])
def test_a_mark_outside_its_range_is_refused_by_the_policy(identifier: str) -> None:
    mark = vector(identifier)["input"]["soft_mark"]
    for key in ("mark.context", "mark.turns", "mark.wall", "mark.spend", "mark.output_tokens"):
        with pytest.raises(PolicyError, match=key):
            build({}, None, {key: mark})


def at_boundary(armed: bool, is_crossed: bool, is_safe: bool) -> BoundaryView:
    """A boundary of an enforced leg with the gate passed, where only these three differ."""
    tree = TreeState() if is_safe else TreeState(dirty=("a.py",))
    return BoundaryView(
        mode=Mode.ENFORCE,
        armed=armed,
        crossed=AxisUse("context", 60, 100, 0.5) if is_crossed else None,
        may_arm=True,
        in_flight=frozenset(),
        tree=tree,
        safe=judge((), tree, ONE),
        gate=GateVerdict(True),
        done=None,
        watch_quiet=None,
        ceiling=False,
        draining="",
        drain_over=False,
        cap=cap([], START, 0),
        green=Green.NONE,
        final=False,
        told=False,
    )


@pytest.mark.parametrize("row", exact("arm_fire"), ids=by_id)
def test_arm_fire(row: dict[str, Any]) -> None:
    armed, states, reasons = False, [], []
    for is_crossed, is_safe in row["input"]["steps"]:
        decision = decide(at_boundary(armed, is_crossed, is_safe))
        armed = decision.armed
        states.append("fired" if decision.end else "armed" if armed else "disarmed")
        reasons.append(str(safe_end(1, 3)) if decision.end else str(Reason.ARMED) if armed else "")
    assert states == row["expected"]["states"]
    if "reasons" in row["expected"]:
        assert reasons == row["expected"]["reasons"]
    else:
        assert set(reasons) == {row["expected"]["reason"]}


# --- safe point


def point(no_in_flight: bool, green: bool, expressible: bool) -> SafePoint:
    tree = TreeState() if green else TreeState(dirty=("a.py",))
    return judge(() if no_in_flight else ("bash",), tree, ONE if expressible else NONE)


@pytest.mark.parametrize("row", exact("safe_point"), ids=by_id)
def test_safe_point(row: dict[str, Any]) -> None:
    given = row["input"]
    judged = point(given["no_in_flight_turn"], given["tree_green_or_parked"], given["next_action_expressible"])
    assert judged.safe is row["expected"]["safe"]
    assert judged.safe is (judged.hold is None)


@pytest.mark.parametrize("row", exact("in_flight_guard"), ids=by_id)
def test_in_flight_guard(row: dict[str, Any]) -> None:
    """The first axis, an agent's word that nothing is in flight, is never asked: the live stream is."""
    _, green, expressible = row["input"]["axes"]
    # a tree that is not at a committable boundary with no path to name: git in mid-operation
    tree = TreeState() if green else TreeState(operation="merge")
    in_flight = ("bash",) if row["input"]["turn_in_flight"] else ()
    judged = judge(in_flight, tree, ONE if expressible else NONE)
    assert judged.safe is row["expected"]["permit"]
    assert str(judged.hold or "") == row["expected"]["reason"]


@pytest.mark.parametrize("row", exact("tree_gate"), ids=by_id)
def test_tree_gate(row: dict[str, Any]) -> None:
    dirty, parked = tuple(row["input"]["dirty"]), tuple(row["input"]["parked"])
    tree = TreeState(dirty=dirty, parked=bool(parked), parked_paths=parked)
    assert tree.green_or_parked is row["expected"]["green_or_parked"]
    assert str(judge((), tree, ONE).hold or "") == row["expected"].get("reason", "")


@pytest.mark.parametrize("row", exact("next_action"), ids=by_id)
def test_next_action(row: dict[str, Any]) -> None:
    chosen: NextAction = choose_next_action(row["input"]["candidates"])
    assert (chosen.text is not None) is row["expected"]["expressible"]
    assert (chosen.text or "") == row["expected"].get("next_action", "")
    assert str(chosen.hold or "") == row["expected"].get("reason", "")


# --- gate


@pytest.mark.parametrize("row", exact("classifier"), ids=by_id)
def test_classifier(row: dict[str, Any]) -> None:
    found = "ephemeral" if ephemeral(row["input"]["durability"]) else "load_bearing"
    assert found == row["expected"]["class"]


def facts(row: dict[str, Any]) -> list[LoadBearing]:
    return [
        LoadBearing(
            fact["label"],
            durability=fact.get("durability", ""),
            backing=f"{fact['kind']}:{fact['ref']}" if fact["kind"] or fact["ref"] else "",
        )
        for fact in row["input"]["facts"]
    ]


def everything_resolves(declared: list[LoadBearing]) -> dict[str, Answer]:
    """The kindest stores there are: they say `verified` to whatever is asked."""
    return {fact.backing: Answer(Verdict.VERIFIED, "the store has it") for fact in declared}


def judged(declared: list[LoadBearing], answers: dict[str, Answer] | None = None) -> GateVerdict:
    answers = everything_resolves(declared) if answers is None else answers
    return gate(declared, answers, statement_required=False, statement_holds=False)


@pytest.mark.parametrize("row", [*exact("externalize_gate"), *exact("externalize_gate_classified")], ids=by_id)
def test_externalize_gate(row: dict[str, Any]) -> None:
    verdict = judged(facts(row))
    assert verdict.admit is row["expected"]["admit"]
    assert str(verdict.reason or "") == row["expected"]["reason"]
    assert [culprit.label for culprit in verdict.culprits] == row["expected"]["culprits"]


def test_backing_must_resolve_and_an_abbreviated_sha_does_not() -> None:
    """gate-all-backed. Theirs admits on the form of a pointer alone; ours asks the store, and `abc` is no SHA."""
    declared = facts(vector("gate-all-backed"))
    assert [culprit.label for culprit in judged(declared).culprits] == ["a"]
    whole = [LoadBearing("a", backing=f"commit:{SHA}"), *declared[1:]]
    assert judged(whole).admit
    for verdict in (Verdict.DANGLING, Verdict.UNKNOWN):
        silent = {fact.backing: Answer(verdict, "no") for fact in whole}
        assert [culprit.label for culprit in judged(whole, silent).culprits] == ["a", "b", "c", "d", "e"]
    assert not judged(whole, {}).admit


def test_no_facts_admit_only_with_the_statement() -> None:
    """gate-empty-list. Nothing declared leaves no pointer to resolve; a leg that is armed must also say so."""
    declared = facts(vector("gate-empty-list"))
    assert judged(declared).admit
    assert not gate(declared, {}, statement_required=True, statement_holds=False).admit
    assert gate(declared, {}, statement_required=True, statement_holds=True).admit


def test_an_abbreviated_sha_is_a_culprit_in_its_place() -> None:
    """gate-mixed-order. Theirs names z and a; ours names the fact with the abbreviated SHA between them too."""
    assert [culprit.label for culprit in judged(facts(vector("gate-mixed-order"))).culprits] == ["z", "ok", "a"]


def test_a_ledger_line_is_a_pointer_that_the_gate_asks_for() -> None:
    """progress-fragment. Theirs opens a file of the name `…#L12`; ours reads path and line apart."""
    backing = "ledger:" + vector("progress-fragment")["expected"]["file_opened"]
    assert parse_pointer(backing).kind is Kind.LEDGER
    declared = [LoadBearing("twelve items are done", backing=backing)]
    assert judged(declared).admit
    assert judged(declared, {}).culprits[0].verdict is Verdict.UNKNOWN
    with pytest.raises(PointerError):
        parse_pointer(backing.replace("#L12", "#twelve"))


# --- hysteresis and cap


@pytest.mark.parametrize("row", exact("hysteresis"), ids=by_id)
def test_hysteresis(row: dict[str, Any]) -> None:
    armed, baseline, closed, admitted = 0, 0, 0, []
    baseline_after_unknown: int | None = None
    for step in row["input"]["sequence"]:
        steps = step.get("steps")  # of the relay in all; absent where the reader's verdict is unknown
        total = verified_total(closed, None if steps is None else steps - closed)
        admitted.append(may_arm(armed, total - baseline, row["input"]["min_steps"]))
        if step.get("then_note_armed") or step.get("then_note_armed_anyway"):
            armed, baseline = armed + 1, total
            if steps is None:
                baseline_after_unknown = baseline
        closed = total
    assert admitted == row["expected"]["may_arm"]
    assert baseline_after_unknown == row["expected"].get("baseline_after_unknown_note")


def admissions(row: dict[str, Any]) -> tuple[list[bool], list[datetime]]:
    entries: list[datetime] = []
    admitted = []
    for second in row["input"]["times_s"]:
        now = START + timedelta(seconds=second)
        verdict = cap(entries, now, row["input"]["max_per_hour"])
        admitted.append(verdict.admit)
        if verdict.admit:  # a refused rotation is not recorded
            entries.append(now)
    return admitted, entries


@pytest.mark.parametrize("row", exact("rotation_cap"), ids=by_id)
def test_rotation_cap(row: dict[str, Any]) -> None:
    admitted, entries = admissions(row)
    assert admitted == row["expected"]["admit"]
    if "count_after" in row["expected"]:
        last = START + timedelta(seconds=row["input"]["times_s"][-1])
        assert cap(entries, last, row["input"]["max_per_hour"]).used == row["expected"]["count_after"]


def test_the_cap_is_a_hold_of_the_vocabulary() -> None:
    """cap-3. The same admissions; the word is ROTATION_CAPPED, and theirs is none of ours."""
    row = vector("cap-3")
    admitted, entries = admissions(row)
    assert admitted == row["expected"]["admit"]
    assert cap(entries, START + timedelta(seconds=1800), 3).next_at == START + timedelta(seconds=3600)
    assert str(Hold.ROTATION_CAPPED) == "ROTATION_CAPPED"
    assert row["expected"]["refusal"] not in set(Hold)


# --- empty legs, and the end of a leg


def safe_end(empty_legs: int, limit: int) -> Reason:
    return judge_end(
        EndView(
            done=DoneVerdict(Truth.FALSE, (), False),
            watch=False,
            watch_pending=False,
            safe=judge((), TreeState(), ONE),
            gate=GateVerdict(True),
            tree_ok=True,
            empty_legs=empty_legs,
            no_progress_legs=limit,
            cause=None,
            agent_ended=False,
            prose=False,
        )
    ).reason


def halts(progress: list[int | None], limit: int) -> list[bool]:
    run, found = 0, []
    for steps in progress:
        run = after_leg(run, steps)
        found.append(safe_end(run, limit) is Reason.NO_PROGRESS)
    return found


@pytest.mark.parametrize("row", exact("no_progress"), ids=by_id)
def test_no_progress(row: dict[str, Any]) -> None:
    legs = row["input"].get("legs_verified_steps", row["input"].get("legs"))
    progress = [None if steps == "unknown" else steps for steps in legs]
    assert halts(progress, row["input"]["max_empty"]) == row["expected"]["halt"]
    if row["expected"].get("reason"):
        assert row["expected"]["reason"] == str(Reason.NO_PROGRESS)


def test_progress_is_the_set_of_new_resolved_references() -> None:
    """noprogress-shrink. Theirs keeps a high-water mark of a count; ours counts references that are new."""
    row = vector("noprogress-shrink")
    references = [f"issue:#{number}" for number in range(1, 10)]
    seen: set[str] = set()
    progress: list[int | None] = []
    for size in row["input"]["legs_verified_steps"]:
        rows = [(f"row-{ref}", [ref], True) for ref in references[:size]]
        counted = count(
            [],
            region=("**",),
            tip_tree="t",
            cursor_trees=(),
            prior_patch_ids=(),
            prior_shas=(),
            issues_closed=(),
            ledger_rows=rows,
            prior_refs=seen,
        )
        progress.append(counted.total)
        seen |= {ref for _, refs, _ in rows for ref in refs}
    assert progress == [3, 0, 0]
    assert halts(progress, row["input"]["max_empty"]) == row["expected"]["halt"]
    # a high-water mark would call one new reference in a shorter ledger no progress; it is progress here
    fresh = count(
        [],
        region=("**",),
        tip_tree="t",
        cursor_trees=(),
        prior_patch_ids=(),
        prior_shas=(),
        issues_closed=(),
        ledger_rows=[("row-new", ["issue:#99"], True)],
        prior_refs=seen,
    )
    assert fresh.total == 1


def test_the_ceiling_is_in_tokens_and_not_in_boundaries() -> None:
    """driver-exhaustion. Theirs parks after three boundaries; ours at the first one that reaches the ceiling."""
    row = vector("driver-exhaustion")
    used, window = row["input"]["every_boundary"]["context"]
    ceiling = ceiling_tokens(build({}, None, {}), window)
    assert ceiling_hit(used, 0, 0, 0, ceiling)
    assert not any(ceiling_hit(used - 1, 0, 0, 0, ceiling) for _ in range(row["input"]["max_boundaries"] + 1))
    end = judge_end(
        EndView(
            done=None,
            watch=False,
            watch_pending=False,
            safe=judge(("bash",), TreeState(), ONE),
            gate=GateVerdict(True),
            tree_ok=True,
            empty_legs=0,
            no_progress_legs=3,
            cause=Cause.CEILING,
            agent_ended=False,
            prose=False,
        )
    )
    assert str(end.reason) == row["expected"]["reason"]
    assert (end.cause, end.hold) == ("ceiling", str(Hold.IN_FLIGHT_TOOL_CALL))
