"""Limits of one agent's process tree: memory of all of it, time, and how large a file it may write.

Issue: "limits on memory, time and output". Memory and time are looked at while the leg runs, over the whole tree and in
every kind of containment; the size of a file is the kernel's to hold. Should memory run out faster than anybody looks,
the kernel ends the agent's processes first: no agent takes the site down with it. What an agent prints is bounded where
it is kept (`process`, `channel`).
"""

import contextlib
import os
import re
import resource
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from relays.agents.base import AgentArgError
from relays.core.sentences import phrase

#: agent arguments that every program of an agent takes
ARGS: Final = ("memory", "time", "file_size")
_SIZES: Final = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SPANS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_FIRST_TO_GO: Final = b"500"  # of 1000, where the kernel chooses what to end


@dataclass(frozen=True, slots=True)
class Limits:
    """`memory`: resident bytes of the whole tree; `time`: seconds from its start; `file_size`: bytes of one file.

    None is no limit.
    """

    memory: int | None = None
    time: float | None = None
    file_size: int | None = None


def default() -> Limits:
    """Three quarters of this machine's memory, a day, and 16 GiB a file."""
    return Limits(_machine() * 3 // 4 or None, 86_400.0, 16 * 1024**3)


def read(args: Mapping[str, object]) -> Limits:
    """The limits that a start names, the rest by default. Raises AgentArgError, one line with what is allowed."""
    usual = default()
    return Limits(
        _amount(args, "memory", _SIZES, usual.memory, least=16 * 1024**2),
        _amount(args, "time", _SPANS, usual.time, least=1),
        _amount(args, "file_size", _SIZES, usual.file_size, least=1024**2),
    )


def prepare(limits: Limits) -> Callable[[], None]:
    """What the child does between fork and exec: nothing that can fail there ends it."""
    size = limits.file_size

    def apply() -> None:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core holds whatever the process knew
        if size is not None:
            with contextlib.suppress(ValueError, OSError):
                hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
                most = size if hard == resource.RLIM_INFINITY else min(size, hard)
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        with contextlib.suppress(OSError):
            handle = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
            os.write(handle, _FIRST_TO_GO)
            os.close(handle)

    return apply


def resident(pids: list[int]) -> int:
    """Resident bytes of these processes together; what two of them share counts twice."""
    pages = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages += int(Path(f"/proc/{pid}/statm").read_bytes().split()[1])
    return pages * resource.getpagesize()


def spelled(size: float) -> str:
    """`3.2 GiB`, `12 MiB`."""
    return f"{size / 1024**3:.1f} GiB" if size >= 1024**3 else f"{size / 1024**2:.0f} MiB"


def _amount(
    args: Mapping[str, object], name: str, units: Mapping[str, int], usual: float | None, *, least: int
) -> "int | None":
    given = args.get(name)
    if given is None:
        return None if usual is None else int(usual)
    if given == "none":
        return None
    found = re.fullmatch(r"([0-9]{1,15})([a-z]?)", str(given).strip().lower())
    if found is None or found[2] not in units or int(found[1]) * units[found[2]] < least:
        words = "|".join(filter(None, units))
        raise AgentArgError(
            phrase(
                "agent argument %(name)s=%(given)s is no limit; allowed: NUMBER[%(words)s] of at least %(least)s, none",
                name=name,
                given=repr(str(given)[:40]),
                words=words,
                least=least,
            )
        )
    return int(found[1]) * units[found[2]]


def _machine() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return 0
