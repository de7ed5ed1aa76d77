"""Hook calls: any JSON is a call or none, and what is kept is short, printable and nobody's words."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from relays.core import hooks


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
        max_leaves=12,
    ),
    st.dictionaries(st.sampled_from([*hooks.KEPT_FIELDS, "session_id", "hook_event_name", "prompt"]),
                    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.lists(st.integers())),
)  # fmt: skip
def test_any_json_is_a_call_or_none_and_what_is_kept_is_short_and_printable(odd: Any, fields: dict[str, Any]) -> None:
    for body in (odd, {"session_id": "s", "hook_event_name": "Stop", **fields}):
        call = hooks.read_call(body)
        if call is None:
            continue
        assert 0 < len(call.sid) <= hooks.SID_LENGTH
        assert set(call.said) <= {*hooks.KEPT_FIELDS, hooks.UNKNOWN}
        assert all(not isinstance(value, str) or value.isprintable() for value in call.said.values())
        assert hooks.answer(call, blocks_compaction=False) == {}


def test_only_a_compaction_ahead_is_ever_answered_and_only_where_the_site_says_so() -> None:
    for event in sorted(hooks.CLAUDE_EVENTS):
        call = hooks.read_call({"session_id": "s", "hook_event_name": event})
        assert call is not None
        assert hooks.answer(call, blocks_compaction=False) == {}
        blocked = hooks.answer(call, blocks_compaction=True)
        assert (blocked.get("decision") == "block") == (event == "PreCompact")
        assert call.signal in ("", "would_rotate", "compacted", "failed", "ended")


def test_what_a_tool_printed_or_a_judge_wrote_is_no_word_of_the_program() -> None:
    written = {"session_id": "s", "error": "File does not exist: /srv/pay.txt", "reason": "it reads the pay list"}
    for event in sorted(hooks.CLAUDE_EVENTS):
        call = hooks.read_call({**written, "hook_event_name": event})
        assert call is not None
        assert ("error" in call.said) == (event == "StopFailure")
        assert ("reason" in call.said) == (event == "SessionEnd")


def test_a_field_that_nobody_has_heard_of_is_counted_and_not_kept() -> None:
    call = hooks.read_call({"session_id": "s", "hook_event_name": "Stop", "mood": "good", "weather": 7})
    assert call is not None
    assert dict(call.said) == {hooks.UNKNOWN: 2}
    call = hooks.read_call({"session_id": "s", "hook_event_name": "Stop", "stop_hook_active": False})
    assert call is not None
    assert hooks.UNKNOWN not in call.said
