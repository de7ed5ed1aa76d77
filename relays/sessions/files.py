"""Files on disk: which there are, how far each was read, and its whole new lines. Nothing is ever written to them.

sessions.md, 7: "byte offset per file (inode + size + hash of first 4 KB), read only to last `\\n`, restart from 0 when
file shrinks/inode changes". Files grow, shrink, are replaced and vanish while they are read; none of it raises.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final

from relays.core.lines import recorded

#: what an agent's session may be called; files of other names in a folder are not looked into
SUFFIXES: Final = frozenset((".jsonl", ".ndjson", ".json", ".db", ".sqlite", ".sqlite3", ".log", ".txt", ".out"))
#: folders that hold no sessions and may hold very many files
LEFT_OUT: Final = frozenset((".git", "node_modules", "__pycache__", ".venv", "tool-results"))
#: the longest path that every database can index
LONGEST_PATH: Final = 2_000
#: beginning and end of what was read are compared before it is gone on
PROOF_BYTES: Final = 4096
#: a larger one is new memory from the system each time, whose pages are cleared first
BLOCK_BYTES: Final = 1 << 17
#: the longest line that is held; a longer one is passed over and counted
LINE_BYTES: Final = 96 << 20


@dataclass(frozen=True, slots=True)
class Stat:
    """What tells whether a file changed since it was looked at."""

    device: int
    inode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Found:
    """A regular file under a path that somebody named."""

    path: str
    stat: Stat


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a file was read: `offset` bytes, all of them whole lines, `lines` of them; the rest proves that it is

    still the same file. `head` and `tail`: SHA-256 of its first `head_bytes` and of the last bytes before `offset`.
    """

    device: int = 0
    inode: int = 0
    offset: int = 0
    lines: int = 0
    head: str = ""
    head_bytes: int = 0
    tail: str = ""


START: Final = Cursor()


def signed(number: int) -> int:
    """64 bits as every database keeps them: some file systems number from the top."""
    return number - (1 << 64) if number >= 1 << 63 else number


def stat_of(status: os.stat_result) -> Stat:
    return Stat(signed(status.st_dev), signed(status.st_ino), status.st_size, max(status.st_mtime_ns, 0))


def words(error: OSError) -> str:
    """Why a file cannot be read, for a person."""
    if isinstance(error, PermissionError):
        return recorded("no permission to read it")
    if isinstance(error, FileNotFoundError):
        return recorded("it is not there")
    return error.strerror or type(error).__name__


def find(paths: Iterable[str | Path], problem: Callable[[str, str], None] = lambda path, why: None) -> Iterator[Found]:
    """Every regular file that is named, and in folders, recursively, each that may hold sessions; each once, by path.

    A folder's links to folders are not followed. `problem(path, why)` is told what cannot be looked at.
    """

    def tell(path: str, why: str) -> None:
        problem(path.encode("utf-8", "backslashreplace").decode(), why)  # a name need not be a text

    seen: set[str] = set()
    for named in paths:
        root = os.path.abspath(named)
        for path in _under(root, tell):
            if path in seen:
                continue
            seen.add(path)
            found = _look(path, tell)
            if found is not None:
                yield found


def _under(root: str, problem: Callable[[str, str], None]) -> Iterator[str]:
    if not os.path.isdir(root):
        yield root
        return
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            with os.scandir(folder) as entries:
                inside = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            problem(folder, words(error))
            continue
        deeper: list[str] = []
        for entry in inside:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if entry.name not in LEFT_OUT:
                        deeper.append(entry.path)
                elif os.path.splitext(entry.name)[1].lower() in SUFFIXES:
                    # what somebody may read by naming a folder ends with the folder
                    if entry.is_symlink() and not _inside(entry.path, root):
                        problem(entry.path, recorded("it is a link that leads out of the folder"))
                    else:
                        yield entry.path
            except OSError as error:
                problem(entry.path, words(error))
        folders += reversed(deeper)


def _inside(path: str, root: str) -> bool:
    whole, folder = os.path.realpath(path), os.path.realpath(root)
    return whole.startswith(folder.rstrip("/") + "/")


def _look(path: str, problem: Callable[[str, str], None]) -> Found | None:
    try:
        path.encode()
    except UnicodeEncodeError:
        problem(path, recorded("its name is no text in UTF-8"))
        return None
    if len(path) > LONGEST_PATH:
        problem(
            path[:200] + "…", recorded("its path is longer than %(longest_path)s characters", longest_path=LONGEST_PATH)
        )
        return None
    try:
        status = os.stat(path)
    except OSError as error:
        problem(path, words(error))
        return None
    if not stat.S_ISREG(status.st_mode):
        problem(path, recorded("it is no regular file"))  # opening a pipe or a device could wait for ever
        return None
    return Found(path, stat_of(status))


def open_for_reading(path: str) -> BinaryIO:
    """The file, unbuffered. Raises OSError. A pipe that took the file's place is refused, never waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(0, recorded("it is no regular file"))
    return os.fdopen(descriptor, "rb", buffering=0)


def digest_at(stream: BinaryIO, start: int, count: int) -> str:
    """SHA-256 of `count` bytes from `start`, "" where the file is shorter."""
    content = os.pread(stream.fileno(), count, start)
    return sha256(content).hexdigest() if len(content) == count else ""


def same(stream: BinaryIO, cursor: Cursor, now: Stat) -> bool:
    """Whether `cursor` is of the file that is open: not replaced, not cut, its proven parts unchanged."""
    if (cursor.device, cursor.inode) != (now.device, now.inode) or now.size < cursor.offset:
        return False
    if cursor.head_bytes and digest_at(stream, 0, cursor.head_bytes) != cursor.head:
        return False
    count = min(cursor.offset, PROOF_BYTES)
    return not cursor.tail or digest_at(stream, cursor.offset - count, count) == cursor.tail


def cursor_at(stream: BinaryIO, now: Stat, offset: int, lines: int) -> Cursor:
    """The cursor after whole lines up to `offset`."""
    head_bytes = min(offset, PROOF_BYTES)
    return Cursor(
        now.device,
        now.inode,
        offset,
        lines,
        digest_at(stream, 0, head_bytes) if head_bytes else "",
        head_bytes,
        digest_at(stream, offset - head_bytes, head_bytes) if head_bytes else "",
    )


def blocks(stream: BinaryIO, start: int, end: int, longest: int = LINE_BYTES) -> Iterator[tuple[int, list[bytes]]]:
    """Whole lines of the bytes from `start` up to `end`, without their ends, some at a time.

    Each item: the offset behind these lines, and the lines. A line over `longest` comes as an item `[]` of its own.
    What stands behind the last line end is left. Holds about a block, or one long line once.
    """
    descriptor = stream.fileno()
    at = start  # behind the last whole line that was given
    rest = b""
    read = start
    while read < end:
        block = os.pread(descriptor, min(BLOCK_BYTES, end - read), read)
        if not block:
            return  # cut meanwhile: the next look sees it
        last = block.rfind(b"\n")
        read += len(block)
        if last >= 0:
            # a search for each end is quicker than to split: lines are long
            lines, begun = [], 0
            while begun <= last:
                stop = block.find(b"\n", begun)
                lines.append(block[begun:stop])
                begun = stop + 1
            if rest:
                lines[0] = rest + lines[0]
            behind = read - len(block) + last + 1
            rest = block[last + 1 :]
            at = behind
            yield behind, lines
        elif len(rest) + len(block) < BLOCK_BYTES * 2:
            rest += block
        else:
            rest = block = b""
            line_end = _line_end(descriptor, at, read, end)
            if line_end is None:
                return
            behind = line_end
            size = behind - 1 - at
            line = os.pread(descriptor, size, at) if size <= longest else None
            if line is not None and len(line) != size:
                return
            at = read = behind
            lines = [] if line is None else [line]
            line = None
            yield behind, lines


def _line_end(descriptor: int, start: int, read: int, end: int) -> int | None:
    """The offset behind the line end that follows, None where there is none yet; nothing of the line is held."""
    while read < end:
        block = os.pread(descriptor, min(BLOCK_BYTES, end - read), read)
        if not block:
            return None
        found = block.find(b"\n")
        if found >= 0:
            return read + found + 1
        read += len(block)
    return None
