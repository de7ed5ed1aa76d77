"""Which process is which, and finding and ending every process of one tree (Linux; little of it elsewhere).

Identity is pid, start time and boot id together, never the pid alone. A tree is found again by its marker: one
variable that every process started by an agent inherits in its environment.
"""

import contextlib
import functools
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

MARKER = "RELAY_MARKER"
PAUSE = 0.02  # seconds between two looks at the process table

_PROC = Path("/proc")
LINUX = sys.platform.startswith("linux") and (_PROC / "self" / "stat").exists()


class StillAlive(Exception):
    """Processes of a tree outlived SIGKILL for longer than the bounded wait; `pids` names them."""

    def __init__(self, marker: str, pids: Sequence[int]) -> None:
        self.pids = tuple(pids)
        super().__init__(f"processes {', '.join(map(str, pids))} of {marker} are still alive after SIGKILL")


@functools.cache
def boot_id() -> str:
    """This boot of this machine; "" where the system does not say."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def stat(pid: int) -> tuple[str, int, int] | None:
    """(state letter, parent pid, start time in clock ticks since boot), or None when there is no such process."""
    try:
        raw = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = raw.rpartition(b")")[2].split()  # the name before it may hold blanks and parentheses
    try:
        return fields[0].decode(), int(fields[1]), int(fields[19])
    except (IndexError, ValueError):
        return None


def identity(pid: int) -> tuple[int, str] | None:
    """(start time in ticks, boot id) of a process that runs; None when it is gone or only waits to be reaped.

    Without `/proc` the start time is 0: there a pid is all that is known.
    """
    if pid <= 0:
        return None
    if not LINUX:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            pass  # it runs, as somebody else
        return 0, boot_id()
    seen = stat(pid)
    return None if seen is None or seen[0] in "ZX" else (seen[2], boot_id())


def alive(pid: int, started: int, boot: str) -> bool:
    """Is it still that very process? A pid alone is no identity: pids are used again."""
    return identity(pid) == (started, boot)


def this_process() -> tuple[int, int, str, str]:
    """(pid, start time in ticks, boot id, host name) of the caller."""
    pid = os.getpid()
    started, boot = identity(pid) or (0, boot_id())
    return pid, started, boot, socket.gethostname()


def pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return []


def carries(pid: int, entry: bytes) -> bool:
    try:
        environ = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return False  # gone meanwhile, or somebody else's: not ours to end
    return entry in environ.split(b"\0")


def living(marker: str) -> list[int]:
    """Pids of all living processes, ourselves excepted, whose environment carries this marker."""
    if not marker or not LINUX:
        return []
    entry = f"{MARKER}={marker}".encode()
    return [pid for pid in pids() if pid != os.getpid() and carries(pid, entry)]


def descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid in pids():
        seen = stat(pid)
        if seen is not None and seen[0] not in "ZX":
            children.setdefault(seen[1], []).append(pid)
    found: list[int] = []
    queue = [root]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def strike(pid: int, still: Callable[[], bool]) -> bool:
    """SIGKILL to exactly the process that `still` is true of: the descriptor pins it, a pid used again is not hit."""
    try:
        pin = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not still():
            return False
        signal.pidfd_send_signal(pin, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(pin)
    return True


def strike_marked(marker: str) -> set[int]:
    entry = f"{MARKER}={marker}".encode()
    return {pid for pid in living(marker) if strike(pid, functools.partial(carries, pid, entry))}


def reap(dead: set[int]) -> None:
    """Orphans that a subreaper took over are its children: without this they stay as zombies."""
    for pid in dead:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def kill_by_marker(marker: str, wait: float = 5.0) -> int:
    """End every process that carries the marker and return how many there were, once none lives any more.

    For recovery, when the supervisor that started them is dead. Raises StillAlive after `wait` seconds.
    """
    if not marker:
        return 0
    struck: set[int] = set()
    deadline = time.monotonic() + wait
    quiet = 0
    while quiet < 2:  # twice: a process can be born behind the back of one scan
        left = living(marker)
        quiet = 0 if left else quiet + 1
        struck |= strike_marked(marker) if left else set()
        reap(struck)
        if left and time.monotonic() > deadline:
            raise StillAlive(marker, left)
        if quiet < 2:
            time.sleep(PAUSE)
    return len(struck)
