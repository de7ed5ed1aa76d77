"""A work tree as it stands: dirty paths, git operations under way, what the leg committed in it.

Mission: a safe point needs "no half-written commit / green-or-parked tree". Measured by the runner as the agent's own
user, with the user's git config as the agent's git reads it; of the repository's own config nothing is run.
"""

import os
import re
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from relays.core.lines import recorded
from relays.core.safepoint import TreeState
from relays.stores import dirt, loose, ownconfig, wip
from relays.stores.base import StoreUnavailable
from relays.stores.checkout import add_worktree, checkout_for_command, remove_worktree
from relays.stores.git import GitStore
from relays.stores.gitrun import TIMEOUT, Begun, GitResult, Sink, begin, is_sha, plain, run, text
from relays.stores.plainfile import common_dir, no_traps, read_plain
from relays.stores.reflog import Moves, Reflog, ReflogEntry

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
_ELSEWHERE: Final = re.compile(r"~|\$|file:", re.IGNORECASE)
_STASHED_ON: Final = re.compile(r"(?:WIP on|On) .+?: ")
_LEFT_DETACHED: Final = re.compile(r"checkout: moving from [0-9a-f]{40,64} to ")


FORESEEN: Final = 1.0  # seconds that a look which was begun before is taken for one of now
_NAME_BYTES: Final = 1 << 16  # of a file that holds one path


class WorkTree:
    """The root of one work tree. Methods raise StoreUnavailable, unless they say otherwise.

    `common`: the common git directory of the repository that it must belong to; None: whichever it says.
    """

    def __init__(self, path: Path, common: Path | None = None, depth: int = 0) -> None:
        self.path = path
        self.depth = depth  # how many work trees it lies in
        self._expected = common
        self._git_dir: Path | None = None
        self._link: tuple[int, ...] = ()
        self._config: tuple[tuple[object, ...], str] | None = None
        self._ours = ownconfig.Instead()
        self._logs: dict[Path, Reflog] = {}
        self._foreseen: Begun | None = None
        self._foreseen_index: tuple[tuple[int, ...], Begun] | None = None
        self._entries: tuple[tuple[int, ...], dirt.Entries] | None = None

    @property
    def git_dir(self) -> Path:
        """The work tree's own git directory (in a linked one not the common directory), found anew when `.git` changed.

        Raises StoreUnavailable where `.git` leads to another repository than the one that was named.
        """
        if not self.path.is_dir():
            raise StoreUnavailable(recorded("the work tree is gone"), where=str(self.path))
        link = _identity(self._root() / ".git")
        if self._git_dir is None or link != self._link:
            no_traps(self.path)
            # found from inside, never named: only then does git check who owns it
            out = run(["rev-parse", "--absolute-git-dir"], cwd=self.path, user_config=True).out
            found = Path(os.path.realpath(os.fsdecode(out).removesuffix("\n")))
            self._belongs(found)
            self._git_dir, self._link = found, link
        return self._git_dir

    def _belongs(self, git_dir: Path) -> None:
        if self._expected is None:
            return
        common = common_dir(git_dir)
        back = read_plain(git_dir / "gitdir", _NAME_BYTES, recorded("the link back to the work tree"))
        own = os.path.realpath(self._root()) + "/.git"
        led_back = back is None or os.path.realpath(os.path.dirname(back.strip())) + b"/.git" == os.fsencode(own)
        if common != Path(os.path.realpath(self._expected)) or (common != git_dir and not led_back):
            raise StoreUnavailable(
                recorded("the work tree's .git leads to another repository"),
                where=str(self.path),
                fix=recorded("move that folder away, or put the .git file back"),
            )

    def git(
        self,
        args: Sequence[str],
        *,
        stdin: bytes | None = None,
        env: Mapping[str, str] | None = None,
        ok: Sequence[int] = (0,),
        timeout: float = TIMEOUT,
        sink: Sink | None = None,
    ) -> GitResult:
        """Run git in the work tree, with the user's own config; of the repository's, nothing that runs a program."""
        return self.begin(args, stdin=stdin, env=env).result(ok=ok, timeout=timeout, sink=sink)

    def begin(self, args: Sequence[str], *, stdin: bytes | None = None, env: Mapping[str, str] | None = None) -> Begun:
        """Start git as `git` runs it, and leave the answer for later."""
        git_dir = self.git_dir
        no_traps(self.path)
        # named by us: a `core.worktree` in the repository's own config would aim these commands at another folder
        here = [f"--work-tree={self._root()}", *args]
        around = {**self._ours.env(git_dir, common_dir(git_dir), self._settings(git_dir)), **(env or {})}
        return begin(here, cwd=self.path, stdin=stdin, env=around, user_config=True)

    def foresee(self) -> None:
        """Start what the next `state` asks, so that it runs beside whatever is done until then. Never raises.

        For a caller to whom the tree is the same now and then; what began longer than FORESEEN ago is asked anew. What
        was begun and not asked for yet is left to run.
        """
        if self._in_time():
            return
        self.forget()
        try:
            index = _identity(self.git_dir / "index")
            if self._entries is None or not index or self._entries[0] != index:
                self._foreseen_index = index, self.begin(dirt.index_args(self))
            self._foreseen = self.begin(dirt.STATUS)
        except StoreUnavailable:
            self.forget()

    def _in_time(self) -> bool:
        return self._foreseen is not None and time.monotonic() - self._foreseen.began <= FORESEEN

    def forget(self) -> None:
        """End what `foresee` began and nobody asked for."""
        begun = [self._foreseen, self._foreseen_index and self._foreseen_index[1]]
        self._foreseen = self._foreseen_index = None
        for one in begun:
            if one is not None:
                one.drop()

    def _settings(self, git_dir: Path) -> str:
        """Our config for this repository, made again when its own has changed."""
        common = common_dir(git_dir)
        known = (git_dir, *(_identity(place) for place in (common / "config", git_dir / "config.worktree")))
        if self._config is None or self._config[0] != known:
            self._config = known, ownconfig.harmless(ownconfig.settings(common, git_dir))
        return self._config[1]

    def _root(self) -> Path:
        """The folder at or above `path` that holds `.git`."""
        return next((place for place in (self.path, *self.path.parents) if (place / ".git").exists()), self.path)

    def within(self, path: Path) -> "WorkTree":
        """The work tree of a repository that lies in this one."""
        return WorkTree(path, depth=self.depth + 1)

    def entries(self) -> dirt.Entries:
        """What the index says of other repositories and of entries that git does not look at; read when it changed."""
        index = _identity(self.git_dir / "index")
        foreseen, self._foreseen_index = self._foreseen_index, None
        if self._entries is None or not index or self._entries[0] != index:
            begun = foreseen[1] if foreseen is not None and foreseen[0] == index else None
            self._entries = index, dirt.entries(self, begun)
        return self._entries[1]

    # what it looks like -------------------------------------------------------------------------------------------

    def head(self) -> str:
        """The SHA that HEAD stands at. Raises StoreUnavailable before the first commit."""
        name = loose.head(self.git_dir)
        sha = (loose.ref(common_dir(self.git_dir), name) if name else None) or ""
        if not sha:
            out = self.git(["rev-parse", "-q", "--verify", "HEAD"], ok=(0, 1)).out
            sha = out.decode("ascii", "replace").strip()
        if not is_sha(sha):
            raise StoreUnavailable(recorded("the branch has no commit yet"), where=str(self.path))
        return sha

    def _head_among(self, heads: Mapping[str, str]) -> str:
        """`head()`, without a process where HEAD is a branch whose SHA is at hand, or names a commit itself."""
        said = text(read_plain(self.git_dir / "HEAD", _NAME_BYTES, "HEAD") or b"").strip()
        return said if is_sha(said) else heads.get(said.removeprefix("ref: ")) or self.head()

    def base(self) -> str:
        """The commit that the files here are of: HEAD, or the one before where its branch was moved from elsewhere.

        A push or a reset by ref moves the ref alone: index and files stay, and HEAD's own log does not tell of it.
        """
        head = self.head()
        try:
            moves = self._moves().entries
        except StoreUnavailable:
            return head
        if not moves or moves[-1].new == head:
            return head
        before = moves[-1].new
        kind = self.git(["cat-file", "-t", before], ok=(0, 1, 128)).out.strip()
        return before if kind == b"commit" else head

    def top(self) -> Path:
        """Root of the work tree, symbolic links resolved."""
        return Path(os.path.realpath(self._root()))

    def branch(self) -> str | None:
        """The branch that is checked out, or None when HEAD is detached."""
        said = loose.head(self.git_dir)
        if said is None:
            said = text(self.git(["symbolic-ref", "-q", "HEAD"], ok=(0, 1)).out).strip()
        return said.removeprefix("refs/heads/") or None

    def state(self, parked: bool = False) -> TreeState:
        """The tree now. Never raises: one that cannot be read is `known=False`, and `dirty` has the line that says why.

        `parked`: the agent parked its work. Of the dirty paths those count as parked that `store_wip` can keep whole:
        all but what lies inside another repository (a submodule, or a repository made inside this one), what is no
        file, link or folder, and files that are too large.
        """
        if not self._in_time():
            self.forget()
        foreseen, self._foreseen = self._foreseen, None
        try:
            operation = self.operation()
            found = dirt.scan(self, foreseen)
        except StoreUnavailable as error:
            return TreeState(dirty=(plain(error.evidence),), known=False)
        finally:
            self.forget()
            if foreseen is not None:
                foreseen.drop()
        dirty = tuple(one.path for one in found)
        whole = tuple(one.path for one in found if one.whole)
        if not parked:
            return TreeState(dirty, operation=operation)
        return TreeState(dirty, parked=bool(whole) or not dirty, parked_paths=whole, operation=operation)

    def operation(self) -> str:
        """What git is in the middle of, or ""; `index.lock` is somebody's running command (or its remains)."""
        git_dir = self.git_dir
        return next((name for entry, name in _UNDER_WAY if os.path.lexists(f"{git_dir}/{entry}")), "")

    def stash_count(self) -> int:
        """How many stashes were made on the branch that is checked out here (the list is one for all work trees).

        One whose message names no branch may be anybody's: it counts, because nothing shows that it is not ours.
        """
        entries = self._log(common_dir(self.git_dir) / "logs" / "refs" / "stash").entries
        if not entries:
            return 0
        on = self.branch() or "(no branch)"
        starts = (f"WIP on {on}: ", f"On {on}: ")
        return sum(entry.message.startswith(starts) or not _STASHED_ON.match(entry.message) for entry in entries)

    # what the leg did in it ---------------------------------------------------------------------------------------

    def reflog(self) -> list[ReflogEntry]:
        """Every recorded move of this work tree's HEAD, oldest first; empty where none is kept."""
        return list(self._moves().entries)

    def _moves(self) -> Moves:
        return self._log(self.git_dir / "logs" / "HEAD")

    def _log(self, path: Path) -> Moves:
        if path not in self._logs:
            self._logs[path] = Reflog(path)
        return self._logs[path].moves()

    def created_shas(self, from_line: int = 0) -> list[str]:
        """The commits that were made here (commit, amend, merge, cherry-pick, rebase, revert, am), oldest first.

        `from_line`: length of the reflog when the leg began. A reflog that was shortened since counts whole. Moves to
        commits that exist already (checkout, reset, fast-forward) create nothing.
        """
        return list(dict.fromkeys(self._moves().made_since(from_line)))

    def off_branch(self, git: GitStore, tip: str, from_line: int = 0) -> list[str]:
        """Commits made here since `from_line` that the relay's branch lacks: HEAD, another branch or nobody has them.

        Only ends of such lines are named. A commit that was amended, rebased or reset away is not one: it was given up.
        """
        moves = self._moves()
        made = set(moves.made_since(from_line))
        if made <= git.reached(tip, made):
            return []  # as nearly always, and it is known without a process
        heads = git.refs("refs/heads")
        ends = [self._head_among(heads), *heads.values()]
        ends += [entry.old for entry in moves.since(from_line) if _LEFT_DETACHED.match(entry.message)]
        asked = [sha for sha in dict.fromkeys(ends) if sha in made]
        answers = git.resolve_commits(asked, tip)
        return [sha for sha in asked if answers[sha].verdict != "verified"]

    def files_outside(self, written: Iterable[str]) -> list[str]:
        """Of the paths that an agent wrote (relative ones from the root), those outside the tree, links resolved.

        What lies in a `.git` is outside: no commit holds it. So is a name that a shell would have led elsewhere (`~/x`,
        `$HOME/x`) or that is no path (`file:…`), unless just that name is in the tree.
        """
        root = Path(os.path.realpath(self.path))
        outside: list[str] = []
        for name in dict.fromkeys(written):
            if _ELSEWHERE.match(name) and not os.path.lexists(root / name):
                outside.append(plain(name))
                continue
            try:
                place = Path(os.path.realpath(root / name))
            except (ValueError, OSError):  # a NUL byte, a lone surrogate: no file of ours
                outside.append(plain(name))
                continue
            if not place.is_relative_to(root) or ".git" in place.relative_to(root).parts:
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


def _identity(place: Path) -> tuple[int, ...]:
    """What tells a file from the one that was there before; of a folder only that it is the same folder."""
    try:
        found = place.lstat()
    except OSError:
        return ()
    if stat.S_ISDIR(found.st_mode):
        return found.st_dev, found.st_ino
    return found.st_dev, found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns
