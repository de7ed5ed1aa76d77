"""`/sessions/import/`: the folders that may be read, what is being read now, and how earlier imports ended.

Interface: "Long work (import, verification, report) shows progress and can be cancelled". A constant number of queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db.models import Count
from django.utils import timezone

from relays.models import Import
from relays.sessions.jobs import BEAT_STALE, OPEN, RESUMABLE, exists

JOBS = 20
PROBLEMS = 100


@dataclass(frozen=True, slots=True)
class Root:
    """A folder of SESSION_ROOTS. `live`: the import or follow that reads all of it now."""

    path: str
    there: bool
    live: Import | None
    last: Import | None  # the newest that has ended


@dataclass(frozen=True, slots=True)
class Job:
    """One import or follow. `share` (0…1) is None while its files are being listed."""

    job: Import
    by: str
    share: float | None
    quiet: bool  # it runs, but nobody has given a sign for long: a worker takes it up again
    problems: tuple[tuple[str, str], ...]
    with_sessions: int | None = None  # files that hold a session; None while it reads

    @property
    def live(self) -> bool:
        return self.job.status in OPEN

    @property
    def resumable(self) -> bool:
        return self.job.status in RESUMABLE

    @property
    def percent(self) -> int | None:
        """Whole percent; 100 only when all is read."""
        return None if self.share is None else int(self.share * 100)

    @property
    def width(self) -> str:
        return f"{100 * (self.share or 0):.1f}"


@dataclass(frozen=True, slots=True)
class ImportsPage:
    roots: tuple[Root, ...]
    live: tuple[Job, ...]
    ended: tuple[Job, ...]

    @property
    def topics(self) -> tuple[str, ...]:
        """What the page listens to; a page may listen to twenty topics in all, three are its own."""
        return tuple(f"import:{one.job.pk}" for one in self.live[:16])


def imports_page(now: datetime | None = None) -> ImportsPage:
    """Two queries."""
    now = now or timezone.now()
    jobs = Import.objects.select_related("asked_by")
    live = [_job(one, now) for one in jobs.filter(status__in=OPEN).order_by("-id")[:JOBS]]
    over = jobs.exclude(status__in=OPEN).annotate(with_sessions=Count("file_rows"))
    ended = [_job(one, now, one.with_sessions) for one in over.order_by("-id")[:JOBS]]
    return ImportsPage(roots=_roots(live, ended), live=tuple(live), ended=tuple(ended))


def _job(job: Import, now: datetime, with_sessions: int | None = None) -> Job:
    total, done = job.bytes_total, job.bytes_done
    share: float | None = None
    if total is not None:
        share = min(done / total, 1.0) if total else 1.0
    problems = [one for one in job.problems if isinstance(one, dict)] if isinstance(job.problems, list) else []
    return Job(
        job=job,
        by=job.asked_by.get_username(),
        share=share,
        quiet=bool(job.status == Import.Status.RUNNING and job.beat_at and job.beat_at < now - BEAT_STALE),
        problems=tuple((str(one.get("path", "")), str(one.get("why", ""))) for one in problems[:PROBLEMS]),
        with_sessions=with_sessions,
    )


def _roots(live: Sequence[Job], ended: Sequence[Job]) -> tuple[Root, ...]:
    def covering(jobs: Sequence[Job], path: str) -> Import | None:
        return next((one.job for one in jobs if path in one.job.paths), None)

    roots = []
    for root in map(Path, settings.SESSION_ROOTS):
        try:
            real = str(root.resolve())
        except (OSError, RuntimeError):
            real = str(root)
        roots.append(Root(str(root), exists(root), covering(live, real), covering(ended, real)))
    return tuple(roots)
