"""The line between a supervisor and its agent: event lines in, one answer line per boundary out.

The agent speaks on a unix socket or on its stdout, as it likes; the answer goes to where the last boundary came from.
Nothing here waits: an agent that is dead, slow or hostile never blocks its supervisor.
"""

import contextlib
import json
import os
import select
import shutil
import socket
import stat
import tempfile
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from relays.agents.process import AgentProcess
from relays.agents.withheld import Withheld
from relays.core.querytool import is_request

LINE_CAP = 256 * 1024
STREAM = "stream.ndjson"
STREAM_BYTES = 256 * 1024 * 1024  # of one leg; its events are in the database, the raw lines are for people
_FULL = b"the rest of this stream was not kept: it is too large\n"

_SOCKET_PATH_MAX = 99  # bytes; the kernels' own limits are 104 and 108
_CHUNK = 65536
_ANSWERS_CAP = 65536  # bytes that an agent which does not read may leave waiting
_PEERS_MAX = 32
_TOOL_ASKS_MAX = 256  # that wait for their answer
REPLY_CAP = 1024 * 1024  # bytes of one answer to a use of the query tool
_QUERIES_MAX = 64  # uses that wait
_TOO_MANY = b'{"ok":false,"refused":"too many uses of the query tool wait: ask again, one after the other"}'


class ChannelError(Exception):
    """The socket could not be made; one line."""


class LineReader:
    """Cuts a byte stream into lines. A line above the cap comes out once as its first `cap + 1` bytes (whoever
    parses it refuses it for its length) and is skipped up to its newline; blank lines are dropped."""

    def __init__(self, cap: int = LINE_CAP) -> None:
        self._cap = cap
        self._held = bytearray()
        self._skipping = False
        self.oversized = 0

    def feed(self, data: bytes) -> list[bytes]:
        lines: list[bytes] = []
        start = 0
        while start < len(data):
            end = data.find(b"\n", start)
            piece = data[start:] if end < 0 else data[start:end]
            start = len(data) if end < 0 else end + 1
            if not self._skipping:
                self._held += piece
                if len(self._held) > self._cap:
                    self.oversized += 1
                    del self._held[self._cap + 1 :]
                    self._take(lines)
                    self._skipping = True
            if end >= 0:
                if not self._skipping:
                    self._take(lines)
                self._skipping = False
        return lines

    def finish(self) -> list[bytes]:
        """What stood after the last newline when the stream ended: a line that was torn, or not ended."""
        lines: list[bytes] = []
        self._take(lines)
        return lines

    def _take(self, lines: list[bytes]) -> None:
        line = bytes(self._held).rstrip(b"\r")
        self._held.clear()
        if line.strip():
            lines.append(line)


@dataclass(eq=False)
class _Peer:
    """One way in and out: a connection, or the agent's stdout with its stdin."""

    read_fd: int
    write_fd: int
    sock: socket.socket | None
    lines: LineReader = field(default_factory=LineReader)
    waiting: bytearray = field(default_factory=bytearray)
    at_end: bool = False  # nothing more comes from it
    tool: bool = False  # a use of the query tool came over it: it is not the agent's own line
    deaf: bool = False  # nothing more can be sent to it


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A use of the query tool that waits for its answer. Its line holds the token: it is in no file of ours."""

    line: bytes
    peer: _Peer


class Channel:
    """Made before the agent (its socket's path goes into the agent's environment), then `attach`ed to its process.

    Every line is appended raw to `log_dir/stream.ndjson` before it is handed out. Single-threaded.
    """

    def __init__(self, log_dir: str | Path, process: AgentProcess | None = None, *, socket_path: str = "") -> None:
        """`socket_path`: that of a channel before this one, which its agent comes back to. Raises ChannelError."""
        folder = Path(log_dir)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._stream = _Stream(folder / STREAM)
        try:
            self._listener, self._folder, self.socket_path = _listen_again(socket_path) if socket_path else _listen()
        except ChannelError:
            self._stream.close()
            raise
        self._peers: list[_Peer] = []
        self._process: AgentProcess | None = None
        self._attached = False
        self.withheld = Withheld()  # of the agent that speaks here; set before it is attached
        self.on_pipes = False  # the agent speaks on its stdout alone: over the socket only the query tool is heard
        self._speaker: _Peer | None = None
        self._asked: _Peer | None = None
        self._tool_asks: dict[bytes, _Peer] = {}  # the line that asked -> who waits for its answer
        self._is_open = True
        self.queries: deque[Query] = deque()  # to be answered by whoever drives the leg, by `reply`
        self._oversized = 0
        if process is not None:
            self.attach(process)

    def attach(self, process: AgentProcess | None) -> None:
        """None: an agent without pipes of ours, which speaks over the socket only."""
        self._attached = True
        self._process = process
        if process is None:
            return
        self._peers.append(_Peer(process.stdout.fileno(), process.stdin.fileno(), None))

    # --- reading

    def fds(self) -> list[int]:
        """What to wait on for reading: the listener, every open way in, and the agent's stderr."""
        if not self._is_open:
            return []
        found = [self._listener.fileno()]
        found += [peer.read_fd for peer in self._peers if not peer.at_end]
        if self._process is not None and not self._process.stderr.closed:
            found.append(self._process.stderr.fileno())
        return found

    def write_fds(self) -> list[int]:
        """What to wait on for writing: whoever has not taken its answer yet; then call `flush`."""
        return [peer.write_fd for peer in self._peers if peer.waiting and not peer.deaf]

    def read_ready(self, fd: int) -> list[bytes]:
        """Read once, without waiting, from a descriptor of `fds()`; the whole lines that arrived, without newline.

        A line longer than 256 KiB comes as its first 256 KiB and one byte. An unknown descriptor gives none.
        """
        if not self._is_open:
            return []
        if fd == self._listener.fileno():
            self._accept()
            return []
        process = self._process
        if process is not None and not process.stderr.closed and fd == process.stderr.fileno():
            process.drain_stderr()
            return []
        for peer in self._peers:
            if peer.read_fd == fd and not peer.at_end:
                return self._read(peer)
        return []

    def wait(self, timeout: float) -> list[bytes]:
        """Wait up to `timeout` seconds until something can be read; read all that is ready once, send what waits."""
        poll = select.poll()
        for fd in self.fds():
            poll.register(fd, select.POLLIN)
        for fd in self.write_fds():
            poll.register(fd, select.POLLOUT if fd not in self.fds() else select.POLLIN | select.POLLOUT)
        lines: list[bytes] = []
        for fd, happened in poll.poll(max(0, int(timeout * 1000))):
            if happened & ~select.POLLOUT:
                lines += self.read_ready(fd)
        self.flush()
        return lines

    def drain(self, rounds: int = 1000) -> list[bytes]:
        """All that can be read now without waiting (for after the agent's end); bounded by `rounds` reads."""
        lines: list[bytes] = []
        for _ in range(rounds):
            before = len(lines)
            ready = _readable(self.fds())
            if not ready:
                break
            for fd in ready:
                lines += self.read_ready(fd)
            if len(lines) == before and self.closed:
                break
        return lines

    @property
    def closed(self) -> bool:
        """Nothing can come any more: the agent's stdout has ended and no connection is open or waits."""
        if not self._is_open:
            return True
        if not self._attached or _readable([self._listener.fileno()]):
            return False
        return all(peer.at_end for peer in self._peers)

    @property
    def connected(self) -> bool:
        """Whether anybody has a connection open."""
        return any(peer.sock is not None and not peer.at_end and not peer.tool for peer in self._peers)

    @property
    def oversized(self) -> int:
        """How many lines were longer than the cap."""
        return self._oversized + sum(peer.lines.oversized for peer in self._peers)

    # --- answering

    def answer(self, line: str) -> bool:
        """Send one answer to whoever spoke the last boundary (before any: to whoever spoke last).

        Never waits: what does not fit now is sent later by `flush`, `read_ready` or `wait`. False when nobody is
        there to hear it, or it has left 64 KiB of answers unread.
        """
        return self._tell(self._asked or self._speaker, line)

    def answer_tool(self, asked: bytes, line: str) -> bool:
        """Answer the line that asked whether a tool may run, to whoever said it; as `answer` promises."""
        return self._tell(self._tool_asks.pop(asked, None), line)

    def _tell(self, peer: _Peer | None, line: str) -> bool:
        if "\n" in line or "\r" in line:
            raise ValueError("an answer is one line")
        if peer is None or peer.deaf or peer not in self._peers:
            return False
        data = line.encode() + b"\n"
        if len(peer.waiting) + len(data) > _ANSWERS_CAP:
            return False
        peer.waiting += data
        self._send(peer)
        return not peer.deaf

    def reply(self, query: Query, line: bytes) -> bool:
        """Answer one use of the query tool, without ever waiting; False when nobody is there to hear it."""
        peer = query.peer
        if b"\n" in line or peer.deaf or peer not in self._peers or len(peer.waiting) + len(line) >= REPLY_CAP:
            return False
        peer.waiting += line + b"\n"
        self._send(peer)
        return not peer.deaf

    def flush(self) -> None:
        """Send what waits, as far as it is taken without waiting."""
        for peer in list(self._peers):
            if peer.waiting:
                self._send(peer)

    def close(self, *, keep: bool = False) -> None:
        """Close every connection and take the socket away, unless (`keep`) another channel is opened at its path.

        The agent's pipes are its process's own.
        """
        if not self._is_open:
            return
        self._is_open = False
        for peer in self._peers:
            if peer.sock is not None:
                peer.sock.close()
        self._listener.close()
        self._stream.close()
        if not keep:
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> "Channel":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- inside

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # it hung up while it waited
        if not self._room():
            connection.close()
            return
        connection.setblocking(False)
        self._peers.append(_Peer(connection.fileno(), connection.fileno(), connection))

    def _read(self, peer: _Peer) -> list[bytes]:
        try:
            data = os.read(peer.read_fd, _CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            data = b""
            peer.deaf = True
        found = peer.lines.feed(data) if data else peer.lines.finish()
        lines = [self.withheld.line(line) for line in found if not self._query(peer, line)]
        if self.on_pipes and peer.sock is not None and lines:
            lines, peer.deaf, peer.at_end = [], True, True  # said in the agent's name by something that it started
        for line in lines:
            self._stream.write(line + b"\n")
            self._speaker = peer
            kind = _asks(line)
            if kind == "boundary":
                self._asked = peer
            elif kind and len(self._tool_asks) < _TOOL_ASKS_MAX:
                self._tool_asks[line] = peer
        if not data:
            peer.at_end = True
        if peer.at_end:
            self._let_go(peer)
        if peer.waiting:
            self._send(peer)
        return lines

    def _query(self, peer: _Peer, line: bytes) -> bool:
        """Whether the line is a use of the query tool, which has its own answer; kept apart from the agent's events."""
        if peer.sock is None or not is_request(line):
            return False
        peer.tool = True
        query = Query(self.withheld.line(line, query=True), peer)
        if len(self.queries) < _QUERIES_MAX:
            self.queries.append(query)
        elif not self.reply(query, _TOO_MANY):
            peer.deaf = True
        return True

    def _room(self) -> bool:
        """Whether one more may connect; the use of the query tool that has had its answer for longest makes room."""
        if sum(peer.sock is not None for peer in self._peers) < _PEERS_MAX:
            return True
        waits = {id(query.peer) for query in self.queries}
        for peer in self._peers:
            if peer.tool and peer.sock is not None and not peer.waiting and id(peer) not in waits:
                peer.deaf = True
                self._let_go(peer)
                return True
        return False

    def _send(self, peer: _Peer) -> None:
        while peer.waiting and not peer.deaf:
            try:
                sent = os.write(peer.write_fd, peer.waiting)
            except BlockingIOError:
                return
            except OSError:
                peer.deaf = True
                break
            del peer.waiting[:sent]
        if peer.deaf:
            peer.waiting.clear()
        if peer.at_end:
            self._asked = None if self._asked is peer else self._asked
            self._let_go(peer)

    def _let_go(self, peer: _Peer) -> None:
        """Drop a connection that has ended, unless it closed only its sending side and still waits for its answer."""
        if peer.sock is None or (
            not peer.deaf and (peer.waiting or self._asked is peer or peer in self._tool_asks.values())
        ):
            return
        self._oversized += peer.lines.oversized
        peer.sock.close()
        self._peers = [other for other in self._peers if other is not peer]


def _readable(fds: list[int]) -> list[int]:
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return [fd for fd, _ in poll.poll(0)]


def _asks(line: bytes) -> str:
    """The kind of a line that waits for an answer, else "". Only where to answer hangs on this; whether the line is a
    proper event is judged elsewhere."""
    if len(line) > LINE_CAP or not any(word in line for word in (b"boundary", b"tool_asked", b"\\u")):
        return ""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    kind = event.get("kind") if isinstance(event, dict) else None
    return kind if kind in ("boundary", "tool_asked") else ""


class _Stream:
    """Append-only and bounded; a line torn by a crash before us is ended first, so that it cannot swallow ours.

    What comes above `STREAM_BYTES` is judged like all else and not kept; one line in the file says so. Raises
    ChannelError where something else than a file of ours lies in its place.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            self._fd = os.open(path, flags, 0o600)
        except OSError as error:
            raise ChannelError(f"{path} cannot be opened: {error.strerror}; remove what lies there") from error
        found = os.fstat(self._fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._fd)
            raise ChannelError(f"{path} is not a file; remove what lies there")
        self._size = found.st_size
        if self._size and os.pread(self._fd, 1, self._size - 1) != b"\n":
            self.write(b"\n")

    def write(self, data: bytes) -> None:
        if self._size > STREAM_BYTES:
            return
        self._size += len(data)
        if self._size > STREAM_BYTES:
            data = _FULL
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]

    def close(self) -> None:
        os.close(self._fd)


def _listen() -> tuple[socket.socket, str, str]:
    """(listening socket, its private folder, its path). Only our own user can reach it."""
    for base in dict.fromkeys((tempfile.gettempdir(), "/tmp")):  # noqa: S108 (the short path is the point; 0700 inside)
        try:
            folder = tempfile.mkdtemp(prefix="relay-", dir=base)
        except OSError:
            continue
        path = os.path.join(folder, "s")
        if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
            os.rmdir(folder)
            continue
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(path)
            listener.listen(_PEERS_MAX)
        except OSError as error:
            listener.close()
            shutil.rmtree(folder, ignore_errors=True)
            raise ChannelError(f"no socket could be made at {path}: {error}") from error
        listener.setblocking(False)
        return listener, folder, path
    raise ChannelError("no short temporary folder for the agent's socket: set TMPDIR to a path under 80 bytes")


def _listen_again(path: str) -> tuple[socket.socket, str, str]:
    """As `_listen`, at the path of a channel that its holder did not close: only where the folder is still our own."""
    folder = os.path.dirname(path)
    try:
        seen = os.lstat(folder)
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_mode & 0o077:
            raise ChannelError(f"{folder} is not a private folder of ours any more: no agent can come back to it")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    except OSError as error:
        raise ChannelError(f"no socket can be made again at {path}: {error}") from error
    try:
        listener.bind(path)
        listener.listen(_PEERS_MAX)
    except OSError as error:
        listener.close()
        raise ChannelError(f"no socket can be made again at {path}: {error}") from error
    listener.setblocking(False)
    return listener, folder, path
