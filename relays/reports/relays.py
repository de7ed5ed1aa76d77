"""What the page Relays reads, and the row of a relay that Needs you shows too: a constant number of queries.

Interface, page 2: "search, filter by status/token/repository/agent/owner, sort, page; status, leg, last verified
progress, context now / mark / ceiling, fidelity, money vs baseline, last data at".
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from pathlib import PurePath

from django.core.paginator import Paginator
from django.db.models import Case, F, IntegerField, OuterRef, Q, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce, NullIf

from relays.core.fidelity import Score, score_of
from relays.core.vocabulary import Ask, Hold, Reason, StopReason
from relays.models import (
    FINAL_STATUSES,
    LIVE_STATES,
    OPEN_GATES,
    Call,
    Comparison,
    Counted,
    GateEpisode,
    Leg,
    LegState,
    Relay,
    RelayStatus,
    Request,
)
from relays.reports.relay import Low, warned

PAGE = 50
SPARK_CALLS = 60
#: legs looked at for a sparkline: 60 calls are nearly always within them
SPARK_LEGS = 8

#: what a relay's token may be on this page
TOKENS: tuple[str, ...] = tuple(dict.fromkeys([*Ask, *Reason, StopReason.STOPPED]))

#: the tokens that a search knows
SEARCHED: tuple[str, ...] = tuple(dict.fromkeys([*TOKENS, *Hold]))

#: sort word -> ordering; a `-` before the word turns it round
_SORTS: dict[str, tuple[str, ...]] = {
    "started": ("created_at", "id"),
    "name": ("objective", "id"),
    "status": ("need", "-created_at", "id"),
    "leg": ("legs_used", "id"),
    "progress": ("progress_total", "id"),
    "context": ("resident", "id"),
    "money": ("spend_used", "id"),
    "data": ("last_data_at", "id"),
}
DEFAULT_SORT = "-started"

#: what a person looks for first
_NEED: dict[str, int] = {
    RelayStatus.PARKED: 0,
    RelayStatus.RUNNING: 1,
    RelayStatus.READY: 2,
    RelayStatus.WAITING: 3,
    RelayStatus.IDLE: 4,
    RelayStatus.STOPPED: 5,
    RelayStatus.DONE: 6,
}


@dataclass(frozen=True, slots=True)
class ContextNow:
    """Resident tokens of the running leg against its soft mark, its ceiling and the model's window, all in tokens."""

    now: int
    mark: int
    ceiling: int
    window: int


@dataclass(frozen=True, slots=True)
class Versus:
    """Its whole cost against compaction; `saving` in dollars, below 0 where the relay lost."""

    verdict: str
    saving: Decimal | None

    @property
    def amount(self) -> Decimal | None:
        return abs(self.saving) if self.saving is not None else None


@dataclass(frozen=True, slots=True)
class Found:
    """The commit that a search named: made by that leg, or (`made` False) where it ended."""

    sha: str
    leg: int
    made: bool


@dataclass(frozen=True, slots=True)
class RelayRow:
    relay_id: str
    objective: str
    repo: str
    repo_name: str
    owner: str
    agent: str
    mode: str
    status: str
    why: str
    next_at: datetime | None
    token: str  # of its open gate, else how it ended, else how its last leg ended; "" = none yet
    leg: int | None
    draining: bool
    armed: bool
    one_leg: bool  # it parks when its present leg has ended
    context: ContextNow | None  # None = no leg runs
    points: tuple[int, ...]  # resident tokens of the last calls, oldest first
    progress: int
    progress_at: datetime | None
    fidelity: Score  # over all its judged batons
    spend: Decimal
    unpriced: int
    scripted: bool
    low: tuple[Low, ...]  # axes of the envelope under a fifth
    versus: Versus | None  # None = nothing is compared yet
    started_at: datetime
    last_data_at: datetime | None
    found: Found | None = None  # the commit by which a search found it

    @property
    def final(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def top(self) -> int:
        """The dashed line of the sparkline: the ceiling of the leg that runs."""
        return self.context.ceiling if self.context else 0


@dataclass(frozen=True, slots=True)
class Query:
    """What the page was asked for; words that mean nothing were dropped before."""

    text: str = ""
    status: str = ""
    token: str = ""
    repo: str = ""
    agent: str = ""
    owner: str = ""
    sort: str = DEFAULT_SORT
    page: int = 1

    @property
    def filtered(self) -> bool:
        return any((self.text, self.status, self.token, self.repo, self.agent, self.owner))


@dataclass(frozen=True, slots=True)
class Choices:
    repos: tuple[str, ...]
    agents: tuple[str, ...]
    owners: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RelaysPage:
    rows: tuple[RelayRow, ...]
    query: Query
    choices: Choices
    total: int  # that match
    any_relay: bool
    page: int
    pages: int
    marks: tuple[int, int] | None  # mark and ceiling, when all running legs of the page share them


def clean_query(values: dict[str, str]) -> Query:
    """A query from untrusted text: control characters and unknown words are dropped, lengths are cut."""

    def word(name: str, most: int) -> str:
        return "".join(char for char in values.get(name, "") if char.isprintable()).strip()[:most]

    sort = word("sort", 20)
    page = word("page", 9)
    status, token = word("status", 8), word("token", 32)
    return Query(
        text=word("q", 200),
        status=status if status in RelayStatus.values else "",
        token=token if token in TOKENS else "",
        repo=word("repo", 1000),
        agent=word("agent", 40),
        owner=word("owner", 150),
        sort=sort if sort.removeprefix("-") in _SORTS else DEFAULT_SORT,
        page=int(page) if page.isascii() and page.isdecimal() and int(page) else 1,
    )


def relays_page(query: Query) -> RelaysPage:
    """One page of relays that match; a page number behind the end is the last page."""
    matching = _matching(query)
    pages = Paginator(matching, PAGE)
    page = pages.get_page(query.page)
    rows = relay_rows(list(page.object_list))
    why = _why_found(query.text, [row.relay_id for row in rows])
    rows = tuple(replace(row, found=why[row.relay_id]) if row.relay_id in why else row for row in rows)
    marks = {(row.context.mark, row.context.ceiling) for row in rows if row.context}
    return RelaysPage(
        rows=rows,
        query=query,
        choices=_choices(),
        total=pages.count,
        any_relay=bool(pages.count) or Relay.objects.exists(),
        page=page.number,
        pages=pages.num_pages,
        marks=next(iter(marks)) if len(marks) == 1 else None,
    )


def with_token(relays: QuerySet[Relay]) -> QuerySet[Relay]:
    """Annotates `token_word`: the open gate's token, else how the relay ended, else how its last leg ended."""
    gate = GateEpisode.objects.filter(relay=OuterRef("pk"), state__in=OPEN_GATES).order_by("opened_at", "id")
    last = Leg.objects.filter(relay=OuterRef("pk"), state=LegState.ENDED).order_by("-number")
    return relays.annotate(
        token_word=Coalesce(
            Subquery(gate.values("token")[:1]),
            NullIf(F("ended_reason"), Value("")),
            Subquery(last.values("reason")[:1]),
            Value(""),
        )
    )


def _matching(query: Query) -> QuerySet[Relay]:
    relays = with_token(Relay.objects.select_related("owner"))
    if query.text:
        relays = relays.filter(_found_by(query.text))
    for name, value in (
        ("status", query.status),
        ("token_word", query.token),
        ("repo", query.repo),
        ("agent", query.agent),
        ("owner__username", query.owner),
    ):
        if value:
            relays = relays.filter(**{name: value})
    word, down = query.sort.removeprefix("-"), query.sort.startswith("-")
    if word == "status":
        order = [When(status=status, then=Value(place)) for status, place in _NEED.items()]
        relays = relays.annotate(need=Case(*order, output_field=IntegerField()))
    if word == "context":
        live = Leg.objects.filter(relay=OuterRef("pk"), state__in=LIVE_STATES)
        relays = relays.annotate(resident=Coalesce(Subquery(live.values("resident_tokens")[:1]), Value(-1)))
    first, *rest = _SORTS[word]
    key = F(first).desc(nulls_last=True) if down else F(first).asc(nulls_last=True)
    return relays.order_by(key, *rest)


def _found_by(text: str) -> Q:
    """Relays by id, objective, repository, branch; by a commit that one of their legs made or ended at, or that they

    started from; by the digest of their objective; by a token that a leg ended or was held with, or a gate asked by.
    """
    found = Q(id__icontains=text) | Q(objective__icontains=text) | Q(repo__icontains=text) | Q(branch__icontains=text)
    if sha := sha_of(text):
        made = Counted.objects.filter(kind=Counted.Kind.COMMIT, value__gte=sha, value__lt=f"{sha}g")
        ended = Leg.objects.filter(end_sha__gte=sha, end_sha__lt=f"{sha}g")
        found |= Q(pk__in=made.values("relay_id")) | Q(pk__in=ended.values("relay_id")) | Q(start_sha__startswith=sha)
        found |= Q(objective_digest__startswith=sha)
    if tokens := tokens_of(text):
        legs = Leg.objects.filter(Q(reason__in=tokens) | Q(hold__in=tokens))
        gates = GateEpisode.objects.filter(token__in=tokens)
        found |= Q(pk__in=legs.values("relay_id")) | Q(pk__in=gates.values("relay_id")) | Q(ended_reason__in=tokens)
    return found


def sha_of(text: str) -> str:
    """The text as (the beginning of) a SHA: 7 to 64 hexadecimal digits; "" where it is none."""
    word = text.lower()
    return word if re.fullmatch(r"[0-9a-f]{7,64}", word) else ""


def tokens_of(text: str) -> tuple[str, ...]:
    """The tokens that the text names: one wholly, or those that hold a part with an underscore in it."""
    word = text.upper().strip()
    if word in SEARCHED:
        return (word,)
    return tuple(one for one in SEARCHED if word in one) if len(word.strip("_")) > 3 and "_" in word else ()


def _why_found(text: str, ids: Sequence[str]) -> dict[str, Found]:
    """For a search by SHA: which leg of each relay made it or ended there. At most two queries."""
    sha = sha_of(text)
    if not sha or not ids:
        return {}
    found: dict[str, Found] = {}
    ended = Leg.objects.filter(relay_id__in=ids, end_sha__gte=sha, end_sha__lt=f"{sha}g").order_by("-number")
    for relay_id, number, value in ended.values_list("relay_id", "number", "end_sha"):
        found[relay_id] = Found(value, number, False)
    made = Counted.objects.filter(relay_id__in=ids, kind=Counted.Kind.COMMIT, value__gte=sha, value__lt=f"{sha}g")
    for relay_id, number, value in made.order_by("-leg__number").values_list("relay_id", "leg__number", "value"):
        found[relay_id] = Found(value, number, True)
    return found


def _choices() -> Choices:
    def distinct(field: str) -> tuple[str, ...]:
        return tuple(Relay.objects.order_by(field).values_list(field, flat=True).distinct()[:200])

    return Choices(repos=distinct("repo"), agents=distinct("agent"), owners=distinct("owner__username"))


def relay_rows(relays: Sequence[Relay]) -> tuple[RelayRow, ...]:
    """Rows for relays that were read with `owner` and `with_token`: four queries, however many relays."""
    ids = [relay.pk for relay in relays]
    legs: dict[str, list[Leg]] = {}
    recent = Leg.objects.filter(relay_id__in=ids, number__gte=F("relay__legs_used") - SPARK_LEGS)
    for leg in recent.exclude(state=LegState.VOID).order_by("-number"):
        legs.setdefault(leg.relay_id, []).append(leg)
    points = _points(legs)
    fidelity = {
        row["relay"]: score_of(row["verified"] or 0, row["dangling"] or 0, row["unknown"] or 0)
        for row in Leg.objects.filter(relay_id__in=ids, fidelity_verified__isnull=False)
        .order_by()
        .values("relay")
        .annotate(verified=Sum("fidelity_verified"), dangling=Sum("fidelity_dangling"), unknown=Sum("fidelity_unknown"))
    }
    told = Comparison.objects.filter(relay__in=ids, computed_at__isnull=False)
    versus = {pk: Versus(verdict, saving) for pk, verdict, saving in told.values_list("relay", "verdict", "saving")}
    return tuple(
        _row(
            relay,
            legs.get(relay.pk, []),
            points.get(relay.pk, ()),
            fidelity.get(relay.pk, score_of(0, 0, 0)),
            versus.get(relay.pk),
        )
        for relay in relays
    )


def _points(legs: dict[str, list[Leg]]) -> dict[str, tuple[int, ...]]:
    """Resident tokens of each relay's last calls. Only the last turns of the last legs are read, never all calls."""
    chosen: list[int] = []
    for of_relay in legs.values():
        turns = 0
        for leg in of_relay:
            if turns >= SPARK_CALLS:
                break
            chosen.append(leg.pk)
            turns += leg.turns
    found: dict[str, list[int]] = {}
    calls = Call.objects.filter(leg_id__in=chosen, main=True, turn__gt=F("leg__turns") - SPARK_CALLS)
    rows = calls.order_by("leg__number", "turn", "id").values_list("leg__relay_id", "resident_tokens")
    for relay_id, resident in rows:
        found.setdefault(relay_id, []).append(resident)
    return {relay_id: tuple(values[-SPARK_CALLS:]) for relay_id, values in found.items()}


def _beside(why: str, token: str) -> str:
    """What a reason says beside its token, which has a place of its own."""
    return why[len(token) :].removeprefix(": ") if token and why.startswith(token) else why


def _row(
    relay: Relay, legs: Sequence[Leg], points: tuple[int, ...], fidelity: Score, versus: Versus | None
) -> RelayRow:
    last = legs[0] if legs else None
    live = last if last and last.state in LIVE_STATES and last.started_at else None
    return RelayRow(
        relay_id=relay.pk,
        objective=relay.objective,
        repo=relay.repo,
        repo_name=PurePath(relay.repo).name or relay.repo,
        owner=relay.owner.get_username(),
        agent=relay.agent,
        mode=relay.mode,
        status=relay.status,
        why=_beside(relay.status_why, getattr(relay, "token_word", "")),
        next_at=relay.next_at if relay.status == RelayStatus.WAITING else None,
        token=getattr(relay, "token_word", ""),
        leg=last.number if last else None,
        draining=bool(live and live.state == LegState.DRAINING),
        armed=bool(live and live.armed),
        one_leg=relay.park == Request.LEG and not relay.final,
        context=ContextNow(live.resident_tokens, live.mark_tokens, live.ceiling_tokens, live.window_tokens)
        if live
        else None,
        points=points,
        progress=relay.progress_total,
        progress_at=relay.progress_at,
        fidelity=fidelity,
        spend=relay.spend_used,
        unpriced=relay.unpriced_calls,
        scripted=any(leg.scripted for leg in legs),
        low=warned(relay),
        versus=versus,
        started_at=relay.created_at,
        last_data_at=relay.last_data_at,
    )
