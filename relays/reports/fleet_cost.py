"""What the whole fleet cost: by day, model, repository, owner and relay, from day roll-ups that add up exactly.

Interface, page 7: "fleet and per relay, money and tokens per verified unit of progress, … by day, model, relay, owner".
Figures of the scripted worker are no model's: they are in no sum unless they are asked for alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from relays.models import Comparison, DayCost, Leg, Relay, Session
from relays.reports.compared import AS_VERDICT

DAYS = 30  # that the page shows before a range is chosen
DRAWN_DAYS = 600  # of the chart: six series of them stay under 4,000 points
GROUPS = 100  # rows of a table by model, repository or owner
PAGE = 50
KINDS = ("relay", "session")
UNIT = Decimal(10) ** 10  # of `DayCost.units` in a dollar

_TOKENS = ("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens")


@dataclass(frozen=True, slots=True)
class Query:
    """What the page was asked for; days are of the fleet's zone, `None` = open. `problems`: field -> what is wrong."""

    since: date | None
    until: date | None
    kind: str = ""
    model: str = ""
    agent: str = ""
    repo: str = ""
    owner: str = ""
    scripted: bool = False
    page: int = 1
    everything: bool = False  # all days, also calls without a time
    problems: tuple[tuple[str, str], ...] = ()

    @property
    def filtered(self) -> bool:
        return any((self.kind, self.model, self.agent, self.repo, self.owner, self.scripted))


@dataclass(frozen=True, slots=True)
class Sums:
    """Exact sums. `money` is of what is priced; `unpriced` calls are in no money."""

    calls: int = 0
    unpriced: int = 0
    units: int = 0
    tokens: int = 0
    cache_read: int = 0
    output: int = 0

    @property
    def money(self) -> Decimal:
        return Decimal(self.units) / UNIT

    @property
    def priced(self) -> bool:
        """Whether there is money to show at all: unpriced is never 0."""
        return self.calls > self.unpriced or self.units > 0


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One model, repository or owner. `progress`: verified units of its legs that ended in this time, None = no leg."""

    key: str
    name: str
    sums: Sums
    progress: int | None

    @property
    def money_each(self) -> Decimal | None:
        return self.sums.money / self.progress if self.progress and self.sums.priced else None

    @property
    def tokens_each(self) -> int | None:
        return round(self.sums.tokens / self.progress) if self.progress else None


@dataclass(frozen=True, slots=True)
class DayRow:
    day: date | None
    relays: Sums
    sessions: Sums
    models: Mapping[str, int]  # model -> units of money

    @property
    def all(self) -> Sums:
        return added(self.relays, self.sessions)


@dataclass(frozen=True, slots=True)
class WorkRow:
    """A relay or a session with what it cost in this time, and its whole comparison; `saving` below 0: lost."""

    kind: str
    pk: str
    name: str
    repo_name: str
    sums: Sums
    progress: int | None
    verdict: str
    as_verdict: str
    saving: Decimal | None

    @property
    def money_each(self) -> Decimal | None:
        return self.sums.money / self.progress if self.progress and self.sums.priced else None


@dataclass(frozen=True, slots=True)
class Against:
    """Saved and lost against the baselines, over whole relays that worked in this time. `lost` is 0 or below."""

    saved: Decimal
    lost: Decimal
    cheaper: int
    dearer: int
    open: int

    @property
    def net(self) -> Decimal:
        return self.saved + self.lost

    @property
    def decided(self) -> bool:
        return bool(self.cheaper or self.dearer)


@dataclass(frozen=True, slots=True)
class Choices:
    models: tuple[str, ...]
    agents: tuple[str, ...]
    repos: tuple[str, ...]
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Fleet:
    """The page. `scripted`: what the scripted worker did beside it, `undated`: calls that no day could be given to."""

    query: Query
    any_cost: bool
    total: Sums
    relays: Sums
    sessions: Sums
    scripted: Sums
    undated: int
    progress: int
    days: tuple[DayRow, ...]
    models: tuple[GroupRow, ...]
    repos: tuple[GroupRow, ...]
    owners: tuple[GroupRow, ...]
    works: tuple[WorkRow, ...]
    work_count: int
    page: int
    pages: int
    against: Against
    shadow: Against
    unpriced_models: tuple[tuple[str, int, int], ...]

    @property
    def money_each(self) -> Decimal | None:
        """Money of relays over their verified units: sessions have no driver that verifies."""
        return self.relays.money / self.progress if self.progress and self.relays.priced else None

    @property
    def tokens_each(self) -> int | None:
        return round(self.relays.tokens / self.progress) if self.progress else None


def added(one: Sums, other: Sums) -> Sums:
    return Sums(
        one.calls + other.calls, one.unpriced + other.unpriced, one.units + other.units, one.tokens + other.tokens,
        one.cache_read + other.cache_read, one.output + other.output,
    )  # fmt: skip


# ---- the question ---------------------------------------------------------------------------------------------------


def clean_query(values: Mapping[str, str], today: date) -> Query:
    """A query from untrusted text; a day that is none is told beside its field, other unknown words are dropped."""

    def word(name: str, most: int) -> str:
        return "".join(char for char in values.get(name, "") if char.isprintable()).strip()[:most]

    problems: list[tuple[str, str]] = []
    everything = word("range", 5) == "all"
    since, until = _day(word("since", 40), "since", problems), _day(word("until", 40), "until", problems)
    if since and until and since > until:
        problems.append(("until", f"{until} is before {since}: choose a day on or after it"))
        until = None
    if since is None and until is None and not everything:
        since = today - timedelta(days=DAYS - 1)
    page, kind = word("page", 9), word("kind", 10)
    return Query(
        since=None if everything else since, until=None if everything else until,
        kind=kind if kind in KINDS else "", model=word("model", 120), agent=word("agent", 40), repo=word("repo", 4096),
        owner=word("owner", 150), scripted=word("scripted", 1) == "1",
        page=int(page) if page.isascii() and page.isdecimal() and int(page) else 1, everything=everything,
        problems=tuple(problems),
    )  # fmt: skip


def _day(text: str, field: str, problems: list[tuple[str, str]]) -> date | None:
    if not text:
        return None
    try:
        found = date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        found = None
    # the ends of the calendar have no midnight in every zone
    if found is None or not 1 < found.year < 9999:
        problems.append((field, f"{text[:20]!r} is no day: write it as 2026-11-30"))
        return None
    return found


# ---- the answer -----------------------------------------------------------------------------------------------------


def fleet(query: Query) -> Fleet:
    """The page: a constant number of queries over day roll-ups, legs' roll-ups and stored comparisons."""
    rows = matching(query)
    kinds = {row.pop("kind"): row for row in _summed(rows.values("kind"))}
    relays, sessions = (sums_of(kinds.get(kind)) for kind in KINDS)
    beside = sums_of(_aggregate(matching(query, scripted=True))) if not query.scripted else Sums()
    undated = DayCost.objects.filter(day__isnull=True).aggregate(n=Coalesce(Sum("calls"), 0))["n"]
    legs = matching_legs(query)
    keys = rows.values("kind", "relay_id", "session_id")
    pages = Paginator(_summed(keys).order_by("-n_units", "-n_calls", "relay_id", "session_id"), PAGE)
    page = pages.get_page(query.page)
    return Fleet(
        query=query,
        any_cost=bool(kinds) or DayCost.objects.exists(),
        total=added(relays, sessions),
        relays=relays,
        sessions=sessions,
        scripted=beside,
        undated=int(undated),
        progress=legs.aggregate(n=Coalesce(Sum("progress"), 0))["n"],
        days=_days(rows),
        models=_groups(rows, "model", _progress(legs, "model"), lambda key: key or "no model named"),
        repos=_groups(rows, "repository", _progress(legs, "relay__repo"), short_repo),
        owners=_groups(rows.filter(kind="relay"), "owner__username", _progress(legs, "relay__owner__username"), str),
        works=_works(list(page.object_list), legs),
        work_count=pages.count,
        page=page.number,
        pages=pages.num_pages,
        against=_against(rows, "relay"),
        shadow=_against(rows, "session"),
        unpriced_models=tuple(
            rows.filter(unpriced__gt=0).order_by().values("model").annotate(n=Sum("unpriced"), of=Sum("calls"))
            .order_by("-n", "model").values_list("model", "n", "of")[:GROUPS]
        ),
    )  # fmt: skip


def matching(query: Query, *, scripted: bool | None = None) -> QuerySet[DayCost]:
    found = DayCost.objects.filter(scripted=query.scripted if scripted is None else scripted)
    if query.since:
        found = found.filter(day__gte=query.since)
    if query.until:
        found = found.filter(day__lte=query.until)
    for field, value in (
        ("kind", query.kind), ("model", query.model), ("agent", query.agent), ("repository", query.repo),
        ("owner__username", query.owner),
    ):  # fmt: skip
        if value:
            found = found.filter(**{field: value})
    return found


def matching_legs(query: Query) -> QuerySet[Leg]:
    """Legs that ended in this time, with the same filters: where verified progress is counted."""
    found = Leg.objects.filter(progress__isnull=False, scripted=query.scripted)
    if query.kind == "session":
        return found.none()
    if query.since:
        found = found.filter(ended_at__gte=midnight(query.since))
    if query.until:
        found = found.filter(ended_at__lt=midnight(query.until + timedelta(days=1)))
    for field, value in (
        ("model", query.model), ("relay__agent", query.agent), ("relay__repo", query.repo),
        ("relay__owner__username", query.owner),
    ):  # fmt: skip
        if value:
            found = found.filter(**{field: value})
    return found


def midnight(day: date) -> datetime:
    return timezone.make_aware(datetime(day.year, day.month, day.day))


def _sum_fields() -> dict[str, Any]:
    return {
        "n_calls": Coalesce(Sum("calls"), 0),
        "n_unpriced": Coalesce(Sum("unpriced"), 0),
        "n_units": Coalesce(Sum("units"), 0),
        "n_read": Coalesce(Sum("cache_read"), 0),
        "n_output": Coalesce(Sum("output_tokens"), 0),
        **{f"t{nth}": Coalesce(Sum(name), 0) for nth, name in enumerate(_TOKENS)},
    }


def _summed(rows: Any) -> Any:
    return rows.order_by().annotate(**_sum_fields())


def _aggregate(rows: QuerySet[DayCost]) -> dict[str, Any]:
    return rows.aggregate(**_sum_fields())


def sums_of(row: Mapping[str, Any] | None) -> Sums:
    if row is None:
        return Sums()
    return Sums(
        calls=int(row["n_calls"]), unpriced=int(row["n_unpriced"]), units=int(row["n_units"]),
        tokens=sum(int(row[f"t{nth}"]) for nth in range(len(_TOKENS))), cache_read=int(row["n_read"]),
        output=int(row["n_output"]),
    )  # fmt: skip


def _days(rows: QuerySet[DayCost]) -> tuple[DayRow, ...]:
    """Every day that has a call, oldest first."""
    found: dict[date | None, dict[str, Any]] = {}
    for row in _summed(rows.values("day", "kind", "model")):
        one = found.setdefault(row["day"], {"relay": Sums(), "session": Sums(), "models": {}})
        one[row["kind"]] = added(one[row["kind"]], sums_of(row))
        one["models"][row["model"]] = one["models"].get(row["model"], 0) + int(row["n_units"])
    ordered = sorted(found.items(), key=lambda item: (item[0] is None, item[0] or date.min))
    return tuple(DayRow(day, one["relay"], one["session"], one["models"]) for day, one in ordered)


def _groups(rows: QuerySet[DayCost], field: str, progress: Mapping[str, int], name: Any) -> tuple[GroupRow, ...]:
    found = _summed(rows.values(field)).order_by("-n_units", "-n_calls", field)[:GROUPS]
    return tuple(
        GroupRow(key, name(key), sums_of(row), progress.get(key)) for row in found for key in (row[field] or "",)
    )


def _progress(legs: QuerySet[Leg], field: str) -> dict[str, int]:
    return dict(legs.order_by().values(field).annotate(n=Sum("progress")).values_list(field, "n"))


def short_repo(path: str) -> str:
    return PurePath(path.replace("\\", "/")).name or path or "no folder named"


def _works(rows: Sequence[Mapping[str, Any]], legs: QuerySet[Leg]) -> tuple[WorkRow, ...]:
    relay_ids = [row["relay_id"] for row in rows if row["relay_id"] is not None]
    session_ids = [row["session_id"] for row in rows if row["session_id"] is not None]
    relays = Relay.objects.only("id", "objective", "repo").in_bulk(relay_ids)
    sessions = Session.objects.only("id", "sid", "cwd").in_bulk(session_ids)
    progress = _progress(legs.filter(relay__in=relay_ids), "relay_id")
    told = Comparison.objects.filter(Q(relay__in=relay_ids) | Q(session__in=session_ids))
    said = {
        (relay, session): (verdict, saving)
        for relay, session, verdict, saving in told.values_list("relay_id", "session_id", "verdict", "saving")
    }
    found = []
    for row in rows:
        relay, session = relays.get(row["relay_id"]), sessions.get(row["session_id"])
        verdict, saving = said.get((row["relay_id"], row["session_id"]), ("not yet", None))
        path = relay.repo if relay else session.cwd if session else ""
        found.append(
            WorkRow(
                kind=row["kind"],
                pk=str(row["relay_id"] or row["session_id"]),
                name=relay.objective if relay else session.sid[:13] if session else "",
                repo_name=short_repo(path) if path else "",
                sums=sums_of(row),
                progress=progress.get(row["relay_id"]),
                verdict=verdict,
                as_verdict=AS_VERDICT.get(verdict, "not yet"),
                saving=saving,
            )  # fmt: skip
        )
    return tuple(found)


def _against(rows: QuerySet[DayCost], kind: str) -> Against:
    field = f"{kind}_id"
    keys = rows.filter(kind=kind).order_by().values(field).distinct()
    found = Comparison.objects.filter(**{f"{kind}__in": keys})
    told = found.aggregate(
        saved=Sum("saving", filter=Q(saving__gt=0)), lost=Sum("saving", filter=Q(saving__lt=0)),
        cheaper=Count("pk", filter=Q(verdict="cheaper")), dearer=Count("pk", filter=Q(verdict="dearer")),
        open=Count("pk", filter=Q(verdict="not yet")),
    )  # fmt: skip
    return Against(
        told["saved"] or Decimal(0), told["lost"] or Decimal(0), told["cheaper"], told["dearer"], told["open"]
    )


def choices() -> Choices:
    """What the filters offer. Four queries."""

    def distinct(field: str) -> tuple[str, ...]:
        return tuple(filter(None, DayCost.objects.order_by(field).values_list(field, flat=True).distinct()[:200]))

    return Choices(distinct("model"), distinct("agent"), distinct("repository"), distinct("owner__username"))
