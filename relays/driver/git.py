"""Open a relay's repository and its work tree: objects through our own shield, refs from the target."""

from pathlib import Path

from relays.driver import places
from relays.models import Relay
from relays.stores.git import GitStore
from relays.stores.worktree import WorkTree


def store(relay: Relay) -> GitStore:
    """The relay's repository, and no other; a method raises StoreUnavailable when it cannot answer."""
    return GitStore(Path(relay.git_dir), places.shield(), exact=True)


def tree(relay: Relay) -> WorkTree:
    """The relay's work tree. It cannot answer where its `.git` leads to another repository than the relay's."""
    return WorkTree(Path(relay.worktree), common=Path(relay.git_dir))
