"""The simple mode of Codex: `exec`, one prompt and one turn, its lines on stdout."""

import signal
from collections.abc import Mapping
from typing import Any

from relays.agents.bridges.bridge import read_object
from relays.agents.bridges.codex_held import Codex
from relays.agents.bridges.codex_said import rows, table


class Exec(Codex):
    """The simple mode: one prompt, one turn. Its lines know tools by other names than its hooks."""

    def __init__(self, args: Mapping[str, str], env: Mapping[str, str] | None = None) -> None:
        super().__init__(args, env)
        self.items: dict[str, str] = {}  # commands that run: item -> command line
        self.known: dict[str, str] = {}  # item -> the tool that its hooks name

    def start(self) -> None:
        how = ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "-"]
        self.spawn([self.program, "exec", *self.flags(), *how], self.own_environment())
        self.tell(self.seed().encode())
        self.close_stdin()

    def said(self, line: bytes) -> None:
        row = read_object(line)
        item = table(row.get("item"))
        name, kind = str(item.get("id")), item.get("type")
        match row.get("type"):
            case "thread.started":
                self.thread = str(row.get("thread_id"))
            case "item.started" if kind == "command_execution":
                self.items[name] = str(item.get("command"))
            case "item.completed":
                self.items.pop(name, None)
                if kind == "command_execution" and not self.unheld() and name in self.known:
                    self.item(kind, self.known.pop(name), item, ended=True)
                    self._settle()
                self.wrote(item)
                self._todos(item)
            case "item.updated":
                self._todos(item)
            case "turn.completed":
                self.unheld()
            case "turn.failed":
                self.failed = str(table(row.get("error")).get("message") or "the turn failed")

    def _todos(self, item: Mapping[str, Any]) -> None:
        if item.get("type") == "todo_list":
            self.planned([(str(step.get("text")), step.get("completed") is True) for step in rows(item.get("items"))])

    def runs_on(self, tool: str, given: str) -> bool:
        for item, command in self.items.items():
            if given and given in command and item not in self.known:
                self.known[item] = tool
                return True
        return False

    def stop(self) -> None:
        if not self.stopping:
            self.strike(signal.SIGINT)
        super().stop()
