"""Reconciliation, assumptions, page faults and promotions give one outcome for every input, and the careful one where
nothing is known.

Mission: "a hidden context change is either behaviorally neutral or visible as a typed decision with evidence".
"""

import math

from hypothesis import given
from hypothesis import strategies as st

from relays.core import assumptions, promotion, residency
from relays.core.objective import Pin, Reconciliation, pin_digest, reconcile, verifies

words = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=12)
digests = st.one_of(words, st.text("0123456789abcdef", min_size=64, max_size=64))
pins = st.none() | st.builds(Pin, words, words, digests)
good = st.builds(lambda name, text: Pin(name, text, pin_digest(name, text)), words, words.filter(bool))


@given(pins | good, pins | good)
def test_reconciliation_has_one_of_five_outcomes_and_no_pin_that_fails_its_digest_is_taken(
    before: Pin | None, after: Pin | None
) -> None:
    found = reconcile(before, after)
    assert found is reconcile(before, after)
    assert found in Reconciliation
    stated = after is not None and not after.unset
    carried = before is not None and not before.unset
    if stated and not verifies(after):
        assert found is Reconciliation.QUERY_USER
    if found is Reconciliation.PRESERVED:
        assert stated == carried
        assert not stated or (before.pin_id, before.digest) == (after.pin_id, after.digest)
    if found is Reconciliation.ESTABLISHED:
        assert stated
        assert not carried
    assert found.asks == (found not in (Reconciliation.PRESERVED, Reconciliation.ESTABLISHED))


@given(good, good)
def test_what_is_carried_unchanged_is_preserved_and_every_change_is_told(one: Pin, other: Pin) -> None:
    assert reconcile(one, one) is Reconciliation.PRESERVED
    if one != other:
        assert reconcile(one, other) in (Reconciliation.DRIFTED, Reconciliation.DROPPED)


@given(words | st.sampled_from(list(assumptions.Source)), st.none() | st.floats())
def test_an_assumption_has_one_action_and_is_used_only_above_its_floor(source: str, confidence: float | None) -> None:
    found = assumptions.assess(source, confidence)
    assert found == assumptions.assess(source, confidence)
    assert found.action in assumptions.Action
    assert 0 <= found.confidence <= 1
    if found.action is assumptions.Action.USE:
        assert source in ("user_stated", "witnessed", "inferred")
        assert found.confidence >= (0.80 if source == "inferred" else 0.65)
        assert confidence is None or not math.isnan(confidence)
    assert (found.action is assumptions.Action.REFRESH) == (source == "stale")


@given(
    st.lists(st.sampled_from(["a", "b", "c"])),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.tuples(st.sampled_from(list(assumptions.Source)), st.none())),
)
def test_an_effect_is_admitted_only_where_everything_that_it_cites_may_be_used(cited, recorded) -> None:  # type: ignore[no-untyped-def]
    assessed = {key: assumptions.assess(*value) for key, value in recorded.items()}
    verdict = assumptions.effect(cited, assessed)
    usable = all(key in assessed and assessed[key].action is assumptions.Action.USE for key in cited)
    assert verdict.admit == usable
    assert (verdict.ask is None) == usable
    assert {key for key, _, _ in verdict.blocking} <= set(cited)


@given(
    st.builds(
        residency.Fault,
        state=words | st.sampled_from(["live", "gone", "tombstoned", "unknown"]),
        required=st.booleans(),
        rebuildable=st.booleans(), durability=words | st.sampled_from(["turn", "bounded", "durable"]),
        kind=words | st.sampled_from(sorted(residency.RECALLABLE)),
    )
)  # fmt: skip
def test_a_page_fault_has_one_outcome_and_nothing_but_a_live_record_is_served(fault: residency.Fault) -> None:
    found = residency.judge_fault(fault)
    assert found == residency.judge_fault(fault)
    assert found.outcome in residency.FaultOutcome
    if found.outcome is residency.FaultOutcome.PAGE_IN:
        assert fault.state == "live"
        assert fault.rebuildable
    if fault.required:
        assert found.outcome is not residency.FaultOutcome.CONTINUE_WITH_POINTER, "it is never pretended unneeded"


@given(
    words | st.sampled_from(["turn", "bounded", "durable"]),
    st.none() | st.sampled_from(["verified", "dangling", "unknown"]) | words,
    st.none() | st.booleans(),
)  # fmt: skip
def test_a_promotion_has_one_outcome_and_becomes_memory_only_by_evidence_or_a_persons_consent(
    durability: str, evidence: str | None, consent: bool | None
) -> None:
    found = promotion.judge(durability, evidence, consent)
    assert found == promotion.judge(durability, evidence, consent)
    assert found.outcome in promotion.Outcome
    if found.outcome is promotion.Outcome.PROMOTED:
        assert durability in ("bounded", "durable")
        assert consent or (consent is None and evidence == "verified")
    assert (found.ask is not None) == (found.outcome is promotion.Outcome.AMBIGUOUS)
