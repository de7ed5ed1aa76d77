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
from relays.core.baselines import LEVELS, NAMES, PRICES, Parameter, Setting, defaults
from relays.core.carryover import Work, play
from relays.core.carryover_prices import Prices
from relays.core.lines import recorded
from relays.core.pricing import kept, plain
from relays.core.rotation import context_mark
from relays.core.shadow import Provenance
from relays.core.usage import Buckets, total
from relays.core.workstream import Stream
from relays.costs import learned, streams
from relays.costs.against import SHORT, Ground, as_json, figures_of, order, other, played, steps_of
from relays.models import Comparison, Counted, Relay, Session, StoredWork
from relays.sessions.series import reduced

#: points of a series, legs and boundaries that are kept, steps that a page may play itself
POINTS: Final = 300
RESIDENTS: Final = 600
EVENTS: Final = 1_000
MOST_LEGS: Final = 1_000
MOST_STEPS: Final = 4_000
SIX: Final = Decimal("0.000001")


def figures(of: Relay | Session) -> tuple[dict[str, Any], Ground | None]:
    """The columns of a `Comparison`, and the ground that a page may play again; a fixed number of queries."""
    seen = streams.of_relay(of) if isinstance(of, Relay) else streams.of_session(of)
    values = _observed(seen)
    values["digest"] = _digest(of, seen)
    stream = seen.stream
    if stream is None:
        return {**values, "why": recorded("no call of the main chain is stored yet"), **_nothing()}, None
    if not seen.window:
        return {**values, "why": recorded("the window of its model is not known"), **_nothing()}, None
    relay_side = isinstance(of, Relay)
    setting = _setting(of, seen, stream)
    bare = stream.without_reread().work
    values["orientation"] = _orientation(seen, relay_side)
    if not seen.priced:  # calls of sub-agents may lack one: they cost the same on both sides
        models = ", ".join(seen.unpriced) or "some calls"
        why = recorded("no price is known for %(models)s: tokens are compared, money is not", models=models)
        prices: Sequence[Prices] = [setting.prices()] * max(1, len(seen.prices))
        baselines = [played(name, bare, setting, prices, None) for name in order(relay_side)]
        residency = _residency(seen, bare, setting, prices) if relay_side else {}
        return {
            **values,
            **_nothing(),
            "baselines": baselines,
            "residency": residency,
            "verdict_why": why[:SHORT],
            "prices": {},
        }, None
    ground = _ground(seen, setting, bare, relay_side)
    values |= figures_of(ground)
    if relay_side:
        values["residency"] = _residency(seen, bare, setting, ground.prices)
    lacking = len(stream.cuts) - seen.carrying_calls
    if not relay_side and lacking > 0:
        said = recorded(
            "%(verdict_why)s; its file lacks %(lacking)s of the compactions' own calls: they are left out",
            verdict_why=values["verdict_why"],
            lacking=lacking,
        )
        values["verdict_why"] = said[:SHORT]
    return values, ground


def _residency(seen: streams.Observed, work: Work, setting: Setting, prices: Sequence[Prices]) -> dict[str, Any]:
    """The window of the baseline that the verdict is about, at each call of the same work: every peak is kept."""
    name = other(relay_side=True)
    carried = play(work, setting.policy(name), prices)
    residents = carried.residents
    return {
        "policy": name,
        "calls": len(work.steps),
        "before": seen.left_out,
        "turns": sum(leg.turns for leg in seen.legs),
        "peak": carried.peak,
        "events": list(carried.events)[:EVENTS],
        "points": [[call, tokens] for call, tokens, _ in reduced(residents, bytes(len(residents)), RESIDENTS)],
    }


def _ground(seen: streams.Observed, setting: Setting, bare: Work, relay_side: bool) -> Ground:
    count = len(seen.money_at)
    cuts = seen.stream.cuts if seen.stream else ()
    step = -(-count // POINTS)
    at = tuple(sorted({1, count, *range(1, count + 1, step), *cuts[:POINTS]}))
    return Ground(
        relay_side=relay_side,
        work=bare,
        setting=setting,
        prices=tuple(seen.prices),
        paid=seen.main + seen.carrying,
        beside=seen.beside,
        x=at,
        observed=tuple(seen.money_at[call - 1] for call in at),
        beside_at=tuple(seen.beside_at[call - 1] for call in at),
        price_source=seen.price_source,
        scripted=seen.scripted,
        cuts=tuple(cuts),
        newest=len(seen.calls) if seen.left_out else 0,
        dropped=seen.stream.drops if seen.stream else 0,
    )


def store(
    of: Relay | Session, took_ms: int, values: Mapping[str, Any], ground: Ground | None, **more: Any
) -> Comparison:
    """Keep a comparison; the same figures twice change nothing but the time. Inside the caller's transaction."""
    key = {"relay": of} if isinstance(of, Relay) else {"session": of}
    row, _ = Comparison.objects.update_or_create(**key, defaults={**values, "took_ms": took_ms, **more})
    if ground is not None and len(ground.work.steps) <= MOST_STEPS:
        work = ground.work
        defaults_ = {"base": work.base, "window": work.window, "steps": steps_of(work), "more": as_json(ground)}
        StoredWork.objects.update_or_create(comparison=row, defaults=defaults_)
    else:
        StoredWork.objects.filter(comparison=row).delete()
    return row


def _nothing() -> dict[str, Any]:
    return {
        "verdict": "not yet", "verdict_why": "", "saving": None, "saving_low": None, "saving_high": None,
        "break_even": None, "baselines": [], "sensitivity": [], "line": [], "series": {}, "residency": {},
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
    setting = setting.put(
        "window", Parameter(seen.window, Provenance.OBSERVED, recorded("of its model, or as its agent says"))
    )
    setting = setting.put(
        "base", Parameter(work.base, Provenance.OBSERVED, recorded("the smallest window that a call began with"))
    )
    setting = learned.apply(setting, seen.agent, seen.version)
    setting = setting.put(
        "kept", Parameter(work.kept, Provenance.OBSERVED, recorded("read from the cache by calls after a cut"))
    )
    if isinstance(of, Relay):
        rules = policies.from_snapshot(of.policy)
        again = sorted(tokens for tokens in stream.reread if tokens is not None)
        if again:
            setting = _measured(setting, again)
        setting = _chosen(setting, rules.baseline)
    else:
        rules = policies.build(settings.SITE_POLICY, None, {})
    mark = Decimal(str(context_mark(rules, seen.window)))
    return setting.put(
        "mark", replace(setting.parameters["mark"], value=mark, source=recorded("the policy's soft mark"))
    )


def _measured(setting: Setting, again: Sequence[int]) -> Setting:
    """Orientation as this relay's legs show it. What a compaction would make it read again is not measured by that:

    to take it for as much would hide whatever the relay loses there.
    """
    middle, n = median_low(again), len(again)
    source = recorded("%(n)d legs of this relay: growth before the first durable effect", n=n)
    return setting.put("orientation", Parameter(middle, Provenance.OBSERVED, source, again[n // 4], again[-1 - n // 4]))


def _chosen(setting: Setting, table: Mapping[str, int | float | str]) -> Setting:
    """What the policy's `baseline` table says, under the names of the parameters; others are left alone."""
    for name, value in table.items():
        if name not in NAMES or name in PRICES or isinstance(value, str):
            continue
        if name in LEVELS and isinstance(value, float) and 0 <= value <= 1:
            setting = setting.given(name, Decimal(str(value)), recorded("the policy's baseline table"))
        elif isinstance(value, int) and value >= 0:
            setting = setting.given(name, value, recorded("the policy's baseline table"))
    return setting


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
