"""Rows of calls to and from the tables, many at a time: the ORM's objects would take longer than reading the files.

The one place that knows how each database spells times, flags and JSON.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from itertools import islice, starmap
from typing import Any, Final, TypeVar, cast

import orjson
from django.db import connection, transaction
from django.db.models import Field, Model

from relays.core.pricing import dollars
from relays.models import SessionAct, SessionCall, SessionTouch
from relays.sessions.ownership import NOT_OWN, Row
from relays.sessions.reading import ActRow, CallRow, TouchRow

T = TypeVar("T")
#: PostgreSQL's advisory lock of everything that writes sessions
LOCK: Final = 7_315_001
CHUNK: Final = 500

_TABLE: Final = SessionCall._meta.db_table
#: columns in the order of `Row` behind its primary key
COLUMNS: Final = (
    "source_id",
    "session_id",
    "key",
    "line",
    "chain",
    "agent_id",
    "model",
    "at",
    "input_tokens",
    "cache_read",
    "cache_write_5m",
    "cache_write_1h",
    "output_tokens",
    "reasoning",
    "lower_bound",
    "window",
    "vector",
    "turn",
    "tools",
    "tool_errors",
    "fill",
    "claimed",
    "reported_cost",
    "resident",
    "copied",
    "shown",
    "counts",
    "cost",
    "price_id",
)
_NAMES: Final = ", ".join(f'"{name}"' for name in COLUMNS)
# names of columns only: every value is a parameter
_INSERT: Final = f'INSERT INTO "{_TABLE}" ({_NAMES}) VALUES ({", ".join(["%s"] * len(COLUMNS))})'  # noqa: S608
_SET: Final = ", ".join(f'"{name}" = %s' for name in COLUMNS)
_UPDATE: Final = f'UPDATE "{_TABLE}" SET {_SET} WHERE id = %s'  # noqa: S608
_SELECT: Final = f'SELECT id, {_NAMES} FROM "{_TABLE}"'  # noqa: S608


@contextmanager
def serialised() -> Iterator[None]:
    """A transaction that no other writer of sessions runs beside: who counts is decided from all rows there are."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        yield


@contextmanager
def hurried() -> Iterator[None]:
    """Transactions in here wait for no disk (SQLite): what a loss of power takes back whole, cursors and all, is read

    again from the files. The first one after it is waited for, and everything before it with it.
    """
    if connection.vendor != "sqlite" or connection.in_atomic_block:
        yield
        return
    with connection.cursor() as cursor:
        before = [int(cursor.execute(f"PRAGMA {name}").fetchone()[0]) for name in _HURRY]
        for name, value in _HURRY.items():
            cursor.execute(f"PRAGMA {name} = {value}")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            for name, known in zip(_HURRY, before, strict=True):
                cursor.execute(f"PRAGMA {name} = {known}")


#: 16 MB of new pages before they are moved to their places
_HURRY: Final = {"synchronous": 1, "wal_autocheckpoint": 4_000}


def chunks(items: Iterable[T], size: int = CHUNK) -> Iterator[list[T]]:
    """The items, at most `size` at a time: databases bound the parameters of a statement."""
    rest = iter(items)
    while chunk := list(islice(rest, size)):
        yield chunk


def marks(count: int) -> str:
    return ", ".join(["%s"] * count)


def moment(text: str) -> datetime | None:
    """The UTC time of a text as rows carry it, None for ""."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None


def read_time(value: object) -> datetime | None:
    """A time as a database gives it, in UTC; SQLite's driver gives a text or a time without its zone."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)


def stamp(value: object) -> str:
    """A time as a database gives it, as the text that rows carry; "" for none."""
    if isinstance(value, datetime):
        return str((value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None))
    return str(value) if value else ""


def _time(text: str) -> str | None:
    if not text:
        return None
    return f"{text}+00" if connection.vendor == "postgresql" else text


def _values(row: Row) -> tuple[Any, ...]:
    money = row.reported_cost
    return (
        row.source,
        row.session,
        row.key,
        row.line,
        row.chain,
        row.agent_id,
        row.model,
        _time(row.at),
        row.input,
        row.cache_read,
        row.cache_write_5m,
        row.cache_write_1h,
        row.output,
        row.reasoning,
        row.lower_bound,
        row.window,
        row.vector,
        row.turn,
        row.tools,
        row.tool_errors,
        row.fill,
        row.claimed,
        None if money is None else f"{money:.10f}",
        row.resident,
        row.copied,
        row.shown,
        row.counts,
        f"{row.cost:.10f}" if isinstance(row.cost, Decimal) else row.cost,
        row.price,
    )


def _row(values: Sequence[Any]) -> Row:
    row = Row(*values)
    row.at = stamp(row.at)
    row.lower_bound, row.shown, row.counts = bool(row.lower_bound), bool(row.shown), bool(row.counts)
    if row.reported_cost is not None:
        row.reported_cost = Decimal(str(row.reported_cost))
    if connection.vendor == "postgresql" and row.fill != "{}":
        row.fill = orjson.dumps(orjson.loads(row.fill), option=orjson.OPT_SORT_KEYS).decode()
    return row


def of_keys(keys: Iterable[str]) -> Iterator[Row]:
    """All rows of these calls, whatever file or session shows them."""
    with connection.cursor() as cursor:
        for chunk in chunks(keys):
            cursor.execute(f'{_SELECT} WHERE "key" IN ({marks(len(chunk))})', chunk)
            for values in cursor.fetchall():
                yield _row(values)


def known(keys: Iterable[str]) -> set[str]:
    """Those of the keys that any row has."""
    found: set[str] = set()
    with connection.cursor() as cursor:
        for chunk in chunks(keys, 2_000 if connection.vendor == "postgresql" else CHUNK):
            cursor.execute(f'SELECT "key" FROM "{_TABLE}" WHERE "key" IN ({marks(len(chunk))})', chunk)  # noqa: S608
            found.update(key for (key,) in cursor.fetchall())
    return found


#: what `insert_new` takes: source, session, the row as it was read, units of its cost, key of the price
New = tuple[int, int, CallRow, int | None, int | None]


def insert_new(news: Iterable[New]) -> None:
    """Rows of calls that no other row tells of: what `ownership.settle` makes of one row alone, without the object."""
    values = _new_postgresql if connection.vendor == "postgresql" else _new_sqlite
    with connection.cursor() as cursor:
        for chunk in chunks(news, 5_000):
            cursor.executemany(_INSERT, list(starmap(values, chunk)))


def _new_sqlite(source: int, session: int, call: CallRow, units: int | None, price: int | None) -> tuple[Any, ...]:
    return (
        source,
        session,
        *call[1:6],
        call[6] or None,
        *call[7:21],
        f"{Decimal(call[21]):.10f}" if call[21] else None,
        call[7] + call[8] + call[9] + call[10] if call[3] == "main" else 0,
        call[20],
        True,
        call[20] not in NOT_OWN,
        None if units is None else units / _UNITS,
        price,
    )


def _new_postgresql(source: int, session: int, call: CallRow, units: int | None, price: int | None) -> tuple[Any, ...]:
    values = list(_new_sqlite(source, session, call, None, price))
    values[_AT] = f"{call.at}+00" if call.at else None
    values[_COST] = None if units is None else dollars(units)
    return tuple(values)


_UNITS: Final = 10**10
_AT: Final = COLUMNS.index("at")
_COST: Final = COLUMNS.index("cost")


def insert(rows: Iterable[Row]) -> None:
    """New rows."""
    with connection.cursor() as cursor:
        for chunk in chunks(rows, 5_000):
            cursor.executemany(_INSERT, [_values(row) for row in chunk])


def update(rows: Iterable[Row]) -> None:
    """Rows that are there, by their primary key."""
    with connection.cursor() as cursor:
        for chunk in chunks(rows, 5_000):
            cursor.executemany(_UPDATE, [(*_values(row), row.pk) for row in chunk])


def write(objects: Iterable[Model], names: Sequence[str]) -> None:
    """These fields of objects that are there, by primary key: what `bulk_update` does, without building its expression

    of every value.
    """
    listed = list(objects)
    if not listed:
        return
    meta = listed[0]._meta
    fields = [cast("Field[Any, Any]", meta.get_field(name)) for name in names]
    assigned = ", ".join(f'"{field.column}" = %s' for field in fields)
    query = f'UPDATE "{meta.db_table}" SET {assigned} WHERE "{meta.pk.column}" = %s'  # noqa: S608
    with connection.cursor() as cursor:
        values = [
            (*(field.get_db_prep_save(getattr(one, field.attname), connection) for field in fields), one.pk)
            for one in listed
        ]
        cursor.executemany(query, values)


_ACT_COLUMNS: Final = "source_id, session_id, kind, ref, line, at, call"
_ACT: Final = (
    f'INSERT INTO "{SessionAct._meta.db_table}" ({_ACT_COLUMNS}) '  # noqa: S608
    f"VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
)


def insert_acts(acts: Iterable[tuple[int, int, ActRow]]) -> None:
    """Durable acts by (source, session, act); one that is known stays as it is."""
    with connection.cursor() as cursor:
        for chunk in chunks(acts, 5_000):
            values = [
                (source, session, act.kind, act.ref, act.line, _time(act.at), act.call)
                for source, session, act in chunk
            ]
            cursor.executemany(_ACT, values)


_TOUCH: Final = (
    f'INSERT INTO "{SessionTouch._meta.db_table}" (source_id, session_id, call, ref, line) '  # noqa: S608
    f"VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
)


def insert_touches(touches: Iterable[tuple[int, int, TouchRow]]) -> None:
    """Files that main calls read or wrote, by (source, session, touch); one that is known stays as it is."""
    with connection.cursor() as cursor:
        for chunk in chunks(touches, 5_000):
            values = [(source, session, touch.call, touch.ref, touch.line) for source, session, touch in chunk]
            cursor.executemany(_TOUCH, values)
