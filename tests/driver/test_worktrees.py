"""What an agent leaves of its worktree (HEAD elsewhere, a lock): the relay goes on, and nothing is lost."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relays.models import RelayStatus
from tests.builders import git, head
from tests.driver.course import boundary, commit, player, turn

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
Start = Callable[..., Any]

WORKS = [*commit("next.txt"), *turn(700), *boundary("Go on.")]


def leg_0(*mess: dict[str, Any]) -> dict[str, Any]:
    """An agent that makes this mess in its first leg and ends."""
    return player({"0": [*commit("work.txt"), *mess, *turn(700), *boundary("Go on.", final=True)], "*": WORKS})


def do(*args: str) -> dict[str, Any]:
    return {"do": "git", "args": list(args)}


def goes_on(relay: Any) -> None:
    """Leg 1 starts on the relay's branch, whoever has to approve before."""
    if relay.relay.status == RelayStatus.PARKED:
        relay.approve("RELAY_PARKED_UNSAFE")
    assert relay.relay.status == RelayStatus.READY
    relay.step()
    assert [leg.number for leg in relay.legs] == [0, 1], relay.relay.status_why
    assert git(relay.worktree, "symbolic-ref", "HEAD") == f"refs/heads/{relay.relay.branch}"
    assert (relay.worktree / "work.txt").exists() and (relay.worktree / "next.txt").exists()


@pytest.mark.parametrize(
    "way", [("checkout", "-q", "--detach"), ("checkout", "-q", "-b", "side")], ids=lambda way: way[2]
)
def test_a_head_that_was_left_elsewhere_is_brought_back(course: Start, way: tuple[str, ...]) -> None:
    relay = course(**leg_0(do(*way)), sets=["window_tokens=1000"], done="file:never")
    relay.step()
    goes_on(relay)


def test_a_commit_on_a_detached_head_and_dirty_work_are_kept(course: Start) -> None:
    mess = [do("checkout", "-q", "--detach"), *commit("lost.txt"), {"do": "write", "path": "dirty.txt", "text": "x\n"}]
    relay = course(**leg_0(*mess), sets=["window_tokens=1000"], done="file:never")
    relay.step()
    (leg,) = relay.legs
    assert leg.reason == "RELAY_PARKED_UNSAFE"
    left = head(relay.worktree)
    goes_on(relay)
    kept = f"refs/relay/wip/{relay.pk}/1"
    assert head(relay.worktree, f"{kept}.head") == left
    assert git(relay.worktree, "show", f"{kept}.found:dirty.txt") == "x"
    assert (relay.worktree / "dirty.txt").read_text() == "x\n", "laid back from the baton's wip_tree"


def test_an_orphan_branch_is_left(course: Start) -> None:
    relay = course(**leg_0(do("checkout", "-q", "--orphan", "new")), sets=["window_tokens=1000"], done="file:never")
    relay.step()
    goes_on(relay)


@pytest.mark.parametrize("name", ["index.lock", "HEAD.lock", "next-index-8.lock", "the branch's", "a folder"])
def test_the_lock_of_a_dead_git_is_dropped_and_a_young_one_waited_for(course: Start, name: str) -> None:
    """states.md, the leg's end and rules.md, The driver: an agent that was killed in a commit may leave any of them."""
    relay = course(**leg_0(), sets=["window_tokens=1000"], done="file:never")
    relay.step()
    folder = Path(git(relay.worktree, "rev-parse", "--absolute-git-dir"))
    lock = folder / name
    if name == "the branch's":
        lock = folder.parents[1] / "refs" / "heads" / f"{relay.relay.branch}.lock"
    elif name == "a folder":
        lock = folder / "index.lock"
        lock.mkdir()
    if name != "a folder":
        lock.touch()
    relay.step()
    assert relay.relay.status == RelayStatus.WAITING and lock.name in relay.relay.status_why
    os.utime(lock, (time.time() - 60, time.time() - 60))
    relay.time_passes()
    relay.step()
    assert [leg.number for leg in relay.legs] == [0, 1]
    assert not lock.exists()


def test_a_lock_stays_while_somebody_works_there(course: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    relay = course(**leg_0(), sets=["window_tokens=1000"], done="file:never")
    relay.step()
    lock = Path(git(relay.worktree, "rev-parse", "--absolute-git-dir")) / "index.lock"
    lock.touch()
    os.utime(lock, (time.time() - 60, time.time() - 60))
    monkeypatch.chdir(relay.worktree)
    relay.step()
    assert relay.relay.status == RelayStatus.WAITING and lock.exists()
