"""What the tests with real programs stand on: the programs, a watched resolver, a home of their own, the process table.

They run by `make agents`, which installs the programs pinned and takes the network away. Anywhere else, and where a
program is missing, they are left out and say why; where everything must run (CI), a missing program fails.
"""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from relays.agents import programs, tree
from tests.agents.isolated import INSIDE

RUN = "AGENT_TESTS"  # set by `make agents`: where it installed them

marks = [pytest.mark.agents, pytest.mark.slow, pytest.mark.timeout(120)]


def require(name: str) -> str:
    """The program's path; the test is left out, or fails in CI, without it."""
    if not os.environ.get(RUN):
        pytest.skip("left out: tests with real agent programs run by `make agents`")
    around = {programs.PLACES: os.environ[RUN], "PATH": os.environ.get("PATH", os.defpath)}
    found = programs.find(programs.PROGRAMS[name], env=around)
    if not found:
        why = f"{name} is not installed (npm {programs.PROGRAMS[name].package}); `make agents` installs it"
        if os.environ.get("CI"):
            pytest.fail(why)
        pytest.skip(f"left out: {why}")
    return found


@contextmanager
def watched_names() -> Iterator[list[str]]:
    """The names that anybody looked up meanwhile; answered as unknown. Empty and unwatched outside of a namespace."""
    seen: list[str] = []
    if not os.environ.get(INSIDE):
        yield seen
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind(("127.0.0.1", 53))
        listener.settimeout(0.1)
        over = threading.Event()
        thread = threading.Thread(target=_answer, args=(listener, over, seen), daemon=True)
        thread.start()
        try:
            yield seen
        finally:
            over.set()
            thread.join(5)


def _answer(listener: socket.socket, over: threading.Event, seen: list[str]) -> None:
    while not over.is_set():
        try:
            asked, sender = listener.recvfrom(4096)
        except TimeoutError:
            continue
        labels, place = [], 12
        while place < len(asked) and asked[place]:
            labels.append(asked[place + 1 : place + 1 + asked[place]].decode("ascii", "replace"))
            place += 1 + asked[place]
        seen.append(".".join(labels))
        no_such_name = struct.pack("!HHHHH", 0x8183, 1, 0, 0, 0)
        listener.sendto(asked[:2] + no_such_name + asked[12:], sender)


def below(worktree: Path) -> list[int]:
    """Living processes that work in a folder: whatever an agent started there and left."""
    found = []
    for pid in tree.pids():
        try:
            place = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue
        if place == str(worktree) or place.startswith(f"{worktree}/"):
            found.append(pid)
    return found
