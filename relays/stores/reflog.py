"""The log of a work tree's HEAD, read as it grows: what was read once is not read again.

Rules, Verified progress: commits count that were "created by its HEAD reflog during the leg". An agent may commit for
hours, and its log is looked at beside it: a look costs what was added since the last one, not what the log holds.
"""

import os
import re
import stat
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final

from relays.stores.gitrun import is_sha, plain, text
from relays.stores.plainfile import opened, rest_of

REFLOG_BYTES: Final = 64 << 20  # some 350,000 moves of HEAD
PROOF: Final = 4096  # bytes before the place where reading stopped that must be as they were

#: words of the reflog that mean a new commit, when it was no fast-forward; and the steps of a rebase that make one
_CREATES: Final = frozenset({"commit", "cherry-pick", "revert", "am", "merge", "pull"})
_REBASE_CREATES: Final = frozenset({"pick", "reword", "edit", "squash", "fixup", "continue", "merge"})
_STEP: Final = re.compile(r"\(([a-z]+)\)\Z")
_WHAT: Final = "the reflog"


@dataclass(frozen=True, slots=True)
class ReflogEntry:
    """One move of HEAD. `old` is all zeros for the first."""

    old: str
    new: str
    message: str

    @property
    def creates(self) -> bool:
        """Whether it made a commit; a move to one that exists already (checkout, reset, fast-forward) makes none."""
        head, _, what = self.message.partition(":")
        if self.old == self.new or what.strip().lower() == "fast-forward":
            return False
        words = head.split(" ")
        if "rebase" in words or "--rebase" in words:
            step = _STEP.search(head)
            return step is not None and step[1] in _REBASE_CREATES
        return words[0] in _CREATES


@dataclass(slots=True)
class Moves:
    """The moves of one log, oldest first. `made`: the place in `entries` and the SHA of each that made a commit.

    To be read only: the next look adds to it.
    """

    entries: list[ReflogEntry] = field(default_factory=list)
    made: list[tuple[int, str]] = field(default_factory=list)

    def since(self, from_line: int) -> list[ReflogEntry]:
        """Those after the first `from_line`; all of them where there are not so many: the log was shortened."""
        return self.entries[self._start(from_line) :]

    def made_since(self, from_line: int) -> list[str]:
        """The commits that those moves made, oldest first."""
        first = bisect_left(self.made, (self._start(from_line), ""))
        return [sha for _, sha in self.made[first:]]

    def _start(self, from_line: int) -> int:
        return from_line if from_line <= len(self.entries) else 0

    def add(self, lines: bytes) -> None:
        for line in lines.split(b"\n"):
            head, _, message = text(line).partition("\t")
            old, new = [*head.split(" ", 2), "", ""][:2]
            if is_sha(old) and is_sha(new):
                entry = ReflogEntry(old, new, plain(message))
                if entry.creates:
                    self.made.append((len(self.entries), new))
                self.entries.append(entry)


class Reflog:
    """One log. The same file that only grew is read from where the last look stopped; any other is read whole.

    That it only grew is proven by what it is (device and inode: git writes a log that it shortens anew, beside it), by
    its length, and by the bytes before that place, which are compared with those that were read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._moves = Moves()
        self._seen: tuple[int, ...] = ()  # what the file was when it was looked at last
        self._read = 0  # bytes of whole lines that are in `_moves`
        self._proof = b""  # the last of them
        self._torn = b""  # what came after the last line end

    def moves(self) -> Moves:
        """Every recorded move as of now; none where no log is kept. Raises StoreUnavailable."""
        try:
            there = self.path.stat()
        except OSError:
            there = None  # it is opened all the same: that says what is wrong
        if there is not None and self._seen and _identity(there) == self._seen:
            return self._whole()
        with opened(self.path, _WHAT) as stream:
            if stream is None:
                self._forget()
                return self._moves
            found = os.fstat(stream.fileno())
            if not self._grew(stream, found):
                self._forget()
            self._seen = ()  # until all of it is read
            self._take(rest_of(stream, self._read, REFLOG_BYTES, _WHAT, self.path))
            self._seen = _identity(found)
        return self._whole()

    def _grew(self, stream: BinaryIO, found: os.stat_result) -> bool:
        if not self._seen or self._seen[:2] != (found.st_dev, found.st_ino) or found.st_size < self._read:
            return False
        stream.seek(self._read - len(self._proof))
        return stream.read(len(self._proof)) == self._proof

    def _take(self, new: bytes) -> None:
        whole, end, self._torn = new.rpartition(b"\n")
        lines = whole + end
        self._moves.add(lines)
        self._read += len(lines)
        self._proof = (self._proof + lines[-PROOF:])[-PROOF:]

    def _whole(self) -> Moves:
        """With the last line, where it has no end yet: the next look reads it again."""
        if not self._torn:
            return self._moves
        moves = Moves(list(self._moves.entries), list(self._moves.made))
        moves.add(self._torn)
        return moves

    def _forget(self) -> None:
        self._moves, self._seen, self._read, self._proof, self._torn = Moves(), (), 0, b"", b""


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, stat.S_IFMT(found.st_mode), found.st_size, found.st_mtime_ns
