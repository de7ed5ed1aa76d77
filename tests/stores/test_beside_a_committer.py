"""baton.md, Verdict of one pointer: git is called "so that watching never breaks the agent's own commit". Looking 20
times a second beside an agent that commits as fast as it can: no commit fails, no look locks."""

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


@pytest.mark.timeout(300)
@pytest.mark.django_db
@pytest.mark.parametrize("seconds", [1.5, pytest.param(60.0, marks=pytest.mark.slow)])
def test_no_commit_fails_while_it_is_watched(
    repo: Path, store: GitStore, tmp_path: Path, seconds: float, record_property: Callable[[str, object], None]
) -> None:
    """Looks are due 20 times a second; one that takes longer than its turn lets turns pass, and the rate is printed."""
    path, enough = tmp_path / "tree", tmp_path / "enough"
    add_worktree(store, path, "relay/RLY-1", head(repo))
    index = WorkTree(path).git_dir / "index.lock"
    looks = unknown = turn = 0
    first = head(repo)
    with subprocess.Popen(
        [sys.executable, "-c", COMMITTER, str(enough)], cwd=path, stdout=subprocess.PIPE, text=True
    ) as committer:
        try:
            assert committer.stdout is not None
            committer.stdout.readline()  # it has begun
            started = time.monotonic()
            while turn < seconds * RATE:
                time.sleep(max(0.0, started + turn / RATE - time.monotonic()))
                unknown += not looked(repo, path, tmp_path, first)
                looks += 1
                turn = max(turn + 1, int((time.monotonic() - started) * RATE))
            took = time.monotonic() - started
        finally:
            enough.touch()
        said = committer.stdout.read().splitlines()[-1]
    made, failed, words = said.split("|", 2)
    rate = f"{looks} looks in {took:.1f} s, {looks / took:.1f} a second of {RATE:.0f} due; {made} commits beside them"
    record_property("looks", rate)
    sys.stdout.write(f"{rate}\n")
    assert int(failed) == 0, words
    assert int(made) > 1, "it really committed meanwhile"
    assert unknown == 0
    assert not index.exists()
    assert int(git(path, "rev-list", "--count", f"{first}..HEAD")) == int(made)


def looked(repo: Path, path: Path, folder: Path, first: str) -> bool:
    """One look, as a supervisor takes it at a boundary; whether the tree could be read."""
    fresh = GitStore(repo, folder / "shield")
    tip = fresh.tip("relay/RLY-1")
    asked = [Pointer(Kind.COMMIT, first), Pointer(Kind.FILE, "README.md"), Pointer(Kind.ISSUE, "#1")]
    answers = Stores(fresh, tip, None, "RLY-1", work_tree=path).resolve(asked)
    assert {answer.verdict for answer in answers.values()} == {Verdict.VERIFIED}
    tree = WorkTree(path, common=repo / ".git")
    state = tree.state(parked=True)
    tree.created_shas()
    return state.known
