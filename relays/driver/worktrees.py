"""A relay's own worktree before a leg: it is there, on the relay's branch, and no dead process holds its index.

An agent may leave HEAD detached, on another branch or in the middle of a rebase, and one that was killed in a commit
leaves `index.lock`. None of it may keep the relay from going on, and nothing of it is lost: dirty work and the commit
that HEAD stood at are kept under `refs/relay/wip/<relay>/<leg>.found` and `.head`.
"""

import os
import time
from pathlib import Path

from relays.agents import tree as processes
from relays.driver import git
from relays.models import Leg, Relay
from relays.stores import checkout
from relays.stores.base import StoreUnavailable
from relays.stores.worktree import WorkTree

LOCK_AGE = 30.0  # seconds; a lock that is younger may be that of a person's git


def ready(relay: Relay, leg: Leg, start: str) -> None:
    """Make the worktree, or bring the one that is there back to its branch. Raises StoreUnavailable."""
    path = Path(relay.worktree)
    if (path / ".git").is_file():
        tree = WorkTree(path)
        _drop_left_lock(tree)
        if tree.branch() != relay.branch:
            _leave(relay, leg, tree)
            if tree.branch() != relay.branch:  # else an operation that was dropped led back to it
                checkout.switch_worktree(git.store(relay), path, relay.branch, start)
    checkout.add_worktree(git.store(relay), path, relay.branch, start)


def _leave(relay: Relay, leg: Leg, tree: WorkTree) -> None:
    """Keep what is found where HEAD stands, then clean the tree, so that it can be switched."""
    try:
        head = tree.head()
    except StoreUnavailable:
        # a branch without a commit: there is nothing to keep but files, and those are judged against our branch
        tree.git(["symbolic-ref", "HEAD", f"refs/heads/{relay.branch}"])
        return
    name = f"refs/relay/wip/{relay.pk}/{leg.number}"
    tree.store_wip(f"{name}.found", f"Found before leg {leg.number}")
    git.store(relay).update_ref(f"{name}.head", head)
    tree.clean_to_head()


def _drop_left_lock(tree: WorkTree) -> None:
    """The agent's processes are confirmed gone; whoever else works here has a working folder here."""
    lock = tree.git_dir / "index.lock"
    try:
        old = time.time() - lock.lstat().st_mtime > LOCK_AGE
    except OSError:
        return
    if old and not _somebody_works_in(tree.path):
        lock.unlink(missing_ok=True)


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
