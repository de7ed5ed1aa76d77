"""`audit verify`: interface.md, Shapes: `{"rows", "ok", "first_bad"}`; architecture.md: append-only, hash-chained."""

from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone

from relays.actions import base
from relays.models import Baton, Decision, GateState
from tests.actions.acts import People
from tests.management.conftest import Cli
from tests.report_builders import Story
from tests.tamper import unguarded
from tests.web_builders import make_gate, make_relay

pytestmark = pytest.mark.django_db


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """A relay that somebody started, with five decisions in all."""
    told = Story(tmp_path / "repo", issues=3)
    told.leg(turns=2)
    people = People.made()
    base.record(people.operator, "start", now=timezone.now(), relay=told.relay, detail={"n": 0.5, "é": ["x", None]})
    for act in ("park", "resume", "park", "resume"):
        base.record(people.operator, act, now=timezone.now(), relay=told.relay, comment=f"{act}, ünïcode \u2028")
    return told


def test_a_chain_that_holds_is_exit_0(cli: Cli, story: Story) -> None:
    done = cli("audit", "verify", "--json")
    assert (done.code, done.err) == (0, "")
    assert (done.json["rows"], done.json["ok"], done.json["first_bad"]) == (5, True, None)
    assert done.json["head"] == Decision.objects.get(seq=5).digest
    assert cli("audit", "verify").out.decode().startswith("5 decisions: the chain holds\n")


def test_no_decision_yet_is_a_chain_of_none(cli: Cli, db: None) -> None:
    done = cli("audit", "verify", "--json")
    assert (done.code, done.json["rows"], done.json["ok"], done.json["first_bad"]) == (0, 0, True, None)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("comment", "never said"),
        ("act", "stop"),
        ("os_user", "root"),
        ("seen", "f" * 64),
        ("detail", {"x": 1}),
        ("previous", "e" * 64),
        ("digest", "d" * 64),
        ("relay", None),
    ],
)
def test_a_changed_row_is_named(cli: Cli, story: Story, field: str, value: object) -> None:
    with unguarded():
        Decision.objects.filter(seq=3).update(**{field: value})
    done = cli("audit", "verify", "--json")
    assert (done.code, done.json["rows"], done.json["ok"], done.json["first_bad"]) == (4, 5, False, 3)
    assert "decision 3" in done.json["why"][0]
    assert "decision 3" in cli("audit", "verify").out.decode()


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL's columns take no value of another type")
@pytest.mark.parametrize(
    "change",
    ["at = 'garbage'", "comment = x'ff00fe'", "seen = x''", "relay_id = x'00'", "os_user = cast(x'ff' as text)"],
)
def test_a_value_of_another_type_is_a_change_and_no_failure(cli: Cli, story: Story, change: str) -> None:
    with unguarded(), connection.cursor() as cursor:
        cursor.execute("PRAGMA defer_foreign_keys = ON")
        cursor.execute(f"UPDATE relays_decision SET {change} WHERE seq = 3")  # noqa: S608 - literals of this test
    try:
        done = cli("audit", "verify", "--json")
        assert (done.code, done.json["rows"], done.json["first_bad"]) == (4, 5, 3), done.err
        assert "decision 3 was changed" in done.json["why"][0]
    finally:
        with unguarded(), connection.cursor() as cursor:
            cursor.execute("DELETE FROM relays_decision WHERE seq = 3")  # or the test's own end stumbles over it


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL takes no text that is not in its encoding")
def test_a_baton_that_is_no_text_any_more_is_a_change_and_no_failure(cli: Cli, story: Story) -> None:
    pk, before = Baton.objects.values_list("pk", "text").get()
    with unguarded(), connection.cursor() as cursor:
        cursor.execute("UPDATE relays_baton SET text = CAST(x'ff' AS TEXT) WHERE id = %s", [pk])
    try:
        done = cli("audit", "verify", "--json")
        assert (done.code, done.json["ok"], done.json["first_bad"]) == (4, False, None), done.err
        assert done.json["why"] == [f"baton {pk} of {story.relay.pk} leg 0 was changed: its text has another digest"]
    finally:
        with unguarded():
            Baton.objects.filter(pk=pk).update(text=before)  # or the test's own end stumbles over it


def test_a_row_with_a_digest_of_its_own_breaks_at_its_successor(cli: Cli, story: Story) -> None:
    row = Decision.objects.get(seq=2)
    row.comment = "never said"
    with unguarded():
        Decision.objects.filter(seq=2).update(comment=row.comment, digest=base.chain_digest(row))
    assert cli("audit", "verify", "--json").json["first_bad"] == 3


@pytest.mark.parametrize("gone", [1, 3, 4])
def test_a_gap_is_the_number_that_is_missing(cli: Cli, story: Story, gone: int) -> None:
    with unguarded():
        Decision.objects.filter(seq=gone).delete()
    done = cli("audit", "verify", "--json")
    assert (done.code, done.json["rows"], done.json["first_bad"]) == (4, 4, gone)
    assert "missing" in done.json["why"][0]


def test_a_row_put_at_the_end_by_hand_is_seen(cli: Cli, story: Story) -> None:
    row = Decision.objects.get(seq=5)
    row.pk, row.seq, row.act, row.digest = None, 6, "stop", "a" * 64
    row.save(force_insert=True)
    assert cli("audit", "verify", "--json").json["first_bad"] == 6


def test_an_end_that_was_cut_off_is_seen_where_a_record_needs_it(cli: Cli, story: Story) -> None:
    base.record(base.Actor(story.relay.owner), "start", now=timezone.now(), relay=(other := make_relay()))
    assert cli("audit", "verify", "--json").json["ok"] is True
    with unguarded():
        Decision.objects.filter(seq=6).delete()
    done = cli("audit", "verify", "--json")
    assert (done.code, done.json["rows"], done.json["first_bad"]) == (4, 5, 6)
    assert other.pk in done.json["why"][0]


def test_a_decided_gate_without_its_decision_is_seen(cli: Cli, story: Story) -> None:
    make_gate(story.relay, state=GateState.WAITING)
    assert cli("audit", "verify", "--json").json["ok"] is True
    gate = make_gate(story.relay, "OBJECTIVE_DRIFT", state=GateState.REFUSED)
    done = cli("audit", "verify", "--json")
    assert (done.json["ok"], done.json["first_bad"]) == (False, 6)
    assert f"gate {gate.pk}" in done.json["why"][0]


def test_a_changed_baton_is_seen_though_every_decision_stands(cli: Cli, story: Story) -> None:
    with unguarded():
        Baton.objects.filter(relay=story.relay).update(text="{}")
    done = cli("audit", "verify", "--json")
    assert (done.code, done.json["ok"], done.json["first_bad"]) == (4, False, None)
    assert "baton" in done.json["why"][0]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL's columns take no value of another type")
def test_a_baton_whose_text_is_no_text_was_changed(cli: Cli, story: Story) -> None:
    with unguarded(), connection.cursor() as cursor:
        cursor.execute("UPDATE relays_baton SET text = x'00ff'")
    done = cli("audit", "verify", "--json")
    assert (done.code, done.json["ok"], done.json["first_bad"]) == (4, False, None), done.err
    assert "baton" in done.json["why"][0]


def test_a_database_that_would_let_rows_change_is_not_called_fine(cli: Cli, story: Story) -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            cursor.execute("DROP TRIGGER relays_decision_no_update ON relays_decision")
        else:
            cursor.execute("DROP TRIGGER relays_decision_no_update")
    done = cli("audit", "verify", "--json")
    assert (done.code, done.json["ok"], done.json["first_bad"]) == (4, False, None)
    assert "relays_decision_no_update" in done.json["why"][0]


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL's triggers call one function of ours")
def test_a_trigger_of_the_same_name_that_refuses_nothing_is_seen(cli: Cli, story: Story) -> None:
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER relays_ledgerrow_no_delete")
        cursor.execute(
            "CREATE TRIGGER relays_ledgerrow_no_delete BEFORE DELETE ON relays_ledgerrow BEGIN SELECT 1; END"
        )
    done = cli("audit", "verify", "--json")
    assert (done.code, done.json["ok"]) == (4, False)
    assert "relays_ledgerrow_no_delete" in done.json["why"][0]


def test_it_reads_many_rows_in_few_queries(cli: Cli, story: Story, django_assert_max_num_queries: object) -> None:
    for _ in range(60):
        base.record(base.Actor(story.relay.owner), "park", now=timezone.now(), relay=story.relay)
    with django_assert_max_num_queries(8):  # type: ignore[operator]
        assert cli("audit", "verify", "--json").json["rows"] == 65


def test_the_verb_has_one_act(cli: Cli, db: None) -> None:
    for arguments in ((), ("mend",), ("verify", "now")):
        done = cli("audit", *arguments)
        assert done.code == 2 and "audit" in done.line
