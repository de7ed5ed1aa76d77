"""What a call costs: rates per million tokens, tiers by the request's own length, exact in Decimal.

Cost: "Effective-dated, per model, per request, with prompt-length tiers"; "An unknown model is `unpriced`, never 0".
Where the rates come from is not known here: see `relays.stores.prices`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Final

from relays.core.usage import Buckets, resident

MILLION: Final = 1_000_000
#: what one call's cost is kept to, in dollars: every rate of up to four decimals is exact in it
KEPT: Final = Decimal("1e-10")
#: never the caller's context: a thread that rounds to six digits must not round money
_EXACT: Final = Context(prec=60)

#: names of models that stand for no model call
NOT_CALLED: Final = frozenset({"", "<synthetic>"})


class RatesError(ValueError):
    """A rate that is none; one line."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Dollars per million tokens. `tiers`: (start, price), ascending: the highest whose `start` the input side of the

    REQUEST is above holds for ALL its tokens (as providers bill: a cliff, not a slope).
    """

    base: Decimal
    tiers: tuple[tuple[int, Decimal], ...] = ()

    def at(self, input_side: int) -> Decimal:
        """The price that holds for a request with that many tokens on its input side."""
        price = self.base
        for start, above in self.tiers:
            if input_side > start:
                price = above
        return price

    def times(self, factor: int) -> "Rate":
        """The same rate, `factor` times as high."""
        return Rate(self.base * factor, tuple((start, price * factor) for start, price in self.tiers))


@dataclass(frozen=True, slots=True)
class Rates:
    """The five rates of one model; None = the source names none.

    Fall-backs, each where the source names no rate of its own: a cache write of 5 minutes costs what input costs (a
    provider without such a price bills it as input); one of an hour costs twice the input where the provider prices
    cache writes at all (as Anthropic's page says), else what input costs. A cache read has none.
    """

    input: Rate | None = None
    cache_read: Rate | None = None
    cache_write_5m: Rate | None = None
    cache_write_1h: Rate | None = None
    output: Rate | None = None

    def used(self) -> dict[str, Rate | None]:
        """Bucket -> the rate that `cost` takes, fall-backs filled in."""
        hour = self.cache_write_1h
        if hour is None and self.input is not None:
            hour = self.input if self.cache_write_5m is None else self.input.times(2)
        return {
            "input": self.input,
            "cache_read": self.cache_read,
            "cache_write_5m": self.cache_write_5m or self.input,
            "cache_write_1h": hour,
            "output": self.output,
        }


def cost(rates: Rates, buckets: Buckets) -> Decimal | None:
    """Dollars of ONE request, exact; None = unpriced: a bucket has tokens and no rate (see `unpriced`).

    Tiers are taken by the input side of this request: never price a sum of calls with it.
    """
    side = resident(buckets)
    total = Decimal(0)
    used = rates.used()
    for name, tokens in buckets.as_mapping().items():
        if tokens:
            rate = used[name]
            if rate is None:
                return None
            total = _EXACT.fma(rate.at(side), Decimal(tokens), total)
    return _EXACT.divide(total, Decimal(MILLION))


def kept(amount: Decimal) -> Decimal:
    """The cost of one call as it is kept, to 1e-10 dollars: what roll-ups add, so that they reconcile exactly."""
    return amount.quantize(KEPT, rounding=ROUND_HALF_EVEN, context=_EXACT)


#: (input, cache read, cache write 5 min, cache write 1 h, output) of one request -> units of `KEPT`; None = unpriced
PerCall = Callable[[int, int, int, int, int], int | None]
#: decimals of `KEPT`, and those that dollars per million tokens may have to be exact in it
_UNIT_DECIMALS: Final = 10
_EXACT_DECIMALS: Final = 4


def per_call(rates: Rates) -> PerCall:
    """What `kept(cost(…))` gives, as a whole number of 1e-10 dollars, to the last digit, worked out ahead.

    One multiplication a bucket: a call that is stored has no time for decimals.
    """
    used = tuple(rates.used().values())
    every = [price for rate in used if rate is not None for price in (rate.base, *(one for _, one in rate.tiers))]
    places = max((_decimals(price) for price in every), default=0)
    places = max(places, _EXACT_DECIMALS)

    def whole(price: Decimal) -> int:
        return int(_EXACT.scaleb(price, places))

    # what is finer than a unit: half goes to the even neighbour, as `kept` does it
    fine: int = 10 ** (places - _EXACT_DECIMALS)
    bases = tuple(None if rate is None else whole(rate.base) for rate in used)
    tiers = tuple(() if rate is None else tuple((start, whole(price)) for start, price in rate.tiers) for rate in used)

    def by_tier(*tokens: int) -> int | None:
        side = sum(tokens[:4])
        total = 0
        for count, price, steps in zip(tokens, bases, tiers, strict=True):
            if count:
                if price is None:
                    return None
                for start, above in steps:
                    if side > start:
                        price = above
                total += count * price
        units, rest = divmod(total, fine)
        return units + 1 if 2 * rest > fine or (2 * rest == fine and units % 2) else units

    if fine > 1 or None in bases:
        return by_tier
    # the five prices that hold above each start, all tiers of the model taken together
    starts = sorted({start for steps in tiers for start, _ in steps})
    rows = [tuple(_above(base, steps, start) for base, steps in zip(bases, tiers, strict=True)) for start in starts]
    lowest, higher = bases, tuple(zip(starts, rows, strict=True))

    def at_once(i: int, r: int, w: int, h: int, o: int) -> int:
        prices = lowest
        side = i + r + w + h
        for start, above in higher:
            if side > start:
                prices = above
        plain, read, short, hour, out = prices
        return i * plain + r * read + w * short + h * hour + o * out  # type: ignore[operator]  # none of them is None

    return at_once


def _above(base: int | None, steps: Sequence[tuple[int, int]], start: int) -> int | None:
    """The price of a request that is longer than `start`, and no longer than where the next tier of any kind begins."""
    return next((price for begins, price in reversed(steps) if begins <= start), base)


def _decimals(price: Decimal) -> int:
    exponent = price.as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def dollars(units: int) -> Decimal:
    """Units of `KEPT` as `kept` gives them."""
    return _EXACT.scaleb(Decimal(units), -_UNIT_DECIMALS)


def unpriced(rates: Rates, buckets: Buckets) -> tuple[str, ...]:
    """The buckets that have tokens and no rate, by name."""
    used = rates.used()
    return tuple(name for name, tokens in buckets.as_mapping().items() if tokens and used[name] is None)


# --- rates as JSON, as a price row keeps them


def as_json(rates: Rates) -> dict[str, object]:
    """Bucket -> "5" or ["3", [[200000, "6"]]] (base, tiers), those that the source names; `from_json` gives it back."""
    found: dict[str, object] = {}
    for name in _FIELDS:
        rate: Rate | None = getattr(rates, name)
        if rate is not None:
            tiers = [[start, plain(price)] for start, price in rate.tiers]
            found[name] = [plain(rate.base), tiers] if tiers else plain(rate.base)
    return found


def from_json(value: Mapping[str, object]) -> Rates:
    """What `as_json` wrote. Raises RatesError where it is damaged."""
    rates: dict[str, Rate] = {}
    for name, one in value.items():
        if name not in _FIELDS:
            raise RatesError(f"{name}: no such rate")
        if isinstance(one, list) and len(one) == 2 and isinstance(one[1], list):
            rates[name] = make_rate(name, one[0], one[1])
        else:
            rates[name] = make_rate(name, one)
    return Rates(**rates)


_FIELDS: Final = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")


def make_rate(name: str, base: object, tiers: Sequence[object] = ()) -> Rate:
    """A rate from untyped values; `tiers`: pairs of start and price, in any order. Raises RatesError."""
    found: list[tuple[int, Decimal]] = []
    for tier in tiers:
        if not isinstance(tier, Sequence) or isinstance(tier, str) or len(tier) != 2:
            raise RatesError(f"{name}: a tier is a start in tokens and a price")
        start, price = tier
        if not isinstance(start, int) or isinstance(start, bool) or start <= 0:
            raise RatesError(f"{name}: a tier starts above a whole number of tokens, at least 1")
        found.append((start, _dollars(name, price)))
    if len({start for start, _ in found}) != len(found):
        raise RatesError(f"{name}: two tiers start at the same length")
    return Rate(_dollars(name, base), tuple(sorted(found)))


_LARGEST: Final = Decimal(1_000_000)
MOST_DECIMALS: Final = 30  # sources that divide hand over all the digits of their floats


def _dollars(name: str, value: object) -> Decimal:
    if isinstance(value, Decimal | int | str) and not isinstance(value, bool):
        try:
            price = Decimal(value)
        except InvalidOperation:
            price = Decimal("NaN")
        exponent = price.as_tuple().exponent
        if price.is_finite() and 0 <= price <= _LARGEST and isinstance(exponent, int) and exponent >= -MOST_DECIMALS:
            return price
    raise RatesError(
        f"{name}: must be dollars per million tokens, 0 to {_LARGEST}, at most {MOST_DECIMALS} decimals, such as 2.50"
    )


def plain(price: Decimal) -> str:
    """A price as text, without exponent and trailing zeros: one spelling for one number."""
    text = format(price, "f")
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


# --- names of models

#: whose models an agent calls where nothing else says so
AGENT_PROVIDERS: Final[Mapping[str, str]] = {
    "claude-code": "anthropic",
    "codex": "openai",
    "gemini-cli": "google",
    "gemini": "google",
}
_VARIANT: Final = re.compile(r"\[[0-9a-z]+\]\Z")  # "[1m]": the same model with a longer window
_BEDROCK: Final = re.compile(r"(?:[a-z]{2,8}\.)?(?:anthropic|amazon|meta|mistral|deepseek|openai|qwen|cohere)\.[a-z]")
#: the names that agents give to providers that the prices know under another one
_ALIASES: Final[Mapping[str, str]] = {
    "bedrock": "aws", "amazon-bedrock": "aws", "vertex": "google", "vertex_ai": "google", "google-vertex": "google",
    "gemini": "google", "xai": "x-ai", "together_ai": "together", "fireworks_ai": "fireworks", "zai-org": "zai",
}  # fmt: skip


def bare(model: str) -> str:
    """The model's name in lower case without a marker of its window (`claude-sonnet-4-5[1m]`)."""
    return _VARIANT.sub("", model.strip().lower())


def candidates(model: str, agent: str) -> tuple[tuple[str | None, str], ...]:
    """(provider, name) pairs under which a price may stand, the surest first; provider None = whoever has that model.

    None for what is no model call (`<synthetic>`). Known forms: plain names, `provider/name`, Bedrock's
    `us.anthropic.claude-…-v1:0`, Vertex' `claude-…@20250929`, `models/gemini-…`.
    """
    name = bare(model).removeprefix("models/")
    if name in NOT_CALLED:
        return ()
    found: list[tuple[str | None, str]] = []
    provider, slash, rest = name.partition("/")
    last = rest if slash else name
    if slash and rest:
        found.append((_ALIASES.get(provider, provider), rest))
        found.append(("openrouter", name))
    if _BEDROCK.match(last):
        found.append(("aws", last))
    elif "@" in last:
        found.append(("google", last))
    elif not slash:
        if agent in AGENT_PROVIDERS:
            found.append((AGENT_PROVIDERS[agent], name))
        found.append((None, name))
    return tuple(dict.fromkeys(found))
