"""The work that an agent left uncommitted: path by path, whether it is stored, and how large it is.

Rules, Safe point: "stored (untracked files included) as a commit under `refs/relay/wip/<relay>/<leg>` … so that parked
never means lost". A path is said to be stored only where the stored commit holds it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from relays.models import Relay
from relays.reports.gate import store
from relays.reports.sentences import told
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore

PATHS = 200
#: what git calls a change -> our word
_STATES = {"A": "new", "M": "modified", "D": "deleted", "T": "another kind", "R": "renamed", "C": "copied"}


@dataclass(frozen=True, slots=True)
class Path:
    """`stored`: yes, no, or unknown where the repository did not answer. `size` in bytes, None = it has none."""

    path: str
    state: str
    size: int | None
    stored: str


@dataclass(frozen=True, slots=True)
class Parked:
    """`paths`: those that are stored nowhere first. Counts are exact, `paths` holds at most PATHS."""

    paths: tuple[Path, ...]
    stored: int
    lost: int
    problem: str

    @property
    def first_stored(self) -> int:
        """The place of the first stored path: the others lie in the same commit."""
        return next((n for n, one in enumerate(self.paths) if one.stored == "yes"), -1)

    @property
    def more(self) -> int:
        return self.stored + self.lost - len(self.paths) if not self.problem else 0


def parked(relay: Relay, base: str, wip: str, dirty: Sequence[str]) -> Parked:
    """`base`: the commit that the work lay on; `wip`: the commit that stores it, "" = none; `dirty`: as it was judged.

    At most two git processes. Never raises for a store that does not answer.
    """
    if not wip:
        paths = tuple(Path(path, "", None, "no") for path in dirty[:PATHS])
        return Parked(paths, 0, len(dirty), "")
    try:
        kept = _changed(relay, base, wip)
    except StoreUnavailable as error:
        return Parked(tuple(Path(path, "", None, "unknown") for path in dirty[:PATHS]), 0, 0, told(error.evidence))
    names = {one.path for one in kept}
    lost = [path for path in dirty if path not in names and not _inside(path, names)]
    rows = [*(Path(path, "", None, "no") for path in lost), *kept]
    return Parked(tuple(rows[:PATHS]), len(kept), len(lost), "")


def _inside(path: str, names: set[str]) -> bool:
    """A folder counts as stored where something in it is."""
    return path.endswith("/") and any(name.startswith(path) for name in names)


def _changed(relay: Relay, base: str, wip: str) -> list[Path]:
    place = store(relay)
    said = place.objects(["diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", base, wip, "--"]).out
    parts = said.decode("utf-8", "replace").split("\0")
    found: list[tuple[str, str, str]] = []
    for head, path in zip(parts[0::2], parts[1::2], strict=False):
        words = head.lstrip(":").split()
        if len(words) == 5:
            found.append((path, _STATES.get(words[4][:1], words[4]), "" if words[4][:1] == "D" else words[3]))
    sizes = _sizes(place, [blob for _, _, blob in found[:PATHS] if blob])
    return [Path(path, state, sizes.get(blob), "yes") for path, state, blob in found]


def _sizes(place: GitStore, blobs: Sequence[str]) -> dict[str, int]:
    if not blobs:
        return {}
    text = "".join(f"{blob}\n" for blob in blobs).encode()
    said = place.objects(["cat-file", "--batch-check=%(objectname) %(objectsize)"], stdin=text).out
    sizes = {}
    for line in said.decode("ascii", "replace").splitlines():
        name, _, size = line.partition(" ")
        if size.isdecimal():
            sizes[name] = int(size)
    return sizes
