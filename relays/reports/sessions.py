"""What the page Sessions reads: a constant number of queries over the sessions' roll-ups, never their calls.

Interface, page 8: "imported and watched sessions as shadow relays: where a rotation would have come, the would-be baton
and its fidelity, compactions that really happened".
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Count, ExpressionWrapper, F, FloatField, Q, QuerySet, Sum, TextField
from django.db.models.functions import Cast, Coalesce
from django.utils import timezone

from relays.core.fidelity import Score, score_of
from relays.models import Import, Session, SessionLeg
from relays.reports import anomalies
from relays.reports.flat import reduced

PAGE = 50
SPARK_POINTS = 60

#: sort word -> the column behind it; a `-` before the word turns it round
SORTS: dict[str, str] = {
    "last": "last_at",
    "agent": "agent",
    "calls": "calls",
    "peak": "max_resident",
    "full": "fullness",
    "compactions": "compactions",
    "tokens": "tokens",
    "money": "cost",
}
DEFAULT_SORT = "-last"

_TOKENS = ("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens")


@dataclass(frozen=True, slots=True)
class Query:
    """What the page was asked for; words that mean nothing were dropped before. Days are of the fleet's zone."""

    text: str = ""
    agent: str = ""
    model: str = ""
    repo: str = ""
    since: date | None = None
    until: date | None = None  # that day included
    sort: str = DEFAULT_SORT
    page: int = 1

    @property
    def filtered(self) -> bool:
        return any((self.text, self.agent, self.model, self.repo, self.since, self.until))


@dataclass(frozen=True, slots=True)
class Choices:
    agents: tuple[str, ...]
    models: tuple[str, ...]
    repos: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over all sessions that match. Each call counts once: copies are in no sum. `cost` None = nothing priced."""

    sessions: int
    calls: int
    copied: int
    input: int
    cache_read: int
    cache_write: int
    output: int
    lower_bound: int  # sessions whose output is only a lower bound
    compactions: int
    cost: Decimal | None
    unpriced: int

    @property
    def tokens(self) -> int:
        return self.input + self.cache_read + self.cache_write + self.output


@dataclass(frozen=True, slots=True)
class Row:
    pk: int
    sid: str
    agent: str
    version: str
    models: tuple[str, ...]
    cwd: str
    repo_name: str
    branch: str
    last_at: datetime | None
    calls: int
    agents: int
    copied: int
    peak: int
    window: int | None
    points: tuple[int, ...]  # resident tokens over the session, reduced
    compactions: int
    rotations: int | None  # None = not projected as a relay yet
    fidelity: Score
    tokens: int
    lower_bound: bool
    cost: Decimal | None
    unpriced: int
    estimated: bool
    anomalies: int  # only those that bear on the figures
    assumed: bool  # the window is known of the model, not declared by the agent
    unread: bool  # another session's file names it, nothing of its own was read
    waits: bool  # what was read of it has no figures yet: its import goes on, or was interrupted

    @property
    def over(self) -> bool:
        """More in the window than the window holds."""
        return bool(self.window and self.peak > self.window)


@dataclass(frozen=True, slots=True)
class SessionsPage:
    rows: tuple[Row, ...]
    query: Query
    choices: Choices
    totals: Totals
    any_session: bool
    running: tuple[Import, ...]  # imports and follows that work now
    page: int
    pages: int


def clean_query(values: Mapping[str, str]) -> Query:
    """A query from untrusted text: control characters and unknown words are dropped, lengths are cut."""

    def word(name: str, most: int) -> str:
        return "".join(char for char in values.get(name, "") if char.isprintable()).strip()[:most]

    sort, page = word("sort", 20), word("page", 9)
    return Query(
        text=word("q", 200),
        agent=word("agent", 20),
        model=word("model", 120),
        repo=word("repo", 4096),
        since=_day(word("since", 10)),
        until=_day(word("until", 10)),
        sort=sort if sort.removeprefix("-") in SORTS else DEFAULT_SORT,
        page=int(page) if page.isascii() and page.isdecimal() and int(page) else 1,
    )


def _day(text: str) -> date | None:
    try:
        found = date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        return None
    # the ends of the calendar have no midnight in every zone
    return found if found and 1 < found.year < 9999 else None


def sessions_page(query: Query) -> SessionsPage:
    """One page of sessions that match; a page number behind the end is the last page. Nine queries at most."""
    matching = _matching(query)
    totals = _totals(matching)
    # keys alone are sorted: the wide columns are read for the rows of the page only
    pages = Paginator(_ordered(matching, query.sort).values_list("pk", flat=True), PAGE)
    pages.count = totals.sessions  # counted already, with the sums
    page = pages.get_page(query.page)
    return SessionsPage(
        rows=session_rows(list(page.object_list)),
        query=query,
        choices=_choices(),
        totals=totals,
        any_session=bool(totals.sessions) or Session.objects.exists(),
        running=running(),
        page=page.number,
        pages=pages.num_pages,
    )


def running() -> tuple[Import, ...]:
    """Imports and follows that wait or work, oldest first."""
    live = (Import.Status.WAITING, Import.Status.RUNNING)
    return tuple(Import.objects.filter(status__in=live).select_related("asked_by").order_by("id")[:20])


def has_model(name: str) -> Q:
    """Sessions that name this model; `model_text` is the list as the database writes it, escaped or not."""
    return Q(model_text__contains=json.dumps(name)) | Q(model_text__contains=json.dumps(name, ensure_ascii=False))


def found_by(text: str) -> Q:
    """Sessions by id, folder or branch."""
    return Q(sid__icontains=text) | Q(cwd__icontains=text) | Q(branch__icontains=text)


def _matching(query: Query) -> QuerySet[Session]:
    found = Session.objects.all()
    if query.text:
        found = found.filter(found_by(query.text))
    if query.agent:
        found = found.filter(agent=query.agent)
    if query.repo:
        found = found.filter(cwd=query.repo)
    if query.model:
        found = found.annotate(model_text=Cast("model_names", TextField())).filter(has_model(query.model))
    if query.since:
        found = found.filter(last_at__gte=_midnight(query.since))
    if query.until:
        found = found.filter(first_at__lt=_midnight(query.until + timedelta(days=1)))
    return found


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime(day.year, day.month, day.day), timezone.get_default_timezone())


def _ordered(found: QuerySet[Session], sort: str) -> QuerySet[Session]:
    word, down = sort.removeprefix("-"), sort.startswith("-")
    if word == "tokens":
        found = found.annotate(tokens=sum((F(name) for name in _TOKENS[1:]), F(_TOKENS[0])))
    if word == "full":
        share = ExpressionWrapper(1.0 * F("max_resident") / F("window_tokens"), output_field=FloatField())
        found = found.annotate(fullness=share)
    column = F(SORTS[word])
    key = column.desc(nulls_last=True) if down else column.asc(nulls_last=True)
    return found.order_by(key, "-id")


def _totals(found: QuerySet[Session]) -> Totals:
    def total(name: str) -> Coalesce:
        return Coalesce(Sum(name), 0)

    sums = found.aggregate(
        n=Count("pk"),
        n_calls=total("calls"),
        n_copied=total("copied_calls"),
        n_input=total("input_tokens"),
        n_read=total("cache_read"),
        n_5m=total("cache_write_5m"),
        n_1h=total("cache_write_1h"),
        n_output=total("output_tokens"),
        n_compactions=total("compactions"),
        n_unpriced=total("unpriced_calls"),
        n_bound=Count("pk", filter=Q(lower_bound=True)),
        sum_cost=Sum("cost"),
    )
    return Totals(
        sessions=sums["n"], calls=int(sums["n_calls"]), copied=int(sums["n_copied"]), input=int(sums["n_input"]),
        cache_read=int(sums["n_read"]), cache_write=int(sums["n_5m"]) + int(sums["n_1h"]),
        output=int(sums["n_output"]), lower_bound=sums["n_bound"], compactions=int(sums["n_compactions"]),
        cost=sums["sum_cost"], unpriced=int(sums["n_unpriced"]),
    )  # fmt: skip


def _choices() -> Choices:
    def distinct(field: str) -> tuple[Any, ...]:
        return tuple(Session.objects.order_by(field).values_list(field, flat=True).distinct()[:200])

    names = {str(name) for group in distinct("model_names") if isinstance(group, list) for name in group}
    return Choices(
        agents=tuple(filter(None, distinct("agent"))),
        models=tuple(sorted(names)),
        repos=tuple(filter(None, distinct("cwd"))),
    )


def session_rows(ids: Sequence[int]) -> tuple[Row, ...]:
    """Rows of the sessions with these keys, in their order: two queries, however many."""
    told = Session.objects.annotate(
        mark=F("shadow__mark"),
        why=F("shadow__why"),
        rotations=F("shadow__rotations"),
        window_from=F("shadow__parameters__window__1"),
    ).defer("fill", "shadow")
    sessions = told.in_bulk(ids)
    legs = {
        row["session"]: row
        for row in SessionLeg.objects.filter(session__in=ids)
        .order_by()
        .values("session")
        .annotate(
            v=Sum("verified"),
            d=Sum("dangling"),
            u=Sum("unknown"),
        )
    }
    return tuple(_row(sessions[pk], legs.get(pk)) for pk in ids if pk in sessions)


def _row(session: Any, legs: Mapping[str, Any] | None) -> Row:
    return Row(
        pk=session.pk, sid=session.sid, agent=session.agent, version=session.version,
        models=tuple(map(str, session.model_names)), cwd=session.cwd, repo_name=repo_name(session.cwd),
        branch=session.branch, last_at=session.last_at, calls=session.calls, agents=session.agents,
        copied=session.copied_calls, peak=session.max_resident, window=session.window_tokens,
        points=spark_points(session.series), compactions=session.compactions,
        rotations=session.rotations or 0 if session.mark and not session.why else None,
        fidelity=score_of(legs["v"] or 0, legs["d"] or 0, legs["u"] or 0) if legs else score_of(0, 0, 0),
        tokens=tokens_of(session), lower_bound=session.lower_bound, cost=session.cost,
        unpriced=session.unpriced_calls, estimated=bool(session.anomalies.get("replay_estimated")),
        anomalies=anomalies.on_figures(session.anomalies),
        assumed=str(session.window_from).upper() != "OBSERVED", unread=session.unread,
        waits=session.projected_at is None and not session.calls,
    )  # fmt: skip


def tokens_of(session: Session) -> int:
    """All four kinds and output, of the calls that count here."""
    return sum(int(getattr(session, name)) for name in _TOKENS)


def repo_name(cwd: str) -> str:
    """The last folder of where the session ran, also of a path of another system."""
    return PurePath(cwd.replace("\\", "/")).name or cwd


def points_of(series: object) -> list[tuple[int, int, bool]]:
    """The stored points as (main call from 1, resident tokens, copied): what is no point is left out."""
    points = series.get("points") if isinstance(series, dict) else None
    return [
        (one[0], one[1], len(one) > 2 and bool(one[2]))
        for one in (points if isinstance(points, list) else ())
        if isinstance(one, list) and len(one) > 1 and isinstance(one[0], int) and isinstance(one[1], int)
    ]


def spark_points(series: object) -> tuple[int, ...]:
    """The window over the session in few points, each peak among them."""
    values = [tokens for _, tokens, _ in points_of(series)]
    return tuple(reduced(values, values, SPARK_POINTS))
