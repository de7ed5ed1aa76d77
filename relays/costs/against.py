"""The ground that a comparison is played on, and what the engine makes of it: once in the background, again for a page.

cost.md: "every parameter is shown and can be changed on the page". The ground is small enough to be kept beside a
comparison, so that a viewer's own parameters are played on the same stream, prices and money, and nothing is stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, cast

from relays.core.baselines import LEVELS, NAMES, POLICIES, Parameter, PolicyName, Setting, Value
from relays.core.carryover import Carried, Step, Work, play
from relays.core.carryover_prices import Prices, Rest
from relays.core.lines import recorded
from relays.core.pricing import Rate, kept, make_rate, plain
from relays.core.sensitivity import OF, Observed, Word, band, compare
from relays.core.sensitivity import Comparison as Result
from relays.core.shadow import Provenance

SHORT: Final = 300  # of a line of words


@dataclass(frozen=True, slots=True)
class Ground:
    """What a comparison is played on. Money in dollars.

    `paid`: the observed side's main chain; `beside`: what no carrier changes. `x`: the main calls (from 1) of the
    series, `observed` and `beside_at` cumulative money at each. `cuts`: the calls after which the observed carrier cut.
    """

    relay_side: bool
    work: Work
    setting: Setting
    prices: tuple[Prices, ...]
    paid: Decimal
    beside: Decimal
    x: tuple[int, ...]
    observed: tuple[Decimal, ...]
    beside_at: tuple[Decimal, ...]
    price_source: str = ""
    scripted: bool = False
    cuts: tuple[int, ...] = ()
    newest: int = 0  # where only the newest calls are played: how many; 0 = all are
    dropped: int = 0  # how often the observed window shrank for no recorded reason

    @property
    def other(self) -> PolicyName:
        """The policy that the verdict is about."""
        return other(self.relay_side)


def other(relay_side: bool) -> PolicyName:
    return "compaction" if relay_side else "relay"


def order(relay_side: bool) -> tuple[PolicyName, ...]:
    """A relay is not a baseline of itself; a session's first one is the relay, then its own carrier as simulated."""
    if relay_side:
        return tuple(name for name in POLICIES if name != "relay")
    return ("relay", "compaction", *(name for name in POLICIES if name not in ("relay", "compaction")))


# --- played


def figures_of(ground: Ground) -> dict[str, Any]:
    """The columns of a `Comparison` that come from the engine. Raises ValueError for parameters that cannot be."""
    result = compare(
        ground.work,
        ground.setting,
        ground.prices,
        observed=Observed("relay" if ground.relay_side else "baseline", ground.paid),
        rotated=ground.cuts,
    )
    values = _compared(result, ground)
    values["baselines"] = [
        _baseline(result, ground),
        *(
            played(name, ground.work, ground.setting, ground.prices, ground.beside)
            for name in order(ground.relay_side)
            if name != ground.other
        ),
    ]
    values["series"] = _series(result, ground)
    return values


def parameters(name: PolicyName, setting: Setting) -> dict[str, Any]:
    """The parameters that a policy looks at, with where each comes from."""
    found: dict[str, Any] = {}
    for one in OF[name]:
        parameter = setting.parameters[one]
        share = isinstance(parameter.value, Decimal)
        found[one] = {
            "value": _number(parameter.value),
            "low": _number(parameter.low),
            "high": _number(parameter.high),
            "provenance": str(parameter.provenance),
            "source": parameter.source,
            "unit": "part" if share else "tokens",
        }
    return found


def _number(value: Decimal | int | None) -> float | int | None:
    return float(value) if isinstance(value, Decimal) else value


def played(
    name: PolicyName, work: Work, setting: Setting, prices: Sequence[Prices], beside: Decimal | None
) -> dict[str, Any]:
    """One policy on the work; `beside` None: there are no prices, so that no money is said."""
    carried = play(work, setting.policy(name), prices)
    if beside is None:
        return _as_json(name, carried, setting, None, None)
    edges = [plain(kept(edge + beside)) for edge in band(work, setting, prices, name)]
    return _as_json(name, carried, setting, plain(kept(carried.money + beside)), edges)


def _as_json(
    name: PolicyName, carried: Carried, setting: Setting, cost: str | None, band: list[str] | None
) -> dict[str, Any]:
    return {
        "policy": name,
        "provenance": str(Provenance.SIMULATED),
        "cost": cost,
        "peak_tokens": carried.peak,
        "events": len(carried.events),
        "cache_bust_tokens": carried.bust,
        "hit_rate": carried.hit_rate,
        "exceeded_at": carried.exceeded_at,
        "band": band,
        "parameters": parameters(name, setting),
    }


def _baseline(result: Result, ground: Ground) -> dict[str, Any]:
    """The baseline that the verdict is about, with its band."""
    money = result.baseline_money if ground.relay_side else result.relay_money
    band = [plain(kept(edge + ground.beside)) for edge in result.band]
    return _as_json(ground.other, result.simulated, result.setting, plain(kept(money + ground.beside)), band)


def _compared(result: Result, ground: Ground) -> dict[str, Any]:
    """Verdict, saving and what it depends on; dollars."""
    paid, relay_side = ground.paid, ground.relay_side

    def saved(simulated: Decimal) -> Decimal:
        return kept(simulated - paid if relay_side else paid - simulated)

    def of_share(share: Decimal | None) -> str | None:
        """A share of the baseline as dollars: the observed side is what is fixed."""
        if share is None:
            return None
        if not relay_side:
            return plain(kept(paid * share))
        return plain(kept(paid * share / (1 - share))) if share != 1 else None

    edges = sorted(saved(edge) for edge in result.band)
    verdict: Word = result.verdict
    why = result.why
    if ground.scripted:
        verdict, why = "not yet", recorded("its usage figures are the scripted worker's, not a model's")
    elif ground.dropped:
        why = (
            recorded(
                "its window shrank %(n)d times without a record of why: what another way would have held then is not "
                "known",
                n=ground.dropped,
            )
            if ground.dropped > 1
            else recorded(
                "its window shrank once without a record of why: what another way would have held then is not known"
            )
        )
        verdict = "not yet"
    elif relay_side and not ground.cuts:
        verdict, why = "not yet", recorded("no leg was followed by another one yet")
    elif relay_side and not any(step.effect for step in ground.work.steps):
        # cheap and idle is not cheap
        verdict, why = "not yet", recorded("no leg did anything durable that is recorded: there is no work to compare")
    elif relay_side and not result.baseline.events:
        # it rotated all the same (a limit of turns, a person): what was paid stands against a window that never filled
        verdict, why = _by_money(edges, recorded("a compacting session, whose window this work never fills"))
    if ground.newest and verdict != "not yet":
        why = recorded("of the newest %(newest)s calls: %(why)s", newest=f"{ground.newest:,}", why=why)
    prices = ground.prices[0]
    return {
        "verdict": verdict,
        "verdict_why": why[:SHORT],
        "saving": saved(result.baseline_money if relay_side else result.relay_money),
        "saving_low": edges[0],
        "saving_high": edges[-1],
        "break_even": result.break_even.tokens,
        "sensitivity": [
            {
                "name": row.name, "low": _number(row.low), "high": _number(row.high),
                "saving_low": of_share(row.saving_low), "saving_high": of_share(row.saving_high),
                "breaks": _number(row.breaks),
            }
            for row in result.rows
        ],
        # here the baseline stands still and the relay varies
        "line": [
            [tokens, plain(kept(share * result.baseline_money))]
            for tokens, share in result.break_even.line
            if share is not None
        ],
        "prices": {
            "read": plain(prices.read.base), "write": plain(prices.write.base), "output": plain(prices.output.base),
            "rest": prices.rest, "models": len(ground.prices), "source": ground.price_source,
        },
    }  # fmt: skip


def _by_money(edges: Sequence[Decimal], against: str) -> tuple[Word, str]:
    """The word where the whole band of savings has one sign."""
    low, high = edges[0], edges[-1]
    if low > 0:
        first, last = _amount(low), _amount(high)
        if first == last:
            return "cheaper", recorded(
                "the relay saves %(much)s against %(named_word)s", much=first, named_word=against
            )
        return "cheaper", recorded(
            "the relay saves %(low)s to %(high)s against %(named_word)s", low=first, high=last, named_word=against
        )
    if high < 0:
        first, last = _amount(-high), _amount(-low)
        if first == last:
            return "dearer", recorded(
                "the relay lost: it costs %(much)s more than %(named_word)s", much=first, named_word=against
            )
        return "dearer", recorded(
            "the relay lost: it costs %(low)s to %(high)s more than %(named_word)s",
            low=first,
            high=last,
            named_word=against,
        )
    return "not yet", recorded(
        "between %(low)s dearer and %(high)s cheaper than %(named_word)s",
        low=_amount(-low),
        high=_amount(high),
        named_word=against,
    )


def _amount(money: Decimal) -> str:
    """As pages write it: cents, and finer where a cent would say nothing."""
    return f"${money:,.2f}" if money >= Decimal("0.1") or not money else f"${money:,.4f}"


def _series(result: Result, ground: Ground) -> dict[str, list[Any]]:
    """Cumulative money over main calls, all chains: both never fall, so that evenly chosen points lose no peak."""
    simulated, at, beside = result.simulated, ground.x, ground.beside_at
    low, high = result.envelope(at)
    return {
        "x": list(at),
        "observed": [plain(kept(money)) for money in ground.observed],
        "base": [
            plain(kept(simulated.money_after(min(call, simulated.played)) + more))
            for call, more in zip(at, beside, strict=True)
        ],
        "low": [plain(kept(money + more)) for money, more in zip(low, beside, strict=True)],
        "high": [plain(kept(money + more)) for money, more in zip(high, beside, strict=True)],
    }


# --- kept beside a comparison, and read again


def steps_of(work: Work) -> list[list[int]]:
    """[new, output, 1 = cold, 1 = effect, lost, price], without the zeros at the end."""
    found = []
    for step in work.steps:
        row = [step.new, step.output, int(step.cold), int(step.effect), step.lost, step.price]
        while len(row) > 2 and not row[-1]:
            row.pop()
        found.append(row)
    return found


def as_json(ground: Ground) -> dict[str, Any]:
    """All of the ground but base, window and steps; what is not of this form `read` refuses."""
    work = ground.work
    return {
        "relay_side": ground.relay_side,
        "kept": work.kept,
        "first": work.first,
        "warm": work.warm,
        "setting": {
            "name": ground.setting.name,
            "parameters": {
                name: [
                    *(None if value is None else str(value) for value in (one.value, one.low, one.high)),
                    str(one.provenance), one.source,
                ]
                for name, one in ground.setting.parameters.items()
            },
        },
        "prices": [[*map(_rate, (one.read, one.write, one.output)), one.rest] for one in ground.prices],
        "paid": plain(ground.paid),
        "beside": plain(ground.beside),
        "x": list(ground.x),
        "observed": [plain(one) for one in ground.observed],
        "beside_at": [plain(one) for one in ground.beside_at],
        "price_source": ground.price_source,
        "scripted": ground.scripted,
        "cuts": list(ground.cuts),
        "newest": ground.newest,
        "dropped": ground.dropped,
    }  # fmt: skip


def _rate(rate: Rate) -> list[Any]:
    return [plain(rate.base), [[start, plain(price)] for start, price in rate.tiers]]


def _read_rate(kept_: Sequence[Any]) -> Rate:
    return make_rate("rate", kept_[0], kept_[1])


def read(base: int, window: int, steps: Sequence[Sequence[int]], more: Mapping[str, Any]) -> Ground:
    """What `steps_of` and `as_json` wrote. Raises ValueError, KeyError or TypeError where it is damaged."""
    rows = (tuple(row) + (0,) * (6 - len(row)) for row in steps)
    made = tuple(
        Step(new, output, bool(cold), bool(effect), price, lost) for new, output, cold, effect, lost, price in rows
    )
    setting = more["setting"]
    return Ground(
        relay_side=bool(more["relay_side"]),
        work=Work(base, window, made, more["kept"], more["first"], more["warm"]),
        setting=Setting(
            setting["name"],
            {
                name: Parameter(
                    cast(Value, _value(value)), Provenance(provenance), source, _value(low), _value(high)
                )
                for name, (value, low, high, provenance, source) in setting["parameters"].items()
            },
        ),
        prices=tuple(
            Prices(_read_rate(of_read), _read_rate(of_rest), _read_rate(of_output), "dollars", cast(Rest, rest))
            for of_read, of_rest, of_output, rest in more["prices"]
        ),
        paid=Decimal(more["paid"]),
        beside=Decimal(more["beside"]),
        x=tuple(more["x"]),
        observed=tuple(map(Decimal, more["observed"])),
        beside_at=tuple(map(Decimal, more["beside_at"])),
        price_source=more["price_source"],
        scripted=more["scripted"],
        cuts=tuple(more["cuts"]),
        newest=more["newest"],
        dropped=more["dropped"],
    )  # fmt: skip


def _value(text: str | None) -> Value | None:
    """A share has a point (or an exponent), tokens have none."""
    if text is None:
        return None
    return int(text) if text.lstrip("-").isdecimal() else Decimal(text)


def changed(ground: Ground, values: Mapping[str, Value]) -> Ground:
    """The same ground with parameters that a viewer chose: ASSUMED, and not varied. Raises KeyError for other names."""
    setting = ground.setting
    for name, value in values.items():
        setting = setting.given(name, value, recorded("chosen by you, in the address of this page"))
    return replace(ground, setting=setting)


#: what a viewer may choose: of either side, but for what the stream itself says
CHOICES: Final = tuple(name for name in NAMES if any(name in names for names in OF.values()))
SHARES: Final = LEVELS
