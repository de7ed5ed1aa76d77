"""The list of sessions and the rot curve, as reports: filters, order, sums, and no look at a call."""

from datetime import date, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relays.reports import rot
from relays.reports.sessions import clean_query, points_of, sessions_page, spark_points
from tests.session_builders import add_calls, add_fullness, add_leg, make_session, make_source

pytestmark = pytest.mark.django_db


def found(**values: str) -> list[str]:
    return [row.sid for row in sessions_page(clean_query(values)).rows]


def test_search_and_filters() -> None:
    now = timezone.now()
    old = make_session(
        sid="old", agent="codex", cwd="/srv/acme/docs", branch="help", model_names=["gpt-5.1-codex", "o\"4'%"],
        first_at=now - timedelta(days=9), last_at=now - timedelta(days=8),
    )  # fmt: skip
    make_session(sid="new", model_names=["claude-opus-4-5", "gpt-5"])
    make_session(sid="timeless", first_at=None, last_at=None, model_names=[])
    assert found(agent="codex") == found(repo="/srv/acme/docs") == found(q="HELP") == found(q="acme/d") == ["old"]
    assert found(model="gpt-5") == ["new"], "a model is its whole name"
    assert found(model="o\"4'%") == ["old"] and found(model="%") == []
    assert old.last_at is not None
    day = timezone.localdate(old.last_at)
    assert found(until=day.isoformat()) == found(since=(day - timedelta(days=2)).isoformat(), until=str(day)) == ["old"]
    assert found(since=(day + timedelta(days=1)).isoformat()) == ["new"]
    assert found(q="%") == [] and len(found()) == 3


def test_a_session_over_midnight_is_found_on_both_days() -> None:
    night = timezone.make_aware(timezone.datetime(2026, 3, 1, 23, 30))
    make_session(sid="night", first_at=night, last_at=night + timedelta(hours=1))
    assert found(since="2026-03-01", until="2026-03-01") == found(since="2026-03-02", until="2026-03-02") == ["night"]
    assert found(until="2026-02-28") == found(since="2026-03-03") == []


def test_words_that_mean_nothing_are_dropped() -> None:
    query = clean_query(
        {"sort": "password", "page": "-3", "q": "a\0b\n" + "x" * 900, "since": "2026-02-30", "until": "no"}
    )
    assert (query.sort, query.page, query.since, query.until) == ("-last", 1, None, None)
    assert query.text.startswith("ab") and len(query.text) == 200 and not clean_query({"since": "0001-01-01"}).since
    assert clean_query({"since": "20260301"}).since is None and clean_query({"since": "2026-03-01"}).since == date(
        2026, 3, 1
    )
    assert clean_query({"until": "9999-12-31"}).until is None and clean_query({"page": "9" * 50}).page == 999_999_999


@pytest.mark.parametrize("word", ["last", "agent", "calls", "peak", "full", "compactions", "tokens", "money"])
def test_each_order_and_its_reverse_hold_the_same_sessions(word: str) -> None:
    for n in range(4):
        make_session(calls=n, max_resident=n * 1000, cost=Decimal(n), window_tokens=None if n == 3 else 200_000 - n)
    up, down = found(sort=word), found(sort=f"-{word}")
    assert sorted(up) == sorted(down) and len(up) == 4


def test_the_fullest_window_comes_first_and_an_unknown_one_last() -> None:
    make_session(sid="half", max_resident=100_000, window_tokens=200_000)
    make_session(sid="full", max_resident=90_000, window_tokens=100_000)
    make_session(sid="unknown", max_resident=500_000, window_tokens=None)
    assert found(sort="-full") == ["full", "half", "unknown"]


def test_sums_over_what_matches_are_exact_and_say_what_they_miss() -> None:
    for n in (1, 2):
        make_session(
            calls=n, copied_calls=n, input_tokens=n, cache_read=10 * n, cache_write_5m=100 * n, cache_write_1h=7 * n,
            output_tokens=1000 * n, compactions=n, cost=Decimal("0.1"), unpriced_calls=n - 1, lower_bound=n == 2,
        )  # fmt: skip
    make_session(agent="codex", calls=50, cost=None, unpriced_calls=50)
    totals = sessions_page(clean_query({"agent": "claude-code"})).totals
    assert (totals.sessions, totals.calls, totals.copied, totals.cache_write, totals.tokens) == (2, 3, 3, 321, 3354)
    assert (totals.cost, totals.unpriced, totals.compactions, totals.lower_bound) == (Decimal("0.2"), 1, 3, 1)
    nothing = sessions_page(clean_query({"q": "nothing like it"}))
    assert nothing.totals.cost is None and nothing.any_session and not nothing.rows


def test_what_a_relay_would_have_done_is_not_yet_without_shadow_legs() -> None:
    make_session(sid="plain")
    shadowed = make_session(sid="shadowed", shadow={"mark": 120_000, "rotations": 1, "why": ""})
    make_session(sid="blind", shadow={"mark": None, "rotations": 0, "why": "not yet: the window is not known"})
    add_leg(shadowed, 0, 1, 5, "would_rotate", verified=4, dangling=1, unknown=0)
    add_leg(shadowed, 1, 6, 9, "compaction")
    rows = {row.sid: row for row in sessions_page(clean_query({})).rows}
    assert rows["plain"].rotations is rows["blind"].rotations is None and rows["shadowed"].rotations == 1
    assert rows["shadowed"].fidelity.text == "4/5"


def test_a_line_of_few_points_keeps_every_peak() -> None:
    series = {"n": 900, "points": [[n, 199_999 if n == 437 else n, 0] for n in range(1, 901)]}
    points = spark_points(series)
    assert 199_999 in points and points[0] == 1 and points[-1] == 900 and len(points) <= 60
    assert points_of("x") == points_of({"points": 3}) == points_of({"points": ["a", [1], ["x", 2]]}) == []


def test_as_many_queries_for_many_sessions_as_for_few_and_none_reads_a_call() -> None:
    counts = []
    for more in (3, 40):
        for _ in range(more):
            session = make_session()
            add_leg(session, 0, 1, 2, "end")
        add_calls(make_session(), [1, 2, 3], make_source())
        with CaptureQueriesContext(connection) as caught:
            sessions_page(clean_query({"model": "claude-opus-4-5", "sort": "-full"}))
            rot.curves()
        counts.append(len(caught))
        assert not any("relays_sessioncall" in query["sql"] for query in caught.captured_queries)
    assert counts[0] == counts[1] <= 10


def test_the_rot_curve_adds_up_sessions_and_is_not_yet_where_n_is_small() -> None:
    assert rot.curves().all == () and rot.curves().drawn == ()
    one, two = make_session(), make_session()
    add_fullness(one, 2, 60, 1)
    add_fullness(two, 2, 60, 1)
    add_fullness(two, 17, 80, 30)
    add_fullness(two, 25, 10, 99)  # no reader writes such a row: over the last bin, more failures than results
    add_fullness(two, 3, 4, 4, model="small")
    data = rot.curves()
    assert data.sessions == 2 and data.n == 214
    assert [curve.model for curve in data.all] == ["claude-opus-4-5", "small"]
    assert [curve.model for curve in data.drawn] == ["claude-opus-4-5"]
    big, small = data.all
    assert [(one.twentieth, one.n, one.errors) for one in big.bins] == [(2, 120, 2), (17, 80, 30), (20, 10, 10)]
    assert big.verdict.verdict == "violated" and small.verdict.verdict == "not yet" and big.bins[2].rate is None
