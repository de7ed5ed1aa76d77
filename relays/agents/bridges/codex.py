"""Codex, driven over `app-server` (JSON-RPC on stdio), or in the simple mode over `exec` (agent argument mode)."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

from relays.agents.bridges.bridge import read_object
from relays.agents.bridges.codex_exec import Exec
from relays.agents.bridges.codex_held import Codex
from relays.agents.bridges.codex_said import rows, status, table
from relays.agents.outages import SIGN_IN, trouble

GO_ON: Final = "The model did not answer. Go on where the work stopped."
FIRST_WAIT: Final = 5.0  # seconds, after the program's own tries, until the same leg asks its model again; doubled
LONGEST_WAIT: Final = 300.0


class AppServer(Codex):
    """Over JSON-RPC: background commands tell their end, and a model that does not answer is asked again."""

    def __init__(self, args: Mapping[str, str], env: Mapping[str, str] | None = None) -> None:
        super().__init__(args, env)
        self.turn = ""
        self.started: dict[str, None] = {}  # items that run, by their id
        self.tries = 0
        self._number = 0
        self._waiting: dict[int, Callable[[Mapping[str, Any]], None]] = {}

    def start(self) -> None:
        self.spawn([self.program, "app-server", *self.flags()], self.own_environment())
        self._ask_program("initialize", self._initialized, clientInfo={"name": "relaysite", "version": "1"})

    def _ask_program(self, method: str, then: Callable[[Mapping[str, Any]], None], **params: Any) -> None:
        self._number += 1
        self._waiting[self._number] = then
        self.tell(json.dumps({"id": self._number, "method": method, "params": params}).encode() + b"\n")

    def _initialized(self, _: Mapping[str, Any]) -> None:
        self.tell(b'{"method":"initialized"}\n')
        how = {"cwd": os.getcwd(), "approvalPolicy": "never", "sandbox": "danger-full-access"}
        self._ask_program("thread/start", self._thread_began, **how)

    def _thread_began(self, said: Mapping[str, Any]) -> None:
        self.thread = str(table(said.get("thread")).get("id"))
        self._say(self.seed())

    def _say(self, text: str) -> None:
        self._ask_program("turn/start", lambda _: None, threadId=self.thread, input=[{"type": "text", "text": text}])

    def said(self, line: bytes) -> None:
        row = read_object(line)
        method, params = row.get("method"), table(row.get("params"))
        if method is None:
            self._told(row)
            return
        if params.get("threadId") not in (None, self.thread):
            return
        item = table(params.get("item"))
        match method:
            case "turn/started":
                self.turn = str(table(params.get("turn")).get("id"))
            case "item/started":
                self.started[str(item.get("id"))] = None
                self.item(str(item.get("type")), str(item.get("id")), item, ended=False)
            case "item/completed":
                self.started.pop(str(item.get("id")), None)
                if item.get("type") == "contextCompaction" and not self.last:
                    self.compacted()
                self.item(str(item.get("type")), str(item.get("id")), item, ended=True)
                self._settle()
            case "turn/plan/updated":
                self.planned(
                    [(str(step.get("step")), step.get("status") == "completed") for step in rows(params.get("plan"))]
                )
            case "thread/tokenUsage/updated":
                if not self.unheld():
                    self._told_figures(table(table(params.get("tokenUsage")).get("last")))
            case "error" if params.get("willRetry") is True:
                self._fails(table(params.get("error")))
            case "turn/completed":
                self._turn_over(table(params.get("turn")))
            case _ if "id" in row:  # it asks us for something: nobody is there who could answer
                refused = {"code": -32601, "message": "not answered by the driver of a leg"}
                self.tell(json.dumps({"id": row["id"], "error": refused}).encode() + b"\n")

    def _told(self, row: Mapping[str, Any]) -> None:
        number = row.get("id")
        then = self._waiting.pop(number, None) if isinstance(number, int) else None
        if then is None:
            return
        if "error" in row:
            if self.stopping:
                return
            self.failed = str(table(row["error"]).get("message") or "it refused a request")
            self.close_stdin()
            return
        then(table(row.get("result")))

    def _told_figures(self, figures: Mapping[str, Any]) -> None:
        """Told after the tools: the figures again, for a request whose hook did not tell them."""
        if self.answered or not self.request:
            return
        said = {
            "input_tokens": figures.get("inputTokens"),
            "cached_input_tokens": figures.get("cachedInputTokens"),
            "cache_write_input_tokens": figures.get("cacheWriteInputTokens"),
            "output_tokens": figures.get("outputTokens"),
        }
        self._figures({"request_id": self.request, "token_usage": said})

    def runs_on(self, tool: str, given: str) -> bool:
        return tool in self.started

    def troubled(self, words: str) -> None:
        """Told better by `error`, which knows the status, and whether another try comes."""

    def _fails(self, error: Mapping[str, Any]) -> None:
        words = f"{error.get('message') or ''} {error.get('additionalDetails') or ''}"
        if cause := trouble(status(error), words):
            self.retry(cause)

    def _turn_over(self, turn: Mapping[str, Any]) -> None:
        self.turn = ""
        if turn.get("status") == "failed" and not self.stopping:
            error = table(turn.get("error"))
            words = str(error.get("message") or "the turn failed")
            cause = trouble(status(error), words)
            if cause and cause != SIGN_IN:
                self._again(cause)
                return
            self.failed = words
            if cause:
                self.retry(cause)
        elif turn.get("status") != "completed" and not self.stopping:
            self.failed = f"the turn was {turn.get('status')}"
        self.close_stdin()

    def _again(self, cause: str) -> None:
        """Its own tries are over; the same leg waits and asks again, as long as whoever drives the leg lets it."""
        wait = min(FIRST_WAIT * 2 ** min(self.tries, 10), LONGEST_WAIT)
        self.tries += 1
        self.answered, self.asked = True, True
        self.retry(cause, wait * 1000)
        self.after(wait, lambda: None if self.stopping else self._say(GO_ON))

    def _figures(self, said: Mapping[str, Any]) -> None:
        self.tries = 0
        super()._figures(said)

    def stop(self) -> None:
        if self.turn and not self.stopping:
            self._ask_program("turn/interrupt", lambda _: None, threadId=self.thread, turnId=self.turn)
        super().stop()


def main(args: Mapping[str, str]) -> int:
    return (Exec if args.get("mode") == "exec" else AppServer)(args).run()
