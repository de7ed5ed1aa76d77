"""Commits by what an agent printed of them: abbreviated ids made whole, and what a branch got in a span of time.

Issue of the shadow: "commits in its own tool calls or made in its repository between its times and by its branch". Both
the printed ids and the dates of commits are somebody's word: what is found here is a pointer, judged like any other.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from relays.stores.git import GitStore
from relays.stores.gitrun import is_sha, need_sha

_ABBREVIATED: Final = re.compile(r"[0-9a-f]{4,64}\Z")


def whole_names(store: GitStore, names: Sequence[str]) -> dict[str, str | None]:
    """Each printed id -> the full SHA of the object that it names; None: none, more than one, or it is no id.

    One process. Raises StoreUnavailable.
    """
    found: dict[str, str | None] = dict.fromkeys(names)
    asked = [name for name in found if _ABBREVIATED.match(name) and len(name) <= store.sha_length]
    if asked:
        lines = "".join(f"{name}\n" for name in asked).encode("ascii")
        out = store.objects(["cat-file", "--batch-check=%(objectname)", "--buffer"], stdin=lines).out
        for name, line in zip(asked, out.decode("ascii", "replace").splitlines(), strict=False):
            found[name] = line if is_sha(line) else None
    return found


def made_between(store: GitStore, tip: str, since: datetime, until: datetime, most: int) -> list[tuple[datetime, str]]:
    """The commits that `tip` reaches with a committer's date in that span: (date, SHA), oldest first.

    Both ends are in it; dates are whole seconds. At most `most`, the latest. One process. Raises StoreUnavailable.
    """
    span = [f"--max-age={_seconds(since)}", f"--min-age={_seconds(until)}", f"--max-count={most}"]
    out = store.objects(["rev-list", "--timestamp", *span, need_sha(tip), "--"]).out
    found = []
    for line in out.decode("ascii", "replace").splitlines():
        seconds, _, sha = line.partition(" ")
        if is_sha(sha) and seconds.isdecimal() and _seconds(since) <= int(seconds) <= _seconds(until):
            found.append((datetime.fromtimestamp(int(seconds), UTC), sha))
    return sorted(found)


def _seconds(at: datetime) -> int:
    return max(0, int(at.timestamp()))
