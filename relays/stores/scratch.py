"""Temporary folders of ours that end with whoever made them, also when it was killed.

A supervisor may be killed at any moment. Its folders are locked while it lives; the kernel frees the lock, and the next
process that makes such a folder takes those away that nobody holds.
"""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Final

PREFIX: Final = "relay-config-"
MADE_BEFORE: Final = 60.0  # seconds: a younger one may be made at this moment, and not be locked yet
SWEEP_EVERY: Final = 600.0  # seconds between two looks for those that were left

_swept = -SWEEP_EVERY


def make(holder: object) -> tuple[str, Callable[[], object]]:
    """A new folder, and what takes it away: called, or when `holder` is gone. Raises OSError."""
    global _swept
    if time.monotonic() - _swept >= SWEEP_EVERY:
        _swept = time.monotonic()
        sweep()
    place = tempfile.mkdtemp(prefix=PREFIX)
    lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return place, weakref.finalize(holder, _remove, place, lock)


def _remove(place: str, lock: int) -> None:
    shutil.rmtree(place, ignore_errors=True)
    os.close(lock)


def sweep() -> list[str]:
    """Take away the folders of ours whose maker is dead; their paths. Never raises."""
    gone: list[str] = []
    with contextlib.suppress(OSError):
        base = tempfile.gettempdir()
        for entry in os.scandir(base):
            if entry.name.startswith(PREFIX) and _left(entry.path):
                gone.append(entry.path)
    return gone


def _left(place: str) -> bool:
    """Whether it was nobody's any more, and is gone now; links in it are taken away, never followed."""
    try:
        lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False  # no folder, or another user's
    try:
        found = os.fstat(lock)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            return False
        if time.time() - found.st_ctime < MADE_BEFORE:
            return False
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place)
    except OSError:
        return False
    finally:
        os.close(lock)
    return not Path(place).exists()
