"""What Claude Code's lines and hooks become: figures, tools, boundaries, retries, ends.

The lines are small ones of our own, in the form that 2.1.332 was measured to send.
"""

import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relays.agents import process, registry
from relays.agents.base import AgentArgError, LegContext
from relays.agents.bridges import claude_code
from relays.agents.bridges.bridge import WIND_DOWN
from relays.agents.bridges.claude_code import ClaudeCode
from relays.agents.channel import Channel
from tests.agents.bridge_leg import Asked, BridgeLeg


class Leg(BridgeLeg):
    def call(self, message: str = "msg_1", *, delta: dict[str, Any] | None = None, **used: Any) -> None:
        figures = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 90, **used}
        begun = {"id": message, "model": "claude-x", "usage": {**figures, "output_tokens": 1}}
        self.stream(type="message_start", message=begun)
        self.stream(type="message_delta", usage={**figures, "output_tokens": 7, **(delta or {})})
        self.stream(type="message_stop")

    def stream(self, parent: str | None = None, **event: Any) -> None:
        self.says(type="stream_event", event=event, parent_tool_use_id=parent)

    def asks_for(self, tool: str, name: str = "Bash", **given: Any) -> None:
        block = {"type": "tool_use", "id": tool, "name": name, "input": given}
        self.says(type="assistant", message={"id": "msg_1", "content": [block]}, parent_tool_use_id=None)

    def may_run(self, tool: str, name: str = "Bash", **given: Any) -> Asked:
        return self.hook("PreToolUse", tool_use_id=tool, tool_name=name, tool_input=given)

    def runs(self, tool: str, name: str = "Bash", **given: Any) -> None:
        self.asks_for(tool, name, **given)
        self.may_run(tool, name, **given)
        self.answer("allow")

    def ends(self, tool: str, text: str = "done", **more: Any) -> None:
        block = {"type": "tool_result", "tool_use_id": tool, "content": text, **more}
        self.says(type="user", message={"role": "user", "content": [block]})

    def batch(self, *tools: str, **more: Any) -> Asked:
        return self.hook("PostToolBatch", tool_calls=[{"tool_use_id": tool} for tool in tools], **more)

    def system(self, subtype: str, **row: Any) -> None:
        self.says(type="system", subtype=subtype, **row)

    def result(self, **more: Any) -> None:
        self.says(type="result", **{"subtype": "success", "is_error": False, "terminal_reason": "completed", **more})


@pytest.fixture
def leg(tmp_path: Path) -> Iterator[Leg]:
    made = Leg(ClaudeCode({"program": "claude", "folder": str(tmp_path)}, {}))
    yield made
    made.close()


def test_a_call_says_what_goes_in_when_it_begins_and_what_came_out_when_it_ends(leg: Leg) -> None:
    written = {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30}
    leg.call(input_tokens=5, cache_creation_input_tokens=50, cache_creation=written)
    turn, begun, ended = leg.seen()
    assert turn["kind"] == "turn_started"
    assert (begun["message_id"], begun["input"], begun["output"], begun["chain"]) == ("msg_1", 5, 1, "main")
    assert [ended[key] for key in ("cache_read", "cache_write_5m", "cache_write_1h", "output")] == [90, 20, 30, 7]


def test_what_a_late_line_leaves_out_does_not_make_a_figure_smaller(leg: Leg) -> None:
    leg.call(delta={"input_tokens": 0, "cache_read_input_tokens": None})
    assert [(event["input"], event["cache_read"]) for event in leg.seen()[1:]] == [(10, 90), (10, 90)]


def test_a_tool_is_in_flight_from_before_it_runs_until_its_result(leg: Leg) -> None:
    leg.asks_for("t1", command="ls")
    asked = leg.may_run("t1", command="ls")
    assert leg.kinds() == ["tool_asked"] and asked.answer is None
    leg.answer("allow")
    assert leg.kinds() == ["tool_started"] and asked.answer == {}
    leg.ends("t1", "ünd")
    [ended] = leg.seen()
    assert (ended["kind"], ended["ok"], ended["result_bytes"]) == ("tool_ended", True, 4)


def test_the_boundary_comes_once_all_tools_of_a_message_have_ended_and_holds_the_program(leg: Leg) -> None:
    leg.runs("t1")
    leg.runs("t2")
    leg.ends("t1")
    leg.seen()
    held = leg.batch("t1", "t2")  # the hook was quicker than the second result's line
    assert leg.kinds() == [] and held.answer is None
    leg.ends("t2", "no", is_error=True)
    assert leg.kinds() == ["tool_ended", "boundary"] and held.answer is None
    leg.answer("go")
    assert held.answer == {}


def test_a_hook_does_not_wait_for_ever_for_a_line_that_never_comes(leg: Leg, monkeypatch: pytest.MonkeyPatch) -> None:
    leg.runs("t1")
    leg.batch("t1")
    later = time.monotonic() + 3
    monkeypatch.setattr(time, "monotonic", lambda: later)
    leg.says(type="something new")
    assert leg.kinds()[-1] == "boundary" and "t1" in leg.bridge.in_flight


def test_stop_ends_the_turn_before_another_call_and_closes_what_the_program_listens_to(leg: Leg) -> None:
    held = leg.batch()
    leg.answer("stop")
    said = held.answer
    assert said is not None and said["continue"] is False and leg.closed
    assert leg.bridge._finish(0) is None and leg.bridge.exit_code == 0


def test_winding_down_is_said_in_one_constant_text_and_again_only_where_what_holds_has_changed(leg: Leg) -> None:
    told = []
    for answer in ("wind_down TREE_DIRTY_UNPARKED", "wind_down TREE_DIRTY_UNPARKED", "wind_down NO_NEXT_ACTION"):
        held = leg.batch()
        leg.answer(answer)
        said = held.answer or {}
        told.append(said.get("hookSpecificOutput", {}).get("additionalContext"))
    assert told == [WIND_DOWN, None, WIND_DOWN]
    assert not any(word in WIND_DOWN.lower() for word in ("summar", "recap"))


def test_at_its_own_end_the_agent_is_told_what_holds_or_let_go(leg: Leg) -> None:
    first = leg.hook("Stop", background_tasks=[])
    assert leg.seen()[-1]["final"] is True
    leg.answer("wind_down NO_NEXT_ACTION")
    assert first.answer == {"decision": "block", "reason": WIND_DOWN}
    second = leg.hook("Stop", background_tasks=[])
    leg.answer("go")
    assert second.answer == {}
    leg.result()
    assert leg.closed and leg.bridge.verdict(0) == 0


def test_the_end_of_a_turn_waits_for_the_figures_of_its_last_call(leg: Leg) -> None:
    leg.stream(type="message_start", message={"id": "m", "model": "x", "usage": {"input_tokens": 1}})
    leg.hook("Stop")
    assert "boundary" not in leg.kinds()
    leg.stream(type="message_delta", usage={"output_tokens": 5})
    leg.stream(type="message_stop")
    assert leg.kinds() == ["usage", "boundary"]


def test_a_background_command_stays_in_flight_after_its_result_and_the_turn_is_not_the_last(leg: Leg) -> None:
    leg.runs("t1", run_in_background=True)
    leg.system("background_tasks_changed", tasks=[{"task_id": "b1"}])
    leg.system("task_started", task_id="b1", tool_use_id="t1")
    leg.ends("t1", "running in background")
    held = leg.batch("t1")
    assert leg.kinds() == ["tool_asked", "tool_started", "boundary"] and "t1" in leg.bridge.in_flight
    leg.answer("go")
    assert held.answer == {}
    leg.hook("Stop")
    assert leg.seen()[-1]["final"] is False
    leg.answer("go")
    leg.result()
    assert not leg.closed, "it is woken when the command has ended"
    leg.system("task_notification", task_id="b1", status="completed")
    leg.system("background_tasks_changed", tasks=[])
    [ended] = leg.seen()
    assert (ended["kind"], ended["id"], ended["ok"]) == ("tool_ended", "t1", True)


def test_a_task_that_is_gone_without_a_word_is_not_in_flight(leg: Leg) -> None:
    leg.runs("t1")
    leg.system("task_started", task_id="b1", tool_use_id="t1")
    leg.system("background_tasks_changed", tasks=[])
    assert not leg.bridge.in_flight


def test_a_tool_that_is_denied_never_started(leg: Leg) -> None:
    leg.asks_for("t1", "Deploy")
    asked = leg.may_run("t1", "Deploy")
    leg.answer("deny assumption 'port': query")
    said = (asked.answer or {})["hookSpecificOutput"]
    assert (said["permissionDecision"], said["permissionDecisionReason"]) == ("deny", "assumption 'port': query")
    leg.ends("t1", "denied", is_error=True)
    assert leg.kinds() == ["tool_asked", "tool_ended"]


def test_a_tool_that_does_not_exist_is_a_call_that_failed(leg: Leg) -> None:
    leg.asks_for("t1", "Nothing")
    leg.ends("t1", "No such tool", is_error=True)
    started, ended = leg.seen()
    assert (started["kind"], started["name"], ended["ok"]) == ("tool_started", "Nothing", False)


def test_files_are_told_when_they_were_written(leg: Leg) -> None:
    leg.runs("t1", "Write", file_path="/srv/x/a.txt", content="a")
    leg.ends("t1")
    leg.runs("t2", "Edit", file_path="/srv/x/b.txt")
    leg.ends("t2", "no match", is_error=True)
    leg.runs("t3", "NotebookEdit", notebook_path="/srv/x/c.ipynb")
    leg.ends("t3")
    assert [event["path"] for event in leg.seen() if event["kind"] == "file_written"] == [
        "/srv/x/a.txt",
        "/srv/x/c.ipynb",
    ]


def test_the_agents_own_list_of_tasks(leg: Leg) -> None:
    for rows in ([("a", "pending"), ("b", "in_progress")], [("a", "completed"), ("c", "pending")]):
        leg.runs("t", "TodoWrite", todos=[{"content": text, "status": state} for text, state in rows])
        leg.ends("t")
    leg.hook("TaskCreated", task_id="1", task_subject="Write")
    leg.hook("TaskCompleted", task_id="1", task_subject="Write")
    leg.runs("u", "TaskUpdate", taskId="2", status="deleted")
    leg.ends("u")
    told = [(event["id"], event["open"]) for event in leg.seen() if event["kind"] == "todo"]
    assert told == [
        ("a", True), ("b", True), ("a", False), ("b", False), ("c", True),
        ("task 1", True), ("task 1", False), ("task 2", False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "cause"),
    [
        ({"error_status": 529, "error": "overloaded"}, "overload"),
        ({"error_status": 429, "error": "rate_limit"}, "overload"),
        ({"error_status": 500, "error": "server_error"}, "overload"),
        ({"error_status": None, "error": "unknown"}, "network"),
        ({"error_status": 401, "error": "authentication_failed"}, "sign_in"),
        ({"error_status": 400, "error": "invalid_request"}, None),
    ],
)
def test_each_failed_try_says_whether_to_wait(leg: Leg, row: dict[str, Any], cause: str | None) -> None:
    leg.system("api_retry", attempt=1, retry_delay_ms=512.5, **row)
    seen = leg.seen()
    assert [(event["cause"], event["retry_in_ms"]) for event in seen] == ([(cause, 512)] if cause else [])


def test_a_sign_in_that_is_lost_is_told_by_the_result(leg: Leg) -> None:
    leg.result(is_error=True, api_error_status=401, terminal_reason="api_error", result="Invalid API key")
    assert [event["cause"] for event in leg.seen()] == ["sign_in"] and leg.closed


def test_a_program_that_gave_its_call_up_goes_on_later_in_the_same_session(
    leg: Leg, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.monotonic()
    for wait in (15_000, 30_000):
        leg.result(is_error=True, api_error_status=529, terminal_reason="api_error", result="API Error: 529")
        [event] = leg.seen()
        assert (event["cause"], event["retry_in_ms"]) == ("overload", wait) and not leg.closed
        assert not leg.requests or wait > 15_000
        now += wait / 1000 + 1
        monkeypatch.setattr(time, "monotonic", lambda now=now: now)
        leg.bridge._once()
        assert leg.requests[-1]["message"]["content"][0]["text"] == claude_code.GO_ON
    leg.call()
    leg.seen()
    leg.result(is_error=True, api_error_status=None, terminal_reason="api_error", result="Connection error.")
    assert [(event["cause"], event["retry_in_ms"]) for event in leg.seen()] == [("network", 15_000)]
    leg.result(is_error=True, api_error_status=400, terminal_reason="api_error", result="API Error: 400 no")
    assert leg.kinds() == [] and leg.closed, "no other try makes this one right"


def test_any_compaction_is_told_and_one_of_a_held_leg_is_refused(leg: Leg, tmp_path: Path) -> None:
    leg.system("compact_boundary", compact_metadata={"trigger": "auto", "pre_tokens": 167_000})
    [event] = leg.seen()
    assert (event["kind"], event["tokens_before"]) == ("compacted", 167_000)
    refused = leg.hook("PreCompact", trigger="auto")
    assert (refused.answer or {})["decision"] == "block" and leg.kinds() == ["compacted"]
    free = Leg(ClaudeCode({"program": "claude", "folder": str(tmp_path), "bounded": "0"}, {}))
    assert free.hook("PreCompact", trigger="auto").answer == {} and free.kinds() == []
    free.close()


@pytest.mark.parametrize(
    ("result", "code", "verdict"),
    [
        (None, 0, 1),  # it ended and said nothing of how
        (None, -9, -9),
        (None, 143, 143),
        ({"subtype": "success", "is_error": True, "terminal_reason": "api_error"}, 1, 1),
        ({"subtype": "error_during_execution", "is_error": True, "terminal_reason": "aborted_tools"}, 0, 1),  # SIGINT
        ({}, 0, 1),  # it never asked whether it may end
    ],
)
def test_how_it_ended_is_never_told_by_the_exit_code_alone(leg: Leg, result: Any, code: int, verdict: int) -> None:
    if result is not None:
        leg.result(**result)
    assert leg.bridge.verdict(code) == verdict


def test_the_calls_of_a_sub_agent_are_counted_beside_the_main_chain(leg: Leg, tmp_path: Path) -> None:
    message = {"id": "sub_1", "model": "claude-y", "usage": {"input_tokens": 9, "output_tokens": 1}, "content": []}
    leg.says(type="assistant", message=message, parent_tool_use_id="t1")
    leg.stream("t1", type="message_start", message={"id": "sub_1"})
    below = tmp_path / "s1" / "subagents"
    below.mkdir(parents=True)
    lines = [{"type": "assistant", "message": {**message, "usage": {"input_tokens": 9, "output_tokens": 44}}}, {"x": 1}]
    (below / "agent-a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"torn')
    leg.hook("SubagentStop", agent_id="a", transcript_path=str(tmp_path / "s1.jsonl"))
    seen = leg.seen()
    assert [(event["kind"], event["chain"], event["output"]) for event in seen] == [
        ("usage", "sub", 1),
        ("usage", "sub", 44),
    ]
    leg.hook("PostToolBatch", agent_id="a", tool_calls=[])
    assert leg.kinds() == [], "a sub-agent's tools are no boundary of the leg"


def test_a_version_that_asks_nobody_between_its_calls_is_ended_with_the_reason(
    leg: Leg, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(leg.bridge, "complain", said.append)
    for number in range(4):
        assert leg.bridge.exit_code is None
        leg.says(type="stream_event", event={"type": "message_start", "message": {"id": f"m{number}"}})
        leg.hook("PreToolUse", tool_use_id=f"t{number}", tool_name="Bash", agent_id="" if number < 3 else "sub")
        leg.answer("allow")
    assert leg.bridge.exit_code == 3 and "2.1.332" in said[0]


def test_a_version_that_asked_once_is_never_taken_for_one_that_asks_nobody(leg: Leg) -> None:
    for number in range(9):
        leg.says(type="stream_event", event={"type": "message_start", "message": {"id": f"m{number}"}})
        leg.hook("PreToolUse", tool_use_id=f"t{number}", tool_name="Bash")
        leg.answer("allow")
        if number == 1:
            leg.hook("PostToolBatch", tool_calls=[])
    assert leg.bridge.exit_code is None


def test_whatever_else_it_writes_is_ignored(leg: Leg) -> None:
    for line in (b"not json", b"[]", b'{"type":"assistant"}', b'{"type":"user","message":{"content":"text"}}', b"\xff"):
        leg.bridge.said(line)
    leg.system("something_new", tasks=3)
    leg.stream(type="message_delta", usage={})
    assert leg.kinds() == []


# --- the program's own start, with a small program in its place

PROGRAM = """
import json, os, sys
given = {sys.argv[index]: sys.argv[index + 1] for index in range(1, len(sys.argv) - 1)}
first = json.loads(sys.stdin.readline())
seen = {"argv": sys.argv[1:], "env": dict(os.environ), "said": first["message"]["content"][0]["text"],
        "settings": json.load(open(given["--settings"])), "mcp": open(given["--mcp-config"]).read()}
open(os.environ["OUT"], "w").write(json.dumps(seen))
print(json.dumps({"type": "result", "subtype": "success", "is_error": True, "result": "no more"}), flush=True)
sys.stdin.read()
sys.exit(1)
"""


def context(tmp_path: Path, socket_path: str, **args: str) -> LegContext:
    seed = tmp_path / "seed.txt"
    seed.write_text("You are one leg of a relay.\n")
    return LegContext(
        relay_id="RLY-1", leg=0, baton_path="", worktree=str(tmp_path), objective="o", done_when="d", next_action="",
        window_tokens=200_000, ceiling_tokens=180_000, log_dir=str(tmp_path / "log"), socket_path=socket_path,
        token="secret-of-the-leg", marker=f"test-{secrets.token_hex(8)}", args=args, seed_path=str(seed),
    )  # fmt: skip


def test_it_is_started_with_our_settings_alone_and_no_secret_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "claude"
    program.write_text(f"#!{sys.executable} -S\n{PROGRAM}")
    program.chmod(0o755)
    out = tmp_path / "out.json"
    monkeypatch.setenv("OUT", str(out))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.setenv("SECRET_KEY", "of the site")
    with Channel(tmp_path / "log") as channel:
        env = "ANTHROPIC_API_KEY,OUT"
        ctx = context(tmp_path, channel.socket_path, program=str(program), env=env, model="claude-x")
        launch = registry.adapter("claude-code").launch(ctx)
        agent = process.launch(launch.argv, cwd=tmp_path, env=launch.env, marker=ctx.marker, log_dir=ctx.log_dir)
        channel.attach(agent)
        deadline = time.monotonic() + 30
        while agent.poll() is None and time.monotonic() < deadline:
            channel.wait(0.1)
        code = agent.poll()
        agent.kill_tree()
        agent.close()
    assert code == 1, "an error is an error"
    seen = json.loads(out.read_text())
    assert seen["said"] == "You are one leg of a relay.\n"
    after = dict(zip(seen["argv"], seen["argv"][1:], strict=False))
    assert after["--setting-sources"] == "" and after["--model"] == "claude-x" and "--strict-mcp-config" in after
    assert "EnterWorktree" in after["--disallowedTools"], "the leg's worktree is its place"
    assert {"PreToolUse", "PostToolBatch", "Stop", "PreCompact"} <= set(seen["settings"]["hooks"])
    servers = json.loads(seen["mcp"])["mcpServers"]
    assert list(servers) == ["relay"] and servers["relay"]["env"] == {
        "RELAY_SOCKET": "${RELAY_SOCKET}",
        "RELAY_TOKEN": "${RELAY_TOKEN}",
    }
    own = seen["env"]
    assert own["DISABLE_AUTO_COMPACT"] == "1" and own["ANTHROPIC_API_KEY"] == "test-key" and "SECRET_KEY" not in own
    assert own["CLAUDE_CONFIG_DIR"].startswith(str(tmp_path / "log"))
    written = b"".join(path.read_bytes() for path in (tmp_path / "log").rglob("*") if path.is_file())
    assert b"secret-of-the-leg" not in written and b"test-key" not in written


def test_arguments_that_it_cannot_be_started_with_are_refused_in_one_line(tmp_path: Path) -> None:
    adapter = registry.adapter("claude-code")
    adapter.check_args({"model": "claude-x", "env": "ANTHROPIC_API_KEY", "config": "user"})
    for args, words in (
        ({"colour": "red"}, "'colour' is not known"),
        ({"config": "mine"}, "one of own, user"),
        ({"model": "a\nb"}, "model is no text of one line"),
        ({"env": "RELAY_TOKEN"}, "RELAY_TOKEN"),
    ):
        with pytest.raises(AgentArgError, match=words):
            adapter.check_args(args)
    with pytest.raises(AgentArgError, match="was not found at /nowhere/claude: install @anthropic-ai/claude-code"):
        adapter.launch(context(tmp_path, "", program="/nowhere/claude"))
    assert not os.path.exists("/nowhere")
