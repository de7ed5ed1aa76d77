"""`relay follow PATH… [--every SECONDS] [--for SECONDS]`: read sessions, then keep reading what is added to them.

One line per change of a session on stdout: calls, resident tokens now, compactions seen. Nothing is written into the
folders that are read. Ctrl-C ends it, with exit 0 and a line that says where it stands; the same command goes on there.
"""

import argparse
import math
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from django.db import OperationalError, connection

from relays.management.cli import Exit, emit, many, say
from relays.management.verbs._reading import bar, real_paths
from relays.models import Session, SessionFile
from relays.sessions import jobs, project
from relays.sessions import run as reading

SLICE = 0.1  # seconds; a Ctrl-C is seen within it while nothing is read
MOST_FAILURES = 5  # looks in a row in which the database did not answer
FIGURES = ("calls", "resident", "compactions")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file, or a folder with all below it")
    parser.add_argument(
        "--every",
        type=_seconds,
        default=None,
        metavar="SECONDS",
        help="look so often; default: every 2 seconds while files change, up to 15 while they do not",
    )
    parser.add_argument("--for", dest="seconds", type=_seconds, default=None, metavar="SECONDS", help="end after that")


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.1 <= value <= 1e8:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds (at least 0.1)")
    return value


def run(options: argparse.Namespace) -> int:
    paths = real_paths("follow", options.paths)
    until = time.monotonic() + options.seconds if options.seconds else math.inf
    with _ending() as ending:
        follower = _Follower(paths, ending, until, options)
        follower.first()
        while not follower.over():
            follower.rest()
            if not follower.over():
                follower.look()
        follower.end()
    return Exit.FINE


@dataclass
class _Asked:
    """Whether somebody pressed Ctrl-C, or the process was asked to end."""

    asked: bool = False


@contextmanager
def _ending() -> Iterator[_Asked]:
    """Inside, the first SIGINT or SIGTERM only asks, so that what is being stored is stored; a second interrupts."""
    state = _Asked()

    def on(number: int, frame: FrameType | None) -> None:
        if state.asked:
            raise KeyboardInterrupt
        state.asked = True

    before = {number: signal.signal(number, on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield state
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class _Follower:
    paths: list[str]
    ending: _Asked
    until: float  # on the monotonic clock
    options: argparse.Namespace
    sources: list[int] = field(default_factory=list)
    seen: dict[int, dict[str, Any]] = field(default_factory=dict)  # session -> FIGURES, as they were last said
    told: set[tuple[str, str]] = field(default_factory=set)
    changed_at: float = 0.0
    failures: int = 0

    def over(self) -> bool:
        return self.ending.asked or time.monotonic() >= self.until

    # the looks

    def first(self) -> None:
        """Read what is there already; it is summed up and not told session by session."""
        with bar() as progress:
            outcome = self._read(progress, self.until, processes=2)
        self._keep(outcome)
        if not outcome.finished:
            project.project(outcome.changed)  # the pages show what was read
            return
        self.seen = {row["pk"]: _figures(row) for row in _rows(None)}
        files, sessions = len(self.sources), len(_sessions_of(self.sources))
        if self.options.json:
            emit({"event": "start", "files": files, "sessions": sessions}, True, "")
        else:
            say(f"following {many(files, 'file')} of {many(sessions, 'session')}; Ctrl-C ends it")

    def look(self) -> None:
        """Read what is new and say what changed."""
        try:
            outcome = self._read(None, math.inf, processes=1)
            self._keep(outcome)
            for row in _rows(sorted(outcome.changed)):
                self._tell(row)
        except OperationalError as error:
            self.failures += 1
            if self.failures >= MOST_FAILURES:
                raise
            say(f"follow: the database does not answer ({error}); it is tried again")
            connection.close()
        else:
            self.failures = 0

    def rest(self) -> None:
        quiet = (time.monotonic() - self.changed_at) / 10
        least, most = jobs.LOOK_SOONEST.total_seconds(), jobs.LOOK_LATEST.total_seconds()
        end = min(time.monotonic() + (self.options.every or min(max(quiet, least), most)), self.until)
        while not self.ending.asked and (left := end - time.monotonic()) > 0:
            time.sleep(min(SLICE, left))

    def end(self) -> None:
        why = "interrupted" if self.ending.asked else "time over"
        sessions = _sessions_of(self.sources)
        calls = sum(row["calls"] for row in _rows(sorted(sessions)))
        data = {"event": "end", "why": why, "files": len(self.sources), "sessions": len(sessions), "calls": calls}
        read = f"{many(len(self.sources), 'file')} of {many(len(sessions), 'session')} with {many(calls, 'call')}"
        emit(data, self.options.json, f"{why}: read {read}; the same command goes on from here")

    # what they share

    def _read(
        self, progress: Callable[[reading.Progress], None] | None, until: float, processes: int
    ) -> reading.Outcome:
        return reading.import_paths(
            self.paths,
            progress=progress,
            cancelled=lambda: self.ending.asked or time.monotonic() >= until,
            processes=processes,
        )

    def _keep(self, outcome: reading.Outcome) -> None:
        if outcome.finished or not self.sources:
            self.sources = outcome.sources
        if outcome.changed:
            self.changed_at = time.monotonic()
        for problem in outcome.problems:
            if (problem.path, problem.why) not in self.told:
                self.told.add((problem.path, problem.why))
                say(f"{problem.path}: {problem.why}")

    def _tell(self, row: dict[str, Any]) -> None:
        now, before = _figures(row), self.seen.get(row["pk"], dict.fromkeys(FIGURES, 0))
        if now == before:
            return
        self.seen[row["pk"]] = now
        new_calls, new_compactions = now["calls"] - before["calls"], now["compactions"] - before["compactions"]
        data = {
            "event": "change",
            "session": row["sid"],
            "agent": row["agent"],
            "calls": now["calls"],
            "new_calls": new_calls,
            "resident_tokens": now["resident"],
            "window_tokens": row["window_tokens"],
            "max_resident_tokens": row["max_resident"],
            "compactions": now["compactions"],
            "new_compactions": new_compactions,
            "at": row["last_at"],
        }
        resident = "not yet" if now["resident"] is None else str(now["resident"])
        window = f" of {row['window_tokens']}" if row["window_tokens"] else ""
        calls = f"{many(now['calls'], 'call')} ({new_calls:+})"
        words = f"{row['agent']} {row['sid']}: {calls}, {resident}{window} tokens resident"
        compacted = f", compaction seen ({now['compactions']} in all)" if new_compactions > 0 else ""
        emit(data, self.options.json, words + compacted)


_COLUMNS = ("pk", "sid", "agent", "calls", "compactions", "max_resident", "window_tokens", "last_at", "series")


def _rows(sessions: Sequence[int] | None) -> Iterator[dict[str, Any]]:
    """The named sessions, or all."""
    if sessions is None:
        yield from Session.objects.values(*_COLUMNS).iterator(chunk_size=500)
        return
    for start in range(0, len(sessions), 500):
        yield from Session.objects.filter(pk__in=sessions[start : start + 500]).order_by("pk").values(*_COLUMNS)


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    """`resident` is that of the last call of the main chain; None where the session has none yet."""
    points = row["series"].get("points") if isinstance(row["series"], dict) else None
    return {"calls": row["calls"], "resident": points[-1][1] if points else None, "compactions": row["compactions"]}


def _sessions_of(sources: Sequence[int]) -> set[int]:
    found: set[int] = set()
    for start in range(0, len(sources), 500):
        some = SessionFile.objects.filter(source__in=sources[start : start + 500])
        found.update(some.order_by().values_list("session", flat=True).distinct())
    return found
