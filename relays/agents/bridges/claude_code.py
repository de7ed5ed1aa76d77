"""Claude Code, driven over stream-json both ways and its hooks.

spec/agents.md 1, and measured with 2.1.332: the PostToolBatch hook comes once all tools of a message have ended, after
their results were written and before the next model call; a Stop hook comes at each end of a turn, also of one that a
background command woke. So one hook stands between any two model calls of the main chain, and it is the boundary. What
is told there (`additionalContext`, or the reason of a Stop that is refused) is in the next call.

The figures of a call: what goes in is known when its answer begins, what comes out in `message_delta`. Sub-agents tell
neither on stdout: theirs are read from the session's own files when a sub-agent or a turn ends.
"""

import json
import os
import shlex
import signal
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from relays.agents.bridges.bridge import STOPPED, Bridge, read_object
from relays.agents.bridges.claude_said import blocks, buckets, calls_below, rows, size, table
from relays.agents.bridges.hooks import HookCall
from relays.agents.outages import NETWORK, OVERLOAD, SIGN_IN, trouble

#: a hook may wait as long as a boundary does: a tool that is waited for, a person's command
HOOK_SECONDS: Final = 86_400
HOOKS: Final = ("PreToolUse", "PostToolBatch", "Stop", "PreCompact", "SubagentStop", "TaskCreated", "TaskCompleted")
#: nothing but the model's own address is looked up, and the program is not exchanged in the middle of a relay
SWITCHES: Final = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "ENABLE_TOOL_SEARCH": "false",  # the query tool is there from the first call on, and is no find
}
#: with one of these it needs nothing of the user's own folder
KEYS: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
WRITERS: Final = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}

#: tools that lead out of the leg: another worktree, another time
LEFT_OUT: Final = "EnterWorktree,ExitWorktree,CronCreate,CronDelete,CronList,ScheduleWakeup"
#: to an agent whose program gave its call up; whether the leg waits that long is the driver's to judge
GO_ON: Final = "The model did not answer for a while. Go on where you were."
FIRST_WAIT: Final = 15.0  # seconds until then, doubled up to LONGEST_WAIT
LONGEST_WAIT: Final = 300.0

SETTLE: Final = 2.0  # seconds that a hook waits for lines that were written before it and are still under way
SIGN_OF_LIFE: Final = 30.0  # seconds between two figures of a call whose answer is still being written
UNASKED: Final = 3  # calls after tools, of a leg in which no batch of tools was asked about
AFTER_RESULT: Final = 10.0  # seconds that the program has to exit once its last turn has ended


class ClaudeCode(Bridge):
    """One leg of Claude Code."""

    def __init__(self, args: Mapping[str, str], env: Mapping[str, str] | None = None) -> None:
        super().__init__(args, env)
        self.inputs: dict[str, tuple[str, dict[str, Any]]] = {}  # tool that was asked for -> name, input
        self.background: dict[str, str] = {}  # task -> the tool that began it
        self.refused: set[str] = set()
        self.todos: set[str] = set()
        self.open_call = ""  # message id of the main chain whose answer is still being written
        self.said_at = 0.0
        self.figures: dict[str, dict[str, Any]] = {}
        self.result: dict[str, Any] | None = None
        self.session: Path | None = None
        self.given_up = 0  # times that the program gave a call up since the model answered
        self.last = False  # the boundary that was answered last was the end of the leg
        self.unasked: int | None = 0  # calls after tools without a boundary between; None: it is known to ask
        self.ran = False  # a tool of the main chain was let run since its last call
        self._settling: list[tuple[Callable[[], bool], Callable[[], None], float]] = []

    # --- start

    def start(self) -> None:
        hooks = {"matcher": "", "hooks": [self._hook()]}
        settings = {"hooks": {event: [hooks] for event in HOOKS}}
        server, *rest = self.mcp_argv()
        wanted = {
            name: f"${{{name}}}" for name in ("RELAY_SOCKET", "RELAY_TOKEN")
        }  # expanded by the program: no secret
        tools = {"mcpServers": {"relay": {"type": "stdio", "command": server, "args": rest, "env": wanted}}}
        env = self.own_environment() | SWITCHES
        if self.bounded:
            env["DISABLE_AUTO_COMPACT"] = "1"
        if os.geteuid() == 0:
            env["IS_SANDBOX"] = "1"  # else it refuses to work without asking as root; it is contained
        if self.args.get("config", "own" if any(env.get(key) for key in KEYS) else "user") == "own":
            env |= {"CLAUDE_CONFIG_DIR": str(self.folder / "config"), "XDG_CACHE_HOME": str(self.folder / "cache")}
        argv = [self.program, "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"]
        argv += ["--include-partial-messages", "--dangerously-skip-permissions", "--session-id", str(uuid.uuid4())]
        # settings of the repository could run commands of its own, the user's are not the relay's
        argv += ["--setting-sources", "", "--settings", self.own_file("settings.json", json.dumps(settings))]
        argv += ["--strict-mcp-config", "--mcp-config", self.own_file("mcp.json", json.dumps(tools))]
        argv += ["--disallowedTools", LEFT_OUT]
        argv += ["--model", self.model] if self.model else []
        self.spawn(argv, env)
        self._say(self.seed())

    def _hook(self) -> dict[str, Any]:
        return {"type": "command", "command": shlex.join(self.hook_command()), "timeout": HOOK_SECONDS}

    def _say(self, text: str) -> None:
        message = {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": text}]}}
        self.tell(json.dumps(message).encode() + b"\n")

    # --- stdout

    def said(self, line: bytes) -> None:
        row = read_object(line)
        match row.get("type"):
            case "stream_event":
                self._streamed(table(row.get("event")), bool(row.get("parent_tool_use_id")))
            case "assistant":
                self._assistant(table(row.get("message")), bool(row.get("parent_tool_use_id")), row)
            case "user":
                self._results(table(row.get("message")), table(row.get("tool_use_result")))
            case "system":
                self._system(str(row.get("subtype")), row)
            case "result":
                self._result(row)
        self._settle()

    def _streamed(self, event: Mapping[str, Any], sub: bool) -> None:
        if sub:
            return
        match event.get("type"):
            case "message_start":
                message = table(event.get("message"))
                self.open_call = str(message.get("id") or "")
                self.result = None  # another turn runs
                self.given_up = 0
                self._goes_on()
                self.turn_started()
                self.figures[self.open_call] = {"model": message.get("model"), **buckets(table(message.get("usage")))}
                self._figures(self.open_call)
            case "message_delta" if self.open_call:
                said = table(event.get("usage"))
                new = buckets(said)
                old = self.figures[self.open_call]
                self.figures[self.open_call] = old | {
                    key: max(value or 0, old[key] or 0) for key, value in new.items() if value is not None
                }
                self._figures(self.open_call)
            case "message_stop":
                self.figures.pop(self.open_call, None)
                self.open_call = ""
            case _ if self.open_call and time.monotonic() - self.said_at > SIGN_OF_LIFE:
                self._figures(self.open_call)

    def _goes_on(self) -> None:
        """Another call. One version too old knows no hook of a whole batch of tools: it passes us, and is ended."""
        if self.unasked is None or not self.ran:
            return
        self.ran = False
        self.unasked += 1
        if self.unasked >= UNASKED:
            self.complain("Claude Code asks nobody before its next call: it cannot be held; use 2.1.332 or newer")
            self.exit_code = 3

    def _figures(self, message: str) -> None:
        self.said_at = time.monotonic()
        found = self.figures[message]
        if message:
            self.usage(message, str(found["model"] or self.model or "unknown"), found)

    def _assistant(self, message: Mapping[str, Any], sub: bool, row: Mapping[str, Any]) -> None:
        for block in blocks(message):
            if block.get("type") == "tool_use":
                self.inputs[str(block.get("id"))] = (str(block.get("name")), table(block.get("input")))
        if sub and message.get("id") and message.get("model") != "<synthetic>":
            figures = buckets(table(message.get("usage")))
            self.usage(str(message["id"]), str(message.get("model") or "unknown"), figures, chain="sub")
        if row.get("error") == "authentication_failed":
            self.retry(SIGN_IN)

    def _results(self, message: Mapping[str, Any], _said: Mapping[str, Any]) -> None:
        for block in blocks(message):
            if block.get("type") != "tool_result":
                continue
            tool = str(block.get("tool_use_id"))
            if tool in self.background.values():
                continue  # it was only begun
            name, asked = self.inputs.pop(tool, ("unknown", {}))
            good = block.get("is_error") is not True
            if tool not in self.in_flight and tool not in self.refused:
                self.tool_started(tool, name)  # failed before any hook was asked: there is no such tool, or so it says
            self.refused.discard(tool)
            if good:
                self._did(name, asked)
            self.tool_ended(tool, good, size(block.get("content")))

    def _did(self, name: str, asked: Mapping[str, Any]) -> None:
        if name in WRITERS:
            self.file_written(str(asked.get(WRITERS[name]) or ""))
        elif name == "TodoWrite":
            listed = [row for row in rows(asked.get("todos")) if row.get("content")]
            left = {str(row["content"]) for row in listed if row.get("status") != "completed"}
            for text in sorted(self.todos - left):
                self.todo(text, False)
            for text in sorted(left - self.todos):
                self.todo(text, True, text)
            self.todos = left
        elif name == "TaskUpdate" and asked.get("status") in ("deleted", "completed"):
            self.todo(f"task {asked.get('taskId')}", False)

    def _system(self, subtype: str, row: Mapping[str, Any]) -> None:
        match subtype:
            case "api_retry":
                status = row.get("error_status")
                words = f"{row.get('error') or ''} {row.get('error_message') or ''}"
                cause = trouble(status if isinstance(status, int) else None, words) or (
                    None if isinstance(status, int) else "network"  # no answer came at all
                )
                if cause:
                    wait = row.get("retry_delay_ms")
                    self.retry(cause, wait if isinstance(wait, (int, float)) else None)
            case "task_started" if row.get("tool_use_id"):
                self.background[str(row.get("task_id"))] = str(row["tool_use_id"])
            case "task_notification":
                self._task_ended(str(row.get("task_id")), row.get("status") == "completed")
            case "background_tasks_changed" if isinstance(row.get("tasks"), list):
                left = {str(table(task).get("task_id")) for task in row["tasks"]}
                for task in [task for task in self.background if task not in left]:
                    self._task_ended(task, True)
            case "compact_boundary":
                self.compacted(table(row.get("compact_metadata")).get("pre_tokens"))

    def _task_ended(self, task: str, good: bool) -> None:
        tool = self.background.pop(task, "")
        if tool in self.in_flight:
            self.inputs.pop(tool, None)
            self.tool_ended(tool, good, 0)

    def _result(self, row: dict[str, Any]) -> None:
        """The end of a turn, of which there can be several: the last one is when nothing can wake it any more."""
        self.result = row
        if row.get("is_error"):
            status = row.get("api_error_status")
            failed = row.get("terminal_reason") == "api_error" or isinstance(status, int)
            words = str(row.get("result") or "") if failed else ""
            cause = trouble(status if isinstance(status, int) else None, words)
            if cause == SIGN_IN:
                self.retry(SIGN_IN)
            elif cause in (OVERLOAD, NETWORK) and not self.stopping:
                self._later(cause)
                return
            self._over()
        elif self.last or not self.background:
            self._over()

    def _later(self, cause: str) -> None:
        """Its own tries are over and nothing was billed: it goes on in the same session once the wait is over."""
        wait = min(FIRST_WAIT * 2 ** min(self.given_up, 10), LONGEST_WAIT)
        self.given_up += 1
        self.retry(cause, wait * 1000)
        self.after(wait, lambda: None if self.stopping else self._say(GO_ON))

    def _over(self) -> None:
        self.close_stdin()
        self.after(AFTER_RESULT, lambda: self.strike(signal.SIGTERM))
        self.after(AFTER_RESULT + 2, lambda: self.strike(signal.SIGKILL))

    # --- hooks

    def hook(self, call: HookCall) -> None:
        said = call.said
        if isinstance(said.get("transcript_path"), str):
            self.session = Path(said["transcript_path"])
        match said.get("hook_event_name"):
            case "PreToolUse":
                self._may_run(call)
            case "PostToolBatch" if not said.get("agent_id"):
                self.unasked = None
                tools = {str(tool.get("tool_use_id")) for tool in rows(said.get("tool_calls"))}
                begun = set(self.background.values())
                self._when(lambda: not ((tools & self.in_flight.keys()) - begun), lambda: self._batch(call))
            case "Stop":
                self._when(lambda: not self.open_call, lambda: self._turn_ends(call))
            case "PreCompact" if self.bounded:
                self.compacted()
                call.answer({"decision": "block", "reason": "a leg of a relay is never compacted: it hands over"})
            case "SubagentStop":
                self._subagents()
                call.answer()
            case "TaskCreated" | "TaskCompleted" as event:
                key = f"task {said.get('task_id')}"
                self.todo(key, event == "TaskCreated", str(said.get("task_subject") or ""))
                call.answer()
            case _:
                call.answer()

    def _may_run(self, call: HookCall) -> None:
        tool, name = str(call.said.get("tool_use_id")), str(call.said.get("tool_name"))

        def answered(answer: str) -> None:
            if answer.startswith("deny"):
                self.refused.add(tool)
                why = answer.partition(" ")[2] or "not now"
                said = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
                call.answer({"hookSpecificOutput": said})
                return
            self.inputs.setdefault(tool, (name, table(call.said.get("tool_input"))))
            self.ran = self.ran or not call.said.get("agent_id")
            self.tool_started(tool, name)
            call.answer()

        self.ask_tool(tool, name, answered)

    def _batch(self, call: HookCall) -> None:
        def answered(answer: str) -> None:
            if answer == "stop":
                call.answer({"continue": False, "stopReason": STOPPED})
                self._end()
                return
            words = self.words(answer)
            said = {"hookEventName": "PostToolBatch", "additionalContext": words}
            call.answer({"hookSpecificOutput": said} if words else None)

        self.boundary(answered)

    def _turn_ends(self, call: HookCall) -> None:
        self._subagents()
        final = not self.background

        def answered(answer: str) -> None:
            words = self.words(answer, final=final)
            if answer == "stop":
                call.answer({"continue": False, "stopReason": STOPPED})
                self._end()
            elif words:
                call.answer({"decision": "block", "reason": words})
            else:
                self.last = final
                call.answer()

        self.boundary(answered, final=final)

    def _end(self) -> None:
        """It ends by itself when its stdin does; what runs in its background would keep it."""
        self.stop()
        if self.in_flight:
            self.after(1.0, lambda: self.strike(signal.SIGTERM))

    def _when(self, holds: Callable[[], bool], then: Callable[[], None]) -> None:
        """`then`, as soon as `holds`; at the latest after SETTLE."""
        self._settling.append((holds, then, time.monotonic() + SETTLE))
        self._settle()
        if self._settling:
            self.after(SETTLE, self._settle)

    def _settle(self) -> None:
        now = time.monotonic()
        ready = [then for holds, then, until in self._settling if holds() or now >= until]
        self._settling = [row for row in self._settling if row[1] not in ready]
        for then in ready:
            then()

    def _subagents(self) -> None:
        """The final figures of the calls of sub-agents, from the files that the program keeps of them."""
        if self.session is None:
            return
        for message, model, figures in calls_below(self.session.with_suffix("") / "subagents"):
            self.usage(message, model, figures, chain="sub")

    # --- the end

    def verdict(self, code: int) -> int:
        """ "Use (last result event, exit code, was-I-stopping) together; no result line is its own outcome." """
        if self.result is None:
            self.complain(f"the program ended ({code}) without a result")
            return code or 1
        if self.result.get("is_error"):
            why = self.result.get("terminal_reason") or self.result.get("subtype")
            self.complain(f"the program gave up: {why}, {self.result.get('result') or ''}")
            return code or 1
        return 0 if self.last else code or 1


def main(args: Mapping[str, str]) -> int:
    return ClaudeCode(args).run()
