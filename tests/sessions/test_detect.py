"""Which form a file has: all samples, files of the agents that are no sessions, and heads that are cut."""

import json
from pathlib import Path
from typing import Any

import pytest

from relays.sessions.detect import HEAD_BYTES, detect
from relays.sessions.reader import FORMS, Context
from tests.sessions.cuts import SAMPLES, lines

UUID = "258c7280-ae70-4798-800f-63464d01a85d"


@pytest.mark.parametrize("path", sorted(SAMPLES.rglob("*.jsonl")), ids=lambda path: path.name)
def test_a_sample_is_known_by_its_content(path: Path) -> None:
    form = {"claude": "claude-session", "codex": "codex-rollout", "gemini": "gemini-document"}
    expected = form[path.relative_to(SAMPLES).parts[0]]
    head = path.read_bytes()[:HEAD_BYTES]
    assert detect(Path("anything.txt"), head) == expected
    assert detect(Path("anything.txt"), head[:9000]) == expected


@pytest.mark.parametrize(
    ("records", "form"),
    [
        ([{"type": "summary", "summary": "", "leafUuid": "u"}], "claude-session"),
        ([{"type": "novel"}, {"type": "user", "parentUuid": None, "sessionId": "s"}], "claude-session"),
        ([{"type": "system", "subtype": "init", "session_id": "s", "tools": []}], "claude-stream"),
        (
            [b"warning: something", {"type": "assistant", "parent_tool_use_id": None, "session_id": "s"}],
            "claude-stream",
        ),
        ([{"type": "result", "subtype": "success", "is_error": False}], "claude-stream"),
        ([{"type": "thread.started", "thread_id": "t"}], "codex-exec"),
        ([{"timestamp": "", "type": "session_meta", "payload": {}}], "codex-rollout"),
        ([{"sessionId": "s", "projectHash": "h", "startTime": "t"}], "gemini-lines"),
        ([{"sessionId": "s", "projectHash": "h", "messages": []}], "gemini-document"),
        ([{"$set": {"lastUpdated": "t"}}], "gemini-lines"),
        ([{"kind": "usage", "seq": 0, "input": 1}], "relay-events"),
        ([{"display": "typed", "timestamp": 1, "project": "/p", "sessionId": "s"}], None),
        ([{"session_id": "s", "ts": 1, "text": "typed"}], None),
        ([{"agentType": "general-purpose", "toolUseId": "t"}], None),
        ([{"type": "result", "status": "success", "stats": {}}], "gemini-stream"),
        ([b"Loaded cached credentials.", {"type": "init", "session_id": "s", "model": "m"}], "gemini-stream"),
        ([{"type": "message", "timestamp": "t", "role": "assistant", "content": "x"}], "gemini-stream"),
        ([{"type": "tool_use", "timestamp": "t", "tool_name": "ls", "tool_id": "i"}], "gemini-stream"),
        ([{"type": "tool_result", "timestamp": "t", "tool_id": "i", "status": "success"}], "gemini-stream"),
        # what other programs call a message or a tool use
        ([{"type": "message", "role": "assistant", "content": [{"type": "text"}]}], None),
        ([{"type": "tool_use", "timestamp": 1, "sessionID": "ses_1", "tool_name": "x", "tool_id": "i"}], None),
        ([{"session_id": "s", "response": "x", "stats": {"models": {}}}], "gemini-answer"),
        ([{"stats": {"models": {}}}], None),
        ([{"info": {"id": "ses_1"}, "messages": []}], "opencode-export"),
        ([{"info": {"title": "other"}, "messages": []}], None),
        ([{"id": "msg_1", "sessionID": "ses_1", "role": "user"}], "opencode-message"),
        ([{"id": "ses_1", "directory": "/srv", "version": "1.0.0"}], None),
        ([[1, 2], 3], None),
    ],
)
def test_records_are_typical_of_one_form_or_of_none(records: list[Any], form: str | None) -> None:
    assert detect(Path("some.file"), lines(*records)) == form


@pytest.mark.parametrize(
    ("name", "head", "form"),
    [
        ("opencode.db", b"SQLite format 3\x00rest", "opencode"),
        ("other.db", b"SQLite format 3\x00rest", None),
        (
            "other.db",
            b"SQLite format 3\x00CREATE TABLE `session` CREATE TABLE `message` CREATE TABLE `part`",
            "opencode",
        ),
        ("a.jsonl", b"", None),
        ("notes.md", b"# notes", None),
        ("picture", b"\x89PNG\x00\x00", None),
        (f"{UUID}.jsonl", b'{"type":"torn', "claude-session"),
        ("agent-a1.jsonl", b"torn\n", "claude-session"),
        (f"rollout-2026-01-01T00-00-00-{UUID}.jsonl", b"{broken\n", "codex-rollout"),
        ("chats/session-1.jsonl", b"{broken\n", "gemini-lines"),
        ("chats/session-1.json", b"{\n", "gemini-document"),
        ("other/session-1.json", b"{\n", None),
        ("answer.json", b'{\n  "session_id": "s",\n  "response": "as it was', "gemini-answer"),
        ("answer.json", b'Loaded cached credentials.\n{\n  "response": "x",\n  "stats": {\n', "gemini-answer"),
        ("answer.json", b'{\n  "response": "of another program"\n}\n', None),
        ("ses.json", b'{\n  "info": {\n    "id": "ses_1",\n', "opencode-export"),
        (
            "message/ses_1/msg_1.json",
            b'{\n  "id": "msg_1",\n  "role": "user",\n  "sessionID": "ses_1",\n',
            "opencode-message",
        ),
        ("part/msg_1/prt_1.json", b'{\n  "id": "prt_1",\n  "messageID": "msg_1",\n  "sessionID": "ses_1"\n}', None),
        ("a.jsonl", b"\xef\xbb\xbf" + lines({"type": "user", "sessionId": "s"}), "claude-session"),
    ],
)
def test_bytes_and_names(name: str, head: bytes, form: str | None) -> None:
    assert detect(Path(name), head) == form


def test_a_first_line_longer_than_the_head_is_known_by_its_beginning() -> None:
    long = "x" * 2 * HEAD_BYTES
    for record, form in (
        (
            {"parentUuid": None, "isSidechain": False, "sessionId": "s", "type": "user", "message": long},
            "claude-session",
        ),
        ({"timestamp": "", "type": "session_meta", "payload": {"text": long}}, "codex-rollout"),
        ({"type": "system", "subtype": "init", "session_id": "s", "tools": long}, "claude-stream"),
        ({"sessionId": "s", "projectHash": "h", "messages": long}, "gemini-document"),
    ):
        head = json.dumps(record, separators=(",", ":")).encode()[:HEAD_BYTES]
        assert detect(Path("a.txt"), head) == form


def test_every_form_has_its_reader() -> None:
    for name, form in FORMS.items():
        assert form.name == name
        made = form.make if form.kind == "lines" else form.document
        other = form.document if form.kind == "lines" else form.make
        assert made(Context(Path("a.jsonl")))
        with pytest.raises(TypeError, match=name):
            other(Context(Path("a.jsonl")))
