"""The cost of the fleet: sums that reconcile, filters in the address, budgets that warn, and a constant cost."""

import csv
import io
import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from decimal import Decimal
from typing import cast

import pytest
from django.db import connection
from django.http import StreamingHttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relays.models import CostState, DayCost, LearnedParameter, OwnerMonth
from tests.cost_builders import baseline, make_backtest, make_budget, make_comparison, make_day
from tests.reading import marked
from tests.session_builders import make_session
from tests.web_builders import make_gate, make_leg, make_relay, make_user

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]
BAD = '"><script>alert(1)</script>{{7*7}}'


def text(client: Client, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status, address
    return marked(answer)


def table(client: Client, of: str, query: str = "range=all") -> list[list[str]]:
    answer = cast(StreamingHttpResponse, client.get(f"/cost/?{query}&format=csv&of={of}"))
    assert answer.status_code == 200, of
    return list(csv.reader(io.StringIO(b"".join(cast(Iterable[bytes], answer.streaming_content)).decode())))


def money(rows: list[list[str]], column: str = "money") -> Decimal:
    at = rows[0].index(column)
    return sum((Decimal(row[at]) for row in rows[1:] if row[at]), Decimal(0))


def test_every_role_reads_it_and_nobody_else(client_of: ClientOf) -> None:
    for role in ("manager", "operator", "reviewer", "admin"):
        assert client_of(role).get("/cost/").status_code == 200
    assert client_of().get("/cost/").status_code == 403
    assert Client().get("/cost/").status_code == 302
    manager = client_of("manager")
    assert manager.get("/cost/?part=x").status_code == manager.get("/cost/?format=csv&of=x").status_code == 404
    assert manager.post("/cost/").status_code == 405


def test_an_empty_fleet_says_what_to_do_next(client_of: ClientOf) -> None:
    page = text(client_of("manager"), "/cost/")
    assert "No cost yet" in page and "relay import ~/.claude/projects" in page and "$0.00" not in page
    assert 'aria-current="page">Cost' in page


def test_every_way_of_cutting_gives_the_same_sum_to_the_last_digit(client_of: ClientOf) -> None:
    today = timezone.localdate()
    for n in range(3):
        leg = make_leg(make_relay(repo=f"/srv/r{n}"), 0, resident=[1], reason="RELAY_ROTATED", progress=2)
        for back in range(4):
            make_day(leg, today - timedelta(days=9 * back), cost=f"0.{n}{back}00000001", model=f"m{back % 2}")
    session = make_session(cwd="/srv/s")
    make_day(session, today, cost="0.0000000003")
    DayCost.objects.create(
        day=None, kind="session", session=session, agent="codex", model="m0", calls=1, units=7, output_tokens=1
    )
    client = client_of("manager")
    total = Decimal(sum(DayCost.objects.values_list("units", flat=True))) / 10**10
    for of in ("days", "models", "repositories", "works"):
        assert money(table(client, of)) == total, of
    owners = money(table(client, "owners"))
    assert owners == total - Decimal(10) / 10**10, "nobody owns a session"
    days = table(client, "days")
    assert days[-1][0] == "no time" and money(days, "money of relays") + money(days, "money of sessions") == total
    month = table(client, "days", f"since={today - timedelta(days=10)}")
    assert [row[0] for row in month[1:]] == [str(today - timedelta(days=9)), str(today)]


def test_filters_are_in_the_address_and_wrong_days_are_answered_beside_their_field(client_of: ClientOf) -> None:
    today = timezone.localdate()
    mine, other = (make_relay(owner=make_user(name, "operator"), repo=f"/srv/{name}") for name in ("ann", "bob"))
    make_day(make_leg(mine, 0, resident=[1], reason="RELAY_ROTATED"), today, cost="3", model="opus")
    make_day(make_leg(other, 0, resident=[1], reason="RELAY_ROTATED"), today, cost="5", model="gpt")
    make_day(make_session(), today, cost="7", model="opus")
    client = client_of("manager")
    for query, expected in (
        ("owner=ann", "3"), ("repo=/srv/bob", "5"), ("model=opus", "10"), ("kind=session", "7"), ("kind=relay", "8"),
        ("agent=claude-code", "7"), ("model=opus&kind=relay", "3"), ("owner=nobody", "0"),
        (f"until={today - timedelta(days=1)}", "0"),
    ):  # fmt: skip
        assert money(table(client, "works", query)) == Decimal(expected), query
    page = text(client, "/cost/?owner=ann&model=opus")
    assert "<option selected>ann</option>" in page and "?owner=ann" not in page.split("hx-get")[0]
    assert "owner=ann&amp;format=csv" in page and "model=opus" in page
    page = text(client, "/cost/?since=2026-13-45&until=yesterday")
    assert "&#x27;2026-13-45&#x27; is no day: write it as 2026-11-30" in page and 'aria-invalid="true"' in page
    assert "is before 2026-05-02" in text(client, "/cost/?since=2026-05-02&until=2026-05-01")
    assert text(client, "/cost/?since=0001-01-01&until=9999-12-31&page=99999999999&kind=%00")


def test_the_scripted_worker_is_in_no_sum_and_can_be_seen_alone(client_of: ClientOf) -> None:
    leg = make_leg(make_relay(), 0, resident=[1], reason="RELAY_ROTATED")
    make_day(leg, cost="4")
    make_day(leg, cost="900", scripted=True)
    client = client_of("manager")
    page = text(client, "/cost/")
    assert "$4.00" in page and "$900" not in page and "Beside this the scripted worker made 40 calls" in page
    page = text(client, "/cost/?scripted=1")
    assert "$900.00" in page and "Only the scripted worker is shown" in page


def test_unpriced_calls_are_named_and_never_zero(client_of: ClientOf) -> None:
    session = make_session()
    make_day(session, cost="0", unpriced=40, model="local-model")
    page = text(client_of("manager"), "/cost/")
    assert "local-model" in page and "unpriced</small>" in page and "$0.00" not in page
    make_day(session, cost="2")
    page = text(client_of("manager"), "/cost/?kind=session")
    assert "partial: 40 calls unpriced" in page and '40 <span class="u">of 40' in page


def test_saved_and_lost_are_told_apart_and_a_loss_is_said(client_of: ClientOf) -> None:
    for saving, verdict in (("3.00", "cheaper"), ("-8.00", "dearer"), ("0.5", "not yet")):
        relay = make_relay()
        make_day(make_leg(relay, 0, resident=[1], reason="RELAY_ROTATED", progress=4), cost="2")
        make_comparison(relay, saving=Decimal(saving), verdict=verdict)
    page = text(client_of("manager"), "/cost/")
    assert "lost against compaction" in page and "1 cheaper, 1 dearer, 1 not yet" in page
    assert "lost $8.00" in page and "12 units" in page and "$0.50" in page


def test_the_fleet_says_which_envelope_is_spent_first(client_of: ClientOf) -> None:
    axis = {"axis": "legs", "limit": "20", "used": "11", "per_leg": "1", "legs_left": 9, "progress_left": 30}
    money_axis = {"axis": "spend", "limit": "20", "used": "16", "per_leg": "2", "legs_left": 2, "progress_left": 7}
    for name, forecast, status in (
        ("Far from it", [{**axis, "legs_left": 15}], "running"), ("Nearly spent", [axis, money_axis], "parked"),
        ("Ended already", [{**axis, "legs_left": 1}], "done"), ("Without a limit", [], "running"),
    ):  # fmt: skip
        relay = make_relay(objective=name, status=status, owner=make_user(name.split()[0].lower(), "operator"))
        make_day(make_leg(relay, 0, resident=[1], reason="RELAY_ROTATED"))
        make_comparison(relay, forecast=forecast)
    client = client_of("manager")
    panel = text(client, "/cost/").partition('id="envelopes"')[2].partition("</section>")[0]
    assert panel.index("Nearly spent") < panel.index("Far from it") and "Ended already" not in panel
    assert "$16.00" in panel and "of $20.00" in panel and "about 7 units" in panel
    assert "Of 1 more nothing can be said yet." in panel
    rows = table(client, "envelopes")
    assert [row[1] for row in rows[1:]] == ["Nearly spent", "Far from it"] and rows[1][2:6] == [
        "money", "$16.00", "$20.00", "2",
    ]  # fmt: skip
    assert [row[1] for row in table(client, "envelopes", "owner=far")[1:]] == ["Far from it"]
    assert len(table(client, "envelopes", "kind=session")) == 1


def test_the_fleet_is_held_against_every_other_way_to_carry_its_work(client_of: ClientOf) -> None:
    client = client_of("manager")
    make_day(make_session())
    assert "No relay of this time whose calls all have a price is compared." in text(client, "/cost/")
    for values in ({}, {"baselines": [baseline("none", "14.60", exceeded_at=40)]}, {"observed": {"cost": None}}):
        relay = make_relay()
        make_day(make_leg(relay, 0, resident=[1], reason="RELAY_ROTATED"))
        make_comparison(relay, **values)
    other = {row[0]: row[1:] for row in table(client, "ways")}
    own = Decimal("8.25")
    assert [Decimal(one) for one in other["sliding_window"][2:5]] == [Decimal("7.10"), own, Decimal("-1.15")]
    assert other["none"][:2] == ["1", "1"] and Decimal(other["none"][4]) == Decimal("14.60") - own
    panel = text(client, "/cost/").partition('id="ways"')[2].partition("</section>")[0]
    assert "1 would not finish" in panel and "−$1.15" in panel and "SIMULATED" in panel
    assert len(table(client, "ways", "owner=nobody")) == 1


def test_tables_as_csv_are_whole_whatever_the_page_shows(client_of: ClientOf) -> None:
    relay = make_relay()
    for n in range(60):
        session = make_session(cwd=f"/srv/r{n}")
        make_day(session, cost=f"0.{n + 1:02d}", model=f"m{n}")
        make_gate(relay if n == 0 else make_relay(), opened_at=timezone.now() - timedelta(hours=n + 1))
    client = client_of("manager")
    for of in ("works", "models", "repositories", "parked"):
        assert len(table(client, of)) == 61, of
    page = text(client, "/cost/")
    assert page.count('data-row="session-') == 50 and "page 1 of 2" in page
    assert text(client, "/cost/?page=2").count('data-row="session-') == 10


def test_a_budget_warns_in_words(client_of: ClientOf) -> None:
    ann, bob = make_user("ann", "operator"), make_user("bob", "operator")
    month = timezone.localdate().replace(day=1)
    make_budget(ann, "10")
    make_budget(bob, "50")
    make_day(make_leg(make_relay(owner=ann), 0, resident=[1], reason="RELAY_ROTATED"), cost="12")
    OwnerMonth.objects.create(owner=ann, month=month, units=12 * 10**10, limit=10, state="over", unpriced=3)
    client = client_of("manager")
    page = text(client, "/cost/")
    assert "ann is over the budget of this month" in page and "$12.00 of $10.00, 120 %" in page
    assert "3 unpriced calls not in it" in page and "bob" in page and "It warns and stops nothing" in page
    rows = table(client, "budgets")
    assert [row[0] for row in rows[1:]] == ["ann", "bob"] and rows[1][5] == "over"
    OwnerMonth.objects.update(state="warned", units=9 * 10**10)
    assert "ann nears the budget" in text(client, "/cost/?owner=ann")


def test_parked_time_is_clipped_to_the_days_and_counts_two_gates_once(client_of: ClientOf) -> None:
    now = timezone.now()
    relay = make_relay(status="parked", objective="Waits for Ann")
    make_gate(relay, opened_at=now - timedelta(hours=5))
    make_gate(relay, "RELAY_NO_PROGRESS", opened_at=now - timedelta(hours=3))
    closed = make_gate(make_relay(), opened_at=now - timedelta(days=400), state="confirmed")
    closed.state_at = now - timedelta(days=399)
    closed.save()
    make_day(make_session(), cost="1")
    client = client_of("manager")
    assert table(client, "parked", "")[1][2:] == ["5.0", "2"]
    page = text(client, "/cost/")
    assert "Waits for Ann" in page and "waits now" in page and "5.0 h" in page
    assert len(table(client, "parked")) == 3
    assert len(table(client, "parked", "kind=session")) == 1


def test_the_back_test_and_what_was_learned_stand_on_the_page(client_of: ClientOf) -> None:
    session = make_session()
    make_backtest(session, error=-0.073, predicted_compactions=3)
    make_day(session, cost="1")
    CostState.objects.create(
        name="backtest", at=timezone.now(), value={"sessions": 1, "median_abs_error": 0.073, "count_right": 0.0}
    )
    LearnedParameter.objects.create(
        agent="codex", name="residue", value=21_900, low=1, high=2, n=2, at=timezone.now(), source=BAD
    )
    page = text(client_of("manager"), "/cost/")
    assert "7.3 % less" in page and "3, really 4" in page and "7.3 % on cost" in page and "0 of 1, 0 %" in page
    assert "21,900" in page and "n too small" in page and "<script>alert" not in page


def test_hostile_names_are_only_text_and_no_formula(client_of: ClientOf) -> None:
    relay = make_relay(objective="=HYPERLINK()" + BAD, repo="/srv/" + BAD)
    make_day(make_leg(relay, 0, resident=[1], reason="RELAY_ROTATED"), model="=1+1" + BAD, unpriced=3)
    client = client_of("manager")
    page = text(client, "/cost/")
    assert "<script>alert" not in page and ">49<" not in page
    assert table(client, "works")[1][2].startswith("'=HYPERLINK") and table(client, "models")[1][0].startswith("'=1+1")


def test_a_view_draws_at_most_4000_points(client_of: ClientOf) -> None:
    session, today = make_session(), timezone.localdate()
    one = make_day(session, today)
    one.pk = None
    DayCost.objects.bulk_create(
        DayCost(
            day=today - timedelta(days=n), kind="session", session=session, model=f"m{n % 9}", calls=1, units=10**10
        )
        for n in range(900)
    )
    page = text(client_of("manager"), "/cost/?range=all&part=days")
    figure = json.loads(page)["figure"]
    assert len(figure["data"]) == 6 and sum(len(trace["x"]) for trace in figure["data"]) <= 4_000
    assert "The newest 62 of 900 days" in text(client_of("manager"), "/cost/?range=all")


def test_the_page_asks_the_same_number_of_questions_whatever_the_fleet(client_of: ClientOf) -> None:
    client = client_of("manager")
    client.get("/vocabulary/")
    today = timezone.localdate()

    def grow(count: int) -> None:
        for n in range(count):
            relay = make_relay()
            make_gate(relay)
            make_comparison(relay)
            make_day(make_leg(relay, 0, resident=[1], reason="RELAY_ROTATED", progress=1), today - timedelta(days=n))
            session = make_session()
            make_backtest(session)
            make_day(session, today - timedelta(days=n), unpriced=1)

    counts = []
    for size in (1, 12):
        grow(size)
        with CaptureQueriesContext(connection) as asked:
            text(client, "/cost/")
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 42, counts


def test_a_unit_that_several_models_worked_for_is_no_unit_of_the_last_of_them(client_of: ClientOf) -> None:
    """Its units over the money of one of them would be a price that nobody paid."""
    mixed = make_leg(make_relay(), 0, resident=[1], reason="RELAY_ROTATED", progress=3, model="small")
    make_day(mixed, cost="2.00", model="large")
    make_day(mixed, cost="0.10", model="small")
    alone = make_leg(make_relay(), 0, resident=[1], reason="RELAY_ROTATED", progress=2, model="only")
    make_day(alone, cost="1.00", model="only")
    client = client_of("manager")
    head, *rows = table(client, "models")
    units = {row[0]: row[head.index("verified units")] for row in rows}
    assert units == {"large": "", "only": "2", "small": ""}
    head, *rows = table(client, "models", "range=all&model=small")
    assert [row[head.index("verified units")] for row in rows] == [""]
    assert "3 units" not in text(client, "/cost/?range=all&model=small")
    assert "5 units" in text(client, "/cost/?range=all")
