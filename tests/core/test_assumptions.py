import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.assumptions import Action, Source, assess, effect
from relays.core.vocabulary import Ask


@pytest.mark.parametrize(
    ("source", "confidence", "action"),
    [
        ("stale", 1.0, "refresh"),
        ("stale", None, "refresh"),
        ("unknown", 1.0, "query"),
        ("no such word", 1.0, "query"),
        ("inferred", None, "query"),
        ("inferred", 0.7999, "query"),
        ("inferred", 0.8, "use"),
        ("user_stated", None, "use"),
        ("user_stated", 0.6499, "query"),
        ("witnessed", 0.65, "use"),
        ("witnessed", float("nan"), "query"),
        ("witnessed", 1.5, "query"),
        ("witnessed", -0.1, "query"),
    ],
)
def test_one_assumption(source, confidence, action):
    found = assess(source, confidence)
    assert found.action == action == str(found)
    assert found.reason


def test_a_missing_confidence_is_that_of_its_source():
    assert [assess(source).confidence for source in Source] == [1, 1, 0.5, 0.2, 0]


def test_the_floors_are_policy():
    assert assess("witnessed", 0.7, floor=0.9).action is Action.QUERY
    assert assess("inferred", 0.5, inferred=0.4).action is Action.USE


def test_an_effect_needs_every_cited_assumption_usable():
    known = {"os": assess("witnessed"), "port": assess("stale"), "db": assess("inferred", 0.3)}
    assert effect([], known).admit
    assert effect(["os"], known).admit
    found = effect(["os", "port", "db", "port", "gone"], known)
    assert not found.admit
    assert found.ask is Ask.LOW_CONFIDENCE_ASSUMPTION
    assert [(key, str(action)) for key, action, _ in found.blocking] == [
        ("port", "refresh"),
        ("db", "query"),
        ("gone", "query"),
    ]


@given(st.sampled_from(list(Source)), st.floats(0, 1), st.floats(0, 1))
def test_more_confidence_never_makes_an_assumption_worse(source, a, b):
    low, high = sorted((a, b))
    if assess(source, low).action is Action.USE:
        assert assess(source, high).action is Action.USE
