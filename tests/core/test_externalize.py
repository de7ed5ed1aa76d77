"""The externalize gate and its detector."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.externalize import (
    ASK_AGAIN,
    DETECTED,
    FIXES,
    POINTER_FIXES,
    STATEMENT,
    UNREAD_TREE,
    LoadBearing,
    detect,
    ephemeral,
    gate,
)
from relays.core.pointers import Answer, Kind, Verdict
from relays.core.safepoint import TreeState
from relays.core.vocabulary import Reason

SHA = "b" * 40
VERIFIED = Answer(Verdict.VERIFIED, "the store has it")
DANGLING = Answer(Verdict.DANGLING, "the store has it not")
UNKNOWN = Answer(Verdict.UNKNOWN, "the store did not answer")


def admit(*facts: LoadBearing, answers: dict[str, Answer] | None = None) -> bool:
    return gate(facts, answers or {}, statement_required=False, statement_holds=False).admit


def backed(backing: str, durability: str = "durable") -> LoadBearing:
    return LoadBearing("the api is v2", "fact", durability, backing)


@pytest.mark.parametrize("durability", ["", "durable", "bounded", "Turn", "turn ", "TURN", "nonsense"])
def test_every_class_but_turn_is_load_bearing(durability: str) -> None:
    assert not ephemeral(durability)
    assert not admit(LoadBearing("x", durability=durability))


def test_turn_need_not_survive() -> None:
    assert ephemeral("turn")
    assert admit(LoadBearing("scratch", durability="turn"))


@pytest.mark.parametrize(("answer", "passes"), [(VERIFIED, True), (DANGLING, False), (UNKNOWN, False)])
def test_only_verified_passes(answer: Answer, passes: bool) -> None:
    verdict = gate([backed("issue:#1")], {"issue:#1": answer}, statement_required=False, statement_holds=False)
    assert verdict.admit is passes
    assert verdict.reason is (None if passes else Reason.NOT_EXTERNALIZED)
    assert verdict.facts[0][1:] == (answer.verdict, answer.evidence)


def test_an_answer_that_is_missing_is_unknown() -> None:
    verdict = gate([backed("issue:#1")], {}, statement_required=False, statement_holds=False)
    assert verdict.culprits[0].verdict is Verdict.UNKNOWN


def test_the_canonical_form_of_a_pointer_finds_its_answer() -> None:
    assert admit(backed("#1"), answers={"issue:#1": VERIFIED})
    assert admit(backed("#1"), answers={"#1": VERIFIED})


@pytest.mark.parametrize(
    "backing",
    ["", "  ", "commit:", "commit:abc", f"Commit:{SHA}", "transcript:turn-9", "file:../x", "file:/etc/passwd"],
)
def test_what_is_no_pointer_never_passes_whatever_is_answered_for_it(backing: str) -> None:
    verdict = gate([backed(backing)], {backing: VERIFIED}, statement_required=False, statement_holds=False)
    assert not verdict.admit
    assert verdict.culprits[0].verdict is None
    assert verdict.culprits[0].fix == FIXES["fact"]


def test_the_statement_is_a_culprit_of_its_own_and_stands_last() -> None:
    facts = [LoadBearing("planted")]
    missing = gate(facts, {}, statement_required=True, statement_holds=False)
    assert [culprit.label for culprit in missing.culprits] == ["planted", STATEMENT]
    assert not gate([], {}, statement_required=True, statement_holds=False).admit
    assert gate([], {}, statement_required=True, statement_holds=True).admit
    assert gate([], {}, statement_required=False, statement_holds=False).admit


def test_a_statement_admits_no_fact() -> None:
    assert not gate([LoadBearing("planted")], {}, statement_required=True, statement_holds=True).admit


@pytest.mark.parametrize(("kind", "ref"), [*zip(Kind, [SHA, "#1", "dead-end", "row-1", "src/*.py"], strict=True)])
def test_a_refusal_says_what_would_externalize_it(kind: Kind, ref: str) -> None:
    backing = f"{kind}:{ref}"
    dangling = gate([backed(backing)], {backing: DANGLING}, statement_required=False, statement_holds=False)
    assert dangling.culprits[0].fix == POINTER_FIXES[kind]
    silent = gate([backed(backing)], {backing: UNKNOWN}, statement_required=False, statement_holds=False)
    assert "store" in silent.culprits[0].fix


@pytest.mark.parametrize("kind", FIXES)
def test_every_kind_of_fact_without_a_pointer_has_its_fix(kind: str) -> None:
    verdict = gate([LoadBearing("x", kind)], {}, statement_required=False, statement_holds=False)
    assert verdict.culprits[0].fix == FIXES[kind]


def test_a_fact_given_twice_is_judged_once() -> None:
    fact = LoadBearing("planted")
    assert len(gate([fact, fact], {}, statement_required=False, statement_holds=False).culprits) == 1


def found(**traces: Any) -> tuple[LoadBearing, ...]:
    given_traces: dict[str, Any] = {
        "tree": TreeState(),
        "stashes": 0,
        "open_todos": (),
        "files_outside": (),
        "commits_off_branch": (),
        "declared": (),
        **traces,
    }
    return detect(**given_traces)


@pytest.mark.parametrize("answer", [DANGLING, UNKNOWN])
def test_work_of_earlier_legs_that_the_branch_lost_refuses(answer: Answer) -> None:
    """rules.md, Externalize gate: "commits not on the branch" are found by the detector, whoever made them."""
    (lost,) = found(cursor_lost=SHA)
    assert (lost.kind, lost.backing, lost.source) == ("cursor_lost", f"commit:{SHA}", "detected")
    verdict = gate([lost], {f"commit:{SHA}": answer}, statement_required=False, statement_holds=False)
    (culprit,) = verdict.culprits
    assert "bring the branch back" in FIXES["cursor_lost"]
    assert culprit.fix == (FIXES["cursor_lost"] if answer is DANGLING else ASK_AGAIN)


def test_every_finding_has_words() -> None:
    assert set(DETECTED) == set(FIXES) - {"fact", "decision", "open_question", "dead_end", "statement"}


def test_a_leg_without_a_trace_has_nothing_to_find() -> None:
    assert found() == ()


@pytest.mark.parametrize(
    ("traces", "kind", "label"),
    [
        ({"tree": TreeState(dirty=("a.py",))}, "dirty", "a.py"),
        ({"tree": TreeState(dirty=("a.py", "b.py"), parked=True, parked_paths=("b.py",))}, "dirty", "a.py"),
        ({"tree": TreeState(dirty=("why not",), known=False)}, "dirty", UNREAD_TREE),
        ({"tree": TreeState(parked=True, known=False)}, "dirty", UNREAD_TREE),
        ({"stashes": 1}, "stash", "1 stashed change"),
        ({"stashes": 2}, "stash", "2 stashed changes"),
        ({"open_todos": ["t1"]}, "todo", "t1"),
        ({"files_outside": ["/elsewhere/x"]}, "file_outside", "/elsewhere/x"),
        ({"commits_off_branch": [SHA]}, "commit_off_branch", SHA),
        ({"declared": [LoadBearing("use sqlite", "decision")]}, "decision", "use sqlite"),
        ({"declared": [LoadBearing("why?", "open_question", backing=" ")]}, "open_question", "why?"),
        ({"declared": [LoadBearing("no luck", "dead_end", durability="turn")]}, "dead_end", "no luck"),
    ],
)
def test_each_trace_is_found_and_refuses(traces: dict[str, Any], kind: str, label: str) -> None:
    facts = found(**traces)
    assert [(fact.label, fact.kind, fact.source) for fact in facts] == [(label, kind, "detected")]
    assert not admit(*facts)


def test_parked_work_is_stored_and_no_finding() -> None:
    assert found(tree=TreeState(dirty=("a.py",), parked=True)) == ()


def test_a_decision_with_a_pointer_is_judged_by_that_pointer() -> None:
    facts = found(declared=[LoadBearing("use sqlite", "decision", backing="ledger:row-1")])
    assert facts[0].source == "declared"
    assert admit(*facts, answers={"ledger:row-1": VERIFIED})
    assert not admit(*facts, answers={"ledger:row-1": DANGLING})


facts_lists = st.lists(
    st.builds(
        LoadBearing,
        label=st.text(max_size=5),
        kind=st.sampled_from([*FIXES, "else"]),
        durability=st.sampled_from(["turn", "durable", "", "Turn"]),
        backing=st.sampled_from(["", "issue:#1", "#1", f"commit:{SHA}", "commit:abc", "memory:m"])
        | st.text(max_size=8),
    ),
    max_size=6,
)
answer_tables = st.dictionaries(
    st.sampled_from(["issue:#1", "#1", f"commit:{SHA}", "commit:abc", "memory:m", ""]),
    st.sampled_from([VERIFIED, DANGLING, UNKNOWN]),
)


@given(facts_lists, answer_tables, st.booleans(), st.booleans())
def test_never_admits_a_load_bearing_fact_that_is_not_verified(
    facts: list[LoadBearing], answers: dict[str, Answer], required: bool, holds: bool
) -> None:
    verdict = gate(facts, answers, statement_required=required, statement_holds=holds)
    bearing = [fact for fact in dict.fromkeys(facts) if fact.durability != "turn"]
    if verdict.admit:
        assert holds or not required
        for fact in bearing:
            keys = {fact.backing, f"issue:{fact.backing}"}
            assert any(key in answers and answers[key].verdict is Verdict.VERIFIED for key in keys)
            assert fact.backing not in {"", "commit:abc"}
    else:
        assert verdict.culprits
        assert all(culprit.fix for culprit in verdict.culprits)
        assert all(culprit.verdict is not Verdict.VERIFIED for culprit in verdict.culprits)
    if bearing and not answers:
        assert not verdict.admit
    assert [fact for fact, _, _ in verdict.facts] == list(dict.fromkeys(facts))
