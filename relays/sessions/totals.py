"""What an import covered, in the shape that scripts rely on.

Interface: "`tokens` counts each API call once over all that is imported". What other files say of the same calls
changes whose call it is only among the files that were imported: alone, a copied history is the session's own.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from django.db import connection
from django.db.models import Max, Sum

from relays.core.lines import recorded
from relays.core.meter import AnomalyKind
from relays.models import Session, SessionAnomaly, SessionBoundary, SessionCall, SessionFile, SourceFile
from relays.sessions import ownership, replays, rows
from relays.sessions.ownership import NEVER, Rank

BUCKETS: Final = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
_COLUMNS: Final = ("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens")
_UNITS: Final = Decimal(10) ** 10


@dataclass(slots=True)
class _Sums:
    calls: int = 0
    tokens: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))
    cost: int = 0  # of 1e-10 dollars
    unpriced: int = 0
    lower_bound: int = 0
    compactions: int = 0
    most: int = 0

    def add(self, calls: int, tokens: Sequence[int], cost: int, unpriced: int, lower_bound: int) -> None:
        self.calls += calls
        self.tokens = [a + b for a, b in zip(self.tokens, tokens, strict=True)]
        self.cost += cost
        self.unpriced += unpriced
        self.lower_bound += lower_bound

    def named(self) -> dict[str, int]:
        return dict(zip(BUCKETS, self.tokens, strict=True))


def totals(sources: Iterable[int]) -> dict[str, Any]:
    """The `import` shape of interface.md over these files (keys of SourceFile), with more keys:

    `unpriced`: {model: calls}, `partial`: whether a total misses a price; `cost`: decimal text of what has one;
    `lower_bound_calls`: calls whose output is only a lower bound; `copied_calls`: rows that repeat a call counted
    elsewhere.
    """
    ids = sorted(set(sources))
    sums: dict[int, _Sums] = defaultdict(_Sums)
    copied = 0
    for chunk in rows.chunks(ids):
        _counted(chunk, sums)
        _shown(chunk, sums)
        copied += SessionCall.objects.filter(source__in=chunk).exclude(copied="").count()
    _elsewhere(ids, sums)
    _compactions(ids, sums)
    told = _told(ids)
    for session in told.keys() - _unread(told):
        sums.setdefault(session, _Sums())
    unpriced = _unpriced(ids)
    whole = _Sums()
    for one in sums.values():
        whole.add(one.calls, one.tokens, one.cost, one.unpriced, one.lower_bound)
    return {
        "files": len(ids),
        "sessions": len(sums),
        "calls": whole.calls,
        "tokens": whole.named(),
        "compactions": sum(one.compactions for one in sums.values()),
        "max_resident_tokens": max((one.most for one in sums.values()), default=0),
        "anomalies": _anomalies(ids),
        "cost": _money(whole),
        "unpriced": unpriced,
        "partial": whole.unpriced > 0,
        "lower_bound_calls": whole.lower_bound,
        "copied_calls": copied,
        "per_session": _per_session(sums, told),
    }


def _counted(chunk: Sequence[int], sums: dict[int, _Sums]) -> None:
    if connection.vendor == "sqlite":
        # dollars and what is beside them apart: whatever figures a file holds, their sum must fit in 64 bits
        dollars = "SUM(CAST(cost AS INTEGER)), SUM(CAST(ROUND((cost - CAST(cost AS INTEGER)) * 10000000000) AS BIGINT))"
    else:
        dollars = "0, SUM(CAST(cost * 10000000000 AS BIGINT))"
    query = f"""
        SELECT session_id, COUNT(*), {", ".join(f"SUM({name})" for name in _COLUMNS)},
            {dollars}, SUM(CASE WHEN cost IS NULL THEN 1 ELSE 0 END),
            SUM(CASE WHEN lower_bound THEN 1 ELSE 0 END)
        FROM "{SessionCall._meta.db_table}" WHERE counts AND source_id IN ({rows.marks(len(chunk))}) GROUP BY session_id
    """  # noqa: S608 - names of columns and placeholders only
    with connection.cursor() as cursor:
        cursor.execute(query, chunk)
        for session, calls, *values in cursor.fetchall():
            tokens = [int(value or 0) for value in values[:5]]
            cost = int(values[5] or 0) * int(_UNITS) + int(values[6] or 0)
            sums[session].add(calls, tokens, cost, int(values[7] or 0), int(values[8] or 0))


def _shown(chunk: Sequence[int], sums: dict[int, _Sums]) -> None:
    """The most that was resident."""
    calls = SessionCall.objects.filter(source__in=chunk).exclude(copied__in=ownership.NOT_OWN)
    for session, most in calls.order_by().values_list("session").annotate(most=Max("resident")):
        sums[session].most = max(sums[session].most, most or 0)


def _elsewhere(ids: Sequence[int], sums: dict[int, _Sums]) -> None:
    """Calls that these files show and that count in a file outside them: here they are the first session's."""
    inside = set(ids)
    keys: set[str] = set()
    for chunk in rows.chunks(ids):
        mine = SessionCall.objects.filter(source__in=chunk, counts=False).exclude(copied__in=ownership.NOT_OWN)
        keys |= set(mine.values_list("key", flat=True))
    if not keys:
        return
    groups: dict[str, list[ownership.Row]] = defaultdict(list)
    counted: set[str] = set()
    for row in rows.of_keys(sorted(keys)):
        if row.source in inside:
            groups[row.key].append(row)
            if row.counts:
                counted.add(row.key)
    left = {key: group for key, group in groups.items() if key not in counted}
    ranks = _ranks({row.session for group in left.values() for row in group})
    for group in left.values():
        own = [row for row in group if row.copied not in ownership.NOT_OWN]
        if not own:
            continue
        row = min(own, key=lambda row: (*ranks[row.session], row.source, row.line))
        tokens = [row.input, row.cache_read, row.cache_write_5m, row.cache_write_1h, row.output]
        cost = 0 if row.cost is None else int(round(Decimal(str(row.cost)) * _UNITS))
        sums[row.session].add(1, tokens, cost, row.cost is None, row.lower_bound)


def _ranks(sessions: Iterable[int]) -> dict[int, Rank]:
    found: dict[int, Rank] = {}
    for chunk in rows.chunks(sorted(sessions)):
        fields = ("pk", "copy_hint", "first_at", "sid", "agent")
        for pk, hint, first, sid, agent in Session.objects.filter(pk__in=chunk).values_list(*fields):
            found[pk] = (hint, rows.stamp(first) or NEVER, sid, agent)
    return found


def _compactions(ids: Sequence[int], sums: dict[int, _Sums]) -> None:
    """Each once over these files, of the session that it counts for, else of the first that shows it."""
    found: dict[tuple[int, str], list[tuple[bool, int]]] = defaultdict(list)
    for chunk in rows.chunks(ids):
        marks = SessionBoundary.objects.filter(source__in=chunk, kind="compaction")
        # in what a fork repeats of its parent's: of it no call counts here either
        marks = marks.exclude(session__agent=replays.AGENT, shown=True, counts=False)
        for uid, session, counts in marks.values_list("uid", "session_id", "counts"):
            found[ownership.mark_scope(uid, session)].append((not counts, session))
    ranks = _ranks({session for shown in found.values() for _, session in shown})
    for shown in found.values():
        _, session = min(shown, key=lambda one: (one[0], ranks[one[1]]))
        sums[session].compactions += 1


def _told(ids: Sequence[int]) -> dict[int, str]:
    """Session -> the first file by path that tells of it, one of its main chain before a sub-agent's."""
    found: dict[int, tuple[bool, str]] = {}
    for chunk in rows.chunks(ids):
        told = SessionFile.objects.filter(source__in=chunk).values_list("session_id", "source__path")
        for session, path in told:
            one = ("/subagents/" in path, path)
            found[session] = min(found.get(session, one), one)
    return {session: path for session, (_, path) in found.items()}


def _unread(ids: Iterable[int]) -> set[int]:
    """Sessions that a file only names, and of which nothing was read: none that was imported."""
    found: set[int] = set()
    for chunk in rows.chunks(sorted(ids)):
        named = Session.objects.filter(pk__in=chunk, first_at=None).exclude(parent="")
        found |= {one.pk for one in named.defer("series", "fill", "shadow") if one.unread}
    return found


def _unpriced(ids: Sequence[int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for chunk in rows.chunks(ids):
        calls = SessionCall.objects.filter(source__in=chunk, shown=True, cost__isnull=True)
        calls = calls.exclude(copied__in=ownership.NOT_OWN)
        for model, key in set(calls.values_list("model", "key")):
            del key
            found[model or recorded("a model that is not named")] += 1
    return dict(sorted(found.items()))


def _anomalies(ids: Sequence[int]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for chunk in rows.chunks(ids):
        counted = SessionAnomaly.objects.filter(source__in=chunk).order_by().values_list("kind")
        for kind, count in counted.annotate(n=Sum("count")):
            found[kind] += count or 0
        gone = SourceFile.objects.filter(pk__in=chunk, status=SourceFile.Status.GONE).count()
        if gone:
            found[AnomalyKind.GONE] += gone
    return dict(sorted(found.items()))


def _money(sums: _Sums) -> str | None:
    if sums.calls and sums.unpriced == sums.calls:
        return None
    return f"{Decimal(sums.cost) / _UNITS:.10f}".rstrip("0").rstrip(".") or "0"


def _per_session(sums: dict[int, _Sums], told: dict[int, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for chunk in rows.chunks(sorted(sums)):
        for pk, sid, agent in Session.objects.filter(pk__in=chunk).values_list("pk", "sid", "agent"):
            one = sums[pk]
            found.append(
                {
                    "session": sid,
                    "agent": agent,
                    "file": told.get(pk, ""),
                    "calls": one.calls,
                    "tokens": one.named(),
                    "compactions": one.compactions,
                    "max_resident_tokens": one.most,
                    "cost": _money(one),
                    "unpriced_calls": one.unpriced,
                }
            )
    return sorted(found, key=lambda one: (one["agent"], one["file"], one["session"]))
