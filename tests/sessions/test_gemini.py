"""Gemini CLI: the sample document to the last token, lines with rewrites and rewinds, the identity of the total."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core.meter import AnomalyKind, Extract
from relays.core.usage import resident
from relays.sessions.reader import FORMS, Context
from tests.sessions.cuts import SAMPLES, lines, read

HEADER = {"sessionId": "s1", "projectHash": "h", "startTime": "2026-05-01T10:00:00.000Z", "kind": "main"}
AT = "2026-05-01T10:00:05.000Z"


def document(path: Path) -> Extract:
    return FORMS["gemini-document"].document(Context(path)).read(path)


def tokens(read_: int, output: int, cached: int = 0, thoughts: int = 0, tool: int = 0) -> dict[str, int]:
    total = read_ + output + thoughts + tool
    return {"input": read_, "output": output, "cached": cached, "thoughts": thoughts, "tool": tool, "total": total}


def message(name: str, kind: str = "gemini", **more: Any) -> dict[str, Any]:
    return {"id": name, "timestamp": AT, "type": kind, "content": "text", **more}


def test_the_sample_document_has_its_calls_to_the_last_token() -> None:
    found = document(SAMPLES / "gemini" / "session-document.jsonl")
    rows = json.loads((SAMPLES / "expected.json").read_text())["files"]
    (right,) = (row for row in rows if row["agent"] == "gemini-cli")
    calls = list(found.calls.values())
    assert len(calls) == right["calls"]
    assert sum(call.buckets.input for call in calls) == right["tokens"]["input_tokens"]
    assert sum(call.buckets.cache_read for call in calls) == right["tokens"]["cache_read_input_tokens"]
    assert sum(call.buckets.output for call in calls) == right["tokens"]["output_tokens"]
    assert max(resident(call.buckets) for call in calls) == right["max_resident_tokens"]
    assert sum(call.reasoning for call in calls) == 31 + 105 + 82 + 14
    assert [(call.tools, call.tool_errors) for call in calls] == [(0, 0), (1, 0), (1, 0), (0, 0)]
    assert not found.anomalies


@pytest.mark.parametrize(
    ("used", "side", "output", "fits"),
    [
        # thoughts outside output, tool prompts read on top of input
        ({"input": 100, "output": 10, "cached": 40, "thoughts": 5, "tool": 7, "total": 122}, 107, 15, True),
        ({"input": 100, "output": 10, "cached": 40, "thoughts": 5, "tool": 7, "total": 115}, 100, 15, True),
        ({"input": 100, "output": 10, "cached": 40, "thoughts": 5, "tool": 0, "total": 110}, 100, 10, True),
        ({"input": 100, "output": 10, "cached": 40, "thoughts": 5}, 100, 15, True),
        # cached is never added to the input: a total that says so fits nothing
        ({"input": 100, "output": 10, "cached": 40, "thoughts": 5, "total": 155}, 100, 15, False),
    ],
)
def test_t23_parts_of_a_gemini_call_add_up_to_its_total(
    used: dict[str, int], side: int, output: int, fits: bool
) -> None:
    found = read("gemini-lines", lines(HEADER, message("g1", tokens=used)))
    (call,) = found.calls.values()
    assert (resident(call.buckets), call.buckets.cache_read, call.buckets.output) == (side, 40, output)
    assert [kind for kind, _, _ in found.anomalies] == ([] if fits else [AnomalyKind.IDENTITY_MISMATCH])


def test_a_message_that_is_written_again_is_one_call_with_its_last_state() -> None:
    running = [{"id": "c", "name": "run_shell_command", "args": {"command": "git commit -m x"}, "status": "executing"}]
    output = [{"functionResponse": {"response": {"output": "[main 1a2b3c4] x"}}}]
    done = [{**running[0], "status": "success", "result": output}]
    failed = {"id": "d", "name": "read_file", "args": {}, "status": "error"}
    found = read(
        "gemini-lines",
        lines(
            HEADER,
            message("u1", "user"),
            message("g1", toolCalls=running),
            message("g1", toolCalls=running, tokens=tokens(100, 10), model="gemini-2.5-flash"),
            message("g1", toolCalls=[*done, failed], tokens=tokens(100, 10), model="gemini-2.5-flash"),
            message("g2", tokens=tokens(200, 10, cached=90)),
        ),
    )
    one, two = found.calls.values()
    assert (one.key, one.model, one.line, one.tools, one.tool_errors) == ("gemini:s1:g1", "gemini-2.5-flash", 4, 2, 1)
    assert set(one.fill) == {"user text"}
    assert set(two.fill) == {"assistant text", "tool call", "tool result run_shell_command"}
    assert {(act.kind, act.ref) for act in found.acts.values()} == {("commit", "1a2b3c4")}


def test_what_was_rewound_was_still_paid_for() -> None:
    again = message("g3", tokens=tokens(120, 9))
    found = read(
        "gemini-lines",
        lines(
            HEADER,
            message("g1", tokens=tokens(100, 10)),
            message("g2", tokens=tokens(900, 9)),
            {"$rewindTo": "g2"},
            again,
        ),
    )
    assert [resident(call.buckets) for call in found.calls.values()] == [100, 900, 120]
    assert found.records["$rewindTo"][0] == 1
    assert not found.compactions


def test_a_history_that_is_set_anew_is_known_by_its_ids() -> None:
    known = message("g1", tokens=tokens(100, 10))
    found = read(
        "gemini-lines",
        lines(
            HEADER,
            {"$set": {"messages": [message("s0", "user")], "lastUpdated": AT}},
            known,
            {"$set": {"messages": [message("s0", "user"), known, message("g2", tokens=tokens(300, 9))]}},
            {"$set": {"summary": "text"}},
        ),
    )
    assert [call.key for call in found.calls.values()] == ["gemini:s1:g1", "gemini:s1:g2"]


def test_a_compression_that_the_session_tells_is_a_boundary_with_declared_figures() -> None:
    told = message("i1", "info") | {"content": "Chat history compressed from 9000 to 1200 tokens."}
    itself = message("i2", "info") | {
        "content": [
            {"text": "This conversation exceeded the compress threshold (compressed from: unknown to 10 tokens)."}
        ]
    }
    found = read("gemini-lines", lines(HEADER, told, itself, message("i3", "info")))
    assert [(one.declared_pre, one.declared_post, one.trigger) for one in found.compactions.values()] == [
        (9000, 1200, "unknown"),
        (None, 10, "auto"),
    ]


def test_what_is_not_known_is_counted_and_shown(tmp_path: Path) -> None:
    found = read("gemini-lines", lines(HEADER, b"{cut", {"odd": 1}, message("m", "odd"), message("n", oddity=1)))
    assert sorted((one.kind.value, one.detail) for one in found.anomalies.values()) == [
        ("broken_line", ""),
        ("unknown_key", "oddity"),
        ("unknown_type", "no type"),
        ("unknown_type", "odd"),
    ]
    (tmp_path / "session.json").write_text('{"sessionId": ')
    assert [one.kind for one in document(tmp_path / "session.json").anomalies.values()] == [AnomalyKind.BROKEN_LINE]


def test_a_sub_agents_file_names_the_session_that_it_lies_in() -> None:
    parent = "7c1f0a3e-5b2d-4e8f-9a61-2d4c8b0e6f13"
    found = read("gemini-lines", lines(HEADER | {"kind": "subagent"}), path=f"p/chats/{parent}/s1.jsonl")
    assert found.about["s1"].parent == parent


RECORDS = st.one_of(
    st.builds(lambda n, t: message(f"g{n}", tokens=tokens(t, n)), st.integers(0, 9), st.integers(1, 999)),
    st.builds(
        lambda n, status: message(
            f"g{n}", toolCalls=[{"name": "edit", "args": {"file_path": f"f{n}"}, "status": status}]
        ),
        st.integers(0, 9),
        st.sampled_from(["success", "error", "executing"]),
    ),
    st.builds(lambda n: message(f"u{n}", "user"), st.integers(0, 30)),
    st.builds(lambda n: HEADER | {"sessionId": f"s{n}"}, st.integers(1, 2)),
    st.builds(lambda n: {"$rewindTo": f"g{n}"}, st.integers(0, 9)),
    st.builds(
        lambda ns: {"$set": {"messages": [message(f"g{n}", tokens=tokens(n + 1, n)) for n in ns]}},
        st.lists(st.integers(0, 9), max_size=4),
    ),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(RECORDS, max_size=30), st.sets(st.integers(1, 30)))
def test_any_cutting_gives_the_same(records: list[dict[str, Any]], cuts: set[int]) -> None:
    content = lines(HEADER, *records)
    assert read("gemini-lines", content, cuts) == read("gemini-lines", content)
