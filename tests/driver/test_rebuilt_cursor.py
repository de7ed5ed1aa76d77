"""rules.md, Reload, stale, re-derivation: where the cursor is rebuilt, what is read anew, and the worktree under it."""

from types import SimpleNamespace
from typing import Any

import pytest

from relays.driver import reload, worktrees
from relays.driver.prepare import Ready
from relays.models import Leg, Relay, RelayStatus
from tests.builders import git, head
from tests.driver import changed
from tests.driver.changed import rebuilt_at, rewrite, template, world, world_tip
from tests.driver.world import World, forget

pytestmark = pytest.mark.django_db
__all__ = ["template", "world"]  # pytest finds its fixtures by these names


# --- where the cursor is rebuilt


def test_where_the_merge_base_stands_no_earlier_baton_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many legs there were: what a reload costs does not grow with them."""
    monkeypatch.delattr(reload, "_cursor_of")
    changed.amended(world)
    assert rebuilt_at(world) == (world.cursors[0], "merge-base of start_sha")


def test_at_sha_is_asked_only_where_start_sha_is_gone(world: World) -> None:
    tree = git(world.repo, "rev-parse", f"{world.start}^{{tree}}")
    side = git(world.repo, "commit-tree", "-m", "Beside", "-p", world.cursors[0], tree)
    rewrite(world, start_sha="0" * 39 + "1", at_sha=side)
    assert rebuilt_at(world) == (world.cursors[0], "merge-base of at_sha")


def test_an_unconnected_start_sha_is_there_and_at_sha_is_not_asked(world: World) -> None:
    tree = git(world.repo, "rev-parse", f"{world.start}^{{tree}}")
    alone = git(world.repo, "commit-tree", "-m", "Alone", tree)
    git(world.worktree, "reset", "-q", "--hard", world.cursors[0])
    rewrite(world, start_sha=alone, at_sha=world.cursors[1])
    assert rebuilt_at(world) == (world.cursors[0], "earlier cursor")


def test_a_tag_is_no_commit_so_that_at_sha_is_asked(world: World) -> None:
    git(world.repo, "tag", "-a", "-m", "t", "v1", world.cursors[1])
    rewrite(world, start_sha=head(world.repo, "refs/tags/v1"))
    assert rebuilt_at(world) == (world.cursors[1], "merge-base of at_sha")
    assert world.checks["progress_cursor.start_sha"] == ("dangling", "is a tag, not a commit")


def test_of_several_merge_bases_the_smallest_is_taken(world: World) -> None:
    tree = git(world.repo, "rev-parse", f"{world.cursors[1]}^{{tree}}")

    def made(message: str, *parents: str) -> str:
        line = [part for parent in parents for part in ("-p", parent)]
        return git(world.repo, "commit-tree", "-m", message, *line, tree)

    left, right = made("left", world.cursors[1]), made("right", world.cursors[1])
    rewrite(world, start_sha=made("one", left, right))
    git(world.repo, "update-ref", f"refs/heads/{world.branch}", made("other", right, left))
    assert rebuilt_at(world) == (min(left, right), "merge-base of start_sha")


def test_the_newest_earlier_cursor_that_verifies_is_taken(world: World) -> None:
    damaged = world.row
    damaged.pk, damaged.text, damaged.current = None, "damaged", False
    damaged.save(force_insert=True)
    rewrite(world, start_sha="0" * 39 + "1", at_sha="0" * 39 + "2")
    assert rebuilt_at(world) == (world.cursors[1], "earlier cursor"), "one that was damaged is passed over"


def test_where_no_cursor_stands_the_relay_begins_anew(world: World) -> None:
    rewrite(world, start_sha="0" * 39 + "1", at_sha="0" * 39 + "2")
    git(world.worktree, "reset", "-q", "--hard", world.start)
    assert rebuilt_at(world) == (world.start, "the relay's start")


def test_only_the_ledger_rows_after_the_cursor_are_read_anew(world: World) -> None:
    """ "The commits, ledger rows and issues after it are read anew"; the driver's own rows are no exception."""
    changed.issue_gone(world)
    assert rebuilt_at(world)[0] == world.cursors[1]
    reread = world.climb.plan["reread"]
    assert (reread["ledger"], reread["issues"], len(reread["commits"])) == ([], ["#1"], 1)


def test_a_cursor_inside_a_leg_reads_that_leg_s_rows_anew(world: World) -> None:
    changed.amended(world)
    rebuilt_at(world)
    assert world.climb.plan["reread"]["ledger"] == [f"{world.pk}.1.c1"], "leg 0 closed at the cursor"
    Leg.objects.filter(relay=world.pk, state="starting").update(state="pending")
    git(world.worktree, "reset", "-q", "--hard", world.start)
    Relay.objects.filter(pk=world.pk).update(status=RelayStatus.READY)
    assert rebuilt_at(world)[0] == world.start
    assert world.climb.plan["reread"]["ledger"] == [f"{world.pk}.0.c1", f"{world.pk}.1.c1"]


def test_in_a_shallow_clone_no_cursor_is_rebuilt_by_guess(world: World) -> None:
    """start_sha may be there beyond the cut: a dangling file makes it stale, and the rebuild waits for the store."""
    changed.files_gone(world)
    git(world.worktree, "commit", "-q", "--amend", "--allow-empty", "-m", "x")
    (world.repo / ".git" / "shallow").write_text(f"{world_tip(world)}\n")
    world.reload()
    assert world.climb.outcome == "stale" and not world.climb.rebuilt
    assert world.relay.status == RelayStatus.WAITING and "shallow" in world.relay.status_why


# --- a branch that was moved from elsewhere, and the worktree on it


def test_work_on_a_branch_that_was_pushed_over_is_kept_and_undoes_nothing(world: World) -> None:
    """A push moves the ref alone: what lies in the worktree is no edit that undoes what was pushed."""
    (world.worktree / "one.txt").write_text("a person's edit\n")
    (world.worktree / "new.txt").write_text("new\n")
    changed.pushed_ahead(world)
    assert isinstance(world.reload(), Ready)
    assert git(world.worktree, "status", "--porcelain") == "?? half.txt"
    kept = f"refs/relay/wip/{world.pk}/2"
    assert head(world.repo, f"{kept}.head") == head(world.repo, f"{kept}.found^") == world.cursors[1]
    assert git(world.repo, "diff", "--name-only", f"{kept}.head", f"{kept}.found").split() == ["new.txt", "one.txt"]
    assert world.relay.findings == [
        "worktree before leg 2: the branch had been moved from elsewhere, and the files here had stayed behind",
        f"worktree before leg 2: HEAD stood at {world.cursors[1][:12]}, kept under {kept}.head, and the work that was "
        f"not committed under {kept}.found",
    ]


def test_what_two_attempts_of_one_leg_find_is_both_kept(world: World) -> None:
    def attempt(text: str) -> str:
        (world.worktree / "one.txt").write_text(text)
        assert isinstance(world.reload(), Ready)
        Leg.objects.filter(relay=world.pk, state="starting").update(state="pending")
        Relay.objects.filter(pk=world.pk).update(status=RelayStatus.READY)
        (world.worktree / "half.txt").unlink()
        return head(world.repo, f"refs/relay/wip/{world.pk}/2.found")

    first = attempt("a first edit\n")
    assert world.relay.findings == [
        f"work found before leg 2: it is not the parked work, and is kept under refs/relay/wip/{world.pk}/2.found"
    ]
    second = attempt("a second edit\n")
    assert attempt("a second edit\n") == second != first
    refs = git(world.repo, "for-each-ref", "--format=%(objectname)", f"refs/relay/wip/{world.pk}/2.*").split()
    assert sorted(refs) == sorted([first, second])


def test_commits_that_were_pushed_away_are_kept(world: World) -> None:
    changed.force_pushed(world)
    git(world.repo, "update-ref", "-d", f"refs/relay/wip/{world.pk}/1")
    assert isinstance(world.reload(), Ready)
    forget(world.repo)
    assert head(world.repo, f"refs/relay/wip/{world.pk}/2.head") == world.cursors[1]
    assert git(world.repo, "cat-file", "-t", world.cursors[1]) == "commit"


def test_files_of_a_worktree_that_was_pruned_are_dirty_work_of_the_new_one(world: World) -> None:
    (world.worktree / "one.txt").write_text("half done\n")
    changed.worktree_pruned(world)
    assert isinstance(world.reload(), Ready)
    kept = git(world.repo, "show", f"refs/relay/wip/{world.pk}/2.found:one.txt")
    assert world.relay.findings[0] == "worktree before leg 2: no repository knew the folder any more; it was tied again"
    assert kept == "half done" and not world.worktree.with_name(f"{world.worktree.name}.untied").exists()


@pytest.mark.slow
@pytest.mark.parametrize("step", ["add_worktree", "rmtree", "rename"])
def test_tying_a_worktree_again_goes_on_after_a_crash(world: World, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.worktree / "one.txt").write_text("half done\n")
    changed.worktree_pruned(world)
    name = {"add_worktree": "checkout", "rmtree": "shutil", "rename": "os"}[step]
    real = getattr(worktrees, name)
    left = 2 if step == "rename" else 1  # of the two renames, the second

    def dies(*args: Any) -> Any:
        nonlocal left
        left -= 1
        if not left:
            raise KeyboardInterrupt
        return getattr(real, step)(*args)

    with monkeypatch.context() as patch:
        patch.setattr(worktrees, name, SimpleNamespace(**{**vars(real), step: dies}))
        with pytest.raises(KeyboardInterrupt):
            world.reload()
    assert isinstance(world.reload(), Ready)
    assert git(world.repo, "show", f"refs/relay/wip/{world.pk}/2.found:one.txt") == "half done"


def test_while_the_repository_is_away_the_worktree_stays_where_it_is(world: World) -> None:
    (world.worktree / "one.txt").write_text("half done\n")
    changed.moved(world)
    world.reload()
    assert world.relay.status == RelayStatus.WAITING
    assert (world.worktree / "one.txt").read_text() == "half done\n"
