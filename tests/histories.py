"""Every change of a relay, a leg and a gate, as the database itself saw it: whoever wrote it, and however.

states.md: "The legal changes, whole … A change that is not here is a bug." Triggers record them, so that neither a raw
update nor another process escapes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from relays.core import lifecycle

#: kind -> (table, the column of its state, the table of its legal changes)
WATCHED = {
    "relay": ("relays_relay", "status", lifecycle.RELAY),
    "leg": ("relays_leg", "state", lifecycle.LEG),
    "gate": ("relays_gateepisode", "state", lifecycle.GATE),
}
Change = tuple[str, str, str, str]  # kind, key, from, to

SQLITE = [
    "CREATE TABLE test_history (n INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT, key TEXT, was TEXT, became TEXT)",
    *(
        statement
        for kind, (table, column, _) in WATCHED.items()
        for statement in (
            f"CREATE TRIGGER test_history_{kind}_new AFTER INSERT ON {table} BEGIN INSERT INTO test_history"
            f" (kind, key, was, became) VALUES ('{kind}', NEW.id, 'new', NEW.{column}); END",
            f"CREATE TRIGGER test_history_{kind} AFTER UPDATE ON {table} WHEN OLD.{column} <> NEW.{column} BEGIN"
            f" INSERT INTO test_history (kind, key, was, became)"
            f" VALUES ('{kind}', NEW.id, OLD.{column}, NEW.{column}); END",
        )
    ),
]
SQLITE_OFF = [
    *(f"DROP TRIGGER test_history_{kind}{end}" for kind in WATCHED for end in ("", "_new")),
    "DROP TABLE test_history",
]

POSTGRESQL = [
    "CREATE TABLE test_history (n SERIAL PRIMARY KEY, kind TEXT, key TEXT, was TEXT, became TEXT)",
    *(
        statement
        for kind, (table, column, _) in WATCHED.items()
        for statement in (
            f"CREATE FUNCTION test_history_{kind}() RETURNS trigger AS $$ BEGIN"
            f" IF TG_OP = 'INSERT' THEN INSERT INTO test_history (kind, key, was, became)"
            f" VALUES ('{kind}', NEW.id::text, 'new', NEW.{column});"
            f" ELSIF OLD.{column} <> NEW.{column} THEN INSERT INTO test_history (kind, key, was, became)"
            f" VALUES ('{kind}', NEW.id::text, OLD.{column}, NEW.{column}); END IF;"
            f" RETURN NEW; END $$ LANGUAGE plpgsql",
            f"CREATE TRIGGER test_history_{kind} AFTER INSERT OR UPDATE ON {table}"
            f" FOR EACH ROW EXECUTE FUNCTION test_history_{kind}()",
        )
    ),
]
POSTGRESQL_OFF = [
    *(f"DROP TRIGGER test_history_{kind} ON {table}" for kind, (table, _, _) in WATCHED.items()),
    *(f"DROP FUNCTION test_history_{kind}()" for kind in WATCHED),
    "DROP TABLE test_history",
]

READ = "SELECT kind, key, was, became FROM test_history ORDER BY n"


@contextmanager
def recorded(connection: Any) -> Iterator[Callable[[], list[Change]]]:
    """Record on this connection's database; calling what is given returns all changes so far, in their order."""
    sqlite = connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        for statement in SQLITE if sqlite else POSTGRESQL:
            cursor.execute(statement)

    def changes() -> list[Change]:
        with connection.cursor() as cursor:
            cursor.execute(READ)
            return [tuple(row) for row in cursor.fetchall()]

    try:
        yield changes
    finally:
        with connection.cursor() as cursor:
            for statement in SQLITE_OFF if sqlite else POSTGRESQL_OFF:
                cursor.execute(statement)


def illegal(changes: Sequence[Change]) -> list[Change]:
    """The changes that the tables of states.md do not have."""
    return [one for one in changes if not lifecycle.may_change(WATCHED[one[0]][2], one[2], one[3])]
