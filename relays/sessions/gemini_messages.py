"""Messages of Gemini CLI sessions: the call that each answer was, its tools, and what it durably did.

The parts of a call must add up to the `total` that the agent wrote. Tool-use prompt tokens are read by the model, so
they belong to the input side; whether an older version counted them within `input`, or thoughts within `output`, the
total tells.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from relays.core.meter import Act, ActKind, AnomalyKind, Compaction, Extract, Seen
from relays.core.usage import Buckets
from relays.sessions import shell
from relays.sessions.fields import REF_CHARS, content_id, ident, moment, rows, table, text, tokens, whole
from relays.sessions.jsonline import written_size

#: messages that may still be rewritten; a rewrite of an older one counts anew what it added to the window
_RECENT: Final = 16
_TYPES: Final = frozenset("user gemini info warning error system".split())
_KEYS: Final = frozenset(
    "id timestamp type content displayContent thoughts tokens model toolCalls projectHash isSubagent".split()
)
_TOKENS: Final = ("input", "output", "cached", "thoughts", "tool")
_ENDED: Final = frozenset({"success", "error", "cancelled"})
WRITES: Final = frozenset({"write_file", "replace", "edit"})
_COMPRESSED: Final = re.compile(r"compressed from:? (\d{1,12}|unknown) to (\d{1,12}|unknown) tokens", re.IGNORECASE)


def split_total(used: Mapping[str, int], total: int | None) -> tuple[int, int, bool]:
    """(input side with what is cached, output with thoughts, whether they add up to `total`)."""
    read, wrote, thoughts, tool = used["input"], used["output"], used["thoughts"], used["tool"]
    ways = ((read + tool, wrote + thoughts), (read, wrote + thoughts), (read + tool, wrote), (read, wrote))
    for way in ways:
        if total is None or sum(way) == total:
            return *way, True
    return *ways[0], False


class Messages:
    """Turns messages into calls, in file order; the same id again is the same message."""

    def __init__(self, state: Mapping[str, Any], out: Extract) -> None:
        self._out = out
        self._entering: dict[str, int] = dict(state.get("entering", {}))
        #: id -> sizes that were counted for it, and of an answer what had entered before it
        self._recent: dict[str, dict[str, Any]] = {name: _copied(row) for name, row in state.get("recent", {}).items()}

    def into(self, out: Extract) -> None:
        """What comes now goes there."""
        self._out = out

    def state(self) -> dict[str, Any]:
        return {
            "entering": dict(self._entering),
            "recent": {name: _copied(row) for name, row in self._recent.items()},
        }

    def history(self, messages: Sequence[object], session: str, line: int) -> None:
        """The model's history written anew: what is known by its id stays what it is."""
        last_known = max((at for at, one in enumerate(messages) if self._knows(table(one))), default=-1)
        for at, one in enumerate(messages):
            self.message(table(one), session, line, repeated=at <= last_known, listed=True)

    def _knows(self, message: Mapping[str, Any]) -> bool:
        return ident(message.get("id")) in self._recent

    def message(
        self, message: Mapping[str, Any], session: str, line: int, *, repeated: bool = False, listed: bool = False
    ) -> None:
        """One message; `repeated`: it stood in the file before, at least as far as what entered the window goes;

        `listed`: it is part of a record that is counted already.
        """
        kind = text(message.get("type")) or "no type"
        if kind not in _TYPES:
            self._out.note(AnomalyKind.UNKNOWN_TYPE, session, line, kind)
        for key in message.keys() - _KEYS:
            self._out.note(AnomalyKind.UNKNOWN_KEY, session, line, text(key))
        name = ident(message.get("id")) or f"said:{content_id(message)}"
        if not listed:
            self._out.record("assistant text" if kind == "gemini" else f"{kind} text", _size(message))
        if kind == "gemini":
            self._answer(message, session, name, line, repeated)
        else:
            sizes = {f"{kind} text": _size(message.get("content"))} if kind == "user" and _said(message) else {}
            if not repeated:
                self._enter(self._row(name), sizes)
            if kind == "info":
                self._compression(message, session, name, line)

    def _row(self, name: str) -> dict[str, Any]:
        row = self._recent.setdefault(name, {"sizes": {}})
        while len(self._recent) > _RECENT:
            del self._recent[next(iter(self._recent))]
        return row

    def _enter(self, row: dict[str, Any], sizes: Mapping[str, int]) -> None:
        """A message that is written again adds only what it grew by."""
        for kind, size in sizes.items():
            grown = size - row["sizes"].get(kind, 0)
            if grown > 0:
                row["sizes"][kind] = size
                self._entering[kind] = self._entering.get(kind, 0) + grown

    def _answer(self, message: Mapping[str, Any], session: str, name: str, line: int, repeated: bool) -> None:
        known = name in self._recent
        row = self._row(name)
        if not known:
            row["fill"] = {} if repeated else self._entering
            if not repeated:
                self._entering = {}
        calls = [table(call) for call in rows(message.get("toolCalls"))]
        if not repeated or known:
            self._enter(row, _parts(message, calls))
        ended = [call for call in calls if text(call.get("status")) in _ENDED]
        key = f"gemini:{session}:{name}"[:200]
        at = moment(message.get("timestamp"))
        usage = message.get("tokens")
        if isinstance(usage, dict):
            self._call(usage, session, line, Seen(
                session=session,
                key=key,
                line=line,
                model=text(message.get("model"), 120),
                at=at,
                tools=len(ended),
                tool_errors=sum(call.get("status") == "error" for call in ended),
                fill=dict(row.get("fill", {})),
            ))  # fmt: skip
        for call in ended:
            self._acts(call, session, key, line, at)

    def _call(self, usage: Mapping[str, Any], session: str, line: int, seen: Seen) -> None:
        used = {part: tokens(usage, part, self._out, session, line) for part in _TOKENS}
        for key in usage.keys() - {*_TOKENS, "total"}:
            self._out.note(AnomalyKind.UNKNOWN_KEY, session, line, text(key))
        read, wrote, whole_total = split_total(used, whole(usage.get("total")))
        if not whole_total:
            self._out.note(AnomalyKind.IDENTITY_MISMATCH, session, line, "total")
        if used["cached"] > read:
            self._out.note(AnomalyKind.IMPLAUSIBLE_USAGE, session, line, "cached")
        seen.buckets = Buckets(input=max(0, read - used["cached"]), cache_read=used["cached"], output=wrote)
        seen.reasoning = min(used["thoughts"], wrote)
        self._out.saw(seen)

    def _acts(self, call: Mapping[str, Any], session: str, key: str, line: int, at: str) -> None:
        given = table(call.get("args"))
        found: list[tuple[ActKind, str]] = []
        if text(call.get("name")) in WRITES and call.get("status") == "success":
            found.append(("file", text(given.get("file_path") or given.get("path"), REF_CHARS)))
        command = shell.command_of(given.get("command"))
        if command:
            found += shell.named(command)
            found += shell.printed(shell.interest(command), _output(call))
        for kind, ref in found:
            if ref:
                self._out.acts.setdefault((session, kind, ref), Act(session, kind, ref, line, at, key))

    def _compression(self, message: Mapping[str, Any], session: str, name: str, line: int) -> None:
        said = message.get("content")
        if isinstance(said, list):
            said = " ".join(str(table(part).get("text") or "") for part in said)
        found = _COMPRESSED.search(said) if isinstance(said, str) else None
        if found is None:
            return
        uid = f"gemini:{session}:{name}"[:200]
        automatic = "exceeded" in str(said)
        if (session, uid) in self._out.compactions:
            return  # the same message again: where it stood first is where it happened
        self._out.compactions[session, uid] = Compaction(
            session=session,
            uid=uid,
            line=line,
            at=moment(message.get("timestamp")),
            trigger="auto" if automatic else "unknown",
            declared_pre=int(found[1]) if found[1].isdigit() else None,
            declared_post=int(found[2]) if found[2].isdigit() else None,
        )


def _said(message: Mapping[str, Any]) -> bool:
    """False for a user record that only carries results of tools, which their calls carry too."""
    content = message.get("content")
    return not (isinstance(content, list) and content and all("functionResponse" in table(part) for part in content))


def _parts(message: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """What of an answer is in the window of the next call. Thoughts are summaries for display: they are not."""
    sizes = {"assistant text": _size(message.get("content")) if message.get("content") else 0}
    for call in calls:
        sizes["tool call"] = sizes.get("tool call", 0) + _size(call.get("args"))
        label = f"tool result {text(call.get('name'), 60)}"
        sizes[label] = sizes.get(label, 0) + (_size(call["result"]) if call.get("result") else 0)
    return {kind: size for kind, size in sizes.items() if size}


def _output(call: Mapping[str, Any]) -> str:
    found = []
    for part in rows(call.get("result")):
        output = table(table(table(part).get("functionResponse")).get("response")).get("output")
        if isinstance(output, str):
            found.append(output)
    return "\n".join(found)


def _size(value: object) -> int:
    return 0 if value is None else written_size(value)


def _copied(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: dict(part) for name, part in row.items()}
