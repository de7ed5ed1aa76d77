"""Gemini CLI, headless, held by its hooks.

spec/agents.md 3, and measured with 0.61.0: BeforeModel comes before each request and each further try of it, BeforeTool
and AfterTool around each tool, AfterAgent at the end; one that answers `continue:false` ends the run without a further
request. The figures of a call are in the session's own file before its tools run. The AfterTool that empties the set
is the boundary, and what is told there (`additionalContext`) is in the next call; where none comes (a tool that there
is not) the next BeforeModel is the boundary. An AfterAgent that is refused goes on with its reason.

Hooks name no tool by its id: which one it is tell name and parameters, which stdout told with the id before.
A command that was moved to the background is in flight until its process group is gone.
"""

import re
import shlex
import shutil
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from relays.agents.bridges import gemini_home
from relays.agents.bridges.bridge import STOPPED, Bridge, read_object
from relays.agents.bridges.gemini_said import buckets, canonical, is_open, lives, moves, size, table
from relays.agents.bridges.hooks import HookCall
from relays.agents.outages import SIGN_IN, trouble

HOOKS: Final = ("BeforeModel", "BeforeTool", "AfterTool", "AfterAgent")
HOOK_MILLISECONDS: Final = 86_400_000  # a hook may wait as long as a boundary does
WRITERS: Final = {"write_file": "file_path", "replace": "file_path"}
GO_ON: Final = "The model did not answer. Go on where the work stopped."
FIRST_WAIT: Final = 5.0  # seconds, after the program's own tries, until the same leg asks its model again; doubled
LONGEST_WAIT: Final = 300.0
LOOK: Final = 0.5  # seconds between two looks at what runs in the background

_ATTEMPT: Final = re.compile(r"\bAttempt \d+ failed(?: with status (\d+))?")
_BEHIND: Final = re.compile(r"\(PID: (\d+)\)")


class Gemini(Bridge):
    """One leg of Gemini CLI."""

    def __init__(self, args: Mapping[str, str], env: Mapping[str, str] | None = None) -> None:
        super().__init__(args, env)
        self.session = ""
        self.file: Path | None = None
        self.read_to = 0
        self.figures: dict[str, Any] = {}  # message -> what was told of it
        self.called: dict[str, tuple[str, str]] = {}  # tools of the last answer that have not ended: id -> name, input
        self.began: set[str] = set()
        self.behind: dict[str, int] = {}  # tools that run in the background -> process group
        self.over: set[str] = set()
        self.answered = True  # the figures of the last request are known
        self.asked = True  # a boundary was asked since the last answer of the model
        self.hooked = False
        self.untold = ""
        self.todos: set[str] = set()
        self.result: dict[str, Any] | None = None
        self.last = False  # the boundary that was answered last was the end of the leg
        self.tries = 0
        self._stderr = b""

    # --- start

    def start(self) -> None:
        home = self.folder / "home"
        server, *rest = self.mcp_argv()
        wanted = {name: f"${name}" for name in ("RELAY_SOCKET", "RELAY_TOKEN")}  # expanded by the program: no secret
        hook = {"type": "command", "name": "relaysite", "command": shlex.join(self.hook_command())}
        ours = {event: {"hooks": [{**hook, "timeout": HOOK_MILLISECONDS}]} for event in HOOKS}
        users = Path(self.env.get("GEMINI_CLI_HOME") or self.env.get("HOME") or "/") / ".gemini"
        tool = {"command": server, "args": rest, "env": wanted, "trust": True}
        if what := gemini_home.taken():
            raise ValueError(f"{what}, so that the leg could not be held")
        user = gemini_home.read(users / "settings.json")
        gemini_home.furnish(home, users, gemini_home.settings(user, ours, tool, bounded=self.bounded))
        self.session = str(uuid.uuid4())
        self._run(["--session-id", self.session], self.seed())

    def _run(self, which: list[str], text: str) -> None:
        env = self.own_environment() | {
            "GEMINI_CLI_HOME": str(self.folder / "home"),
            "GEMINI_CLI_NO_RELAUNCH": "true",
            "GEMINI_SANDBOX": "false",  # a container of its own would be outside of the leg's containment
            "GEMINI_TELEMETRY_ENABLED": "false",
        }
        argv = [self.program, "--output-format", "stream-json", "--yolo", *which]
        if self.program.endswith(".js"):
            node = shutil.which("node", path=env.get("PATH"))
            if not node:
                raise ValueError("node was not found on PATH: Gemini CLI needs it")
            argv.insert(0, node)
        argv += ["--model", self.model] if self.model else []
        self.spawn(argv, env, stderr=self._complained)
        self.tell(text.encode())  # not as an argument: a seed can be longer than one may be
        self.close_stdin()

    # --- stdout and stderr

    def said(self, line: bytes) -> None:
        row = read_object(line)
        match row.get("type"):
            case "init":
                self.session = str(row.get("session_id") or self.session)
            case "tool_use":
                self.called[str(row.get("tool_id"))] = (str(row.get("tool_name")), canonical(row.get("parameters")))
            case "tool_result":
                self._resulted(row)
            case "result":
                self.result = row

    def _resulted(self, row: Mapping[str, Any]) -> None:
        tool = str(row.get("tool_id"))
        if not self.hooked and not self.stopping:
            self.complain("Gemini CLI ran a tool and did not ask its hooks: it cannot be held (are its hooks off?)")
            self.exit_code = 3
        stopped = table(row.get("error")).get("type") == "stop_execution"  # it did run
        self._figures()
        self._tool_over(tool, row.get("status") == "success" or stopped, size(row.get("output")))

    def _complained(self, data: bytes) -> None:
        """Further tries are told on stderr alone."""
        *lines, self._stderr = (self._stderr + data).split(b"\n")
        self._stderr = self._stderr[-65536:]
        for line in lines:
            words = line.decode("utf-8", "replace")
            found = _ATTEMPT.search(words)
            cause = trouble(int(found[1]) if found[1] else None, words) if found else None
            if cause and not self.last:
                self.retry(cause)

    # --- hooks

    def hook(self, call: HookCall) -> None:
        said = call.said
        self.hooked = True
        if isinstance(said.get("transcript_path"), str) and not self.in_flight:
            self.file = Path(said["transcript_path"])  # a tool that runs could name another, with figures of its own
        self._figures()
        if self.stopping:
            call.answer({"continue": False, "stopReason": STOPPED})
            return
        match said.get("hook_event_name"):
            case "BeforeModel":
                self._request(call)
            case "BeforeTool":
                self._may_run(call)
            case "AfterTool":
                self._tool_ran(call)
            case "AfterAgent":
                self._ends(call)
            case _:
                call.answer()

    def _request(self, call: HookCall) -> None:
        if not self.answered:
            call.answer()  # a further try of the same request
            return
        for tool in list(self.called):
            self._tool_over(tool, False, 0)

        def on() -> None:
            self.answered, self.asked = False, False
            self.turn_started()
            call.answer()

        if self.asked:
            on()
            return

        def answered(answer: str) -> None:
            if answer == "stop":
                self._end(call)
                return
            self.untold = self.words(answer) or self.untold
            on()

        self._ask(answered)

    def _may_run(self, call: HookCall) -> None:
        name = str(call.said.get("tool_name"))
        tool = self._which(name, call.said.get("tool_input"), self.called.keys() - self.began)
        self.began.add(tool)

        def answered(answer: str) -> None:
            if answer.startswith("deny"):
                call.answer({"decision": "deny", "reason": answer.partition(" ")[2] or "not now"})
                return
            self.tool_started(tool, name)
            call.answer()

        self.ask_tool(tool, name, answered)

    def _tool_ran(self, call: HookCall) -> None:
        said = call.said
        name, response = str(said.get("tool_name")), table(said.get("tool_response"))
        tool = self._which(name, said.get("tool_input"), self.called.keys() & self.began)
        self._did(name, table(said.get("tool_input")))
        behind = _BEHIND.search(str(response.get("returnDisplay"))) if moves(said.get("tool_input")) else None
        if behind:
            self.called.pop(tool, None)
            self.behind[tool] = int(behind[1])
            self._look()
        else:
            self._tool_over(tool, not response.get("error"), size(response.get("llmContent")))
        if self.called:
            call.answer()
            return

        def answered(answer: str) -> None:
            if answer == "stop":
                self._end(call)
                return
            words = self.words(answer) or self.untold
            self.untold = ""
            told = {"hookEventName": "AfterTool", "additionalContext": words}
            call.answer({"hookSpecificOutput": told} if words else None)

        self._ask(answered)

    def _ends(self, call: HookCall) -> None:
        def answered(answer: str) -> None:
            words = self.words(answer, final=True)
            if answer == "stop":
                self._end(call)
            elif words:
                call.answer({"decision": "deny", "reason": words})
            else:
                self.last = True
                call.answer()

        self._ask(answered, final=True)

    def _end(self, call: HookCall) -> None:
        self.stop()
        call.answer({"continue": False, "stopReason": STOPPED})

    def _ask(self, then: Callable[[str], None], *, final: bool = False) -> None:
        self.asked = True
        self.boundary(then, final=final)

    # --- tools

    def _which(self, name: str, given: object, among: set[str]) -> str:
        """The tool that a hook means: the first of those that was called so."""
        asked = (name, canonical(given))
        for tool, called in self.called.items():
            if tool in among and called == asked:
                return tool
        return next((tool for tool, called in self.called.items() if tool in among and called[0] == name), name)

    def _tool_over(self, tool: str, good: bool, size: int) -> None:
        """Once a tool, whoever tells it first."""
        self.called.pop(tool, None)
        if tool in self.over or tool in self.behind or self.last:
            return
        self.over.add(tool)
        if tool not in self.in_flight:
            self.tool_started(tool, "unknown")
        self.tool_ended(tool, good, size)

    def _look(self) -> None:
        """What runs in the background and is gone has ended."""
        for tool, group in list(self.behind.items()):
            if not lives(group):
                del self.behind[tool]
                self._tool_over(tool, True, 0)
        if self.behind:
            self.after(LOOK, self._look)

    def _did(self, name: str, given: Mapping[str, Any]) -> None:
        if name in WRITERS:
            self.file_written(str(given.get(WRITERS[name]) or ""))
        elif name == "write_todos":
            rows = given.get("todos")
            items = [row for row in (rows if isinstance(rows, list) else ()) if isinstance(row, dict)]
            left = {str(row["description"]) for row in items if row.get("description") and is_open(row)}
            for text in sorted(self.todos - left):
                self.todo(text, False)
            for text in sorted(left - self.todos):
                self.todo(text, True, text)
            self.todos = left

    # --- figures

    def _figures(self) -> None:
        """What the session's own file says anew; a message that is written again counts once."""
        if self.file is None or self.last:
            return
        try:
            with self.file.open("rb") as file:
                file.seek(self.read_to)
                data = file.read()
        except OSError:
            return
        whole = data.rfind(b"\n") + 1
        self.read_to += whole
        for line in data[:whole].splitlines():
            row = read_object(line)
            said = table(row.get("tokens"))
            if row.get("type") != "gemini" or not said or self.figures.get(str(row.get("id"))) == said:
                continue
            self.figures[str(row.get("id"))] = said
            self.answered, self.tries = True, 0
            self.usage(str(row.get("id")), str(row.get("model") or self.model or "unknown"), buckets(said))

    # --- the end

    def verdict(self, code: int) -> int:
        """ "Exit code 0 on SIGINT and SIGTERM with no result line": only a result after the last turn is an end."""
        if self.result is None:
            self.complain(f"the program ended ({code}) without a result")
            return code or 1
        if self.result.get("status") != "success":
            self.complain(f"the program gave up: {table(self.result.get('error')).get('message')}")
            return code or 1
        return code if self.last else code or 1

    def _finish(self, code: int) -> None:
        """Its own tries are over; the same leg waits and asks again, as long as whoever drives the leg lets it."""
        cause = self._trouble() if not self.stopping else None
        if cause == SIGN_IN:
            self.retry(SIGN_IN)
        if cause is None or cause == SIGN_IN:
            super()._finish(code)
            return
        wait = min(FIRST_WAIT * 2 ** min(self.tries, 10), LONGEST_WAIT)
        self.tries += 1
        self.retry(cause, wait * 1000)
        self._gone, self._closing = None, False
        self.after(wait, self._again)

    def _again(self) -> None:
        if self.stopping:
            self.exit_code = 0
            return
        self.result, self.answered, self.asked = None, True, True
        self.hooked = False  # asked anew: its settings are read anew, and the agent has worked in them since
        try:
            what = gemini_home.taken()
            if not what:
                self._run(["--resume", self.session], GO_ON)
                return
        except (OSError, ValueError) as error:
            what = str(error)
        self.complain(f"{what}, so that the leg cannot be held any longer")
        self.exit_code = 3

    def _trouble(self) -> str | None:
        if self.result is None or self.result.get("status") == "success":
            return None
        error = table(self.result.get("error"))
        words = f"{error.get('type')} {error.get('message')}"
        found = re.search(r"\b(?:status|code)\W{0,4}(\d{3})\b", words)
        return trouble(int(found[1]) if found else None, words)

    def stop(self) -> None:
        if self.popen is None or self.exit_code is not None:
            self.exit_code = 0
        super().stop()


def main(args: Mapping[str, str]) -> int:
    return Gemini(args).run()
