"""The start page: what waits, oldest first; what runs by itself; its regions; its refusals."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relays.core import pricefile
from relays.models import Call, GateEpisode, GateState, Relay, RelayStatus
from relays.reports.needs_you import needs_you, parked_times
from tests.reading import marked
from tests.web_builders import bump, make_fleet, make_gate, make_leg, make_relay

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]


def test_the_oldest_gate_is_loud_and_younger_ones_are_rows(client_of: ClientOf) -> None:
    now = timezone.now()
    young = make_relay(status=RelayStatus.PARKED, objective="The younger stop")
    old = make_relay(status=RelayStatus.PARKED, objective="The older stop")
    make_gate(young, "BUDGET_EXHAUSTED", opened_at=now - timedelta(minutes=6))
    leg = make_leg(old, 3, reason="RELAY_PARKED_UNSAFE", cause="ceiling", hold="TREE_DIRTY_UNPARKED")
    make_gate(old, opened_at=now - timedelta(minutes=43), leg=leg, items=["One dirty path could not be stored."])
    page = marked(client_of("reviewer").get("/"))
    loud = page[page.index('class="loud"') : page.index('class="gates"')]
    assert "The older stop" in loud and "43 min" in loud and "One dirty path could not be stored." in loud
    assert "RELAY_PARKED_UNSAFE" in loud and "TREE_DIRTY_UNPARKED" in loud and ">ceiling</a>, leg 3" in loud
    assert "A person looks at what is durable and resumes." in loud, "the fix stands beside the token"
    assert "No leg of this relay has called its model yet." in loud, "a cold prefix has no figure without a record"
    assert "The younger stop" not in loud and "The younger stop" in page
    assert page.count("btn-loud") == 1, "one loud thing on the page"


def test_a_cold_prefix_has_its_price_or_says_what_is_missing(client_of: ClientOf, settings: Any) -> None:
    settings.SITE_PRICES = pricefile.parse(
        '[[price]]\nmodel = "tested-1"\ninput = 3\ncache_write_5m = 3.75\noutput = 15\n'
    )
    shown = {
        "tested-1": '<b>40,000</b> <span class="u">tokens,</span> <b>$0.15</b>',
        "never-heard-of": '<b>40,000</b> <span class="u">tokens, no price for never-heard-of</span>',
        "scripted": '<b>40,000</b> <span class="u">tokens, scripted: no price</span>',
    }
    gates = {}
    for model in shown:
        relay = make_relay(status=RelayStatus.PARKED, agent="command")
        leg = make_leg(relay, 0, resident=[40_000, 90_000], reason="RELAY_PARKED_UNSAFE")
        Call.objects.filter(leg=leg).update(model=model, cache_write_5m=40_000, scripted=model == "scripted")
        gates[model] = make_gate(relay, leg=leg)
    client = client_of("reviewer")
    page = marked(client.get("/"))
    assert "40,000 tokens, as the first call of leg 0 had them" in page
    assert "No price is on record for never-heard-of." in page and "are made up, so that they cost nothing" in page
    assert "</svg>not yet" not in page, "what has a figure is not called missing"
    for model, said in shown.items():
        assert said in page, model
        assert said in marked(client.get(f"/gates/{gates[model].pk}/")), "the page of the gate says it alike"


def test_an_empty_house_says_what_to_do_next(client_of: ClientOf) -> None:
    operator, manager = client_of("operator"), client_of("manager")
    for address in ("/", "/relays/"):
        page = marked(operator.get(address))
        assert "No relay yet" in page and 'href="/start/"' in page and 'href="/sessions/import/"' in page
        assert "An operator starts one" in marked(manager.get(address))
    part = marked(operator.get("/?part=inbox"))
    assert 'href="/sessions/import/"' in part and "An operator starts one" in marked(manager.get("/?part=inbox"))


def test_the_count_of_waiting_gates_is_in_the_title_of_every_page(client_of: ClientOf) -> None:
    for token in ("BUDGET_EXHAUSTED", "DONE_UNCONFIRMED"):
        make_gate(make_relay(status=RelayStatus.PARKED), token)
    make_gate(make_relay(), "OBJECTIVE_DRIFT", state=GateState.CONFIRMED)
    client = client_of("manager")
    for address in ("/", "/relays/", "/vocabulary/"):
        assert "<title>(2) " in marked(client.get(address)), address
    GateEpisode.objects.update(state=GateState.SUPERSEDED)
    assert "<title>Relays" in marked(client.get("/relays/"))


def test_running_relays_have_a_sparkline_and_their_context(client_of: ClientOf) -> None:
    relay = make_relay(objective="Runs by itself", unpriced_calls=4)
    make_leg(relay, 0, resident=[20_000, 130_000], reason="RELAY_ROTATED", fidelity_verified=3, fidelity_dangling=1)
    make_leg(relay, 1, resident=[24_000, 74_210])
    page = marked(client_of("manager").get("/"))
    assert "Runs by itself" in page and 'class="spark"' in page and "of the last 4 calls" in page
    assert "74,210 of 180,000 ceiling" in page
    assert "unpriced" in page and "$0.00" not in page
    assert "3/4" in page and "ver-violated" in page


def test_the_sparkline_takes_the_last_sixty_calls_and_leaves_side_chains_out() -> None:
    relay = make_relay()
    make_leg(relay, 0, resident=list(range(1, 101)), reason="RELAY_ROTATED")
    leg = make_leg(relay, 1, resident=[500, 501, 502])
    leg.call_rows.filter(turn=2).update(main=False)
    (row,) = needs_you(timezone.now()).running
    assert len(row.points) == 60
    assert row.points[-2:] == (500, 502) and row.points[0] == 43


def test_agent_text_is_shown_as_text(client_of: ClientOf) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    make_gate(make_relay(status=RelayStatus.PARKED, objective=hostile), items=[hostile], error=hostile)
    make_relay(objective=hostile, status_why=hostile)
    page = marked(client_of("reviewer").get("/"))
    assert "<img" not in page and "&lt;img src=x" in page


def test_an_empty_site_says_how_to_start(client_of: ClientOf) -> None:
    page = marked(client_of("operator").get("/"))
    assert "No relay yet" in page and "manage.py relay start" in page and "Nobody is needed" in page


def test_when_nothing_waits_the_last_decision_and_what_runs_are_said(client_of: ClientOf) -> None:
    make_relay()
    page = marked(client_of("operator").get("/"))
    assert "Nobody is needed" in page and "1 relay runs by itself" in page


def test_a_parked_relay_without_a_gate_is_said_too(client_of: ClientOf) -> None:
    """An operator resumes it, and nothing else on this page would tell."""
    make_gate(make_relay(status=RelayStatus.PARKED))
    assert "without a gate" not in marked(client_of("operator").get("/"))
    refused = make_relay(status=RelayStatus.PARKED)
    make_gate(refused, state=GateState.REFUSED)
    bump("inbox", "relays")
    page = marked(client_of("operator").get("/"))
    assert (
        "1 parked without a gate, an operator resumes or stops it" in page and 'href="/relays/?status=parked"' in page
    )


@pytest.mark.parametrize("part", ["", "?part=inbox", "?part=running", "?part=count"])
def test_thirty_relays_cost_as_many_queries_as_one(client_of: ClientOf, part: str) -> None:
    client = client_of("reviewer")

    def queries() -> int:
        bump("inbox", "relays")  # a new number: nothing kept is used
        with CaptureQueriesContext(connection) as caught:
            assert client.get(f"/{part}").status_code == 200
        return len(caught)

    make_fleet(5)
    few = queries()
    make_fleet(25)
    assert queries() == few


def test_a_region_is_rendered_once_per_change_and_not_sent_twice(client_of: ClientOf) -> None:
    make_gate(make_relay(status=RelayStatus.PARKED))
    bump("inbox")
    one, other = client_of("reviewer"), client_of("reviewer")
    first = one.get("/?part=count")
    assert first.status_code == 200 and b'data-waiting="1"' in first.content
    with CaptureQueriesContext(connection) as caught:
        again = other.get("/?part=count", headers={"If-None-Match": first["ETag"]})
    assert again.status_code == 304 and not again.content
    assert not [query for query in caught if "gateepisode" in query["sql"]], "another viewer costs no look at the gates"
    make_gate(make_relay(status=RelayStatus.PARKED))
    bump("inbox")
    changed = other.get("/?part=count", headers={"If-None-Match": first["ETag"]})
    assert changed.status_code == 200 and b'data-waiting="2"' in changed.content


def test_who_has_no_role_is_told_what_is_missing(client_of: ClientOf) -> None:
    for address in ("/", "/?part=inbox"):
        answer = client_of().get(address)
        assert answer.status_code == 403
        assert "This needs one of the roles operator, reviewer, manager or admin" in marked(answer)
    assert Client().get("/").headers["Location"] == "/sign-in/?next=/"


def test_only_reading_is_possible(client_of: ClientOf) -> None:
    assert client_of("admin").post("/").status_code == 405


def test_an_unknown_part_is_not_found(client_of: ClientOf) -> None:
    assert client_of("admin").get("/?part=../etc").status_code == 404


def test_a_relay_that_vanishes_between_two_looks_leaves_the_page_working(client_of: ClientOf) -> None:
    client = client_of("reviewer")
    relay = make_relay(status=RelayStatus.PARKED, objective="Soon gone")
    make_gate(relay)
    assert "Soon gone" in marked(client.get("/"))
    GateEpisode.objects.all().delete()
    Relay.objects.all().delete()
    bump("inbox", "relays")
    answer = client.get("/?part=inbox")
    assert answer.status_code == 200 and "Soon gone" not in marked(answer)


def test_hours_parked_are_the_union_of_what_was_open() -> None:
    now = timezone.now()
    relay = make_relay(status=RelayStatus.PARKED, status_at=now - timedelta(minutes=30))
    # an hour yesterday, then two episodes that overlap for ten minutes of their half hour
    for token, begin, end, state in (
        ("RELAY_NO_PROGRESS", 1500, 1440, GateState.CONFIRMED),
        ("BUDGET_EXHAUSTED", 30, 0, GateState.WAITING),
        ("OBJECTIVE_DRIFT", 20, 10, GateState.SUPERSEDED),
    ):
        make_gate(
            relay, token, state=state, opened_at=now - timedelta(minutes=begin), state_at=now - timedelta(minutes=end)
        )
    assert parked_times({relay.pk: relay}, now)[relay.pk] == timedelta(minutes=90)


def test_an_approved_gate_is_listed_apart_and_not_counted(client_of: ClientOf) -> None:
    make_gate(make_relay(status=RelayStatus.PARKED, objective="Decided already"), state=GateState.APPROVED)
    page = marked(client_of("operator").get("/"))
    assert "<title>Needs you" in page and "Approved, not yet requested" in page and "Decided already" in page
    assert "btn-loud" not in page
