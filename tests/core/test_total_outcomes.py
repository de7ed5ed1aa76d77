"""Page faults and promotions: the one outcome that the rule's sentence gives, for every input.

rules.md: "gone, tombstoned or unknown: required → `deny`, optional → `continue_with_pointer` · live, not rebuildable →
`query_user` · live, rebuildable, optional, durability ≥ bounded → `continue_with_pointer` · else `page_in`"; "class
`turn` never; `bounded`/`durable` need a resolving evidence pointer or explicit consent; else `ambiguous` (ask) or
`refused`; unclassified expires".
"""

from hypothesis import given
from hypothesis import strategies as st

from relays.core.promotion import Outcome, judge
from relays.core.residency import RECALLABLE, Fault, FaultOutcome, judge_fault
from relays.core.vocabulary import Ask

words = st.sampled_from(["", "turn", "bounded", "durable", "live", "gone", "tombstoned"]) | st.text(max_size=9)
faults = st.builds(
    Fault,
    words,
    st.booleans(),
    rebuildable=st.booleans(),
    durability=words,
    kind=st.sampled_from([*sorted(RECALLABLE), "transcript", "turn"]) | st.text(max_size=9),
)


@given(faults)
def test_every_page_fault_has_the_one_outcome_of_the_rule(fault):
    durable = fault.durability in ("bounded", "durable")
    rows = [
        (fault.kind not in ("commit", "issue", "memory", "ledger", "file"), "deny"),
        (fault.state != "live" and fault.required, "deny"),
        (fault.state != "live", "continue_with_pointer"),
        (not fault.rebuildable, "query_user"),
        (not fault.required and durable, "continue_with_pointer"),
        (True, "page_in"),
    ]
    found = judge_fault(fault)
    assert found.outcome == next(outcome for holds, outcome in rows if holds)
    assert found.reason and found == judge_fault(fault)
    blocked = fault.kind in RECALLABLE and found.outcome in (FaultOutcome.DENY, FaultOutcome.QUERY_USER)
    assert found.ask == (Ask.UNSERVED_PAGE_FAULT if blocked else None)


@given(
    words,
    st.none() | st.sampled_from(["verified", "dangling", "unknown"]) | st.text(max_size=9),
    st.none() | st.booleans(),
)
def test_every_promotion_has_the_one_outcome_of_the_rule(durability, evidence, consent):
    rows = [
        (durability == "turn", "refused"),
        (durability not in ("bounded", "durable"), "expired"),
        (consent is False, "refused"),
        (consent is True or evidence == "verified", "promoted"),
        (evidence == "dangling", "refused"),
        (True, "ambiguous"),
    ]
    found = judge(durability, evidence, consent)
    assert found.outcome == next(outcome for holds, outcome in rows if holds)
    assert found.reason and found == judge(durability, evidence, consent)
    assert found.ask == (Ask.AMBIGUOUS_MEMORY_PROMOTION if found.outcome is Outcome.AMBIGUOUS else None)
