"""Made-up files of Gemini CLI, OpenCode and `relay.event.v1`: rewritten, rewound, forked, brought over, without ids."""

import json
import sqlite3
from contextlib import closing
from typing import Any

from hypothesis import strategies as st

from tests.sessions.made_up import Files, _lines, _torn
from tests.sessions.oracle_prices import MODELS

COUNT = st.integers(0, 60_000)


def _at(draw: st.DrawFn, second: int) -> str:
    return f"2026-03-{draw(st.integers(1, 20)):02d}T10:{second // 60:02d}:{second % 60:02d}.000Z"


# ---- Gemini CLI


@st.composite
def gemini_files(draw: st.DrawFn) -> Files:
    """One to three sessions, each as lines, as one document, or as both; some in one file after another."""
    files: dict[str, list[bytes]] = {}
    documents: Files = {}
    for number in range(draw(st.integers(1, 3))):
        sid = f"{number:08d}-0000-4000-8000-000000000000"
        header = {"sessionId": sid, "projectHash": "h", "startTime": f"2026-03-0{number + 1}T09:00:00.000Z"}
        messages = [_gemini_message(draw, f"m{number}-{n}", n) for n in range(draw(st.integers(0, 5)))]
        how = draw(st.sampled_from(("lines", "lines", "document", "both")))
        if how != "lines":
            named = [one for one in messages if "id" in one]
            documents[f"old/chats/session-{number}.json"] = json.dumps({**header, "messages": named}, indent=2).encode()
        if how != "document":
            lines = _lines(draw, [header, *_rewritten(draw, messages)])
            path = f"new/chats/session-{0 if draw(st.booleans()) else number}.jsonl"
            files[path] = [*files.get(path, []), *lines]
            if draw(st.integers(0, 3)) == 0:
                files[f"copies/chats/session-{number}.jsonl"] = files[path]
    return documents | {path: _torn(draw, lines) for path, lines in files.items()}


def _gemini_message(draw: st.DrawFn, name: str, n: int) -> dict[str, Any]:
    kind = draw(st.sampled_from(("gemini", "gemini", "gemini", "user", "info", "odd")))
    found: dict[str, Any] = {"id": name, "type": kind, "timestamp": _at(draw, n), "content": "x"}
    if kind == "info":
        found["content"] = draw(st.sampled_from(("Compressed from 9000 to 1200 tokens", "hello")))
    if kind == "gemini":
        found |= {"model": draw(st.sampled_from(MODELS)), "tokens": _gemini_tokens(draw)}
        if draw(st.integers(0, 4)) == 0:
            del found["id"]
        if draw(st.integers(0, 4)) == 0:
            del found["timestamp"]
    return found


def _gemini_tokens(draw: st.DrawFn) -> dict[str, int]:
    side, output, thoughts = draw(COUNT), draw(st.integers(1, 5_000)), draw(st.sampled_from((0, 300)))
    tool = draw(st.sampled_from((0, 0, 40)))
    used = {"input": side, "output": output, "thoughts": thoughts, "tool": tool, "cached": draw(st.integers(0, side))}
    total = draw(st.sampled_from(("all", "all", "no tool", "inside", "none")))
    whole = {"all": side + output + thoughts + tool, "no tool": side + output + thoughts, "inside": side + output}
    return used if total == "none" else {**used, "total": whole[total]}


def _rewritten(draw: st.DrawFn, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of these messages: a message stands there before it is whole, and again in a history set anew."""
    found: list[dict[str, Any]] = []
    for message in messages:
        if "id" in message and draw(st.booleans()):
            found.append({key: value for key, value in message.items() if key != "tokens"})
        found.append(message)
        what = draw(st.sampled_from(("", "", "rewind", "set", "unknown")))
        named = [one for one in messages if "id" in one]
        if what == "rewind":
            found.append({"$rewindTo": message.get("id", "gone")})
        elif what == "set" and named:
            found.append({"$set": {"messages": draw(st.lists(st.sampled_from(named), max_size=3))}})
        elif what == "unknown":
            found.append({"odd": 1})
    return found


# ---- OpenCode

TABLES = """
CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, version TEXT, time_created INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE session_message (
    id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER, data TEXT
);
"""
CLOCK = 1_772_600_000_000  # early in March 2026


@st.composite
def opencode_files(draw: st.DrawFn) -> Files:
    """A database of some sessions, of 1.x, of 2.x and brought over, with forks; perhaps a copy of it elsewhere."""
    clock = CLOCK
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(TABLES)
        told: list[list[tuple[int, str, list[str]]]] = []  # of each session its messages: time, data, parts
        for number in range(draw(st.integers(1, 4))):
            clock += 86_400_000 * draw(st.integers(0, 3)) + 1000
            sid = f"ses_{number}"
            db.execute("INSERT INTO session VALUES (?, NULL, '/srv/x', '1.2.0', ?)", (sid, clock))
            mine: list[tuple[int, str, list[str]]] = []
            if told and draw(st.booleans()):
                of = draw(st.sampled_from(told))
                mine += of[: draw(st.integers(0, len(of)))]
            newer = draw(st.integers(0, 2)) == 0
            for _ in range(draw(st.integers(0, 4))):
                clock += 1000
                if newer:
                    _newer_row(draw, db, sid, clock)
                else:
                    mine += _opencode_messages(draw, clock)
                    clock += 1000
            for at, (created, data, parts) in enumerate(mine):
                name = f"msg_{number}_{at:03d}"
                db.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (name, sid, created, data))
                for part, text in enumerate(parts):
                    values = (f"prt_{number}_{at:03d}_{part:03d}", name, sid, created, text)
                    db.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?)", values)
                if draw(st.integers(0, 5)) == 0:  # brought over to 2.x, under another id
                    _brought_over(db, sid, name, created, data)
            told.append(mine)
        db.commit()
        content = db.serialize()
    files = {"share/opencode.db": content}
    if draw(st.integers(0, 2)) == 0:
        files["copy/opencode-old.db"] = content
    return files


def _opencode_messages(draw: st.DrawFn, clock: int) -> list[tuple[int, str, list[str]]]:
    time: dict[str, int] = {"created": clock}
    if draw(st.integers(0, 5)):
        time["completed"] = clock + draw(st.integers(1, 900))
    kind = draw(st.sampled_from(("answer", "answer", "answer", "steps", "user", "summary", "broken", "nothing")))
    base = {"role": "assistant", "time": time, "modelID": draw(st.sampled_from(MODELS)), "providerID": "p"}
    tokens = _opencode_tokens(draw)
    if kind == "user":
        return [(clock, json.dumps({"role": "user", "time": time}), ['{"type": "text", "text": "x"}'])]
    if kind == "broken":
        return [(clock, '{"role": "assist', [])]
    if kind == "nothing":
        return [(clock, json.dumps({**base, "tokens": {"input": 0, "output": 0}}), [])]
    if kind == "steps":
        steps = [_opencode_tokens(draw) for _ in range(draw(st.integers(1, 3)))]
        parts = [json.dumps({"type": "step-finish", "tokens": step}) for step in steps]
        return [(clock, json.dumps({**base, "tokens": steps[-1]}), ['{"type": "step-start"}', *parts])]
    if kind == "summary":
        asked = json.dumps({"role": "user", "time": {"created": clock}})
        later = {"created": clock + 500, "completed": clock + 900}
        failed = {"error": {"name": "x"}} if draw(st.booleans()) else {}
        data = json.dumps({**base, "time": later, "tokens": tokens, "summary": True, **failed})
        return [(clock, asked, ['{"type": "compaction", "auto": true}']), (clock + 500, data, [])]
    return [(clock, json.dumps({**base, "tokens": tokens}), [])]


def _opencode_tokens(draw: st.DrawFn) -> dict[str, Any]:
    side, output, read = draw(st.integers(1, 60_000)), draw(st.integers(1, 5_000)), draw(COUNT)
    written, reasoning = draw(st.sampled_from((0, 0, 700))), draw(st.sampled_from((0, 0, 77)))
    found = {"input": side, "output": output, "reasoning": reasoning, "cache": {"read": read, "write": written}}
    where = draw(st.sampled_from(("outside", "inside", "unknown")))
    if where != "unknown":
        found["total"] = side + output + read + written + (reasoning if where == "outside" else 0)
    return found


def _newer_row(draw: st.DrawFn, db: sqlite3.Connection, sid: str, clock: int) -> None:
    kind = draw(st.sampled_from(("assistant", "assistant", "user", "compaction", "idle", "novel")))
    data: dict[str, Any] = {"time": {"created": clock, "completed": clock + 300}}
    if kind in ("assistant", "compaction"):
        tokens = _opencode_tokens(draw)
        tokens.pop("total", None)
        data |= {"model": {"id": draw(st.sampled_from(MODELS)), "providerID": "p"}, "tokens": tokens, "content": []}
    if kind == "compaction":
        data |= {"status": draw(st.sampled_from(("completed", "failed"))), "reason": "auto"}
    values = (f"new_{sid}_{clock}", sid, kind, clock, clock, json.dumps(data))
    db.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", values)


def _brought_over(db: sqlite3.Connection, sid: str, name: str, created: int, data: str) -> None:
    try:
        message = json.loads(data)
    except ValueError:
        return
    row = {"time": message["time"], "model": {"id": message.get("modelID")}, "tokens": message.get("tokens")}
    values = (f"over_{name}", sid, message["role"], created, created, json.dumps({**row, "content": []}))
    db.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", values)


# ---- relay.event.v1


@st.composite
def event_files(draw: st.DrawFn) -> Files:
    """One to three event files, with messages said again with more, of both chains, and copies of the whole file."""
    files: dict[str, list[bytes]] = {}
    for number in range(draw(st.integers(1, 3))):
        models = {name: draw(st.sampled_from(MODELS)) for name in range(4)}
        records: list[dict[str, Any]] = []
        for seq in range(draw(st.integers(0, 8))):
            kind = draw(st.sampled_from(("usage", "usage", "usage", "tool_started", "tool_ended", "novel", "bad")))
            base: dict[str, Any] = {"kind": kind, "seq": seq}
            if draw(st.integers(0, 3)):
                base["at"] = _at(draw, seq)
            if kind == "usage":
                records.append(base | _event_usage(draw, models))
            elif kind == "tool_started":
                records.append(base | {"id": "t", "name": "bash"})
            elif kind == "tool_ended":
                records.append(base | {"id": "t", "ok": draw(st.booleans()), "result_bytes": 40})
            elif kind == "novel":
                records.append(base)
            else:
                records.append({**base, "kind": "usage", "input": -1})
        lines = _lines(draw, records)
        if not lines:
            lines = [json.dumps({"kind": "turn_started", "seq": 0, "file": number}).encode()]
        files[f"a/events-{number}.ndjson"] = lines
        if draw(st.integers(0, 2)) == 0:
            files[f"b/events-{number}.ndjson"] = lines
    return {path: _torn(draw, lines) for path, lines in files.items()}


def _event_usage(draw: st.DrawFn, models: dict[int, str]) -> dict[str, Any]:
    name = draw(st.integers(0, 3))
    return {
        "model": models[name],
        "message_id": f"m{name}",
        "chain": draw(st.sampled_from(("main", "main", "sub"))),
        "input": draw(COUNT),
        "cache_read": draw(st.one_of(st.none(), COUNT)),
        "cache_write_5m": draw(st.sampled_from((None, 0, 600))),
        "cache_write_1h": draw(st.sampled_from((None, 0, 600))),
        "output": draw(st.integers(1, 5_000)),
    }
