"""Memory slugs as a durable store: `<slug>.md` in the memory root."""

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from relays.core.lines import recorded
from relays.core.pointers import Answer, Kind, PointerError, Verdict, check_ref
from relays.stores.base import StoreUnavailable
from relays.stores.plainfile import read_plain

_ABSENT: Final = Answer(Verdict.DANGLING, recorded("no such memory file"))


class MemoryStore:
    """Baton contract: resolves when "`<slug>.md` is a regular file inside the memory root after symlinks are resolved".

    `root`: absolute, or None where none is known. `within`: the work tree that it must lie in, links resolved, where it
    was named relative to one; a root that an operator named absolutely may be a link to anywhere.
    """

    kind = Kind.MEMORY

    def __init__(self, root: Path | None, within: Path | None = None) -> None:
        self.root = root
        self.within = within

    def resolve(self, refs: Sequence[str]) -> dict[str, Answer]:
        """The verdict of each slug. Raises StoreUnavailable where the root cannot be read or nobody knows it."""
        if self.root is None:
            raise StoreUnavailable(recorded("no memory folder is known"))
        root = Path(os.path.realpath(self.root))
        if self.within is not None and not root.is_relative_to(os.path.realpath(self.within)):
            raise StoreUnavailable(recorded("the memory folder leads out of the work tree"), where=str(self.root))
        try:
            there = stat.S_ISDIR(root.stat().st_mode) and os.access(root, os.X_OK)
        except FileNotFoundError:
            if not _in_repository(root):
                raise StoreUnavailable(recorded("the memory folder is gone"), where=str(root)) from None
            # git keeps no empty folder: a repository without the folder has no memories
            return {ref: _refused(ref) or _ABSENT for ref in refs}
        except OSError as error:
            raise StoreUnavailable(
                recorded("the memory folder cannot be read: %(error)s", error=error.strerror), where=str(root)
            ) from error
        if not there:
            raise StoreUnavailable(recorded("the memory folder cannot be read"), where=str(root))
        return {ref: _refused(ref) or _look(root, ref) for ref in refs}

    def read(self, slug: str, limit: int) -> bytes:
        """The bytes of one memory. Raises StoreUnavailable, also for more than `limit` bytes."""
        answer = self.resolve([slug])[slug]
        if answer.verdict is not Verdict.VERIFIED or self.root is None:
            raise StoreUnavailable(answer.evidence)
        root = Path(os.path.realpath(self.root))
        place = Path(os.path.realpath(root / f"{slug}.md"))
        if not place.is_relative_to(root):  # it was moved since it was judged
            raise StoreUnavailable(recorded("leads out of the memory folder"))
        raw = read_plain(place, limit, recorded("the memory file"))
        if raw is None:
            raise StoreUnavailable(recorded("no such memory file"))
        return raw


def _refused(slug: str) -> Answer | None:
    try:
        check_ref(Kind.MEMORY, slug)
    except PointerError as refusal:
        return Answer(Verdict.DANGLING, f"refused: {refusal.why}")
    return None


def _look(root: Path, slug: str) -> Answer:
    try:
        place = Path(os.path.realpath(root / f"{slug}.md", strict=True))
        mode = place.stat().st_mode
    except FileNotFoundError:
        return _ABSENT
    except OSError as error:
        return Answer(Verdict.UNKNOWN, recorded("the memory file cannot be read: %(error)s", error=error.strerror))
    if not place.is_relative_to(root):
        return Answer(Verdict.DANGLING, recorded("leads out of the memory folder"))
    if not stat.S_ISREG(mode):
        return Answer(Verdict.DANGLING, recorded("is not a regular file"))
    if not os.access(place, os.R_OK):
        return Answer(Verdict.UNKNOWN, recorded("the memory file cannot be read: no permission"))
    return Answer(Verdict.VERIFIED, recorded("a file in the memory folder"))


def _in_repository(root: Path) -> bool:
    """Whether the nearest folder that exists belongs to a work tree: then the absence is the repository's answer."""
    return any((parent / ".git").exists() for parent in root.parents)
