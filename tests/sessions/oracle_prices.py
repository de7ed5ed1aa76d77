"""What a call costs, worked out a second time with fractions, and the table of prices that the made-up calls use.

Written from cost.md, Prices: effective-dated, tiers by the length of one request, 1-hour cache writes apart, a model or
a bucket without a price is unpriced and never 0.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

#: bucket -> (base, ((above, price), …)), in dollars per million tokens
Rates = Mapping[str, tuple[str, tuple[tuple[int, str], ...]]]
BUCKETS = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")


def _rates(tiers: Mapping[str, tuple[tuple[int, str], ...]] | None = None, **base: str) -> Rates:
    return {name: (price, (tiers or {}).get(name, ())) for name, price in base.items()}


#: model -> (holds since, rates), the newest first; "" = always
PRICES: dict[str, tuple[tuple[str, Rates], ...]] = {
    "flat-1": (("", _rates(input="3", cache_read="0.3", cache_write_5m="3.75", cache_write_1h="6", output="15")),),
    "tiered-1": (
        (
            "",
            _rates(
                {"input": ((40_000, "6.03"), (90_000, "7")), "output": ((40_000, "22.5"),)},
                input="3.01", cache_read="0.333", cache_write_5m="3.7501", cache_write_1h="6", output="15",
            ),
        ),
    ),
    "dated-1": (
        ("2026-03-10", _rates(input="1.5", cache_read="0.15", cache_write_5m="2", output="9")),  # no price of an hour
        ("", _rates(input="4", cache_read="0.4", cache_write_5m="5", cache_write_1h="8", output="20")),
    ),
    "plain-1": (("", _rates(input="0.7", output="2.8")),),  # its cache reads have no price
}  # fmt: skip
#: names that no table has
NOBODY = "nobody-made-this-1"
MODELS = (*PRICES, NOBODY)


def as_toml() -> str:
    """The same table as a site writes it down."""
    lines = []
    for model, rows in PRICES.items():
        for since, rates in rows:
            lines += ["[[price]]", f'model = "{model}"', *([f"since = {since}"] if since else [])]
            lines += [f"{name} = {base}" for name, (base, _) in rates.items()]
            starts = sorted({start for _, tiers in rates.values() for start, _ in tiers})
            for start in starts:
                lines += ["[[price.tier]]", f"above = {start}"]
                lines += [
                    f"{name} = {dict(tiers)[start]}" for name, (_, tiers) in rates.items() if start in dict(tiers)
                ]
    return "\n".join(lines)


def cost(model: str, at: str, tokens: Mapping[str, int]) -> Fraction | None:
    """Dollars of one call, kept to 1e-10; None = unpriced. `at`: an ISO time in UTC, "" where it has none."""
    rows = PRICES.get(model, ())
    if not at and len(rows) > 1:
        return None  # which of the prices held, nobody can tell
    for since, rates in rows:
        if not since or at[:10] >= since:
            return by(rates, tokens)
    return None


def by(rates: Rates, tokens: Mapping[str, int]) -> Fraction | None:
    """The same by rates."""
    side = sum(count for name, count in tokens.items() if name != "output")
    whole = Fraction(0)
    for name, count in tokens.items():
        if not count:
            continue
        found, times = rates.get(name), 1
        if found is None and name == "cache_write_5m":
            found = rates.get("input")
        if found is None and name == "cache_write_1h":
            # twice the input where writes have a price at all, else they are input
            found, times = rates.get("input"), 2 if "cache_write_5m" in rates else 1
        if found is None:
            return None
        base, tiers = found
        price = max(((start, price) for start, price in tiers if side > start), default=(0, base))[1]
        whole += Fraction(price) * times * count / 10**6
    return Fraction(round(whole * 10**10), 10**10)  # a half goes to the even one


def by_row(rates: Mapping[str, Any], tokens: Mapping[str, int]) -> Fraction | None:
    """The same by the rates of a price row as it is kept beside the cost."""
    read: dict[str, tuple[str, tuple[tuple[int, str], ...]]] = {}
    for name, one in rates.items():
        base, tiers = (one, []) if isinstance(one, str) else one
        read[name] = (base, tuple((start, price) for start, price in tiers))
    return by(read, tokens)


def summed(costs: Sequence[Fraction | None]) -> Decimal | None:
    """What a session cost: None where none of its calls has a price."""
    priced = [one for one in costs if one is not None]
    return Decimal(int(sum(priced) * 10**10)).scaleb(-10) if priced else None
