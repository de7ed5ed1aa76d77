"""The cost of a relay and of a session: verdicts in words, partial totals, provenance, tables, and a constant cost."""

import csv
import io
import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import cast

import pytest
from django.db import connection
from django.http import StreamingHttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relays.costs import refresh, rollups
from relays.models import Comparison, CostState, Relay, StoredWork
from relays.reports.cost import money
from tests.cost_builders import baseline, make_backtest, make_comparison
from tests.costs.relays import losing_relay, winning_relay
from tests.reading import marked
from tests.session_builders import make_story
from tests.web_builders import bump, make_leg, make_relay

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]
BAD = '"><script>alert(1)</script>{{7*7}}'
CHARTS = ("cumulative", "tornado", "line", "legs", "busts", "peaks")


def text(client: Client, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status, address
    return marked(answer)


def table(client: Client, address: str) -> list[list[str]]:
    answer = cast(StreamingHttpResponse, client.get(address))
    assert answer.status_code == 200 and answer["Content-Type"].startswith("text/csv"), address
    parts = b"".join(cast(Iterable[bytes], answer.streaming_content)).decode()
    return list(csv.reader(io.StringIO(parts)))


# ---- who ------------------------------------------------------------------------------------------------------------


def test_every_role_reads_the_cost_and_nobody_else(client_of: ClientOf) -> None:
    relay, (session, _) = make_relay(), make_story()
    for address in (f"/relays/{relay.pk}/cost/", f"/sessions/{session.pk}/cost/"):
        for role in ("manager", "operator", "reviewer", "admin"):
            assert client_of(role).get(address).status_code == 200
        assert client_of().get(address).status_code == 403
        assert Client().get(address).status_code == 302
        assert client_of("manager").post(address).status_code == 405
        assert client_of("manager").get(address + "?part=x").status_code == 404
        assert client_of("manager").get(address + "?format=csv&of=x").status_code == 404
    for address in ("/relays/RLY-X/cost/", "/sessions/99999/cost/", f"/sessions/{10**30}/cost/"):
        assert client_of("manager").get(address).status_code == 404


# ---- the verdict, in words ------------------------------------------------------------------------------------------


def test_a_relay_that_wins_says_by_how_much_and_what_would_turn_it(client_of: ClientOf) -> None:
    relay = make_relay()
    make_comparison(relay)
    page = text(client_of("manager"), f"/relays/{relay.pk}/cost/")
    for words in (
        "<h1>Cheaper than compaction by $2.95, unless a fresh leg re-reads more than 61.0k tokens</h1>",
        "cheaper: holds", "band $9.90 … $12.80", "band $1.65 … $4.55", "measured 18,200, n = 3",
        "the relay loses when a fresh leg re-reads more than 61,000 tokens", "saved by the relay", "all priced",
        "$0.83 a verified unit", "372,000",
    ):  # fmt: skip
        assert words in page, words


def test_a_relay_that_loses_is_dearer_in_words(client_of: ClientOf) -> None:
    relay = make_relay()
    make_comparison(
        relay, verdict="dearer", saving=Decimal("-3.20"), saving_low=Decimal("-5"), saving_high=Decimal("-0.4"),
        break_even=8_100,
    )  # fmt: skip
    page = text(client_of("manager"), f"/relays/{relay.pk}/cost/")
    assert (
        "<h1>Dearer than compaction by $3.20, and cheaper only if a fresh leg re-reads less than 8.1k tokens</h1>"
        in page
    )
    assert "cheaper: violated" in page and "lost by the relay" in page and "−$3.20" in page
    Comparison.objects.update(break_even=None)
    bump(f"cost:{relay.pk}")
    page = text(client_of("manager"), f"/relays/{relay.pk}/cost/?part=body")
    assert "Dearer than compaction by $3.20, however little a fresh leg re-reads" in page


def test_a_band_of_both_signs_is_not_yet(client_of: ClientOf) -> None:
    relay = make_relay()
    make_comparison(
        relay, verdict="not yet", saving=Decimal("0.30"), saving_low=Decimal("-1.10"), saving_high=Decimal("2.20")
    )
    page = text(client_of("manager"), f"/relays/{relay.pk}/cost/")
    assert "Not yet decided: between $2.20 cheaper and $1.10 dearer than compaction" in page and "both signs" in page
    assert "cheaper: not yet" in page


def test_a_session_is_said_from_the_relays_side(client_of: ClientOf) -> None:
    session, _ = make_story()
    make_comparison(session, baselines=[baseline("relay", "5.30"), baseline()])
    client = client_of("manager")
    page = text(client, f"/sessions/{session.pk}/cost/")
    assert "A relay would have saved $2.95, unless a fresh leg" in page and "this session" in page
    assert f'href="/sessions/{session.pk}/"' in page and "Money per stretch" in page
    Comparison.objects.update(verdict="dearer", saving=Decimal("-2"), break_even=None)
    assert "A relay would have cost $2.00 more, however little" in text(client, f"/sessions/{session.pk}/cost/")


# ---- what is missing ------------------------------------------------------------------------------------------------


def test_nothing_stored_yet_says_so_and_draws_nothing(client_of: ClientOf) -> None:
    relay = make_relay()
    client = client_of("manager")
    page = text(client, f"/relays/{relay.pk}/cost/")
    assert "Cost against compaction: not yet" in page and "data-chart " not in page and "$0.00" not in page
    Comparison.objects.create(relay=relay, wanted_at=timezone.now())
    page = text(client, f"/relays/{relay.pk}/cost/")
    assert "Being computed" in page and "it is being computed now" in page
    Comparison.objects.update(computed_at=timezone.now(), wanted_at=None, why="no leg has a call with a known model")
    assert "not yet, no leg has a call with a known model" in text(client, f"/relays/{relay.pk}/cost/")


def test_a_partial_total_says_what_it_misses_and_unpriced_is_never_zero(client_of: ClientOf) -> None:
    relay = make_relay()
    row = make_comparison(relay)
    row.observed["unpriced"] = 7
    row.save()
    client = client_of("manager")
    page = text(client, f"/relays/{relay.pk}/cost/")
    assert "partial: 7 calls unpriced" in page and "all priced" not in page
    row.observed["cost"] = None
    row.baselines[0]["cost"] = None
    row.verdict, row.saving, row.saving_low, row.saving_high = "not yet", None, None, None
    row.save()
    bump(f"cost:{relay.pk}")
    page = text(client, f"/relays/{relay.pk}/cost/")
    assert "unpriced</small>" in page and "$0.00" not in page


def test_a_way_that_does_not_finish_has_no_money(client_of: ClientOf) -> None:
    relay = make_relay()
    make_comparison(relay, baselines=[baseline(), baseline("none", "9.00", exceeded_at=61)])
    page = text(client_of("manager"), f"/relays/{relay.pk}/cost/")
    assert "does not finish" in page and "window full at call 61" in page and "$9.00" not in page


def test_scripted_usage_is_labelled(client_of: ClientOf) -> None:
    relay = make_relay()
    make_comparison(relay, scripted=True)
    assert "scripted worker: its usage figures are made, not a model" in text(
        client_of("manager"), f"/relays/{relay.pk}/cost/"
    )


def test_each_figure_has_its_provenance_with_its_source(client_of: ClientOf) -> None:
    relay = make_relay()
    make_comparison(relay)
    page = text(client_of("manager"), f"/relays/{relay.pk}/cost/")
    for words in (
        'data-source="Claude Code: the window less 33,000">ASSUMED',
        'data-source="8 compactions of 3 sessions">OBSERVED',
        'data-source="nothing is measured">ASSUMED', "SIMULATED", "0.6 … 0.95",
    ):  # fmt: skip
        assert words in page, words


def test_text_of_sources_is_only_text(client_of: ClientOf) -> None:
    relay = make_relay(objective=BAD)
    row = make_comparison(relay, why="", verdict_why=BAD, forecast_why=BAD)
    row.baselines[0]["parameters"]["trigger"]["source"] = BAD
    row.baselines[0]["policy"] = BAD
    row.sensitivity[0]["name"] = BAD
    row.faithful = {"verdict": BAD, "what": BAD, "rows": [[BAD, 0.5, 6]]}
    row.save()
    page = text(client_of("manager"), f"/relays/{relay.pk}/cost/")
    assert "<script>alert" not in page and ">49<" not in page


def test_stored_rows_of_another_shape_break_no_page(client_of: ClientOf) -> None:
    relay = make_relay()
    make_comparison(
        relay, observed=[], baselines={"a": 1}, sensitivity=[3, {"name": None}], line=[[1], "x", [None, "NaN"]],
        series={"x": "1", "observed": [None]}, legs=[{}], busts=[{}, 4], orientation=[], prices=[], progress=[],
        faithful={"rows": [[1, 2]]}, forecast=[{"axis": None}],
    )  # fmt: skip
    client = client_of("manager")
    assert "not yet" in text(client, f"/relays/{relay.pk}/cost/")
    for name in ("ways", "cumulative", "legs", "busts", "parameters", "sensitivity"):
        assert table(client, f"/relays/{relay.pk}/cost/?format=csv&of={name}")


def test_a_boundary_names_the_leg_that_it_ended(client_of: ClientOf) -> None:
    relay = make_relay()
    make_comparison(relay, busts=[{"leg": 7, "turn": 30, "tokens": 6_000}])
    address = f"/relays/{relay.pk}/cost/"
    assert table(client_of("manager"), address + "?format=csv&of=busts") == [
        ["boundary", "ended leg", "after its call", "tokens written again"], ["1", "7", "30", "6000"],
    ]  # fmt: skip
    page = text(client_of("manager"), address)
    assert "into leg" not in page and ">ended leg<" in page and ">after its call<" in page


# ---- back-test ------------------------------------------------------------------------------------------------------


def test_the_back_test_says_the_median_and_the_error_of_this_session(client_of: ClientOf) -> None:
    session, _ = make_story()
    make_comparison(session)
    make_backtest(session)
    CostState.objects.create(
        name="backtest", at=timezone.now(),
        value={"sessions": 8, "median_abs_error": 0.038, "count_right": 0.875, "left_out_calls": 29},
    )  # fmt: skip
    page = text(client_of("manager"), f"/sessions/{session.pk}/cost/")
    for words in (
        "2.4 % too much: predicted $12.10, observed $12.40", "8 that really compacted", "3.8 % on cost",
        "7 of 8, 87.5 %",
        "29 times, on both sides",
    ):  # fmt: skip
        assert words in page, words


# ---- charts and tables ----------------------------------------------------------------------------------------------


def test_each_chart_is_its_own_part_and_has_its_table(client_of: ClientOf) -> None:
    relay = make_relay()
    make_comparison(relay)
    client = client_of("manager")
    page = text(client, f"/relays/{relay.pk}/cost/")
    for name in CHARTS:
        assert f'id="chart-{name}"' in page and f'id="d-{name}"' in page
        data = json.loads(text(client, f"/relays/{relay.pk}/cost/?part={name}"))
        assert data["figure"]["data"] and data["alternative"]
    assert page.count("data-chart-table") == len(CHARTS) - 1, "peaks are a column of the legs' table"
    first = client.get(f"/relays/{relay.pk}/cost/?part=body")
    again = client.get(f"/relays/{relay.pk}/cost/?part=body", HTTP_IF_NONE_MATCH=first["ETag"])
    assert again.status_code == 304


def test_a_view_draws_at_most_4000_points_and_keeps_the_dearest_leg(client_of: ClientOf) -> None:
    relay = make_relay()
    row = make_comparison(relay)
    row.legs = [{**row.legs[0], "leg": n, "output": "9" if n == 1_900 else "0.3"} for n in range(2_000)]
    row.busts = [{"leg": n, "turn": n, "tokens": 5} for n in range(2_000)]
    row.save()
    page = text(client_of("manager"), f"/relays/{relay.pk}/cost/?part=legs")
    drawn = json.loads(page)["figure"]["data"]
    assert sum(len(trace["y"]) if isinstance(trace["y"], list) else 900 for trace in drawn) <= 4_000
    assert "the dearest is 1900" in page


def test_tables_as_csv_are_whole_and_no_formula(client_of: ClientOf) -> None:
    relay = make_relay()
    row = make_comparison(relay)
    row.baselines[0]["parameters"]["trigger"]["source"] = "=1+1"
    row.save()
    client = client_of("manager")
    ways = table(client, f"/relays/{relay.pk}/cost/?format=csv&of=ways")
    assert [line[0] for line in ways[1:]] == [
        "this relay", "compaction", "context editing", "sliding window", "no carry-over policy",
    ]  # fmt: skip
    assert ways[1][2] == "8.2500"
    assert ["'=1+1"] == [line[-1] for line in table(client, f"/relays/{relay.pk}/cost/?format=csv&of=parameters")][1:2]
    assert len(table(client, f"/relays/{relay.pk}/cost/?format=csv&of=cumulative")) == 5


# ---- what it costs to ask -------------------------------------------------------------------------------------------


def test_a_page_asks_the_same_number_of_questions_whatever_its_size(client_of: ClientOf) -> None:
    small, large = make_relay(), make_relay()
    make_leg(small, 0, resident=[20_000])
    make_comparison(small, legs=[], busts=[])
    for n in range(20):
        make_leg(large, n, resident=[20_000, 60_000], reason="RELAY_ROTATED")
    row = make_comparison(large)
    row.legs = [{**row.legs[0], "leg": n} for n in range(2_000)]
    row.save()
    client = client_of("manager")
    client.get("/vocabulary/")
    counts = []
    for relay in (small, large):
        with CaptureQueriesContext(
            connection,
        ) as asked:
            text(client, f"/relays/{relay.pk}/cost/")
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 12, counts


# ---- real work, and other parameters --------------------------------------------------------------------------------


def computed(relay: Relay) -> Comparison:
    """As the background task does it."""
    rollups.cut_legs(rollups.due_legs_of(relay.pk))
    return refresh.compute_relay(relay)


def test_a_constructed_relay_that_loses_is_dearer_in_words_on_its_page(client_of: ClientOf) -> None:
    relay = losing_relay()
    row = computed(relay)
    page = text(client_of("manager"), f"/relays/{relay.pk}/cost/")
    assert f"<h1>Dearer than compaction by {money(row.saving or Decimal(0))}" in page
    assert "cheaper: violated" in page and "the relay lost: it costs" in page and "lost by the relay" in page
    assert "OBSERVED" in page and "all priced" in page
    fleet = text(client_of("manager"), "/cost/?range=all")
    assert "lost against compaction" in fleet and "1 dearer" in fleet and ">dearer" in fleet


def test_other_parameters_are_played_on_the_kept_work_and_stored_nowhere(client_of: ClientOf) -> None:
    relay = winning_relay()
    row = computed(relay)
    client = client_of("manager")
    address = f"/relays/{relay.pk}/cost/"
    page = text(client, address)
    assert "<h1>Cheaper than compaction by" in page and 'name="trigger"' in page and "With your own" not in page
    page = text(client, address + "?reread=0&residue=0.0&summary_call=0&trigger=0.5")
    assert "With your own parameters:" in page and "As stored: Cheaper than compaction by" in page
    assert "<h1>Cheaper" not in page and 'data-source="chosen by you' in page
    assert "hx-get" not in page.split("<main")[1] and "data-src" not in page, "nothing is played again by itself"
    part = client.get(address + "?reread=0&residue=0.0&summary_call=0&trigger=0.5&part=cumulative")
    assert (
        json.loads(part.content)["alternative"] != json.loads(text(client, address + "?part=cumulative"))["alternative"]
    )
    table_ = table(client, address + "?reread=0&residue=0.0&summary_call=0&trigger=0.5&format=csv&of=parameters")
    assert ["re-read, compaction", "0"] in [line[:2] for line in table_]
    again = Comparison.objects.get(pk=row.pk)
    assert (again.verdict, again.saving) == (row.verdict, row.saving)


def test_a_wrong_parameter_is_answered_beside_its_field(client_of: ClientOf) -> None:
    relay = make_relay()
    make_comparison(relay)
    page = text(client_of("manager"), f"/relays/{relay.pk}/cost/?trigger=1.4&reread=<script>alert(1)")
    assert "1.4 is more than all of it: write a share up to 1" in page and page.count('aria-invalid="true"') == 2
    assert "&#x27;&lt;script&gt;alert(1)&#x27; is no number" in page and "<script>alert" not in page
    assert "Nothing was played: a parameter cannot be read" in page and "With your own" not in page


def test_parameters_that_cannot_be_played_say_why(client_of: ClientOf) -> None:
    relay, other = make_relay(), make_relay()
    client = client_of("manager")
    page = text(client, f"/relays/{relay.pk}/cost/?reread=5")
    assert "Nothing is compared yet that could be played" in page
    make_comparison(other)
    page = text(client, f"/relays/{other.pk}/cost/?reread=5")
    assert "too long to be played while you wait" in page and "<h1>Cheaper" in page
    damaged = winning_relay(2)
    StoredWork.objects.filter(comparison=computed(damaged)).update(more={"kept": "x"})
    assert "Nothing was played" in text(client, f"/relays/{damaged.pk}/cost/?reread=5")
    assert "of=" not in text(client, f"/relays/{other.pk}/cost/?unknown=5").split("<main")[0]


# ---- from other pages -----------------------------------------------------------------------------------------------


def test_lists_and_pages_lead_to_the_cost_and_say_who_won(client_of: ClientOf) -> None:
    won, lost, open_ = make_relay(), make_relay(), make_relay()
    make_comparison(won)
    make_comparison(lost, verdict="dearer", saving=Decimal("-1.50"))
    client = client_of("manager")
    page = text(client, "/relays/")
    assert "cheaper</a> by $2.95" in page and "dearer</a> by $1.50" in page
    assert all(f'href="/relays/{relay.pk}/cost/"' in page for relay in (won, lost, open_))
    assert f'href="/relays/{won.pk}/cost/"' in text(client, f"/relays/{won.pk}/")
    session, _ = make_story()
    type(session).objects.update(shadow={"mark": 120_000, "rotations": 1})
    make_comparison(session, baselines=[baseline("relay", "5.30")])
    page = text(client, f"/sessions/{session.pk}/")
    assert "$5.30" in page and f'href="/sessions/{session.pk}/cost/"' in page


def test_a_live_page_may_listen_to_costs_and_to_no_other_word() -> None:
    from django.core.exceptions import BadRequest
    from django.test import RequestFactory

    from relays.views.live_view import asked_topics

    ask = RequestFactory().get
    topics = "cost,cost:RLY-20261130-0001,cost:session:7"
    assert asked_topics(ask("/live/", {"topics": topics})) == frozenset(topics.split(","))
    for wrong in ("cost:", "costs", "cost:session:x/..", "cost:a b"):
        with pytest.raises(BadRequest):
            asked_topics(ask("/live/", {"topics": wrong}))
