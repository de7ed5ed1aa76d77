"""Whatever a program writes where a number, a text or a list belongs, its bridge does not fall over it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from relays.agents.bridges import claude_code, codex, codex_exec, gemini
from relays.agents.bridges.bridge import Bridge
from tests.agents.bridge_leg import BridgeLeg

pytestmark = pytest.mark.slow

BAD: tuple[Any, ...] = (None, True, -1, float("inf"), float("nan"), "x", [1], ["x"], {"a": 1}, "\U0001f600\ud800")

USAGE = {
    "input_tokens": 1,
    "cache_creation_input_tokens": 3,
    "cache_read_input_tokens": 2,
    "output_tokens": 1,
    "cache_creation": {"ephemeral_1h_input_tokens": 1, "ephemeral_5m_input_tokens": 1},
}
CLAUDE: tuple[dict[str, Any], ...] = (
    {
        "type": "stream_event",
        "event": {"type": "message_start", "message": {"id": "m", "model": "x", "usage": USAGE}},
    },
    {
        "type": "assistant",
        "message": {
            "id": "m",
            "model": "x",
            "usage": USAGE,
            "content": [
                {"type": "tool_use", "id": "t", "name": "Write", "input": {"file_path": "a"}},
                {"type": "tool_use", "id": "t2", "name": "TodoWrite", "input": {"todos": [{"content": "c"}]}},
            ],
        },
        "parent_tool_use_id": "p",
    },
    {"type": "stream_event", "event": {"type": "message_delta", "usage": USAGE}},
    {"hook_event_name": "PreToolUse", "tool_use_id": "t", "tool_name": "Write", "tool_input": {"file_path": "a"}},
    {
        "type": "user",
        "message": {
            "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [{"text": "a"}], "is_error": False},
                {"type": "tool_result", "tool_use_id": "t2", "content": "a"},
            ]
        },
    },
    {"type": "system", "subtype": "api_retry", "error_status": 529, "retry_delay_ms": 3, "error": "overloaded"},
    {"type": "system", "subtype": "task_started", "task_id": "b", "tool_use_id": "t3"},
    {"type": "system", "subtype": "background_tasks_changed", "tasks": [{"task_id": "b"}]},
    {"type": "system", "subtype": "compact_boundary", "compact_metadata": {"pre_tokens": 3}},
    {"hook_event_name": "PostToolBatch", "tool_calls": [{"tool_use_id": "t"}]},
    {"hook_event_name": "TaskCreated", "task_id": "1", "task_subject": "s"},
    {"hook_event_name": "Stop", "transcript_path": "/nowhere/x.jsonl"},
    {"type": "result", "is_error": True, "api_error_status": 529, "terminal_reason": "api_error", "result": "x"},
)
FIGURES = {"input_tokens": 9, "cached_input_tokens": 1, "cache_write_input_tokens": 1, "output_tokens": 3}
REFUSED = {"message": "m 529", "codexErrorInfo": {"a": {"httpStatusCode": 529}}}
CODEX: tuple[dict[str, Any], ...] = (
    {"method": "turn/started", "params": {"threadId": "T", "turn": {"id": "u"}}},
    {"hook_event_name": "PreModelRequest", "request_id": "r", "kind": "sampling"},
    {
        "hook_event_name": "PostModelRequest",
        "request_id": "r",
        "status": "completed",
        "model": "m",
        "token_usage": FIGURES,
    },
    {"hook_event_name": "PreToolUse", "tool_use_id": "t", "tool_name": "Bash", "tool_input": {"command": "x"}},
    {"method": "item/started", "params": {"item": {"id": "t", "type": "commandExecution"}}},
    {
        "method": "item/completed",
        "params": {
            "item": {
                "id": "t",
                "type": "commandExecution",
                "status": "completed",
                "aggregatedOutput": "x",
                "changes": [{"path": "p"}],
            }
        },
    },
    {"hook_event_name": "PostToolUse", "tool_use_id": "t", "tool_response": {"isError": False}},
    {"method": "thread/tokenUsage/updated", "params": {"tokenUsage": {"last": {"inputTokens": 1}}}},
    {"method": "turn/plan/updated", "params": {"plan": [{"step": "s", "status": "x"}]}},
    {"method": "error", "params": {"willRetry": True, "error": REFUSED}},
    {"hook_event_name": "Stop"},
    {"method": "turn/completed", "params": {"turn": {"status": "failed", "error": REFUSED}}},
)
EXEC: tuple[dict[str, Any], ...] = (
    {"type": "thread.started", "thread_id": "T"},
    *CODEX[1:4],
    {"type": "item.started", "item": {"id": "i", "type": "command_execution", "command": "x"}},
    {"type": "item.completed", "item": {"id": "i", "type": "command_execution", "aggregated_output": "o"}},
    {"type": "item.updated", "item": {"type": "todo_list", "items": [{"text": "a", "completed": True}]}},
    {"type": "turn.failed", "error": {"message": "x"}},
)
TODOS = {"todos": [{"description": "d", "status": "x"}], "is_background": True}
GEMINI: tuple[dict[str, Any], ...] = (
    {"type": "init", "session_id": "s"},
    {"hook_event_name": "BeforeModel"},
    {"type": "tool_use", "tool_id": "t", "tool_name": "write_todos", "parameters": TODOS},
    {"hook_event_name": "BeforeTool", "tool_name": "write_todos", "tool_input": TODOS},
    {
        "hook_event_name": "AfterTool",
        "tool_name": "write_todos",
        "tool_input": TODOS,
        "tool_response": {"returnDisplay": "(PID: 99999999)", "llmContent": "x"},
    },
    {"type": "tool_result", "tool_id": "t", "status": "success", "output": "x", "error": {"type": "e"}},
    {"hook_event_name": "AfterAgent"},
    {"type": "result", "status": "error", "error": {"type": "e", "message": "status 529"}},
)


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    rows = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in rows:
        yield (*way, key)
        yield from places(below, (*way, key))


def damaged(row: dict[str, Any], way: tuple[Any, ...], bad: Any) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(json.dumps(row))
    at: Any = made
    for key in way[:-1]:
        at = at[key]
    at[way[-1]] = bad
    return made


def play(made: type[Bridge], rows: list[dict[str, Any]]) -> int:
    """Through one bridge from beginning to end; how many events it said, each one of the protocol."""
    leg = BridgeLeg(made({"program": "x", "folder": "/nowhere"}, {}))
    leg.bridge.complain = lambda _: None  # type: ignore[method-assign]
    said = 0
    try:
        for row in rows:
            if "hook_event_name" in row:
                more = dict(row)
                leg.hook(more.pop("hook_event_name"), **more)
            else:
                leg.says(**row)
            leg.answer("go", "allow")  # whoever asked nothing hears nothing
            said += len(leg.seen())
        leg.bridge.verdict(0)
    finally:
        leg.close()
    return said


@pytest.mark.parametrize(
    ("made", "rows"),
    [(claude_code.ClaudeCode, CLAUDE), (codex.AppServer, CODEX), (codex_exec.Exec, EXEC), (gemini.Gemini, GEMINI)],
)
def test_a_damaged_line_is_no_end_of_a_bridge(made: type[Bridge], rows: tuple[dict[str, Any], ...]) -> None:
    assert play(made, list(rows)) >= 4, "whole, these lines are a leg"
    for number, row in enumerate(rows):
        for way in places(row):
            for bad in BAD:
                if way != ("hook_event_name",):
                    play(made, [*rows[:number], damaged(row, way, bad), *rows[number + 1 :]])
