"""cost.md, Prices: "a site override table", effective-dated; a malformed one is refused whole, with row and key."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from relays.core import pricefile
from relays.core.pricefile import PriceFileError
from relays.core.pricing import Rate

DAY = datetime(2026, 1, 1, tzinfo=UTC)


def table(*rows: str) -> str:
    return "\n".join(f"[[price]]\n{row}" for row in rows)


def test_a_row_with_everything() -> None:
    (row,) = pricefile.parse(
        table(
            'model = "Claude-Opus-5"\nprovider = "our contract"\nsince = 2026-01-01\ninput = 4.50\ncache_read = 0.45\n'
            'cache_write_5m = "5.625"\ncache_write_1h = 9\noutput = 22.5\n'
            "[[price.tier]]\nabove = 200_000\ninput = 9\noutput = 33.75"
        )
    )
    assert (row.model, row.provider, row.since) == ("claude-opus-5", "our contract", DAY)
    assert row.rates.input == Rate(Decimal("4.50"), ((200_000, Decimal(9)),))
    assert row.rates.cache_read == Rate(Decimal("0.45")), "floats of TOML are read as decimals, exactly"
    assert row.rates.cache_write_1h == Rate(Decimal(9))


def test_a_time_with_a_zone_is_taken_in_utc() -> None:
    (row,) = pricefile.parse(table('model = "m"\nsince = 2026-01-01T02:00:00+02:00\ninput = 1\noutput = 1'))
    assert row.since == DAY


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["no rows"]),
        ("price = 3", ["no rows"]),
        ("price = [3]", ["no rows"]),
        ("[[prices]]\nmodel = 'm'", ["prices", "outside the rows"]),
        ("[[price]\n", ["not valid TOML"]),
        ("a = " + "[" * 20_000, ["nested too deeply"]),
        ("[[price]]\nmodel='m'\noutput=1\ninput = 1e99999999999999999999", ["not valid TOML"]),
        ("# " + "x" * pricefile.LARGEST_FILE, ["longer than"]),
        (table('input = 1\noutput = 1'), ["row 1", "model"]),
        (table('model = "a b"\ninput = 1\noutput = 1'), ["row 1", "model"]),
        (table('model = "*a*"\ninput = 1\noutput = 1'), ["row 1", "model"]),
        (table('model = 3\ninput = 1\noutput = 1'), ["row 1", "model"]),
        (table('model = "m"\ninput = 1'), ["row 1 (m)", "output"]),
        (table('model = "m"\noutput = 1'), ["row 1 (m)", "input"]),
        (table('model = "m"\ninput = -1\noutput = 1'), ["row 1 (m)", "input", "dollars"]),
        (table('model = "m"\ninput = nan\noutput = 1'), ["row 1 (m)", "input", "dollars"]),
        (table('model = "m"\ninput = inf\noutput = 1'), ["row 1 (m)", "input", "dollars"]),
        (table('model = "m"\ninput = "cheap"\noutput = 1'), ["row 1 (m)", "input", "dollars"]),
        (table('model = "m"\ninput = 1\noutputs = 1'), ["row 1", "outputs", "did you mean output?"]),
        (table('model = "m"\nzzz = 1'), ["row 1", "zzz", "it takes model"]),
        (table('model = "m"\ninput = 1\noutput = 1\nprovider = ""'), ["row 1 (m)", "provider"]),
        (table('model = "m"\ninput = 1\noutput = 1\nprovider = 5'), ["row 1 (m)", "provider"]),
        (table('model = "m"\ninput = 1\noutput = 1\nsince = "2026-01-01"'), ["row 1 (m)", "since"]),
        (table('model = "m"\ninput = 1\noutput = 1\nsince = 2026-01-01T00:00:00'), ["row 1 (m)", "zone"]),
        (table('model = "m"\ninput = 1\noutput = 1\ntier = 5'), ["row 1 (m)", "tier"]),
        (table('model = "m"\ninput = 1\noutput = 1\ntier = [5]'), ["row 1 (m)", "tier"]),
        (table('model = "m"\ninput = 1\noutput = 1\n[[price.tier]]\ninput = 2'), ["row 1 (m)", "above"]),
        (table('model = "m"\ninput = 1\noutput = 1\n[[price.tier]]\nabove = 0\ninput = 2'), ["(m)", "at least 1"]),
        (table('model = "m"\ninput = 1\noutput = 1\n[[price.tier]]\nabove = 9\ncache_read = 2'), ["has a tier"]),
        (table('model = "m"\ninput = 1\noutput = 1\n[[price.tier]]\nabov = 9'), ["did you mean above?"]),
        (table('model = "m"\ninput = 1\noutput = 1', 'model = "M"\ninput = 2\noutput = 2'), ["row 2", "row 1"]),
        ("price = [" + "{}," * 2001 + "]", ["more than 2000 rows"]),
    ],
)  # fmt: skip
def test_a_malformed_table_is_refused_in_one_line(text: str, words: list[str]) -> None:
    with pytest.raises(PriceFileError) as refused:
        pricefile.parse(text)
    said = str(refused.value)
    assert "\n" not in said and len(said) < 500
    assert all(word in said for word in words), said


ROWS = pricefile.parse(
    table(
        'model = "claude-*"\ninput = 1\noutput = 1',
        'model = "claude-opus-*"\nsince = 2026-01-01\ninput = 2\noutput = 1',
        'model = "claude-opus-5"\nsince = 2026-02-01\ninput = 3\noutput = 1',
        'model = "claude-opus-5"\nsince = 2026-03-01\ninput = 4\noutput = 1',
        'model = "claude-opus-5[1m]"\nsince = 2026-03-01\ninput = 5\noutput = 1',
    )
)


def chosen(model: str, at: datetime | None) -> int | None:
    row = pricefile.choose(ROWS, model, at)
    return None if row is None else int(row.rates.input.base) if row.rates.input else 0


def test_the_closest_name_and_the_latest_date_hold() -> None:
    assert chosen("claude-opus-5", DAY - timedelta(seconds=1)) == 1
    assert chosen("claude-opus-5", DAY) == 2, "a price holds from its midnight on"
    assert chosen("claude-opus-5", DAY + timedelta(days=31)) == 3
    assert chosen("claude-opus-5", DAY + timedelta(days=90)) == 4
    assert chosen("claude-opus-5[1m]", DAY + timedelta(days=90)) == 5, "a name with its window may have its own"
    assert chosen("claude-opus-5[1m]", DAY + timedelta(days=31)) == 3
    assert chosen("claude-opus-6", DAY + timedelta(days=90)) == 2
    assert chosen("anthropic/claude-haiku-9", DAY) == 1
    assert chosen("gpt-5", DAY) is None


def test_a_call_without_a_time_has_a_price_only_where_it_never_changed() -> None:
    assert chosen("claude-haiku-9", None) == 1
    only = pricefile.parse(table('model = "m"\nsince = 2026-01-01\ninput = 1\noutput = 1'))
    assert pricefile.choose(only, "m", None) is None
    assert pricefile.about(only, "M") == only
    assert pricefile.about(only, "n") == ()
