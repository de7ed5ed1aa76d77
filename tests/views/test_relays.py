"""The list of relays: search, filters, order, pages, empty pages and refusals."""

import time
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relays.models import Counted, GateState, Leg, Relay, RelayStatus
from relays.reports.relays import SEARCHED, clean_query, relays_page, tokens_of
from tests.reading import marked
from tests.report_builders import Story
from tests.session_builders import make_session
from tests.web_builders import bump, make_fleet, make_gate, make_leg, make_relay, make_user

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]


def ids(**values: str) -> list[str]:
    return [row.relay_id for row in relays_page(clean_query(values)).rows]


def test_a_row_says_status_leg_progress_context_fidelity_money_and_last_data(client_of: ClientOf) -> None:
    relay = make_relay(
        objective="Move the call sites", progress_total=612, progress_at=timezone.now(), spend_used=Decimal("41.184")
    )
    make_leg(relay, 0, reason="RELAY_ROTATED", fidelity_verified=29, fidelity_dangling=0, fidelity_unknown=2)
    make_leg(relay, 22, resident=[74_210])
    page = marked(client_of("manager").get("/relays/"))
    for text in (
        "Move the call sites",
        "running",
        ">22<",
        "612",
        "74,210",
        "mark 120k, ceiling 180k",
        "100 %",
        "$41.18",
    ):
        assert text in page, text
    assert "2 unknown" in page and "RELAY_ROTATED" in page and f"/relays/{relay.pk}/" in page


def test_marks_that_all_legs_share_stand_in_one_head_alone(client_of: ClientOf) -> None:
    relay = make_relay(status=RelayStatus.RUNNING)
    make_leg(relay, 0, resident=[40_000])
    page = marked(client_of("operator").get("/relays/"))
    assert page.count("mark 120k, ceiling 180k") == 2, "in the head, and in the label of the card"
    assert "mark —" not in page


def test_money_without_prices_reads_unpriced_and_partly_priced_says_how_many_calls_miss(client_of: ClientOf) -> None:
    make_relay(unpriced_calls=3)
    page = marked(client_of("manager").get("/relays/"))
    assert "unpriced" in page and "$0.00" not in page
    make_relay(unpriced_calls=3, spend_used=Decimal("1.5"))
    assert '$1.50 <span class="u">partial: 3 calls unpriced' in marked(client_of("manager").get("/relays/"))


def test_search_and_filters() -> None:
    mara = make_user("mara", "operator")
    one = make_relay(objective="Translate the HELP pages", repo="/srv/acme/docs", agent="command", owner=mara)
    two = make_relay(objective="Another", status=RelayStatus.DONE)
    three = make_relay(objective="Third", status=RelayStatus.PARKED)
    make_gate(three, "BUDGET_EXHAUSTED", leg=make_leg(three, 0, reason="RELAY_ROTATED"))
    assert ids(q="help") == ids(q="docs") == ids(q=one.pk) == [one.pk]
    assert ids(repo="/srv/acme/docs") == ids(agent="command") == ids(owner="mara") == [one.pk]
    assert ids(status="done") == ids(token="RELAY_GOAL_DONE") == [two.pk]
    assert ids(token="BUDGET_EXHAUSTED") == [three.pk], "the open gate stands above how the last leg ended"
    assert ids(token="RELAY_ROTATED") == []
    assert ids(q="nothing like it") == []
    assert len(ids(q="%")) == 0, "a search word is no pattern"


def test_a_sha_finds_the_relay_whose_leg_made_it_or_ended_there(client_of: ClientOf) -> None:
    made, ended, other = make_relay(), make_relay(), make_relay(start_sha="c0ffee0" + "1" * 33)
    leg = make_leg(made, 4, reason="RELAY_ROTATED", end_sha="9" * 40)
    sha = "abcdef1234567890abcdef1234567890abcdef12"
    Counted.objects.create(relay=made, leg=leg, kind="commit", value=sha, counts=True)
    Counted.objects.create(relay=other, leg=make_leg(other, 0), kind="foreign", value=sha)
    make_leg(ended, 2, reason="RELAY_ROTATED", end_sha="abcdef2" + "0" * 33)
    assert ids(q=sha) == ids(q="ABCDEF1") == [made.pk], "a foreign commit is not its own"
    assert ids(q="abcdef2") == [ended.pk] and ids(q="c0ffee0") == [other.pk]
    assert ids(q="abcdef") == [], "fewer than seven digits are no SHA"
    page = marked(client_of("manager").get(f"/relays/?q={sha[:9]}"))
    assert "made by leg 4" in page and f"/relays/{made.pk}/legs/4/" in page and f'data-copy="{sha}"' in page
    assert "where leg 2 ended" in marked(client_of("manager").get("/relays/?q=abcdef2"))


def test_a_token_is_found_as_a_word_of_the_search() -> None:
    gated, held, plain = make_relay(status=RelayStatus.PARKED), make_relay(), make_relay(objective="Fix RELAY things")
    make_gate(gated, "BUDGET_EXHAUSTED", state=GateState.CONFIRMED)
    make_leg(held, 0, reason="RELAY_PARKED_UNSAFE", hold="TREE_DIRTY_UNPARKED", cause="ceiling")
    assert ids(q="budget_exhausted") == [gated.pk], "a gate of before counts too"
    assert ids(q="tree_dirty") == ids(q="PARKED_UNSAFE") == [held.pk]
    assert ids(q="RELAY things") == [plain.pk]
    assert tokens_of("relay") == () and tokens_of("RELAY_") == tuple(t for t in SEARCHED if "RELAY_" in t)


@pytest.mark.slow
@pytest.mark.postgres
def test_ten_thousand_relays_are_searched_and_sorted_quickly(client_of: ClientOf) -> None:
    """architecture.md, Sizes to hold: "10,000 relays". Each look is quick and asks as many questions."""
    one, now = make_relay(), timezone.now()
    fields = {field.attname: getattr(one, field.attname) for field in Relay._meta.concrete_fields}
    Relay.objects.bulk_create(
        [
            Relay(**{**fields, "id": f"RLY-20270101-{n:05d}", "objective": f"Goal {n}", "repo": f"/srv/r{n % 40}",
                     "spend_used": n, "status": ["running", "parked", "waiting"][n % 3],
                     "created_at": now - timedelta(minutes=n)})
            for n in range(10_000)
        ],
        batch_size=500,
    )  # fmt: skip
    Leg.objects.bulk_create(
        [
            Leg(relay_id=f"RLY-20270101-{n // 2:05d}", number=n % 2, state="ended", trace=f"t{n}", ended_at=now,
                reason="RELAY_NO_PROGRESS" if n % 997 == 0 else "RELAY_ROTATED", end_sha=f"{n:040x}")
            for n in range(20_000)
        ],
        batch_size=500,
    )  # fmt: skip
    rows = Leg.objects.filter(number=1).values_list("pk", "relay_id")
    Counted.objects.bulk_create(
        [Counted(relay_id=relay, leg_id=pk, kind="commit", value=f"{pk:040x}", counts=True) for pk, relay in rows],
        batch_size=500,
    )
    client, counts = client_of("manager"), set()
    client.get("/relays/")  # the first look of a process reads its templates
    looks = ["", "?page=150", "?q=goal+77", "?status=parked", "?token=RELAY_NO_PROGRESS", "?sort=-context",
             "?sort=name", "?q=NO_PROGRESS", "?repo=/srv/r7&sort=-money", "?sort=status&page=90"]  # fmt: skip
    for look in [*looks, f"?q={rows[0][0]:040x}"]:
        started = time.monotonic()
        with CaptureQueriesContext(connection) as seen:
            assert client.get(f"/relays/{look}").status_code == 200
        assert time.monotonic() - started < 3.5, look
        # a search asks for sessions too; one by SHA for batons, and which leg made or ended at it
        counts.add(len(seen) - ("?q=" in look) - 3 * look.startswith(f"?q={rows[0][0]:040x}"))
    assert len(counts) == 1, counts


def test_words_that_mean_nothing_are_dropped() -> None:
    query = clean_query(
        {"status": "flying", "token": "<b>", "sort": "password", "page": "-3", "q": "a\0b\n" + "x" * 900}
    )
    assert (query.status, query.token, query.sort, query.page) == ("", "", "-started", 1)
    assert query.text.startswith("ab") and len(query.text) == 200
    assert clean_query({"page": "9" * 50}).page == 999_999_999
    assert clean_query({"page": "٣"}).page == 1


@pytest.mark.parametrize("word", ["started", "name", "status", "leg", "progress", "context", "money", "data"])
def test_each_order_and_its_reverse_hold_the_same_relays(word: str) -> None:
    make_fleet(7)
    up, down = ids(sort=word), ids(sort=f"-{word}")
    assert sorted(up) == sorted(down) and len(up) == 7


def test_the_order_by_status_begins_with_what_needs_a_person() -> None:
    make_fleet(5)
    statuses = [row.status for row in relays_page(clean_query({"sort": "status"})).rows]
    assert statuses == ["parked", "running", "waiting", "idle", "done"]


def test_the_order_by_context_begins_with_the_fullest() -> None:
    for resident in (10_000, 90_000, 50_000):
        make_leg(make_relay(objective=str(resident)), 0, resident=[resident])
    make_relay(objective="no leg")
    rows = relays_page(clean_query({"sort": "-context"})).rows
    assert [row.objective for row in rows] == ["90000", "50000", "10000", "no leg"]


def test_pages_of_fifty_and_a_page_behind_the_end_is_the_last(client_of: ClientOf) -> None:
    now, owner = timezone.now(), make_user("mara", "operator")
    for n in range(51):
        make_relay(objective=f"Job {n:02d}", owner=owner, created_at=now - timedelta(minutes=n))
    client = client_of("manager")
    first = marked(client.get("/relays/?owner=mara"))
    assert "Job 49" in first and "Job 50" not in first and "page 1 of 2" in first
    assert 'href="?owner=mara&amp;page=2"' in first, "the next page keeps the filters"
    last = marked(client.get("/relays/?owner=mara&page=77"))
    assert "Job 50" in last and "Job 49" not in last and 'href="?owner=mara" rel="prev"' in last


def test_fifty_relays_cost_as_many_queries_as_one(client_of: ClientOf) -> None:
    client = client_of("reviewer")
    for part in ("", "?part=list"):
        counts = []
        for more in (5, 25):
            make_fleet(more)
            bump("relays", "inbox")
            with CaptureQueriesContext(connection) as caught:
                assert client.get(f"/relays/{part}").status_code == 200
            counts.append(len(caught))
        assert counts[0] == counts[1]


def test_empty_pages_say_what_to_do_next(client_of: ClientOf) -> None:
    client = client_of("operator")
    assert "manage.py relay start" in marked(client.get("/relays/"))
    make_relay()
    page = marked(client.get("/relays/?q=nothing"))
    assert "No relay matches" in page and 'value="nothing"' in page


def test_a_search_word_comes_back_as_text(client_of: ClientOf) -> None:
    make_relay()
    page = marked(client_of("operator").get("/relays/", {"q": '"><script>alert(1)</script>'}))
    assert "<script>alert" not in page


def test_who_has_no_role_may_not_look(client_of: ClientOf) -> None:
    assert client_of().get("/relays/").status_code == 403
    assert Client().get("/relays/").status_code == 302


def test_only_reading_is_possible(client_of: ClientOf) -> None:
    assert client_of("admin").post("/relays/").status_code == 405


def test_an_unknown_part_is_not_found(client_of: ClientOf) -> None:
    assert client_of("admin").get("/relays/?part=nope").status_code == 404


def test_a_relay_that_vanishes_between_two_looks_is_gone_from_the_list(client_of: ClientOf) -> None:
    client = client_of("manager")
    keep, gone = make_relay(objective="Stays"), make_relay(objective="Goes")
    assert "Goes" in marked(client.get("/relays/?part=list"))
    Relay.objects.filter(pk=gone.pk).delete()
    bump("relays")
    page = marked(client.get("/relays/?part=list"))
    assert "Goes" not in page and keep.pk in page


def test_a_search_finds_gates_sessions_and_batons_too(client_of: ClientOf, tmp_path: Path) -> None:
    story = Story(tmp_path / "repo")
    story.leg(turns=2)
    gate = story.park()
    baton = story.relay.batons.get(current=True)
    session = make_session(cwd="/srv/acme/orders")
    for n in range(6):
        make_session(sid=f"many-{n}")
    client = client_of("manager")

    def found(text: str) -> str:
        page = marked(client.get("/relays/", {"q": text}))
        return page.partition('id="elsewhere"')[2].partition("</div>")[0]

    for text in (f"gate {gate.pk}", f"#{gate.pk}", f" Gate #{gate.pk}", str(gate.pk)):
        assert f'href="/gates/{gate.pk}/"' in found(text), text
    assert f'href="/relays/{story.relay.pk}/batons/0/?baton={baton.pk}"' in found(baton.digest[:9])
    assert f'href="/sessions/{session.pk}/"' in found(session.sid[:10])
    assert f'href="/sessions/{session.pk}/"' in found("acme/orders")
    assert "2 more sessions" not in found("many-") and "1 more session<" in found("many-")
    for text in ("", "nothing of the kind", "gate 999999", "gate x", "99999999999999999999", "%", "\0"):
        assert not found(text), text
    assert ids(q=story.relay.objective_digest[:10]) == [story.relay.pk]


def test_what_is_found_elsewhere_costs_four_queries_at_most(client_of: ClientOf) -> None:
    make_relay()
    client = client_of("manager")

    def queries(text: str) -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            client.get("/relays/", {"q": text})
        return len(seen)

    bare = queries("zzzz")
    for n in range(7):
        make_session(sid=f"abcdef0123-{n}")
    assert queries("abcdef0123") <= bare + 3
