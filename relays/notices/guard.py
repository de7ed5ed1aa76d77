"""Where a connection may go while a notice is sent, and for how long: judged when it is opened, on its address.

The network address that a name was resolved to is what is judged: a name that resolves to another one a moment later,
a redirect, or a service's own client cannot lead inside.
Python tells every connect of a process to its audit hooks, before it is made.
"""

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from relays.core.notify import allowed_address
from relays.core.sentences import Sentence, phrase

#: of the thread that sends, and of tasks that a service's client begins in it; none of `notify.APPRISE` begins a thread
_here: ContextVar["Leash | None"] = ContextVar("leash", default=None)
_lock = threading.Lock()
_installed = False


class NotAllowed(OSError):
    """A connection that must not be made; `said`: one line that says where to and which setting allows it."""

    def __init__(self, said: Sentence) -> None:
        super().__init__(str(said))
        self.said = said


class Leash:
    """The connections that were opened under `outward`: all of them end when their time is over.

    A receiver that drips its answer, or the handshake before it, a byte at a time keeps every wait for a byte short,
    and would keep a worker for ever. The handle that is shut down here is a second one of the same connection: the
    first is another object as soon as TLS has taken it over.
    """

    def __init__(self, *, private: bool, seconds: float) -> None:
        self.private, self.late = private, threading.Event()
        self._held: list[socket.socket] = []
        self._mine = threading.Lock()
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def take(self, one: socket.socket) -> None:
        """Hold a connection that is about to be made. Raises TimeoutError when the time is over."""
        with self._mine:
            if self.late.is_set():
                raise TimeoutError("its time is over")
            with contextlib.suppress(OSError):
                self._held.append(one.dup())

    def _end(self) -> None:
        with self._mine:
            self.late.set()
            for one in self._held:
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._timer.cancel()
        with self._mine:
            for one in self._held:
                one.close()
            self._held.clear()


@contextmanager
def outward(*, private: bool, seconds: float) -> Iterator[Leash]:
    """Inside, connections go to public addresses only (with `private` to private networks too), and all
    of them are shut down after so many seconds: then `late` is set on what this gives."""
    _install()
    leash = Leash(private=private, seconds=seconds)
    token = _here.set(leash)
    try:
        yield leash
    finally:
        _here.reset(token)
        leash.close()


def _install() -> None:
    global _installed
    with _lock:
        if not _installed:
            sys.addaudithook(_hook)
            _installed = True


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect":
        return
    leash = _here.get()
    if leash is None:
        return
    where = arguments[1]
    host = str(where[0]) if isinstance(where, tuple) and where else ""
    if not host or not allowed_address(host, leash.private):
        where = host or phrase("a local socket")
        if leash.private:
            raise NotAllowed(phrase("%(host)s is no address that notices may go to", host=where))
        raise NotAllowed(
            phrase(
                "%(host)s is no address that notices may go to; NOTIFY_PRIVATE=1 allows addresses of private networks",
                host=where,
            )
        )
    leash.take(arguments[0])
