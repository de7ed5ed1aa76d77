"""rules.md, Safe point: parked work is stored under its ref; "The successor lays it back before its agent starts; on
conflict the work stays under the ref, the leg starts clean with `RELAY_WIP_STALE`"."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from relays.stores.worktree import WorkTree
from tests.builders import git
from tests.driver.course import Course, boundary, player, turn, user
from tests.reading import marked

PARKS = [
    *turn(),
    {"do": "write", "path": "README.md", "text": "mine\n"},
    {"do": "write", "path": "new.txt", "text": "new\n"},
    {"kind": "park_tree"},
    *boundary("Go on.", final=True),
    {"do": "exit", "code": 0},
]
RESTS: list[dict[str, Any]] = [*turn(), *boundary("Go on.", final=True), {"do": "exit", "code": 0}]


def parked(course: Callable[..., Course]) -> Course:
    relay = course(done="file:never.txt", **player({"0": PARKS, "*": RESTS}))
    relay.step()
    leg = relay.legs[0]
    assert leg.reason == "RELAY_ROTATED"
    assert leg.wip_sha == git(Path(relay.relay.repo), "rev-parse", f"refs/relay/wip/{relay.pk}/0")
    return relay


def test_it_is_there_again_before_the_next_agent_starts(course: Callable[..., Course]) -> None:
    relay = parked(course)
    assert relay.baton.cursor.wip_tree == relay.legs[0].wip_sha
    relay.step()
    assert relay.legs[1].wip_laid_back == "applied"
    # the second leg changed nothing and did not park: it is held for just that work
    assert set(relay.boundaries(1)[0].hold_detail) >= {"README.md", "new.txt"}


def test_on_conflict_the_leg_starts_clean_and_the_page_says_so(course: Callable[..., Course], client: Client) -> None:
    relay = parked(course)
    repo, branch = Path(relay.relay.repo), relay.relay.branch
    elsewhere = repo.parent / "elsewhere"
    git(repo, "worktree", "add", "-q", "--detach", str(elsewhere), branch)
    (elsewhere / "README.md").write_text("theirs\n")
    git(elsewhere, "commit", "-qam", "The same lines")
    git(repo, "update-ref", f"refs/heads/{branch}", git(elsewhere, "rev-parse", "HEAD"))
    git(relay.worktree, "reset", "-q", "--hard")
    os.unlink(relay.worktree / "new.txt")
    relay.step()
    leg = relay.legs[1]
    assert leg.wip_laid_back == "RELAY_WIP_STALE"
    assert (relay.worktree / "README.md").read_text() == "theirs\n"
    assert git(relay.worktree, "status", "--porcelain") == ""
    assert git(repo, "show", f"refs/relay/wip/{relay.pk}/0:new.txt") == "new"
    client.force_login(user("rae", "reviewer"))
    assert "RELAY_WIP_STALE" in marked(client.get(f"/relays/{relay.pk}/legs/1/"))


def test_what_no_commit_can_hold_is_never_called_parked(
    course: Callable[..., Course], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tracked file that became a FIFO: named at the boundary; the forced end keeps all else and blocks nobody."""
    script = [
        *turn(),
        {"do": "write", "path": "new.txt", "text": "new\n"},
        {"kind": "park_tree"},
        *boundary("Go on.", final=True),
        *boundary("Go on.", final=True),
        {"do": "exit", "code": 0},
    ]
    relay = course(done="file:never.txt", **player(script))
    readme = relay.worktree / "README.md"
    foresee = WorkTree.foresee

    def changed(tree: WorkTree) -> None:
        if readme.is_file():  # as the agent comes to its first boundary, before anything is looked at
            readme.unlink()
            os.mkfifo(readme)
        foresee(tree)

    monkeypatch.setattr(WorkTree, "foresee", changed)
    relay.step()
    assert relay.answers(0) == ["wind_down TREE_DIRTY_UNPARKED", "stop"]
    assert relay.boundaries(0)[0].hold_detail == ["README.md"]
    leg = relay.legs[0]
    assert leg.reason == "RELAY_PARKED_UNSAFE"
    assert git(Path(relay.relay.repo), "show", f"{leg.wip_sha}:new.txt") == "new"
