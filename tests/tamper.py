"""What only somebody with the database's own rights can do: change rows of append-only tables.

Tests need it for two things: to show that tampering is seen, and to empty the database between two tests.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

from relays.models import append_only


@contextmanager
def unguarded() -> Iterator[None]:
    """The append-only triggers are off inside the block, for this connection (SQLite: for the whole file)."""
    if connection.vendor == "sqlite":
        append_only.remove(connection)
        try:
            yield
        finally:
            append_only.install(connection)
        return
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
    try:
        yield
    finally:
        with connection.cursor() as cursor:
            cursor.execute("SET session_replication_role = DEFAULT")
