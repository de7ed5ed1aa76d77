"""The work stream of a session or of a relay, from its stored calls, with what it was observed to cost.

cost.md: "Take the observed work stream of a relay or a session: per call, what was new (tool results, user text) and
what was produced (output)." "Sub-agent calls (sidechains) cost money but are not resident context of the main chain":
they are no steps, and their money is the same whoever carries the main chain.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any, Final

from django.db import connection

from relays.core import pricing, workstream
from relays.core.boundary import Step
from relays.core.carryover_prices import Prices
from relays.core.lines import recorded
from relays.core.pricing import Rates
from relays.core.usage import ZERO, Buckets, add, resident
from relays.core.vocabulary import Hold
from relays.core.workstream import MainCall, Stream
from relays.models import (
    Boundary,
    Call,
    CostDue,
    Leg,
    PriceRow,
    Relay,
    Session,
    SessionAct,
    SessionBoundary,
    SessionCall,
    SourceFile,
)
from relays.stores.prices import book

#: main calls that are played: of a longer relay the newest ones are compared, and its comparison says so
MOST_CALLS: Final = 60_000
#: what a leg is told that has nothing left but to hand over: what it does then no other carrier would have to do
HANDING_OVER: Final = tuple(
    f"{Step.WIND_DOWN} {hold}" for hold in (Hold.NOT_EXTERNALIZED, Hold.NO_NEXT_ACTION, Hold.AMBIGUOUS_NEXT_ACTION)
)


@dataclass(slots=True)
class LegMoney:
    """One leg's (or stretch's) money by bucket, over all its calls."""

    number: int
    calls: int = 0
    input: Decimal = Decimal(0)
    cache_read: Decimal = Decimal(0)
    cache_write: Decimal = Decimal(0)
    output: Decimal = Decimal(0)
    unpriced: int = 0
    peak: int = 0
    turns: int = 0  # its main calls

    def as_json(self) -> dict[str, object]:
        return {
            "leg": self.number,
            "calls": self.calls,
            "input": plain(self.input),
            "cache_read": plain(self.cache_read),
            "cache_write": plain(self.cache_write),
            "output": plain(self.output),
            "unpriced": self.unpriced,
            "peak": self.peak,
        }


@dataclass(slots=True)
class Observed:
    """A relay or session as its calls show it (OBSERVED).

    `stream` None where no main call is stored. `prices`: what `Step.price` chooses from; `priced` False: a main call,
    or one of the carrier's own, has no price, so that nothing can be played for money. `cost`: of all calls that have
    a price, `main` of the main chain's, `carrying` of the calls that the carrier itself made (a compaction's own).
    `money_at`: cumulative, per main call, all chains; `beside_at`: of it, what no carrier changes. `places`: per cut
    the leg or stretch that it ended, and its last turn.
    """

    window: int
    agent: str
    version: str = ""
    stream: Stream | None = None
    calls: list[MainCall] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)  # of the main calls of a session
    prices: list[Prices] = field(default_factory=list)
    price_source: str = ""
    priced: bool = True
    cost: Decimal = Decimal(0)
    main: Decimal = Decimal(0)
    carrying: Decimal = Decimal(0)
    carrying_calls: int = 0
    counted: int = 0
    unpriced: Counter[str] = field(default_factory=Counter)
    tokens: Buckets = ZERO
    reported: Decimal | None = None
    money_at: list[Decimal] = field(default_factory=list)
    beside_at: list[Decimal] = field(default_factory=list)
    legs: list[LegMoney] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    scripted: bool = False
    ended_cut: bool = False  # it compacted after its last call: no call shows what came of that
    left_out: int = 0  # main calls before those that are played

    @property
    def hit_rate(self) -> float | None:
        """Σ cached / Σ (cached + uncached) over all calls; None without a call."""
        side = resident(self.tokens)
        return self.tokens.cache_read / side if side else None

    @property
    def beside(self) -> Decimal:
        """What no carrier changes: sub-agents, and calls before those that are played."""
        return self.cost - self.main - self.carrying

    def mark(self, main: bool) -> None:
        """Write down what was spent by now: at a new main call, else at the one before it."""
        if main:
            self.money_at.append(self.cost)
            self.beside_at.append(self.beside)
        elif self.money_at:
            self.money_at[-1], self.beside_at[-1] = self.cost, self.beside


def plain(amount: Decimal) -> str:
    """A decimal string without an exponent and without zeros that say nothing."""
    return pricing.plain(amount)


class _PriceList:
    """The prices of one stream, each once."""

    def __init__(self, out: Observed) -> None:
        self.out = out
        self._known: dict[tuple[object, str], int | None] = {}
        self._sources: dict[str, None] = {}

    def index(self, key: object, rates: Rates | None, buckets: Buckets, source: str) -> int | None:
        """The number of the prices that hold for a call; None = it has none."""
        lifetime = "1h" if buckets.cache_write_1h else "5m"
        known = self._known.get((key, lifetime), -1)
        if known != -1:
            return known
        prices = Prices.of(rates, "1h" if lifetime == "1h" else "5m") if rates is not None else None
        if prices is None:
            self._known[key, lifetime] = None
            return None
        self._known[key, lifetime] = len(self.out.prices)
        self.out.prices.append(prices)
        self._sources[source] = None
        self.out.price_source = ", ".join(self._sources)
        return self._known[key, lifetime]


def _by_bucket(leg: LegMoney, rates: Rates | None, buckets: Buckets, cost: Decimal | None) -> None:
    """Add one call to its leg: by list price where it has one, scaled to what the call itself says it cost."""
    leg.calls += 1
    if cost is None:
        leg.unpriced += 1
        return
    parts = dict.fromkeys(("input", "cache_read", "cache_write_5m", "cache_write_1h", "output"), Decimal(0))
    if rates is not None:
        side = resident(buckets)
        for name, rate in rates.used().items():
            tokens = getattr(buckets, name)
            if rate is not None and tokens:
                parts[name] = rate.at(side) * tokens / pricing.MILLION
    listed = sum(parts.values(), Decimal(0))
    if listed and listed != cost:
        parts = {name: pricing.kept(part * cost / listed) for name, part in parts.items()}
    parts["output"] += cost - sum(parts.values(), Decimal(0))  # whatever the rounding, the sum is the call's cost
    leg.input += parts["input"]
    leg.cache_read += parts["cache_read"]
    leg.cache_write += parts["cache_write_5m"] + parts["cache_write_1h"]
    leg.output += parts["output"]


# --- sessions


_SESSION_COLUMNS: Final = (
    "c.key, c.chain, c.agent_id, c.model, c.at, c.input_tokens, c.cache_read, c.cache_write_5m, c.cache_write_1h, "
    "c.output_tokens, c.cost, c.price_id, s.path, c.line, c.reported_cost"
)


def _session_rows(session: Session) -> list[tuple[Any, ...]]:
    """The session's own calls in their order: files by path, then lines, as its window is drawn."""
    path = 's.path COLLATE "C"' if connection.vendor == "postgresql" else "s.path"
    query = f"""
        SELECT {_SESSION_COLUMNS}
        FROM "{SessionCall._meta.db_table}" c JOIN "{SourceFile._meta.db_table}" s ON s.id = c.source_id
        WHERE c.session_id = %s AND c.counts ORDER BY {path}, c.line, c.key
    """  # noqa: S608 - names of columns only
    with connection.cursor() as cursor:
        cursor.execute(query, [session.pk])
        return list(cursor.fetchall())


def of_session(session: Session) -> Observed:
    """A session: calls that count here, in their order; its compactions cut. A fixed number of queries."""
    from relays.sessions.rows import read_time

    out = Observed(session.window_tokens or 0, session.agent, session.version, reported=session.reported_cost)
    rows = _session_rows(session)
    rates = _rates({row[11] for row in rows if row[11] is not None})
    marks = sorted(
        SessionBoundary.objects.filter(session=session, shown=True, counts=True, kind="compaction").values_list(
            "source__path", "line"
        )
    )
    acts = SessionAct.objects.filter(session=session).exclude(kind="issue").values_list("call", flat=True)
    effects = {call for call in acts if call}
    prices = _PriceList(out)
    leg = LegMoney(0)
    at = 0
    fresh = False
    for row in rows:
        key, chain, agent_id, model, time, *tokens = row[:10]
        cost = _money(row[10])
        buckets = Buckets(*(int(count) for count in tokens))
        while at < len(marks) and marks[at] < (row[12], row[13]):
            at += 1
            fresh = fresh or bool(out.calls)
        if chain == "main" and fresh:
            out.legs.append(leg)
            out.places.append((leg.number, leg.turns))
            leg = LegMoney(leg.number + 1)
        known = rates.get(row[11])
        _by_bucket(leg, known[0] if known else None, buckets, cost)
        _count(out, model, buckets, cost)
        if chain == "main":
            leg.turns += 1
            leg.peak = max(leg.peak, resident(buckets))
            index = prices.index(row[11], known[0] if known else None, buckets, known[1] if known else "")
            out.priced = out.priced and index is not None and cost is not None
            out.main += cost or 0
            out.calls.append(MainCall(buckets, read_time(time), fresh, key in effects, index or 0))
            out.keys.append(key)
            fresh = False
        elif chain == "aux" and _carries(session.agent, agent_id):
            out.priced = out.priced and cost is not None
            out.carrying += cost or 0
            out.carrying_calls += 1
        out.mark(chain == "main")
    out.legs.append(leg)
    out.ended_cut = bool(out.calls) and (fresh or at < len(marks))
    if out.calls:
        out.stream = workstream.of(out.calls, max(out.window, 1), soon=workstream.SOON)
    return out


def _carries(agent: str, agent_id: str) -> bool:
    """Whether a call beside the main chain is a compaction's own: Claude Code starts other helpers for itself too."""
    return agent != "claude-code" or agent_id.startswith("acompact")


def _rates(keys: Iterable[int]) -> dict[int, tuple[Rates, str]]:
    found: dict[int, tuple[Rates, str]] = {}
    for row in PriceRow.objects.filter(pk__in=sorted(keys)):
        found[row.pk] = (pricing.from_json(row.rates), row.source)
    return found


def _money(value: object) -> Decimal | None:
    """A cost as a database gives it, to the 1e-10 dollars that it was kept to."""
    return None if value is None else pricing.kept(Decimal(str(value)))


def _count(out: Observed, model: str, buckets: Buckets, cost: Decimal | None) -> None:
    out.counted += 1
    out.tokens = add(out.tokens, buckets)
    if cost is None:
        out.unpriced[model or recorded("a model that is not named")] += 1
    else:
        out.cost += cost


# --- relays


def of_relay(relay: Relay) -> Observed:
    """A relay: all calls of all its legs in their order; each new leg cuts.

    A call that its agent gave no cost is priced by the list where the list knows its model. What a leg does after it
    was told that only its handing over is missing is the relay's own, as a summary's call is a compaction's: no step of
    the work, unless it did the leg's first durable thing there. A fixed number of queries.
    """
    legs = list(
        Leg.objects.filter(relay=relay, calls__gt=0).order_by("number").values("pk", "number", "window_tokens", "turns")
    )
    out = Observed(legs[-1]["window_tokens"] if legs else 0, relay.agent)
    first = _first_leg(legs)
    effects = dict(
        CostDue.objects.filter(leg__relay=relay, effect_turn__isnull=False).values_list("leg_id", "effect_turn")
    )
    told_last = Boundary.objects.filter(leg__relay=relay, answer__in=HANDING_OVER).values_list("leg_id", "turn")
    handing = {(leg_id, turn + 1) for leg_id, turn in told_last}
    calls = Call.objects.filter(leg__relay=relay).order_by("leg__number", "turn", "id")
    columns = (
        "leg_id", "leg__number", "turn", "model", "main", "input_tokens", "cache_read", "cache_write_5m",
        "cache_write_1h", "output_tokens", "cost", "at", "cache_reported", "scripted", "listed",
    )  # fmt: skip
    prices = _PriceList(out)
    leg: LegMoney | None = None
    fresh = False
    for row in calls.values_list(*columns).iterator(chunk_size=5_000):
        pk, number, turn, model, main, *rest = row
        buckets = Buckets(*rest[:5])
        stated, at, told, scripted, listed = rest[5:]
        found = book().find(model, relay.agent, at)
        rates = found.rates if found is not None else None
        cost = stated if stated is not None else pricing.cost(rates, buckets) if rates is not None else None
        cost = pricing.kept(cost) if cost is not None else None
        if leg is None or leg.number != number:
            fresh = leg is not None
            if leg is not None:
                out.legs.append(leg)
            leg = LegMoney(number)
        _by_bucket(leg, rates, buckets, cost)
        _count(out, model, buckets, cost)
        out.scripted = out.scripted or scripted
        if stated is not None and not listed:
            out.reported = (out.reported or Decimal(0)) + stated
        if main:
            leg.turns = turn
            leg.peak = max(leg.peak, resident(buckets))
            key = found.digest if found is not None else model
            index = prices.index(key, rates, buckets, found.source if found is not None else "")
            if number < first:
                out.left_out += 1
                continue
            out.priced = out.priced and index is not None
            if (pk, turn) in handing and effects.get(pk) != turn and out.calls and not fresh:
                out.carrying += cost or 0
                out.carrying_calls += 1
                out.calls[-1] = replace(out.calls[-1], then=resident(buckets))
                out.mark(main=False)
                continue
            out.main += cost or 0
            if fresh and out.calls:
                out.places.append((out.legs[-1].number, out.legs[-1].turns))
            out.calls.append(
                MainCall(buckets, at, fresh and bool(out.calls), effects.get(pk) == turn, index or 0, told)
            )
            fresh = False
        out.mark(main)
    if leg is not None:
        out.legs.append(leg)
    if out.calls:
        out.stream = workstream.of(out.calls, max(out.window, 1))
    return out


def _first_leg(legs: Sequence[Mapping[str, Any]]) -> int:
    """The first leg that is played: from it on there are no more than `MOST_CALLS` turns; the newest leg always is."""
    turns = 0
    for leg in reversed(legs):
        turns += leg["turns"]
        if turns > MOST_CALLS and leg is not legs[-1]:
            return int(leg["number"]) + 1
    return int(legs[0]["number"]) if legs else 0
