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
from relays.models import Session, SessionAct, SourceFile
from relays.sessions.reader import FORMS, Context
from relays.sessions.run import import_paths
from relays.sessions.totals import totals

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
        tool("edit", "completed", {"filePath": "/srv/a.py"}),
        tool("write", "error", {"filePath": "/srv/b.py"}),
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
        ("file", "/srv/a.py"),
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


@pytest.mark.django_db
def test_a_forks_copy_of_a_compaction_is_the_compaction_that_it_repeats(store: Store) -> None:
    store.session("ses_1")
    store.message("ses_1", "m1", tokens=usage(900, 9))
    store.message("ses_1", "m2", ({"type": "compaction", "auto": True},), role="user")
    store.message("ses_1", "m3", tokens=usage(950, 90), summary=True)
    store.session("ses_2")
    copies = "INSERT INTO message SELECT 'copy of ' || id, 'ses_2', time_created, data FROM message"
    store.db.execute(copies)
    store.message("ses_2", "m9", tokens=usage(200, 9))
    assert totals(import_paths([store.path]).sources)["compactions"] == 1
    assert list(Session.objects.order_by("sid").values_list("compactions", flat=True)) == [1, 0]


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


def test_a_database_that_is_cut_gives_nothing_until_it_is_whole(store: Store, tmp_path: Path) -> None:
    """What is missing of its last page reads as zeros: rows without their values, which would be counted for good."""
    store.session("ses_1")
    for number in range(12):  # long enough that the last page is one of these rows
        part = {"type": "step-finish", "tokens": usage(number + 1, 10), "text": "x" * 700}
        store.message("ses_1", f"m{number:02}", (part,), tokens=usage(1_000, 10))
    whole = store.path.read_bytes()
    copy = tmp_path / "opencode-copy.db"
    for size in (*range(100, len(whole), 997), *range(len(whole) - 4000, len(whole), 97)):
        copy.write_bytes(whole[:size])
        found = read(copy)
        assert not found.calls and not found.about, f"cut at {size} of {len(whole)}"
        assert [one.kind for one in found.anomalies.values()] == [AnomalyKind.BROKEN_LINE]
    copy.write_bytes(whole)
    assert read(copy) == read(store.path)
    assert [resident(call.buckets) for call in read(copy).calls.values()] == list(range(1, 13))


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
    calls = [list(FORMS[form].document(Context(path)).read(path).calls) for form, path in (
        ("opencode-export", export), ("opencode-message", single),
    )]  # fmt: skip
    assert calls == [[("ses_1", "opencode:ses_1:m1")]] * 2


# ---- 2.x: session_message


NEWER = """
CREATE TABLE session_message (
    id TEXT PRIMARY KEY, session_id TEXT, type TEXT, seq INTEGER, time_created INTEGER, data TEXT
)
"""


class Newer(Store):
    """A database of 2.x in the making; `old`: brought over from 1.x, with its tables still there."""

    def __init__(self, path: Path, *, old: bool = True) -> None:
        super().__init__(path)
        self.db.execute(NEWER)
        self.seq = 0
        if not old:
            self.db.executescript("DROP TABLE message; DROP TABLE part;")

    def row(self, session: str, name: str, kind: str, **data: Any) -> None:
        self.clock, self.seq = self.clock + 1000, self.seq + 1
        whole = {"time": {"created": self.clock, "completed": self.clock + 500}, **data}
        values = (name, session, kind, self.seq, self.clock, json.dumps(whole))
        self.db.execute("INSERT INTO session_message VALUES (?, ?, ?, ?, ?, ?)", values)

    def answer(self, session: str, name: str, used: dict[str, Any], *content: dict[str, Any], **data: Any) -> None:
        model = {"id": "claude-sonnet-4-5", "providerID": "anthropic"}
        self.row(session, name, "assistant", agent="build", model=model, content=list(content), tokens=used, **data)


@pytest.fixture
def newer(tmp_path: Path) -> Iterator[Newer]:
    made = Newer(tmp_path / "opencode.db", old=False)
    with closing(made.db):
        yield made


def test_2x_answers_are_calls_with_reasoning_beside_output(newer: Newer) -> None:
    def tool(name: str, status: str, given: dict[str, Any], said: str = "", **metadata: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": said}]
        state = {"status": status, "input": given, "content": content, "metadata": metadata}
        return {"type": "tool", "id": "c", "name": name, "state": state}

    newer.session("ses_1")
    newer.row("ses_1", "msg_0", "user", text="please", files=[{"uri": "file:///x", "mime": "text/plain"}])
    newer.row("ses_1", "msg_1", "model-switched", model={"id": "x"})
    newer.row("ses_1", "msg_2", "synthetic", text="a reminder")
    newer.answer(
        "ses_1", "msg_3", usage(100, 10, 30, cached=40, written=5),
        {"type": "text", "text": "done"},
        tool("bash", "completed", {"command": "git commit -m 'fix #7'"}, "[main 1a2b3c4] fix #7", exit=0),
        tool("edit", "completed", {"filePath": "/srv/a.py"}),
        tool("bash", "error", {"command": "false"}),
        snapshot={"files": ["b.py"]}, cost=0.5,
    )  # fmt: skip
    newer.row("ses_1", "msg_4", "idle", outcome="succeeded")
    found = read(newer.path)
    (call,) = found.calls.values()
    assert (call.key, call.model, call.chain, call.reported_cost) == (
        "opencode:ses_1:msg_3", "claude-sonnet-4-5", "main", "0.5",
    )  # fmt: skip
    assert call.buckets.as_mapping() == {
        "input": 100, "cache_read": 40, "cache_write_5m": 5, "cache_write_1h": 0, "output": 40,
    }  # fmt: skip
    assert (call.reasoning, call.lower_bound, call.tools, call.tool_errors) == (30, False, 3, 1)
    assert set(call.fill) == {"user text", "user file", "synthetic text"}
    assert {(act.kind, act.ref) for act in found.acts.values()} == {
        ("commit", "1a2b3c4"), ("issue", "#7"), ("file", "/srv/a.py"), ("file", "b.py"),
    }  # fmt: skip
    assert found.about["ses_1"].cwd == "/work"
    assert not found.anomalies


def test_2x_a_compaction_is_a_boundary_once_it_is_completed_and_its_call_was_paid_for(newer: Newer) -> None:
    newer.session("ses_1")
    newer.answer("ses_1", "msg_1", usage(900, 9))
    model = {"id": "claude-haiku-4-5", "providerID": "anthropic"}
    newer.row("ses_1", "msg_2", "compaction", status="completed", reason="auto", model=model, tokens=usage(950, 90))
    newer.answer("ses_1", "msg_3", usage(200, 9))
    newer.row("ses_1", "msg_4", "compaction", status="failed", reason="manual", error={"type": "x"}, tokens=usage(7, 1))
    newer.row("ses_1", "msg_5", "compaction", status="running", reason="auto", summary="", recent="")
    found = read(newer.path)
    assert [(one.uid, one.trigger) for one in found.compactions.values()] == [("opencode:ses_1:msg_2", "auto")]
    assert [(call.chain, resident(call.buckets)) for call in found.calls.values()] == [
        ("main", 900), ("aux", 950), ("main", 200), ("aux", 7),
    ]  # fmt: skip


def test_2x_what_was_brought_over_from_1x_counts_once_and_what_came_later_counts(tmp_path: Path) -> None:
    store = Newer(tmp_path / "opencode.db")
    store.session("ses_1")
    store.message("ses_1", "m1", tokens=usage(100, 10))
    began = store.clock
    copied = {"created": began, "completed": began + 500}
    model = {"id": "claude-sonnet-4-5", "providerID": "anthropic"}
    store.row("ses_1", "msg_of_m1", "assistant", model=model, content=[], tokens=usage(100, 10), time=copied)
    store.answer("ses_1", "msg_2", usage(300, 20))
    store.answer("ses_9", "msg_3", usage(5, 1))  # a session that its table does not name
    found = read(store.path)
    assert sorted(call.key for call in found.calls.values()) == [
        "opencode:ses_1:m1", "opencode:ses_1:msg_2", "opencode:ses_9:msg_3",
    ]  # fmt: skip
    assert found.records["session_message that message tells too"][0] == 1


def test_2x_what_nobody_described_is_counted_and_named(newer: Newer) -> None:
    newer.session("ses_1")
    newer.row("ses_1", "msg_1", "novel")
    newer.db.execute("INSERT INTO session_message VALUES ('msg_2', 'ses_1', 'user', 9, 9, '{cut')")
    newer.db.execute("CREATE TABLE session_v2 (id TEXT)")
    newer.db.executemany("INSERT INTO session_v2 VALUES (?)", [("a",), ("b",)])
    found = read(newer.path)
    assert sorted((one.kind.value, one.detail, one.count) for one in found.anomalies.values()) == [
        ("broken_line", "", 1),
        ("unknown_type", "session_message/novel", 1),
        ("unknown_type", "table session_v2", 2),
    ]
    assert found.records["rows of session_v2, not read"] == [2, 0]


# ---- JSON


def legacy(storage: Path, *, older: bool = False) -> dict[str, Any]:
    """A session of two messages as versions before the database kept it; the export that says the same."""
    infos = storage / "info" if older else storage / "session" / "project"
    info = {"id": "ses_1", "projectID": "project", "directory": "/work", "version": "0.9.1"}
    made: list[dict[str, Any]] = []
    for number, cached in enumerate((0, 90)):
        name, used = f"msg_{number}", usage(100 + number, 10, cached=cached)
        time = {"created": 1_777_629_600_000 + number, "completed": 1_777_629_600_900 + number}
        message = {
            "id": name, "sessionID": "ses_1", "role": "assistant", "time": time, "modelID": "claude-sonnet-4-5",
            "providerID": "anthropic", "tokens": used, "cost": 0.25,
        }  # fmt: skip
        state = {"status": "completed", "input": {"filePath": f"/srv/{number}.py"}, "output": "ok"}
        parts = [
            {"id": "prt_1", "sessionID": "ses_1", "messageID": name, "type": "tool", "tool": "write", "state": state},
            {
                "id": "prt_2",
                "sessionID": "ses_1",
                "messageID": name,
                "type": "step-finish",
                "tokens": used,
                "cost": 0.25,
            },
        ]
        made.append({"info": message, "parts": parts})
        folder = storage / "part" / ("ses_1" if older else "") / name
        for path, one in [(storage / "message" / "ses_1" / f"{name}.json", message)] + [
            (folder / f"{part['id']}.json", part) for part in parts
        ]:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(one, indent=2))
    infos.mkdir(parents=True, exist_ok=True)
    (infos / "ses_1.json").write_text(json.dumps(info, indent=2))
    return {"info": info, "messages": made, "todos": []}


@pytest.mark.django_db
@pytest.mark.parametrize("older", [False, True])
def test_the_files_before_the_database_and_an_export_are_found_and_count_once(tmp_path: Path, older: bool) -> None:
    whole = legacy(tmp_path / "storage", older=older)
    found = totals(import_paths([tmp_path / "storage"]).sources)
    assert (found["sessions"], found["calls"], found["tokens"]["input"], found["tokens"]["cache_read"]) == (
        1,
        2,
        201,
        90,
    )
    session = Session.objects.get()
    assert (session.sid, session.cwd, session.version, str(session.reported_cost.normalize())) == (
        "ses_1", "/work", "0.9.1", "0.5",
    )  # fmt: skip
    assert (session.max_resident, session.anomalies) == (191, {})
    assert set(SessionAct.objects.values_list("kind", "ref")) == {("file", "/srv/0.py"), ("file", "/srv/1.py")}
    (tmp_path / "export.json").write_text("Exporting session: ses_1\n" + json.dumps(whole, indent=2) + "\n")
    again = totals(import_paths([tmp_path]).sources)
    assert (again["sessions"], again["calls"], again["tokens"], again["cost"]) == (
        1, 2, found["tokens"], found["cost"],
    )  # fmt: skip
    forms = set(SourceFile.objects.exclude(form="").values_list("form", flat=True))
    assert forms == {"opencode-message", "opencode-export"}


def test_an_export_of_2x_messages_and_a_damaged_one(tmp_path: Path) -> None:
    export = tmp_path / "export.json"
    answer = {"id": "msg_1", "type": "assistant", "model": {"id": "m"}, "content": [], "tokens": usage(100, 10, 5)}
    export.write_text(json.dumps({"info": {"id": "ses_1"}, "messages": [answer]}))
    document = FORMS["opencode-export"].document(Context(export))
    (call,) = document.read(export).calls.values()
    assert (call.key, call.buckets.output, call.lower_bound) == ("opencode:ses_1:msg_1", 15, False)
    export.write_text('{"info": {"id": "ses_1"')
    assert [kind for kind, _, _ in document.read(export).anomalies] == [AnomalyKind.BROKEN_LINE]
