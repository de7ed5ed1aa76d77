"""What lies in a file of its own in a repository, read without a process: a ref, and an object that was just made.

Only what proves itself is an answer: a ref's file that says a whole SHA, and an object whose bytes hash to its name.
For all else (packed, borrowed from another store, torn, of an odd form) the answer is None: git is asked what it is.
"""

import hashlib
import os
import re
import stat
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from relays.stores.base import BadName
from relays.stores.gitrun import need_ref

OBJECT_BYTES: Final = 4 << 20  # of one object; git is asked for larger ones
COMMITS: Final = 256  # that are walked before git does it
FOLDERS: Final = 512  # of one tree that are read anew before git does it

_REF: Final = re.compile(rb"([0-9a-f]{40}|[0-9a-f]{64})\n?")
_HEAD: Final = re.compile(rb"ref: (refs/heads/[^\n]+)\n")
_OWN_FILE: Final = ("refs/heads/", "refs/relay/")  # the same for every work tree of a repository
_COMMIT: Final = re.compile(rb"tree ([0-9a-f]{40,64})\n((?:parent [0-9a-f]{40,64}\n)*)author ")
_ENTRY: Final = re.compile(rb"(40000|100644|100755|100664|120000|160000) ([^\0/]+)\0", re.DOTALL)
_TREE: Final = b"40000"
_SUBMODULE: Final = b"160000"


@dataclass(frozen=True, slots=True)
class Listing:
    """Every tracked file of a tree, as bytes in their order; and the tree of each folder in it."""

    files: tuple[bytes, ...]
    folders: Mapping[bytes, str]
    places: tuple[bytes, ...]  # of the folders, in their order

    @classmethod
    def of(cls, files: Iterable[bytes], folders: Mapping[bytes, str]) -> "Listing":
        return cls(tuple(sorted(files)), folders, tuple(sorted(folders)))


def ref(git_dir: Path, name: str) -> str | None:
    """The SHA of a ref that has a file of its own, which git too takes before any other."""
    if not name.startswith(_OWN_FILE):
        return None
    raw = read(git_dir / name, 200)
    found = _REF.fullmatch(raw) if raw is not None else None
    return found[1].decode("ascii") if found is not None and found[1].strip(b"0") else None


def head(git_dir: Path) -> str | None:
    """The branch that a work tree's HEAD names, as a full ref name; None where there is none, or only git can tell."""
    found = _HEAD.fullmatch(read(git_dir / "HEAD", 4096) or b"")
    try:
        return need_ref(found[1].decode()) if found is not None else None
    except (BadName, UnicodeDecodeError):
        return None


def commit(store: Path, sha: str) -> tuple[str, tuple[str, ...]] | None:
    """Tree and parents of a commit."""
    body = _object(store, sha, b"commit")
    found = _COMMIT.match(body) if body is not None else None
    if found is None:
        return None
    parents = tuple(line.decode("ascii") for line in found[2].split()[1::2])
    tree = found[1].decode("ascii")
    return (tree, parents) if all(len(one) == len(sha) for one in (tree, *parents)) else None


def above(store: Path, tip: str, last: str, reach: frozenset[str]) -> frozenset[str] | None:
    """The commits that `tip` has and `reach`, which is all that `last` reaches, has not.

    None too where `tip` does not stand on `last`.
    """
    new: set[str] = set()
    queue = [tip]
    stands = False
    while queue:
        sha = queue.pop()
        if sha in reach:
            stands = stands or sha == last
        elif sha not in new:
            found = commit(store, sha) if len(new) < COMMITS else None
            if found is None:
                return None
            new.add(sha)
            queue.extend(found[1])
    return frozenset(new) if stands else None


def listing(store: Path, root: str, before: Listing) -> Listing | None:
    """The files of a tree that differs a little from one that is known: only folders that changed are read."""
    files: list[bytes] = []
    folders: dict[bytes, str] = {}
    queue = [(b"", root)]
    read = 0
    while queue:
        place, sha = queue.pop()
        if place:
            folders[place] = sha
        if before.folders.get(place) == sha:
            files += _inside(place, before.files)
            folders.update((one, before.folders[one]) for one in _inside(place, before.places))
            continue
        entries = _entries(store, sha) if read < FOLDERS else None
        if entries is None:
            return None
        read += 1
        for mode, name, of in entries:
            path = place + b"/" + name if place else name
            if mode == _TREE:
                queue.append((path, of))
            elif mode != _SUBMODULE:
                files.append(path)
    return Listing.of(files, folders)


def blob(store: Path, root: str, path: str) -> tuple[bytes | None] | None:
    """(The bytes of a file in a tree,), (None,) where there is none; None where git must be asked."""
    sha, *names = root, *path.encode().split(b"/")
    while names:
        entries = _entries(store, sha)
        if entries is None:
            return None
        found = next(((mode, of) for mode, name, of in entries if name == names[0]), None)
        if found is None or (found[0] == _TREE) != (len(names) > 1) or found[0] == _SUBMODULE:
            return (None,)
        sha = found[1]
        del names[0]
    body = _object(store, sha, b"blob")
    return None if body is None else (body,)


def _inside(place: bytes, paths: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Those of sorted paths that lie in a folder; "0" is what comes after "/"."""
    return paths[bisect_left(paths, place + b"/") : bisect_left(paths, place + b"0")]


def _entries(store: Path, sha: str) -> list[tuple[bytes, bytes, str]] | None:
    """Mode, name and object of each entry of a tree; None for one that git might read otherwise."""
    body = _object(store, sha, b"tree")
    if body is None:
        return None
    size = len(sha) // 2
    found: list[tuple[bytes, bytes, str]] = []
    at = 0
    while at < len(body):
        head = _ENTRY.match(body, at)
        at = head.end() + size if head is not None else 0
        if head is None or at > len(body):
            return None
        found.append((head[1], head[2], body[at - size : at].hex()))
    return found if len({name for _, name, _ in found}) == len(found) else None


def _object(store: Path, sha: str, kind: bytes) -> bytes | None:
    """The content of a loose object of that kind, proven by its name."""
    raw = read(store / sha[:2] / sha[2:], OBJECT_BYTES)
    if raw is None:
        return None
    try:
        unpack = zlib.decompressobj()
        whole = unpack.decompress(raw, OBJECT_BYTES)
    except zlib.error:
        return None
    if not unpack.eof:
        return None
    named = hashlib.sha256(whole) if len(sha) == 64 else hashlib.sha1(whole, usedforsecurity=False)
    head, _, body = whole.partition(b"\0")
    return body if named.hexdigest() == sha and head == kind + b" %d" % len(body) else None


def read(path: Path, limit: int) -> bytes | None:
    """The bytes of a regular file that is no link, None where there is none or it is larger; never waits."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY | os.O_NOFOLLOW)
    except (OSError, ValueError):
        return None
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) or found.st_size > limit:
            return None
        parts: list[bytes] = []
        left = limit + 1
        while left > 0 and (chunk := os.read(handle, left)):
            parts.append(chunk)
            left -= len(chunk)
        return b"".join(parts) if left > 0 else None
    except OSError:
        return None
    finally:
        os.close(handle)
