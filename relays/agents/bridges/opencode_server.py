"""The HTTP of one OpenCode server on this machine: requests that are answered at once, and its stream of events."""

import base64
import http.client
import json
import socket
from collections.abc import Mapping
from typing import Any, Final

USER: Final = "opencode"
SECONDS: Final = 30.0  # that a request may take; each is answered before the session goes on
_HEAD_BYTES: Final = 64 * 1024
_EVENT_BYTES: Final = 64 * 1024 * 1024  # of one event; a longer one is dropped


class ServerError(OSError):
    """The server did not answer, or refused; one line."""


class Server:
    """A server that listens on `host`:`port` of this machine and wants `password`."""

    def __init__(self, host: str, port: int, password: str) -> None:
        self._host, self._port = host, port
        word = base64.b64encode(f"{USER}:{password}".encode()).decode()
        self._headers = {"authorization": f"Basic {word}"}

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        """What it answers, None where that is empty. Raises ServerError."""
        way = http.client.HTTPConnection(self._host, self._port, timeout=SECONDS)
        try:
            way.request("POST", path, json.dumps(body), {**self._headers, "content-type": "application/json"})
            answer = way.getresponse()
            text = answer.read()
            if not 200 <= answer.status < 300:
                raise ServerError(f"POST {path}: status {answer.status}")
            return json.loads(text) if text.strip() else None
        except (http.client.HTTPException, ValueError, OSError) as error:
            raise error if isinstance(error, ServerError) else ServerError(f"POST {path}: {error}") from error
        finally:
            way.close()

    def events(self) -> "Events":
        """Its stream of events, open when this returns. Raises ServerError."""
        try:
            way = socket.create_connection((self._host, self._port), timeout=SECONDS)
            lines = [
                "GET /event HTTP/1.1",
                f"host: {self._host}:{self._port}",
                "accept: text/event-stream",
                *(f"{name}: {value}" for name, value in self._headers.items()),
            ]
            way.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
            head = b""
            while b"\r\n\r\n" not in head and len(head) < _HEAD_BYTES:
                data = way.recv(4096)
                if not data:
                    raise ServerError("GET /event: it hung up")
                head += data
        except OSError as error:
            raise error if isinstance(error, ServerError) else ServerError(f"GET /event: {error}") from error
        head, _, rest = head.partition(b"\r\n\r\n")
        first, *fields = head.decode("latin-1").lower().split("\r\n")
        if " 200" not in first:
            raise ServerError(f"GET /event: {first}")
        way.setblocking(False)
        return Events(way, rest, chunked=any(line.startswith("transfer-encoding: chunked") for line in fields))


class Events:
    """Server-sent events, as far as they have come."""

    def __init__(self, way: socket.socket | None, first: bytes = b"", *, chunked: bool = True) -> None:
        self._way, self._chunked = way, chunked
        self._raw, self._text = bytearray(first), bytearray()
        self._left = 0  # bytes of the chunk that is being read, with the line end behind it
        self._over = way is None

    def fileno(self) -> int:
        return -1 if self._way is None else self._way.fileno()

    def over(self) -> bool:
        """Whether no more can come."""
        return self._over

    def read(self) -> list[dict[str, Any]]:
        """All whole events that can be read now without waiting."""
        while not self._over and self._way is not None:
            try:
                data = self._way.recv(1 << 16)
            except BlockingIOError:
                break
            except OSError:
                data = b""
            if not data:
                self.close()
                break
            self._raw += data
        return self.feed(b"")

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        self._raw += data
        if self._chunked:
            self._unchunk()
        else:
            self._text += self._raw
            self._raw.clear()
        *whole, rest = bytes(self._text).replace(b"\r\n", b"\n").split(b"\n\n")
        self._text = bytearray(rest if len(rest) < _EVENT_BYTES else b"")
        found = []
        for block in whole:
            text = b"\n".join(line[5:].lstrip() for line in block.split(b"\n") if line.startswith(b"data:"))
            try:
                event = json.loads(text) if text else None
            except (ValueError, RecursionError):
                continue
            if isinstance(event, dict):
                found.append(event)
        return found

    def close(self) -> None:
        self._over = True
        if self._way is not None:
            self._way.close()

    def _unchunk(self) -> None:
        while self._raw:
            if self._left > 0:
                part = self._raw[: self._left]
                del self._raw[: self._left]
                self._text += part[: max(0, self._left - 2)]  # what stands behind a chunk is its line end
                self._left -= len(part)
                continue
            end = self._raw.find(b"\r\n")
            if end < 0:
                return
            line = bytes(self._raw[:end])
            del self._raw[: end + 2]
            try:
                self._left = int(line.split(b";")[0], 16) + 2
            except ValueError:
                self.close()
                return
            if self._left == 2:  # the last chunk
                self.close()
                return
