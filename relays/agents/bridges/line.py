"""The bridge's side of `relay.event.v1`: events out on stdout, answers in on stdin."""

import json
import os
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

TEXT_CHARS: Final = 200
PATH_CHARS: Final = 4096
TOKENS_MAX: Final = 500_000_000

Then = Callable[[str], None]


def cut(text: object, most: int = TEXT_CHARS) -> str:
    """A word for an event: printable, never empty, not longer than its column."""
    found = "".join(sign if sign.isprintable() else " " for sign in str(text)).strip()
    return found.encode("utf-8", "replace").decode()[:most] or "-"


def count(value: object) -> int:
    """A number of tokens or bytes as an event takes it; what is none is 0."""
    good = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
    return int(max(0, min(value, TOKENS_MAX))) if good else 0  # type: ignore[call-overload]


class Line:
    """Events are numbered here. Answers come in the order in which their kind was asked: tools and boundaries apart."""

    def __init__(self, out: int = 1) -> None:
        self._out = out
        self._held = bytearray()
        self._seq = 0
        self._boundaries: deque[Then] = deque()
        self._tools: deque[Then] = deque()

    def send(self, kind: str, **fields: object) -> int:
        self._seq += 1
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event = {"kind": kind, "seq": self._seq, "at": at, **fields}
        left = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        while left:
            left = left[os.write(self._out, left) :]
        return self._seq

    def boundary(self, then: Then, *, final: bool) -> None:
        self._boundaries.append(then)
        self.send("boundary", next_actions=[], final=final)

    def ask_tool(self, tool: str, name: str, then: Then) -> None:
        self._tools.append(then)
        self.send("tool_asked", id=tool, name=name)

    @property
    def waits(self) -> bool:
        """Whether a boundary was asked and not answered."""
        return bool(self._boundaries)

    def feed(self, data: bytes) -> None:
        """What came on stdin; each whole line goes to whoever asked for it."""
        self._held += data
        while b"\n" in self._held:
            line, _, rest = bytes(self._held).partition(b"\n")
            self._held = bytearray(rest)
            answer = line.decode("utf-8", "replace").strip()
            asked = self._tools if answer.partition(" ")[0] in ("allow", "deny") else self._boundaries
            if asked:
                asked.popleft()(answer)
