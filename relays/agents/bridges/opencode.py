"""OpenCode, driven over `opencode serve`: its events, its requests, and a plugin that holds it before each model call.

Measured with 1.18.33: a plugin's `chat.params` is awaited before each request of a session, after all tools of the step
before have ended and their results are stored; it is the boundary, and a session that is aborted there makes no further
request. A prompt that comes meanwhile is read by the model one call later. `OPENCODE_DISABLE_AUTOCOMPACT` keeps it from
compacting. A step's figures come when its tools have ended: their ends are said after them, because what a call's tools
brought in stands behind its usage. The user's own configuration is read by the program as ever, and nothing of it is
written: ours comes on top of it by `OPENCODE_CONFIG_CONTENT`.
"""

import json
import re
import secrets
import signal
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from relays.agents import outages
from relays.agents.bridges.bridge import Bridge
from relays.agents.bridges.hooks import HookCall
from relays.agents.bridges.line import count, cut
from relays.agents.bridges.opencode_server import Events, Server, ServerError

PLUGIN: Final = Path(__file__).with_name("opencode_plugin.js")
MCP_NAME: Final = "relay"
_LISTENS: Final = re.compile(rb"listening on http://([0-9A-Za-z.\-]+):([0-9]+)")
_WRITES: Final = frozenset({"write", "edit", "patch", "multiedit"})
#: agents of the program's own whose calls are none of the session's: what they write is no step of the work
_ASIDE: Final = frozenset({"title", "summary"})
_ENDED: Final = ("completed", "error")
#: to an agent whose program gave a call up; whether the leg waits that long is the driver's to judge
GO_ON: Final = "The model did not answer for a while. Go on where you were."
FIRST_WAIT: Final = 15.0  # seconds until then, doubled up to LONGEST_WAIT
LONGEST_WAIT: Final = 300.0
_CUT: Final = 1.0  # seconds that a server may live without its stream of events
_ABORTING: Final = 0.3  # seconds that an abort has before the server is ended


def configuration(model: str, plugin: str, mcp: Sequence[str], *, bounded: bool = True) -> dict[str, object]:
    """What stands on top of the user's configuration for this leg. `mcp`: the query tool's command line.

    `bounded`: the leg is ended at its ceiling, so that nothing needs to be compacted.
    """
    made: dict[str, object] = {
        "autoupdate": False,
        "share": "disabled",
        # nobody sits before it: whatever it asked a person would wait for ever
        "permission": {"*": "allow", "question": "deny"},
        "plugin": [Path(plugin).as_uri()],
    }
    if mcp:  # it inherits the server's environment, and with it the leg's socket and token
        made["mcp"] = {MCP_NAME: {"type": "local", "command": list(mcp), "enabled": True}}
    if bounded:
        made["compaction"] = {"auto": False}
    return {**made, "model": model} if model else made


def buckets(tokens: Mapping[str, Any]) -> dict[str, int]:
    """A step's figures in our buckets: `input` is without what is cached, and reasoning belongs to the output."""
    cache = _table(tokens.get("cache"))
    read, written = count(cache.get("read")), count(cache.get("write"))
    plain, output, thought = (count(tokens.get(name)) for name in ("input", "output", "reasoning"))
    total = tokens.get("total")
    # whether reasoning stands beside the output or within it is told by the total; where none is, it is beside it
    # only if it could not be within
    beside = thought > output if total is None else count(total) == plain + read + written + output + thought
    return {
        "input": plain,
        "cache_read": read,
        "cache_write_5m": written,
        "cache_write_1h": 0,
        "output": output + thought if beside else output,
    }


class OpenCode(Bridge):
    """One session of one server."""

    def __init__(self, args: Mapping[str, str], env: Mapping[str, str] | None = None) -> None:
        super().__init__(args, env)
        self.server: Server | None = None
        self.events: Events | None = None
        self.session = ""
        self.running = False  # a prompt was sent and its end was not seen
        self.begun = False  # since then a model call was asked for
        self.asked = False  # what the next call follows was asked and answered already
        self.held: HookCall | None = None  # the model call that waits for an answer
        self.outcome: int | None = None
        self._password = secrets.token_urlsafe(24)
        self._models: dict[str, str] = {}  # answer -> its model
        self._steps: dict[str, str] = {}  # part of a step's end -> the call's name
        self._of: dict[str, int] = {}  # answer -> its steps
        self._tools: set[str] = set()  # that have ended
        self._waiting: list[tuple[str, bool, int]] = []  # ends of tools whose step's figures are still to come
        self._todos: dict[str, str] = {}
        self._trouble = self._cause = ""  # what ended its turn, and whether a wait may bring it back
        self._given_up = 0  # times since the model answered
        self._compacted = False

    # --- start and end

    def start(self) -> None:
        way = json.dumps(self.hook_command()[-1])
        plugin = self.own_file("relay.js", PLUGIN.read_text(encoding="utf-8").replace('"@WAY@"', way))
        ours = configuration(self.model, plugin, self.mcp_argv(), bounded=self.bounded)
        env = self.own_environment()
        env.update(
            OPENCODE_CONFIG_CONTENT=json.dumps(ours),
            OPENCODE_SERVER_PASSWORD=self._password,
            OPENCODE_DISABLE_AUTOUPDATE="1",
            # a repository's plugins and servers would run outside of what is asked here
            OPENCODE_DISABLE_PROJECT_CONFIG="1",
        )
        if self.bounded:
            env["OPENCODE_DISABLE_AUTOCOMPACT"] = "1"
        self.spawn([self.program, "serve", "--hostname", "127.0.0.1", "--port", "0"], env)

    def said(self, line: bytes) -> None:
        found = _LISTENS.search(line)
        if found is None or self.server is not None:
            return
        self.server = Server(found[1].decode(), int(found[2]), self._password)
        try:
            self.events = self.server.events()
            self.watch(self.events.fileno(), self._read_events)
            title = f"relay {self.env.get('RELAY_ID', '')} leg {self.env.get('RELAY_LEG', '')}"
            made = self.server.post("/session", {"title": title})
            self.session = str(made["id"])
            self._prompt(self.seed())
        except (OSError, KeyError, TypeError) as error:
            self.complain(f"the session could not be begun: {error}")
            self._over(1)
            return
        self.turn_started()

    def stop(self) -> None:
        """Aborted where it stands; what of it was held makes no further request."""
        if self.stopping:
            return
        super().stop()
        if self.server is not None and self.session:
            try:
                self.server.post(f"/session/{self.session}/abort", {})
            except ServerError as error:
                self.complain(str(error))
        self.after(_ABORTING, lambda: self.strike(signal.SIGTERM))

    def verdict(self, code: int) -> int:
        self._tools_over()
        if self.outcome is not None:
            return self.outcome
        return code or 1  # a server that ends by itself has brought no result

    def _over(self, outcome: int) -> None:
        """The leg's work is over: its server is ended, and this is what it came to."""
        if self.outcome is None:
            self.outcome = outcome
            self.strike(signal.SIGTERM)
            self.after(2.0, lambda: self.strike(signal.SIGKILL))

    def _prompt(self, text: str) -> None:
        if self.server is None:
            raise ServerError("the server does not listen yet")
        self.running, self.begun, self.asked = True, self.held is not None, self.held is None
        body = {"parts": [{"type": "text", "text": text}]}
        self.server.post(f"/session/{self.session}/prompt_async", body)

    # --- before a model call, before a tool

    def hook(self, call: HookCall) -> None:
        self._read_events()  # what happened before it asked
        said = call.said
        if self.stopping or self.outcome is not None:
            return  # never answered: nothing passes any more
        if call.name == "tool":
            if said.get("session") == self.session:
                self.tool_started(str(said.get("id")), str(said.get("tool")))
            self.ask_tool(str(said.get("id")), str(said.get("tool")), lambda told: self._tool_may(call, told))
        elif call.name != "model" or said.get("session") != self.session or said.get("agent") in _ASIDE:
            call.answer({})
        elif said.get("agent") == "compaction":
            self._compacts()
            self.held = call
            self.boundary(self._told)
        elif said.get("fresh") is not True:
            call.answer({})  # the same request once more
        else:
            self._before_step(call, _rows(said.get("parts")))

    def _tool_may(self, call: HookCall, told: str) -> None:
        word, _, why = told.partition(" ")
        call.answer({} if word == "allow" else {"deny": why or "denied"})

    def _before_step(self, call: HookCall, parts: Iterable[Mapping[str, Any]]) -> None:
        for part in sorted(parts, key=lambda one: one.get("type") == "step-finish"):
            self._part(part, str(part.get("model") or ""))
        self._tools_over()
        self.begun = True
        if self.asked:
            self.asked = False
            call.answer({})
            return
        self.held = call
        self.boundary(self._told)

    def _told(self, answer: str) -> None:
        call, words = self.held, self.words(answer)
        if answer == "stop" or call is None:
            self.stop()
            return
        self._say(words)
        self.held = None
        self.turn_started()
        call.answer({})

    def _told_at_end(self, answer: str) -> None:
        words = self.words(answer, final=True)
        if answer == "stop":
            self.stop()
        elif not words:
            self._over(0)
        else:
            self._say(words)
            self.turn_started()

    def _say(self, words: str) -> None:
        if not words:
            return
        try:
            self._prompt(words)
        except ServerError as error:
            self.complain(f"it could not be told to wind down: {error}")
            self._over(1)

    # --- what happens

    def _read_events(self) -> None:
        events = self.events
        if events is None or events.over():
            return
        fd = events.fileno()
        for event in events.read():
            self.happened(event)
        if events.over():
            self.forget(fd)
            if not self.stopping and self.outcome is None:
                self.after(_CUT, self._cut)  # a server that died is heard of in a moment: how it ended says more

    def _cut(self) -> None:
        self.complain("the stream of its events was cut")
        self._over(1)

    def happened(self, event: Mapping[str, Any]) -> None:
        """One event of the server. Sessions beside ours are those of its sub-agents."""
        said = _table(event.get("properties"))
        ours = said.get("sessionID", _table(said.get("part")).get("sessionID")) in (self.session, None)
        match event.get("type"):
            case "message.updated":
                info = _table(said.get("info"))
                if info.get("role") == "assistant" and info.get("modelID"):
                    self._models[str(info.get("id"))] = str(info["modelID"])
            case "message.part.updated":
                self._part(_table(said.get("part")), "")
            case "session.status" if ours:
                self._status(_table(said.get("status")))
            case "session.error" if ours:
                self._failed(_table(said.get("error")))
            case "session.idle" if ours:
                self._idle()
            case "session.compacted" if ours:
                self._compacts()
            case "todo.updated" if ours:
                self._todo_list(_rows(said.get("todos")))

    def _part(self, part: Mapping[str, Any], model: str) -> None:
        main = part.get("sessionID") == self.session
        if part.get("type") == "step-finish":
            self._step(part, model or self._models.get(str(part.get("messageID")), ""), main)
        elif part.get("type") == "compaction" and main:
            self._compacts()
        elif part.get("type") == "tool" and main:
            self._tool(part)

    def _step(self, part: Mapping[str, Any], model: str, main: bool) -> None:
        """A call's figures. A stream that was cut has none; the program asks again by itself."""
        key, answer = str(part.get("id")), str(part.get("messageID"))
        if key in self._steps:
            return
        self._of[answer] = self._of.get(answer, 0) + 1
        self._steps[key] = answer if self._of[answer] == 1 else f"{answer}#{self._of[answer]}"
        used = buckets(_table(part.get("tokens")))
        if not any(used.values()):
            if main and not self.stopping:
                self.retry(outages.NETWORK)
        else:
            self._given_up = 0
            cost = part.get("cost")
            priced = isinstance(cost, (int, float)) and not isinstance(cost, bool) and cost > 0
            self.usage(
                self._steps[key],
                model or "unknown",
                used,
                chain="main" if main else "sub",
                cost=f"{cost:.10f}" if priced else None,
            )
        if main:
            self._tools_over()

    def _tool(self, part: Mapping[str, Any]) -> None:
        tool, name, state = str(part.get("callID")), str(part.get("tool")), _table(part.get("state"))
        if tool in self._tools:
            return
        if state.get("status") in ("running", *_ENDED):
            self.tool_started(tool, name)
        if state.get("status") not in _ENDED:
            return
        self._tools.add(tool)
        code = _table(state.get("metadata")).get("exit")
        ok = state.get("status") == "completed" and not (isinstance(code, int) and code != 0)
        text = state.get("output") if state.get("status") == "completed" else state.get("error")
        size = state.get("size", len(text.encode("utf-8", "replace")) if isinstance(text, str) else 0)
        self._waiting.append((tool, ok, count(size)))
        path = _table(state.get("input")).get("filePath")
        if name in _WRITES and state.get("status") == "completed" and isinstance(path, str):
            self.file_written(path)

    def _tools_over(self) -> None:
        for tool, ok, size in self._waiting:
            self.tool_ended(tool, ok, size)
        self._waiting.clear()

    def _todo_list(self, todos: Iterable[Mapping[str, Any]]) -> None:
        now: dict[str, str] = {}
        for one in todos:
            text = cut(one.get("content"))
            if one.get("status") not in ("completed", "cancelled"):
                now[text] = text
        for key in [key for key in self._todos if key not in now]:
            self.todo(key, False)
        for key in [key for key in now if key not in self._todos]:
            self.todo(key, True, now[key])
        self._todos = now

    def _status(self, status: Mapping[str, Any]) -> None:
        if status.get("type") != "retry" or self.stopping:
            return
        words = str(status.get("message"))
        due = status.get("next")
        wait = max(0.0, due - time.time() * 1000) if isinstance(due, (int, float)) else None
        # it only says so where it tries again: what the words do not tell is a service that does not answer
        self.retry(outages.trouble(None, words) or outages.OVERLOAD, wait)

    def _failed(self, error: Mapping[str, Any]) -> None:
        """The turn came to an error that it does not try again; its end follows."""
        name, data = str(error.get("name")), _table(error.get("data"))
        if name == "MessageAbortedError" or self.stopping:
            return
        status, words = data.get("statusCode"), str(data.get("message"))
        known = status if isinstance(status, int) and not isinstance(status, bool) else None
        cause = outages.SIGN_IN if name == "ProviderAuthError" else outages.trouble(known, words)
        self._trouble, self._cause = f"{name}: {words}", cause or ""
        self.begun = True
        if cause == outages.SIGN_IN:
            self.retry(cause)

    def _idle(self) -> None:
        if not self.running or not self.begun or self.stopping or self.outcome is not None:
            return
        self.running = False
        self._tools_over()
        if self._cause in (outages.OVERLOAD, outages.NETWORK):
            self._later()
            return
        if self._trouble:
            self.complain(self._trouble)
            self._over(1)
            return
        self.boundary(self._told_at_end, final=True)

    def _later(self) -> None:
        """It gave a call up that a wait may bring back: it goes on in the same session once that is over."""
        wait = min(FIRST_WAIT * 2 ** min(self._given_up, 10), LONGEST_WAIT)
        self._given_up += 1
        self.retry(self._cause, wait * 1000)
        self._trouble = self._cause = ""
        self.after(wait, lambda: None if self.stopping else self._say(GO_ON))

    def _compacts(self) -> None:
        """A leg that compacts has run too long."""
        if not self._compacted:
            self._compacted = True
            self.compacted()


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def main(args: Mapping[str, str]) -> int:
    return OpenCode(args).run()
