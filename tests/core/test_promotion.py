import itertools

import pytest

from relays.core.promotion import Outcome, judge, outcome_of
from relays.core.vocabulary import Ask


@pytest.mark.parametrize(
    ("durability", "evidence", "consent", "outcome"),
    [
        ("turn", "verified", True, "refused"),
        ("", "verified", True, "expired"),
        ("forever", "verified", None, "expired"),
        ("bounded", "verified", None, "promoted"),
        ("durable", "verified", None, "promoted"),
        ("durable", None, True, "promoted"),
        ("durable", "dangling", True, "promoted"),
        ("durable", "verified", False, "refused"),
        ("durable", "dangling", None, "refused"),
        ("durable", "unknown", None, "ambiguous"),
        ("bounded", None, None, "ambiguous"),
    ],
)
def test_one_observation(durability, evidence, consent, outcome):
    assert judge(durability, evidence, consent).outcome == outcome


def test_only_an_ambiguous_one_asks_a_person():
    words = itertools.product(["turn", "", "bounded"], [None, "verified", "dangling", "unknown"], [None, True, False])
    for durability, evidence, consent in words:
        found = judge(durability, evidence, consent)
        assert found.ask == (Ask.AMBIGUOUS_MEMORY_PROMOTION if found.outcome is Outcome.AMBIGUOUS else None)


def test_the_agents_own_consent_is_no_consent():
    payload = {"slug": "port", "class": "durable", "consent": True}
    assert outcome_of(payload) == "ambiguous"
    assert outcome_of(payload, consent=True) == "promoted"


def test_evidence_that_nobody_checked_promotes_nothing():
    payload = {"slug": "port", "class": "durable", "evidence": "file:a.md"}
    assert outcome_of(payload) == "ambiguous"
    assert outcome_of(payload, "verified") == "promoted"
    assert outcome_of({"slug": "port", "class": "durable"}, "verified") == "ambiguous"
    assert outcome_of({"slug": "port"}, "verified") == "expired"
