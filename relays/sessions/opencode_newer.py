"""OpenCode 2.x: rows of `session_message`, told as the messages and parts that 1.x has for the same.

Described by OpenCode's own schema: an answer is one call with its `content` and `tokens`, input without what is cached
and reasoning beside output; a compaction is one row with its `reason`, its `status` and the usage of its own call.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from relays.core.meter import AnomalyKind, Extract
from relays.sessions.fields import rows, table, text
from relays.sessions.jsonline import written_size
from relays.sessions.opencode_messages import Conversation

#: what changes a setting or ends a turn, and brings nothing into the window
_QUIET: Final = frozenset("agent-switched model-switched location-switched idle".split())
#: what the program itself lets the model read
_READ: Final = frozenset("synthetic system skill shell".split())
_COUNTS: Final = ("input", "output", "reasoning")


def message(talk: Conversation, out: Extract, kind: str, row: Mapping[str, Any], message_id: object, line: int) -> None:
    """One row with its `type` and `data`. Unknown types are counted and named."""
    if not row:
        return
    out.record(f"session_message {text(kind)}", written_size(row))
    if kind == "assistant":
        talk.message(_answer(row), message_id, _parts(row), line)
    elif kind == "user":
        files = [{**table(one), "type": "file"} for one in rows(row.get("files"))]
        parts = [{"type": "text", "text": row.get("text")}, *files]
        talk.message({"role": "user", "time": row.get("time")}, message_id, parts, line)
    elif kind == "compaction":
        _compaction(talk, row, message_id, line)
    elif kind in _READ:
        talk.entered(f"{kind} text", written_size(row))
    elif kind not in _QUIET:
        out.note(AnomalyKind.UNKNOWN_TYPE, talk.sid, line, f"session_message/{text(kind)}")


def _answer(row: Mapping[str, Any]) -> dict[str, Any]:
    model = table(row.get("model"))
    return {
        "role": "assistant",
        "modelID": model.get("id"),
        "providerID": model.get("providerID"),
        "time": row.get("time"),
        "cost": row.get("cost"),
        "error": row.get("error"),
        "tokens": _tokens(row.get("tokens")),
    }


def _tokens(used: object) -> dict[str, Any] | None:
    """The same with the total that its parts add up to: here it is known that reasoning stands beside output."""
    if not isinstance(used, dict):
        return None
    cache = table(used.get("cache"))
    parts = [*(used.get(name) for name in _COUNTS), cache.get("read"), cache.get("write")]
    numbers = [one for one in parts if isinstance(one, int) and not isinstance(one, bool) and one > 0]
    return {**used, "total": sum(numbers)}


def _parts(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for part in map(table, rows(row.get("content"))):
        yield _tool(part) if part.get("type") == "tool" else part
    for name in rows(table(row.get("snapshot")).get("files")):
        yield {"type": "patch", "files": [name]}


def _tool(part: Mapping[str, Any]) -> dict[str, Any]:
    state = table(part.get("state"))
    # what a tool answered is a list of contents, and what it failed with stands beside it
    said = [one["text"] for one in map(table, rows(state.get("content"))) if isinstance(one.get("text"), str)]
    given = state.get("input")
    metadata = {**table(state.get("structured")), **table(state.get("metadata"))}
    return {
        "type": "tool",
        "tool": part.get("name"),
        "state": {
            "status": state.get("status"),
            "input": given if isinstance(given, dict) else {"text": given},
            "output": "\n".join(said),
            "metadata": metadata,
            "error": state.get("error"),
        },
    }


def _compaction(talk: Conversation, row: Mapping[str, Any], message_id: object, line: int) -> None:
    """A boundary where it came to its end; its own call was paid for in any case."""
    reason, done = row.get("reason"), row.get("status") in ("completed", None)
    asked: dict[str, Any] = {"type": "compaction"}
    if reason in ("auto", "manual"):
        asked["auto"] = reason == "auto"
    talk.message({"role": "user", "time": row.get("time")}, message_id, [asked], line)
    answer = {**_answer(row), "summary": True}
    if not done:
        answer["error"] = row.get("error") or "not completed"
    talk.message(answer, message_id, [], line)
