"""`/decisions/`: the audit to filter, page, verify and take away; the same rows and verdict as the command line."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from relays.actions import audit as acting
from relays.actions import base
from relays.actions.base import Actor, NotLegalNow
from relays.models import AuditRun, Decision, Relay
from relays.reports import audit
from tests.reading import marked
from tests.tamper import unguarded
from tests.web_builders import make_gate, make_relay, make_user

pytestmark = pytest.mark.django_db
Clients = Callable[..., Client]


@pytest.fixture
def pat() -> Actor:
    return Actor(make_user("pat", "operator"), "unix-pat")


@pytest.fixture
def relays(pat: Actor) -> tuple[Relay, Relay]:
    """Two relays that were started, five decisions in all, over three days."""
    two = make_relay(owner=pat.user), make_relay(owner=pat.user)
    rae = Actor(make_user("rae", "reviewer"))
    for day, (who, act, relay, comment) in enumerate(
        [
            (pat, "start", two[0], ""),
            (pat, "start", two[1], ""),
            (rae, "park", two[0], "<b>why</b>"),
            (rae, "resume", two[0], "=1+1"),
            (pat, "park", two[1], "x" * 600),
        ]
    ):
        at = datetime(2026, 11, 1 + day // 2, 12, tzinfo=UTC)
        base.record(who, act, now=at, relay=relay, comment=comment, detail={"will": "drain", "policy": {"a": 1}})
    return two


def page(client: Client, **query: object) -> str:
    answer = client.get(reverse("decisions"), query)
    assert answer.status_code == 200, answer.content
    return marked(answer)


def shown(text: str) -> list[int]:
    return [int(n) for n in re.findall(r'<tr id="d-(\d+)"', text)]


def test_who_may_read_and_verify(client: Client, client_of: Clients, relays: object) -> None:
    assert client.get(reverse("decisions")).status_code == 302
    for roles in (("operator",), ("reviewer",), ("manager",), ("admin",)):
        reader = client_of(*roles)
        assert shown(page(reader)) == [5, 4, 3, 2, 1]
        assert reader.post(reverse("decisions_verify")).status_code == 303
    nobody = client_of()
    assert nobody.get(reverse("decisions")).status_code == 403
    for query in ({"format": "csv"}, {"format": "jsonl"}, {"part": "list"}, {"part": "audit"}):
        assert nobody.get(reverse("decisions"), query).status_code == 403
    assert nobody.post(reverse("decisions_verify")).status_code == 403
    assert client_of("manager").get(reverse("decisions_verify")).status_code == 405


def test_an_empty_audit_says_what_makes_the_first_row(client_of: Clients) -> None:
    text = page(client_of("manager"))
    assert "Nothing was decided yet" in text and "not yet" in text
    assert "No decision matches" not in text


def test_filters(client_of: Clients, relays: tuple[Relay, Relay]) -> None:
    manager = client_of("manager")
    for query, wanted in (
        ({"relay": relays[0].pk}, [4, 3, 1]),
        ({"relay": relays[0].pk[-9:].lower()}, [4, 3, 1]),
        ({"actor": "rae"}, [4, 3]),
        ({"act": "park"}, [5, 3]),
        ({"since": "2026-11-02"}, [5, 4, 3]),
        ({"until": "2026-11-01"}, [2, 1]),
        ({"since": "2026-11-02", "until": "2026-11-02"}, [4, 3]),
        ({"actor": "pat", "act": "park", "relay": relays[1].pk}, [5]),
        ({"actor": "nobody"}, []),
    ):
        text = page(manager, **query)
        assert shown(text) == wanted, query
        assert ("No decision matches" in text) is (not wanted)
    # the filter stays in the addresses of the export and in the form
    text = page(manager, actor="rae", since="2026-11-02")
    assert "?actor=rae&amp;since=2026-11-02&amp;format=csv" in text
    assert "<option selected>rae</option>" in text and 'value="2026-11-02"' in text


@pytest.mark.parametrize("day", ["2026-13-45", "yesterday", "2026-11-02T00:00", "9999-12-31", "0001-01-01"])
def test_a_day_that_is_none_is_said_and_not_dropped_in_silence(client_of: Clients, relays: object, day: str) -> None:
    manager = client_of("manager")
    text = page(manager, since=day)
    assert "A filter was left out" in text and "write it as 2026-11-30" in text
    # an export has no place to say it
    assert manager.get(reverse("decisions"), {"since": day, "format": "csv"}).status_code == 400


def test_text_of_people_is_text_and_the_whole_of_it_is_there(client_of: Clients, relays: object) -> None:
    text = page(client_of("manager"))
    assert escape("<b>why</b>") in text and "<b>why</b>" not in text
    assert text.count("x" * 240) >= 2 and "x" * 600 in text
    row = Decision.objects.get(seq=5)
    for words in ("unix-pat", row.digest, escape(json.dumps("drain")), "will"):
        assert words in text


def test_pages_go_through_all_rows_once_and_back(client_of: Clients, pat: Actor) -> None:
    for n in range(120):
        base.record(pat, "park", now=timezone.now(), comment=str(n))
    manager, seen = client_of("manager"), []
    text = page(manager)
    while True:
        seen += shown(text)
        older = re.search(r'href="[^"]*\?before=(\d+)" rel="next"', text)
        if older is None:
            break
        text = page(manager, before=older.group(1))
    assert seen == list(range(120, 0, -1))
    newer = re.search(r'href="[^"]*\?after=(\d+)" rel="prev"', text)
    assert newer is not None and shown(page(manager, after=newer.group(1))) == list(range(70, 20, -1))
    assert shown(page(manager, after=110)) == list(range(120, 70, -1))  # never a page of ten at the top
    assert shown(page(manager, before=13))[0] == 12  # what a number links to


def test_the_same_queries_for_few_and_for_many(
    client_of: Clients, pat: Actor, django_assert_num_queries: object
) -> None:
    manager = client_of("manager")
    relay = make_relay(owner=pat.user)
    gate = make_gate(relay)

    def count() -> int:
        from django.db import connection
        from django.test.utils import CaptureQueriesContext

        with CaptureQueriesContext(
            connection,
        ) as found:
            page(manager)
        return len(found)

    base.record(pat, "park", now=timezone.now(), relay=relay, gate=gate)
    few = count()
    for _ in range(60):
        base.record(Actor(make_user()), "park", now=timezone.now(), relay=make_relay(owner=pat.user))
    assert count() == few


# --- export


def test_csv_holds_all_that_match_and_no_formula(client_of: Clients, relays: object) -> None:
    answer = client_of("manager").get(reverse("decisions"), {"format": "csv", "actor": "rae"})
    assert answer["Content-Type"].startswith("text/csv") and "attachment" in answer["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(b"".join(answer.streaming_content).decode())))
    assert [row["seq"] for row in rows] == ["3", "4"]
    assert (rows[0]["comment"], rows[1]["comment"]) == ("<b>why</b>", "'=1+1")
    assert json.loads(rows[0]["detail"]) == {"will": "drain", "policy": {"a": 1}}
    assert rows[1]["previous"] == rows[0]["digest"]


def test_from_the_json_lines_each_digest_can_be_made_again(client_of: Clients, relays: object) -> None:
    answer = client_of("manager").get(reverse("decisions"), {"format": "jsonl"})
    rows = [json.loads(line) for line in b"".join(answer.streaming_content).decode().splitlines()]
    assert [row["seq"] for row in rows] == [1, 2, 3, 4, 5]
    previous = "0" * 64
    for row in rows:
        digest, name = row.pop("digest"), row.pop("actor_name")
        assert row["previous"] == previous and name in ("pat", "rae")
        previous = hashlib.sha256(json.dumps(row, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
        assert previous == digest
    assert client_of("manager").get(reverse("decisions"), {"format": "xls"}).status_code == 404


# --- verification


def test_a_chain_that_holds_is_said_with_its_rows_and_head(client_of: Clients, relays: object) -> None:
    manager = client_of("manager")
    answer = manager.post(reverse("decisions_verify"), follow=True)
    assert answer.redirect_chain == [(reverse("decisions") + "#audit", 303)]
    text, found = marked(answer), audit.verify()
    run = AuditRun.objects.get()
    assert (run.ok, run.rows, run.first_bad, run.head) == (found.ok, found.rows, None, found.head) and found.ok
    assert "5 rows read again" in text and run.head in text
    assert Decision.objects.count() == 5  # to look is no decision


def test_a_changed_row_is_named_and_linked(client_of: Clients, relays: object) -> None:
    with unguarded():
        Decision.objects.filter(seq=3).update(comment="never said")
    text = marked(client_of("manager").post(reverse("decisions_verify"), follow=True))
    assert "violated" in text and "decision 3 was changed" in text
    assert f"{reverse('decisions')}?before=4#d-3" in text
    assert AuditRun.objects.get().first_bad == 3


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk is two rows, and a step one chunk."""
    monkeypatch.setattr(audit, "_CHUNK", 2)
    monkeypatch.setattr(acting, "FIRST_TAKES", 0.0)
    monkeypatch.setattr("relaysite.bell.ring", lambda task, what: None)


@pytest.mark.parametrize("bad", [None, 1, 2, 4, 5])
def test_in_steps_it_finds_what_it_finds_at_once(
    small_steps: None, pat: Actor, relays: object, bad: int | None
) -> None:
    if bad:
        with unguarded():
            Decision.objects.filter(seq=bad).update(comment="never said")
    run = acting.begin(pat)
    steps = 1
    while acting.step(run.pk, 0.0) not in ("done", "over"):
        steps += 1
        assert steps < 20
    run.refresh_from_db()
    found = audit.verify()
    assert (run.ok, run.rows, run.first_bad, run.head, tuple(run.why)) == (
        found.ok, found.rows, found.first_bad, found.head, found.why,
    )  # fmt: skip
    assert found.first_bad == bad
    assert bad is not None or steps >= 2
    assert acting.step(run.pk) == "over"


def test_a_long_one_shows_how_far_it_is_and_can_be_cancelled(
    small_steps: None, client_of: Clients, relays: object
) -> None:
    manager = client_of("manager")
    text = marked(manager.post(reverse("decisions_verify"), follow=True))
    run = AuditRun.objects.get()
    assert "goes on in the background" in text and "2 of 5 rows" in text and 'aria-valuenow="40"' in text
    manager.post(reverse("decisions_verify"))  # a second press means the one that goes on
    assert AuditRun.objects.count() == 1
    cancel = reverse("decisions_cancel", args=[run.pk])
    assert "cancelled" in marked(manager.post(cancel, follow=True))
    run.refresh_from_db()
    assert (run.ok, run.cancelled, run.running) == (None, True, None)
    assert acting.step(run.pk) == "over"
    assert "has ended already" in marked(manager.post(cancel, follow=True))
    assert manager.post(reverse("decisions_cancel", args=[999])).status_code == 404
    with pytest.raises(NotLegalNow):
        acting.cancel(Actor(make_user("", "manager")), run.pk)


def test_a_worker_that_died_is_taken_over_and_writes_nothing_afterwards(
    small_steps: None, pat: Actor, relays: object
) -> None:
    run = acting.begin(pat)
    rung: list[tuple[str, int]] = []
    assert acting.ring_due(lambda task, pk: rung.append((task, pk)))
    now = timezone.now()
    AuditRun.objects.update(beat_at=now)
    dead = acting._Hold(run.pk, now, 0.0)
    assert acting.step(run.pk) == "busy" and not acting.ring_due()  # it lives, as far as anybody can tell
    AuditRun.objects.update(beat_at=now - timedelta(minutes=1))
    assert acting.ring_due(lambda task, pk: rung.append((task, pk)))
    assert rung == [("relays.tasks.audit_step", run.pk)] * 2
    assert acting.step(run.pk) == "done"
    assert not dead.write(rows=99)
    run.refresh_from_db()
    assert (run.ok, run.rows) == (True, 5)
