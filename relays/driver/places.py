"""Where a relay's files live under RELAY_VAR, and nowhere else."""

import re
from pathlib import Path

from django.conf import settings

#: what may be the id of a relay: it names folders, branches and refs
RELAY_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")


def shield() -> Path:
    """Our own empty repositories through which foreign objects are read."""
    return Path(settings.RELAY_VAR) / "shield"


def relay_folder(relay_id: str) -> Path:
    return Path(settings.RELAY_VAR) / "legs" / relay_id


def leg_folder(relay_id: str, number: int) -> Path:
    return relay_folder(relay_id) / str(number)


def worktree(relay_id: str) -> Path:
    return Path(settings.RELAY_VAR) / "worktrees" / relay_id


def lock_file(relay_id: str) -> Path:
    return relay_folder(relay_id) / "driver.lock"


def checkouts(relay_id: str) -> Path:
    return relay_folder(relay_id) / "checkouts"
