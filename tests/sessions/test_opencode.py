"""OpenCode: a database read without a trace, and calls, steps, compactions and forks in it."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from relays.core.meter import AnomalyKind, Extract
from relays.core.usage import resident
from relays.sessions.reader import FORMS, Context

TABLES = """
CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, version TEXT, time_created INTEGER);
CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);
CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
"""


class Store:
    """An OpenCode database in the making."""

    def __init__(self, path: Path) -> None:
        self.path, self.clock, self.db = path, 1_777_629_600_000, sqlite3.connect(path, isolation_level=None)
        self.db.executescript(TABLES)

    def session(self, name: str, parent: str | None = None) -> None:
        self.clock += 1000
        self.db.execute("INSERT INTO session VALUES (?, ?, '/work', '1.2.0', ?)", (name, parent, self.clock))

    def message(self, session: str, name: str, parts: tuple[dict[str, Any], ...] = (), **data: Any) -> None:
        self.clock += 1000
        time = {"created": self.clock, "completed": self.clock + 500}
        row = json.dumps({"role": "assistant", "time": time, "modelID": "claude-sonnet-4-5", **data})
        self.db.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (name, session, self.clock, row))
        for number, part in enumerate(parts):
            self.db.execute(
                "INSERT INTO part VALUES (?, ?, ?, ?, ?)",
                (f"{name}-{number:03}", name, session, self.clock, json.dumps(part)),
            )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    folder = tmp_path / "opencode"
    folder.mkdir()
    made = Store(folder / "opencode.db")
    with closing(made.db):
        yield made


def usage(
    read_: int, output: int, reasoning: int = 0, cached: int = 0, written: int = 0, **more: int
) -> dict[str, Any]:
    cache = {"read": cached, "write": written}
    return {"input": read_, "output": output, "reasoning": reasoning, "cache": cache, **more}


def read(path: Path) -> Extract:
    return FORMS["opencode"].document(Context(path)).read(path)


def traces(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {one.name: (one.read_bytes(), one.stat().st_mtime_ns) for one in folder.iterdir()}


def test_calls_have_their_buckets_model_and_the_cost_that_the_agent_reports(store: Store) -> None:
    store.session("ses_1")
    store.message("ses_1", "m1", ({"type": "text", "text": "hello"},), role="user")
    store.message("ses_1", "m2", tokens=usage(100, 10, cached=40, written=20, total=170), cost=0.0125)
    store.message("ses_1", "m3", tokens=usage(0, 0), error={"name": "Aborted"})
    found = read(store.path)
    (call,) = found.calls.values()
    assert call.buckets.as_mapping() == {
        "input": 100,
        "cache_read": 40,
        "cache_write_5m": 20,
        "cache_write_1h": 0,
        "output": 10,
    }
    assert (call.key, call.model, call.reported_cost, call.chain) == (
        "opencode:ses_1:m2",
        "claude-sonnet-4-5",
        "0.0125",
        "main",
    )
    assert set(call.fill) == {"user text"}
    about = found.about["ses_1"]
    assert (about.cwd, about.version, about.first_at) == ("/work", "1.2.0", "2026-05-01T10:00:02.000Z")
    assert not found.anomalies


@pytest.mark.parametrize(
    ("used", "side", "output", "bound"),
    [
        (usage(100, 10, 30, cached=40, total=180), 140, 40, False),  # reasoning outside output
        (usage(100, 50, 30, cached=40, total=190), 140, 50, False),  # inside
        (usage(140, 50, 30, cached=40, total=190), 140, 50, False),  # and what is cached inside input
        (usage(100, 50, 30), 100, 50, True),  # no total: at least what is written
        (usage(100, 10, 30), 100, 40, False),  # no total, but it cannot be inside
    ],
)
def test_t23_reasoning_of_opencode_is_placed_by_the_total(
    store: Store, used: dict[str, Any], side: int, output: int, bound: bool
) -> None:
    store.session("ses_1")
    store.message("ses_1", "m1", tokens=used)
    found = read(store.path)
    (call,) = found.calls.values()
    assert (resident(call.buckets), call.buckets.output, call.reasoning, call.lower_bound) == (side, output, 30, bound)
    assert not found.anomalies


def test_t23_parts_that_fit_no_total_are_said(store: Store) -> None:
    store.session("ses_1")
    store.message("ses_1", "m1", tokens=usage(100, 10, total=999))
    assert [kind for kind, _, _ in read(store.path).anomalies] == [AnomalyKind.IDENTITY_MISMATCH]


def test_each_step_is_a_call_with_its_own_tools(store: Store) -> None:
    def tool(name: str, status: str, given: dict[str, Any], output: str = "", **metadata: Any) -> dict[str, Any]:
        state = {"status": status, "input": given, "output": output, "metadata": metadata}
        return {"type": "tool", "tool": name, "state": state}

    def finish(used: dict[str, Any]) -> dict[str, Any]:
        return {"type": "step-finish", "tokens": used, "cost": 0.5}

    store.session("ses_1")
    steps = (
        {"type": "step-start"},
        tool("bash", "completed", {"command": "git commit -m 'fix #7'"}, "[main 1a2b3c4] fix #7", exit=0),
        tool("bash", "completed", {"command": "false"}, "", exit=1),
        finish(usage(100, 10)),
        tool("edit", "completed", {"filePath": "/work/a.py"}),
        tool("write", "error", {"filePath": "/work/b.py"}),
        {"type": "odd"},
        finish(usage(200, 20)),
    )
    store.message("ses_1", "m1", steps, tokens=usage(200, 20), cost=1.0)
    found = read(store.path)
    assert [(call.key, resident(call.buckets), call.tools, call.tool_errors) for call in found.calls.values()] == [
        ("opencode:ses_1:m1", 100, 2, 1),
        ("opencode:ses_1:m1#2", 200, 2, 1),
    ]
    assert {(act.kind, act.ref) for act in found.acts.values()} == {
        ("commit", "1a2b3c4"),
        ("issue", "#7"),
        ("file", "/work/a.py"),
    }
    assert [(one.kind.value, one.detail) for one in found.anomalies.values()] == [("unknown_type", "part/odd")]


def test_a_compaction_is_one_boundary_and_its_own_call_is_no_view_into_the_window(store: Store) -> None:
    store.session("ses_1")
    store.message("ses_1", "m1", tokens=usage(900, 9))
    store.message("ses_1", "m2", ({"type": "compaction", "auto": True},), role="user")
    store.message("ses_1", "m3", tokens=usage(950, 90), summary=True)
    store.message("ses_1", "m4", tokens=usage(200, 9))
    store.message("ses_1", "m5", ({"type": "compaction", "auto": False},), role="user")  # cancelled: no summary came
    found = read(store.path)
    assert [(one.uid, one.trigger, one.line) for one in found.compactions.values()] == [
        ("opencode:ses_1:m2", "auto", 2)
    ]
    assert [call.chain for call in found.calls.values()] == ["main", "aux", "main"]


def test_a_forks_copies_carry_the_key_of_the_first_and_a_sub_agent_its_parent(store: Store) -> None:
    store.session("ses_1")
    store.message("ses_1", "m1", tokens=usage(100, 10))
    store.session("ses_2")
    store.session("ses_3", parent="ses_1")
    store.db.execute("INSERT INTO message SELECT 'copy', 'ses_2', time_created, data FROM message")
    store.message("ses_2", "m9", tokens=usage(120, 10))
    found = read(store.path)
    assert sorted(found.calls) == [
        ("ses_1", "opencode:ses_1:m1"),
        ("ses_2", "opencode:ses_1:m1"),
        ("ses_2", "opencode:ses_2:m9"),
    ]
    assert [found.about[name].copy_hint for name in ("ses_1", "ses_2", "ses_3")] == [False, True, False]
    assert found.about["ses_3"].parent == "ses_1"


@pytest.mark.parametrize("mode", ["delete", "wal", "wal closed"])
def test_reading_leaves_no_trace_in_the_folder(store: Store, mode: str) -> None:
    store.db.execute(f"PRAGMA journal_mode = {mode.split()[0]}")
    store.session("ses_1")
    store.message("ses_1", "m1", tokens=usage(100, 10))
    if mode == "wal closed":
        store.db.close()
    folder = store.path.parent
    before = traces(folder)
    assert ("opencode.db-wal" in before) == (mode == "wal")
    assert len(read(store.path).calls) == 1  # what only the log holds is read too
    assert traces(folder) == before


def test_a_database_that_is_none_or_damaged_is_said(store: Store, tmp_path: Path) -> None:
    store.session("ses_1")
    store.db.close()
    content = bytearray(store.path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    damaged, empty = tmp_path / "opencode-damaged.db", tmp_path / "opencode-empty.db"
    damaged.write_bytes(bytes(content))
    with closing(sqlite3.connect(empty)) as other:
        other.execute("CREATE TABLE session (id TEXT)")
    assert [kind for kind, _, _ in read(damaged).anomalies] == [AnomalyKind.BROKEN_LINE]
    assert [kind for kind, _, _ in read(empty).anomalies] == [AnomalyKind.UNKNOWN_TYPE]
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "missing.db")


def test_an_export_and_single_files_give_the_keys_of_the_database(tmp_path: Path) -> None:
    message = {"id": "m1", "sessionID": "ses_1", "role": "assistant", "modelID": "m", "tokens": usage(100, 10)}
    step = {"type": "step-finish", "tokens": usage(100, 10)}
    export = tmp_path / "export.json"
    export.write_text(json.dumps({"info": {"id": "ses_1"}, "messages": [{"info": message, "parts": [step]}]}))
    single = tmp_path / "storage" / "message" / "ses_1" / "m1.json"
    single.parent.mkdir(parents=True)
    single.write_text(json.dumps(message))
    part = tmp_path / "storage" / "part" / "m1" / "p1.json"
    part.parent.mkdir(parents=True)
    part.write_text(json.dumps(step))
    assert list(read(export).calls) == list(read(single).calls) == [("ses_1", "opencode:ses_1:m1")]
