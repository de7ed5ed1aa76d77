import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.assumptions import Action, Source, assess, effect, listed, tool
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


LISTS = [
    ("Bash", ["Bash"], True),
    ("bash", ["Bash"], False),
    ("Bash2", ["Bash"], False),
    ("mcp__mail__send", ["mcp__*"], True),
    ("a.b", ["a?b", "a+b", "[ab]"], False),
    ("x\ny", ["x*"], True),
    ("Bash", [], False),
    ("anything", ["*"], True),
]


@pytest.mark.parametrize(("name", "tools", "listed_"), LISTS)
def test_a_tool_is_listed_by_its_name_or_a_star(name, tools, listed_):
    assert listed(name, tools) is listed_


def test_a_listed_tool_leans_on_every_assumption_of_its_leg():
    found = {"os": assess("witnessed"), "port": assess("inferred", 0.5), "host": assess("stale")}
    verdict = tool("deploy", ["deploy"], found)
    assert (verdict.admit, verdict.ask) == (False, Ask.LOW_CONFIDENCE_ASSUMPTION)
    assert [key for key, *_ in verdict.blocking] == ["port", "host"]
    assert tool("deploy", ["deploy"], {"os": found["os"]}).admit
    assert tool("deploy", ["deploy"], {}).admit
    assert tool("read", ["deploy"], found).admit
