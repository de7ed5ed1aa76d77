"""What a call of a simulated window costs: three rates, by dollars or as multiples of an input token, exact.

Cost: "valid prefix at cache-read price, the rest at cache-write price, output at output price"; "per request, with
prompt-length tiers". A provider without a price for cache writes bills the rest as input.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Final, Literal

from relays.core.pricing import Rate, Rates
from relays.core.usage import Buckets

#: never the caller's context: a thread that rounds to six digits must not round money
EXACT: Final = Context(prec=60)
MILLION_DIGITS: Final = 6

Rest = Literal["input", "cache_write_5m", "cache_write_1h"]
Unit = Literal["dollars", "input tokens"]


@dataclass(frozen=True, slots=True)
class Tariff:
    """Whole-number prices: tokens x price x the unit of `tariffs_of` = money.

    `tiers`: (read, rest, output), the lowest first; a request above the n-th of `starts` is billed by the next one.
    """

    starts: tuple[int, ...]
    tiers: tuple[tuple[int, int, int], ...]

    def at(self, input_side: int) -> tuple[int, int, int]:
        """The prices of a request with that many tokens on its input side."""
        return self.tiers[bisect_left(self.starts, input_side)]


@dataclass(frozen=True, slots=True)
class Prices:
    """Rates for what is read from the cache, for the rest of the input, and for output.

    `measure` says what they are: dollars per million tokens, or multiples of an input token's price. `rest`: the bucket
    that the rest of the input is billed in.
    """

    read: Rate
    write: Rate
    output: Rate
    measure: Unit = "dollars"
    rest: Rest = "cache_write_5m"

    @classmethod
    def of(cls, rates: Rates, lifetime: Literal["5m", "1h"] = "5m") -> "Prices | None":
        """A model's rates; None = it has no price for input, for cache reads or for output: then there is no money.

        `lifetime`: of the cache entries that the agent writes.
        """
        used = rates.used()
        own, read, output = used["input"], used["cache_read"], used["output"]
        if own is None or read is None or output is None:
            return None
        rest: Rest = "input"
        write = own
        if rates.cache_write_5m is not None or rates.cache_write_1h is not None:
            rest = "cache_write_1h" if lifetime == "1h" else "cache_write_5m"
            write = used[rest] or own
        return cls(read, write, output, "dollars", rest)

    @classmethod
    def multiples(cls, read: Decimal, write: Decimal, output: Decimal) -> "Prices":
        """Multiples of an input token's price: money is then a number of input tokens."""
        return cls(Rate(read), Rate(write), Rate(output), "input tokens")

    def buckets(self, read: int, rest: int, output: int) -> Buckets:
        """Token sums in the five buckets."""
        if self.rest == "input":
            return Buckets(input=rest, cache_read=read, output=output)
        if self.rest == "cache_write_1h":
            return Buckets(cache_write_1h=rest, cache_read=read, output=output)
        return Buckets(cache_write_5m=rest, cache_read=read, output=output)

    def digits(self) -> int:
        """How many decimals the finest of all prices has."""
        return max(
            _decimals(price)
            for rate in (self.read, self.write, self.output)
            for price in (rate.base, *(above for _, above in rate.tiers))
        )


def tariffs_of(prices: Sequence[Prices]) -> tuple[tuple[Tariff, ...], Decimal]:
    """The rates as whole numbers, and what 1 is worth: a long stream is added up exactly and fast.

    Raises ValueError for no price, or for prices in different measures.
    """
    if len({one.measure for one in prices}) != 1:
        raise ValueError("prices of one stream need one measure")
    digits = max(one.digits() for one in prices)
    per_token = MILLION_DIGITS if prices[0].measure == "dollars" else 0
    unit = EXACT.scaleb(Decimal(1), Decimal(-digits - per_token))
    return tuple(_tariff(one, digits) for one in prices), unit


def _tariff(prices: Prices, digits: int) -> Tariff:
    rates = (prices.read, prices.write, prices.output)
    starts = sorted({start for rate in rates for start, _ in rate.tiers})
    # a start itself still belongs to the tier below it: a request must be above it
    sides = [0, *(start + 1 for start in starts)]
    return Tariff(
        tuple(starts),
        tuple(
            (_whole(prices.read, side, digits), _whole(prices.write, side, digits), _whole(prices.output, side, digits))
            for side in sides
        ),
    )


def _decimals(price: Decimal) -> int:
    exponent = price.as_tuple().exponent
    if not isinstance(exponent, int):
        raise ValueError(f"a price must be a number: {price}")
    return max(-exponent, 0)


def _whole(rate: Rate, side: int, digits: int) -> int:
    return int(EXACT.scaleb(rate.at(side), Decimal(digits)))


#: the prices of the published setting: "read ×0.1, write ×1.25 and nothing else charged"
PUBLISHED: Final = Prices.multiples(Decimal("0.1"), Decimal("1.25"), Decimal(0))
