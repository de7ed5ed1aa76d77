"""architecture.md, Tables that matter: "Append-only tables refuse UPDATE and DELETE in the database too"."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, models, transaction
from django.utils import timezone

from relays.actions import base
from relays.models import Baton, Decision, LedgerRow, PolicyVersion, ResetTransaction, Tombstone, append_only
from tests.actions.acts import People
from tests.report_builders import Story
from tests.tamper import unguarded

pytestmark = pytest.mark.django_db

TABLES: tuple[type[models.Model], ...] = (
    Decision,
    LedgerRow,
    Tombstone,
    ResetTransaction,
    Baton,
    PolicyVersion,
)
#: a column of each and another value for it
OTHER = {
    Decision: ("comment", "something else"),
    LedgerRow: ("note", "something else"),
    Tombstone: ("reason", "RELAY_GOAL_DONE"),
    ResetTransaction: ("seed_digest", "f" * 64),
    Baton: ("text", "{}"),
    PolicyVersion: ("text", "[relay]\n"),
}


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = Story(tmp_path / "repo", issues=3)
    told.leg(turns=2)
    told.leg(turns=2)
    base.record(People.made().operator, "park", now=timezone.now(), relay=told.relay, comment="why")
    version(1)
    return told


def version(number: int) -> None:
    PolicyVersion.objects.create(
        name="nightly", number=number, text="[relay]\nceiling = 0.8\n", table={"ceiling": 0.8}, digest="a" * 64,
        made_by=Decision.objects.get(seq=1).actor, at=timezone.now(),
    )  # fmt: skip


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(DatabaseError) as refusal, transaction.atomic():
        act()
    return str(refusal.value)


def settle(cursor: Any) -> None:
    """PostgreSQL changes no table whose foreign keys are still to be checked at the end of this transaction."""
    if connection.vendor == "postgresql":
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.mark.parametrize("table", TABLES)
def test_a_row_is_neither_changed_nor_deleted(story: Story, table: type[models.Model]) -> None:
    before = list(table._default_manager.order_by("pk").values())
    assert before
    name, value = OTHER[table]
    for act in (
        lambda: table._default_manager.filter(pk=before[0]["id"]).update(**{name: value}),
        lambda: table._default_manager.all().update(**{name: value}),
        lambda: table._default_manager.order_by("pk")[0].delete(),
        lambda: table._default_manager.order_by("pk")._raw_delete(connection.alias),
        lambda: table._default_manager.order_by("pk")[0].save(),
    ):
        said = refused(act)
        assert f"{table._meta.db_table} is append-only" in said
        assert "write a new row instead" in said
    assert list(table._default_manager.order_by("pk").values()) == before


def test_of_a_baton_only_which_one_is_current_changes(story: Story) -> None:
    row = Baton.objects.get(relay=story.relay, current=True)
    assert Baton.objects.filter(pk=row.pk).update(current=False) == 1
    for name, value in (("digest", "f" * 64), ("pin_digest", "f" * 64), ("size", 1), ("why", "x"), ("at", row.at)):
        assert "append-only" in refused(lambda n=name, v=value: Baton.objects.filter(pk=row.pk).update(**{n: v}))  # type: ignore[misc]


def test_a_relay_with_records_cannot_be_deleted_around_them(story: Story) -> None:
    assert refused(lambda: story.legs[0].delete())
    assert refused(lambda: story.relay.delete())
    with connection.cursor() as cursor:
        refused(lambda: cursor.execute("DELETE FROM relays_tombstone"))
    assert Tombstone.objects.count() == 2


@pytest.mark.parametrize("table", TABLES)
def test_whoever_speaks_to_the_database_itself_is_refused_too(story: Story, table: type[models.Model]) -> None:
    name = table._meta.db_table
    before = list(table._default_manager.order_by("pk").values())
    columns = ", ".join(connection.ops.quote_name(field.column) for field in table._meta.concrete_fields)
    statements = [f"DELETE FROM {name}", f"DELETE FROM {name} WHERE 1 = 1"]
    if connection.vendor == "sqlite":
        # each of these deletes the old row first, without asking a DELETE trigger
        statements += [
            f"INSERT OR REPLACE INTO {name} ({columns}) SELECT {columns} FROM {name}",
            f"REPLACE INTO {name} ({columns}) SELECT {columns} FROM {name}",
        ]
    else:
        statements += [f"TRUNCATE {name} CASCADE"]
    with connection.cursor() as cursor:
        settle(cursor)
        for statement in statements:
            assert "append-only" in refused(lambda text=statement: cursor.execute(text))  # type: ignore[misc]
    assert list(table._default_manager.order_by("pk").values()) == before


@pytest.mark.skipif(connection.vendor != "sqlite", reason="REPLACE is SQLite's alone")
def test_replace_by_another_unique_column_is_refused(story: Story) -> None:
    with connection.cursor() as cursor:
        for table, unique in (
            (Decision, "seq"),
            (Decision, "digest"),
            (Tombstone, "leg_id"),
            (ResetTransaction, "old_leg_id"),
        ):
            name = table._meta.db_table
            values = [
                "99999"
                if field.column == "id"
                else field.column
                if field.column == unique or not field.unique
                else "'777'"
                for field in table._meta.concrete_fields
            ]
            columns = ", ".join(field.column for field in table._meta.concrete_fields)
            text = f"INSERT OR REPLACE INTO {name} ({columns}) SELECT {', '.join(values)} FROM {name} LIMIT 1"
            assert "append-only" in refused(lambda t=text: cursor.execute(t)), (name, unique)  # type: ignore[misc]


def test_new_rows_are_written_as_ever(story: Story) -> None:
    counts = [table._default_manager.count() for table in TABLES]
    story.leg(turns=1)
    version(2)
    base.record(People(*[base.Actor(Decision.objects.get(seq=1).actor)] * 5).operator, "resume", now=timezone.now())
    assert [table._default_manager.count() for table in TABLES] == [count + 1 for count in counts]


def test_two_current_batons_of_one_relay_are_still_refused(story: Story) -> None:
    row = Baton.objects.get(relay=story.relay, current=True)
    row.pk = None
    with pytest.raises(IntegrityError), transaction.atomic():
        row.save(force_insert=True)


def test_every_trigger_is_in_place_after_all_migrations(story: Story) -> None:
    """A later migration that makes one of the tables anew on SQLite would drop its triggers: it must install again."""
    assert append_only.missing(connection) == ()


def test_what_is_missing_is_named(story: Story) -> None:
    on = " ON relays_decision" if connection.vendor == "postgresql" else ""
    with connection.cursor() as cursor:
        settle(cursor)
        cursor.execute(f"DROP TRIGGER relays_decision_no_delete{on}")
    assert append_only.missing(connection) == ("relays_decision_no_delete",)
    append_only.install(connection)
    assert append_only.missing(connection) == ()


def test_the_migration_goes_back_and_forth(story: Story) -> None:
    with connection.cursor() as cursor:
        settle(cursor)
    append_only.remove(connection)
    assert len(append_only.missing(connection)) == 3 * len(TABLES)
    Decision.objects.update(comment="changed while nothing watched")
    append_only.install(connection)
    assert append_only.missing(connection) == ()
    assert "append-only" in refused(lambda: Decision.objects.update(comment="again"))


def test_the_tests_own_way_around_closes_behind_itself(story: Story) -> None:
    with unguarded():
        Decision.objects.update(comment="tampered")
    assert "append-only" in refused(lambda: Decision.objects.update(comment="again"))
    assert Decision.objects.get(seq=1).comment == "tampered"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("time", ["first", "second"])
def test_a_transactional_test_leaves_an_empty_database(tmp_path: Path, time: str) -> None:
    assert not any(table._default_manager.exists() for table in TABLES)
    told = Story(tmp_path / "repo", issues=3)
    told.leg(turns=2)
    told.leg(turns=2)
    base.record(base.Actor(told.relay.owner), "park", now=timezone.now(), relay=told.relay)
    version(1)
    assert all(table._default_manager.exists() for table in TABLES)
