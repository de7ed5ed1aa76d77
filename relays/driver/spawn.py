"""Start a leg's supervisor as a process of its own, so that web and workers may come and go."""

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from relays.driver import claim, places
from relays.models import DriverClaim

#: a supervisor that has not taken its lock within this time is started again
START_GRACE = timedelta(seconds=8)


def supervisor(relay_id: str, leg_pk: int) -> bool:
    """Start a supervisor unless one lives or was just started; whether one was started.

    Twice is harmless: the second finds the lock taken and exits.
    """
    if claim.locked_here(relay_id):
        return False
    now = timezone.now()
    DriverClaim.objects.get_or_create(relay_id=relay_id)
    due = Q(spawned_at__isnull=True) | Q(spawned_at__lt=now - START_GRACE)
    if not DriverClaim.objects.filter(due, relay_id=relay_id).update(spawned_at=now):
        return False
    folder = places.relay_folder(relay_id)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "supervisor.log").open("ab") as output:
        subprocess.Popen(  # noqa: S603 - our own program, fixed arguments
            [sys.executable, str(Path(settings.BASE_DIR) / "manage.py"), "relay", "supervise", str(leg_pk)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=settings.BASE_DIR,
            env=os.environ.copy(),
            start_new_session=True,
        )
    return True


def forget_spawn(relay_id: str) -> None:
    """A supervisor that ends well lets the next one start at once."""
    DriverClaim.objects.filter(relay_id=relay_id).update(spawned_at=None)
