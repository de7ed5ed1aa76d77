"""The calls of one session: a page of them by its place in the files, all as CSV, and sub-agents by what they cost.

"Page of a session with 30,000 calls opens in the same time as one with 300": no page counts, skips or scans calls; it
seeks in the index of (session, shown, source, line) and reads as many rows as it shows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from django.db.models import Count, F, Q, Sum

from relays.models import Session, SessionCall, SessionFile

CALLS = 50
#: a session with more calls has its sub-agents added up on demand only
ADD_UP = 2_000
AGENTS = 100
#: files that one page looks into; a page that comes to more of them is shorter
LOOKS = 12
_END = 10**16  # behind every line
#: written as a list: SQLite seeks in an index for `shown IN (1)` and not for the bare `shown` that `=True` becomes
SHOWN: Final = {"shown__in": (True,)}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call stands: file, line, row. `/sessions/<id>/?after=12.340.99`."""

    source: int
    line: int
    row: int

    def __str__(self) -> str:
        return f"{self.source}.{self.line}.{self.row}"


def place(text: str) -> Place | None:
    """A place from an address; None for what is none."""
    parts = text.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() and len(part) < 18 for part in parts):
        return None
    return Place(*map(int, parts))


@dataclass(frozen=True, slots=True)
class Line:
    """One call of the table. `growth`: against the main call before it in the same file; None = there is none.

    `file`: the file's path where the table comes to another file, else "".
    """

    call: SessionCall
    growth: int | None
    file: str

    @property
    def cache_write(self) -> int:
        return self.call.cache_write_5m + self.call.cache_write_1h

    @property
    def fullness(self) -> float | None:
        """Part of the window that was full, as far as the agent declared the window."""
        return self.call.resident / self.call.window if self.call.window else None


@dataclass(frozen=True, slots=True)
class Calls:
    """One page. `earlier` and `later` are what the neighbouring pages are asked with; "" = there is none."""

    lines: tuple[Line, ...]
    earlier: str
    later: str
    cut: bool  # the page does not begin with the session's first call


def calls(session: Session, *, after: Place | None = None, before: Place | None = None) -> Calls:
    """The calls behind `after`, or the ones before `before`, else the first ones.

    One query for the files, then one for each file that the page looks into, `LOOKS` at most.
    """
    walk = _Walk(session)
    if before is not None:
        rows, on = walk.seek(before, back=True, most=CALLS)
        rows.reverse()
        earlier, later = on, _of(rows[-1]) if rows else None
    else:
        rows, later = walk.seek(after, back=False, most=CALLS)
        earlier = _of(rows[0]) if rows and after is not None else None
    # the row before the page tells the first one's growth, and whether there is an earlier page at all
    edge = walk.seek(_of(rows[0]), back=True, most=1)[0] if rows and earlier else []
    return Calls(
        lines=walk.lines(edge, rows),
        earlier=str(earlier) if earlier and (edge or not rows) else "",
        later=str(later) if later else "",
        cut=bool(edge) if rows else after is not None or before is not None,
    )


def _of(row: SessionCall) -> Place:
    return Place(row.source_id, row.line, row.pk)


class _Walk:
    """The shown calls of a session in the order that numbers its main calls: file after file by path, line by line."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.paths = files_in_order(session)
        self.order = list(self.paths)

    def seek(self, at: Place | None, *, back: bool, most: int) -> tuple[list[SessionCall], Place | None]:
        """Up to `most` rows from a place on, in the order of the walk, and where to go on; None = nothing follows."""
        files = list(reversed(self.order)) if back else self.order
        start = files.index(at.source) if at and at.source in self.paths else 0
        found: list[SessionCall] = []
        for looked, source in enumerate(files[start:]):
            if looked == LOOKS:
                return found, Place(source, _END if back else 0, 0)
            here = at if at and at.source == source else None
            found += self._of_file(source, here, back=back, most=most + 1 - len(found))
            if len(found) > most:
                return found[:most], _of(found[most - 1])
        return found, None

    def _of_file(self, source: int, at: Place | None, *, back: bool, most: int) -> list[SessionCall]:
        rows = SessionCall.objects.filter(session=self.session, source=source, **SHOWN)
        if at is not None:
            side = "lt" if back else "gt"
            # the plain bound beside the pair is what the index can seek
            rows = rows.filter(**{f"line__{side}e": at.line})
            rows = rows.filter(Q(**{f"line__{side}": at.line}) | Q(**{f"id__{side}": at.row}))
        order = ("-line", "-id") if back else ("line", "id")
        return list(rows.defer("fill", "vector", "turn").order_by(*order)[:most])

    def lines(self, before: list[SessionCall], rows: list[SessionCall]) -> tuple[Line, ...]:
        lines, last, source = [], next((row for row in before if row.chain == "main"), None), 0
        for row in rows:
            known = row.chain == "main" and last is not None and last.source_id == row.source_id
            file = self.paths.get(row.source_id, "") if row.source_id != source else ""
            lines.append(Line(row, row.resident - last.resident if known and last else None, file))
            source = row.source_id
            last = row if row.chain == "main" else last
        return tuple(lines)


def files_in_order(session: Session) -> dict[int, str]:
    """Key -> path of the files that tell of the session, by path: sorted here, as databases collate differently."""
    rows = SessionFile.objects.filter(session=session).values_list("source", "source__path")
    return dict(sorted(rows, key=lambda row: row[1]))


def calls_csv(session: Session) -> Iterable[tuple[object, ...]]:
    """Every call as one of its files shows it, row by row; the first row names the columns."""
    yield (
        "file", "line", "at", "chain", "sub-agent", "model", "input", "cache read", "cache write 5m", "cache write 1h",
        "output", "output is a lower bound", "reasoning", "resident", "window", "tool results", "failed", "counts",
        "copied", "cost", "reported cost", "key",
    )  # fmt: skip
    for source, path in files_in_order(session).items():
        rows = SessionCall.objects.filter(session=session, source=source, **SHOWN).order_by("line", "id")
        columns = rows.values_list(
            "line", "at", "chain", "agent_id", "model", "input_tokens", "cache_read", "cache_write_5m",
            "cache_write_1h", "output_tokens", "lower_bound", "reasoning", "resident", "window", "tools",
            "tool_errors", "counts", "copied", "cost", "reported_cost", "key",
        )  # fmt: skip
        for row in columns.iterator(chunk_size=2_000):
            yield (path, *row)


# ---- sub-agents -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Helper:
    """What one sub-agent, or the side calls of the agent itself, cost. None of it was in the main window."""

    chain: str
    agent_id: str
    calls: int
    tokens: int
    output: int
    cost: Decimal | None
    unpriced: int


def helpers(session: Session, *, asked: bool) -> tuple[Helper, ...] | None:
    """Sub-agents by cost, dearest first; None = too many calls to add up unless somebody asks. One query."""
    if session.calls <= session.main_calls:
        return ()
    if session.calls + session.copied_calls > ADD_UP and not asked:
        return None
    rows = (
        SessionCall.objects.filter(session=session, counts=True, **SHOWN)
        .exclude(chain="main")
        .order_by()
        .values("chain", "agent_id")
        .annotate(
            n=Count("pk"),
            spent=Sum("cost"),
            out=Sum("output_tokens"),
            read=Sum(F("input_tokens") + F("cache_read") + F("cache_write_5m") + F("cache_write_1h")),
            unpriced=Count("pk", filter=Q(cost__isnull=True)),
        )
        .order_by(F("spent").desc(nulls_last=True), "chain", "agent_id")[:AGENTS]
    )
    return tuple(
        Helper(
            row["chain"], row["agent_id"], row["n"], int(row["read"]) + int(row["out"]), int(row["out"]), row["spent"],
            row["unpriced"],
        )
        for row in rows
    )  # fmt: skip
