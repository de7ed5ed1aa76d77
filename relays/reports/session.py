"""`/sessions/<id>/`: one session as it was, and as a relay would have carried it; region by region for live pages.

Mission, phase 0: "observe only". Everything comes from the session's roll-ups and from rows that are few (compactions,
shadow legs, anomalies, files), so that the page costs the same for 300 calls and for 30,000.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

from django.db.models import Exists, OuterRef, Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from relays.core.fidelity import Score, score_of
from relays.core.meter import AnomalyKind
from relays.models import Import, Session, SessionAnomaly, SessionBoundary, SessionLeg, SessionText, SourceFile
from relays.reports import anomalies
from relays.reports.as_relay import AsRelay, as_relay, simulated
from relays.reports.figures import whole
from relays.reports.flat import reduced
from relays.reports.sessions import points_of, repo_name, tokens_of

BOUNDARIES = 200
LEGS = 200
#: of each, what the page shows before all are asked for: a page of many compactions opens like one of few
FIRST = 6
#: points that are drawn: as many as a graph of this width can show, each bucket with its smallest and its largest
DRAWN = 480
FILES = 50
DETAILS = 300
KINDS = 14  # of records, in the bars of what filled the window; the rest is one row

_WORDS = (
    gettext_noop("no"), gettext_noop("one"), gettext_noop("two"), gettext_noop("three"), gettext_noop("four"),
    gettext_noop("five"), gettext_noop("six"), gettext_noop("seven"), gettext_noop("eight"), gettext_noop("nine"),
    gettext_noop("ten"), gettext_noop("eleven"), gettext_noop("twelve"),
)  # fmt: skip


def in_words(count: int, what: str, *, begin: bool = False) -> str:
    """`four compactions`, `13 compactions`; `begin`: as the first words of a sentence."""
    number = _(_WORDS[count]) if count < len(_WORDS) else whole(count)
    text = {
        "compaction": ngettext("%(number)s compaction", "%(number)s compactions", max(count, 1)),
        "rotation": ngettext("%(number)s rotation", "%(number)s rotations", max(count, 1)),
    }[what] % {"number": number}
    return text[0].upper() + text[1:] if begin else text


# ---- head and numbers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Head:
    session: Session
    finding: str
    repo_name: str
    parent: Session | None  # the session that it was forked from or is a sub-agent of, where that was imported
    children: tuple[Session, ...]
    estimated: bool
    over: bool


@dataclass(frozen=True, slots=True)
class Kpis:
    """`difference`: our figure minus the agent's own; None where one of both is missing or ours is partial."""

    session: Session
    would: AsRelay
    fidelity: Score
    judged: int  # shadow legs whose would-be baton was judged
    legs: int
    difference: Decimal | None
    tokens: int

    @property
    def over(self) -> bool:
        window = self.session.window_tokens
        return bool(window and self.session.max_resident > window)

    @property
    def full(self) -> float | None:
        window = self.session.window_tokens
        return self.session.max_resident / window if window else None

    @property
    def now(self) -> int | None:
        """Resident at the newest main call; None right after a compaction, never the figure from before it."""
        found = self.session.fill.get("resident") if isinstance(self.session.fill, dict) else None
        return found if isinstance(found, int) else None

    @property
    def compacted(self) -> bool:
        """The newest that is known of the window is a compaction: what it holds now nobody has measured yet."""
        fill = self.session.fill
        told = isinstance(fill, dict) and "resident" in fill and self.session.main_calls > 0
        return told and self.now is None


class LegMark(NamedTuple):
    """What the graph and the sums need of a shadow leg that no table shows."""

    last_call: int
    ended: str
    verified: int | None
    dangling: int | None
    unknown: int | None


def legs_of(session: Session, whole: int = LEGS + 1) -> list[SessionLeg | LegMark]:
    """The shadow legs in their order, one more than are shown at most; the first ones `whole`. Two queries at most."""
    legs = SessionLeg.objects.filter(session=session).order_by("number")
    first: list[SessionLeg | LegMark] = list(legs[:whole])
    if len(first) < whole or whole > LEGS:
        return first
    return [*first, *map(LegMark._make, legs.values_list(*LegMark._fields)[whole : LEGS + 1])]


def head(session: Session, legs: Sequence[SessionLeg | LegMark]) -> Head:
    """Two queries at most, beside the legs."""
    parent = None
    if session.parent:
        parent = Session.objects.filter(agent=session.agent, sid=session.parent).only("id", "sid").first()
    children = Session.objects.filter(agent=session.agent, parent=session.sid).order_by("id")
    children = children.defer("series", "fill", "shadow")
    return Head(
        session=session,
        finding=finding(session, legs, as_relay(session)),
        repo_name=repo_name(session.cwd),
        parent=parent,
        children=tuple(children[:20]),
        estimated=bool(session.anomalies.get("replay_estimated")),
        over=bool(session.window_tokens and session.max_resident > session.window_tokens),
    )


def finding(session: Session, legs: Sequence[SessionLeg | LegMark], would: AsRelay) -> str:
    """The result in one sentence: what happened to the window, then what a relay would have done."""
    if session.unread:
        return _("Not read yet: a file of another session names it")
    if session.projected_at is None and not session.calls:
        return _("No figures yet: its import goes on, or was interrupted and goes on with the same command")
    if not session.main_calls:
        if session.copied_calls:
            return _("Only calls that another session made; nothing of its own")
        return (
            _("No call of the main chain: no window to look at")
            if session.calls
            else _("No model call in what was read")
        )
    window = session.window_tokens
    if window and session.max_resident > window:
        if would.window_declared:
            seen = _("The window of %(window)s tokens was passed: %(max_resident)s resident") % {
                "window": whole(window),
                "max_resident": whole(session.max_resident),
            }
        else:  # of the model, as a page says it: the session may have run with a longer one
            seen = _("%(max_resident)s resident, over a window that is assumed to hold %(window)s") % {
                "max_resident": whole(session.max_resident),
                "window": whole(window),
            }
    else:
        seen = _("%(compactions)s here") % {"compactions": in_words(session.compactions, "compaction", begin=True)}
    if not would.known:
        return _("%(seen)s; as a relay: not yet") % {"seen": seen}
    rotations = [leg for leg in legs if leg.ended == SessionLeg.Ended.WOULD_ROTATE]
    count = would.rotations
    if not count:
        return _("%(seen)s; as a relay it would have stayed under the mark") % {"seen": seen}
    scores = [
        score_of(leg.verified, leg.dangling or 0, leg.unknown or 0) for leg in rotations if leg.verified is not None
    ]
    judged = [one for one in scores if one.total]  # of a baton that points at nothing there is nothing to verify
    safe = sum(one.verdict == "holds" for one in judged)
    told = (
        _(", %(safe)s of %(judged)s judged with every pointer verified") % {"safe": safe, "judged": len(judged)}
        if judged
        else ""
    )
    return _("%(seen)s; as a relay %(count)s%(told)s") % {
        "seen": seen,
        "count": in_words(count, "rotation"),
        "told": told,
    }


def fidelity_of(legs: Sequence[SessionLeg | LegMark]) -> Score:
    """Over all would-be batons that were judged."""
    return score_of(
        sum(leg.verified or 0 for leg in legs),
        sum(leg.dangling or 0 for leg in legs),
        sum(leg.unknown or 0 for leg in legs),
    )


def kpis(session: Session, legs: Sequence[SessionLeg | LegMark]) -> Kpis:
    """No query."""
    ours, theirs = session.cost, session.reported_cost
    whole = ours is not None and theirs is not None and not session.unpriced_calls
    return Kpis(
        session=session,
        would=as_relay(session),
        fidelity=fidelity_of(legs),
        judged=sum(leg.verified is not None for leg in legs),
        legs=len(legs),
        difference=ours - theirs if whole and ours is not None and theirs is not None else None,
        tokens=tokens_of(session),
    )


# ---- graph ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Point:
    """`x` = main call of the session (from 1), `tokens` resident; `copied`: another session made that call."""

    x: int
    tokens: int
    copied: bool = False


class BoundaryMark(NamedTuple):
    """What the graph needs of a compaction that no table shows."""

    after_call: int
    kind: str
    trigger: str
    declared_pre: int | None
    declared_post: int | None
    measured_before: int | None
    measured_after: int | None


@dataclass(frozen=True, slots=True)
class Graph:
    """What the chart draws. `calls` = main calls in all; `points` are reduced, every peak among them."""

    calls: int
    points: tuple[Point, ...]
    would: AsRelay
    simulated: tuple[tuple[int, int], ...]  # (main call, tokens as a relay), reduced too
    boundaries: tuple[SessionBoundary | BoundaryMark, ...]
    window: int | None
    rotate_at: tuple[int, ...]  # main calls after which a relay would have rotated

    @property
    def peak(self) -> Point | None:
        return max(self.points, key=lambda point: point.tokens, default=None)


def graph(
    session: Session, boundaries: Sequence[SessionBoundary | BoundaryMark], legs: Sequence[SessionLeg | LegMark]
) -> Graph:
    """No query."""
    every = points_of(session.series)
    points = tuple(Point(*one) for one in reduced(every, [tokens for _, tokens, _ in every], DRAWN))
    told = session.series.get("n") if isinstance(session.series, dict) else None
    last = max((point.x for point in points), default=0)
    return Graph(
        calls=max(told if isinstance(told, int) else 0, last),
        points=points,
        would=as_relay(session),
        simulated=tuple(reduced(would := simulated(session), [y for _, y in would], DRAWN)),
        boundaries=tuple(boundaries[:BOUNDARIES]),
        window=session.window_tokens,
        rotate_at=tuple(leg.last_call for leg in legs if leg.ended == SessionLeg.Ended.WOULD_ROTATE),
    )


# ---- compactions, legs ----------------------------------------------------------------------------------------------


def boundaries_of(session: Session, whole: int = BOUNDARIES + 1) -> list[SessionBoundary | BoundaryMark]:
    """The compactions that the session's files show, each once, in their order; one more than shown.

    The first ones `whole`, of the others what the graph needs. Two queries at most.
    """
    rows = SessionBoundary.objects.filter(session=session, shown=True).order_by("after_call", "source", "line", "id")
    first: list[SessionBoundary | BoundaryMark] = list(rows[:whole])
    if len(first) < whole or whole > BOUNDARIES:
        return first
    return [*first, *map(BoundaryMark._make, rows.values_list(*BoundaryMark._fields)[whole : BOUNDARIES + 1])]


@dataclass(frozen=True, slots=True)
class LegRow:
    """A shadow leg with its would-be baton. `score` None = not judged yet.

    `lines`: (pointer, verdict or "", evidence). `extra`: fields that this baton alone could not name. `dropped`:
    pointers over the bound of a baton.
    """

    leg: SessionLeg
    score: Score | None
    lines: tuple[tuple[str, str, str], ...]
    missing: frozenset[str]
    dropped: int
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Legs:
    """`common`: fields of a baton that none of these legs could have named: "not baton-expressible".

    `why`: why no store could answer for their pointers, "" where one did or none was asked.
    """

    rows: tuple[LegRow, ...]
    common: tuple[str, ...]
    why: str


def leg_rows(legs: Sequence[SessionLeg | LegMark]) -> Legs:
    """Of those that were read whole. No query."""
    whole = [leg for leg in legs[:LEGS] if isinstance(leg, SessionLeg)]
    rows = [_leg_row(leg) for leg in whole]
    common = frozenset.intersection(*(row.missing for row in rows)) if rows else frozenset[str]()
    told = (str(leg.baton.get("why") or "") for leg in whole if isinstance(leg.baton, dict))
    return Legs(
        rows=tuple(replace(row, extra=tuple(sorted(row.missing - common))) for row in rows),
        common=tuple(sorted(common)),
        why=next(filter(None, told), ""),
    )


def _leg_row(leg: SessionLeg) -> LegRow:
    baton = leg.baton if isinstance(leg.baton, dict) else {}
    judged = {
        str(one.get("pointer", "")): (str(one.get("verdict", "unknown")), str(one.get("evidence", "")))
        for one in leg.checks
        if isinstance(one, dict)
    }
    pointers = dict.fromkeys([*_texts(baton.get("pointers")), *judged])
    dropped = baton.get("dropped")
    return LegRow(
        leg=leg,
        score=score_of(leg.verified, leg.dangling or 0, leg.unknown or 0) if leg.verified is not None else None,
        lines=tuple((pointer, *judged.get(pointer, ("", ""))) for pointer in pointers if pointer),
        missing=frozenset(_texts(baton.get("missing"))),
        dropped=dropped if isinstance(dropped, int) else 0,
    )


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(one) for one in value) if isinstance(value, list | tuple) else ()


# ---- what filled the window -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FillRow:
    """A kind of record, the tokens that it brought over the whole session and since the last compaction."""

    kind: str
    total: int
    now: int
    share: float  # of all that came in

    @property
    def width(self) -> str:
        return f"{100 * self.share:.1f}"


@dataclass(frozen=True, slots=True)
class Fill:
    """`base`: what stood in the window at the first call (prompt and tools); None = not measured."""

    rows: tuple[FillRow, ...]
    total: int
    now: int
    base: int | None
    now_base: int | None  # the same for the stretch since the last compaction


def fill(session: Session) -> Fill:
    """No query. Kinds in descending order; the small ones are one row, so that the sum is whole."""
    data = session.fill if isinstance(session.fill, dict) else {}
    total, now = _counts(data.get("total")), _counts(data.get("now"))
    kinds = sorted({*total, *now}, key=lambda kind: (-total.get(kind, 0), kind))
    whole = sum(total.values())
    rows = [(kind, total.get(kind, 0), now.get(kind, 0)) for kind in kinds]
    if len(rows) > KINDS:
        rest = rows[KINDS - 1 :]
        words = _("%(rest)s more kinds") % {"rest": len(rest)}
        rows = [*rows[: KINDS - 1], (words, sum(row[1] for row in rest), sum(row[2] for row in rest))]
    base, now_base = data.get("base"), data.get("now_base")
    return Fill(
        rows=tuple(FillRow(kind, of, at, of / whole if whole else 0.0) for kind, of, at in rows),
        total=whole,
        now=sum(now.values()),
        base=base if isinstance(base, int) and base else None,
        now_base=now_base if isinstance(now_base, int) and now_base else None,
    )


def _counts(value: object) -> dict[str, int]:
    if not isinstance(value, Mapping):
        return {}
    return {str(kind): round(tokens) for kind, tokens in value.items() if isinstance(tokens, int | float)}


# ---- files and anomalies --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileRow:
    source: SourceFile
    unknown: int  # records of the file that no reader knows
    left: int  # bytes that are there and were not read

    @property
    def name(self) -> str:
        return repo_name(self.source.path)


@dataclass(frozen=True, slots=True)
class Files:
    rows: tuple[FileRow, ...]
    cut: bool
    anomalies: tuple[anomalies.Found, ...]
    follow: Import | None  # reads on what is added to one of the files


def files(session: Session) -> Files:
    """The files that the session was read from, and what was met in them. Three queries."""
    told = SourceFile.objects.filter(session_rows__session=session).defer("state").order_by("id")
    told = told.annotate(kept=Exists(SessionText.objects.filter(source=OuterRef("pk"))))
    sources = list(told[: FILES + 1])
    keys = [one.pk for one in sources[:FILES]]
    met = SessionAnomaly.objects.filter(Q(session=session) | Q(session=None, source__in=keys))
    rows = list(met.order_by("-count", "id").values_list("kind", "detail", "line", "count", "source")[:DETAILS])
    names = {one.pk: repo_name(one.path) for one in sources} if len(sources) > 1 else {}
    unknown: dict[int, int] = {}
    for kind, _first, _last, count, source in rows:
        if kind == AnomalyKind.UNKNOWN_TYPE:
            unknown[source] = unknown.get(source, 0) + count
    met_in = [(*row[:4], names.get(row[4], "")) for row in rows]
    return Files(
        rows=tuple(
            FileRow(one, unknown.get(one.pk, 0), max(one.size - one.offset, 0)) for one in sources[:FILES]
        ),
        cut=len(sources) > FILES,
        anomalies=anomalies.found(_anomaly_counts(session.anomalies), met_in),
        follow=_follow(sources),
    )  # fmt: skip


def _follow(sources: Sequence[SourceFile]) -> Import | None:
    """The follow that covers a file of these: a file is inside a folder that it names, or named itself."""
    follows = Import.objects.filter(follow=True, status__in=(Import.Status.WAITING, Import.Status.RUNNING))
    for job in follows.order_by("id")[:50]:
        for path in job.paths:
            if any(one.path == path or one.path.startswith(f"{str(path).rstrip('/')}/") for one in sources):
                return job
    return None


def _anomaly_counts(value: Any) -> dict[str, int]:
    return (
        {str(kind): count for kind, count in value.items() if isinstance(count, int)} if isinstance(value, dict) else {}
    )
