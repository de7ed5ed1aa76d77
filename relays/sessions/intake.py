"""Put what was read into the tables: one serialised transaction for a batch of parts of files.

The outcome depends on the set of content that was read and on nothing else: not on its order, on how it was cut, on
how often, or on who else reads the same. What was read stays, also of a file that shrank, was replaced or is gone: the
calls were made.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.utils import timezone

from relays.core.meter import AnomalyKind
from relays.core.usage import Buckets
from relays.models import (
    Session,
    SessionAct,
    SessionAnomaly,
    SessionBoundary,
    SessionCall,
    SessionFile,
    SessionTouch,
    SourceFile,
)
from relays.sessions import ownership, replays, rows, texts
from relays.sessions.files import Cursor
from relays.sessions.ownership import NEVER, Rank, Row
from relays.sessions.reading import CallRow, Part, join_about, money
from relays.stores import prices

#: names of unknown things, and kinds of records, that the accounts of one file tell apart
MOST_NAMES: Final = 200
OTHERS: Final = "(others)"
READ, SKIPPED = SourceFile.Status.READ, SourceFile.Status.SKIPPED


@dataclass(slots=True)
class Stored:
    """What a batch changed. `stale`: paths whose parts were dropped, since somebody else read on in them meanwhile."""

    sources: dict[str, int] = field(default_factory=dict)  # path -> key of its SourceFile
    changed: set[int] = field(default_factory=set)  # keys of Sessions to project anew
    stale: set[str] = field(default_factory=set)
    told: dict[int, set[str]] = field(default_factory=dict)  # session -> paths of files that told of it


def cursor_of(source: SourceFile) -> Cursor:
    """How far a file was read, as it stands in its row."""
    return Cursor(source.device, source.inode, source.offset, source.lines, source.head, source.head_bytes, source.tail)


def store(parts: Sequence[Part]) -> Stored:
    """Store parts, those of one file in their order. All or nothing."""
    with rows.serialised():
        return _Batch(parts).store()


class _Batch:
    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts = parts
        self.now = timezone.now()
        self.out = Stored()
        self.sources: dict[str, SourceFile] = {}
        self.sessions: dict[tuple[str, str], int] = {}
        self.ranks: dict[int, Rank] = {}
        self.new: set[int] = set()  # sessions that this batch is the first to tell of
        self.unsettled: set[str] = set()  # keys of calls whose rows or ranks changed
        self.unsettled_marks: set[str] = set()  # the same of boundaries

    def store(self) -> Stored:
        accepted = self._accept()
        content = [part for part in accepted if part.status == READ]
        self._sessions(content)
        self._about(content)
        self._calls(content)
        self._marks(content)
        rows.insert_acts(
            (self.sources[part.path].pk, self.sessions[part.agent, act.sid], act)
            for part in content
            for act in part.acts
        )
        rows.insert_touches(
            (self.sources[part.path].pk, self.sessions[part.agent, touch.sid], touch)
            for part in content
            for touch in part.touches
        )
        for part in content:
            if part.texts:
                texts.store(self.sources[part.path].pk, part.texts)
        self._anomalies(accepted)
        if self.out.changed:
            for chunk in rows.chunks(sorted(self.out.changed)):
                Session.objects.filter(pk__in=chunk).update(projected_at=None)
        self.out.sources = {path: source.pk for path, source in self.sources.items()}
        return self.out

    # --- files

    def _accept(self) -> list[Part]:
        """The parts that go on where their file stands, with the files brought up to date."""
        paths = list({part.path for part in self.parts})
        for chunk in rows.chunks(paths):
            self.sources.update({source.path: source for source in SourceFile.objects.filter(path__in=chunk)})
        known = set(self.sources)
        accepted: list[Part] = []
        touched: dict[str, SourceFile] = {}
        for part in self.parts:
            source = self.sources.get(part.path)
            if source is None:
                if part.status == SourceFile.Status.GONE:
                    continue
                source = SourceFile(path=part.path)
            if part.path in self.out.stale or cursor_of(source) != part.begun:
                self.out.stale.add(part.path)
                continue
            self.sources[part.path] = touched[part.path] = source
            self._bring_up(source, part)
            accepted.append(part)
        SourceFile.objects.bulk_create([source for path, source in touched.items() if path not in known])
        for path, source in touched.items():
            if path in known:
                source.save()
        return accepted

    def _bring_up(self, source: SourceFile, part: Part) -> None:
        source.read_at = self.now
        source.status, source.error = SourceFile.Status(part.status), part.error[:300]
        if part.status not in (READ, SKIPPED):
            return
        source.size, source.mtime_ns = part.looked.size, part.looked.mtime_ns
        if part.status == SKIPPED and source.form:
            source.status = READ  # it was a session's file once: what was read of it stays
        if part.again and source.pk:
            self._start_over(source, part)
        cursor = part.cursor
        source.device, source.inode, source.offset, source.lines = (
            cursor.device,
            cursor.inode,
            cursor.offset,
            cursor.lines,
        )
        source.head, source.head_bytes, source.tail = cursor.head, cursor.head_bytes, cursor.tail
        if part.status == READ:
            source.form, source.agent, source.state = part.form, part.agent, part.state
            records = {} if part.again else dict(source.records)
            for kind, (count, size) in part.records.items():
                kind = kind if kind in records or len(records) < MOST_NAMES else OTHERS
                before = records.get(kind, (0, 0))
                records[kind] = [before[0] + count, before[1] + size]
            source.records = records

    def _start_over(self, source: SourceFile, part: Part) -> None:
        """Counts of a file's records and anomalies are of what it holds now; calls that were read stay."""
        counted = SessionAnomaly.objects.filter(source=source, projected=False)
        counted.exclude(kind=AnomalyKind.REPLACED).delete()
        texts.forget(source.pk)
        told = SessionFile.objects.filter(source=source)
        self.out.changed |= set(told.values_list("session_id", flat=True))
        if part.misread:
            calls = SessionCall.objects.filter(source=source)
            self.unsettled |= set(calls.values_list("key", flat=True))
            marked = SessionBoundary.objects.filter(source=source)
            self.unsettled_marks |= set(marked.values_list("uid", flat=True))
            for model in (SessionCall, SessionBoundary, SessionAct, SessionTouch, SessionFile):
                model._default_manager.filter(source=source).delete()

    # --- sessions

    def _sessions(self, content: Iterable[Part]) -> None:
        wanted = {
            (part.agent, sid)
            for part in content
            for sid in {
                *part.about,
                *(call.sid for call in part.calls),
                *(mark.sid for mark in part.marks),
                *(act.sid for act in part.acts),
                *(touch.sid for touch in part.touches),
                *(anomaly[1] for anomaly in part.anomalies),
            }
            if sid
        }
        fields = ("pk", "agent", "sid", "copy_hint", "first_at")
        for chunk in rows.chunks(sorted({sid for _, sid in wanted})):
            for pk, agent, sid, hint, first in Session.objects.filter(sid__in=chunk).values_list(*fields):
                self.sessions[agent, sid] = pk
                self.ranks[pk] = (hint, rows.stamp(first) or NEVER, sid, agent)
        new = [Session(agent=agent, sid=sid) for agent, sid in sorted(wanted - self.sessions.keys())]
        for session in Session.objects.bulk_create(new):
            self.sessions[session.agent, session.sid] = session.pk
            self.ranks[session.pk] = (False, NEVER, session.sid, session.agent)
            self.new.add(session.pk)

    def _about(self, content: Iterable[Part]) -> None:
        """What all files together say of a session; a session that now ranks elsewhere has its shared calls settled."""
        said: dict[tuple[int, int], dict[str, Any]] = {}
        for part in content:
            source = self.sources[part.path].pk
            for sid in {*part.about, *(call.sid for call in part.calls), *(mark.sid for mark in part.marks)}:
                key = source, self.sessions[part.agent, sid]
                self.out.told.setdefault(key[1], set()).add(part.path)
                about = part.about.get(sid, {})
                said[key] = join_about(said[key], about) if key in said else about
        of: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        for (source, session), about in said.items():
            of[session].append((source, about))
        for chunk in rows.chunks(sorted(of)):
            known: dict[int, list[SessionFile]] = defaultdict(list)
            for row in SessionFile.objects.filter(session__in=chunk).select_related("source").defer("source__state"):
                known[row.session_id].append(row)
            new: list[SessionFile] = []
            for session, source, about in ((one, *told) for one in chunk for told in of[one]):
                mine = next((row for row in known[session] if row.source_id == source), None)
                if mine is None:
                    mine = SessionFile(source_id=source, session_id=session, about=about)
                    new.append(mine)
                    known[session].append(mine)
                elif (joined := join_about(mine.about, about)) != mine.about:
                    mine.about = joined
                    mine.save(update_fields=["about"])
            SessionFile.objects.bulk_create(new)
            self._rank(chunk, known)

    def _rank(self, ids: Iterable[int], known: dict[int, list[SessionFile]]) -> None:
        paths = {source.pk: path for path, source in self.sources.items()}
        changed: list[Session] = []
        by_pk = {pk: key for key, pk in self.sessions.items()}
        for session in Session.objects.filter(pk__in=ids):
            files = [(paths.get(row.source_id) or row.source.path, row.about) for row in known[session.pk]]
            files.sort(key=lambda one: (one[1].get("last_at", ""), one[0]))
            about: dict[str, Any] = {}
            for _, one in files:
                about = join_about(about, one)
            before = self.ranks[session.pk]
            _settle_about(session, about)
            changed.append(session)
            rank = (session.copy_hint, about.get("first_at") or NEVER, by_pk[session.pk][1], session.agent)
            if rank != before:
                self.ranks[session.pk] = rank
                if session.pk not in self.new:  # a new one has no rows yet that others could share
                    self._shared(session.pk)
        rows.write(changed, _ABOUT)
        self.out.changed |= set(ids)

    def _shared(self, session: int) -> None:
        here = SessionCall.objects.filter(session_id=session)
        elsewhere = SessionCall.objects.exclude(session_id=session).filter(key__in=here.values("key"))
        self.unsettled |= set(elsewhere.values_list("key", flat=True))
        marked = SessionBoundary.objects.filter(session_id=session)
        beside = SessionBoundary.objects.exclude(session_id=session).filter(uid__in=marked.values("uid"))
        self.unsettled_marks |= set(beside.values_list("uid", flat=True))

    # --- calls

    def _calls(self, content: Iterable[Part]) -> None:
        told: dict[str, tuple[int, int, CallRow]] = {}  # by the only row that this batch has of a call
        again: list[tuple[int, int, CallRow]] = []
        for part in content:
            source, agent, sid, session = self.sources[part.path].pk, part.agent, "", 0
            for call in part.calls:
                if call.sid != sid:
                    sid = call.sid
                    session = self.sessions[agent, sid]
                if call.key in told:
                    again.append((source, session, call))
                else:
                    told[call.key] = source, session, call
        # of most calls there is one row: nothing of it depends on others
        shared = {call.key for _, _, call in again} | self.unsettled | rows.known(told)
        # a sum of calls is priced by a rule of its own: see `replays.priced_as`
        shared |= {key for key in told if replays.TURN in key}
        several = [told.pop(key) for key in shared & told.keys()]
        self._alone(told.values())
        self._together(shared, [*several, *again])

    def _alone(self, calls: Collection[tuple[int, int, CallRow]]) -> None:
        """Rows that share their call with no other one."""
        rows.insert_new(self._priced(calls))
        self.out.changed |= {session for _, session, _ in calls}

    def _priced(self, calls: Iterable[tuple[int, int, CallRow]]) -> Iterator[rows.New]:
        holding, ranks = prices.book().holding, self.ranks
        keys: dict[str, int] = {}  # digest of a price -> key of its row
        for source, session, call in calls:
            price = holding(call[5], ranks[session][3], call[6])
            units = None if price is None else price.units(call[7], call[8], call[9], call[10], call[11])
            if price is None or units is None:
                yield source, session, call, None, None
                continue
            key = keys.get(price.digest)
            if key is None:
                key = keys[price.digest] = prices.saved([price])[price.digest].pk
            yield source, session, call, units, key

    def _together(self, keys: set[str], calls: Iterable[tuple[int, int, CallRow]]) -> None:
        """Rows of calls that have several, all rows that are stored of them included."""
        if not keys:
            return
        fresh: dict[tuple[int, int, str], Row] = {}
        for source, session, call in calls:
            row = Row(0, source, session, *call[1:-1], money(call.reported_cost))
            known = fresh.get((source, session, call.key))
            if known is None:
                fresh[source, session, call.key] = row
            else:
                ownership.merge(known, row)
        groups: dict[str, list[Row]] = {key: [] for key in keys}
        before: dict[int, tuple[Any, ...]] = {}
        for row in rows.of_keys(keys):
            before[row.pk] = ownership.values(row)
            groups[row.key].append(row)
            again = fresh.pop((row.source, row.session, row.key), None)
            if again is not None:
                ownership.merge(row, again)
        for (_, _, key), row in fresh.items():
            groups[key].append(row)
        self._know(row.session for group in groups.values() for row in group)
        paths = self._paths(row.source for group in groups.values() if len(group) > 1 for row in group)
        for group in groups.values():
            if group:
                ownership.settle(group, self.ranks, paths)
        self._price(groups, before)
        changed = [
            row for group in groups.values() for row in group if row.pk and ownership.values(row) != before[row.pk]
        ]
        rows.insert(fresh.values())
        rows.update(changed)
        self.out.changed |= {row.session for row in changed} | {session for _, session, _ in fresh}

    def _know(self, ids: Iterable[int]) -> None:
        """Ranks of sessions that this batch does not touch, but whose rows it meets."""
        for chunk in rows.chunks(sorted(set(ids) - self.ranks.keys())):
            fields = ("pk", "copy_hint", "first_at", "sid", "agent")
            for pk, hint, first, sid, agent in Session.objects.filter(pk__in=chunk).values_list(*fields):
                self.ranks[pk] = (hint, rows.stamp(first) or NEVER, sid, agent)

    def _paths(self, of: Iterable[int]) -> dict[int, str]:
        paths = {source.pk: path for path, source in self.sources.items()}
        for chunk in rows.chunks(sorted(set(of) - paths.keys())):
            paths.update(SourceFile.objects.filter(pk__in=chunk).values_list("pk", "path"))
        return paths

    def _price(self, groups: dict[str, list[Row]], before: dict[int, tuple[Any, ...]]) -> None:
        """Price each call once; a price that was used stays until the call's tokens change."""
        asked: list[prices.Asked] = []
        whose: list[list[Row]] = []
        for group in groups.values():
            if not group:
                continue
            stored = [Row(*before[row.pk]) for row in group if row.pk]
            priced = next((row for row in stored if row.cost is not None), None)
            if priced is not None and _asked(stored) == _asked(group):
                for row in group:
                    row.cost, row.price = priced.cost, priced.price
                continue
            model, at, buckets = _asked(group)
            agent, moment = self.ranks[group[0].session][3], rows.moment(at)
            model = replays.priced_as(group[0].key, model, agent, moment, buckets)
            asked.append((model, agent, moment, buckets))
            whose.append(group)
        for group, found in zip(whose, prices.book().bulk(asked), strict=True):
            cost, price = found if found is not None else (None, None)
            for row in group:
                row.cost, row.price = cost, price

    # --- boundaries

    def _marks(self, content: Iterable[Part]) -> None:
        uids = {mark.uid for part in content for mark in part.marks} | self.unsettled_marks
        if not uids:
            return
        known: dict[tuple[int, int, str], SessionBoundary] = {}
        for chunk in rows.chunks(sorted(uids)):
            for row in SessionBoundary.objects.filter(uid__in=chunk):
                known[row.source_id, row.session_id, row.uid] = row
        for part in content:
            source = self.sources[part.path].pk
            for mark in part.marks:
                session = self.sessions[part.agent, mark.sid]
                row = known.setdefault(
                    (source, session, mark.uid),
                    SessionBoundary(source_id=source, session_id=session, uid=mark.uid, line=mark.line),
                )
                row.line = min(row.line, mark.line)
                row.at = row.at or rows.moment(mark.at)
                row.kind = mark.kind
                row.trigger = mark.trigger if mark.trigger != "unknown" else row.trigger
                for name in ("declared_pre", "declared_post", "duration_ms"):
                    said = getattr(mark, name)
                    setattr(row, name, max(filter(None, (said, getattr(row, name))), default=said))
        groups: dict[tuple[int, str], list[tuple[SessionBoundary, ownership.Mark]]] = defaultdict(list)
        for row in known.values():
            mark_row = ownership.Mark(row.pk or 0, row.source_id, row.session_id, row.uid, row.line, True, True)
            groups[ownership.mark_scope(row.uid, row.session_id)].append((row, mark_row))
        paths = self._paths(row.source_id for row in known.values())
        self._know(row.session_id for row in known.values())
        for group in groups.values():
            ownership.settle_marks([mark_row for _, mark_row in group], self.ranks, paths)
            for row, mark_row in group:
                row.shown, row.counts = mark_row.shown, mark_row.counts
        new = [row for row in known.values() if not row.pk]
        rows.write([row for row in known.values() if row.pk], _MARK)
        SessionBoundary.objects.bulk_create(new)
        self.out.changed |= {row.session_id for row in known.values()}

    # --- anomalies

    def _anomalies(self, accepted: Iterable[Part]) -> None:
        counts: dict[tuple[int, int | None, str, str], list[int]] = {}
        held: dict[int, bool] = {}
        known: dict[tuple[int, int | None, str, str], SessionAnomaly] = {}
        named: Counter[tuple[int, int | None, str]] = Counter()

        def add(key: tuple[int, int | None, str, str], line: int, count: int) -> None:
            entry = counts.setdefault(key, [line, 0])
            entry[1] += count

        def bounded(key: tuple[int, int | None, str, str]) -> tuple[int, int | None, str, str]:
            """A file that names ever more unknown things fills no table: behind the first ones they are the others."""
            if not key[3] or key in counts or key in known:
                return key
            if named[key[:3]] >= MOST_NAMES:
                return (*key[:3], OTHERS)
            named[key[:3]] += 1
            return key

        ids = sorted({self.sources[part.path].pk for part in accepted})
        for chunk in rows.chunks(ids):
            for row in SessionAnomaly.objects.filter(source__in=chunk, projected=False):
                key = row.source_id, row.session_id, row.kind, row.detail
                known[key] = row
                named[key[:3]] += bool(row.detail)
        for part in accepted:
            source = self.sources[part.path].pk
            for kind, sid, detail, line, count in part.anomalies:
                add(bounded((source, self.sessions[part.agent, sid] if sid else None, kind, detail)), line, count)
            if part.replaced:
                add((source, None, AnomalyKind.REPLACED, ""), 0, 1)
            if part.status == READ:
                held[source] = part.held
        for source_id, is_held in held.items():
            tail = source_id, None, str(AnomalyKind.PARTIAL_TAIL), ""
            if is_held and tail not in known:
                add(tail, 0, 1)
            elif not is_held and tail in known:
                known.pop(tail).delete()
        new: list[SessionAnomaly] = []
        for (source_id, session, kind, detail), (line, count) in counts.items():
            row_known = known.get((source_id, session, kind, detail))
            if row_known is None:
                new.append(
                    SessionAnomaly(
                        source_id=source_id, session_id=session, kind=kind, detail=detail, line=line, count=count
                    )
                )
            else:
                row_known.count += count
                row_known.save(update_fields=["count"])
            if session is not None:
                self.out.changed.add(session)
        SessionAnomaly.objects.bulk_create(new)


_MARK: Final = "line at kind trigger declared_pre declared_post duration_ms shown counts".split()
_ABOUT: Final = ("cwd", "branch", "version", "parent", "copy_hint", "first_at", "last_at", "reported_cost")


def _asked(group: Sequence[Row]) -> tuple[str, str, Buckets]:
    """What the price of a call depends on: its model, its first time, its tokens; the same for any order of rows."""
    first = group[0]
    if len(group) == 1:
        return first.model, first.at, first.buckets
    model = min((row.model for row in group if row.model), default="")
    return model, min((row.at for row in group if row.at), default=""), first.buckets


def _settle_about(session: Session, about: dict[str, Any]) -> None:
    session.cwd = str(about.get("cwd", ""))[:4096]
    session.branch = str(about.get("branch", ""))[:300]
    session.version = str(about.get("version", ""))[:60]
    session.parent = str(about.get("parent", ""))[:200]
    session.copy_hint = bool(about.get("copy_hint"))
    session.first_at, session.last_at = _moment(about.get("first_at")), _moment(about.get("last_at"))
    session.reported_cost = money(str(about.get("reported_cost") or ""))


def _moment(text: object) -> datetime | None:
    return rows.moment(str(text)) if text else None
