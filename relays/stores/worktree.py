"""A work tree as it stands: dirty paths, git operations under way, what the leg committed in it.

Mission: a safe point needs "no half-written commit / green-or-parked tree". Measured by the runner as the agent's own
user, with the user's git config as the agent's git reads it; hooks and file-system monitors never run.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from relays.core.safepoint import TreeState
from relays.stores import wip
from relays.stores.base import StoreUnavailable
from relays.stores.checkout import add_worktree, checkout_for_command, remove_worktree
from relays.stores.git import GitStore
from relays.stores.gitrun import TIMEOUT, GitResult, is_sha, plain, run, text

__all__ = ["ReflogEntry", "WorkTree", "add_worktree", "checkout_for_command", "remove_worktree"]

#: what lies in the git directory -> the operation that is under way
_UNDER_WAY: Final = (
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("sequencer", "cherry-pick"),
    ("BISECT_LOG", "bisect"),
    ("index.lock", "index.lock"),
)
#: words of the reflog that mean a new commit, when it was no fast-forward; and the steps of a rebase that make one
_CREATES: Final = frozenset({"commit", "cherry-pick", "revert", "am", "merge", "pull"})
_REBASE_CREATES: Final = frozenset({"pick", "reword", "edit", "squash", "fixup", "continue", "merge"})
_STEP: Final = re.compile(r"\(([a-z]+)\)\Z")
_LEFT_DETACHED: Final = re.compile(r"checkout: moving from [0-9a-f]{40,64} to ")


@dataclass(frozen=True, slots=True)
class ReflogEntry:
    """One move of HEAD. `old` is all zeros for the first."""

    old: str
    new: str
    message: str


class WorkTree:
    """The root of one work tree. Methods raise StoreUnavailable, unless they say otherwise."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._git_dir: Path | None = None

    @property
    def git_dir(self) -> Path:
        """The work tree's own git directory (in a linked one not the common directory)."""
        if self._git_dir is None:
            out = self.git(["rev-parse", "--absolute-git-dir"]).out
            self._git_dir = Path(os.path.realpath(os.fsdecode(out).removesuffix("\n")))
        return self._git_dir

    def git(
        self,
        args: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
        timeout: float = TIMEOUT,
    ) -> GitResult:
        """Run git in the work tree, hardened, with the user's own config."""
        if not self.path.is_dir():
            raise StoreUnavailable("the work tree is gone", where=str(self.path))
        # named by us: a `core.worktree` in the repository's own config would aim these commands at another folder
        here = [f"--work-tree={self._root()}", *args]
        return run(here, cwd=self.path, stdin=stdin, env=env, ok=ok, timeout=timeout, user_config=True)

    def _root(self) -> Path:
        """The folder at or above `path` that holds `.git`."""
        return next((place for place in (self.path, *self.path.parents) if (place / ".git").exists()), self.path)

    # what it looks like -------------------------------------------------------------------------------------------

    def head(self) -> str:
        """The SHA that HEAD stands at. Raises StoreUnavailable before the first commit."""
        sha = self.git(["rev-parse", "-q", "--verify", "HEAD"], ok=(0, 1)).out.decode("ascii", "replace").strip()
        if not is_sha(sha):
            raise StoreUnavailable("the branch has no commit yet", where=str(self.path))
        return sha

    def top(self) -> Path:
        """Root of the work tree."""
        out = self.git(["rev-parse", "--show-toplevel"]).out
        return Path(os.fsdecode(out).removesuffix("\n"))

    def branch(self) -> str | None:
        """The branch that is checked out, or None when HEAD is detached."""
        name = text(self.git(["symbolic-ref", "-q", "HEAD"], ok=(0, 1)).out).strip()
        return name.removeprefix("refs/heads/") or None

    def state(self, parked: bool = False) -> TreeState:
        """The tree now. Never raises: one that cannot be read is `known=False`, and `dirty` has the line that says why.

        `parked`: the agent parked its work. Of the dirty paths those count as parked that `store_wip` can keep whole:
        all but what lies inside another repository (a submodule, or a repository made inside this one).
        """
        try:
            operation = self.operation()
            dirty, whole = self._dirty()
        except StoreUnavailable as error:
            return TreeState(dirty=(plain(error.evidence),), known=False)
        if not parked:
            return TreeState(dirty, operation=operation)
        return TreeState(dirty, parked=bool(whole) or not dirty, parked_paths=whole, operation=operation)

    def operation(self) -> str:
        """What git is in the middle of, or ""; `index.lock` is somebody's running command (or its remains)."""
        return next((name for entry, name in _UNDER_WAY if os.path.lexists(self.git_dir / entry)), "")

    def _dirty(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """All dirty paths, and those of them whose content a commit of this repository can hold."""
        args = ["status", "--porcelain=v2", "-z", "--untracked-files=all", "--no-renames", "--no-ahead-behind"]
        dirty: list[str] = []
        whole: list[str] = []
        for token in text(self.git(args).out).split("\0"):
            kind = token[:2]
            if kind == "? ":
                path, inside = token[2:], token.endswith("/")
            elif kind in {"1 ", "u "}:
                words = token.split(" ", 8 if kind == "1 " else 10)
                path, inside = words[-1], words[2][0] == "S" and words[2][2:] != ".."
            else:
                continue
            dirty.append(path)
            if not inside:
                whole.append(path)
        return tuple(dirty), tuple(whole)

    def stash_count(self) -> int:
        """How many stashes were made on the branch that is checked out here (the list is one for all work trees)."""
        on = self.branch() or "(no branch)"
        starts = (f"WIP on {on}: ", f"On {on}: ")
        return sum(entry.message.startswith(starts) for entry in self._log(self._common() / "logs" / "refs" / "stash"))

    def _common(self) -> Path:
        """The common git directory: a linked work tree's own one names it in a file."""
        try:
            link = (self.git_dir / "commondir").read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
        except FileNotFoundError:
            return self.git_dir
        return Path(os.path.realpath(self.git_dir / link))

    # what the leg did in it ---------------------------------------------------------------------------------------

    def reflog(self) -> list[ReflogEntry]:
        """Every recorded move of this work tree's HEAD, oldest first; empty where none is kept."""
        return self._log(self.git_dir / "logs" / "HEAD")

    def _log(self, path: Path) -> list[ReflogEntry]:
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise StoreUnavailable("the reflog cannot be read", where=str(path)) from error
        entries: list[ReflogEntry] = []
        for line in raw.split(b"\n"):
            head, _, message = text(line).partition("\t")
            old, new = [*head.split(" ", 2), "", ""][:2]
            if is_sha(old) and is_sha(new):
                entries.append(ReflogEntry(old, new, plain(message)))
        return entries

    def created_shas(self, from_line: int = 0) -> list[str]:
        """The commits that were made here (commit, amend, merge, cherry-pick, rebase, revert, am), oldest first.

        `from_line`: length of the reflog when the leg began. A reflog that was shortened since counts whole. Moves to
        commits that exist already (checkout, reset, fast-forward) create nothing.
        """
        return list(dict.fromkeys(entry.new for entry in self._since(from_line) if _creates(entry)))

    def _since(self, from_line: int) -> list[ReflogEntry]:
        entries = self.reflog()
        return entries[from_line:] if from_line <= len(entries) else entries

    def off_branch(self, git: GitStore, tip: str, from_line: int = 0) -> list[str]:
        """Commits made here since `from_line` that the relay's branch lacks: HEAD, another branch or nobody has them.

        Only ends of such lines are named. A commit that was amended, rebased or reset away is not one: it was given up.
        """
        entries = self._since(from_line)
        made = {entry.new for entry in entries if _creates(entry)}
        ends = [self.head(), *git.refs("refs/heads").values()]
        ends += [entry.old for entry in entries if _LEFT_DETACHED.match(entry.message)]
        asked = [sha for sha in dict.fromkeys(ends) if sha in made]
        answers = git.resolve_commits(asked, tip)
        return [sha for sha in asked if answers[sha].verdict != "verified"]

    def files_outside(self, written: Iterable[str]) -> list[str]:
        """Of the paths that an agent wrote (relative ones from the root), those outside the tree, links resolved."""
        root = Path(os.path.realpath(self.path))
        outside: list[str] = []
        for name in dict.fromkeys(written):
            try:
                place = Path(os.path.realpath(root / name))
            except (ValueError, OSError):  # a NUL byte, a lone surrogate: no file of ours
                outside.append(plain(name))
                continue
            if not place.is_relative_to(root):
                outside.append(plain(name))
        return outside

    # parked work --------------------------------------------------------------------------------------------------

    def store_wip(self, ref: str, message: str) -> str | None:
        """Keep all dirty work, untracked files included, as a commit under `ref`; None when there is none.

        Its first parent is HEAD. Index and files stay as they are, in the middle of a merge too; ignored files are left
        out. The same work again keeps the commit that is there. The inside of another repository cannot be kept.
        """
        return wip.store(self, ref, message)

    def lay_back(self, sha: str) -> str:
        """Lay parked work onto the clean tree as uncommitted changes: "applied", or "RELAY_WIP_STALE" and still clean.

        Work that lies there already, whole, is "applied". Raises StoreUnavailable where other changes are in the tree.
        """
        return wip.lay_back(self, sha)

    def clean_to_head(self) -> None:
        """Make the tree equal to its branch: an operation under way is dropped, ignored files are kept.

        Whatever is worth keeping was stored before. Waits for nobody: raises StoreUnavailable when the index is locked.
        """
        wip.clean_to_head(self)


def _creates(entry: ReflogEntry) -> bool:
    head, _, what = entry.message.partition(":")
    if entry.old == entry.new or what.strip().lower() == "fast-forward":
        return False
    words = head.split(" ")
    if "rebase" in words or "--rebase" in words:
        step = _STEP.search(head)
        return step is not None and step[1] in _REBASE_CREATES
    return words[0] in _CREATES
