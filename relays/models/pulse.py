"""The change number that pages listen to: raised by whoever writes what a page shows, in that write's transaction.

Interface: "a change is on the screen within a second". Drivers, imports and people raise it the same way, so it lies
where all of them may import it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from relays.models.live import raise_number

_fence: ContextVar[Callable[[], object] | None] = ContextVar("fence", default=None)


@contextmanager
def fenced(hold: Callable[[], object]) -> Iterator[None]:
    """Inside, every visible write is a driver's: `hold` raises before its commit when its claim is lost."""
    token = _fence.set(hold)
    try:
        yield
    finally:
        _fence.reset(token)


def bump(*topics: str) -> int:
    """Raise the change number and mark `topics` with it. Call it last in the transaction of a visible write.

    The single row is locked until the commit, so numbers become visible in their order and a page misses none.
    Under `fenced` nothing is committed with an old fence.
    """
    if (hold := _fence.get()) is not None:
        hold()
    return raise_number(topics)
