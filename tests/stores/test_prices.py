"""cost.md, Prices: a maintained library plus the site's table, effective-dated; the row used is kept with the cost."""

import subprocess
import sys
import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from genai_prices import Usage
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, ModelPrice, Provider
from hypothesis import given
from hypothesis import settings as bounds
from hypothesis import strategies as st

from relays.core import pricefile, pricing
from relays.core.pricing import Rates
from relays.core.usage import Buckets
from relays.models import PriceRow
from relays.stores.prices import LibraryModel, PriceBook, book

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
D = Decimal
SITE = """
[[price]]
model = "claude-opus-5"
provider = "our contract"
since = 2026-07-01
input = 4
output = 20
[[price]]
model = "in-house-*"
input = 0
output = 0
"""


def cost(found: PriceBook, model: str, agent: str, at: datetime | None, buckets: Buckets) -> Decimal | None:
    price = found.find(model, agent, at)
    return pricing.cost(price.rates, buckets) if price is not None else None


# --- against the library's own arithmetic -----------------------------------------------------------------------------

#: what the comparison covers: whatever prices tokens of text alone, in every tier and at every date
TEXT = {"input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok", "cache_write_1h_mtok"}
IGNORED = {"web_searches_kcount", "storage_searches_kcount"}  # counted apart from tokens: never in a session file


def _keys(model: ModelInfo) -> set[str]:
    prices = model.prices if isinstance(model.prices, list) else [model.prices]
    rows = [getattr(one, "prices", one) for one in prices]
    return {key for row in rows for key, value in row.__dict__.items() if value is not None}


def _comparable() -> list[tuple[Provider, ModelInfo]]:
    found = [
        (provider, model)
        for provider in get_snapshot().providers
        for model in provider.models
        if {"input_mtok", "output_mtok"} <= _keys(model) <= TEXT | IGNORED
    ]
    assert len(found) > 1_500
    return found


MODELS = _comparable()
tokens = st.integers(0, 400_000)


@bounds(max_examples=400)
@given(
    st.integers(0, len(MODELS) - 1), tokens, tokens, tokens, tokens, tokens,
    st.datetimes(datetime(2025, 1, 1), datetime(2027, 6, 1)),  # noqa: DTZ001 - made aware below
)  # fmt: skip
def test_our_cost_is_the_librarys_over_models_tiers_dates_and_usages(
    place: int, input: int, read: int, five: int, hour: int, output: int, naive: datetime
) -> None:
    """Its `input_tokens` includes cached tokens. We differ on purpose where a rate is missing: see the tests below."""
    provider, model = MODELS[place]
    at = naive.replace(tzinfo=UTC)
    mine = LibraryModel("test", provider, model).at(at)
    assert mine is not None
    keys = {key for key, value in model.get_prices(at).__dict__.items() if value is not None}
    read = read if "cache_read_mtok" in keys else 0
    hour = hour if "cache_write_1h_mtok" in keys else 0
    usage: dict[str, int] = {"input_tokens": input + read + five + hour, "output_tokens": output}
    if "cache_read_mtok" in keys:
        usage["cache_read_tokens"] = read
    if keys & {"cache_write_mtok", "cache_write_1h_mtok"}:
        usage |= {"cache_write_tokens": five + hour, "cache_write_1h_tokens": hour}
    theirs = model.calc_price(Usage(**usage), provider, genai_request_timestamp=at).total_price
    assert pricing.cost(mine.rates, Buckets(input, read, five, hour, output)) == theirs


def test_every_row_of_the_library_is_taken_as_it_is() -> None:
    """All tiers, and floats with all their digits: what was read wrongly would price calls wrongly, in silence."""
    rows = 0
    for provider in get_snapshot().providers:
        for model in provider.models:
            prices = model.prices if isinstance(model.prices, list) else [model.prices]
            for one in prices:
                row = getattr(one, "prices", one)
                alone = ModelInfo(id=model.id, match=model.match, prices=row)
                found = LibraryModel("test", provider, alone).at(NOW)
                assert (found is None) == (not TEXT & {key for key, value in row.__dict__.items() if value is not None})
                if found is not None and row.input_mtok is not None:
                    rate = found.rates.input
                    assert rate is not None and rate.base == getattr(row.input_mtok, "base", row.input_mtok)
                    tiers = [(tier.start, tier.price) for tier in getattr(row.input_mtok, "tiers", ())]
                    assert list(rate.tiers) == tiers
                    rows += 1
    assert rows > 2_000


def test_a_row_of_the_library_that_is_none_prices_nothing() -> None:
    provider, model = MODELS[0]
    odd = ModelInfo(id="odd", match=model.match, prices=ModelPrice(input_mtok=D(-1), output_mtok=D(1)))
    assert LibraryModel("test", provider, odd).at(NOW) is None


@pytest.mark.parametrize(
    ("model", "agent", "expected"),
    [
        ("claude-opus-4-5-20251101", "claude-code", "0.2775"),
        ("claude-sonnet-4-5-20250929[1m]", "claude-code", "0.1665"),
        ("anthropic/claude-haiku-4-5", "opencode", "0.0555"),
        ("claude-opus-5", "claude-code", "0.2775"),
        ("claude-sonnet-5", "claude-code", "0.111"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-code", "0.18315"),
    ],
)
def test_figures_that_were_checked_by_hand(model: str, agent: str, expected: str) -> None:
    """stack.md 2.1: 100k input of which 80k read and 10k written, 5k output; regional Bedrock is 10 % dearer."""
    assert cost(PriceBook(), model, agent, NOW, Buckets(10_000, 80_000, 10_000, 0, 5_000)) == D(expected)


@pytest.mark.parametrize(
    ("model", "expected"), [("gpt-5.1-codex", "0.085"), ("gpt-5.5", "0.29"), ("gpt-5", "0.085"), ("o3", "0.12")]
)
def test_codex_figures_that_were_checked_by_hand(model: str, expected: str) -> None:
    """100k input of which 80k cached, 5k output; the tier of gpt-5.5 begins above 272k."""
    assert cost(PriceBook(), model, "codex", NOW, Buckets(20_000, 80_000, 0, 0, 5_000)) == D(expected)


def test_t4_hour_writes_have_their_own_price_in_the_library_and_without_one_cost_twice_the_input() -> None:
    """T4 (ccusage#899): an hour of cache costs twice the input, five minutes 1.25 times."""
    assert cost(PriceBook(), "claude-sonnet-4-5", "claude-code", NOW, Buckets(cache_write_1h=1_000_000)) == 12
    assert cost(PriceBook(), "claude-opus-4-5", "claude-code", NOW, Buckets(cache_write_1h=1_000_000)) == 10
    assert cost(PriceBook(), "claude-opus-4-5", "claude-code", NOW, Buckets(cache_write_5m=1_000_000)) == D("6.25")
    # the library has a price for writes and none for an hour of it: it would bill it as five minutes
    vertex = PriceBook().find("claude-3-5-haiku@20241022", "claude-code", NOW)
    assert vertex is not None and (vertex.provider, vertex.rates.cache_write_1h) == ("google", None)
    assert pricing.cost(vertex.rates, Buckets(cache_write_1h=1_000_000)) == D("1.6")


def test_cached_tokens_without_a_price_are_unpriced_where_the_library_would_take_the_input_price() -> None:
    found = PriceBook().find("gpt-5-pro", "codex", NOW)
    assert found is not None and found.rates.cache_read is None
    assert pricing.cost(found.rates, Buckets(input=1_000, cache_read=1)) is None


# --- by time ----------------------------------------------------------------------------------------------------------


def test_a_price_change_at_midnight_applies_to_calls_after_it() -> None:
    long = Buckets(input=300_000)
    midnight = datetime(2026, 3, 13, tzinfo=UTC)
    before = cost(PriceBook(), "claude-opus-4-6", "claude-code", midnight - timedelta(microseconds=1), long)
    after = cost(PriceBook(), "claude-opus-4-6", "claude-code", midnight, long)
    assert (before, after) == (D(3), D("1.5")), "the tier above 200k was dropped that day"
    first = PriceBook().find("claude-opus-4-6", "claude-code", midnight - timedelta(days=1))
    second = PriceBook().find("claude-opus-4-6", "claude-code", midnight + timedelta(days=99))
    assert first is not None and second is not None
    assert (first.since, second.since) == (None, midnight)
    assert first.digest != second.digest


def test_a_change_of_the_clock_counts_in_utc() -> None:
    local = datetime.fromisoformat("2026-03-13T01:00:00+02:00")  # still the 12th in UTC
    assert cost(PriceBook(), "claude-opus-4-6", "claude-code", local, Buckets(input=300_000)) == 3


def test_prices_by_the_hour_of_the_day() -> None:
    cheap, dear = datetime(2026, 6, 1, 20, tzinfo=UTC), datetime(2026, 6, 1, 10, tzinfo=UTC)
    mega = Buckets(input=1_000_000)
    assert cost(PriceBook(), "deepseek-chat", "relay", cheap, mega) == D("0.135")
    assert cost(PriceBook(), "deepseek-chat", "relay", dear, mega) == D("0.27")


def test_a_call_without_a_time_has_a_price_only_where_it_never_changed() -> None:
    assert PriceBook().find("claude-opus-5", "claude-code", None) is not None
    assert PriceBook().find("claude-opus-4-6", "claude-code", None) is None
    own = PriceBook(pricefile.parse(SITE))
    assert own.find("claude-opus-5", "claude-code", None) is None
    assert own.find("in-house-3", "relay", None) is not None


@pytest.mark.parametrize(
    "model", ["", "<synthetic>", "claude-opus-99", "gpt-5.999", "my-proxy-model", "opus", "a" * 300]
)
def test_an_unknown_model_is_unpriced_never_zero(model: str) -> None:
    for agent in ("claude-code", "codex", "gemini-cli", "opencode", "relay"):
        assert PriceBook().find(model, agent, NOW) is None


def test_a_model_of_the_library_without_rates_is_unpriced() -> None:
    assert PriceBook().find("gemma-3", "gemini-cli", NOW) is None


# --- the site's table -------------------------------------------------------------------------------------------------


def test_the_sites_price_wins_from_its_day_on() -> None:
    own = PriceBook(pricefile.parse(SITE))
    before, after = (
        own.find("claude-opus-5", "claude-code", NOW),
        own.find("claude-opus-5[1m]", "claude-code", NOW + timedelta(30)),
    )
    assert before is not None and after is not None
    assert (before.source[:13], before.provider) == ("genai-prices ", "anthropic")
    assert (after.source, after.provider, after.since) == ("site", "our contract", datetime(2026, 7, 1, tzinfo=UTC))
    assert cost(own, "in-house-3", "relay", NOW, Buckets(input=5, output=5)) == 0, "a price of 0 is a price"


def test_the_book_follows_the_settings(settings: Any) -> None:
    settings.SITE_PRICES = ()
    assert book().find("in-house-3", "relay", NOW) is None
    settings.SITE_PRICES = pricefile.parse(SITE)
    assert book().find("in-house-3", "relay", NOW) is not None
    assert book() is book(), "one for each table of a process"


# --- rows that were used ----------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_row_is_kept_once_and_gives_its_rates_back() -> None:
    own = PriceBook(pricefile.parse(SITE))
    buckets = Buckets(10, 50_000, 1_500, 500, 300)
    first = own.price("claude-sonnet-4-5", "claude-code", NOW, buckets)
    again = PriceBook().price("claude-sonnet-4-5-20250929", "claude-code", NOW, Buckets(output=1))
    assert first is not None and again is not None
    assert first[0] == D("0.0281550000") and first[1].pk == again[1].pk
    (row,) = PriceRow.objects.all()
    assert (row.model, row.provider, row.since) == ("claude-sonnet-4-5", "anthropic", None)
    assert pricing.cost(pricing.from_json(row.rates), buckets) == D("0.028155")
    assert own.price("nobody", "relay", NOW, buckets) is None
    assert own.price("gpt-5-pro", "codex", NOW, Buckets(cache_read=1)) is None
    assert PriceRow.objects.count() == 1, "what is unpriced keeps no row"


@pytest.mark.django_db
def test_twenty_thousand_calls_take_a_fixed_number_of_queries() -> None:
    asked = [
        (model, "claude-code", NOW + timedelta(minutes=number), Buckets(number, number, 1, 1, 1))
        for number in range(5_000)
        for model in ("claude-opus-5", "claude-opus-4-6", "<synthetic>", "claude-haiku-4-5-20251001")
    ]
    with CaptureQueriesContext(
        connection,
    ) as first:
        costs = PriceBook().bulk(asked)
    with CaptureQueriesContext(connection) as second:
        again = PriceBook().bulk(asked)
    assert (len([one for one in first if "SAVEPOINT" not in one["sql"]]), len(second)) == (3, 1)
    assert costs == again
    assert [one is None for one in costs[:4]] == [False, False, True, False]
    rows = PriceRow.objects.in_bulk()
    for (model, _, _, buckets), one in list(zip(asked, costs, strict=True))[::97]:
        if model != "<synthetic>":
            assert one is not None
            exact = pricing.cost(pricing.from_json(rows[one[1]].rates), buckets)
            assert exact is not None and one[0] == pricing.kept(exact)
    assert PriceBook().bulk([]) == []


@pytest.mark.django_db(transaction=True)
def test_two_that_price_at_once_keep_one_row() -> None:
    together = threading.Barrier(4)
    keys: list[int] = []

    def work() -> None:
        try:
            together.wait(10)
            found = PriceBook().bulk([("claude-opus-5", "claude-code", NOW, Buckets(input=1))])[0]
            assert found is not None
            keys.append(found[1])
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert len(keys) == 4 and len(set(keys)) == 1
    assert PriceRow.objects.count() == 1


def test_the_library_is_imported_only_by_who_prices_and_its_updater_never_starts() -> None:
    code = (
        "import os, sys, threading; os.environ['DJANGO_SETTINGS_MODULE'] = 'relaysite.settings'\n"
        "import django; django.setup()\n"
        "import relays.stores.prices as p\n"
        "assert 'genai_prices' not in sys.modules\n"
        "from datetime import UTC, datetime\n"
        "assert p.PriceBook().find('claude-opus-5', 'claude-code', datetime.now(UTC))\n"
        "assert 'genai_prices' in sys.modules\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_rates_of_the_library_are_the_five_of_a_session_file() -> None:
    day = PriceBook().find(
        "claude-opus-4-6", "claude-code", datetime.combine(date(2026, 1, 1), datetime.min.time(), UTC)
    )
    assert day is not None and isinstance(day.rates, Rates)
    assert pricing.as_json(day.rates) == {
        "input": ["5", [[200000, "10"]]],
        "cache_read": ["0.5", [[200000, "1"]]],
        "cache_write_5m": ["6.25", [[200000, "12.5"]]],
        "cache_write_1h": ["10", [[200000, "20"]]],
        "output": ["25", [[200000, "37.5"]]],
    }
