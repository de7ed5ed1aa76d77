"""A relay or a session against other ways to carry the same work: computed here, in the background, and kept.

cost.md: "The same engine runs both ways: 'this relay as one compacting session' and 'this compacting session as a
relay'." A relay's own side is what was paid; of a session it is the session that was paid. What the observed carrier
made its agent read again is taken out of the stream, and the other carrier adds its own (`workstream`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from statistics import median_low
from typing import Any, Final

from django.conf import settings

from relays.core import policy as policies
from relays.core.baselines import LEVELS, NAMES, POLICIES, PRICES, Parameter, PolicyName, Setting, defaults
from relays.core.carryover import Carried, Work, play
from relays.core.carryover_prices import Prices
from relays.core.pricing import kept, plain
from relays.core.rotation import context_mark
from relays.core.sensitivity import OF, Observed, compare
from relays.core.sensitivity import Comparison as Result
from relays.core.shadow import Provenance
from relays.core.usage import Buckets, total
from relays.core.workstream import Stream
from relays.costs import learned, streams
from relays.models import Comparison, Counted, Relay, Session, StoredWork

#: points of a series, legs and boundaries that are kept, steps that a page may play itself
POINTS: Final = 300
MOST_LEGS: Final = 1_000
MOST_STEPS: Final = 4_000
SHORT: Final = 300
SIX: Final = Decimal("0.000001")


def figures(of: Relay | Session) -> tuple[dict[str, Any], Work | None]:
    """The columns of a `Comparison`, and the work stream that a page may play; a fixed number of queries."""
    seen = streams.of_relay(of) if isinstance(of, Relay) else streams.of_session(of)
    values = _observed(seen)
    values["digest"] = _digest(of, seen)
    stream = seen.stream
    if stream is None:
        return {**values, "why": "no call of the main chain is stored yet", **_nothing()}, None
    if not seen.window:
        return {**values, "why": "the window of its model is not known", **_nothing()}, None
    relay_side = isinstance(of, Relay)
    setting = _setting(of, seen, stream)
    bare = stream.without_reread().work
    values["orientation"] = _orientation(seen, relay_side)
    if not seen.priced or seen.unpriced:
        models = ", ".join(seen.unpriced) or "some calls"
        why = f"no price is known for {models}: tokens are compared, money is not"
        prices: Sequence[Prices] = [setting.prices()] * max(1, len(seen.prices))
        baselines = [_played(name, bare, setting, prices, None) for name in _order(relay_side)]
        return {
            **values,
            **_nothing(),
            "baselines": baselines,
            "verdict_why": why[:SHORT],
            "prices": {},
        }, bare
    paid = seen.main + seen.carrying
    result = compare(
        bare,
        setting,
        seen.prices,
        observed=Observed("relay" if relay_side else "baseline", paid),
    )
    values |= _compared(result, seen, relay_side, paid)
    others = [name for name in _order(relay_side) if name != _other(relay_side)]
    values["baselines"] = [
        _baseline(result, seen, relay_side),
        *(_played(name, bare, setting, seen.prices, seen.beside) for name in others),
    ]
    values["series"] = _series(result, seen)
    return values, bare


def store(of: Relay | Session, took_ms: int, values: Mapping[str, Any], work: Work | None, **more: Any) -> Comparison:
    """Keep a comparison; the same figures twice change nothing but the time. Inside the caller's transaction."""
    key = {"relay": of} if isinstance(of, Relay) else {"session": of}
    row, _ = Comparison.objects.update_or_create(**key, defaults={**values, "took_ms": took_ms, **more})
    if work is not None and len(work.steps) <= MOST_STEPS:
        steps = [
            [step.new, step.output, int(step.cold or step.lost > 500_000), int(step.effect)] for step in work.steps
        ]
        defaults_ = {"base": work.base, "window": work.window, "steps": steps}
        StoredWork.objects.update_or_create(comparison=row, defaults=defaults_)
    else:
        StoredWork.objects.filter(comparison=row).delete()
    return row


def _other(relay_side: bool) -> PolicyName:
    """The policy that the verdict is about."""
    return "compaction" if relay_side else "relay"


def _order(relay_side: bool) -> tuple[PolicyName, ...]:
    """A relay is not a baseline of itself; a session's first one is the relay, then its own carrier as simulated."""
    if relay_side:
        return tuple(name for name in POLICIES if name != "relay")
    return ("relay", "compaction", *(name for name in POLICIES if name not in ("relay", "compaction")))


def _nothing() -> dict[str, Any]:
    return {
        "verdict": "not yet", "verdict_why": "", "saving": None, "saving_low": None, "saving_high": None,
        "break_even": None, "baselines": [], "sensitivity": [], "line": [], "series": {},
    }  # fmt: skip


def _digest(of: Relay | Session, seen: streams.Observed) -> str:
    """Of what the figures come from: the same = nothing is new."""
    facts = [
        seen.counted, plain(seen.cost), seen.tokens.as_mapping(), seen.window, len(seen.legs),
        of.policy if isinstance(of, Relay) else str(settings.SITE_POLICY), learned.mark(),
    ]  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


# --- what was observed


def _observed(seen: streams.Observed) -> dict[str, Any]:
    stream = seen.stream
    none_priced = seen.counted and sum(seen.unpriced.values()) == seen.counted
    return {
        "why": "",
        "scripted": seen.scripted,
        "observed": {
            "cost": None if none_priced or not seen.counted else plain(seen.cost),
            "calls": seen.counted,
            "unpriced": sum(seen.unpriced.values()),
            "unpriced_models": sorted(seen.unpriced),
            "peak_tokens": stream.peak if stream else 0,
            "events": len(stream.cuts) if stream else 0,
            "cache_bust_tokens": sum(stream.busts) if stream else 0,
            "hit_rate": seen.hit_rate,
            "tokens": seen.tokens.as_mapping(),
            "reported": plain(seen.reported) if seen.reported is not None else None,
            "carrying_calls": seen.carrying_calls,
            "left_out": seen.left_out,
            "lost_tokens": stream.lost if stream else 0,
        },
        "legs": _legs(seen.legs),
        "busts": _busts(seen),
        "orientation": {},
        "prices": {},
    }


def _legs(legs: Sequence[streams.LegMoney]) -> list[dict[str, Any]]:
    """At most `MOST_LEGS` rows: of a longer relay neighbours are added up, `to` being the last of them."""
    size = -(-len(legs) // MOST_LEGS) or 1
    found: list[dict[str, Any]] = []
    for start in range(0, len(legs), size):
        some = legs[start : start + size]
        one = streams.LegMoney(some[0].number)
        for leg in some:
            one.calls += leg.calls
            one.input += leg.input
            one.cache_read += leg.cache_read
            one.cache_write += leg.cache_write
            one.output += leg.output
            one.unpriced += leg.unpriced
            one.peak = max(one.peak, leg.peak)
        found.append({**one.as_json(), **({"to": some[-1].number} if size > 1 else {})})
    return found


def _busts(seen: streams.Observed) -> list[dict[str, int]]:
    """Per boundary, at most `MOST_LEGS`: of a longer relay the largest of each stretch, so that no peak is lost."""
    if seen.stream is None:
        return []
    found = [
        {"leg": leg, "turn": turn, "tokens": tokens}
        for (leg, turn), tokens in zip(seen.places, seen.stream.busts, strict=True)
    ]
    size = -(-len(found) // MOST_LEGS) or 1
    return [max(found[at : at + size], key=lambda one: one["tokens"]) for at in range(0, len(found), size)]


def _orientation(seen: streams.Observed, relay_side: bool) -> dict[str, Any]:
    """What fresh windows were seen to read again: n, the middle one, and each (the newest `MOST_LEGS`)."""
    stream = seen.stream
    if stream is None:
        return {"n": 0, "median": None, "values": []}
    numbers = [leg.number for leg in seen.legs[1:]] if relay_side else list(range(1, len(stream.reread) + 1))
    values = [
        [n, tokens]
        for n, tokens in zip(numbers[-len(stream.reread) :], stream.reread, strict=False)
        if tokens is not None
    ]
    middle = median_low(tokens for _, tokens in values) if values else None
    return {"n": len(values), "median": middle, "values": values[-MOST_LEGS:]}


# --- parameters


def _setting(of: Relay | Session, seen: streams.Observed, stream: Stream) -> Setting:
    """The defaults of the agent, what was learned of it, what this work shows, and what its policy says, in that order.

    cost.md: "orientation and re-read measured from the data at hand (both sides 20,000 tokens where nothing is
    measured), equal treatment of base and tools".
    """
    work = stream.work
    setting = defaults(seen.agent, seen.window)
    setting = learned.apply(setting, seen.agent, seen.version)
    setting = setting.put("window", Parameter(seen.window, Provenance.OBSERVED, "of its model, or as its agent says"))
    setting = setting.put(
        "base", Parameter(work.base, Provenance.OBSERVED, "the smallest window that a call began with")
    )
    setting = setting.put("kept", Parameter(work.kept, Provenance.OBSERVED, "read from the cache by calls after a cut"))
    if isinstance(of, Relay):
        rules = policies.from_snapshot(of.policy)
        again = sorted(tokens for tokens in stream.reread if tokens is not None)
        if again:
            setting = _measured(setting, again)
        setting = _chosen(setting, rules.baseline)
    else:
        rules = policies.build(settings.SITE_POLICY, None, {})
    mark = Decimal(str(context_mark(rules, seen.window)))
    return setting.put("mark", replace(setting.parameters["mark"], value=mark, source="the policy's soft mark"))


def _measured(setting: Setting, again: Sequence[int]) -> Setting:
    """Orientation as this relay's legs show it; re-reading after a compaction alike, where none was measured."""
    middle, n = median_low(again), len(again)
    setting = setting.put(
        "orientation",
        Parameter(middle, Provenance.OBSERVED, f"{n} legs of this relay: growth before the first durable effect",
                  again[n // 4], again[-1 - n // 4]),
    )  # fmt: skip
    if setting.parameters["reread"].provenance is Provenance.ASSUMED:
        source = "no compaction was measured: as much as a fresh leg of this relay reads again"
        setting = setting.put("reread", Parameter(middle, Provenance.ASSUMED, source, middle // 2, 2 * middle))
    return setting


def _chosen(setting: Setting, table: Mapping[str, int | float | str]) -> Setting:
    """What the policy's `baseline` table says, under the names of the parameters; others are left alone."""
    for name, value in table.items():
        if name not in NAMES or name in PRICES or isinstance(value, str):
            continue
        if name in LEVELS and isinstance(value, float) and 0 <= value <= 1:
            setting = setting.given(name, Decimal(str(value)), "the policy's baseline table")
        elif isinstance(value, int) and value >= 0:
            setting = setting.given(name, value, "the policy's baseline table")
    return setting


def _parameters(name: PolicyName, setting: Setting) -> dict[str, Any]:
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


# --- what was simulated


def _played(
    name: PolicyName, work: Work, setting: Setting, prices: Sequence[Prices], beside: Decimal | None
) -> dict[str, Any]:
    """One policy on the work; `beside` None: there are no prices, so that no money is said."""
    carried = play(work, setting.policy(name), prices)
    cost = plain(kept(carried.money + beside)) if beside is not None else None
    return _as_json(name, carried, setting, cost, None)


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
        "parameters": _parameters(name, setting),
    }


def _baseline(result: Result, seen: streams.Observed, relay_side: bool) -> dict[str, Any]:
    """The baseline that the verdict is about, with its band."""
    name = _other(relay_side)
    money = result.baseline_money if relay_side else result.relay_money
    band = [plain(kept(edge + seen.beside)) for edge in result.band]
    return _as_json(name, result.simulated, result.setting, plain(kept(money + seen.beside)), band)


def _compared(result: Result, seen: streams.Observed, relay_side: bool, paid: Decimal) -> dict[str, Any]:
    """Verdict, saving and what it depends on; dollars. `paid`: the observed side's main chain."""

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
    verdict, why = result.verdict, result.why
    if seen.scripted:
        verdict, why = "not yet", "its usage figures are the scripted worker's, not a model's"
    elif relay_side and not (seen.stream and seen.stream.cuts):
        verdict, why = "not yet", "no leg was followed by another one yet"
    elif seen.left_out:
        why = f"of the newest {len(seen.calls):,} calls: {why}"
    prices = seen.prices[0]
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
            "rest": prices.rest, "models": len(seen.prices), "source": seen.price_source,
        },
    }  # fmt: skip


def _series(result: Result, seen: streams.Observed) -> dict[str, list[Any]]:
    """Cumulative money over main calls, all chains: both never fall, so that evenly chosen points lose no peak."""
    count = len(seen.money_at)
    cuts = seen.stream.cuts if seen.stream else ()
    step = -(-count // POINTS)
    at = sorted({1, count, *range(1, count + 1, step), *cuts[:POINTS]})
    simulated = result.simulated
    low, high = result.envelope(at)
    beside = [seen.beside_at[call - 1] for call in at]
    return {
        "x": at,
        "observed": [plain(kept(seen.money_at[call - 1])) for call in at],
        "base": [
            plain(kept(simulated.money_after(min(call, simulated.played)) + more))
            for call, more in zip(at, beside, strict=True)
        ],
        "low": [plain(kept(money + more)) for money, more in zip(low, beside, strict=True)],
        "high": [plain(kept(money + more)) for money, more in zip(high, beside, strict=True)],
    }


# --- progress


def progress_of(relay: Relay, tokens: Buckets, cost: Decimal | None) -> dict[str, Any]:
    """Verified units of progress, and what one of them cost.

    cost.md: "Money and tokens per verified unit of progress (commit, closed issue) stand beside every total: cheap and
    idle is not cheap." Null where nothing is verified.
    """
    mine = Counted.objects.filter(relay=relay).order_by()
    commits = mine.filter(kind=Counted.Kind.COMMIT, counts=True).values("value").distinct().count()
    issues = mine.filter(kind=Counted.Kind.ISSUE).values("value").distinct().count()
    units = relay.progress_total
    return {
        "progress": {"commits": commits, "issues": issues, "rows": max(0, units - commits - issues), "units": units},
        "money_per_unit": kept(cost / units) if units and cost is not None else None,
        "tokens_per_unit": total(tokens) // units if units else None,
    }


def money(text: object) -> Decimal | None:
    """A decimal string of a figure's JSON; None for null."""
    return None if text is None else Decimal(str(text))
