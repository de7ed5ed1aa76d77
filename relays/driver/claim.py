"""One driver per relay: a lock that the kernel frees, and a fencing number that every write carries."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection, transaction
from django.utils import timezone

from relays.agents import process
from relays.driver import places
from relays.models import DriverClaim

#: in SQL of our own: it is said some seventy times a leg, and to compose it costs six times as much as to carry it out
_HOLD = "UPDATE relays_driverclaim SET heartbeat = %s WHERE relay_id = %s AND fence = %s"


class LostClaim(Exception):
    """Another driver has a newer fence: whoever gets this ends its agent and writes nothing more."""


class AlreadyDriven(Exception):
    """Somebody else drives this relay now."""


@dataclass(frozen=True, slots=True)
class Claim:
    relay_id: str
    fence: int
    lost_host: str = ""  # set when the claim was taken over from a host that fell silent

    def hold(self, now: datetime | None = None) -> None:
        """First statement of every write transaction of a driver; also its heartbeat. Raises LostClaim."""
        beat = connection.ops.adapt_datetimefield_value(now or timezone.now())
        with connection.cursor() as cursor:
            cursor.execute(_HOLD, [beat, self.relay_id, self.fence])
            held = cursor.rowcount
        if not held:
            raise LostClaim(f"{self.relay_id}: fence {self.fence} is old")

    def release(self, *, next_at_once: bool = False) -> None:
        """Give it back; `next_at_once`: the next supervisor may be started without the grace of the last start."""
        now_free: dict[str, None] = {"spawned_at": None} if next_at_once else {}
        DriverClaim.objects.filter(relay_id=self.relay_id, fence=self.fence).update(
            holder="", pid=0, pid_started=0, **now_free
        )


@contextmanager
def kernel_lock(relay_id: str) -> Iterator[None]:
    """The lock of this host: freed by the kernel when its holder dies. Raises AlreadyDriven when it is taken."""
    path = places.lock_file(relay_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyDriven(relay_id) from None
        yield
    finally:
        os.close(handle)


def locked_here(relay_id: str) -> bool:
    """Whether a driver of this host lives now."""
    try:
        with kernel_lock(relay_id):
            return False
    except AlreadyDriven:
        return True


def take(relay_id: str, patience: timedelta) -> Claim:
    """Claim a relay under the kernel lock: a new fence. A holder on another host is waited for as long as it beats.

    Raises AlreadyDriven. rules.md: "a host whose heartbeat is older than `host_patience` is lost".
    """
    pid, started, boot, host = process.this_process()
    now = timezone.now()
    with transaction.atomic():
        row, _ = DriverClaim.objects.get_or_create(relay_id=relay_id)
        lost_host = ""
        if row.holder and row.host == host:
            if row.pid != pid and process.alive(row.pid, row.pid_started, row.boot_id):
                raise AlreadyDriven(f"{relay_id} is driven by {row.holder}")
        elif row.holder:
            if row.heartbeat and now - row.heartbeat < patience:
                raise AlreadyDriven(f"{relay_id} is driven by {row.holder}")
            lost_host = row.host
        taken = DriverClaim.objects.filter(relay_id=relay_id, fence=row.fence).update(
            fence=row.fence + 1,
            holder=f"{host}:{pid}",
            host=host,
            boot_id=boot,
            pid=pid,
            pid_started=started,
            heartbeat=now,
        )
        if not taken:
            raise AlreadyDriven(relay_id)
    return Claim(relay_id, row.fence + 1, lost_host)
