"""baton.md, Verdict of one pointer: git is called "so that watching never breaks the agent's own commit". A minute of
looking twenty times a second beside an agent that commits as fast as it can: no commit fails, no look locks."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from relays.core.pointers import Kind, Pointer, Verdict
from relays.stores.bundle import Stores
from relays.stores.git import GitStore
from relays.stores.worktree import WorkTree, add_worktree
from tests.builders import git, head

SECONDS = 60.0
RATE = 20.0  # looks a second
COMMITTER = """
import os, subprocess, sys, time
until, made, failed = time.time() + float(sys.argv[1]), 0, []
while time.time() < until:
    with open(f"file-{made % 50}.txt", "w") as file:
        file.write(f"{made}\\n")
    for command in (["add", "-A"], ["commit", "-q", "-m", f"Commit {made}"]):
        done = subprocess.run(["git", "-c", "user.name=A", "-c", "user.email=a@b", *command], capture_output=True)
        if done.returncode:
            failed.append(done.stderr.decode())
    made += 1
print(made, len(failed), failed[:3], sep="|")
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.django_db
def test_no_commit_fails_while_it_is_watched(repo: Path, store: GitStore, tmp_path: Path) -> None:
    path = tmp_path / "tree"
    add_worktree(store, path, "relay/RLY-1", head(repo))
    index = WorkTree(path).git_dir / "index.lock"
    with subprocess.Popen(
        [sys.executable, "-c", COMMITTER, str(SECONDS)], cwd=path, stdout=subprocess.PIPE, text=True
    ) as committer:
        looks = unknown = 0
        first = head(repo)
        started = time.monotonic()
        while committer.poll() is None:
            fresh = GitStore(repo, tmp_path / "shield")
            tip = fresh.tip("relay/RLY-1")
            asked = [Pointer(Kind.COMMIT, first), Pointer(Kind.FILE, "README.md"), Pointer(Kind.ISSUE, "#1")]
            answers = Stores(fresh, tip, None, "RLY-1", work_tree=path).resolve(asked)
            assert {answer.verdict for answer in answers.values()} == {Verdict.VERIFIED}
            tree = WorkTree(path, common=repo / ".git")
            state = tree.state(parked=True)
            tree.created_shas()
            unknown += not state.known
            looks += 1
            time.sleep(max(0.0, started + looks / RATE - time.monotonic()))
        said = committer.stdout.read() if committer.stdout else ""
    made, failed, words = said.strip().split("|", 2)
    assert int(failed) == 0, words
    assert int(made) > SECONDS  # it really committed, at least once a second on a busy machine
    assert looks > 5 * SECONDS  # up to 20 a second; fewer where the machine is busy
    assert unknown == 0
    assert not index.exists()
    assert int(git(path, "rev-list", "--count", f"{first}..HEAD")) == int(made)
