"""No value at any place of a record makes a reader fail, and nothing that it passes on is too large or unprintable."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core.meter import Extract
from relays.sessions.reader import FORMS, Context
from tests.sessions.cuts import SAMPLES, lines, read
from tests.sessions.test_codex import count, event, item, meta, usage
from tests.sessions.test_codex_exec import START, completed
from tests.sessions.test_codex_exec import item as exec_item
from tests.sessions.test_gemini import HEADER, message, tokens
from tests.sessions.test_gemini_headless import event as told
from tests.sessions.test_gemini_headless import sums
from tests.sessions.test_relay_events import ended, started
from tests.sessions.test_relay_events import usage as relay_usage

FIGURES = usage(10, 5, 2)
RECORDS: dict[str, list[Any]] = {
    "codex-rollout": [
        meta("child", forked_from_id="old", source={"subagent": {"thread_spawn": {"parent_thread_id": "old"}}}),
        meta("old", git={"branch": "main"}),
        event("task_started", turn_id="t", started_at=1, model_context_window=9),
        {"timestamp": "2026-05-01T10:00:01.000Z", "type": "turn_context", "payload": {"turn_id": "t", "model": "m"}},
        item("message", role="user"),
        item("function_call", name="exec_command", call_id="a", arguments='{"cmd": "git commit"}'),
        item("custom_tool_call", name="apply_patch", call_id="b", input="*** Add File: x\n"),
        event("exec_command_end", call_id="a", exit_code=1),
        event("patch_apply_end", call_id="b", success=True, changes={"x": {}}),
        event("mcp_tool_call_end", call_id="a", result={"Ok": {"isError": True}}),
        item("function_call_output", call_id="a", output={"metadata": {"exit_code": 1}, "output": "x"}),
        count(FIGURES, FIGURES, model_context_window=9),
        {"timestamp": "2026-05-01T10:00:02Z", "type": "compacted", "payload": {"message": "", "window_id": "w"}},
        count(FIGURES, {"input_tokens": 0, "output_tokens": 0, "total_tokens": 7}),
    ],
    "codex-exec": [
        START,
        exec_item("command_execution", command="git commit", aggregated_output="x", exit_code=1, status="failed"),
        exec_item("file_change", changes=[{"path": "a"}]),
        completed(10, 5, 2),
    ],
    "gemini-lines": [
        HEADER | {"kind": "subagent", "messages": [message("g0", tokens=tokens(1, 1))]},
        message("u", "user"),
        message(
            "g",
            tokens=tokens(9, 1),
            toolCalls=[
                {"name": "edit", "args": {"file_path": "a", "command": "git push"}, "status": "success", "result": [{}]}
            ],
        ),
        message("i", "info"),
        {"$set": {"messages": [message("g", tokens=tokens(9, 1))]}},
        {"$rewindTo": "g"},
    ],
    "gemini-stream": [
        told("init", session_id="s", model="m"),
        told("message", role="user", content="x"),
        told("tool_use", tool_name="edit", tool_id="t", parameters={"file_path": "a", "command": "git commit"}),
        told("tool_result", tool_id="t", status="success", output="[main 1a2b3c4] x"),
        told("result", status="success", stats={**sums(9, 1), "models": {"m": sums(9, 1)}}),
    ],
    "relay-events": [
        relay_usage("a", 1, cost=1),
        started("t"),
        ended("t"),
        {"kind": "file_written", "seq": 1, "path": "x"},
    ],
}
_USED = {"input": 9, "output": 1, "reasoning": 1, "cache": {"read": 1, "write": 1}, "total": 13}
_TIME = {"created": 1_777_629_600_000, "completed": 1_777_629_600_900}
_STATE = {
    "status": "completed",
    "input": {"command": "git commit", "filePath": "a"},
    "output": "x",
    "metadata": {"exit": 1},
}
_ANSWER = {"id": "msg_1", "sessionID": "ses_1", "role": "assistant", "modelID": "m", "time": _TIME, "tokens": _USED}
DOCUMENTS: dict[str, dict[str, Any]] = {
    "gemini-answer": {
        "session_id": "s",
        "response": "x",
        "stats": {
            "models": {
                "m": {"tokens": {"prompt": 9, "candidates": 1, "total": 11, "cached": 2, "thoughts": 1, "tool": 0}}
            },
            "tools": {"totalCalls": 2, "totalFail": 1},
        },
    },
    "opencode-export": {
        "info": {"id": "ses_1", "directory": "/x", "version": "1", "parentID": "ses_0"},
        "messages": [
            {"info": {"id": "m0", "role": "user", "time": _TIME}, "parts": [{"type": "compaction", "auto": True}]},
            {"info": {**_ANSWER, "summary": True}, "parts": [{"type": "patch", "files": ["a"]}]},
            {
                "info": {**_ANSWER, "id": "msg_2"},
                "parts": [
                    {"type": "tool", "tool": "write", "state": _STATE},
                    {"type": "step-finish", "tokens": _USED, "cost": 1},
                ],
            },
            {"id": "msg_3", "type": "user", "time": _TIME, "text": "x", "files": [{"uri": "a"}]},
            {
                "id": "msg_4",
                "type": "assistant",
                "time": _TIME,
                "model": {"id": "m", "providerID": "p"},
                "tokens": _USED,
                "content": [
                    {"type": "tool", "name": "bash", "state": {**_STATE, "content": [{"type": "text", "text": "x"}]}}
                ],
                "snapshot": {"files": ["a"]},
            },
            {
                "id": "msg_5",
                "type": "compaction",
                "status": "completed",
                "reason": "auto",
                "tokens": _USED,
                "time": _TIME,
            },
            {"id": "msg_6", "type": "synthetic", "text": "x"},
        ],
    },
    "opencode-message": _ANSWER,
}
JUNK = st.sampled_from(
    [None, True, -1, 0, 1.5, 10**30, "", "x" * 5000, "a\0b\nc", "\ud800", "2026-13-45", [], [1, None], {}, {"a": [{}]}]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, one in inner for place in places(one, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], junk: Any) -> Any:
    if not path:
        return junk
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(value[path[0]], path[1:], junk)
    return copy


def fits(found: Extract) -> None:
    for call in found.calls.values():
        assert len(call.key) <= 200 and len(call.session) <= 200 and len(call.model) <= 120
        assert len(call.turn) <= 80 and len(call.vector) <= 120
        assert (call.key + call.session + call.model + call.turn + call.at).isprintable()
        assert 0 <= call.reasoning <= call.buckets.output
    for boundary in found.compactions.values():
        assert len(boundary.uid) <= 200 and boundary.uid.isprintable()
    for act in found.acts.values():
        assert 0 < len(act.ref) <= 500 and act.ref.isprintable()
    for anomaly in found.anomalies.values():
        assert len(anomaly.detail) <= 120 and anomaly.detail.isprintable()


@pytest.mark.parametrize("form", sorted(RECORDS))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_junk_in_any_place_is_read_over(form: str, data: st.DataObject) -> None:
    records = list(RECORDS[form])
    for at in data.draw(st.sets(st.integers(0, len(records) - 1), min_size=1, max_size=4)):
        records[at] = replaced(records[at], data.draw(st.sampled_from(places(records[at]))), data.draw(JUNK))
    content = lines(*records)
    fits(read(form, content))
    assert read(form, content, {1, 3, 5}) == read(form, content)


@pytest.mark.parametrize("form", sorted(DOCUMENTS))
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_junk_in_any_place_of_a_document_is_read_over(
    form: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    document: Any = DOCUMENTS[form]
    for _ in range(data.draw(st.integers(1, 3))):
        document = replaced(document, data.draw(st.sampled_from(places(document))), data.draw(JUNK))
    path = tmp_path_factory.getbasetemp() / f"{form}.json"
    path.write_bytes(json.dumps(document).encode())
    fits(FORMS[form].document(Context(path)).read(path))


@pytest.mark.parametrize("form", sorted(DOCUMENTS))
def test_nothing_is_wrong_with_the_documents_either(form: str, tmp_path: Path) -> None:
    path = tmp_path / "document.json"
    path.write_text(json.dumps(DOCUMENTS[form]))
    found = FORMS[form].document(Context(path)).read(path)
    assert found.calls and not found.anomalies


@pytest.mark.parametrize("form", sorted(RECORDS))
def test_nothing_is_wrong_with_the_records_that_junk_is_put_into(form: str) -> None:
    assert read(form, lines(*RECORDS[form])).calls


def test_half_letters_do_not_lose_a_call() -> None:
    text = json.dumps(message("g", tokens=tokens(9, 1)) | {"content": "\ud83d"}).encode()
    assert len(read("gemini-lines", lines(HEADER, text)).calls) == 1


def test_a_sample_of_another_agent_gives_no_calls() -> None:
    content = (SAMPLES / "claude" / "inline-sidechains-1.0.jsonl").read_bytes()
    for form in RECORDS:
        found = read(form, content)
        assert not found.calls
        assert found.anomalies
