"""baton.md, Verdict of one pointer, from outside: `check-baton` and `plan` in every state that a repository can be in.

The exits are those that scripts rely on (interface.md): 0 fresh, 3 stale, 7 unknown; never a traceback, never a guess.
"""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builders import commit, git, head, make_repo
from tests.management.batonfiles import baton, write
from tests.management.conftest import Cli

pytestmark = pytest.mark.django_db

FILES = {"README.md": "x\n", ".relay/issues.jsonl": '{"number": 1, "title": "t", "state": "open"}\n'}
Made = tuple[Path, str]


def usual(folder: Path) -> Made:
    repo = make_repo(folder / "repo", FILES)
    return repo, commit(repo, {"a.txt": "a\n"}, "Work")


def bare(folder: Path) -> Made:
    repo, sha = usual(folder)
    git(folder, "clone", "-q", "--bare", str(repo), str(folder / "bare.git"))
    return folder / "bare.git", sha


def detached(folder: Path) -> Made:
    repo, sha = usual(folder)
    git(repo, "checkout", "-q", "--detach")
    git(repo, "branch", "-q", "-D", "main")
    return repo, sha


def sha256(folder: Path) -> Made:
    repo = make_repo(folder / "wide", FILES, object_format="sha256")
    return repo, head(repo)


def packed(folder: Path) -> Made:
    repo, sha = usual(folder)
    git(repo, "gc", "-q")
    return repo, sha


def linked(folder: Path) -> Made:
    repo, sha = usual(folder)
    git(repo, "worktree", "add", "-q", "-b", "other", str(folder / "linked"))
    return folder / "linked", sha


def submodule(folder: Path) -> Made:
    repo, sha = usual(folder)
    outer = make_repo(folder / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repo), "part")
    return outer / "part", sha


def git_folder_of_a_lost_submodule(folder: Path) -> Made:
    part, sha = submodule(folder)
    shutil.rmtree(part)
    return folder / "outer" / ".git" / "modules" / "part", sha


def shallow(folder: Path) -> Made:
    repo, sha = usual(folder)
    git(folder, "clone", "-q", "--depth=1", f"file://{repo}", str(folder / "cut"))
    return folder / "cut", sha


def shallow_before(folder: Path) -> Made:
    repo, _ = usual(folder)
    git(folder, "clone", "-q", "--depth=1", f"file://{repo}", str(folder / "cut"))
    return folder / "cut", head(repo, "HEAD^")


def amended(folder: Path) -> Made:
    repo, sha = usual(folder)
    git(repo, "commit", "-q", "--amend", "-m", "Said differently")
    return repo, sha


def unconnected(folder: Path) -> Made:
    repo, sha = usual(folder)
    git(repo, "checkout", "-q", "--orphan", "alone")
    commit(repo, {"b.txt": "b\n"}, "Alone")
    return repo, sha


def empty(folder: Path) -> Made:
    _, sha = usual(folder)
    git(folder, "init", "-q", "-b", "main", "new")
    return folder / "new", sha


def main_repository_moved(folder: Path) -> Made:
    place, sha = linked(folder)
    shutil.move(folder / "repo", folder / "away")
    return place, sha


def torn(folder: Path) -> Made:
    repo, sha = usual(folder)
    (repo / ".git" / "objects" / sha[:2] / sha[2:]).unlink()
    return repo, sha


STATES: list[tuple[Callable[[Path], Made], int, str]] = [
    *((make, 0, "") for make in (usual, bare, detached, sha256, packed, linked, submodule, shallow)),
    (git_folder_of_a_lost_submodule, 0, ""),
    (amended, 3, "exists, not on main"),
    (unconnected, 3, "exists, not on alone"),
    (empty, 3, "main does not exist"),
    (shallow_before, 7, "the clone is shallow and cannot prove more"),
    (main_repository_moved, 7, "no such repository"),
    (torn, 7, "git cannot answer"),
]


@pytest.mark.parametrize(("make", "code", "evidence"), STATES, ids=lambda value: getattr(value, "__name__", ""))
def test_from_outside_each_state_has_its_verdict(
    cli: Cli, tmp_path: Path, make: Callable[[Path], Made], code: int, evidence: str
) -> None:
    place, sha = make(tmp_path)
    file = write(tmp_path, baton("RLY-elsewhere", sha, artifacts=[{"kind": "commit", "ref": sha}]))
    checked = cli("check-baton", file, "--repo", place, "--json")
    planned = cli("plan", file, "--repo", place, "--json")
    assert (checked.code, planned.code) == (code, code), checked.json
    assert checked.json["path"] == ("progress_cursor.start_sha" if code else None)
    judged = {check["verdict"] for check in checked.json["checks"] if check["step"] == 6}
    assert judged == {{0: "verified", 3: "dangling", 7: "unknown"}[code]}
    told = [check["evidence"] for check in checked.json["checks"] if check["path"] == "progress_cursor.start_sha"]
    assert evidence in told[0]
    assert str(tmp_path) not in json.dumps([checked.json, planned.json])
    assert planned.json["cursor"]["rebuilt"] is (make is amended)
