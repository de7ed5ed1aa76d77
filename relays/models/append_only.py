"""Which tables refuse change in the database itself, whoever writes: the triggers, for SQLite and PostgreSQL.

architecture.md: "Append-only tables refuse UPDATE and DELETE in the database too (triggers on SQLite and PostgreSQL)."
A migration that makes one of these tables anew (SQLite does so for most changes) must call `install` afterwards.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper


@dataclass(frozen=True, slots=True)
class Guarded:
    """One table. `frozen`: the columns that stay as they were written, () = all of them. `once`: what names a row

    uniquely, as conditions on the old row and `NEW`: `INSERT OR REPLACE` of SQLite deletes such a row unasked.
    """

    table: str
    frozen: tuple[str, ...]
    once: tuple[str, ...]


TABLES: tuple[Guarded, ...] = (
    Guarded("relays_decision", (), ("id = NEW.id", "seq = NEW.seq", "digest = NEW.digest")),
    Guarded("relays_ledgerrow", (), ("id = NEW.id",)),
    Guarded("relays_tombstone", (), ("id = NEW.id", "leg_id = NEW.leg_id")),
    Guarded(
        "relays_resettransaction",
        (),
        ("id = NEW.id", "old_leg_id = NEW.old_leg_id", "new_leg_id = NEW.new_leg_id"),
    ),
    # of a baton only `current` changes: which one of a relay's the next leg starts from
    Guarded(
        "relays_baton",
        ("id", "relay_id", "leg_id", "text", "digest", "pin_digest", "size", "why", "at"),
        ("id = NEW.id", "(current AND NEW.current AND relay_id = NEW.relay_id)"),
    ),
    Guarded("relays_policyversion", (), ("id = NEW.id", "(name = NEW.name AND number = NEW.number)")),
)
FUNCTION = "relays_append_only"


def install(connection: BaseDatabaseWrapper) -> None:
    """Put every trigger in place; one that is there is replaced. A table that a later migration makes is left out."""
    remove(connection)
    with connection.cursor() as cursor:
        for statement in _create(connection.vendor, _there(connection)):
            cursor.execute(statement)


def _there(connection: BaseDatabaseWrapper) -> tuple[Guarded, ...]:
    """Those of our tables that this database has."""
    tables = set(connection.introspection.table_names())
    return tuple(one for one in TABLES if one.table in tables)


def remove(connection: BaseDatabaseWrapper) -> None:
    """Take the triggers away: before a migration that moves rows of these tables, and when 0005 is taken back."""
    with connection.cursor() as cursor:
        for statement in _drop(connection.vendor, _there(connection)):
            cursor.execute(statement)


def missing(connection: BaseDatabaseWrapper) -> tuple[str, ...]:
    """The triggers that this database lacks or has switched off, by name; none when every table is guarded.

    On SQLite also those that say something else than ours: one of the same name that lets everything pass.
    """
    wanted = [name for one in TABLES for name in _names(one, connection.vendor)]
    sqlite = connection.vendor == "sqlite"
    sql = (
        "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        if sqlite
        else "SELECT tgname, '' FROM pg_trigger WHERE NOT tgisinternal AND tgenabled IN ('O', 'A')"
    )
    ours = {statement.split()[2]: statement for statement in _create(connection.vendor)} if sqlite else {}
    with connection.cursor() as cursor:
        cursor.execute(sql)
        there = {str(name) for name, said in cursor.fetchall() if not sqlite or said == ours.get(str(name))}
    return tuple(name for name in wanted if name not in there)


def _names(one: Guarded, vendor: str) -> tuple[str, ...]:
    acts = ("update", "delete", "replace") if vendor == "sqlite" else ("update", "delete", "truncate")
    return tuple(f"{one.table}_no_{act}" for act in acts)


def _said(one: Guarded, act: str) -> str:
    return f"{one.table} is append-only: {act} is refused; write a new row instead"


def _create(vendor: str, tables: Sequence[Guarded] = TABLES) -> Iterator[str]:
    if vendor not in ("sqlite", "postgresql"):
        raise NotImplementedError(f"no append-only triggers are known for {vendor}; use SQLite or PostgreSQL")
    if vendor == "postgresql":
        yield (
            f"CREATE OR REPLACE FUNCTION {FUNCTION}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION '% is append-only: % is refused; write a new row instead', TG_TABLE_NAME, TG_OP"
            " USING ERRCODE = 'restrict_violation'; END $$"
        )
    for one in tables:
        columns = f" OF {', '.join(one.frozen)}" if one.frozen else ""
        update, delete, third = _names(one, vendor)
        if vendor == "postgresql":
            calls = f"FOR EACH STATEMENT EXECUTE FUNCTION {FUNCTION}()"
            each = calls.replace("STATEMENT", "ROW")
            yield f"CREATE TRIGGER {update} BEFORE UPDATE{columns} ON {one.table} {each}"
            yield f"CREATE TRIGGER {delete} BEFORE DELETE ON {one.table} {each}"
            yield f"CREATE TRIGGER {third} BEFORE TRUNCATE ON {one.table} {calls}"
        else:
            over = "BEGIN SELECT RAISE(ABORT, '{}'); END"
            there = " OR ".join(one.once)
            yield f"CREATE TRIGGER {update} BEFORE UPDATE{columns} ON {one.table} {over.format(_said(one, 'UPDATE'))}"
            yield f"CREATE TRIGGER {delete} BEFORE DELETE ON {one.table} {over.format(_said(one, 'DELETE'))}"
            old = f"EXISTS (SELECT 1 FROM {one.table} WHERE {there})"  # noqa: S608 - names of this module alone
            yield f"CREATE TRIGGER {third} BEFORE INSERT ON {one.table} WHEN {old} {over.format(_said(one, 'REPLACE'))}"


def _drop(vendor: str, tables: Sequence[Guarded]) -> Iterator[str]:
    for one in tables:
        for name in _names(one, vendor):
            yield f"DROP TRIGGER IF EXISTS {name}" + (f" ON {one.table}" if vendor == "postgresql" else "")
    if vendor == "postgresql":
        yield f"DROP FUNCTION IF EXISTS {FUNCTION}()"
