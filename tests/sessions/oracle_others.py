"""What the right totals of Gemini CLI's, OpenCode's and `relay.event.v1` files are, worked out slowly and all at once.

As `tests.sessions.oracle`: written from sessions.md, cost.md and interface.md, and sharing no code with the readers.
"""

import hashlib
import json
import sqlite3
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from tests.sessions.oracle import Counted, Right, _records, _whole, price


@dataclass
class Row:
    """A call as one place shows it."""

    session: str
    key: str
    model: str
    at: str
    used: Mapping[str, int]  # input, cache_read, written, cache_write_1h, output
    chain: str = "main"


def _put_together(rows: list[Row], sessions: set[str], owners: Mapping[str, str]) -> dict[str, Right]:
    """Each call once, in the session that `owners` names for its key, else in the only one that shows it."""
    found = {session: Right() for session in sessions}
    by_key: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_key[row.key].append(row)
    counted: dict[str, list[Counted]] = defaultdict(list)
    for key, same in by_key.items():
        tokens = _whole([row.used for row in same])
        chain = "main" if any(row.chain == "main" for row in same) else same[0].chain
        owner = owners.get(key, same[0].session)
        at = min((row.at for row in same if row.at), default="")
        counted[owner].append(Counted(same[0].model, at, tokens))
        for session in {row.session for row in same}:
            right = found[session]
            if chain == "main":
                right.most = max(right.most, sum(tokens.values()) - tokens["output"])
            if session == owner:
                right.calls += 1
                right.main_calls += chain == "main"
                for kind, count in tokens.items():
                    right.tokens[kind] += count
            else:
                right.copied += 1
    for session, calls in counted.items():
        price(found[session], calls)
    return found


# ---- Gemini CLI


def gemini(files: Mapping[str, bytes]) -> dict[str, Right]:
    """Session -> what counts in it; a message is a call however often and in whatever file it stands."""
    rows: list[Row] = []
    sessions: set[str] = set()
    marks: set[tuple[str, str]] = set()
    for path, content in files.items():
        for session, message in _gemini_messages(path, content):
            sessions.add(session)
            if message is None:
                continue
            name = message.get("id") or json.dumps(message, sort_keys=True)
            if message.get("type") == "info" and "ompressed from" in str(message.get("content")):
                marks.add((session, name))
            if message.get("type") == "gemini" and isinstance(message.get("tokens"), dict):
                key, used = f"{session}/{name}", _gemini_used(message["tokens"])
                rows.append(Row(session, key, message["model"], message.get("timestamp", ""), used))
    found = _put_together(rows, sessions, {})
    for session, _ in marks:
        found[session].compactions += 1
    return found


def _gemini_messages(path: str, content: bytes) -> Iterator[tuple[str, dict[str, Any] | None]]:
    if path.endswith(".json"):
        document = json.loads(content)
        yield document["sessionId"], None
        for message in document["messages"]:
            yield document["sessionId"], message
        return
    session = ""
    for _, record in _records(content):
        if "$set" not in record and "$rewindTo" not in record and "id" not in record and "sessionId" in record:
            session = record["sessionId"]
            yield session, None
            continue
        session = session or PurePath(path).stem
        if "$set" in record:
            for message in record["$set"].get("messages", []):
                yield session, message
            yield session, None
        elif "id" in record or record.get("type") in ("user", "gemini"):
            yield session, record
        else:
            yield session, None


def _gemini_used(used: Mapping[str, int]) -> dict[str, int]:
    side, output, thoughts, tool = used["input"], used["output"], used["thoughts"], used["tool"]
    total = used.get("total", side + output + thoughts + tool)
    if total == side + tool + output + thoughts:
        side, output = side + tool, output + thoughts
    elif total == side + output + thoughts:
        output += thoughts
    elif total == side + tool + output:
        side += tool
    elif total != side + output:
        side, output = side + tool, output + thoughts
    cached = used["cached"]
    return {"input": side - cached, "cache_read": cached, "written": 0, "cache_write_1h": 0, "output": output}


# ---- OpenCode


def opencode(files: Mapping[str, bytes]) -> dict[str, Right]:
    """Session -> what counts in it; what a fork repeats is its parent's, a row brought over to 2.x is the old one."""
    (content,) = set(files.values())
    rows: list[Row] = []
    sessions: list[str] = []
    owners: dict[str, str] = {}
    first: dict[str, str] = {}  # what an answer is known by in a fork -> its key
    marks: dict[str, str] = {}  # summary -> the session that it counts in
    with closing(sqlite3.connect(":memory:")) as db:
        db.deserialize(content)
        for (sid,) in db.execute("SELECT id FROM session ORDER BY time_created, id"):
            sessions.append(sid)
            for name, message, parts in _opencode_told(db, sid):
                if message.get("role") != "assistant":
                    continue
                time, tokens = message["time"], message.get("tokens")
                known = f"{sid}/{name}"
                if time.get("completed") and tokens:
                    facts = [time["created"], time["completed"], message.get("modelID"), tokens]
                    known = first.setdefault(json.dumps(facts, sort_keys=True), known)
                chain = "aux" if message.get("summary") else "main"
                if message.get("summary") and not message.get("error"):
                    marks.setdefault(known, sid)
                steps = [part["tokens"] for part in parts if part.get("type") == "step-finish"]
                for at, used in enumerate(steps or [tokens]):
                    counts = _opencode_used(used)
                    if not any(counts.values()):
                        continue
                    key = f"{known}#{at}"
                    owners.setdefault(key, sid)
                    rows.append(Row(sid, key, message["modelID"], _time(time["created"]), counts, chain))
    found = _put_together(rows, set(sessions), owners)
    for sid in marks.values():
        found[sid].compactions += 1
    return found


def _opencode_told(db: sqlite3.Connection, sid: str) -> Iterator[tuple[str, dict[str, Any], list[dict[str, Any]]]]:
    latest = 0
    query = "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id"
    for name, data in db.execute(query, (sid,)).fetchall():
        message = _object(data)
        if message:
            latest = max(latest, message["time"]["created"])
            parts = db.execute("SELECT data FROM part WHERE message_id = ? ORDER BY id", (name,)).fetchall()
            yield name, message, [_object(part) for (part,) in parts]
    query = "SELECT id, type, data FROM session_message WHERE session_id = ? ORDER BY seq, id"
    for name, kind, data in db.execute(query, (sid,)).fetchall():
        row = _object(data)
        if row["time"]["created"] <= latest or kind not in ("assistant", "compaction"):
            continue
        used = row["tokens"]
        cache = used["cache"]
        total = used["input"] + used["output"] + used["reasoning"] + cache["read"] + cache["write"]
        told = {"role": "assistant", "time": row["time"], "modelID": row["model"]["id"]}
        told["tokens"] = {**used, "total": total}
        if kind == "compaction":
            told |= {"summary": True, "error": row["status"] == "failed"}
        yield name, told, []


def _object(text: str) -> dict[str, Any]:
    try:
        return json.loads(text)
    except ValueError:
        return {}


def _time(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat()


def _opencode_used(tokens: Mapping[str, Any] | None) -> dict[str, int]:
    used = tokens or {}
    cache = used.get("cache", {})
    side, output, reasoning = used.get("input", 0), used.get("output", 0), used.get("reasoning", 0)
    read, write = cache.get("read", 0), cache.get("write", 0)
    if "total" in used:
        outside = used["total"] == side + read + write + output + reasoning
        output += reasoning if outside else 0
    elif reasoning > output:
        output += reasoning  # it cannot be within
    return {"input": side, "cache_read": read, "written": write, "cache_write_1h": 0, "output": output}


# ---- relay.event.v1


def events(files: Mapping[str, bytes]) -> dict[str, Right]:
    """Session (a file's name and what its first line is) -> what counts in it."""
    rows: list[Row] = []
    sessions: set[str] = set()
    for path, content in files.items():
        whole = [line for line in content[: content.rfind(b"\n") + 1].split(b"\n") if line.strip()]
        records = [record for _, record in _records(content)]
        if not any("kind" in record and "seq" in record for record in records):
            continue  # nothing says what it is
        session = f"{PurePath(path).stem}-{hashlib.sha256(whole[0]).hexdigest()[:8]}"
        sessions.add(session)
        for record in records:
            if record.get("kind") != "usage" or record.get("input", -1) < 0:
                continue
            five, hour = record["cache_write_5m"] or 0, record["cache_write_1h"] or 0
            used = {
                "input": record["input"],
                "cache_read": record["cache_read"] or 0,
                "written": five + hour,
                "cache_write_1h": hour,
                "output": record["output"],
            }
            key = f"{session}/{record['message_id']}"
            rows.append(Row(session, key, record["model"], record.get("at", ""), used, record["chain"]))
    return _put_together(rows, sessions, {})
