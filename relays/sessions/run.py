"""Read files of sessions into the tables: what an import, a follow and a test call.

architecture.md, sessions: incremental, idempotent, never writing into a watched folder. Everything here can be stopped
at any moment, killed included, and called again: what was stored stays, what was not is read again.
"""

import gc
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from django.conf import settings
from django.db.models import Q

from relays.models import Import, ImportedFile, SourceFile
from relays.sessions import project, rows
from relays.sessions.files import Found, Stat, find
from relays.sessions.forks import Parts, parts_of
from relays.sessions.intake import cursor_of, store
from relays.sessions.reader import Context
from relays.sessions.reading import Part, Task
from relays.stores import prices


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one call of `import_paths` is. Bytes are those on disk; a file that did not change counts as done."""

    files_total: int
    files_done: int
    bytes_total: int
    bytes_done: int
    path: str = ""  # the file that is being read


@dataclass(frozen=True, slots=True)
class Problem:
    """A path that could not be read, and why, in words for a person."""

    path: str
    why: str


@dataclass(slots=True)
class Outcome:
    """What one call of `import_paths` did. `finished` False: call it again to go on."""

    finished: bool = True
    files_total: int = 0
    files_done: int = 0
    bytes_total: int = 0
    bytes_done: int = 0
    sources: list[int] = field(default_factory=list)  # keys of every SourceFile under the paths that is a session file
    changed: set[int] = field(default_factory=set)  # keys of the Sessions whose figures this call may have changed
    skipped: int = 0  # files that hold no session
    problems: list[Problem] = field(default_factory=list)


def import_paths(
    paths: Iterable[str | Path],
    *,
    job: Import | None = None,
    progress: Callable[[Progress], None] | None = None,
    cancelled: Callable[[], bool] = lambda: False,
    seconds: float | None = None,
    processes: int = 1,
) -> Outcome:
    """Read what is new in the files and folders (recursively) and bring the sessions' figures up to date.

    `job`: the files that are covered are written to its `ImportedFile` rows; its other fields are the caller's.
    `progress` is called between batches, `cancelled` asked there: True ends it early with `finished` False.
    `seconds`: no new batch is begun after that long. `processes`: 2 parses in two forked processes (for the command
    line; a process with threads or a worker of a queue passes 1).
    Never raises for what lies on disk: it is in `problems`, and in the `status` and `error` of the SourceFile.
    """
    with _few_collections() if processes > 1 else nullcontext():
        return _Run(job, progress or (lambda _: None), cancelled, seconds, processes).run(list(paths))


@contextmanager
def _few_collections() -> Iterator[None]:
    """Rows and texts hold no circles: to look for them among so many would take a fifth of the time.

    What queries leave is looked for after each batch, when its rows are gone.
    """
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


#: calls and parts of one transaction
BATCH_CALLS: Final = 10_000
BATCH_PARTS: Final = 200
#: calls that are worth a transaction while nothing else is there to do
BATCH_WHEN_IDLE: Final = 1_500
#: sessions that are worth a transaction then
WORTH_PROJECTING: Final = 12
BATCH_SECONDS: Final = 1.0
#: of the time that a call is given: the rest is for the figures of what was read
FOR_READING: Final = 0.7
#: what reading a new file costs beside its bytes: fewer than so many are not worth two more processes
WORTH_FORKING: Final = 16 << 20


class _Run:
    def __init__(
        self,
        job: Import | None,
        progress: Callable[[Progress], None],
        cancelled: Callable[[], bool],
        seconds: float | None,
        processes: int,
    ) -> None:
        self.job = job
        self.progress = progress
        self.cancelled = cancelled
        self.until = None if seconds is None else time.monotonic() + seconds * FOR_READING
        self.processes = processes
        self.out = Outcome()
        self.bytes_done: dict[str, int] = {}
        self.sizes: dict[str, int] = {}
        self.covered: set[int] = set()
        self.stale: set[str] = set()
        #: files that are still to be read, by session as their names tell it; session -> groups that told of it
        self.unread: Counter[str] = Counter()
        self.told: dict[int, set[str]] = {}
        self.projected: set[int] = set()  # sessions that need it no more
        self.formed: set[str] = set()  # files that held a session when they were looked at before

    def run(self, paths: list[str | Path]) -> Outcome:
        roots = [os.path.abspath(path) for path in paths]
        found = {one.path: one for one in find(roots, self._problem)}
        known = _known(roots)
        self.out.files_total = len(found)
        self.out.bytes_total = sum(one.stat.size for one in found.values())
        self.sizes = {path: one.stat.size for path, one in found.items()}
        fresh = [one for path, one in found.items() if self._is_news(one, known.get(path))]
        self._gone(found, known)
        self._read([one.path for one in fresh], known)
        self._project()
        self._cover()
        self.out.sources = sorted(self.covered)
        return self.out

    # --- what there is to do

    def _problem(self, path: str, why: str) -> None:
        self.out.problems.append(Problem(path, why))

    def _is_news(self, one: Found, known: "_Known | None") -> bool:
        if known is None:
            return True
        unchanged = known.stat == one.stat
        if known.status == SourceFile.Status.SKIPPED:
            if unchanged:
                self._skip(one.path)
            return not unchanged
        if unchanged and known.status == SourceFile.Status.READ:
            self.covered.add(known.pk)
            self._count(one.path, one.stat.size)
            return False
        return True

    def _skip(self, path: str) -> None:
        self.out.skipped += 1
        self._count(path, self.sizes.get(path, 0))

    def _count(self, path: str, done: int) -> None:
        if path not in self.bytes_done:
            self.out.files_done += 1
        self.out.bytes_done += done - self.bytes_done.get(path, 0)
        self.bytes_done[path] = done

    def _tell(self, path: str) -> None:
        out = self.out
        self.progress(Progress(out.files_total, out.files_done, out.bytes_total, out.bytes_done, path))

    def _gone(self, found: Mapping[str, Found], known: Mapping[str, "_Known"]) -> None:
        """Files that were read once and are no longer there: what was read of them stays, and is covered."""
        gone = [one for path, one in known.items() if path not in found and one.form]
        self.covered.update(one.pk for one in gone)
        news = [one.pk for one in gone if one.status == SourceFile.Status.READ and not os.path.lexists(one.path)]
        for chunk in rows.chunks(news):
            SourceFile.objects.filter(pk__in=chunk).update(status=SourceFile.Status.GONE)

    # --- the work

    def _time_over(self) -> bool:
        return self.cancelled() or (self.until is not None and time.monotonic() >= self.until)

    def _read(self, paths: Sequence[str], known: Mapping[str, "_Known"]) -> None:
        if not paths:
            return
        self.formed |= {path for path in paths if path in known and known[path].form}
        size = sum(self.sizes[path] - (known[path].offset if path in known else 0) for path in paths)
        # the largest first: the last to come should be a small one
        order = self._in_order(paths)
        forked = self.processes if size >= WORTH_FORKING and len(order) > 1 else 1
        tasks = _tasks(order)
        with parts_of(tasks, forked) as parts, rows.hurried():
            if forked > 1:
                prices.ready()  # while nothing is read yet
            batch: list[Part] = []
            calls, begun = 0, time.monotonic()
            self.unread = Counter(_group(path) for path in order)
            for part in parts:
                batch.append(part)
                calls += len(part.calls)
                over = time.monotonic() - begun >= BATCH_SECONDS or self._time_over()
                if calls >= BATCH_WHEN_IDLE and not parts.waits():
                    over = True  # better than to wait
                if over or calls >= BATCH_CALLS or len(batch) >= BATCH_PARTS:
                    self._store(batch)
                    batch, calls = [], 0
                    if forked > 1:
                        gc.collect(1)
                        self._project_whole(parts)
                    begun = time.monotonic()
                    if self._time_over():
                        self.out.finished = False
                        break
            self._store(batch)
        if self.stale and self.out.finished:
            # somebody else read on in them: what is left is little, and next time nobody may be in the way
            again, self.stale = sorted(self.stale), set()
            self._read(again, _known(again))

    def _store(self, batch: list[Part]) -> None:
        if not batch:
            return
        stored = store(batch)
        self.out.changed |= stored.changed
        self.projected -= stored.changed
        for session, told in stored.told.items():
            self.told.setdefault(session, set()).update(map(_group, told))
        self.unread.subtract(_group(part.path) for part in batch if not part.more)
        self.stale |= stored.stale
        for part in batch:
            if part.path in stored.stale:
                continue
            if part.status == SourceFile.Status.SKIPPED and part.path not in self.formed:
                self._skip(part.path)
                continue
            if part.status in (SourceFile.Status.REFUSED, SourceFile.Status.FAILED):
                self._problem(part.path, part.error)
            # what was read of a file that is empty now stays
            if part.path in stored.sources and (part.form or part.path in self.formed):
                self.covered.add(stored.sources[part.path])
            if not part.more:
                self._count(part.path, self.sizes.get(part.path, 0))
        self._tell(batch[-1].path)

    def _in_order(self, paths: Iterable[str]) -> list[str]:
        """The largest first: the last to come should be a small one. What is of one session comes together."""
        of: dict[str, list[str]] = {}
        for path in paths:
            of.setdefault(_group(path), []).append(path)
        groups = sorted(of.items(), key=lambda one: (-sum(map(self.sizes.__getitem__, one[1])), one[0]))
        return [path for _, group in groups for path in sorted(group, key=lambda path: (-self.sizes[path], path))]

    def _project_whole(self, parts: Parts) -> None:
        """While others still read: sessions of which, by their names, no file is left. What comes all the same is

        projected again.
        """
        done = [pk for pk, groups in self.told.items() if not any(self.unread[group] > 0 for group in groups)]
        if len(done) >= (2 * WORTH_PROJECTING if parts.waits() else WORTH_PROJECTING):
            for pk in done:
                del self.told[pk]
            self.projected |= project.project(set(done) & self.out.changed, self.cancelled)

    def _project(self) -> None:
        """Whatever was stored gets its figures, also where reading was ended early: what pages show adds up."""
        wanted = (self.out.changed - self.projected) | project.waiting()
        with rows.hurried():
            self.out.changed |= self.projected | project.project(wanted, self.cancelled)

    def _cover(self) -> None:
        if self.job is None:
            return
        before = set(ImportedFile.objects.filter(job=self.job).values_list("source_id", flat=True))
        new = [ImportedFile(job=self.job, source_id=pk) for pk in sorted(self.covered - before)]
        ImportedFile.objects.bulk_create(new, ignore_conflicts=True, batch_size=1000)
        self.covered |= before


def _group(path: str) -> str:
    """What files of one session have in common where its agent names them so; else a file is its own."""
    context = Context(Path(path))
    return context.parent_session or context.stem


@dataclass(frozen=True, slots=True)
class _Known:
    """What a scan needs of a file that was looked at before."""

    pk: int
    path: str
    form: str
    status: str
    stat: Stat
    offset: int


def _known(roots: Iterable[str]) -> dict[str, _Known]:
    """The files under these paths that were looked at before; one query."""
    roots = list(roots)
    under = Q(path__in=roots)
    for root in roots:
        if os.path.isdir(root) or not os.path.lexists(root):
            under |= Q(path__startswith=root.rstrip("/") + "/")
    names = ("pk", "path", "form", "status", "device", "inode", "size", "mtime_ns", "offset")
    found: dict[str, _Known] = {}
    exact, below = frozenset(roots), tuple(root.rstrip("/") + "/" for root in roots)
    for pk, path, form, status, device, inode, size, mtime_ns, offset in SourceFile.objects.filter(under).values_list(
        *names
    ):
        if path not in exact and not path.startswith(below):
            continue  # SQLite compares beginnings without regard to case
        found[path] = _Known(pk, path, form, status, Stat(device, inode, size, mtime_ns), offset)
    return found


def _tasks(paths: Iterable[str]) -> Iterator[Task]:
    """Where to read on in each file; those that are not known begin at their start."""
    for chunk in rows.chunks(paths):
        known = {source.path: source for source in SourceFile.objects.filter(path__in=chunk)}
        for path in chunk:
            source = known.get(path)
            keep = settings.KEEP_TRANSCRIPTS
            if source is None:
                yield Task(path, texts=keep)
            else:
                yield Task(path, cursor_of(source), source.form, source.state, texts=keep)
