import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.residency import (
    Fault,
    FaultOutcome,
    FaultTally,
    PlanRefused,
    Span,
    decide_fault_of,
    judge_fault,
    plan,
    state_of,
    tally_faults,
)
from relays.core.vocabulary import Ask

D = "d" * 64


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Fault("gone", True, True, "durable"), "deny"),
        (Fault("tombstoned", False), "continue_with_pointer"),
        (Fault("what?", True, True), "deny"),
        (Fault("live", False, False, "durable"), "query_user"),
        (Fault("live", False, True, "bounded"), "continue_with_pointer"),
        (Fault("live", False, True, "durable"), "continue_with_pointer"),
        (Fault("live", False, True, "no such class"), "page_in"),
        (Fault("live", True, True, "durable"), "page_in"),
        (Fault("live", True, True, "durable", kind="transcript"), "deny"),
        (Fault("live", False, True, "durable", kind="turn"), "deny"),
    ],
)
def test_one_page_fault(fault, outcome):
    assert judge_fault(fault).outcome == outcome


def test_a_required_record_that_cannot_come_is_asked_for():
    assert judge_fault(Fault("gone", True)).ask is Ask.UNSERVED_PAGE_FAULT
    assert judge_fault(Fault("live", True)).ask is Ask.UNSERVED_PAGE_FAULT
    assert judge_fault(Fault("gone", False)).ask is None
    assert judge_fault(Fault("live", True, kind="transcript")).ask is None


def test_nothing_that_did_not_answer_is_served():
    for verdict, required, durability in itertools.product(
        ["dangling", "unknown", "?"], [True, False], ["turn", "durable"]
    ):
        payload = {"kind": "memory", "ref": "x", "required": required, "durability": durability}
        assert decide_fault_of(payload, verdict) is not FaultOutcome.PAGE_IN
    assert decide_fault_of({"kind": "memory", "ref": "x", "required": True, "durability": "turn"}) == "deny"
    assert (
        decide_fault_of({"kind": "memory", "ref": "x", "required": True, "durability": "turn"}, "verified") == "page_in"
    )


def test_states_follow_verdicts():
    assert [state_of(verdict) for verdict in ("verified", "dangling", "unknown", "")] == [
        "live",
        "gone",
        "unknown",
        "unknown",
    ]


def test_served_and_refused():
    found = [("page_in", 1), ("deny", 1), ("query_user", 3), ("continue_with_pointer", 5), ("page_in", 2)]
    assert tally_faults(found) == FaultTally(3, 4)
    assert tally_faults([]) == FaultTally(0, 0)


SPANS = [
    Span("pin", 1, "seed", D),
    Span("ledger:r1", 1, "recalled", D),
    Span("turn-1", 1, "turn", D),
    Span("0/turn-1", 0, "turn", D),
]


def test_a_legs_own_spans_stay_until_it_closes():
    view = plan(SPANS, open_leg=1)
    assert [span.id for span in view.selected] == ["pin", "ledger:r1", "turn-1"]
    assert [(one.id, one.digest, one.reason) for one in view.elided] == [("0/turn-1", D, "leg 0 closed")]
    closed = plan(SPANS, open_leg=None)
    assert closed.selected == ()
    assert [one.id for one in closed.elided] == [span.id for span in SPANS]


@pytest.mark.parametrize(
    ("id_", "digest"), [("", D), (" ", D), ("x", ""), ("x", "d" * 63), ("x", "D" * 64), ("x", D + "\n")]
)
def test_a_plan_that_would_forget_a_span_is_refused(id_, digest):
    span = Span(id_, 0, "turn", digest)
    assert plan([span], open_leg=0).selected == (span,)
    with pytest.raises(PlanRefused, match="span 0: elided without"):
        plan([span], open_leg=1)


def test_two_spans_of_one_id_are_refused():
    with pytest.raises(PlanRefused, match="twice"):
        plan([SPANS[0], SPANS[0]], open_leg=1)


@given(
    st.lists(
        st.builds(Span, st.sampled_from("abcdefgh"), st.integers(0, 3), st.sampled_from(["seed", "turn"]), st.just(D)),
        unique_by=lambda span: span.id,
    ),
    st.none() | st.integers(0, 3),
)
def test_every_span_is_either_selected_or_elided(spans, open_leg):
    view = plan(spans, open_leg=open_leg)
    assert sorted([span.id for span in view.selected] + [one.id for one in view.elided]) == sorted(s.id for s in spans)
