"""The socket that a program's hooks come to: one call each, which waits until it is answered.

Only a process that the program itself started, and that still hangs on it, is heard: what an agent let go into the
background cannot say in the program's name that a turn ended. A tool that runs is below the program like a hook is; it
is in flight meanwhile, so that nothing it says here makes a safe point. Standard library only.
"""

import contextlib
import json
import os
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from relays.agents import tree

CALL_BYTES: Final = 64 * 1024 * 1024  # of one call
_CHUNK: Final = 1 << 16
_DEEP: Final = 64  # processes between a hook and its program

Fields = Mapping[str, Any]


@dataclass(eq=False)
class HookCall:
    """One call of a hook of the program, which waits until it is answered. `name`: what its command line says."""

    name: str
    said: dict[str, Any]
    _way: socket.socket

    def answer(self, said: Fields | None = None) -> None:
        """Let the program go on: `said` as JSON, nothing where it has nothing to say."""
        with contextlib.suppress(OSError):
            self._way.settimeout(5)
            self._way.sendall((json.dumps(said) if said else "").encode() + b"\n")
        self._way.close()


@dataclass(eq=False)
class _Arriving:
    way: socket.socket
    held: bytearray = field(default_factory=bytearray)


class HookSocket:
    """Listens at `path`; `take` gets each whole call. `may_call`: whether a process of this id is heard."""

    def __init__(
        self,
        path: str,
        *,
        watch: Callable[[int, Callable[[], None]], None],
        forget: Callable[[int], None],
        take: Callable[[HookCall], None],
        may_call: Callable[[int], bool],
    ) -> None:
        self._watch, self._forget, self._take, self._may_call = watch, forget, take, may_call
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        self._listener.listen(64)
        self._listener.setblocking(False)
        watch(self._listener.fileno(), self._comes)

    def close(self) -> None:
        """Nobody can call any more; calls that wait still get their answers."""
        self._forget(self._listener.fileno())
        self._listener.close()

    def _comes(self) -> None:
        try:
            way, _ = self._listener.accept()
        except OSError:
            return
        if not self._may_call(_caller(way)):
            way.close()  # whoever speaks for a hook then tells its program to stop
            return
        way.setblocking(False)
        arriving = _Arriving(way)
        self._watch(way.fileno(), lambda: self._reads(arriving))

    def _reads(self, arriving: _Arriving) -> None:
        try:
            data = arriving.way.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        arriving.held += data
        # a call ends with its sender's half of the way, or with a NUL where that half cannot be closed alone
        if data and not arriving.held.endswith(b"\0") and len(arriving.held) < CALL_BYTES:
            return
        self._forget(arriving.way.fileno())
        name, _, body = bytes(arriving.held).rstrip(b"\0").partition(b"\n")
        try:
            said = json.loads(body)
        except (ValueError, RecursionError):
            said = {}
        self._take(HookCall(name.decode("utf-8", "replace"), said if isinstance(said, dict) else {}, arriving.way))


def is_below(pid: int, root: int) -> bool:
    """Whether a process is this one or hangs on it. True where the system does not tell who hangs on whom."""
    if not tree.LINUX or pid < 0:
        return True
    for _ in range(_DEEP):
        if pid == root:
            return True
        seen = tree.stat(pid) if pid > 1 else None
        if seen is None:
            return False
        pid = seen[1]
    return False


def _caller(way: socket.socket) -> int:
    """The id of the process at the other end; -1 where the system does not tell it."""
    asked = getattr(socket, "SO_PEERCRED", None)
    if asked is None:
        return -1
    try:
        return int(struct.unpack("3i", way.getsockopt(socket.SOL_SOCKET, asked, struct.calcsize("3i")))[0])
    except OSError:
        return 0


def path_beside(socket_path: str) -> str:
    """Where a leg's hooks come to: short, private, and gone with the leg."""
    return os.path.join(os.path.dirname(socket_path), "h")
