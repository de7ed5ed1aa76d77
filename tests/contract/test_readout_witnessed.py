"""The operator readout of a relay that really ran: every figure recomputed here by another query, and with each kind of
record withheld in turn exactly its line reads `not yet`.

Mission: "If it cannot be produced from witnessed records, the system should say not yet rather than claim continuity."
"""

import hashlib
import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test import Client

from relays.models import Leg, Relay
from relays.reports.status import status
from tests.contract.story import EVERY_RECORD
from tests.driver.course import Course, reviewer
from tests.tamper import unguarded

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
LINES = ("objective", "budget", "resident_view", "assumptions", "reset", "memory", "cache")


@pytest.fixture
def relay(course: Callable[..., Course]) -> Course:
    found = course(**EVERY_RECORD)
    found.step()
    found.step()
    assert len(found.legs) == 2
    return found


def ask(sql: str, *values: object) -> list[tuple]:  # type: ignore[type-arg]
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return list(cursor.fetchall())


def one(sql: str, *values: object):  # type: ignore[no-untyped-def]
    return ask(sql, *values)[0][0]


OF_RELAY = "FROM {table} t JOIN relays_leg l ON l.id = t.leg_id WHERE l.relay_id = %s"


def count(table: str, relay: str, **where: str) -> int:
    extra = "".join(f" AND t.{name} = %s" for name in where)
    sql = f"SELECT COUNT(*) {OF_RELAY.format(table=table)}{extra}"
    return int(one(sql, relay, *where.values()))


def recomputed(relay: str) -> dict[str, str]:
    """The seven lines from the rows themselves: no roll-up, no rule and no report of the product is asked."""
    pin_id, text, digest = ask("SELECT pin_id, objective, objective_digest FROM relays_relay WHERE id = %s", relay)[0]
    assert digest == hashlib.sha256(f"{pin_id}\0{text}".encode()).hexdigest()
    baton = json.loads(one("SELECT text FROM relays_baton WHERE relay_id = %s AND current", relay))
    carried = baton["objective"]
    same = (carried["pin_id"], carried["digest"]) == (pin_id, digest)

    policy = one("SELECT policy FROM relays_relay WHERE id = %s", relay)
    envelope = (json.loads(policy) if isinstance(policy, str) else policy)["envelope"]
    turns = count("relays_event", relay, kind="turn_started")
    output = int(one(f"SELECT SUM(t.output_tokens) {OF_RELAY.format(table='relays_call')}", relay))
    newest, ceiling = ask(
        "SELECT id, ceiling_tokens FROM relays_leg WHERE relay_id = %s AND started_at IS NOT NULL ORDER BY number DESC",
        relay,
    )[0]
    call = ask(
        "SELECT input_tokens, cache_read, cache_write_5m + cache_write_1h FROM relays_call WHERE leg_id = %s AND main "
        "ORDER BY turn DESC, id DESC",
        newest,
    )[0]
    resident = sum(call)
    ran = [leg.charged_until - leg.started_at for leg in Leg.objects.filter(relay=relay)
           if leg.charged_until and leg.started_at]  # fmt: skip
    seconds = int((timedelta(hours=2) - sum(ran, timedelta())).total_seconds())
    hours, rest = divmod(seconds, 3600)
    minutes, second = divmod(rest, 60)
    time = "".join(f"{n}{u}" for n, u in ((hours, "h"), (minutes, "m"), (second, "s")) if n)

    def faults(*outcomes: str) -> int:
        return sum(count("relays_pagefault", relay, outcome=outcome) for outcome in outcomes)

    own = int(one("SELECT COUNT(*) FROM relays_pagefault WHERE leg_id = %s AND outcome = 'page_in'", newest))
    old, new, seed, made_of, omitted = ask(
        "SELECT r.old_trace, r.new_trace, r.seed_digest, r.contributors, r.omitted FROM relays_resettransaction r "
        "JOIN relays_leg l ON l.id = r.new_leg_id WHERE l.relay_id = %s ORDER BY r.id DESC",
        relay,
    )[0]
    parts = ask(
        "SELECT contributors FROM relays_resettransaction r WHERE r.new_leg_id = %s", newest
    )[0][0]  # fmt: skip
    parts, omitted = (json.loads(part) if isinstance(part, str) else part for part in (parts, omitted))

    def named(table: str, column: str, *values: str) -> int:
        return sum(count(table, relay, **{column: value}) for value in values)

    return {
        "objective": "preserved" if same else "drifted",
        "budget": f"turns={envelope['turns'] - turns} tokens={envelope['output_tokens'] - output} "
        f"context={ceiling - resident} queries={envelope['queries']} time={time}",
        "resident_view": f"selected={len(parts) + own} elided={turns} "
        f"page_faults={faults('page_in')}/{faults('deny', 'query_user')}",
        "assumptions": " ".join(f"{word}={named('relays_assumption', 'action', word)}"
                                for word in ("use", "query", "refresh")),
        "reset": f"old_trace={old} new_trace={new} seed_digest={seed} "
        f"omitted={sum(span['count'] for span in omitted)}",
        "memory": f"promoted={named('relays_promotion', 'outcome', 'promoted')} "
        f"refused_or_expired={named('relays_promotion', 'outcome', 'refused', 'expired')} "
        f"ambiguous={named('relays_promotion', 'outcome', 'ambiguous')}",
        "cache": f"{'warm' if call[1] * 2 >= resident else 'cold'} (cost only)",
    }  # fmt: skip


def test_every_figure_is_recomputed_by_an_independent_query(relay: Course) -> None:
    shown = status(relay.pk)["readout"]
    assert shown == recomputed(relay.pk)
    assert shown["assumptions"] == "use=2 query=2 refresh=1"
    assert shown["memory"] == "promoted=1 refused_or_expired=2 ambiguous=1"
    assert shown["resident_view"].endswith("page_faults=3/0")
    assert shown["cache"] == "warm (cost only)"
    assert shown["budget"].startswith("turns=47 tokens=4940 ")
    assert "not yet" not in shown.values()


#: the kind of record that a line rests on, taken away
WITHHELD = {
    "objective": [
        "DELETE FROM relays_verification WHERE relay_id = %s",
        "DELETE FROM relays_baton WHERE relay_id = %s",
        "UPDATE relays_relay SET pin_id = '', objective = '', objective_digest = '' WHERE id = %s",
    ],
    "budget": ["UPDATE relays_relay SET policy = '{\"damaged\": 1}' WHERE id = %s"],
    "resident_view": ["UPDATE relays_leg SET started_at = NULL WHERE relay_id = %s"],
    "assumptions": ["DELETE FROM relays_assumption WHERE leg_id IN (SELECT id FROM relays_leg WHERE relay_id = %s)"],
    "reset": [
        "DELETE FROM relays_resettransaction WHERE old_leg_id IN (SELECT id FROM relays_leg WHERE relay_id = %s)"
    ],
    "memory": ["DELETE FROM relays_promotion WHERE leg_id IN (SELECT id FROM relays_leg WHERE relay_id = %s)"],
    "cache": ["DELETE FROM relays_call WHERE leg_id IN (SELECT id FROM relays_leg WHERE relay_id = %s)"],
}


def test_with_each_kind_of_record_withheld_exactly_its_line_reads_not_yet(relay: Course) -> None:
    assert tuple(WITHHELD) == LINES
    viewer = Client()
    viewer.force_login(reviewer().user)
    found = {}
    for line, statements in WITHHELD.items():
        with transaction.atomic():
            with unguarded(), connection.cursor() as cursor:
                if line == "objective":
                    cursor.execute("DELETE FROM relays_check WHERE verification_id IN "
                                   "(SELECT id FROM relays_verification WHERE relay_id = %s)", [relay.pk])  # fmt: skip
                for sql in statements:
                    cursor.execute(sql, [relay.pk])
            shown = status(relay.pk)["readout"]
            text = viewer.get(f"/relays/{relay.pk}/?format=text").content.decode()
            assert text == "".join(f"{key}: {value}\n" for key, value in shown.items())
            found[line] = [key for key, value in shown.items() if value == "not yet"]
            transaction.set_rollback(True)
    assert found == {line: [line] for line in LINES}
    assert status(relay.pk)["readout"] == recomputed(relay.pk), "nothing was taken away for good"


def test_a_view_that_elides_without_a_handle_is_not_claimed(relay: Course) -> None:
    """ "a plan that elides a span without an id or digest is refused"."""
    viewer = Client()
    viewer.force_login(reviewer().user)
    Leg.objects.filter(relay=relay.pk).update(turns_digest="")
    assert status(relay.pk)["readout"]["resident_view"] == recomputed(relay.pk)["resident_view"], "its rotations tell"
    with unguarded(), connection.cursor() as cursor:
        for sql in WITHHELD["reset"]:
            cursor.execute(sql, [relay.pk])
    assert status(relay.pk)["readout"]["resident_view"] == "not yet"
    page = viewer.get(f"/relays/{relay.pk}/?tab=evidence&of=view").content.decode()
    assert "elided without a digest" in page


def test_each_line_links_to_its_records(relay: Course) -> None:
    viewer = Client()
    viewer.force_login(reviewer().user)
    page = viewer.get(f"/relays/{relay.pk}/").content.decode()
    says = {
        "objective": "preserved", "budget": "output tokens", "view": "elided", "faults": "file:a.txt",
        "assumptions": "moon is so", "resets": "preamble, objective_pin, baton", "memory": "unclassified",
        "cache": "5,000",
    }  # fmt: skip
    for kind, words in says.items():
        assert kind == "faults" or f"?tab=evidence&amp;of={kind}#records" in page
        records = viewer.get(f"/relays/{relay.pk}/?tab=evidence&of={kind}").content.decode()
        assert words in records.partition('id="records"')[2], kind


def test_before_anything_ran_nothing_is_claimed(course: Callable[..., Course]) -> None:
    found = course(**EVERY_RECORD)
    shown = status(found.pk)["readout"]
    assert [line for line, value in shown.items() if value == "not yet"] == [
        "resident_view", "assumptions", "reset", "memory", "cache",
    ]  # fmt: skip
    assert shown["objective"] == "established"
    assert Relay.objects.get(pk=found.pk).turns_used == 0
