"""Every dirty path of a work tree, whatever settings, index bits or submodules try to hide, and what can be parked.

Mission: "green-or-parked tree". Rules, Safe point: every dirty path is explicitly parked, "so that parked never means
lost": a path whose content a commit cannot hold whole is dirty and cannot be parked.
"""

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from relays.core.lines import recorded
from relays.stores.base import StoreUnavailable
from relays.stores.gitrun import Begun, Capped, plain, text

if TYPE_CHECKING:
    from relays.stores.worktree import WorkTree

STATUS_BYTES: Final = 16 << 20  # of `status`: some 200,000 paths
INDEX_BYTES: Final = 128 << 20  # of `ls-files`: some 1,500,000 entries
PARK_BYTES: Final = 256 << 20  # the largest file that is parked; larger ones belong into the agent's own commit
REPOSITORIES: Final = 32  # inside the work tree; more are not looked into
DEPTH: Final = 3  # of repositories in repositories
MORE: Final = recorded("more changed paths than can be listed")

#: it is not sent into submodules: their own config would be obeyed there
STATUS: Final = (
    "status",
    "--porcelain=v2",
    "-z",
    "--untracked-files=all",
    "--no-renames",
    "--no-ahead-behind",
    "--ignore-submodules=dirty",
)

_ENTRY: Final = re.compile(rb"(.) ([0-7]{6}) ([0-9a-f]{40,64}) [0-3]\t(.+)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Dirt:
    """One dirty path. `raw`: its bytes, from the root. `inside`: what is dirty lies inside another repository.

    `odd`: it is neither file, link nor folder now. `size`: bytes of a file. `hidden`: an index bit keeps it from git.
    """

    raw: bytes
    inside: bool = False
    odd: bool = False
    size: int = 0
    hidden: bool = False

    @property
    def path(self) -> str:
        return text(self.raw)

    @property
    def whole(self) -> bool:
        """Whether a commit of this repository can hold what lies there."""
        return not self.inside and not self.odd and self.size <= PARK_BYTES


@dataclass(frozen=True, slots=True)
class Entries:
    """Of the index: places of other repositories, and entries that git was told not to look at (path -> SHA)."""

    repositories: tuple[bytes, ...]
    unseen: tuple[tuple[bytes, str], ...]


def scan(tree: "WorkTree", foreseen: Begun | None = None) -> tuple[Dirt, ...]:
    """All dirt, in the order of `git status`; then what that does not show. Raises StoreUnavailable.

    `foreseen`: a `git status` that was begun before.
    """
    root = os.fsencode(tree.top())
    entries = tree.entries()
    within = _dirty_repositories(tree, root, entries.repositories)
    found: dict[bytes, Dirt] = {}
    for raw, inside in _status(tree, foreseen):
        found[raw] = _look(root, raw, inside or raw in within)
    for raw in _changed_unseen(tree, root, entries.unseen):
        found.setdefault(raw, _look(root, raw, False, hidden=True))
    for raw in within:
        found.setdefault(raw, Dirt(raw, inside=True))
    return tuple(found.values())


def _status(tree: "WorkTree", foreseen: Begun | None) -> list[tuple[bytes, bool]]:
    """What git itself calls changed."""
    sink = Capped(STATUS_BYTES)
    result = (foreseen or tree.begin(STATUS)).result(sink=sink)
    if "could not open directory" in result.err:
        raise StoreUnavailable(recorded("a folder of the work tree cannot be read"), where=str(tree.path))
    found: list[tuple[bytes, bool]] = []
    tokens = bytes(sink.kept).split(b"\0")
    for token in tokens[:-1]:  # the last one is empty, or cut
        kind = token[:2]
        if kind == b"? ":
            found.append((token[2:], token.endswith(b"/")))
        elif kind in {b"1 ", b"u "}:
            words = token.split(b" ", 8 if kind == b"1 " else 10)
            found.append((words[-1], words[2][:1] == b"S" and words[2][2:] != b".."))
    if sink.full:
        found.append((MORE.encode(), True))
    return found


def _look(root: bytes, raw: bytes, inside: bool, hidden: bool = False) -> Dirt:
    try:
        there = os.lstat(os.path.join(root, raw))
    except (OSError, ValueError):
        return Dirt(raw, inside, hidden=hidden)  # it is gone: a removal, which a commit holds
    mode = there.st_mode
    odd = not (stat.S_ISREG(mode) or stat.S_ISLNK(mode) or stat.S_ISDIR(mode))
    return Dirt(raw, inside, odd, there.st_size if stat.S_ISREG(mode) else 0, hidden)


def index_args(tree: "WorkTree") -> list[str]:
    """What `entries` asks git."""
    return ["-C", str(tree.top()), "ls-files", "-v", "--stage", "-z"]


def entries(tree: "WorkTree", foreseen: Begun | None = None) -> Entries:
    """The index, read once: other repositories in it, and entries marked assume-unchanged or skip-worktree.

    `foreseen`: a process that was begun before.
    """
    sink = Capped(INDEX_BYTES)
    (foreseen or tree.begin(index_args(tree))).result(sink=sink)
    if sink.full:
        raise StoreUnavailable(recorded("the index is too large to be looked through"), where=str(tree.path))
    places: list[bytes] = []
    unseen: list[tuple[bytes, str]] = []
    for token in bytes(sink.kept).split(b"\0"):
        if token[:1] == b"H" and token[2:8] != b"160000":
            continue
        entry = _ENTRY.fullmatch(token)
        if entry is None:
            continue
        if entry[2] == b"160000":
            places.append(entry[4])
        if entry[1].islower() or entry[1] == b"S":
            unseen.append((entry[4], entry[3].decode("ascii")))
    return Entries(tuple(dict.fromkeys(places)), tuple(unseen))


def _changed_unseen(tree: "WorkTree", root: bytes, unseen: tuple[tuple[bytes, str], ...]) -> list[bytes]:
    """Of the entries that git does not look at, those whose file differs (one that is absent may be sparse)."""
    asked: list[tuple[bytes, str]] = []
    changed: list[bytes] = []
    for raw, sha in unseen:
        try:
            mode = os.lstat(os.path.join(root, raw)).st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode) and b"\n" not in raw and b'"' not in raw:
            asked.append((raw, sha))
        else:
            changed.append(raw)
    if asked:
        lines = b"".join(raw + b"\n" for raw, _ in asked)
        out = tree.git(["-C", os.fsdecode(root), "hash-object", "--stdin-paths"], stdin=lines).out.split()
        changed += [raw for (raw, sha), now in zip(asked, out, strict=True) if now.decode("ascii") != sha]
    return changed


def _dirty_repositories(tree: "WorkTree", root: bytes, places: tuple[bytes, ...]) -> frozenset[bytes]:
    """Of the repositories in the index, those whose own work tree is dirty or cannot be read; asked as carefully."""
    there = [raw for raw in places if os.path.lexists(os.path.join(root, raw, b".git"))]
    dirty = set(there[REPOSITORIES:]) if tree.depth < DEPTH else set(there)
    for raw in there[:REPOSITORIES] if tree.depth < DEPTH else []:
        state = tree.within(Path(os.fsdecode(os.path.join(root, raw)))).state()
        if state.dirty or state.operation or not state.known:
            dirty.add(raw)
    return frozenset(dirty)


def too_large(found: tuple[Dirt, ...]) -> str:
    """The first path that is too large to be parked, as evidence; "" where there is none."""
    return next(
        (
            recorded("%(what)s is larger than %(limit)d bytes", what=plain(one.path), limit=PARK_BYTES)
            for one in found
            if one.size > PARK_BYTES
        ),
        "",
    )
