"""One work stream, several ways to carry it: what each bills, how full its window gets, where it cuts.

Cost: "Take the observed work stream of a relay or a session ... Play it through a carry-over policy. ... Billing per
call: valid prefix at cache-read price, the rest at cache-write price, output at output price; a gap longer than the
cache lifetime makes the prefix cold. The same engine runs both ways".

Per call, in this order (the golden check is exact in it): the prefix that is still valid, at most the window's content,
is read from the cache, the rest is written; then the window grows by what the call produced and what answered it; then
the policy looks at it and may cut it. An event therefore stands at the call AFTER which it came, numbered from 1. All
numbers are tokens; money is exact, in the unit of the prices. Everything that comes out is SIMULATED.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from relays.core.carryover_policies import CarryOver, Window
from relays.core.carryover_prices import EXACT, Prices, tariffs_of
from relays.core.sentences import RuleError, phrase
from relays.core.usage import ZERO, Buckets, add

#: the whole of a prefix, in what `Step.lost` counts
ALL: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Step:
    """One model call of the work stream.

    `new`: what came into the window after this call and before the next one: its own output as far as it stays, tool
    results, user text. Observed: resident tokens of the next call - those of this one, never below 0; of the last call
    of a stream its output. `output`: what it produced, billed (reasoning included). `cold`: a gap longer than the
    cache lifetime lies before it. `effect`: a durable effect (commit, file, issue, ledger row) came with it. `price`:
    which of the prices that are handed to `play` holds for it (another model, or another price after midnight).
    `lost`: millionths of the prefix that its own record shows as no longer cached, where no cut explains it.
    """

    new: int
    output: int = 0
    cold: bool = False
    effect: bool = False
    price: int = 0
    lost: int = (
        0  # millionths of the prefix that its own record shows as no longer cached (no gap and no cut explains it)
    )


@dataclass(frozen=True, slots=True)
class Work:
    """A work stream: `base` = what every window begins with (system prompt, tools), `window` = what fits.

    `kept`: tokens of the base that stay cached over a cut (system prompt and tools, if the cache still has them): the
    same for every policy, so that both sides are treated alike. 0 = a cut makes everything cold, as published.
    `first`: what the first call holds over the base (first words, or an inherited conversation). `warm`: what of the
    first call is in the cache already. Raises ValueError for numbers that cannot be.
    """

    base: int
    window: int
    steps: tuple[Step, ...]
    kept: int = 0
    first: int = 0
    warm: int = 0

    def __post_init__(self) -> None:
        if self.base < 0 or self.first < 0 or self.warm < 0 or self.window < 1:
            raise RuleError(phrase("a work stream needs a base of at least 0 tokens and a window of at least 1"))
        if not 0 <= self.kept <= self.base:
            raise RuleError(
                phrase("what stays cached of the base must be 0 to %(base)s: %(kept)s", base=self.base, kept=self.kept)
            )
        for number, step in enumerate(self.steps, 1):
            if step.new < 0 or step.output < 0:
                raise RuleError(phrase("call %(number)s has a negative number of tokens", number=number))
            if not 0 <= step.lost <= ALL:
                raise RuleError(
                    phrase("call %(number)s lost %(lost)s millionths of its prefix", number=number, lost=step.lost)
                )


@dataclass(frozen=True, slots=True)
class Carried:
    """What one policy made of one work stream.

    `billed`: tokens per bucket, the summaries' own calls included. `money`: their price, exact; of published prices
    the number of input tokens that cost as much. `peak`: the most that the window held, after its growth. `events`:
    rotations, compactions or clearings, by the call after which they came. `busts`: per event, the tokens that had to
    be written again at the next call because of it (an event after the last call has none). `cold`: tokens that were
    written again because of a gap. `exceeded_at`: the call after which the window was over-full, so that the run
    failed there; None = it never was. `played`: how many calls were made. `residents`: the window at each call.
    `extra`: what the events' own calls cost (summary or handing over).
    """

    billed: Buckets
    money: Decimal
    peak: int
    events: tuple[int, ...]
    busts: tuple[int, ...]
    cold: int
    exceeded_at: int | None
    residents: tuple[int, ...]
    extra: Decimal
    _cumulative: tuple[int, ...] = field(repr=False)
    _unit: Decimal = field(repr=False)

    @property
    def bust(self) -> int:
        """Cost: "cache-bust tokens", over all events."""
        return sum(self.busts)

    @property
    def played(self) -> int:
        return len(self.residents)

    @property
    def hit_rate(self) -> float | None:
        """Σ cached / Σ (cached + uncached); None without a call. "Never alone: it flatters big windows." """
        read = self.billed.cache_read
        side = read + self.billed.input + self.billed.cache_write_5m + self.billed.cache_write_1h
        return read / side if side else None

    def money_after(self, call: int) -> Decimal:
        """What was spent when `call` (from 1) and the event after it, if any, were over; 0 for call 0."""
        return EXACT.multiply(self._unit, self._cumulative[call - 1]) if call else Decimal(0)

    @property
    def money_at(self) -> tuple[Decimal, ...]:
        """Cumulative money, one per call."""
        return tuple(EXACT.multiply(self._unit, amount) for amount in self._cumulative)


def play(work: Work, policy: CarryOver, prices: Prices | Sequence[Prices]) -> Carried:
    """Play `work` through `policy`: one pass, whatever its length. Nothing is rounded.

    `prices`: one for all calls, or several that `Step.price` chooses from. Raises ValueError where they have no common
    measure, IndexError where a call chooses one that is not there.
    """
    several = (prices,) if isinstance(prices, Prices) else tuple(prices)
    tariffs, unit = tariffs_of(several)
    tariff = tariffs[0]
    flat = len(tariffs) == 1 and len(tariff.tiers) == 1
    read_price, rest_price, output_price = tariff.tiers[0]
    window = Window(work.base, work.kept, work.window, work.base + work.first)
    resident = policy.first(window)
    fires_at = policy.fires_at(window)
    spent = extra = pending = peak = cold = 0
    valid = work.warm
    sums = [[0, 0, 0] for _ in tariffs]
    events: list[int] = []
    busts: list[int] = []
    residents: list[int] = []
    cumulative: list[int] = []
    exceeded_at: int | None = None
    for number, step in enumerate(work.steps, 1):
        if step.cold and valid:
            cold += min(valid, resident)
            valid = 0
        elif step.lost and valid:
            before = min(valid, resident)
            valid = before - before * step.lost // ALL
            cold += before - valid
        cached = valid if valid < resident else resident
        uncached = resident - cached
        if not flat:
            tariff = tariffs[step.price]
            read_price, rest_price, output_price = tariff.at(resident)
        spent += cached * read_price + uncached * rest_price + step.output * output_price
        billed = sums[step.price]
        billed[0] += cached
        billed[1] += uncached
        billed[2] += step.output
        if pending:
            busts[-1] = min(pending, uncached)
            pending = 0
        residents.append(resident)
        valid = resident
        resident += step.new
        if resident > peak:
            peak = resident
        if window.keeps_steps:
            window.add(step.new, step.output)
        if resident >= fires_at:
            window.call = number
            cut = policy.cut(window, resident)
            if cut is not None:
                events.append(number)
                busts.append(0)
                if cut.writes is not None:
                    # what is over the window cannot be read: the program sums up what fits
                    whole = min(resident, work.window)
                    cached = min(valid, whole) if cut.cached else 0
                    of_read, of_rest, of_output = tariff.at(whole)
                    price = cached * of_read + (whole - cached) * of_rest + cut.writes * of_output
                    spent += price
                    extra += price
                    billed[0] += cached
                    billed[1] += whole - cached
                    billed[2] += cut.writes
                pending = resident
                resident = cut.resident
                valid = min(cut.valid, valid)
                if resident > peak:
                    peak = resident
        cumulative.append(spent)
        if resident > work.window:
            exceeded_at = number
            break
    buckets = ZERO
    for priced, (read, rest, output) in zip(several, sums, strict=True):
        buckets = add(buckets, priced.buckets(read, rest, output))
    return Carried(
        billed=buckets,
        money=EXACT.multiply(unit, spent),
        peak=peak,
        events=tuple(events),
        busts=tuple(busts),
        cold=cold,
        exceeded_at=exceeded_at,
        residents=tuple(residents),
        extra=EXACT.multiply(unit, extra),
        _cumulative=tuple(cumulative),
        _unit=unit,
    )
