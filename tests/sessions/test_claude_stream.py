"""`claude -p --output-format stream-json`: placeholders, exact figures, results missing or zeroed, any cutting."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core.meter import AnomalyKind, Extract
from relays.sessions.claude_stream import ClaudeStream
from relays.sessions.reader import Context
from tests.sessions.claude_lines import answer, asks, usage
from tests.sessions.cuts import lines, read

SESSION = "stream-one"


def line(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "session_id": SESSION, "uuid": "u", "parent_tool_use_id": None, **more}


def init(**more: Any) -> dict[str, Any]:
    return line("system", subtype="init", cwd="/work", model="opus", claude_code_version="2.1.170", **more)


def assistant(key: str, used: Any, *blocks: Any, **more: Any) -> dict[str, Any]:
    return line("assistant", message=answer(1, key, used, *blocks, stop=None)["message"], **more)


def event(kind: str, **more: Any) -> dict[str, Any]:
    outer = {key: more.pop(key) for key in ("parent_tool_use_id", "session_id") if key in more}
    return line("stream_event", event={"type": kind, **more}, **outer)


def start(key: str, used: Any, **more: Any) -> dict[str, Any]:
    return event("message_start", message={"id": key, "model": "claude-opus-4-5", "usage": used}, **more)


def end(cost: Any = 0.527893, subtype: str = "success", used: Any = None, **more: Any) -> dict[str, Any]:
    return line("result", subtype=subtype, total_cost_usd=cost, usage=usage() if used is None else used, **more)


def stream(*records: Any, cuts: Any = ()) -> Extract:
    return read("claude-stream", lines(*records), cuts)


def without_result(found: Extract) -> dict[str, int]:
    return {a.detail: a.count for a in found.anomalies.values() if a.kind == AnomalyKind.NO_RESULT}


def test_partial_messages_make_the_output_exact() -> None:
    found = stream(
        init(),
        start("m1", usage(100, 3, long=4)),
        event("content_block_delta"),
        assistant("m1", usage(100, 3, long=4), asks("t1", "Read")),
        event("message_delta", delta={"stop_reason": "tool_use"}, usage=usage(100, 1166, long=4)),
        event("message_stop"),
        end(),
        cuts=(2, 4),
    )
    (seen,) = found.calls.values()
    assert (seen.buckets.output, seen.lower_bound, seen.buckets.cache_write_1h) == (1166, False, 4)
    assert (seen.model, seen.chain, seen.session) == ("claude-opus-4-5", "main", SESSION)


def test_without_partial_messages_the_output_is_a_lower_bound() -> None:
    (seen,) = stream(init(), assistant("m1", usage(100, 71)), assistant("m1", usage(100, 71)), end()).calls.values()
    assert (seen.buckets.output, seen.lower_bound) == (71, True)


def test_a_sub_agents_lines_cost_and_are_no_context_and_stream_beside_the_main_chain() -> None:
    sub = {"parent_tool_use_id": "toolu_1"}
    found = stream(
        init(),
        start("m1", usage(100, 1)),
        start("s1", usage(9, 1), **sub),
        event("message_delta", usage=usage(9, 40), **sub),
        event("message_delta", usage=usage(100, 50)),
        assistant("s2", usage(9, 2), **sub),
        cuts=(3,),
    )
    assert {key: (c.chain, c.agent_id, c.buckets.output) for (_, key), c in found.calls.items()} == {
        "m1": ("main", "", 50),
        "s1": ("sub", "toolu_1", 40),
        "s2": ("sub", "toolu_1", 2),
    }


def test_the_agents_own_cost_and_window_are_kept_as_it_says_them() -> None:
    models = {"claude-opus-4-5": {"contextWindow": 200_000, "costUSD": 0.5}, "other": {"contextWindow": 1}}
    found = stream(init(), assistant("m1", usage()), assistant("m2", usage()), end(modelUsage=models), cuts=(2, 3))
    assert found.about[SESSION].reported_cost == "0.527893"
    assert [c.window for c in found.calls.values()] == [None, 200_000]
    assert (found.about[SESSION].cwd, found.about[SESSION].version) == ("/work", "2.1.170")


def test_a_boundary_is_read_in_the_streams_own_spelling() -> None:
    said = {"trigger": "manual", "pre_tokens": 5, "post_tokens": 2, "duration_ms": 9}
    found = stream(init(), line("system", subtype="compact_boundary", compact_metadata=said) | {"uuid": "b1"})
    (one,) = found.compactions.values()
    assert (one.uid, one.trigger, one.declared_pre, one.declared_post, one.duration_ms) == ("b1", "manual", 5, 2, 9)
    (odd,) = stream(line("system", subtype="compact_boundary")).compactions.values()
    assert (odd.trigger, odd.declared_pre, odd.declared_post) == ("unknown", None, None)


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2, 3)])
def test_t18_a_stream_without_its_result_says_so_and_keeps_its_calls(cuts: Any) -> None:
    found = stream(init(), assistant("m1", usage(100, 7)), line("user", message={"content": "x"}), cuts=cuts)
    assert without_result(found) == {"": 1}
    assert found.calls[SESSION, "m1"].buckets.output == 7
    assert not without_result(stream(init(), assistant("m1", usage()), end(), cuts=cuts))
    assert without_result(stream(init(), assistant("m1", usage()), end(), init(), cuts=cuts)) == {"": 1}


def test_t18_a_result_that_was_zeroed_by_a_crash_counts_for_nothing() -> None:
    zero = usage(0, 0, plain=0)
    found = stream(init(), assistant("m1", usage(100, 7)), end(cost=0, used=zero))
    assert without_result(found) == {"zeroed result": 1}
    assert (found.about[SESSION].reported_cost, len(found.calls)) == ("", 1)
    assert not without_result(stream(init(), end(cost=0, used=zero)))


def test_t18_an_error_can_come_with_success() -> None:
    found = stream(init(), end(is_error=True), end(subtype="error_max_turns"), end(subtype="novel"))
    kinds = {kind for kind in found.records if kind.startswith("result")}
    assert kinds == {"result success with an error", "result error_max_turns", "result novel"}
    assert [a.detail for a in found.anomalies.values() if a.kind == AnomalyKind.UNKNOWN_TYPE] == ["result/novel"]


def test_t18_a_stream_that_was_cut_in_a_line_keeps_what_stands_before() -> None:
    content = lines(init(), assistant("m1", usage()))
    found = read("claude-stream", content + lines(end())[:-30] + b"\n")
    assert without_result(found) == {"": 1}
    assert [a.kind for a in found.anomalies.values()].count(AnomalyKind.BROKEN_LINE) == 1
    assert len(found.calls) == 1


def test_the_stream_and_the_file_of_a_session_name_a_call_alike() -> None:
    in_file = read("claude-session", lines(answer(1, "m1", usage(100, 1166), sessionId=SESSION)))
    in_stream = stream(init(), assistant("m1", usage(100, 3)))
    assert in_file.calls.keys() == in_stream.calls.keys()


PIECES: list[Any] = [
    init(),
    start("m1", usage(10, 1)),
    event("message_delta", usage=usage(10, 30)),
    event("message_stop"),
    assistant("m1", usage(10, 1), asks("t1", "Bash", command="git push")),
    line("user", message={"content": [{"type": "tool_result", "tool_use_id": "t1", "content": "x", "is_error": True}]}),
    assistant("m2", usage(20, 2), parent_tool_use_id="toolu_9"),
    assistant("m3", usage(30, 3), session_id="stream-two"),
    init(session_id="stream-two"),
    end(modelUsage={"claude-opus-4-5": {"contextWindow": 9}}),
    end(cost=0, used=usage(0, 0, plain=0)),
    line("system", subtype="compact_boundary"),
    line("odd", more=1),
    b"{broken",
]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=25), st.sets(st.integers(1, 25)))
def test_lines_in_any_order_cut_anywhere_give_the_same(pieces: list[Any], cuts: set[int]) -> None:
    assert stream(*pieces, cuts=cuts) == stream(*pieces)


def test_state_is_json_and_small() -> None:
    records = [start(f"m{n}", usage(), parent_tool_use_id=f"toolu_{n}") for n in range(500)]
    reader = ClaudeStream(Context(Path("run.jsonl")))
    for number, one in enumerate(records, 1):
        reader.line(number, json.dumps(one).encode())
    assert len(json.dumps(reader.state())) < 20_000
