"""Roll-ups of sessions, made anew from their rows: sums, the window over time, anomalies, the shadow relay.

Cost: "Roll-ups … are derived from calls and reconcile to the sum exactly". A session whose `projected_at` is null waits
for this: whoever stored its rows and was stopped before need not be the one who does it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from itertools import chain, groupby
from operator import itemgetter
from typing import Any, Final, overload

import orjson
from django.db import connection
from django.db.models import Sum
from django.utils import timezone

from relays.core import rot, windows
from relays.core.meter import AnomalyKind
from relays.core.shadow import MainCall
from relays.models import (
    FullnessCount,
    Session,
    SessionAnomaly,
    SessionBoundary,
    SessionCall,
    SessionFile,
    SourceFile,
)
from relays.sessions import replays, rows, shadow, topics
from relays.sessions.ownership import NOT_OWN
from relays.sessions.series import Window

#: sessions of one transaction: others may write between two of them
TOGETHER: Final = 50
_CALLS: Final = SessionCall._meta.db_table
_SOURCES: Final = SourceFile._meta.db_table
_UNITS: Final = Decimal(10) ** 10
_MOST: Final = Decimal(10) ** 10  # dollars, of a column with ten digits before the point


def project(ids: Iterable[int], between: Callable[[], object] = lambda: None) -> set[int]:
    """Bring these sessions up to date, and those whose figures follow from theirs; the keys of all that were done.

    `between` is called between two transactions: whoever works on this shows a sign of life.
    """
    done: set[int] = set()
    wanted = sorted(_with_children(set(ids)))
    for chunk in rows.chunks(wanted, TOGETHER):
        between()
        with rows.serialised():
            _project(chunk)
            topics.tell_changed(chunk)
        done |= set(chunk)
    return done


def waiting() -> set[int]:
    """Sessions that were stored and not projected."""
    return set(Session.objects.filter(projected_at__isnull=True).values_list("pk", flat=True))


def _with_children(ids: set[int]) -> set[int]:
    """A fork repeats what its parent's file says: how much of it is known when the parent is."""
    found, new = set(ids), set(ids)
    while new:
        children: set[int] = set()
        for chunk in rows.chunks(sorted(new)):
            parents = Session.objects.filter(pk__in=chunk, agent=replays.AGENT).values("sid")
            forks = Session.objects.filter(agent=replays.AGENT, parent__in=parents)
            children |= set(forks.values_list("pk", flat=True))
        new = children - found
        found |= new
    return found


@dataclass(slots=True)
class _Mark:
    place: tuple[str, int]
    row: SessionBoundary


class _Times(Sequence[datetime | None]):
    """Times as the database gives them, read when they are asked for: few sessions ask for more than some."""

    def __init__(self) -> None:
        self.raw: list[object] = []

    def __len__(self) -> int:
        return len(self.raw)

    @overload
    def __getitem__(self, at: int) -> datetime | None: ...
    @overload
    def __getitem__(self, at: slice) -> list[datetime | None]: ...
    def __getitem__(self, at: int | slice) -> datetime | None | list[datetime | None]:
        return list(map(rows.read_time, self.raw[at])) if isinstance(at, slice) else rows.read_time(self.raw[at])


@dataclass(slots=True)
class _Main:
    """What one pass over the main calls of a session gives."""

    window: Window = field(default_factory=Window)
    keys: list[str] = field(default_factory=list)
    times: "_Times" = field(default_factory=lambda: _Times())
    counted: int = 0
    most: int = 0  # resident, of calls that its own agent made or inherited
    declared: int | None = None
    models: Counter[str] = field(default_factory=Counter)
    full: list[tuple[str, int, int | None, int, int]] = field(default_factory=list)
    over: list[int] = field(default_factory=list)  # lines of calls that held more than their declared window
    copies: Counter[str] = field(default_factory=Counter)
    first_source: int | None = None
    lines: dict[int, tuple[int, int]] = field(default_factory=dict)  # call -> (source, line), of drops


def _project(ids: Sequence[int]) -> None:
    now = timezone.now()
    sessions = Session.objects.in_bulk(list(ids))
    for session in sessions.values():
        if session.agent in replays.SETTLED:
            replays.settle(session)
    sums, names = _sums(ids), _names(ids)
    marks = _marks(ids)
    mains = dict(_mains(ids, marks))
    sources = _first_sources(ids)
    SessionAnomaly.objects.filter(session__in=ids, projected=True).delete()
    FullnessCount.objects.filter(session__in=ids).delete()
    anomalies: list[SessionAnomaly] = []
    counts: list[FullnessCount] = []
    for pk, session in sessions.items():
        main = mains.get(pk) or _Main()
        _take_sums(session, sums.get(pk))
        session.model_names = names.get(pk, [])
        mine = [mark.row for mark in marks.get(pk, [])]
        session.compactions = sum(row.counts and row.kind == "compaction" for row in mine)
        session.max_resident = main.most
        session.window_tokens = main.declared or _known_window(main, mine)
        session.series, session.fill = main.window.series(), main.window.fill()
        anomalies += _anomalies(session, main, sources.get(pk))
        counts += _fullness(session, main)
    SessionAnomaly.objects.bulk_create(anomalies)
    FullnessCount.objects.bulk_create(counts)
    kinds = _kinds(ids)
    shadows = shadow.project_all([_shadowed(session, mains.get(pk) or _Main()) for pk, session in sessions.items()])
    for (pk, session), summary in zip(sessions.items(), shadows, strict=True):
        session.anomalies = kinds.get(pk, {})
        session.shadow = summary
        session.projected_at = now
    rows.write(sessions.values(), _WRITTEN)


def _shadowed(session: Session, main: _Main) -> shadow.Main:
    window = main.window
    calls = list(map(MainCall, window.residents, map(bool, window.after_boundary)))
    return shadow.Main(session, calls, main.keys, main.times, main.declared is not None)


_WRITTEN: Final = (
    "model_names calls main_calls copied_calls agents input_tokens cache_read cache_write_5m cache_write_1h "
    "output_tokens lower_bound max_resident window_tokens compactions cost unpriced_calls reported_cost anomalies "
    "series fill shadow projected_at"
).split()


# --- sums


def _money(column: str) -> str:
    """An exact sum, as dollars and units of 1e-10 beside them: SQLite keeps decimals as binary floats, so whole numbers

    are added there, and whatever figures a file holds, their sum must fit in 64 bits.
    """
    if connection.vendor == "sqlite":
        dollars = f"CAST({column} AS INTEGER)"
        return f"SUM({dollars}), SUM(CAST(ROUND(({column} - {dollars}) * 10000000000) AS INTEGER))"
    return f"0, SUM({column}) * 10000000000"


def _sums(ids: Sequence[int]) -> dict[int, tuple[Any, ...]]:
    one = "CASE WHEN counts THEN 1 ELSE 0 END"
    query = f"""
        SELECT session_id, SUM({one}), SUM(CASE WHEN counts AND chain = 'main' THEN 1 ELSE 0 END),
            SUM(CASE WHEN shown AND NOT counts THEN 1 ELSE 0 END),
            COUNT(DISTINCT CASE WHEN agent_id <> '' AND chain = 'sub' THEN agent_id END),
            SUM(CASE WHEN counts THEN input_tokens ELSE 0 END), SUM(CASE WHEN counts THEN cache_read ELSE 0 END),
            SUM(CASE WHEN counts THEN cache_write_5m ELSE 0 END),
            SUM(CASE WHEN counts THEN cache_write_1h ELSE 0 END),
            SUM(CASE WHEN counts THEN output_tokens ELSE 0 END),
            MAX(CASE WHEN counts AND lower_bound THEN 1 ELSE 0 END),
            {_money("CASE WHEN counts THEN cost END")}, SUM(CASE WHEN counts AND cost IS NULL THEN 1 ELSE 0 END),
            {_money("CASE WHEN counts THEN reported_cost END")}
        FROM "{_CALLS}" WHERE session_id IN ({rows.marks(len(ids))}) GROUP BY session_id
    """  # noqa: S608 - names of columns and placeholders only
    with connection.cursor() as cursor:
        cursor.execute(query, list(ids))
        return {values[0]: values[1:] for values in cursor.fetchall()}


def _names(ids: Sequence[int]) -> dict[int, list[str]]:
    """The models of each session, sorted."""
    found: dict[int, set[str]] = {}
    named = SessionCall.objects.filter(session__in=ids, shown=True).exclude(model="").order_by()
    for session, model in named.values_list("session_id", "model").distinct():
        found.setdefault(session, set()).add(model)
    return {session: sorted(models) for session, models in found.items()}


def _take_sums(session: Session, sums: tuple[Any, ...] | None) -> None:
    values = sums or (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, None, None, 0, None, None)
    (
        session.calls,
        session.main_calls,
        session.copied_calls,
        session.agents,
        session.input_tokens,
        session.cache_read,
        session.cache_write_5m,
        session.cache_write_1h,
        session.output_tokens,
    ) = (int(value or 0) for value in values[:9])
    session.lower_bound = bool(values[9])
    session.cost = _from_units(values[10], values[11])
    session.unpriced_calls = int(values[12] or 0)
    if session.reported_cost is None:
        session.reported_cost = _from_units(values[13], values[14])


def _from_units(dollars: object, units: object) -> Decimal | None:
    """None also for a sum that no column could hold: no session costs that."""
    if units is None:
        return None
    amount = Decimal(str(dollars or 0)) + Decimal(int(Decimal(str(units)))) / _UNITS
    return amount if amount < _MOST else None


# --- the main chain


def _marks(ids: Sequence[int]) -> dict[int, list[_Mark]]:
    found: dict[int, list[_Mark]] = {}
    # a row that is no longer shown was measured when it was
    hidden = SessionBoundary.objects.filter(session__in=ids, shown=False)
    hidden.update(measured_before=None, measured_after=None, after_call=0)
    shown = SessionBoundary.objects.filter(session__in=ids, shown=True)
    for row in shown.select_related("source").defer("source__state"):
        found.setdefault(row.session_id, []).append(_Mark((row.source.path, row.line), row))
    for marks in found.values():
        marks.sort(key=lambda mark: mark.place)
    return found


def _mains(ids: Sequence[int], marks: dict[int, list[_Mark]]) -> Iterator[tuple[int, _Main]]:
    path, counts, at = 's.path COLLATE "C"', "c.counts", "c.at"
    if connection.vendor == "sqlite":
        # as values of expressions: the driver would turn each column of these into an object
        path, counts, at = "s.path", "+c.counts", "c.at || ''"
    query = f"""
        SELECT c.session_id, c.source_id, s.path, c.line, c.key, c.resident, c.copied, {counts}, c.model, c."window",
            c.tools, c.tool_errors, c.fill, {at}
        FROM "{_CALLS}" c JOIN "{_SOURCES}" s ON s.id = c.source_id
        WHERE c.session_id IN ({rows.marks(len(ids))}) AND c.shown AND c.chain = 'main'
        ORDER BY c.session_id, {path}, c.line, c.key
    """  # noqa: S608 - names of columns and placeholders only
    seen: set[int] = set()
    with connection.cursor() as cursor:
        cursor.execute(query, list(ids))
        calls_in_order = chain.from_iterable(iter(lambda: cursor.fetchmany(2_000), []))
        for session, calls in groupby(calls_in_order, key=itemgetter(0)):
            seen.add(session)
            yield session, _fold(calls, marks.get(session, []))
    for session in marks.keys() - seen:
        yield session, _fold((), marks[session])


def _fold(calls: Iterable[Sequence[Any]], marks: Sequence[_Mark]) -> _Main:
    main = _Main()
    window = main.window
    changed: list[SessionBoundary] = []
    at = 0  # of the next mark
    passed: list[SessionBoundary] = []  # marks that no call came after yet
    residents, keys, times, drops = window.residents, main.keys, main.times.raw, window.drops
    models: dict[str, int] = {}
    place = marks[0].place if marks else None  # of the next mark
    dropped = most = 0
    for _, source, path, line, key, resident, copied, counts, model, declared, tools, errors, fill, time in calls:
        if place is not None and place < (path, line):
            while at < len(marks) and marks[at].place < (path, line):
                passed.append(marks[at].row)
                window.boundary(marks[at].row.kind == "compaction")
                at += 1
            place = marks[at].place if at < len(marks) else None
            before = residents[-1] if residents else None
            changed += [row for row in passed if _measure(row, before, resident, len(residents))]
            passed = []
        window.call(resident, bool(copied), orjson.loads(fill) if fill != "{}" else {})
        if len(drops) > dropped:
            dropped = len(drops)
            main.lines[drops[-1]] = (source, line)
        keys.append(key)
        times.append(time)
        if counts:
            main.counted += 1
            if tools:
                main.full.append((model, resident, declared, tools, errors))
        own = True
        if copied:
            main.copies[copied] += 1
            own = copied not in NOT_OWN
        if own and resident > most:
            most = resident
        if declared:
            main.declared = declared
            if own and resident > declared:
                main.over.append(line)
        if model:
            models[model] = models.get(model, 0) + 1
        if main.first_source is None:
            main.first_source = source
    main.most = most
    main.models.update(models)
    last = window.residents[-1] if window.residents else None
    for mark in marks[at:]:
        window.boundary(mark.row.kind == "compaction")
        if _measure(mark.row, last, None, len(window.residents)):
            changed.append(mark.row)
    rows.write(changed, ("measured_before", "measured_after", "after_call"))
    return main


def _measure(row: SessionBoundary, before: int | None, after: int | None, calls: int) -> bool:
    """Whether what the calls on both sides of a boundary measured is news."""
    if (row.measured_before, row.measured_after, row.after_call) == (before, after, calls):
        return False
    row.measured_before, row.measured_after, row.after_call = before, after, calls
    return True


def _known_window(main: _Main, marks: Iterable[SessionBoundary]) -> int | None:
    if not main.models:
        return None
    model = min(main.models, key=lambda name: (-main.models[name], name))
    compacted = [row.measured_before for row in marks if row.trigger == "auto" and row.measured_before]
    known = windows.known(model, most=main.most, compacted_at=compacted)
    return known.tokens if known else None


def _fullness(session: Session, main: _Main) -> list[FullnessCount]:
    counts: dict[tuple[str, int], list[int]] = {}
    for model, resident, declared, tools, errors in main.full:
        window = declared or session.window_tokens
        if window:
            entry = counts.setdefault((model, rot.twentieth(resident, window)), [0, 0])
            entry[0] += tools
            entry[1] += min(errors, tools)
    return [
        FullnessCount(session=session, model=model, twentieth=at, tools=tools, errors=errors)
        for (model, at), (tools, errors) in sorted(counts.items())
    ]


# --- anomalies


def _first_sources(ids: Sequence[int]) -> dict[int, int]:
    """Per session the first of its files by path: where an anomaly stands that is of no single file."""
    found: dict[int, tuple[str, int]] = {}
    told = SessionFile.objects.filter(session__in=ids).values_list("session_id", "source__path", "source_id")
    for session, path, source in told:
        found[session] = min(found.get(session, (path, source)), (path, source))
    return {session: source for session, (_, source) in found.items()}


def _anomalies(session: Session, main: _Main, first: int | None) -> list[SessionAnomaly]:
    source = main.first_source or first
    if source is None:
        return []

    def one(kind: AnomalyKind, count: int, line: int = 0, of: int = source) -> SessionAnomaly:
        return SessionAnomaly(source_id=of, session=session, kind=kind, count=count, line=line, projected=True)

    found: list[SessionAnomaly] = []
    if main.window.drops:
        place, line = main.lines[main.window.drops[0]]
        found.append(one(AnomalyKind.UNEXPLAINED_DROP, len(main.window.drops), line, place))
    over = len(main.over)
    if main.declared is None and session.window_tokens:
        over = sum(resident > session.window_tokens for resident in main.window.residents)
    if over:
        found.append(one(AnomalyKind.IMPLAUSIBLE_USAGE, over, main.over[0] if main.over else 0))
    copies = _copies(session)
    if copies["inherited"]:
        found.append(one(AnomalyKind.INHERITED_COPY, copies["inherited"]))
    if copies["estimated"]:
        found.append(one(AnomalyKind.REPLAY_ESTIMATED, copies["estimated"]))
    return found


def _copies(session: Session) -> Counter[str]:
    """Why calls that the session shows do not count here, all chains."""
    if not session.copied_calls:
        return Counter()
    shown = SessionCall.objects.filter(session=session, shown=True).exclude(copied="")
    return Counter(shown.values_list("copied", flat=True))


def _kinds(ids: Sequence[int]) -> dict[int, dict[str, int]]:
    found: dict[int, dict[str, int]] = {}
    counted = SessionAnomaly.objects.filter(session__in=ids).order_by().values_list("session_id", "kind")
    for session, kind, count in counted.annotate(n=Sum("count")):
        if session is not None:
            found.setdefault(session, {})[kind] = count or 0
    return {session: dict(sorted(kinds.items())) for session, kinds in found.items()}
