"""What the whole fleet cost: by day, model, repository, owner and relay, from day roll-ups that add up exactly.

Interface, page 7: "fleet and per relay, money and tokens per verified unit of progress, … by day, model, relay, owner".
Figures of the scripted worker are no model's: they are in no sum unless they are asked for alone.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils.translation import gettext as _

from relays.models import Comparison, DayCost, Leg, Relay, Session
from relays.reports.compared import AS_VERDICT
from relays.reports.fleet_query import KINDS, Query, matching, matching_legs, mixed_legs

DRAWN_DAYS = 600  # of the chart: six series of them stay under 4,000 points
GROUPS = 100  # rows of a table by model, repository or owner
PAGE = 50
CHUNK = 1_000  # rows of a CSV at a time
UNIT = Decimal(10) ** 10  # of `DayCost.units` in a dollar

_TOKENS = ("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens")


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
    """One model, repository or owner. `progress`: verified units of its legs that ended in this time, None = no leg, or

    of a model that legs worked with beside other ones: whose unit it was nobody can tell.
    """

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

    @property
    def tokens_each(self) -> int | None:
        return round(self.sums.tokens / self.progress) if self.progress else None


@dataclass(frozen=True, slots=True)
class Against:
    """Saved and lost against the baselines, over whole relays that worked in this time; neither is below 0."""

    saved: Decimal
    lost: Decimal
    cheaper: int
    dearer: int
    open: int

    @property
    def net(self) -> Decimal:
        return self.saved - self.lost

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


# ---- the answer -----------------------------------------------------------------------------------------------------


def fleet(query: Query) -> Fleet:
    """The page: a constant number of queries over day roll-ups, legs' roll-ups and stored comparisons."""
    rows = matching(query)
    kinds = {row.pop("kind"): row for row in _summed(rows.values("kind"))}
    relays, sessions = (sums_of(kinds.get(kind)) for kind in KINDS)
    beside = sums_of(_aggregate(matching(query, scripted=True))) if not query.scripted else Sums()
    undated = DayCost.objects.filter(day__isnull=True).aggregate(n=Coalesce(Sum("calls"), 0))["n"]
    legs = matching_legs(query)
    pages = Paginator(_worked(rows), PAGE)
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
        days=days(query),
        models=by(query, "model", GROUPS),
        repos=by(query, "repository", GROUPS),
        owners=by(query, "owner", GROUPS),
        works=_works(list(page.object_list), legs),
        work_count=pages.count,
        page=page.number,
        pages=pages.num_pages,
        against=_against(rows, "relay"),
        shadow=_against(rows, "session"),
        unpriced_models=unpriced(query, GROUPS),
    )  # fmt: skip


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


def days(query: Query) -> tuple[DayRow, ...]:
    """Every day that has a call, oldest first; calls without a time last. One query."""
    found: dict[date | None, dict[str, Any]] = {}
    for row in _summed(matching(query).values("day", "kind", "model")):
        one = found.setdefault(row["day"], {"relay": Sums(), "session": Sums(), "models": {}})
        one[row["kind"]] = added(one[row["kind"]], sums_of(row))
        one["models"][row["model"]] = one["models"].get(row["model"], 0) + int(row["n_units"])
    ordered = sorted(found.items(), key=lambda item: (item[0] is None, item[0] or date.min))
    return tuple(DayRow(day, one["relay"], one["session"], one["models"]) for day, one in ordered)


#: what a table groups by -> the column of the roll-ups, and the one of the legs
_GROUPED = {
    "model": ("model", "model"),
    "repository": ("repository", "relay__repo"),
    "owner": ("owner__username", "relay__owner__username"),
}


def by(query: Query, what: str, limit: int | None = None) -> tuple[GroupRow, ...]:
    """By model, repository or owner (relays alone: nobody drives a session), the dearest first. Two queries, three."""
    field, of_leg = _GROUPED[what]
    rows = matching(query).filter(kind="relay") if what == "owner" else matching(query)
    progress = _progress(matching_legs(query), of_leg)
    if what == "model":
        for model in matching(query).filter(leg__in=mixed_legs()).order_by().values_list("model", flat=True).distinct():
            progress.pop(model, None)
    found = _summed(rows.values(field)).order_by("-n_units", "-n_calls", field)[:limit]
    return tuple(
        GroupRow(key, _NAMES[what](key), sums_of(row), progress.get(key))
        for row in found
        for key in (row[field] or "",)
    )


def unpriced(query: Query, limit: int | None = None) -> tuple[tuple[str, int, int], ...]:
    """(model, calls without a price, all its calls), the most first. One query."""
    rows = matching(query).filter(unpriced__gt=0).order_by().values("model")
    told = rows.annotate(n=Sum("unpriced"), of=Sum("calls")).order_by("-n", "model")
    return tuple(told.values_list("model", "n", "of")[:limit])


def works(query: Query) -> Iterator[WorkRow]:
    """Every relay and session, the dearest first; five queries for each thousand of them."""
    keys = list(_worked(matching(query)))
    for start in range(0, len(keys), CHUNK):
        yield from _works(keys[start : start + CHUNK], matching_legs(query))


def _worked(rows: QuerySet[DayCost]) -> Any:
    keys = rows.values("kind", "relay_id", "session_id")
    return _summed(keys).order_by("-n_units", "-n_calls", "relay_id", "session_id")


def _progress(legs: QuerySet[Leg], field: str) -> dict[str, int]:
    return dict(legs.order_by().values(field).annotate(n=Sum("progress")).values_list(field, "n"))


def short_repo(path: str) -> str:
    return PurePath(path.replace("\\", "/")).name or path or _("no folder named")


_NAMES: dict[str, Callable[[str], str]] = {
    "model": lambda key: key or _("no model named"),
    "repository": short_repo,
    "owner": str,
}


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
        told["saved"] or Decimal(0), -(told["lost"] or Decimal(0)), told["cheaper"], told["dearer"], told["open"]
    )


def choices() -> Choices:
    """What the filters offer. Four queries."""

    def distinct(field: str) -> tuple[str, ...]:
        return tuple(filter(None, DayCost.objects.order_by(field).values_list(field, flat=True).distinct()[:200]))

    return Choices(distinct("model"), distinct("agent"), distinct("repository"), distinct("owner__username"))
