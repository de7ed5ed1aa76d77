"""Tracked files as a durable store: a path or a gitignore-style glob against the tree at the branch tip.

A pointer is hostile input, and so is a baton with a thousand globs: what is looked at is bounded, and the same for
every process, so that the plan that names the verdicts stays the same byte for byte.
"""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import Final

from relays.core.lines import recorded
from relays.core.pointers import Answer, Kind, PointerError, Verdict, check_ref
from relays.core.region import glob_matches, glob_problem
from relays.stores.git import GitStore


class FileStore:
    """Baton contract: a file pointer resolves when it "matches at least one file tracked at the branch tip"."""

    kind = Kind.FILE

    def __init__(self, git: GitStore, tip: str | None) -> None:
        self.git = git
        self.tip = tip

    def resolve(self, refs: Sequence[str]) -> dict[str, Answer]:
        """The verdict of each path or glob, in one process; `tip` None: the branch is gone, nothing is tracked."""
        answers: dict[str, Answer] = {}
        asked: list[str] = []
        for ref in dict.fromkeys(refs):
            try:
                check_ref(Kind.FILE, ref)
            except PointerError as refusal:
                answers[ref] = Answer(Verdict.DANGLING, f"refused: {refusal.why}")
            else:
                asked.append(ref)
        if not asked:
            return answers
        if self.tip is None:
            return answers | dict.fromkeys(asked, Answer(Verdict.DANGLING, recorded("the branch does not exist")))
        tracked = Tracked(self.git.paths(self.tip))
        return answers | {ref: tracked.judge(ref) for ref in asked}


#: globs times paths that one batch of pointers may cost; some seconds
MATCHES: Final = 2_000_000
_WILD: Final = re.compile(r"[*?[]")


class Tracked:
    """The files of one tree, asked many times. Without a wildcard a question costs no walk through them."""

    def __init__(self, paths: Sequence[str], matches: int = MATCHES) -> None:
        self.paths = sorted(paths)
        self.left = matches

    @cached_property
    def _names(self) -> frozenset[str]:
        """Every path, every folder of one, and every name in one: what a glob without wildcard can match."""
        found: set[str] = set()
        for path in self.paths:
            parts = path.split("/")
            found.update(parts)
            found.update("/".join(parts[:depth]) for depth in range(2, len(parts) + 1))
        # a folder at the root is a name in a path, too
        return frozenset(found)

    def judge(self, ref: str) -> Answer:
        at = bisect_left(self.paths, ref)
        if self.paths[at : at + 1] == [ref]:
            return Answer(Verdict.VERIFIED, recorded("tracked at the tip"))
        problem = glob_problem(ref)
        if problem:
            return Answer(
                Verdict.DANGLING, recorded("no tracked file has that name, and as a glob %(problem)s", problem=problem)
            )
        found = self._any(ref)
        if found is None:
            return Answer(Verdict.UNKNOWN, recorded("too many globs for a tree of %(n)d files", n=len(self.paths)))
        if not found:
            return Answer(Verdict.DANGLING, recorded("matches no file that is tracked at the tip"))
        return Answer(Verdict.VERIFIED, recorded("matches a file that is tracked at the tip"))

    def matches(self, glob: str, most: int) -> list[str]:
        """The paths that a glob, a folder or a name matches, at most `most`; as far as a batch may look."""
        found: list[str] = []
        for path in self.paths:
            if self.left <= 0 or len(found) >= most:
                break
            self.left -= 1
            if glob_matches(glob, path):
                found.append(path)
        return found

    def _any(self, glob: str) -> bool | None:
        """Whether a path matches; None where too much was asked before."""
        wild = _WILD.search(glob)
        if wild is None and not glob.endswith("/"):
            return glob in self._names
        head = glob[: wild.start()] if wild is not None and "/" in glob.rstrip("/") else ""
        first = bisect_left(self.paths, head)
        for at in range(first, len(self.paths)):
            if not self.paths[at].startswith(head):
                break
            if self.left <= 0:
                return None
            self.left -= 1
            if glob_matches(glob, self.paths[at]):
                return True
        return False
