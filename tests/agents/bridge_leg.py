"""A bridge without its program: lines and hook calls go in as the program would send them, events come out."""

import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from relays.agents.bridges.bridge import Bridge
from relays.agents.bridges.hooks import HookCall
from relays.agents.bridges.line import Line
from relays.core.events import parse_line


class Asked:
    """One hook call; `answer` is what the program is told, None while it waits."""

    def __init__(self, way: socket.socket) -> None:
        self._way = way

    @property
    def answer(self) -> dict[str, Any] | None:
        try:
            text = self._way.recv(65536)
        except BlockingIOError:
            return None
        return dict(json.loads(text)) if text.strip() else {}


class BridgeLeg:
    """`told`: what went onto the program's stdin; `signals`: what it was sent."""

    def __init__(self, bridge: Bridge) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        self.bridge = bridge
        bridge.line = Line(self._write)
        self.told: list[Any] = []
        self.signals: list[int] = []
        self.closed = False
        bridge.tell = lambda text: self.told.append(text)  # type: ignore[method-assign]
        bridge.strike = lambda number: self.signals.append(number)  # type: ignore[method-assign]
        bridge.close_stdin = self._close_stdin  # type: ignore[method-assign]
        self._ways: list[socket.socket] = []

    def _close_stdin(self) -> None:
        self.closed = True

    def close(self) -> None:
        os.close(self._read)
        os.close(self._write)
        for way in self._ways:
            way.close()

    def seen(self) -> list[dict[str, Any]]:
        """What was said since the last look; each event is one of the protocol."""
        try:
            data = os.read(self._read, 1 << 20)
        except BlockingIOError:
            return []
        lines = data.splitlines()
        parsed = [parse_line(line) for line in lines]
        assert [one.problem for one in parsed] == [None] * len(lines)
        assert all(one.event is not None and one.event.known for one in parsed)
        return [json.loads(line) for line in lines]

    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.seen()]

    def answer(self, *lines: str) -> None:
        self.bridge.line.feed("".join(f"{line}\n" for line in lines).encode())

    def says(self, **row: Any) -> None:
        self.bridge.said(json.dumps(row).encode())

    def hook(self, event: str, **said: Any) -> Asked:
        here, there = socket.socketpair()
        self._ways += [here, there]
        there.setblocking(False)
        self.bridge.hook(HookCall("", {"hook_event_name": event, **said}, here))
        return Asked(there)

    @property
    def requests(self) -> list[Mapping[str, Any]]:
        """What was told as JSON lines."""
        return [json.loads(line) for text in self.told for line in text.splitlines()]
