"""OpenCode: its SQLite database (1.x: session, message, part) read without a trace, and its JSON files.

sessions.md: "WAL; open read-only"; purpose: "nothing is ever written to the watched folders". SQLite itself makes files
beside a database that has a write-ahead log, even for readers: such a database is copied first and the copy is read.
Key of a call: `opencode:<session>:<message id>`; a message with several steps is one call a step (`#2`, …). A forked
session repeats messages under new ids with the same times and tokens: they carry the key of the first one.
"""

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from django.conf import settings

from relays.core.meter import AnomalyKind, Extract
from relays.sessions.fields import rows, table
from relays.sessions.jsonline import parse_whole
from relays.sessions.opencode_messages import Conversation, Copies
from relays.sessions.reader import Context

_SIDES: Final = ("-wal", "-journal")
_TRIES: Final = 5


class OpenCodeDatabase:
    """A database or a JSON file of OpenCode; see `relays.sessions.reader.DocumentReader`.

    Raises OSError where the file cannot be read or keeps changing while it is copied.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def read(self, path: Path) -> Extract:
        out = Extract()
        with path.open("rb") as file:
            database = file.read(16) == b"SQLite format 3\x00"
        if not database:
            _read_json(path, out)
            return out
        try:
            with _opened(path) as connection:
                _read_database(connection, out)
        except sqlite3.Error as error:
            out.note(AnomalyKind.BROKEN_LINE, detail=f"database: {type(error).__name__}")
        return out


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    path = path.resolve()
    if not any(_size(path, side) for side in _SIDES):
        # nothing is waiting beside it: `immutable` keeps SQLite from making, locking or recovering anything
        with closing(_connect(f"file:{quote(str(path))}?mode=ro&immutable=1")) as connection:
            yield connection
        return
    scratch = Path(settings.RELAY_VAR)
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="opencode-", dir=scratch) as folder:
        copy = Path(folder) / "copy.db"
        _copy(path, copy)
        with closing(_connect(f"file:{quote(str(copy))}?mode=rw")) as connection:
            yield connection


def _connect(address: str) -> sqlite3.Connection:
    connection = sqlite3.connect(address, uri=True, isolation_level=None)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA query_only = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


def _copy(path: Path, copy: Path) -> None:
    """The database and what waits beside it, of one moment: copied again if its owner wrote meanwhile."""
    for _ in range(_TRIES):
        before = _stamp(path)
        shutil.copyfile(path, copy)
        for side in _SIDES:
            target = copy.with_name(copy.name + side)
            target.unlink(missing_ok=True)
            source = path.with_name(path.name + side)
            if source.exists():
                shutil.copyfile(source, target)
        if _stamp(path) == before:
            return
    raise OSError(f"{path.name} kept changing while it was copied; it is read again later")


def _stamp(path: Path) -> list[tuple[int, int, int] | None]:
    found: list[tuple[int, int, int] | None] = []
    for side in ("", *_SIDES):
        try:
            stat = path.with_name(path.name + side).stat()
        except FileNotFoundError:
            found.append(None)
        else:
            found.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
    return found


def _size(path: Path, side: str) -> int:
    try:
        return path.with_name(path.name + side).stat().st_size
    except FileNotFoundError:
        return 0


def _read_database(connection: sqlite3.Connection, out: Extract) -> None:
    names = {str(row[0]) for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    for other in sorted(name for name in names if name in ("session_v2", "session_message")):
        count = connection.execute(f"SELECT count(*) FROM {other}").fetchone()[0]  # noqa: S608 - one of two names
        if count:
            out.records[f"rows of {other}, not read"] = [int(count), 0]
    if not {"session", "message", "part"} <= names:
        out.note(AnomalyKind.UNKNOWN_TYPE, detail="tables session, message, part are not all there")
        return
    columns = {str(row[1]) for row in connection.execute("PRAGMA table_info(session)")}
    wanted = [name for name in ("parent_id", "directory", "version", "time_created") if name in columns]
    copies, number = Copies(), 0
    listed = connection.execute(
        f"SELECT {', '.join(['id', *wanted])} FROM session "  # noqa: S608 - names of the list above
        f"ORDER BY {'time_created, ' if 'time_created' in wanted else ''}id"
    ).fetchall()
    for row in listed:
        about = dict(zip(wanted, row[1:], strict=True))
        talk = Conversation(row[0], out, copies)
        talk.about(about.get("directory"), about.get("version"), about.get("parent_id"))
        for message_id, data in connection.execute(
            "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (row[0],)
        ):
            number += 1
            parts = connection.execute("SELECT data FROM part WHERE message_id = ? ORDER BY id", (message_id,))
            talk.message(
                _parsed(data, out, number), message_id, (_parsed(part[0], out, number) for part in parts), number
            )
        talk.end()


def _read_json(path: Path, out: Extract) -> None:
    """`opencode export` = `{info, messages: [{info, parts}]}`, or a message of the older `storage/message/<session>/`

    with its parts beside it.
    """
    document = _parsed(path.read_bytes(), out, 0)
    copies = Copies()
    if isinstance(document.get("messages"), list):
        info = table(document.get("info"))
        talk = Conversation(info.get("id"), out, copies)
        talk.about(info.get("directory"), info.get("version"), info.get("parentID"))
        for number, entry in enumerate(rows(document["messages"]), 1):
            message = table(table(entry).get("info"))
            talk.message(message, message.get("id"), map(table, rows(table(entry).get("parts"))), number)
        talk.end()
    elif document.get("role"):
        talk = Conversation(document.get("sessionID") or path.parent.name, out, copies)
        folder = path.parent.parent.parent / "part" / path.stem
        files = sorted(folder.glob("*.json")) if path.parent.parent.name == "message" and folder.is_dir() else []
        talk.message(document, document.get("id") or path.stem, (_parsed(f.read_bytes(), out, 1) for f in files), 1)
        talk.end()
    elif document:
        out.note(AnomalyKind.UNKNOWN_TYPE, detail="document")


def _parsed(raw: object, out: Extract, line: int) -> Mapping[str, Any]:
    """A JSON object, or an empty one and a broken line."""
    if isinstance(raw, str):
        raw = raw.encode("utf-8", "surrogatepass")
    value = parse_whole(raw) if isinstance(raw, bytes) else None
    if value is not None:
        return value
    out.note(AnomalyKind.BROKEN_LINE, line=line)
    return {}
