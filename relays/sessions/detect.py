"""Which form a file has: by what it holds first, by its name second.

sessions.md: folders of agents hold more than sessions (settings, histories of prompts, lists); what is no session
file is skipped and said so, never read as one.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import orjson

from relays.sessions.reader import UUID

#: what `detect` wants to be given of a file
HEAD_BYTES: Final = 64 * 1024
#: so many lines are asked at most; the first one that is typical of a form decides
_LINES: Final = 64
_SQLITE: Final = b"SQLite format 3\x00"
_TABLES: Final = re.compile(rb"CREATE TABLE\W{1,4}(session|message|part)\b", re.IGNORECASE)

_CODEX: Final = frozenset(
    "session_meta turn_context response_item event_msg compacted world_state token_usage_record "
    "inter_agent_communication_metadata".split()
)
_CODEX_EXEC: Final = frozenset(
    "thread.started turn.started turn.completed turn.failed item.started item.updated item.completed".split()
)
#: types of Claude Code's files that carry no session id in some versions
_CLAUDE_BARE: Final = frozenset("summary file-history-snapshot file-history-delta continued-in cost-state".split())
_CLAUDE_STREAM: Final = frozenset("system assistant user stream_event rate_limit_event result".split())
#: how documents begin that are written over many lines, and whose first line is their opening brace
_DOCUMENTS: Final = (
    (re.compile(rb'\{\s*"info"\s*:\s*\{\s*"id"\s*:\s*"ses_'), "opencode-export"),
    (
        re.compile(rb'\{\s*"id"\s*:\s*"msg_[^"]*"\s*,(?=(?s:.{0,4096}?)"sessionID"\s*:)(?s:.{0,4096}?)"role"\s*:'),
        "opencode-message",
    ),
    (
        re.compile(rb'\{\s*(?:"session_id"\s*:\s*"[^"]*"\s*,\s*"response"\s*:|"response"\s*:(?s:.*?)"stats"\s*:\s*\{)'),
        "gemini-answer",
    ),
)

_NAMES: Final = (
    (re.compile(r"[^/]*/rollout-.*\.jsonl", re.IGNORECASE), "codex-rollout"),
    (re.compile(rf"[^/]*/(agent-[\w-]+|{UUID.pattern})\.jsonl", re.IGNORECASE), "claude-session"),
    (re.compile(r"chats/session-.*\.jsonl", re.IGNORECASE), "gemini-lines"),
    (re.compile(r"chats/session-.*\.json", re.IGNORECASE), "gemini-document"),
)


def detect(path: Path, head: bytes) -> str | None:
    """The name of the form in `relays.sessions.reader.FORMS`, None = no session file. Never raises.

    `head` = the first HEAD_BYTES of the file (all of a shorter one). A file with nothing in it yet has no form yet.
    """
    if head.startswith(_SQLITE):
        opencode = path.name.startswith("opencode") or len({t.lower() for t in _TABLES.findall(head)}) == 3
        return "opencode" if opencode else None
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not text.startswith(b"{"):
        # lines of another program may come before a stream's first object; a name alone vouches for broken files
        return (
            (_of_lines(text) or _of_document(text) or _of_name(path)) if text and b"\x00" not in text[:1024] else None
        )
    return _of_lines(text) or _of_open(text) or _of_name(path)


def _of_document(text: bytes) -> str | None:
    """One object over many lines; a program may have said something before it printed that."""
    begins = 0 if text.startswith(b"{") else text.find(b"\n{") + 1
    for pattern, form in _DOCUMENTS:
        if pattern.match(text, begins):
            return form
    return None


def _of_lines(text: bytes) -> str | None:
    for line in text.split(b"\n", _LINES)[:_LINES]:
        if not line.lstrip().startswith(b"{"):
            continue
        try:
            record = orjson.loads(line)
        except ValueError:
            continue
        found = of_record(record) if isinstance(record, dict) else None
        if found:
            return found
    return None


def of_record(record: Mapping[str, Any]) -> str | None:
    """The form that one record is typical of, None = of none."""
    kind = record.get("type")
    if "projectHash" in record or kind == "gemini" or "$set" in record or "$rewindTo" in record:
        return "gemini-document" if isinstance(record.get("messages"), list) else "gemini-lines"
    if not isinstance(kind, str):
        if isinstance(record.get("messages"), list) and _is_opencode(record.get("info")):
            return "opencode-export"
        if "sessionID" in record and record.get("role") in ("user", "assistant"):
            return "opencode-message"
        stats = record.get("stats")
        if ("response" in record or "session_id" in record) and isinstance(stats, dict) and "models" in stats:
            return "gemini-answer"
        sequenced = isinstance(record.get("kind"), str) and isinstance(record.get("seq"), int)
        return "relay-events" if sequenced else None
    if headless := _gemini_headless(kind, record):
        return headless
    if kind in _CODEX and isinstance(record.get("payload"), dict):
        return "codex-rollout"
    if kind in _CODEX_EXEC:
        return "codex-exec"
    if "sessionId" in record or "parentUuid" in record or kind in _CLAUDE_BARE:
        return "claude-session"
    if kind in _CLAUDE_STREAM and ("parent_tool_use_id" in record or ("session_id" in record and "uuid" in record)):
        return "claude-stream"
    if kind == "result" and "subtype" in record:
        return "claude-stream"
    if kind == "system" and record.get("subtype") == "init" and "session_id" in record:
        return "claude-stream"
    return None


def _gemini_headless(kind: str, record: Mapping[str, Any]) -> str | None:
    """`gemini -o stream-json`: its events have a time and no other agent's keys."""
    if kind == "init":
        return "gemini-stream" if "session_id" in record and "subtype" not in record else None
    if kind == "result":
        return "gemini-stream" if "status" in record and "subtype" not in record else None
    if "timestamp" not in record or "sessionID" in record:
        return None
    typical = (
        (kind == "message" and record.get("role") in ("user", "assistant") and isinstance(record.get("content"), str))
        or (kind == "tool_use" and "tool_name" in record and "tool_id" in record)
        or (kind == "tool_result" and "tool_id" in record and "status" in record)
    )
    return "gemini-stream" if typical else None


def _is_opencode(info: object) -> bool:
    return isinstance(info, dict) and ("directory" in info or str(info.get("id", "")).startswith("ses_"))


def _of_open(text: bytes) -> str | None:
    """No whole line says it: one document over many lines, or a first line that is longer than the head."""
    if b'"projectHash"' in text[:4096]:
        return "gemini-document"
    document = _of_document(text)
    if document:
        return document
    first = text.split(b"\n", 1)[0]
    if len(first) < 256 and b"\n" in text:
        return None
    if b'"sessionId"' in first and (b'"parentUuid"' in first or b'"isSidechain"' in first):
        return "claude-session"
    if b'"payload"' in first and any(b'"type":"%b"' % kind.encode() in first for kind in _CODEX):
        return "codex-rollout"
    if b'"parent_tool_use_id"' in first or (b'"subtype":"init"' in first and b'"session_id"' in first):
        return "claude-stream"
    return None


def _of_name(path: Path) -> str | None:
    name = f"{path.parent.name}/{path.name}"
    for pattern, form in _NAMES:
        if pattern.fullmatch(name):
            return form
    return None
