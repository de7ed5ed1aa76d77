"""How an agent's tree is contained, and how all of it is ended, whoever started it.

Mission: what a leg started must be gone before its successor starts.

* `namespace` / `user_namespace`: `unshare` puts it into a pid namespace of its own; when its wrapper dies, the kernel
  kills everything in it, whatever it did to its session, group or environment.
* `subreaper`: where namespaces are forbidden. Found again by the marker in every process's environment and by descent.
  A process that is orphaned AND has scrubbed its environment is not found.
* `group`: no `/proc` at all (macOS); only the process group is ended.
"""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import time
from enum import StrEnum

from relays.agents.tree import (
    LINUX,
    PAUSE,
    StillAlive,
    alive,
    descendants,
    identity,
    living,
    pids,
    reap,
    stat,
    strike,
    strike_marked,
)


class Containment(StrEnum):
    NAMESPACE = "namespace"
    USER_NAMESPACE = "user_namespace"
    SUBREAPER = "subreaper"
    GROUP = "group"


_UNSHARE = ("--pid", "--fork", "--kill-child=KILL", "--mount-proc")
WRAPPERS: dict[Containment, tuple[str, ...]] = {
    Containment.NAMESPACE: _UNSHARE,
    Containment.USER_NAMESPACE: ("--user", "--map-current-user", *_UNSHARE),
}


@functools.cache
def containment() -> Containment:
    """The strongest containment that this machine allows us (tried once, by really using it)."""
    if not LINUX:
        return Containment.GROUP
    for kind in WRAPPERS:
        if kind is Containment.NAMESPACE and os.geteuid() != 0:
            continue
        prefix = prefix_of(kind)
        if not prefix:
            continue
        try:
            done = subprocess.run(
                [*prefix, "true"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=10,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return kind
    return Containment.SUBREAPER


def prefix_of(kind: Containment) -> list[str]:
    program = shutil.which("unshare")
    return [program, *WRAPPERS[kind], "--"] if program and kind in WRAPPERS else []


class Tree:
    """One agent's whole process tree. `pid` is the wrapper's: while it lives the tree may live, once it is gone the
    tree is ending. `started` is in clock ticks since boot; pid, start and boot together are its identity."""

    def __init__(self, pid: int, started: int, boot: str, kind: Containment, marker: str) -> None:
        self.pid, self.started, self.boot_id = pid, started, boot
        self.containment: str = kind.value
        self.marker = marker

    def poll(self) -> int | None:
        """The exit code once it has ended (negative: the signal that ended it), else None."""
        raise NotImplementedError

    def kill_tree(self, wait: float = 5.0) -> None:
        """SIGKILL the whole tree; returns when the wrapper is gone and no process with the marker lives.

        Safe to repeat, and after a clean exit too: what the agent left running is ended as well.
        Raises StillAlive after `wait` seconds.
        """
        deadline = time.monotonic() + wait
        struck: set[int] = set()
        inits: set[tuple[int, int]] = set()
        scans = 2 if self.containment == Containment.SUBREAPER else 1  # one scan can miss a process just born
        quiet = 0
        while True:
            if self.poll() is None:
                inits |= self._namespace_inits()
                struck |= self._strike_standing()
            elif self.containment == Containment.GROUP:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(self.pid, signal.SIGKILL)
            struck |= strike_marked(self.marker)
            reap({*struck, *(pid for pid, _ in inits)} - {self.pid})
            left = {*living(self.marker), *(pid for pid, started in inits if alive(pid, started, self.boot_id))}
            quiet = quiet + 1 if self.poll() is not None and not left else 0
            if quiet >= scans:
                return
            if time.monotonic() > deadline:
                raise StillAlive(self.marker, sorted(left) or [self.pid])
            time.sleep(PAUSE)

    def members(self) -> list[int]:
        """Pids of all that lives of it, as far as it can be found."""
        found = {self.pid, *descendants(self.pid)}
        if self.containment == Containment.SUBREAPER:  # whoever lost its parent hangs on us
            found.update(living(self.marker))
        return sorted(found)

    def _strike_wrapper(self) -> None:
        raise NotImplementedError

    def _agents(self) -> list[int]:
        """The wrapper of a namespace does not pass signals on: the agent is its child."""
        if self.containment in WRAPPERS:
            return [pid for pid in pids() if (seen := stat(pid)) is not None and seen[1] == self.pid]
        return [self.pid]

    def _namespace_inits(self) -> set[tuple[int, int]]:
        """(pid, started) of the namespace's first process: the kernel lets it go only after everything in there."""
        if self.containment not in WRAPPERS:
            return set()
        return {(pid, seen[2]) for pid in self._agents() if (seen := stat(pid)) is not None}

    def _strike_standing(self) -> set[int]:
        """While the wrapper stands, its pid, group and descent are certainly its own."""
        struck: set[int] = set()
        if self.containment == Containment.SUBREAPER:
            # its descent is struck before itself: a parent that dies first would hide its children
            for pid in descendants(self.pid):
                seen = identity(pid)
                if seen is not None and strike(pid, functools.partial(alive, pid, *seen)):
                    struck.add(pid)
        if self.containment in (Containment.SUBREAPER, Containment.GROUP):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        self._strike_wrapper()
        return struck
