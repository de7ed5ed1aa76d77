"""A relay's own worktree before a leg: it is there, on the relay's branch, and no dead process holds it locked.

An agent may leave HEAD detached, on another branch or in the middle of a rebase, and one that was killed in a commit
leaves its locks; somebody may push to the branch from elsewhere, or prune what ties the folder to the repository.
None of it may keep the relay from going on, and nothing of it is lost: dirty work and the commit that HEAD stood at
are kept under `refs/relay/wip/<relay>/<leg>.found` and `.head`.
"""

import os
import shutil
import time
from pathlib import Path

from relays.agents import tree as processes
from relays.core.lines import recorded
from relays.driver import git
from relays.models import Leg, Relay
from relays.stores import checkout
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore
from relays.stores.plainfile import common_dir
from relays.stores.worktree import WorkTree

LINK_BYTES = 8192  # of a `.git` file; no path is longer
LOCK_AGE = 30.0  # seconds; a lock that is younger may be that of a person's git


def ready(relay: Relay, leg: Leg, start: str, store: GitStore, tree: WorkTree) -> list[str]:
    """Make the worktree, or bring the one that is there back to its branch. Raises StoreUnavailable.

    `store`, `tree`: the relay's own, open already. Returns what was found and done about it, a line each: nothing is
    put aside without a word.
    """
    path = Path(relay.worktree)
    said = (
        [recorded("no repository knew the folder any more; it was tied again")]
        if _tie_again(relay, path, start)
        else []
    )
    own: Path | None = None
    if (path / ".git").is_file():
        own = tree.git_dir
        _drop_left_locks(relay, tree)
        if tree.branch() == relay.branch and (before := _moved_from(tree)):
            # what lies here is that commit, and not the undoing of what came since
            tree.git(["update-ref", "--no-deref", "HEAD", before])
            said.append(recorded("the branch had been moved from elsewhere, and the files here had stayed behind"))
        if tree.branch() != relay.branch:
            said += _leave(relay, leg, tree)
            if tree.branch() != relay.branch:  # else an operation that was dropped led back to it
                checkout.switch_worktree(store, path, relay.branch, start)
    checkout.add_worktree(store, path, relay.branch, start, own)
    return said


def _moved_from(tree: WorkTree) -> str:
    """The commit that lies here where the branch was moved from elsewhere since, "" where all agree."""
    try:
        before = tree.base()
        return "" if before == tree.head() else before
    except StoreUnavailable:
        return ""  # the branch is gone: that is for the ladder to say


def _tie_again(relay: Relay, path: Path, start: str) -> bool:
    """A folder that no repository knows any more (`git worktree prune`, a `.git` file that was removed): its files
    become those of a worktree made anew, so that they are judged, and kept, as any dirty work is.

    Each step may be the last before a crash: the next call goes on from there.
    """
    aside = path.with_name(f"{path.name}.untied")
    if not aside.exists() and (not path.is_dir() or _tied(path) or not any(path.iterdir())):
        return False
    store = git.store(relay)
    if store.tip(relay.branch) is None:
        return False  # or it raises: while the repository does not answer, the folder waits where it is
    if not aside.exists():
        os.rename(path, aside)
    checkout.add_worktree(store, path, relay.branch, start)
    link = (path / ".git").read_bytes()
    (aside / ".git").unlink(missing_ok=True)  # it may be a link to a file of somebody else's
    (aside / ".git").write_bytes(link)
    shutil.rmtree(path)
    os.rename(aside, path)
    return True


def _tied(path: Path) -> bool:
    """Whether the folder names a git directory that is there; one that holds a repository of its own is left alone."""
    link = path / ".git"
    if not link.is_file():
        return os.path.lexists(link)
    try:
        with link.open("rb") as file:
            name = os.fsdecode(file.read(LINK_BYTES)).removeprefix("gitdir:").strip()
    except OSError:
        return True
    return (path / name).is_dir()


def _leave(relay: Relay, leg: Leg, tree: WorkTree) -> list[str]:
    """Keep what is found where HEAD stands, then clean the tree, so that it can be switched."""
    try:
        head = tree.head()
    except StoreUnavailable:
        # a branch without a commit: there is nothing to keep but files, and those are judged against our branch
        tree.git(["symbolic-ref", "HEAD", f"refs/heads/{relay.branch}"])
        return [recorded("HEAD had no commit; it was brought back to the branch")]
    found = store_found(relay, leg, tree)
    name = f"{_name(relay, leg)}.head"
    store = git.store(relay)
    _keep_old(store, name, store.ref(name), head)
    store.update_ref(name, head)
    tree.clean_to_head()
    if not found:
        return [recorded("HEAD stood at %(head)s, kept under %(name)s", head=head[:12], name=name)]
    return [
        recorded(
            "HEAD stood at %(head)s, kept under %(name)s, and the work that was not committed under %(found)s",
            head=head[:12],
            name=name,
            found=found_name(relay, leg),
        )
    ]


def store_found(relay: Relay, leg: Leg, tree: WorkTree) -> str | None:
    """Keep what is found dirty before a leg under `<leg>.found`; None when there is nothing. Raises StoreUnavailable.

    A leg may be started more than once: what an earlier attempt found there stays, under a name of its own.
    """
    name = found_name(relay, leg)
    store = git.store(relay)
    old = store.ref(name)
    aside = _keep_old(store, name, old, "")
    found = tree.store_wip(name, f"Found before leg {leg.number}")
    if aside and store.ref(name) == old:
        store.delete_ref(aside)
    return found


def found_name(relay: Relay, leg: Leg) -> str:
    """The ref of what was found dirty before a leg."""
    return f"{_name(relay, leg)}.found"


def _name(relay: Relay, leg: Leg) -> str:
    return f"refs/relay/wip/{relay.pk}/{leg.number}"


def _keep_old(store: GitStore, name: str, old: str | None, new: str) -> str:
    """Before a ref is pointed elsewhere: a second one at where it stood, "" where there was nothing to keep."""
    if old is None or old == new:
        return ""
    aside = f"{name}.{old[:12]}"
    store.update_ref(aside, old)
    return aside


def _drop_left_locks(relay: Relay, tree: WorkTree) -> None:
    """Remove what a git that was killed left locked. Raises StoreUnavailable while a lock may be a living one's.

    The agent's processes are confirmed gone, the git directory is this worktree's alone and so is the branch; whoever
    else works here has a working folder here. A commit of some paths locks `next-index-<pid>` beside `HEAD`, and in a
    pid namespace each agent's git has the same few pids: one that stays fails every later commit.
    """
    branch = common_dir(tree.git_dir) / "refs" / "heads" / f"{relay.branch}.lock"
    for lock in (*sorted(tree.git_dir.glob("*.lock")), branch):
        try:
            old = time.time() - lock.lstat().st_mtime > LOCK_AGE
        except OSError:
            continue
        if not old or _somebody_works_in(tree.path):
            raise StoreUnavailable(
                recorded("%(name)s is held by another git process", name=lock.name),
                where=str(tree.path),
                fix=recorded("end that process"),
            )
        try:
            if lock.is_dir() and not lock.is_symlink():
                shutil.rmtree(lock)  # no git makes one, and any git is stopped by it
            else:
                lock.unlink(missing_ok=True)
        except OSError as error:
            raise StoreUnavailable(
                recorded("%(name)s cannot be removed: %(error)s", name=lock.name, error=error.strerror),
                where=str(tree.path),
                fix="remove it",
            ) from error


def _somebody_works_in(folder: Path) -> bool:
    root = os.path.realpath(folder)
    for pid in processes.pids():
        try:
            place = os.readlink(f"/proc/{pid}/cwd")
        except OSError:
            continue
        if place == root or place.startswith(f"{root}/"):
            return True
    return False
