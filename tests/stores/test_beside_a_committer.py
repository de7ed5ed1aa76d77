"""baton.md, Verdict of one pointer: git is called "so that watching never breaks the agent's own commit". Looking 20
times a second beside an agent that commits as fast as it can: no commit fails, no look locks."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from relays.core.pointers import Kind, Pointer, Verdict
from relays.stores.bundle import Stores
from relays.stores.git import GitStore
from relays.stores.worktree import WorkTree, add_worktree
from tests.builders import git, head

RATE = 20.0  # looks a second
COMMITTER = """
import os, subprocess, sys
made, failed = 0, []
while not os.path.exists(sys.argv[1]):
    with open(f"file-{made % 50}.txt", "w") as file:
        file.write(f"{made}\\n")
    for command in (["add", "-A"], ["commit", "-q", "-m", f"Commit {made}"]):
        done = subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", *command], capture_output=True)
        if done.returncode:
            failed.append(done.stderr.decode())
    made += 1
    print(made, len(failed), failed[:3], sep="|", flush=True)
"""


class Verifier:
    """Looks as a supervisor does at a boundary: its stores and its work tree stay open from one to the next."""

    def __init__(self, repo: Path, path: Path, shield: Path, first: str) -> None:
        self.path, self.first = path, first
        self.store = GitStore(repo, shield)
        self.tree = WorkTree(path, common=repo / ".git")
        self.lines = len(self.tree.reflog())

    def look(self) -> bool:
        """Whether the tree could be read; all else that a look asks is checked here."""
        self.tree.foresee()
        tip = self.store.tip("relay/RLY-1")
        assert tip is not None
        asked = [Pointer(Kind.COMMIT, self.first), Pointer(Kind.FILE, "README.md"), Pointer(Kind.ISSUE, "#1")]
        answers = Stores(self.store, tip, None, "RLY-1", work_tree=self.path).resolve(asked)
        assert {answer.verdict for answer in answers.values()} == {Verdict.VERIFIED}
        known = self.tree.state(parked=True).known
        made = self.tree.created_shas(self.lines)
        # the log is written before the ref: its last line may tell of a commit that the branch has not yet
        assert set(made[:-1]) <= self.store.reached(self.store.tip("relay/RLY-1") or "", made)
        return known


def spent() -> float:
    """Seconds of a processor that this process and its ended children took so far."""
    both = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in both)


def kept_waiting() -> float:
    """Seconds in which somebody on this machine waited for a processor or a disk, or the machine for its own host.

    Infinite where the system does not tell: then nothing can be demanded of the clock.
    """
    try:
        waits = [Path("/proc/pressure", what).read_text().split("total=")[1].split()[0] for what in ("cpu", "io")]
        stolen = Path("/proc/stat").read_text().split("\n", 1)[0].split()[8]
    except (OSError, IndexError):
        return float("inf")
    return sum(map(int, waits)) / 1e6 + int(stolen) / os.sysconf("SC_CLK_TCK")


@pytest.mark.timeout(600)
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("seconds", "kept_open"), [(1.0, False), (1.5, True), pytest.param(60.0, True, marks=pytest.mark.slow)]
)
def test_no_commit_fails_while_it_is_watched(
    repo: Path, tmp_path: Path, seconds: float, kept_open: bool, record_property: Callable[[str, object], None]
) -> None:
    """Looks are due 20 times a second and none is left out: one that comes late is taken at once, so all are made.

    A look takes less of a processor, itself and its children, than its turn: so 20 a second can be made. Over a minute
    at least 19 a second were, but for the time in which somebody was kept waiting by the machine: that is not ours.
    `kept_open`: False opens everything anew for each look, as whoever verifies from outside does.
    """
    path, enough = tmp_path / "tree", tmp_path / "enough"
    first = head(repo)
    add_worktree(GitStore(repo, tmp_path / "shield"), path, "relay/RLY-1", first)
    verifier = Verifier(repo, path, tmp_path / "shield", first)
    due = int(seconds * RATE)
    unknown = 0
    with subprocess.Popen(
        [sys.executable, "-c", COMMITTER, str(enough)], cwd=path, stdout=subprocess.PIPE, text=True
    ) as committer:
        try:
            assert committer.stdout is not None
            committer.stdout.readline()  # it has begun
            started, before, waits = time.monotonic(), spent(), kept_waiting()
            for turn in range(due):
                time.sleep(max(0.0, started + turn / RATE - time.monotonic()))
                verifier = verifier if kept_open else Verifier(repo, path, tmp_path / "shield", first)
                unknown += not verifier.look()
            took, cost, waited = time.monotonic() - started, spent() - before, kept_waiting() - waits
            assert committer.poll() is None, "it committed to the last look"
        finally:
            enough.touch()
        said = committer.stdout.read().splitlines()[-1]
    commits, failed, words = said.split("|", 2)
    line = (
        f"{due} looks in {took:.1f} s, {due / took:.1f} a second of {RATE:.0f} due, {1000 * cost / due:.1f} ms of a"
        f" processor each; {commits} commits beside them, {failed} failed"
    )
    record_property("looks", line)
    sys.stdout.write(f"{line}\n")
    assert int(failed) == 0, words
    assert unknown == 0
    if kept_open:
        assert cost / due < 1 / RATE
    if seconds >= 60:
        assert took <= seconds * RATE / 19 + waited
    assert not (WorkTree(path).git_dir / "index.lock").exists()
    assert int(git(path, "rev-list", "--count", f"{first}..HEAD")) == int(commits) > 1, "it really committed meanwhile"
