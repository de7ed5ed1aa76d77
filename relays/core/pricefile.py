"""The site's own price table: negotiated prices and models that no library knows, as TOML.

Cost: prices come from "a maintained price library plus a site override table". A malformed table is refused whole: a
price that is silently left out would show another one in its place.

    [[price]]
    model = "claude-opus-5"       # as agents write it, or its beginning and a *
    provider = "our contract"     # optional, shown with the price
    since = 2026-01-01            # optional: holds for calls from then on (a day begins in UTC)
    input = 4.50                  # dollars per million tokens
    cache_read = 0.45
    cache_write_5m = 5.625
    cache_write_1h = 9
    output = 22.50
    [[price.tier]]                # optional: requests whose input side is longer cost this instead
    above = 200_000
    input = 9
    output = 33.75
"""

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

from relays.core.pricing import Rate, Rates, RatesError, bare, make_rate

LARGEST_FILE: Final = 1024 * 1024  # characters
MOST_ROWS: Final = 2_000
SITE: Final = "site"
_RATES: Final = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
_KEYS: Final = ("model", "provider", "since", *_RATES, "tier")
_TIER_KEYS: Final = ("above", *_RATES)
_MODEL: Final = re.compile(r"[^\x00-\x20\x7f*]{1,200}\*?")


class PriceFileError(ValueError):
    """A table that is refused: where and why, one line."""


@dataclass(frozen=True, slots=True)
class SiteRow:
    """One row: `model` in lower case, perhaps with `*` at its end; it holds for calls at or after `since` (UTC)."""

    model: str
    provider: str
    since: datetime | None
    rates: Rates

    def matches(self, name: str) -> bool:
        """Whether a model's name in lower case is this row's."""
        return name.startswith(self.model[:-1]) if self.model.endswith("*") else name == self.model


def parse(text: str) -> tuple[SiteRow, ...]:
    """The rows of a site's table. Raises PriceFileError for the first thing that is wrong, with row and key."""
    if len(text) > LARGEST_FILE:
        raise PriceFileError(f"the file is longer than {LARGEST_FILE} characters")
    try:
        whole = tomllib.loads(text, parse_float=Decimal)
    except RecursionError:
        raise PriceFileError("the file is nested too deeply") from None
    except (ValueError, ArithmeticError) as problem:
        raise PriceFileError(f"the file is not valid TOML: {_line(problem)}") from None
    if others := sorted(set(whole) - {"price"}):
        raise PriceFileError(f"{_line(others[0])} stands outside the rows, each of which begins with [[price]]")
    rows = whole.get("price")
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise PriceFileError("the file has no rows: begin each with [[price]]")
    if len(rows) > MOST_ROWS:
        raise PriceFileError(f"the file has more than {MOST_ROWS} rows")
    found = [_row(number, row) for number, row in enumerate(rows, 1)]
    seen: dict[tuple[str, datetime | None], int] = {}
    for number, one in enumerate(found, 1):
        first = seen.setdefault((one.model, one.since), number)
        if first != number:
            raise PriceFileError(
                f"row {number}: model {_line(one.model)} has another price since that time, row {first}"
            )
    return tuple(found)


def _row(number: int, row: Mapping[str, Any]) -> SiteRow:
    where = f"row {number}"
    _known(row, _KEYS, where)
    model = row.get("model")
    if not isinstance(model, str) or not _MODEL.fullmatch(model):
        raise PriceFileError(f"{where}: model must be a model's name, or its beginning and a *")
    where = f"{where} ({_line(model)})"
    provider = row.get("provider", SITE)
    if not isinstance(provider, str) or not provider.isprintable() or not 0 < len(provider) <= 60:
        raise PriceFileError(f"{where}: provider must be a short text")
    tiers = row.get("tier", [])
    if not isinstance(tiers, list) or not all(isinstance(tier, dict) for tier in tiers):
        raise PriceFileError(f"{where}: tier must be written as [[price.tier]]")
    for tier in tiers:
        _known(tier, _TIER_KEYS, where)
        if "above" not in tier:
            raise PriceFileError(f"{where}: a tier needs above = the input tokens of a request")
    try:
        rates = Rates(**{name: _rate(name, row, tiers) for name in _RATES})
    except RatesError as problem:
        raise PriceFileError(f"{where}: {problem}") from None
    if rates.input is None or rates.output is None:
        raise PriceFileError(f"{where}: needs a price for input and one for output")
    return SiteRow(model.lower(), provider, _since(where, row.get("since")), rates)


def names(model: str) -> tuple[str, ...]:
    """Under which names a call's model is looked for in the table, the most exact first."""
    plain = bare(model)
    whole = model.strip().lower()
    return tuple(dict.fromkeys((whole, plain, plain.rpartition("/")[2])))


def _rate(name: str, row: Mapping[str, Any], tiers: list[dict[str, Any]]) -> Rate | None:
    above = [(tier["above"], tier[name]) for tier in tiers if name in tier]
    if name not in row:
        if above:
            raise RatesError(f"{name} has a tier and no price below it")
        return None
    return make_rate(name, row[name], above)


def _since(where: str, value: object) -> datetime | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise PriceFileError(f"{where}: since has a time and no zone: write 2026-01-01T00:00:00Z")
        return value.astimezone(UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    raise PriceFileError(f"{where}: since must be a day such as 2026-01-01, without quotes")


def _known(table: Mapping[str, Any], keys: tuple[str, ...], where: str) -> None:
    for key in table:
        if key not in keys:
            near = difflib.get_close_matches(key[:100], keys, n=1, cutoff=0.7)
            hint = f", did you mean {near[0]}?" if near else f"; it takes {', '.join(keys)}"
            raise PriceFileError(f"{where}: unknown key {_line(key)}{hint}")


def _line(text: object) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in str(text))[:200]


def choose(rows: tuple[SiteRow, ...], model: str, at: datetime | None) -> SiteRow | None:
    """The row that holds for a call, or None: an exact name before a pattern, a longer pattern before a shorter one,

    then the latest `since` that is not after `at`. `at` None: only where that model has one price for all times.
    """
    called = names(model)
    patterns = {row.model for row in rows if row.model.endswith("*") and any(map(row.matches, called))}
    for pattern in (*called, *sorted(patterns, key=lambda one: (-len(one), one))):
        dated = [row for row in rows if row.model == pattern]
        if at is None:
            holding = dated if len(dated) == 1 and dated[0].since is None else []
        else:
            holding = [row for row in dated if row.since is None or row.since <= at]
        if holding:
            return max(holding, key=lambda row: row.since or _ALWAYS)
    return None


_ALWAYS: Final = datetime.min.replace(tzinfo=UTC)


def about(rows: tuple[SiteRow, ...], model: str) -> tuple[SiteRow, ...]:
    """The rows that are about this model, whatever their time: `choose` needs no others."""
    called = names(model)
    return tuple(row for row in rows if any(row.matches(name) for name in called))
