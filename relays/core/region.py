"""Regions: the globs that a relay may write to, which files lie in them, and when two of them are proven disjoint.

Mission: "Disjointness before fan-out. A relay holds a lane across legs; the baton carries held_region so leg N+1
re-acquires the same lease and does not collide with peers on the shared tree."
"""

from collections.abc import Sequence

from relays.core import disjoint
from relays.core.globs import GLOB_BYTES, glob_matches, glob_problem
from relays.core.sentences import RuleError, phrase, quoted

__all__ = [
    "EVERYTHING",
    "GLOB_BYTES",
    "MAX_GLOBS",
    "RegionError",
    "check_region",
    "glob_matches",
    "glob_problem",
    "matches",
    "proven_disjoint",
]

EVERYTHING: tuple[str, ...] = ("**",)
MAX_GLOBS = 64


class RegionError(RuleError):
    """A glob that is refused: `glob` and `why` (one line)."""

    def __init__(self, glob: str, why: str) -> None:
        super().__init__(phrase("%(glob)s: %(why)s", glob=repr(glob), why=quoted(why)))
        self.glob = glob
        self.why = why


def check_region(globs: Sequence[str]) -> tuple[str, ...]:
    """The globs without repeats, in order; none given means everything.

    Raises RegionError for a hostile glob and for more than 64.
    """
    region = tuple(dict.fromkeys(globs)) or EVERYTHING
    if len(region) > MAX_GLOBS:
        raise RegionError(region[MAX_GLOBS], phrase("more than %(max_globs)s globs", max_globs=MAX_GLOBS))
    for glob in region:
        if problem := glob_problem(glob):
            raise RegionError(glob, problem)
    return region


def matches(region: Sequence[str], path: str) -> bool:
    """True when the file lies in the region; an empty region is everything, as at the start of a relay."""
    return any(glob_matches(glob, path) for glob in region or EVERYTHING)


def proven_disjoint(a: Sequence[str], b: Sequence[str]) -> bool:
    """True only when no path can lie in both regions, whatever the file system takes for one name; none: everything."""
    return disjoint.proven_disjoint(a or EVERYTHING, b or EVERYTHING)
