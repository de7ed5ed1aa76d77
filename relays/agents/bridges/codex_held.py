"""What both ways of driving Codex have in common: it is held by its hooks.

spec/agents.md 2, and measured with 0.171.0: PreModelRequest comes before each request and each further try of it,
PostModelRequest after it, with its figures or its error; PostToolUse after each tool. So the figures of a call are
known before its tools have ended, and the PostToolUse that empties the set is the boundary: what is told there
(`additionalContext`) is in the next call. Where no such hook comes (a command that goes on in the background, a tool
that the program refused) the next PreModelRequest is the boundary. A message that steers the turn there would cancel
a request that was sent, and bill it twice: what is to be told waits for the next hook that can tell it. A Stop hook
comes at the end of a turn, and a Stop that is refused goes on with its reason.

Hooks that come by flags run only where they are trusted by their digest; the program itself tells it (`hooks/list`).
So nothing is written into the user's configuration, and nobody else's hook is trusted by it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from relays.agents.bridges import codex_flags as flags
from relays.agents.bridges.bridge import Bridge
from relays.agents.bridges.codex_said import buckets, good, size, status_in
from relays.agents.bridges.hooks import HookCall
from relays.agents.outages import trouble

SETTLE: Final = 10.0  # seconds that a hook waits for what was said before it and is still under way

_TOOLS: Final = {
    "commandExecution": "shell",
    "command_execution": "shell",
    "fileChange": "apply_patch",
    "file_change": "apply_patch",
    "mcpToolCall": "mcp",
    "mcp_tool_call": "mcp",
    "webSearch": "web_search",
    "web_search": "web_search",
    "dynamicToolCall": "tool",
    "imageView": "view_image",
}


class Codex(Bridge):
    """One leg of Codex, as far as both ways of driving it go."""

    def __init__(self, args: Mapping[str, str], env: Mapping[str, str] | None = None) -> None:
        super().__init__(args, env)
        self.thread = ""
        self.request = ""  # the model request under way, or the last one
        self.answered = True  # its figures are known
        self.broken = False  # it failed; what it asked for before that was done all the same
        self.hooked = False  # a hook of ours has come: the program can be held
        self.asked = True  # a boundary was asked since the last answer of the model
        self.running: dict[str, str] = {}  # tools of the last answer that have not ended: id -> what they were given
        self.behind: set[str] = set()  # tools that run on in the background of later calls
        self.over: set[str] = set()  # tools that have ended
        self.late: list[tuple[str, bool, int]] = []  # ends that wait for the figures of their call
        self.held: list[HookCall] = []  # PostToolUse calls that wait
        self.untold = ""  # what the agent is to be told at the next hook that can tell it
        self.plan: set[str] = set()
        self.failed = ""
        self.last = False  # the boundary that was answered last was the end of the leg

    # --- start

    def flags(self) -> list[str]:
        """Settings for this leg alone, hooks of ours that are trusted among them. ValueError says what is wrong."""
        return flags.made(
            self.program,
            self.own_environment(),
            self.model,
            self.args.get("config", ""),
            server=self.mcp_argv(),
            hook=self.hook_command(),
        )

    # --- hooks

    def hook(self, call: HookCall) -> None:
        said = call.said
        event = said.get("hook_event_name")
        thread = said.get("thread_id") or said.get("session_id")
        self.hooked = True
        if self.thread and thread and thread != self.thread:
            self._of_another(call)
        elif event == "PreModelRequest":
            self._request(call)
        elif event == "PostModelRequest":
            self._answer(call)
        elif event == "PreToolUse":
            self._may_run(call)
        elif event == "PostToolUse":
            self._tool_over(str(said.get("tool_use_id")), good(said), size(said.get("tool_response")))
            self.held.append(call)
            self.after(SETTLE, lambda: self._give_up(call))
            self._settle()
        elif event == "PreCompact":
            self._compacts(call)
        elif event == "Stop":
            self._turn_ends(call)
        else:
            call.answer()

    def _of_another(self, call: HookCall) -> None:
        """A thread below the leg's own: billed, and not in its window."""
        figures = call.said.get("token_usage")
        if isinstance(figures, dict):
            self.usage(str(call.said.get("request_id")), str(call.said.get("model")), buckets(figures), chain="sub")
        call.answer()

    def _request(self, call: HookCall) -> None:
        said = call.said
        if said.get("kind") not in (None, "sampling"):
            call.answer()  # a compaction that was not refused
            return
        request = str(said.get("request_id"))
        again = request == self.request and not self.answered
        if again and not self.late:
            self.broken = False
            call.answer()
            return
        self._reconcile()

        def on() -> None:
            self.request, self.answered, self.broken, self.asked = request, False, False, False
            if not again:
                self.turn_started()
            call.answer()

        if self.asked:
            on()
            return

        def answered(answer: str) -> None:
            if answer == "stop":
                self.stop()
                return
            self.untold = self.words(answer) or self.untold
            on()

        self._ask(answered)

    def _reconcile(self) -> None:
        """Before another call: what was begun and has not ended runs in the background, or was refused."""
        self._flush()
        for tool, given in list(self.running.items()):
            if self.runs_on(tool, given):
                self.behind.add(tool)
                del self.running[tool]
            else:
                self._tool_over(tool, False, 0)

    def _answer(self, call: HookCall) -> None:
        """A request is over. Only what was answered has figures; what failed is tried again, or ends the turn."""
        said = call.said
        figures, error = said.get("token_usage"), said.get("error")
        if said.get("kind") in (None, "sampling"):
            if said.get("status") == "completed":
                if not self.answered and str(said.get("request_id")) == self.request:
                    self._figures(said)  # of no other: a tool could say it, and make the window look empty
            elif error:
                self.broken = True
                self.troubled(str(error))
                self._let_pass()
        elif isinstance(figures, dict):
            self.usage(str(said.get("request_id")), str(said.get("model")), buckets(figures), chain="sub")
        call.answer()
        self._settle()

    def _figures(self, said: Mapping[str, Any]) -> None:
        figures = said.get("token_usage")
        model = str(said.get("model") or self.model or "unknown")
        self.usage(str(said.get("request_id")), model, buckets(figures if isinstance(figures, dict) else {}))
        self.answered = True
        self._flush()

    def _flush(self) -> None:
        if self.late:
            self.asked = False
        for late in self.late:
            self.tool_ended(*late)
        self.late.clear()

    def troubled(self, words: str) -> None:
        """A request failed. Whether it is tried again is not said here."""
        cause = trouble(status_in(words), words)
        if cause:
            self.retry(cause)

    # --- tools

    def runs_on(self, tool: str, given: str) -> bool:
        """Whether a tool that began and told no end still runs."""
        raise NotImplementedError

    def _may_run(self, call: HookCall) -> None:
        tool, name = str(call.said.get("tool_use_id")), str(call.said.get("tool_name"))
        given = call.said.get("tool_input")
        command = given.get("command") if isinstance(given, dict) else None

        def answered(answer: str) -> None:
            if answer.startswith("deny"):
                why = answer.partition(" ")[2] or "not now"
                said = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why}
                call.answer({"hookSpecificOutput": said})
                return
            self.running[tool] = command if isinstance(command, str) else ""
            self._tool_began(tool, name)
            call.answer()

        self.ask_tool(tool, name, answered)

    def _tool_began(self, tool: str, name: str) -> None:
        if tool not in self.over and not self.last:
            self.tool_started(tool, name)

    def _tool_over(self, tool: str, good: bool, size: int) -> None:
        """Once a tool, whoever tells it first; after the figures of the call that asked for it."""
        self.running.pop(tool, None)
        behind = tool in self.behind
        self.behind.discard(tool)
        if tool in self.over or self.last:
            return
        self.over.add(tool)
        if tool not in self.in_flight:
            self.tool_started(tool, "unknown")
        if self.answered or behind:
            self.tool_ended(tool, good, size)
        else:
            self.late.append((tool, good, size))

    def _settle(self) -> None:
        """A boundary, once the figures of the call are known and none of its tools runs; those that wait pass it."""
        if not self.held or not (self.answered or self.broken):
            return
        if self.running or self.broken:
            self._let_pass()
            return
        calls, self.held = self.held, []

        def answered(answer: str) -> None:
            if answer == "stop":
                self.stop()  # they wait until the program is gone: no further call passes
                return
            words = self.words(answer) or self.untold
            self.untold = ""
            for call in calls[:-1]:
                call.answer()
            said = {"hookEventName": "PostToolUse", "additionalContext": words}
            calls[-1].answer({"hookSpecificOutput": said} if words else None)

        self._ask(answered)

    def _let_pass(self) -> None:
        for call in self.held:
            call.answer()
        self.held.clear()

    def _give_up(self, call: HookCall) -> None:
        """The request that asked for this tool tells no figures, it failed: its next try comes by PreModelRequest."""
        if call in self.held:
            self.held.remove(call)
            call.answer()

    def _ask(self, then: Callable[[str], None], *, final: bool = False) -> None:
        self.asked = True
        self.boundary(then, final=final)

    # --- compaction, the end of a turn

    def _compacts(self, call: HookCall) -> None:
        if not self.bounded:
            call.answer()
            return
        self.compacted()
        call.answer({"continue": False, "stopReason": "a leg of a relay is never compacted: it hands over"})

    def _turn_ends(self, call: HookCall) -> None:
        self._reconcile()

        def answered(answer: str) -> None:
            words = self.words(answer, final=True)
            if answer == "stop":
                self.stop()
            elif words:
                call.answer({"decision": "block", "reason": words})
            else:
                self.last = True
                call.answer()

        self._ask(answered, final=True)

    # --- what the program says of its work

    def item(self, kind: str, tool: str, row: Mapping[str, Any], *, ended: bool) -> None:
        """An item that began or ended, by the id that its hooks know it by."""
        if kind not in _TOOLS:
            return
        if not ended:
            self._tool_began(tool, _TOOLS[kind])
            return
        good = row.get("status") in ("completed", None)
        output = row.get("aggregatedOutput") or row.get("aggregated_output") or row.get("result")
        self.wrote(row)
        self._tool_over(tool, good, size(output))

    def wrote(self, row: Mapping[str, Any]) -> None:
        changes = row.get("changes")
        for change in changes if isinstance(changes, list) else ():
            if isinstance(change, dict) and not self.last:
                self.file_written(str(change.get("path") or ""))

    def planned(self, steps: list[tuple[str, bool]]) -> None:
        """The agent's own to-do list as it stands: (step, done)."""
        left = {step for step, done in steps if not done and step}
        for step in sorted(self.plan - left):
            self.todo(step, False)
        for step in sorted(left - self.plan):
            self.todo(step, True, step)
        self.plan = left

    def unheld(self) -> bool:
        """A call was made and no hook asked us first: a program that cannot be held is ended."""
        if self.hooked or self.stopping:
            return False
        self.complain(
            "Codex made a call of its model without asking its hooks first: it cannot be held (are hooks off?)"
        )
        self.failed = "hooks are off"
        self.exit_code = 3
        return True

    def verdict(self, code: int) -> int:
        """The program ends well only after its last turn was let go; its exit code alone says nothing of that."""
        if self.failed:
            self.complain(f"the program gave up: {self.failed}")
        return code if self.last and not self.failed else code or 1
