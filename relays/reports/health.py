"""What the page Health and `relay doctor` look at: each check says what it found, and what to do where it is not well.

Interface, Pages 10: "Health (workers, beat, queue, last tick, stale leases, unpriced models, unrecognised records,
disk)". One implementation for people and programs. No check scans calls or events: each reads what is rolled up.
"""

import os
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count, Q, Sum
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext
from kombu.exceptions import OperationalError as BrokerError

from relays.agents import process, readiness
from relays.checks import GIT_LEAST, git_version, network_file_system
from relays.core.meter import AnomalyKind
from relays.models import (
    FINAL_STATUSES,
    DayCost,
    Delivery,
    DriverClaim,
    Heartbeat,
    HookEvent,
    HookTally,
    Notice,
    Outbox,
    RegionLease,
    Relay,
    RelayStatus,
    SessionAnomaly,
)
from relays.reports import notifications
from relays.reports.figures import places
from relays.reports.sentences import told
from relaysite.celery import app

#: absent: it is not there, and only who wants it needs it
State = Literal["ok", "absent", "warning", "failed"]

PYTHON_LEAST = (3, 11)
HEARTBEAT_FRESH = timedelta(seconds=30)
CLOCK_APART = timedelta(seconds=5)
DISK_WARNING = 2 * 1024**3
DISK_FAILED = 256 * 1024**2
BROKER_SECONDS = 3
QUEUE_WARNING = 500  # bells that wait: a bell is heard within a second where a worker listens
NOTICE_LATE = timedelta(minutes=10)
TICK_LATE = timedelta(seconds=60)  # a relay that is due is looked at every two seconds
SUPERVISOR_SILENT = timedelta(seconds=60)
SUPERVISOR_HUNG = timedelta(minutes=10)  # the default of `host_patience`: from then on its host counts as lost
RECENT = timedelta(days=7)
SQLITE_WARNING = 20 * 1024**3
NAMED = 3  # of what a line names


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
    for _title, checks in GROUPS:
        findings += _made(checks)
    return tuple(findings)


def grouped() -> tuple[tuple[str, tuple[Finding, ...]], ...]:
    """The same, each group under its name."""
    return tuple((str(title), tuple(_made(checks))) for title, checks in GROUPS)


def _made(checks: Sequence[Callable[[], Iterator[Finding]]]) -> Iterator[Finding]:
    for check in checks:
        try:
            yield from list(check())
        except Exception as error:  # noqa: BLE001 - a doctor that dies of the illness tells nobody about it
            why = f"{type(error).__name__}: {error}"
            yield Finding(check.__name__, "failed", why, _("look at the message; it could not be checked"))


def as_mapping(findings: tuple[Finding, ...]) -> dict[str, object]:
    """`ok` is false when a check failed; a warning leaves it true."""
    return {"ok": all(one.state != "failed" for one in findings), "checks": [asdict(one) for one in findings]}


def python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < PYTHON_LEAST:
        yield Finding("python", "failed", version, _("install Python 3.11 or newer and run `make run` again"))
    else:
        yield Finding("python", "ok", version)


def git() -> Iterator[Finding]:
    version = git_version()
    fix = _("install git %(least)s or newer") % {"least": ".".join(map(str, GIT_LEAST))}
    if version is None:
        yield Finding("git", "failed", _("git was not found, or does not run"), fix)
    elif version < GIT_LEAST:
        yield Finding("git", "failed", ".".join(map(str, version)), fix)
    else:
        yield Finding("git", "ok", ".".join(map(str, version)))


def var() -> Iterator[Finding]:
    folder = Path(settings.RELAY_VAR)
    named = {"folder": folder}
    if not os.access(folder, os.W_OK | os.X_OK):
        yield Finding(
            "var", "failed", _("%(folder)s cannot be written") % named, _("make it writable, or set RELAY_VAR")
        )
    elif folder.stat().st_mode & 0o077:
        fix = _("chmod 700 %(folder)s: batons, streams of agents and the database are nobody else's") % named
        yield Finding("var", "warning", _("%(folder)s is open to other users of this machine") % named, fix)
    else:
        yield Finding("var", "ok", str(folder))


def database() -> Iterator[Finding]:
    try:
        executor = MigrationExecutor(connection)
        behind = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except DatabaseError as error:
        yield Finding("database", "failed", _first_line(error), _("start the database, or correct DATABASE_URL"))
        return
    if behind:
        detail = _("%(database)s: %(n)d migrations are not applied") % {"database": connection.vendor, "n": behind}
        yield Finding("database", "failed", detail, _("run `python manage.py migrate`"))
    else:
        yield Finding("database", "ok", connection.vendor)


def sqlite_wal() -> Iterator[Finding]:
    if connection.vendor != "sqlite":
        return
    path = Path(str(connection.settings_dict["NAME"]))
    if found := network_file_system(path):
        fix = _("set RELAY_VAR or DATABASE_URL to a local disk, or use PostgreSQL")
        detail = _("%(path)s lies on %(kind)s, where SQLite loses data") % {"path": path, "kind": found}
        yield Finding("sqlite", "failed", detail, fix)
        return
    with connection.cursor() as cursor:
        mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
    if mode == "wal":
        yield Finding("sqlite", "ok", "WAL")
    else:
        detail = _("journal mode %(mode)s, not WAL") % {"mode": mode}
        yield Finding("sqlite", "failed", detail, _("move the file to a local disk"))


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
            yield Finding("broker", "failed", f"{name}: {_first_line(error)}", _("start it, or correct BROKER_URL"))
        else:
            yield _queue(name, _waiting(link))


def _embedded_broker(path: Path) -> Finding:
    if not path.exists():
        return Finding("broker", "ok", _("embedded, not used yet"))
    try:
        link = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=BROKER_SECONDS)
        try:
            if not link.execute("SELECT 1 FROM sqlite_master WHERE name = 'kombu_message'").fetchall():
                # the first bell makes the tables: an empty file is one that nobody has rung through
                return Finding("broker", "ok", _("embedded, not used yet"))
            waiting = link.execute("SELECT count(*) FROM kombu_message WHERE visible = 1").fetchone()[0]
        finally:
            link.close()
    except sqlite3.Error as error:
        return Finding("broker", "failed", f"{path}: {error}", _("stop everything, delete the file, start again"))
    return _queue(_("embedded"), waiting)


def _queue(name: str, waiting: int | None) -> Finding:
    """None: nobody knows whether the workers keep up, and what is unknown is not well."""
    if waiting is None:
        detail = _("%(name)s answers; how many messages wait is unknown") % {"name": name}
        return Finding("broker", "warning", detail, _("look at the broker's own queue; lost messages do no harm"))
    detail = ngettext("%(name)s, %(n)d message waits", "%(name)s, %(n)d messages wait", waiting) % {
        "name": name,
        "n": waiting,
    }
    if waiting > QUEUE_WARNING:
        return Finding("broker", "warning", detail, _("start a worker, or more of them; lost messages do no harm"))
    return Finding("broker", "ok", detail)


def _waiting(link: Any) -> int | None:
    """How many messages a server holds for the workers, 0 where it has no such queue; None where it does not say."""
    try:
        with link.channel() as channel:
            return int(channel.queue_declare(queue=settings.CELERY_TASK_DEFAULT_QUEUE, passive=True).message_count)
    except link.channel_errors as error:  # a queue without a message is none to Redis, one that nobody made to others
        return 0 if str(getattr(error, "reply_code", "")) == "404" else None
    except Exception:  # noqa: BLE001 - what a transport cannot tell is unknown, whatever it raises
        return None


def background() -> Iterator[Finding]:
    """Worker and beat by their heartbeats; the worker's is written when beat's `reconcile` reaches it."""
    now = timezone.now()
    fix = _("start it with `make run` (or `celery -A relaysite worker -Q drive`, `celery -A relaysite beat`)")
    for kind in ("worker", "beat"):
        newest = Heartbeat.objects.filter(name__startswith=f"{kind}:").order_by("-at").first()
        if newest is None:
            yield Finding(kind, "warning", _("never heard of"), fix)
        elif now - newest.at > HEARTBEAT_FRESH:
            seconds = int((now - newest.at).total_seconds())
            detail = _("%(name)s: silent for %(n)d s") % {"name": newest.name.partition(":")[2], "n": seconds}
            yield Finding(kind, "warning", detail, fix)
        else:
            yield Finding(kind, "ok", newest.name.partition(":")[2])


def tick() -> Iterator[Finding]:
    """Whether relays that are due get their look: the database's answer to whether anything is driven at all."""
    late = timezone.now() - TICK_LATE
    due = Relay.objects.filter(
        Q(status=RelayStatus.READY, status_at__lt=late) | Q(status=RelayStatus.WAITING, next_at__lt=late)
    ).exclude(claim__heartbeat__gte=late)
    waiting = list(due.order_by("status_at").values_list("pk", flat=True)[: NAMED + 1])
    newest = Heartbeat.objects.filter(name__startswith="worker:").order_by("-at").first()
    last = _("last look at all relays %(ago)s ago") % {"ago": _span(timezone.now() - newest.at)} if newest else ""
    if waiting:
        many = due.count()
        detail = ngettext(
            "%(n)d relay is due for more than a minute: %(names)s",
            "%(n)d relays are due for more than a minute: %(names)s",
            many,
        ) % {"n": many, "names": _names(waiting, many)}
        yield Finding(
            "tick", "warning", detail, _("see that a worker and beat run; then look at the log of the worker")
        )
    else:
        yield Finding("tick", "ok", last or _("nothing is due"))


def supervisors() -> Iterator[Finding]:
    """The driver of each leg that runs, by its claim's heartbeat; one that is silent for long is hung or lost."""
    now = timezone.now()
    held = DriverClaim.objects.exclude(holder="")
    silent = held.filter(Q(heartbeat__lt=now - SUPERVISOR_SILENT) | Q(heartbeat__isnull=True)).order_by("heartbeat")
    rows = list(silent.values_list("relay_id", "holder", "heartbeat")[: NAMED + 1])
    if not rows:
        yield Finding("supervisors", "ok", _("%(n)d at work, none is silent") % {"n": held.count()})
        return
    hung = any(beat is None or beat < now - SUPERVISOR_HUNG for _relay, _holder, beat in rows)
    names = [f"{relay} ({holder}, {_span(now - beat) if beat else '—'})" for relay, holder, beat in rows]
    many = silent.count()
    detail = ngettext("%(n)d is silent: %(names)s", "%(n)d are silent: %(names)s", many) % {
        "n": many,
        "names": _names(names, many),
    }
    fix = _(
        "a worker ends one that hangs and judges its leg after `host_patience`; where none does, look at "
        "legs/<relay>/supervisor.log, and whether its host is up"
    )
    yield Finding("supervisors", "failed" if hung else "warning", detail, fix)


def regions() -> Iterator[Finding]:
    """Regions that are held: one of a relay that has ended keeps others waiting for nothing."""
    held = RegionLease.objects.filter(held=True)
    stale = held.filter(relay__status__in=FINAL_STATUSES)
    names = list(stale.order_by("since").values_list("relay_id", flat=True)[: NAMED + 1])
    if names:
        many = stale.count()
        detail = ngettext(
            "%(n)d is held by a relay that has ended: %(names)s",
            "%(n)d are held by relays that have ended: %(names)s",
            many,
        ) % {"n": many, "names": _names(names, many)}
        yield Finding("regions", "warning", detail, _("`relay release ID` lets go of it"))
    else:
        yield Finding("regions", "ok", _("%(n)d held, each by a relay that has not ended") % {"n": held.count()})


def outbox() -> Iterator[Finding]:
    """What committed transactions still owe to repositories: notes and refs that could not be written."""
    waits = Outbox.objects.filter(done_at__isnull=True)
    failing = waits.filter(attempts__gte=3).exclude(error="")
    first = failing.order_by("pk").values_list("relay_id", "error").first()
    if first is not None:
        detail = _("%(n)d could not be written, of %(relay)s: %(error)s") % {
            "n": failing.count(),
            "relay": first[0],
            "error": _first(first[1]),
        }
        fix = _("make its repository writable for the user of the worker; it is tried again by itself")
        yield Finding("outbox", "warning", detail, fix)
    else:
        yield Finding("outbox", "ok", _("%(n)d on their way") % {"n": waits.count()})


def notices() -> Iterator[Finding]:
    """Whether what people asked to hear reaches them."""
    if dead := notifications.dead_recently():
        detail = ngettext(
            "%(n)d notice of the last week did not arrive", "%(n)d notices of the last week did not arrive", dead
        ) % {"n": dead}
        fix = _("the page Notifications says what each receiver answered; send a test, then try again")
        yield Finding("notices", "warning", detail, fix)
        return
    late = Delivery.objects.filter(state=Delivery.State.WAITING, not_before__lt=timezone.now() - NOTICE_LATE).count()
    unspread = Notice.objects.filter(spread_at__isnull=True, at__lt=timezone.now() - NOTICE_LATE).count()
    if late or unspread:
        detail = _("%(n)d wait for more than 10 minutes") % {"n": late + unspread}
        yield Finding("notices", "warning", detail, _("see that a worker and beat run"))
    elif notifications.links_lead_nowhere():
        detail = _("links in notices lead to %(address)s, which is another machine for whoever reads them elsewhere")
        fix = _("set PUBLIC_URL to the address that people use")
        yield Finding("notices", "warning", detail % {"address": settings.PUBLIC_URL}, fix)
    else:
        yield Finding("notices", "ok", _("none is late, none was lost in the last week"))


def prices() -> Iterator[Finding]:
    """Models whose calls have no price, from the days of the last week."""
    since = (timezone.now() - RECENT).date()
    rows = DayCost.objects.filter(day__gte=since, unpriced__gt=0, scripted=False).order_by().values("model")
    found = [(row["model"] or "—", row["n"]) for row in rows.annotate(n=Sum("unpriced")).order_by("-n", "model")]
    if found:
        names = _names([f"{model} ({calls:,})" for model, calls in found], len(found))
        detail = _("calls of the last 7 days without a price: %(names)s") % {"names": names}
        fix = _("give the model a price in the table that SITE_PRICES names; `relay prices` lists the models")
        yield Finding("prices", "warning", detail, fix)
    else:
        yield Finding("prices", "ok", _("every call of a model in the last 7 days has one"))


def records() -> Iterator[Finding]:
    """Records of session files that no reader knows, in files that were read in the last week."""
    since = timezone.now() - RECENT
    rows = SessionAnomaly.objects.filter(source__read_at__gte=since)
    kinds = {row["kind"]: row["n"] for row in rows.order_by().values("kind").annotate(n=Sum("count"))}
    types, keys = kinds.get(AnomalyKind.UNKNOWN_TYPE, 0), kinds.get(AnomalyKind.UNKNOWN_KEY, 0)
    if types:
        named = rows.filter(kind=AnomalyKind.UNKNOWN_TYPE).order_by().values("detail").annotate(n=Sum("count"))
        names = _names(
            [str(row["detail"] or "—") for row in named.order_by("-n", "detail")[: NAMED + 1]], named.count()
        )
        detail = ngettext(
            "%(n)d record of a type that no reader knows: %(names)s",
            "%(n)d records of a type that no reader knows: %(names)s",
            types,
        ) % {"n": types, "names": names}
        fix = _("figures are right while they hold no usage; a newer version of this site may know them")
        yield Finding("records", "warning", detail, fix)
    else:
        yield Finding(
            "records", "ok", _("all types known; %(n)d unknown keys, on which no figure depends") % {"n": keys}
        )


def hooks() -> Iterator[Finding]:
    """Hook calls of the last day: events that no shape is known of, and calls that were not kept."""
    day = timezone.now() - timedelta(days=1)
    unknown = HookEvent.objects.filter(at__gte=day, known=False).order_by().values("event").annotate(n=Count("pk"))
    names = [str(row["event"]) for row in unknown.order_by("-n", "event")]
    sums = HookTally.objects.filter(minute__gte=day).aggregate(
        kept=Sum("kept"), dropped=Sum("dropped"), torn=Sum("torn"), refused=Sum("refused")
    )
    count = {name: value or 0 for name, value in sums.items()}
    if names:
        detail = _("events of the last day that are not known: %(names)s") % {"names": _names(names, len(names))}
        fix = _("they are kept and change nothing; a newer version of this site may know them")
        yield Finding("hooks", "warning", detail, fix)
    elif count["dropped"] or count["torn"] or count["refused"]:
        detail = _("last day: %(kept)d kept, %(dropped)d over the bound, %(torn)d torn, %(refused)d refused") % count
        yield Finding("hooks", "warning", detail, _("look at the page API tokens: a sender's token, or its program"))
    else:
        yield Finding("hooks", "ok", _("%(n)d calls in the last day, all kept") % {"n": count["kept"]})


def size() -> Iterator[Finding]:
    """How large the database is."""
    if connection.vendor == "sqlite":
        path = Path(str(connection.settings_dict["NAME"]))
        taken = sum(one.stat().st_size for one in (path, path.with_name(f"{path.name}-wal")) if one.exists())
    else:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_database_size(current_database())")
            taken = int(cursor.fetchone()[0])
    detail = f"{places(taken / 1024**2, 1)} MiB"
    if connection.vendor == "sqlite" and taken > SQLITE_WARNING:
        yield Finding("size", "warning", detail, _("move to PostgreSQL (DATABASE_URL), or keep records for less long"))
    else:
        yield Finding("size", "ok", detail)


def disk() -> Iterator[Finding]:
    free = shutil.disk_usage(settings.RELAY_VAR).free
    detail = _("%(n)s GiB free") % {"n": places(free / 1024**3, 1)}
    fix = _("free space on the disk of %(folder)s") % {"folder": settings.RELAY_VAR}
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
    detail = _("%(n)s s apart from the database's") % {"n": places(apart.total_seconds(), 1)}
    if apart > CLOCK_APART:
        yield Finding("clock", "failed", detail, _("set both clocks by NTP: leases and caps compare their times"))
    else:
        yield Finding("clock", "ok", detail)


def containment() -> Iterator[Finding]:
    kind = process.containment()
    if kind in (process.Containment.NAMESPACE, process.Containment.USER_NAMESPACE):
        yield Finding("containment", "ok", str(kind))
    else:
        fix = _(
            "allow unprivileged user namespaces, or run as root; until then a process that hides may be left behind"
        )
        yield Finding("containment", "warning", str(kind), fix)


def agents() -> Iterator[Finding]:
    """The agent programs: whether they are there, their versions, and whether a sign-in is in sight; never read."""
    for one in readiness.everyone():
        name = f"agent {one.name}"
        if not one.program:
            yield Finding(name, "absent", told(one.needs), told(one.fix))
            continue
        version = one.version or _("version unknown")
        if version != one.measured:
            version = _("%(version)s (measured with %(measured)s)") % {"version": version, "measured": one.measured}
        where, fix = f"{version}, {one.program}", told(one.fix)
        if one.needs:
            yield Finding(name, "warning", f"{where}: {told(one.needs)}", fix)
        elif one.sign_in == "not seen":
            nothing = _("no sign-in is in sight")
            yield Finding(name, "warning", f"{where}: {nothing}", fix)
        else:
            yield Finding(name, "ok", "; ".join(filter(None, (f"{where}: {told(one.seen)}", fix))))


def worktrees() -> Iterator[Finding]:
    """Worktrees under RELAY_VAR that no living relay uses."""
    folder = Path(settings.RELAY_VAR) / "worktrees"
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    living = set(Relay.objects.exclude(status__in=FINAL_STATUSES).values_list("pk", flat=True))
    orphans = [name for name in there if name not in living]
    if orphans:
        fix = _(
            "Maintenance → Clean up, or `relay clean`, removes each whose work lies on a branch; its list, or "
            "`relay clean --dry-run`, says which"
        )
        left = ngettext(
            "%(n)d worktree of a relay that has ended", "%(n)d worktrees of relays that have ended", len(orphans)
        )
        yield Finding("worktrees", "warning", left % {"n": len(orphans)}, fix)
    else:
        yield Finding("worktrees", "ok", _("%(n)d in use") % {"n": len(there)})


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _first(text: str) -> str:
    return (text.strip().splitlines() or [""])[0][:200]


def _names(names: Sequence[str], many: int) -> str:
    shown = ", ".join(names[:NAMED])
    return _("%(names)s and %(n)d more") % {"names": shown, "n": many - NAMED} if many > NAMED else shown


def _span(length: timedelta) -> str:
    """`48 s`, `12 min`, `3.4 h`."""
    seconds = max(0.0, length.total_seconds())
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


#: every check, in the order in which they are told
GROUPS: tuple[tuple[Any, tuple[Callable[[], Iterator[Finding]], ...]], ...] = (
    (gettext_lazy("This machine"), (python, git, var, disk, clock, containment)),
    (gettext_lazy("Database"), (database, sqlite_wal, size)),
    (gettext_lazy("What runs in the background"), (broker, background, tick, supervisors, outbox, notices)),
    (gettext_lazy("Relays"), (regions, worktrees)),
    (gettext_lazy("Programs of agents"), (agents,)),
    (gettext_lazy("What comes in"), (prices, records, hooks)),
)


@dataclass(frozen=True, slots=True)
class Page:
    """`failed` and `warnings`: how many checks; `worst` names what the head of the page says."""

    groups: tuple[tuple[str, tuple[Finding, ...]], ...]
    failed: int
    warnings: int
    at: datetime

    @property
    def worst(self) -> State:
        return "failed" if self.failed else "warning" if self.warnings else "ok"


def page() -> Page:
    """Every check, made now: what is not well first, whatever group it is of."""
    groups = grouped()
    bad = [one for state in ("failed", "warning") for _title, found in groups for one in found if one.state == state]
    well = [(title, tuple(one for one in found if one not in bad)) for title, found in groups]
    shown = [(_("What needs somebody"), tuple(bad)), *well]
    return Page(
        groups=tuple((title, found) for title, found in shown if found),
        failed=sum(one.state == "failed" for one in bad),
        warnings=sum(one.state == "warning" for one in bad),
        at=timezone.now(),
    )
