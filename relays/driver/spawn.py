"""Start a leg's supervisor as a process of its own, so that web and workers may come and go."""

import contextlib
import logging
import os
import signal
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from relays.agents import process
from relays.driver import budgets, claim, places
from relays.models import DriverClaim

log = logging.getLogger(__name__)

#: a supervisor that has not taken its lock within this time is started again
START_GRACE = timedelta(seconds=8)


def supervisor(relay_id: str, leg_pk: int) -> bool:
    """Start a supervisor unless one lives or was just started; whether one was started.

    Twice is harmless: the second finds the lock taken and exits.
    """
    return _start(relay_id, "supervise", str(leg_pk))


def looker(relay_id: str) -> bool:
    """Start a look at an idle watch whose done_when runs commands, unless its driver lives or was just started."""
    return _start(relay_id, "look", relay_id)


def reserve(relay_id: str) -> bool:
    """Whether a supervisor may be started now: none lives, and none was just started. Nobody else starts one then."""
    now = timezone.now()
    if claim.locked_here(relay_id):
        _end_hung(relay_id, now)
        return False
    DriverClaim.objects.get_or_create(relay_id=relay_id)
    due = Q(spawned_at__isnull=True) | Q(spawned_at__lt=now - START_GRACE)
    return bool(DriverClaim.objects.filter(due, relay_id=relay_id).update(spawned_at=now))


def _start(relay_id: str, *verb: str) -> bool:
    if not reserve(relay_id):
        return False
    folder = places.relay_folder(relay_id)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "supervisor.log").open("ab") as output:
        subprocess.Popen(  # noqa: S603 - our own program, fixed arguments
            [sys.executable, str(Path(settings.BASE_DIR) / "manage.py"), "relay", *verb],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=settings.BASE_DIR,
            env=os.environ.copy(),
            start_new_session=True,
        )
    return True


def _end_hung(relay_id: str, now: datetime) -> None:
    """Kill a supervisor of this host that lives and has not beaten for `host_patience`: stopped, or stuck for good.

    rules.md, The driver: "a host whose heartbeat is older than `host_patience` is lost"; of our own host we can make
    sure. Seen so at two looks, START_GRACE apart: a machine that was asleep wakes with old heartbeats everywhere.
    """
    row = DriverClaim.objects.select_related("relay").filter(relay_id=relay_id).exclude(holder="").first()
    if row is None or row.heartbeat is None or now - row.heartbeat < budgets.policy_of(row.relay).host_patience:
        return
    if row.host != process.this_process()[3] or not process.alive(row.pid, row.pid_started, row.boot_id):
        return
    if row.spawned_at is None or row.spawned_at <= row.heartbeat:
        DriverClaim.objects.filter(pk=row.pk, heartbeat=row.heartbeat).update(spawned_at=now)
    elif now - row.spawned_at >= START_GRACE:
        log.error("%s: its supervisor %s has not beaten since %s and is ended", relay_id, row.holder, row.heartbeat)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(row.pid, signal.SIGKILL)


def forget_spawn(relay_id: str) -> None:
    """A supervisor that ends well lets the next one start at once."""
    DriverClaim.objects.filter(relay_id=relay_id).update(spawned_at=None)
