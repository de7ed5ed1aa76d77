"""Our hooks go into a person's settings and out again, and not one byte of the rest is changed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.hookfile import EVENTS, HookFileError, entry, events_of, installed, removed

SITE = "http://127.0.0.1:8000"
OTHERS = (
    '{\n\t"hooks": {\n\t\t"Stop": [\n\t\t\t{"hooks": [{"type": "command", "command": "x"}]}\n\t\t]\n\t},\n\t"z": 1\n}'
)
AS_THEY_WERE = [
    "{}",
    "{}\n",
    '{"a":1}',
    '{"a": 1, "hooks": {"Stop": [{"matcher": "", "hooks": [{"type": "command", "command": "say"}]}]}}\n',
    '{\n    "model": "opus",   "b": [1,\n 2]\n}\n',
    '{\r\n  "a": "{ \\" }",\r\n  "é": null\r\n}\r\n',
    OTHERS,
]


@pytest.mark.parametrize("text", AS_THEY_WERE)
def test_what_was_put_in_goes_out_and_every_byte_is_as_it_was(text: str) -> None:
    put = installed(text, SITE)
    assert installed(put, SITE) == put, "a second time changes nothing"
    assert set(events_of(put)) == set(EVENTS) and events_of(text) == ()
    assert removed(put) == text and removed(text) == text


@pytest.mark.parametrize("text", AS_THEY_WERE)
def test_what_is_not_ours_stands_as_it_stood(text: str) -> None:
    put, was = json.loads(installed(text, SITE)), json.loads(text)
    assert {key: value for key, value in put.items() if key != "hooks"} == {
        key: value for key, value in was.items() if key != "hooks"
    }
    for event, groups in put["hooks"].items():
        theirs = was.get("hooks", {}).get(event, [])
        assert groups == [*theirs, {"hooks": [entry(SITE)]}]


def test_a_site_that_moved_replaces_its_entries_and_leaves_no_second_ones() -> None:
    moved = installed(installed(OTHERS, SITE), "https://relay.example.org/")
    hooks = json.loads(moved)["hooks"]
    assert [json.dumps(groups).count("/api/v1/hooks/") for groups in hooks.values()] == [1] * len(EVENTS)
    assert "127.0.0.1" not in moved and removed(moved) == OTHERS


def test_an_entry_of_ours_in_a_group_of_theirs_is_taken_out_of_it_alone() -> None:
    theirs = {"type": "command", "command": "x"}
    text = json.dumps({"hooks": {"Notification": [{"matcher": "a", "hooks": [theirs, entry(SITE), theirs]}]}})
    assert json.loads(removed(text)) == {"hooks": {"Notification": [{"matcher": "a", "hooks": [theirs, theirs]}]}}


def test_worktree_create_is_never_ours_and_no_token_stands_in_the_file() -> None:
    put = installed("", SITE)
    assert "WorktreeCreate" not in put and "SessionStart" not in put
    assert entry(SITE)["headers"] == {"Authorization": "Bearer $RELAYSITE_TOKEN"}
    assert json.loads(put)["hooks"]["PreCompact"] == [{"hooks": [entry(SITE)]}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1,}', "not JSON"),
        ("{", "not JSON"),
        ('// no\n{"a": 1}', "not JSON"),
        ("{} {}", "behind its end"),
        ("[]", "no JSON object"),
        ('{"hooks": []}', "`hooks` is no object"),
        ('{"hooks": {"Stop": {}}}', "hooks.Stop is no list"),
        ('{"hooks": {}, "hooks": {}}', "stands twice"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(text: str, says: str) -> None:
    for change in (lambda: installed(text, SITE), lambda: removed(text), lambda: events_of(text)):
        with pytest.raises(HookFileError, match=says) as refused:
            change()
        assert "\n" not in str(refused.value)


values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
others = st.lists(st.fixed_dictionaries({"hooks": st.lists(values, min_size=1, max_size=2)}), min_size=1, max_size=2)


@given(
    st.dictionaries(st.text(max_size=6).filter(lambda key: key != "hooks"), values, max_size=4),
    st.dictionaries(st.sampled_from([*EVENTS, "Notification"]), others, max_size=3),
    st.sampled_from([None, 1, 2, 4, "\t"]),
)
def test_any_settings_come_back_byte_for_byte(rest: dict[str, Any], hooks: dict[str, Any], indent: Any) -> None:
    text = json.dumps({**rest, **({"hooks": hooks} if hooks else {})}, indent=indent)
    put = installed(text, SITE)
    assert set(events_of(put)) == set(EVENTS) and removed(put) == text
