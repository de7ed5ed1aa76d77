"""What entered the window between two calls, by kind of record, in bytes of the file.

A call's answer is written before its `token_count` and enters the window of the call after it; so do the results of
tools that this answer asked for, even if they came back before it was counted.
"""

from collections.abc import Mapping
from typing import Any, Final

_KINDS: Final = 64


class Window:
    """Gathers sizes between calls; see `relays.core.meter.Seen.fill`."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        kept = state or {}
        self._next: dict[str, int] = dict(kept.get("next", {}))
        self._after: dict[str, int] = dict(kept.get("after", {}))
        self._answering: bool = kept.get("answering", False)

    def state(self) -> dict[str, Any]:
        return {"next": dict(self._next), "after": dict(self._after), "answering": self._answering}

    def entered(self, kind: str, size: int) -> None:
        """Something that the next counted call read, or, once it answers, the one after it."""
        _add(self._after if self._answering else self._next, kind, size)

    def answered(self, kind: str, size: int) -> None:
        """A part of the answer of the call that is not counted yet."""
        self._answering = True
        _add(self._after, kind, size)

    def call(self) -> dict[str, int]:
        """The call is counted: what entered for it."""
        entered, self._next, self._after = self._next, self._after, {}
        self._answering = False
        return entered


def _add(sizes: dict[str, int], kind: str, size: int) -> None:
    if kind not in sizes and len(sizes) >= _KINDS:
        kind = "other"
    sizes[kind] = sizes.get(kind, 0) + size
