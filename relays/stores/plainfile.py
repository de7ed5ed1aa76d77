"""Files of a repository that are read without git: whatever lies in their place, a look ends at once.

House: refs and paths "come from agents and are hostile input". A FIFO would block whoever opens it, a device gives
bytes without end, a file can be larger than the memory: each is "cannot answer", never a wait.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from relays.core.lines import recorded
from relays.stores.base import StoreUnavailable


@contextmanager
def opened(path: Path, what: str) -> Iterator[BinaryIO | None]:
    """A regular file (links followed) to be read, None where there is none.

    `what`: its name in the evidence. Raises StoreUnavailable for anything else than a file, and for one that cannot be
    opened.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    except OSError as error:
        raise StoreUnavailable(
            recorded("%(what)s cannot be read: %(error)s", what=what, error=error.strerror), where=str(path)
        ) from error
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise StoreUnavailable(
                recorded("%(what)s is not a file", what=what),
                where=str(path),
                fix=recorded("remove what lies in its place"),
            )
        yield stream


def rest_of(stream: BinaryIO, start: int, limit: int, what: str, path: Path) -> bytes:
    """The bytes of an open file from `start` on. `limit`: of the whole file, in bytes.

    Raises StoreUnavailable for one that is larger, and one that cannot be read.
    """
    try:
        stream.seek(start)
        content = stream.read(max(limit - start, 0) + 1)
    except OSError as error:
        raise StoreUnavailable(
            recorded("%(what)s cannot be read: %(error)s", what=what, error=error.strerror), where=str(path)
        ) from error
    if start + len(content) > limit:
        raise StoreUnavailable(
            recorded("%(what)s is larger than %(limit)d bytes", what=what, limit=limit), where=str(path)
        )
    return content


def read_plain(path: Path, limit: int, what: str) -> bytes | None:
    """The bytes of a regular file (links followed), None where there is none.

    `limit`: in bytes. `what`: its name in the evidence. Raises StoreUnavailable for anything else than a file, one that
    is larger, and one that cannot be read.
    """
    with opened(path, what) as stream:
        return None if stream is None else rest_of(stream, 0, limit, what, path)


_NAME_BYTES: Final = 1 << 16  # of a file that holds one path


#: what git opens in a common directory before it answers anything
_SHARED: Final = (
    "config",
    "packed-refs",
    "shallow",
    "info/attributes",
    "info/exclude",
    "info/grafts",
    "objects/info/alternates",
)


def common_dir(git_dir: Path) -> Path:
    """The common git directory, resolved: a linked work tree's own one names it in a file. Raises StoreUnavailable."""
    link = read_plain(git_dir / "commondir", _NAME_BYTES, recorded("the link to the common git directory"))
    return git_dir if link is None else Path(os.path.realpath(git_dir / os.fsdecode(link.removesuffix(b"\n"))))


def no_traps(path: Path) -> None:
    """Raise StoreUnavailable where git, asked in that folder, would wait for a FIFO or read a device.

    Where no repository is found, git is left to say so.
    """
    root = next((place for place in (path, *path.parents) if os.path.lexists(place / ".git")), None)
    git_dir = path if root is None else root / ".git"
    if root is not None and git_dir.is_file():
        link = read_plain(git_dir, _NAME_BYTES, recorded("the work tree's .git")) or b""
        git_dir = root / os.fsdecode(link.removeprefix(b"gitdir:").strip())
    common = common_dir(git_dir)
    # plain names: they are looked at before every question about a work tree, and a Path costs more than the look
    own = [f"{git_dir}/{name}" for name in ("HEAD", "index", "gitdir", "config.worktree")]
    shared = [f"{common}/{name}" for name in _SHARED]
    rules = [] if root is None else [f"{root}/{name}" for name in (".gitignore", ".gitattributes", ".gitmodules")]
    for name in [*own, *shared, *rules]:
        try:
            mode = os.stat(name).st_mode
        except (OSError, ValueError):
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a folder keeps nobody waiting: git says what is wrong
            place, _, file = name.rpartition("/")
            raise StoreUnavailable(recorded("%(file)s, which git reads, is not a file", file=file), where=place)
