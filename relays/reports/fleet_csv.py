"""The tables of the fleet's cost as rows, the first of them the names of the columns; money exact, not rounded."""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from relays.reports import fleet_ahead, fleet_cost
from relays.reports.fleet_cost import Sums
from relays.reports.fleet_query import Query
from relays.reports.fleet_side import Belief, BudgetRow, Parked

Rows = Iterable[tuple[object, ...]]
_SUMS = ("calls", "tokens", "of them from cache", "of them output", "money", "unpriced calls")


def _sums(one: Sums) -> tuple[object, ...]:
    return (one.calls, one.tokens, one.cache_read, one.output, one.money if one.priced else None, one.unpriced)


def days(query: Query) -> Rows:
    yield ("day", *_SUMS, "money of relays", "money of sessions")
    for row in fleet_cost.days(query):
        yield (row.day.isoformat() if row.day else "no time", *_sums(row.all), row.relays.money, row.sessions.money)


def _groups(query: Query, what: str) -> Rows:
    yield (what, *_SUMS, "verified units", "money per unit", "tokens per unit")
    for row in fleet_cost.by(query, what):
        yield (row.key, *_sums(row.sums), row.progress, row.money_each, row.tokens_each)


def works(query: Query) -> Rows:
    yield ("kind", "id", "name", "repository", *_SUMS, "verified units", "money per unit", "verdict", "saved")
    for row in fleet_cost.works(query):
        yield (
            row.kind, row.pk, row.name, row.repo_name, *_sums(row.sums), row.progress, row.money_each, row.verdict,
            row.saving,
        )  # fmt: skip


def unpriced(query: Query) -> Rows:
    yield ("model", "unpriced calls", "of calls")
    yield from fleet_cost.unpriced(query)


def envelopes(query: Query) -> Rows:
    yield ("relay", "objective", "spent first", "used", "limit", "legs left", "verified units left")
    for row in fleet_ahead.envelopes(query).rows:
        axis = row.axis
        yield (row.relay, row.objective, axis.words, axis.used, axis.limit, axis.legs_left, axis.progress_left)


def ways(query: Query) -> Rows:
    yield ("policy", "relays", "not finished", "money", "money of these relays", "saved by the relays", "provenance")
    for row in fleet_ahead.other_ways(query):
        yield (row.policy, row.relays, row.unfinished, row.cost, row.own, row.saved, "SIMULATED")


#: each of them whole, whatever the page shows of it
TABLES: Final[Mapping[str, Callable[[Query], Rows]]] = {
    "days": days,
    "models": lambda query: _groups(query, "model"),
    "repositories": lambda query: _groups(query, "repository"),
    "owners": lambda query: _groups(query, "owner"),
    "works": works,
    "unpriced": unpriced,
    "envelopes": envelopes,
    "ways": ways,
}


def budgets(rows: Iterable[BudgetRow]) -> Rows:
    yield ("owner", "month", "spent", "unpriced calls", "limit", "state", "at this pace")
    for row in rows:
        yield (row.owner, f"{row.month:%Y-%m}", row.spent, row.unpriced, row.limit, row.state, row.pace)


def parked(found: Parked) -> Rows:
    yield ("relay", "objective", "parked hours", "gates")
    for row in found.rows:
        yield (row.relay, row.objective, round(row.time.total_seconds() / 3600, 2), row.episodes)


def tests(found: Belief) -> Rows:
    yield (
        "session", "agent", "observed money", "predicted money", "error", "observed compactions",
        "predicted compactions", "calls left out", "why not",
    )  # fmt: skip
    for one in found.tests:
        row = one.row
        yield (
            one.session, one.agent, row.observed_cost, row.predicted_cost, row.error, row.observed_compactions,
            row.predicted_compactions, row.left_out_calls, row.why,
        )  # fmt: skip


def learned(found: Belief) -> Rows:
    yield ("agent", "version", "parameter", "value", "unit", "low", "high", "n", "used", "source")
    for _, row in found.learned:
        yield (
            row.agent, row.version, row.name, row.value, row.unit, row.low, row.high, row.n, row.used, row.source,
        )  # fmt: skip
