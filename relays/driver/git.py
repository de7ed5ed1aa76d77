"""Open a relay's repository: objects through our own shield, refs from the target."""

from pathlib import Path

from relays.driver import places
from relays.models import Relay
from relays.stores.git import GitStore


def store(relay: Relay) -> GitStore:
    """The relay's repository. Raises StoreUnavailable when it cannot answer."""
    return GitStore(Path(relay.git_dir), places.shield())
