"""OpenCode: its SQLite database (1.x: session, message, part; 2.x: session_message) read without a trace.

sessions.md: "WAL; open read-only"; purpose: "nothing is ever written to the watched folders". SQLite itself makes files
beside a database that has a write-ahead log, even for readers: such a database is copied first and the copy is read.
Key of a call: `opencode:<session>:<message id>`; a message with several steps is one call a step (`#2`, …). A forked
session repeats messages under new ids with the same times and tokens: they carry the key of the first one.
"""

import shutil
import sqlite3
import struct
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from django.conf import settings

from relays.core.lines import recorded
from relays.core.meter import AnomalyKind, Extract
from relays.sessions import opencode_newer
from relays.sessions.opencode_messages import Conversation, Copies, created, parsed
from relays.sessions.reader import Context

_SIDES: Final = ("-wal", "-journal")
_TRIES: Final = 5
#: of the file's header: size of a page, count of changes, number of pages, and for which count of changes that holds
_HEADER: Final = struct.Struct(">16x H 6x I I 60x I 4x")


class OpenCodeDatabase:
    """A database of OpenCode; see `relays.sessions.reader.DocumentReader`.

    Raises OSError where the file cannot be read or keeps changing while it is copied.
    """

    def __init__(self, context: Context) -> None:
        self._context = context

    def read(self, path: Path) -> Extract:
        out = Extract()
        path.stat()  # SQLite would not tell a file that is not there from one that is none of its own
        if not _whole(path):
            out.note(AnomalyKind.BROKEN_LINE, detail="database: not whole")
            return out
        try:
            with _opened(path) as connection:
                _read_database(connection, out)
        except sqlite3.Error as error:
            out.note(AnomalyKind.BROKEN_LINE, detail=f"database: {type(error).__name__}")
        return out


def _whole(path: Path) -> bool:
    """False for a database that is shorter than its own header says: it was cut, or is still being copied here.

    SQLite reads what is missing as zeros: rows would come without their values, in another order, and what is once
    counted stays. What waits beside a database may make it longer: then SQLite itself puts it together.
    """
    if any(_size(path, side) for side in _SIDES):
        return True
    with path.open("rb") as file:
        header = file.read(_HEADER.size)
        size = file.seek(0, 2)
    if len(header) < _HEADER.size:
        return False
    numbers: tuple[int, int, int, int] = _HEADER.unpack(header)
    page, changed, pages, valid_for = numbers
    page = 65_536 if page == 1 else page
    if not page or size % page:
        return False
    return changed != valid_for or size >= page * pages


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
    raise OSError(recorded("%(name)s kept changing while it was copied; it is read again later", name=path.name))


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
    if "session_v2" in names:
        # named by reports, described by nobody: counted, so that it is seen that something is missing
        count = connection.execute("SELECT count(*) FROM session_v2").fetchone()[0]
        if count:
            out.records["rows of session_v2, not read"] = [int(count), 0]
            out.note(AnomalyKind.UNKNOWN_TYPE, detail="table session_v2", count=int(count))
    old, new = {"message", "part"} <= names, "session_message" in names
    if "session" not in names or not (old or new):
        out.note(AnomalyKind.UNKNOWN_TYPE, detail="tables session, message, part are not all there")
        return
    copies, number = Copies(), 0
    for sid, about in _sessions(connection, new).items():
        talk = Conversation(sid, out, copies)
        talk.about(about.get("directory"), about.get("version"), about.get("parent_id") or about.get("fork_session_id"))
        latest = 0
        if old:
            for message_id, data in connection.execute(
                "SELECT id, data FROM message WHERE session_id = ? ORDER BY time_created, id", (sid,)
            ):
                number += 1
                parts = connection.execute("SELECT data FROM part WHERE message_id = ? ORDER BY id", (message_id,))
                message = parsed(data, out, number)
                latest = max(latest, created(message))
                talk.message(message, message_id, (parsed(part[0], out, number) for part in parts), number)
        if new:
            number = _newer(connection, sid, talk, out, number, latest)
        talk.end()


def _sessions(connection: sqlite3.Connection, new: bool) -> dict[str, dict[str, Any]]:
    """The sessions in the order in which they were begun, with what the table says of them."""
    columns = _columns(connection, "session")
    known = ("parent_id", "fork_session_id", "directory", "version", "time_created")
    wanted = [name for name in known if name in columns]
    found: dict[str, dict[str, Any]] = {
        row[0]: dict(zip(wanted, row[1:], strict=True))
        for row in connection.execute(
            f"SELECT {', '.join(['id', *wanted])} FROM session "  # noqa: S608 - names of the list above
            f"ORDER BY {'time_created, ' if 'time_created' in wanted else ''}id"
        ).fetchall()
    }
    if new:
        for (sid,) in connection.execute("SELECT DISTINCT session_id FROM session_message ORDER BY 1").fetchall():
            found.setdefault(sid, {})
    return found


def _newer(connection: sqlite3.Connection, sid: str, talk: Conversation, out: Extract, number: int, latest: int) -> int:
    """The rows of 2.x of one session. Those that are no newer than its last message of 1.x repeat what that says: a

    database that was brought over tells the beginning of a session twice, under other ids.
    """
    place = "seq, " if "seq" in _columns(connection, "session_message") else "time_created, "
    query = f"SELECT id, type, data FROM session_message WHERE session_id = ? ORDER BY {place}id"  # noqa: S608
    for message_id, kind, data in connection.execute(query, (sid,)):
        number += 1
        row = parsed(data, out, number)
        if latest and created(row) <= latest:
            out.record("session_message that message tells too", 0)
            continue
        opencode_newer.message(talk, out, str(kind), row, message_id, number)
    return number


def _columns(connection: sqlite3.Connection, name: str) -> set[str]:
    return {str(row[1]) for row in connection.execute(f"PRAGMA table_info({name})")}
