"""The pointer check: verdicts of many commits, beside raw git asked the same in the shortest way there is.

baton.md, Verdict of one pointer: "One `git rev-list <tip>` decides any number of commits; a second process only says
why one failed."
"""

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench.table import Row, median
from tests.bench.world import history

GOAL = 1.3
GONE = 10  # every tenth of them in the second measurement


def rows(folder: Path, sizes: tuple[int, ...], rounds: int) -> list[Row]:
    found: list[Row] = []
    for size in sizes:
        repo = folder / f"history-{size}"
        shas = history(repo, size)
        some_gone = [sha if place % GONE else f"{place:040x}" for place, sha in enumerate(shas)]
        for asked, words in ((shas, "all there"), (some_gone, "a tenth of them gone")):
            found.append(_measure(repo, folder / "shield", shas[0], asked, f"{size:,} commits, {words}", rounds))
    return found


def _measure(repo: Path, shield: Path, tip: str, asked: list[str], what: str, rounds: int) -> Row:
    from relays.stores.git import GitStore

    def store() -> GitStore:
        """A new one each time, so that it keeps no answer; what it asks once about its place it has asked."""
        made = GitStore(repo, shield)
        assert made.facts.object_format == "sha1"
        return made

    stores = iter([store() for _ in range(rounds + 1)])

    def ours() -> int:
        answers = next(stores).resolve_commits(asked, tip, "main")
        return sum(answer.verdict == "verified" for answer in answers.values())

    def raw() -> int:
        env = {"PATH": _path(), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
        listed = subprocess.run(["git", "rev-list", tip], cwd=repo, env=env, check=True, capture_output=True).stdout
        there = set(listed.split())
        checked = subprocess.run(
            ["git", "cat-file", "--batch-check", "--buffer"],
            cwd=repo,
            env=env,
            input="".join(f"{sha}\n" for sha in asked).encode(),
            check=True,
            capture_output=True,
        ).stdout
        kinds = dict(line.split(b" ", 1) for line in checked.splitlines())
        return sum(sha.encode() in there and kinds[sha.encode()].startswith(b"commit ") for sha in asked)

    if ours() != raw():
        raise RuntimeError(f"{what}: the two ways do not agree, so there is nothing to compare")
    mine, theirs = _in_turn(ours, raw, rounds)
    return Row(
        f"pointer check, {what}",
        median(mine),
        "ms",
        median(theirs),
        "git rev-list + cat-file",
        GOAL,
        of_ratio=True,
        detail={"rounds": rounds, "best": min(mine), "best_peer": min(theirs)},
    )


def _in_turn(one: Callable[[], object], other: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each, one after the other, so that a busy moment strikes both."""
    took: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for act, kept in zip((one, other), took, strict=True):
            begun = time.perf_counter()
            act()
            kept.append((time.perf_counter() - begun) * 1000)
    return took


def _path() -> str:
    import os

    return os.environ["PATH"]
