"""What each reader of an agent's files promises, and the register of all forms that are read.

sessions.md: "Formats of this kind change without notice: unknown types and keys are accepted, counted and shown, never
a crash and never silence." A reader knows one form and nothing of tables, prices or other files; it turns lines or a
document into `relays.core.meter.Extract`.

A reader module is imported when its form is first needed, so that a page that shows sessions loads none of them.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Final, Literal, Protocol, cast

from relays.core.meter import Extract

#: what `LineReader.state` gives: JSON values only
State = dict[str, Any]
#: how sessions of most agents are named
UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)


class LineReader(Protocol):
    """Reads one file whose records are lines; one object per file and run.

    Invariant to chunks: however the lines are cut into takes, and whether `state` went through JSON into a new object
    between two takes, merging all takes gives what one take of the whole file gives.
    """

    def line(self, number: int, raw: bytes) -> None:
        """One whole line without its end, `number` from 1. Bad content is an anomaly, never an exception."""

    def take(self) -> Extract:
        """What was gathered since the last take; the reader forgets it."""

    def state(self) -> State:
        """What is needed to go on after the lines seen so far; JSON-able and bounded, however long the file is."""


class DocumentReader(Protocol):
    """Reads a file that is one document or a database."""

    def read(self, path: Path) -> Extract:
        """The whole file. Bad content is an anomaly; OSError of opening it is the caller's."""


@dataclass(frozen=True, slots=True)
class Context:
    """Where a file lies; what its place alone says about its content."""

    path: Path

    @property
    def stem(self) -> str:
        """The file's name without its last ending: `agent-a881341`, a session's id."""
        return self.path.stem

    @property
    def subagent(self) -> bool:
        """Whether it is a sub-agent's file: in a session's `subagents` folder (any depth), or named `agent-*`."""
        return self.stem.startswith("agent-") or self._subagents() is not None

    @property
    def agent_id(self) -> str:
        """`a881341` of `agent-a881341.jsonl`, else ""."""
        return self.stem.removeprefix("agent-") if self.stem.startswith("agent-") else ""

    @property
    def parent_session(self) -> str:
        """The session whose folder holds this sub-agent's file (`<session>/subagents/**`), else ""."""
        at = self._subagents()
        return self.path.parts[at - 1] if at else ""

    def _subagents(self) -> int | None:
        # a folder of that name far above, such as a project's, says nothing: it must be in a session's folder
        folders = self.path.parts[:-1]
        for at in range(len(folders) - 1, -1, -1):
            if folders[at] == "subagents" and (at == len(folders) - 1 or UUID.fullmatch(folders[at - 1])):
                return at
        return None


@dataclass(frozen=True, slots=True)
class Form:
    """One form that is read: whose it is, how it is cut, and the class that reads it.

    A class of a "lines" form is called with (context, state or None), one of a "document" form with (context).
    """

    name: str
    agent: str  # claude-code, codex, gemini-cli, opencode, relay
    kind: Literal["lines", "document"]
    module: str
    reader: str

    def make(self, context: Context, state: Mapping[str, Any] | None = None) -> LineReader:
        """A reader of lines that goes on where `state` (of an earlier one of this form, or None) was."""
        if self.kind != "lines":
            raise TypeError(f"{self.name} is read as a whole document, not line by line")
        return cast(LineReader, self._class()(context, dict(state) if state else None))

    def document(self, context: Context) -> DocumentReader:
        """A reader of the whole file."""
        if self.kind != "document":
            raise TypeError(f"{self.name} is read line by line, not as a document")
        return cast(DocumentReader, self._class()(context))

    def _class(self) -> Any:
        return getattr(import_module(f"relays.sessions.{self.module}"), self.reader)


FORMS: dict[str, Form] = {
    form.name: form
    for form in (
        Form("claude-session", "claude-code", "lines", "claude", "ClaudeSession"),
        Form("claude-stream", "claude-code", "lines", "claude_stream", "ClaudeStream"),
        Form("codex-rollout", "codex", "lines", "codex", "CodexRollout"),
        Form("codex-exec", "codex", "lines", "codex_exec", "CodexExec"),
        Form("gemini-document", "gemini-cli", "document", "gemini", "GeminiDocument"),
        Form("gemini-lines", "gemini-cli", "lines", "gemini", "GeminiLines"),
        Form("gemini-stream", "gemini-cli", "lines", "gemini_headless", "GeminiStream"),
        Form("gemini-answer", "gemini-cli", "document", "gemini_headless", "GeminiAnswer"),
        Form("opencode", "opencode", "document", "opencode", "OpenCodeDatabase"),
        Form("opencode-export", "opencode", "document", "opencode_files", "OpenCodeExport"),
        Form("opencode-message", "opencode", "document", "opencode_files", "OpenCodeMessage"),
        Form("relay-events", "relay", "lines", "relay_events", "RelayEvents"),
    )
}
