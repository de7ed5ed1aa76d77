"""Beside what the fleet cost: hours parked, budgets of owners and months, how far the engine may be believed.

Interface, page 7: "budget per owner and month"; cost.md, Charts: "per fleet: … parked time"; cost.md, Back-test: "the
page shows predicted against observed, the median absolute error over all".
"""

from calendar import monthrange
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal

from django.db.models.functions import Abs

from relays.models import OPEN_GATES, BackTest, CostState, GateEpisode, LearnedParameter, OwnerBudget, OwnerMonth, Relay
from relays.reports import compared as stored
from relays.reports import stored_json
from relays.reports.compared import Faithful
from relays.reports.cost import BackTested, backtested, parameter_words
from relays.reports.fleet_cost import UNIT, short_repo
from relays.reports.fleet_query import Query, midnight

MOST_GATES = 20_000  # episodes that one page reads
TOP = 10  # relays that the page names
NAMED = 1_000  # of the longest that the CSV gives an objective to
MONTHS = 600  # rows of budgets
TESTS = 1_000
LEARNED = 1_000


# ---- parked ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParkedRow:
    relay: str
    objective: str
    time: timedelta
    episodes: int
    open: bool


@dataclass(frozen=True, slots=True)
class Parked:
    """Hours that relays waited for people within the time of the page; of one relay two gates at once count once."""

    time: timedelta
    episodes: int
    relays: int
    rows: tuple[ParkedRow, ...]  # the longest first
    cut: bool

    @property
    def top(self) -> tuple[ParkedRow, ...]:
        return self.rows[:TOP]


def parked(query: Query, now: datetime) -> Parked:
    """Two queries."""
    start = midnight(query.since) if query.since else None
    stop = min(midnight(query.until + timedelta(days=1)), now) if query.until else now
    found = GateEpisode.objects.filter(opened_at__lt=stop)
    if start:
        found = found.exclude(state_at__lt=start, state__in=_CLOSED)
    for field, value in (
        ("relay__agent", query.agent), ("relay__repo", query.repo), ("relay__owner__username", query.owner),
    ):  # fmt: skip
        if value:
            found = found.filter(**{field: value})
    rows = [] if query.kind == "session" else list(
        found.order_by("-opened_at", "-id").values_list("relay_id", "opened_at", "state_at", "state")[: MOST_GATES + 1]
    )  # fmt: skip
    spans: dict[str, list[tuple[datetime, datetime]]] = {}
    waits: set[str] = set()
    for relay, opened, changed, state in rows[:MOST_GATES]:
        end = stop if state in OPEN_GATES else min(changed, stop)
        begin = max(opened, start) if start else opened
        if end > begin:
            spans.setdefault(relay, []).append((begin, end))
        if state in OPEN_GATES:
            waits.add(relay)
    times = {relay: union(of) for relay, of in spans.items()}
    longest = sorted(times, key=lambda relay: (-times[relay], relay))
    words = dict(Relay.objects.filter(pk__in=longest[:NAMED]).values_list("pk", "objective"))
    return Parked(
        time=sum(times.values(), timedelta(0)),
        episodes=sum(map(len, spans.values())),
        relays=len(times),
        rows=tuple(ParkedRow(one, words.get(one, ""), times[one], len(spans[one]), one in waits) for one in longest),
        cut=len(rows) > MOST_GATES,
    )


_CLOSED = ("confirmed", "refused", "expired", "superseded")


def union(spans: list[tuple[datetime, datetime]]) -> timedelta:
    """The time that is covered by at least one of the spans."""
    total, end = timedelta(0), None
    for start, stop in sorted(spans):
        begin = start if end is None else max(start, end)
        if stop > begin:
            total += stop - begin
        end = stop if end is None else max(end, stop)
    return total


# ---- budgets --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """What an owner's relays cost in a month. `state`: none, fine, warned, over. `pace`: to the month's end, if it is

    the present one and goes on like this; None for a month that is over, and in the first three days.
    """

    owner: str
    month: date
    spent: Decimal
    unpriced: int
    limit: Decimal | None
    state: str
    pace: Decimal | None

    @property
    def share(self) -> Decimal | None:
        return self.spent / self.limit if self.limit else None

    @property
    def warns(self) -> bool:
        return self.state in ("warned", "over")


def budgets(query: Query, now: datetime, today: date) -> tuple[BudgetRow, ...]:
    """The newest months first; a budget whose month has no call yet has a row of its own. Two queries."""
    months, limits = OwnerMonth.objects.all(), OwnerBudget.objects.all()
    if query.owner:
        months, limits = months.filter(owner__username=query.owner), limits.filter(owner__username=query.owner)
    found = months.select_related("owner").order_by("-month", "-units", "owner__username")[:MONTHS]
    this = today.replace(day=1)
    rows = [
        BudgetRow(
            row.owner.get_username(), row.month, Decimal(row.units) / UNIT, row.unpriced, row.limit, row.state,
            _pace(Decimal(row.units) / UNIT, now, today) if row.month == this else None,
        )
        for row in found
        if row.calls or row.units or row.limit is not None
    ]  # fmt: skip
    seen = {(row.owner, row.month) for row in rows}
    for one in limits.select_related("owner").order_by("owner__username")[:MONTHS]:
        key = (one.owner.get_username(), one.month or this)
        if key not in seen and key[1] >= this:
            seen.add(key)
            rows.append(BudgetRow(*key, Decimal(0), 0, one.limit, "fine", None))
    return tuple(sorted(rows, key=lambda row: (-row.month.toordinal(), not row.warns, row.owner)))


def _pace(spent: Decimal, now: datetime, today: date) -> Decimal | None:
    """To the month's end, if it goes on like this; the first three days tell too little."""
    gone = today.day - 1 + (now - midnight(today)) / timedelta(days=1)
    days = monthrange(today.year, today.month)[1]
    return spent * Decimal(days) / Decimal(str(round(gone, 6))) if gone >= 3 else None


# ---- whether the engine may be believed -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tested:
    """One session that really compacted, predicted from parameters that were learned without it."""

    session: int
    name: str
    agent: str
    row: BackTest

    @property
    def error(self) -> float | None:
        return abs(self.row.error) if self.row.error is not None else None

    @property
    def count_right(self) -> bool:
        return self.row.predicted_compactions == self.row.observed_compactions


@dataclass(frozen=True, slots=True)
class Belief:
    all: BackTested
    tests: tuple[Tested, ...]
    learned: tuple[tuple[str, LearnedParameter], ...]  # its words, itself
    faithful: Faithful


def belief() -> Belief:
    """The worst prediction first. Four queries."""
    tests = BackTest.objects.select_related("session").order_by(Abs("error").desc(nulls_last=True), "session_id")
    state = CostState.objects.filter(name="faithful").first()
    return Belief(
        all=backtested(),
        tests=tuple(
            Tested(
                one.session_id,
                short_repo(one.session.cwd) if one.session.cwd else one.session.sid[:13],
                f"{one.session.agent} {one.session.version}".strip(),
                one,
            )
            for one in tests.defer("session__series", "session__fill", "session__shadow")[:TESTS]
        ),
        learned=tuple(
            (parameter_words(one.name)[0], one)
            for one in LearnedParameter.objects.order_by("agent", "version", "name")[:LEARNED]
        ),
        faithful=stored.faithful(stored_json.mapping(state.value) if state else {}),
    )
