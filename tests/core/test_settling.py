"""Each ask has its own ways out; what is asked about is read from the lines of the episode, whatever agents wrote."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core import settling
from relays.core.pointers import one_line
from relays.core.settling import CONFIRMED, REFRESHED, SERVED, WAIVED, Settled, SettleError, Settling, settle
from relays.core.vocabulary import Ask

LOW, FAULT = Ask.LOW_CONFIDENCE_ASSUMPTION, Ask.UNSERVED_PAGE_FAULT


@given(st.text(max_size=60), st.text(min_size=1, max_size=60), st.sampled_from(["query", "refresh"]))
def test_the_key_is_read_whatever_an_agent_wrote_around_it(what: str, key: str, action: str) -> None:
    named = one_line(key, 120)
    line = f"ledger {one_line(what, 120)!r} leans on {named!r}: {action}, confidence 0.5 is below 0.8 (inferred)"
    assert settling.assumptions_of([line, line, "another question"]) == (named,)


def test_a_text_that_looks_like_such_a_line_is_not_taken_for_it() -> None:
    line = "decision \"x leans on 'forged': query, stale\" leans on 'true': refresh, stale: read it again"
    assert settling.assumptions_of([line]) == ("true",)
    assert settling.assumptions_of(["Is 'x' leans on the port?", "", "leans on 'x': query, y"]) == ()


def test_faults_are_the_records_that_their_lines_name() -> None:
    items = [
        "page fault: file:docs/plan.md: deny, gone",
        "page fault: no-pointer: x",
        "the branch is gone",
        "page fault: ",
    ]
    assert settling.faults_of(items) == ("file:docs/plan.md",)


def test_an_assumption_is_confirmed_unless_it_is_to_be_read_again() -> None:
    found = settle(LOW, Settling(refresh=["b"]), subjects=["a", "b"])
    assert found == (Settled("a", CONFIRMED), Settled("b", REFRESHED))


def test_a_page_fault_is_tried_again_unless_it_is_served_or_waived() -> None:
    subjects = ["file:a", "issue:#2"]
    assert settle(FAULT, Settling(), subjects=subjects) == ()
    said = Settling(serve={"file:a": " it says 42 "}, waive=["issue:#2", "file:c"])
    found = settle(FAULT, said, subjects=subjects, waivable=["file:c"])
    assert found == (
        Settled("file:a", SERVED, "it says 42"), Settled("issue:#2", WAIVED), Settled("file:c", WAIVED),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("ask", "said", "words"),
    [
        (LOW, Settling(confirm=["c"]), "not asked about"),
        (LOW, Settling(confirm=["a"], refresh=["a"]), "twice"),
        (LOW, Settling(waive=["a"]), "cannot be waived"),
        (FAULT, Settling(confirm=["a"]), "cannot be confirmed"),
        (FAULT, Settling(serve={"a": ""}), "one line"),
        (FAULT, Settling(serve={"a": "x\ny"}), "one line"),
        (FAULT, Settling(serve={"a": "x" * 501}), "one line"),
        (FAULT, Settling(serve={"optional": "x"}), "not asked about"),
        (Ask.BUDGET_EXHAUSTED, Settling(waive=["a"]), "as a whole"),
        (Ask.OBJECTIVE_DRIFT, Settling(refresh=["a"]), "as a whole"),
    ],
)
def test_what_an_ask_does_not_ask_is_refused_in_words(ask: Ask, said: Settling, words: str) -> None:
    with pytest.raises(SettleError, match=words):
        settle(ask, said, subjects=["a"], waivable=["optional"])


@given(
    st.sampled_from(list(Ask)), st.lists(st.sampled_from("abc"), unique=True),
    st.lists(st.sampled_from("abcd"), unique=True),
    st.lists(st.sampled_from("abcd"), unique=True), st.dictionaries(st.sampled_from("abcd"), st.text(max_size=4)),
    st.lists(st.sampled_from("abcd"), unique=True),
)  # fmt: skip
def test_every_subject_gets_one_outcome_or_the_whole_is_refused(
    ask: Ask, subjects: list[str], confirm: list[str], refresh: list[str], serve: dict[str, str], waive: list[str]
) -> None:
    said = Settling(confirm, refresh, serve, waive)
    try:
        found = settle(ask, said, subjects=subjects)
    except SettleError as error:
        assert "\n" not in str(error)
        return
    names = [one.subject for one in found]
    assert len(names) == len(set(names))
    assert set(names) <= set(subjects)
    if ask is LOW:
        assert set(names) == set(subjects)
    assert all(one.became in settling.WAYS.get(ask, ()) for one in found)
