"""Where a connection may go while a notice is sent: judged when it is opened, on the resolved network address.

So a name that resolves to another address a moment later, a redirect, or a service's own client cannot lead inside.
Python tells every connect of a process to its audit hooks, before it is made.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from relays.core.notify import allowed_address
from relays.core.sentences import Sentence, phrase

_here = threading.local()
_lock = threading.Lock()
_installed = False


class NotAllowed(OSError):
    """A connection that must not be made; `said`: one line that says where to and which setting allows it."""

    def __init__(self, said: Sentence) -> None:
        super().__init__(str(said))
        self.said = said


@contextmanager
def outward(*, private: bool) -> Iterator[None]:
    """Inside, connections of this thread go to public addresses only; with `private` to private networks too."""
    _install()
    before = getattr(_here, "private", None)
    _here.private = private
    try:
        yield
    finally:
        _here.private = before


def _install() -> None:
    global _installed
    with _lock:
        if not _installed:
            sys.addaudithook(_hook)
            _installed = True


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "socket.connect":
        return
    private = getattr(_here, "private", None)
    if private is None:
        return
    where = arguments[1]
    host = str(where[0]) if isinstance(where, tuple) and where else ""
    if not host or not allowed_address(host, private):
        where = host or phrase("a local socket")
        if private:
            raise NotAllowed(phrase("%(host)s is no address that notices may go to", host=where))
        raise NotAllowed(
            phrase(
                "%(host)s is no address that notices may go to; NOTIFY_PRIVATE=1 allows addresses of private networks",
                host=where,
            )
        )
