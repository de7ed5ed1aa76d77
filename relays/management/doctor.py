"""What the doctor looks at: each check says what it found, and what to do where that is not well."""

import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.utils import timezone
from kombu.exceptions import OperationalError as BrokerError

from relays.agents import process, readiness
from relays.checks import GIT_LEAST, git_version, network_file_system
from relays.models import FINAL_STATUSES, Heartbeat, Relay
from relaysite.celery import app

#: absent: it is not there, and only who wants it needs it
State = Literal["ok", "absent", "warning", "failed"]

PYTHON_LEAST = (3, 11)
HEARTBEAT_FRESH = timedelta(seconds=30)
CLOCK_APART = timedelta(seconds=5)
DISK_WARNING = 2 * 1024**3
DISK_FAILED = 256 * 1024**2
BROKER_SECONDS = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One check; `fix` is "" where nothing is to be done."""

    name: str
    state: State
    detail: str
    fix: str = ""


def examine() -> tuple[Finding, ...]:
    """All checks in a fixed order; none of them raises, one that could not be made has failed with its error."""
    findings: list[Finding] = []
    looks = (python, git, var, database, sqlite_wal, broker, background, disk, clock, containment, worktrees, agents)
    for check in looks:
        try:
            findings += check()
        except Exception as error:  # noqa: BLE001 - a doctor that dies of the illness tells nobody about it
            why = f"{type(error).__name__}: {error}"
            findings.append(Finding(check.__name__, "failed", why, "look at the message; it could not be checked"))
    return tuple(findings)


def as_mapping(findings: tuple[Finding, ...]) -> dict[str, object]:
    """`ok` is false when a check failed; a warning leaves it true."""
    return {"ok": all(one.state != "failed" for one in findings), "checks": [asdict(one) for one in findings]}


def python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < PYTHON_LEAST:
        yield Finding("python", "failed", version, "install Python 3.11 or newer and run `make run` again")
    else:
        yield Finding("python", "ok", version)


def git() -> Iterator[Finding]:
    version = git_version()
    least = ".".join(map(str, GIT_LEAST))
    if version is None:
        yield Finding("git", "failed", "git was not found, or does not run", f"install git {least} or newer")
    elif version < GIT_LEAST:
        yield Finding("git", "failed", ".".join(map(str, version)), f"install git {least} or newer")
    else:
        yield Finding("git", "ok", ".".join(map(str, version)))


def var() -> Iterator[Finding]:
    folder = Path(settings.RELAY_VAR)
    if os.access(folder, os.W_OK | os.X_OK):
        yield Finding("var", "ok", str(folder))
    else:
        yield Finding("var", "failed", f"{folder} cannot be written", "make it writable, or set RELAY_VAR")


def database() -> Iterator[Finding]:
    try:
        executor = MigrationExecutor(connection)
        behind = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except DatabaseError as error:
        yield Finding("database", "failed", _first_line(error), "start the database, or correct DATABASE_URL")
        return
    if behind:
        detail = f"{connection.vendor}: {behind} migrations are not applied"
        yield Finding("database", "failed", detail, "run `python manage.py migrate`")
    else:
        yield Finding("database", "ok", connection.vendor)


def sqlite_wal() -> Iterator[Finding]:
    if connection.vendor != "sqlite":
        return
    path = Path(str(connection.settings_dict["NAME"]))
    if found := network_file_system(path):
        fix = "set RELAY_VAR or DATABASE_URL to a local disk, or use PostgreSQL"
        yield Finding("sqlite", "failed", f"{path} lies on {found}, where SQLite loses data", fix)
        return
    with connection.cursor() as cursor:
        mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
    if mode == "wal":
        yield Finding("sqlite", "ok", "WAL")
    else:
        yield Finding("sqlite", "failed", f"journal mode {mode}, not WAL", "move the file to a local disk")


def broker() -> Iterator[Finding]:
    url = str(settings.CELERY_BROKER_URL)
    if url.startswith("sqla+sqlite:///"):
        yield _embedded_broker(Path(url.removeprefix("sqla+sqlite:///")))
        return
    with app.connection_for_write() as link:
        name = link.as_uri()  # without the password
        try:
            link.ensure_connection(
                max_retries=1, timeout=BROKER_SECONDS, interval_start=0.1, reraise_as_library_errors=True
            )
        except (BrokerError, OSError) as error:
            yield Finding("broker", "failed", f"{name}: {_first_line(error)}", "start it, or correct BROKER_URL")
        else:
            yield Finding("broker", "ok", name)


def _embedded_broker(path: Path) -> Finding:
    if not path.exists():
        return Finding("broker", "ok", "embedded, not used yet")
    try:
        link = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=BROKER_SECONDS)
        try:
            waiting = link.execute("SELECT count(*) FROM kombu_message WHERE visible = 1").fetchone()[0]
        finally:
            link.close()
    except sqlite3.Error as error:
        return Finding("broker", "failed", f"{path}: {error}", "stop everything, delete the file, start again")
    return Finding("broker", "ok", f"embedded, {waiting} messages wait")


def background() -> Iterator[Finding]:
    """Worker and beat by their heartbeats; the worker's is written when beat's `reconcile` reaches it."""
    now = timezone.now()
    fix = "start it with `make run` (or `celery -A relaysite worker -Q drive`, `celery -A relaysite beat`)"
    for kind in ("worker", "beat"):
        newest = Heartbeat.objects.filter(name__startswith=f"{kind}:").order_by("-at").first()
        if newest is None:
            yield Finding(kind, "warning", "never heard of", fix)
        elif now - newest.at > HEARTBEAT_FRESH:
            seconds = int((now - newest.at).total_seconds())
            yield Finding(kind, "warning", f"{newest.name.partition(':')[2]}: silent for {seconds} s", fix)
        else:
            yield Finding(kind, "ok", newest.name.partition(":")[2])


def disk() -> Iterator[Finding]:
    free = shutil.disk_usage(settings.RELAY_VAR).free
    detail = f"{free / 1024**3:.1f} GiB free"
    fix = f"free space on the disk of {settings.RELAY_VAR}"
    state: State = "failed" if free < DISK_FAILED else "warning" if free < DISK_WARNING else "ok"
    yield Finding("disk", state, detail, "" if state == "ok" else fix)


def clock() -> Iterator[Finding]:
    before = datetime.now(UTC)
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)")
            there = datetime.fromtimestamp(cursor.fetchone()[0] / 1000, UTC)
        else:
            cursor.execute("SELECT clock_timestamp()")
            there = cursor.fetchone()[0]
    apart = abs(there - before)
    detail = f"{apart.total_seconds():.1f} s apart from the database's"
    if apart > CLOCK_APART:
        yield Finding("clock", "failed", detail, "set both clocks by NTP: leases and caps compare their times")
    else:
        yield Finding("clock", "ok", detail)


def containment() -> Iterator[Finding]:
    kind = process.containment()
    if kind in (process.Containment.NAMESPACE, process.Containment.USER_NAMESPACE):
        yield Finding("containment", "ok", str(kind))
    else:
        fix = "allow unprivileged user namespaces, or run as root; until then a process that hides may be left behind"
        yield Finding("containment", "warning", str(kind), fix)


def agents() -> Iterator[Finding]:
    """The agent programs: whether they are there, their versions, and whether a sign-in is in sight; never read."""
    for one in readiness.everyone():
        name = f"agent {one.name}"
        if not one.program:
            yield Finding(name, "absent", one.needs, one.fix)
            continue
        version = one.version or "version unknown"
        told = version if version == one.measured else f"{version} (measured with {one.measured})"
        where = f"{told}, {one.program}"
        if one.needs:
            yield Finding(name, "warning", f"{where}: {one.needs}", one.fix)
        elif one.sign_in == "not seen":
            yield Finding(name, "warning", f"{where}: no sign-in is in sight", one.fix)
        else:
            yield Finding(name, "ok", "; ".join(filter(None, (f"{where}: {one.seen}", one.fix))))


def worktrees() -> Iterator[Finding]:
    """Worktrees under RELAY_VAR that no living relay uses."""
    folder = Path(settings.RELAY_VAR) / "worktrees"
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    living = set(Relay.objects.exclude(status__in=FINAL_STATUSES).values_list("pk", flat=True))
    orphans = [name for name in there if name not in living]
    if orphans:
        fix = "`relay clean` removes each whose work lies on a branch; `relay clean --dry-run` says which"
        yield Finding("worktrees", "warning", f"{len(orphans)} of relays that have ended", fix)
    else:
        yield Finding("worktrees", "ok", f"{len(there)} in use")


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
