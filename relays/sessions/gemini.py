"""Gemini CLI sessions: one document (`chats/session-*.json`), and the newer lines that a message is rewritten in.

sessions.md: "cached ⊂ input, thoughts outside output"; lines hold "metadata first, `$set`, `$rewindTo`, same-id later
record replaces". A message that was rewound was still paid for: its call stays, and the window's fall shows as what it
is. `$set.messages` is the model's own history written anew (start, compression, an aborted turn): its messages are
known by their ids. Key of a call: `gemini:<session>:<message id>`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from relays.core.meter import About, AnomalyKind, Extract
from relays.sessions.fields import ident, moment, rows, table, text
from relays.sessions.files import LINE_BYTES
from relays.sessions.gemini_messages import Messages
from relays.sessions.jsonline import parse, parse_whole
from relays.sessions.reader import UUID, Context, State

AGENT: Final = "gemini-cli"
_HEADER: Final = frozenset(
    """sessionId projectHash startTime lastUpdated messages kind summary directories memoryScratchpad""".split()
)


class _Session:
    """What a header says of the session, in either form."""

    def __init__(self, context: Context, state: Mapping[str, Any]) -> None:
        self._stem = ident(context.stem)
        self._folder = context.path.parent
        self.sid: str = state.get("sid", "")
        self.parent: str = state.get("parent", "")
        self.first: str = state.get("first", "")
        self.last: str = state.get("last", "")

    def state(self) -> dict[str, Any]:
        return {"sid": self.sid, "parent": self.parent, "first": self.first, "last": self.last}

    def header(self, record: Mapping[str, Any], out: Extract, line: int) -> None:
        """A metadata record: who, when, and whose child."""
        sid = ident(record.get("sessionId")) or self.named()
        if self.sid and sid != self.sid:  # another session goes on in the same file
            out.tell(self.about())
            self.parent = self.first = self.last = ""
        self.sid = sid
        # a sub-agent's file lies in its session's folder: chats/<parent>/<id>.jsonl
        if record.get("kind") == "subagent" and self._folder.parent.name == "chats":
            self.parent = ident(self._folder.name) if UUID.fullmatch(self._folder.name) else self.parent
        self.times(record)
        for key in record.keys() - _HEADER:
            out.note(AnomalyKind.UNKNOWN_KEY, self.sid, line, text(key))

    def named(self) -> str:
        """The session's id; a file that never says it is named by its file."""
        self.sid = self.sid or self._stem
        return self.sid

    def times(self, record: Mapping[str, Any]) -> None:
        for name in ("startTime", "timestamp", "lastUpdated"):
            at = moment(record.get(name))
            if at:
                self.first = min(filter(None, (self.first, at)))
                self.last = max(self.last, at)

    def about(self) -> About:
        return About(session=self.sid, agent=AGENT, parent=self.parent, first_at=self.first, last_at=self.last)


class GeminiDocument:
    """A whole session in one JSON object; see `relays.sessions.reader.DocumentReader`."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def read(self, path: Path) -> Extract:
        out = Extract()
        if path.stat().st_size > LINE_BYTES:
            out.note(AnomalyKind.HUGE_LINE, detail="document")
            return out
        raw = path.read_bytes()
        record = parse_whole(raw)
        if record is None:
            out.note(AnomalyKind.BROKEN_LINE, detail="document")
            out.record("broken document", len(raw))
            return out
        session = _Session(self._context, {})
        session.header(record, out, 0)
        messages = Messages({}, out)
        for number, message in enumerate(rows(record.get("messages")), 1):
            session.times(table(message))
            messages.message(table(message), session.sid, number)
        out.about[session.sid] = session.about()
        return out


class GeminiLines:
    """A session in lines; see `relays.sessions.reader.LineReader`."""

    def __init__(self, context: Context, state: State | None = None) -> None:
        kept = state or {}
        self._session = _Session(context, kept)
        self._out = Extract()
        self._messages = Messages(kept.get("messages", {}), self._out)

    def line(self, number: int, raw: bytes) -> None:
        if not raw or raw.isspace():
            return
        record = parse(raw)
        if record is None:
            self._out.note(AnomalyKind.BROKEN_LINE, self._session.sid, number)
            self._out.record("broken line", len(raw))
            return
        session = self._session
        if "$set" in record:
            changed = table(record["$set"])
            session.times(changed)
            self._out.record("$set", len(raw))
            self._messages.history(rows(changed.get("messages")), session.named(), number)
        elif "$rewindTo" in record:
            session.named()
            self._out.record("$rewindTo", len(raw))
        elif "id" in record or record.get("type") in ("user", "gemini"):
            session.times(record)
            self._messages.message(record, session.named(), number)
        elif "sessionId" in record:
            self._out.record("metadata", len(raw))
            session.header(record, self._out, number)
            self._messages.history(rows(record.get("messages")), session.sid, number)
        else:
            name = text(record.get("type")) or "no type"
            self._out.note(AnomalyKind.UNKNOWN_TYPE, session.named(), number, name)
            self._out.record(f"other {name}", len(raw))

    def take(self) -> Extract:
        if self._session.sid:
            self._out.tell(self._session.about())
        out, self._out = self._out, Extract()
        self._messages.into(self._out)
        return out

    def state(self) -> State:
        return {**self._session.state(), "messages": self._messages.state()}
