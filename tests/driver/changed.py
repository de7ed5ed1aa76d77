"""What can happen to the world under a baton: each function leaves `world` as somebody else would.

The fixture `world` is one relay after two legs; its records are made once for a module and rolled back after each
test, its folder is copied anew. A test module imports `template` and `world` to have them.
"""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from relays.driver import rebaton
from relays.driver.prepare import Ready
from tests.builders import commit, git, head, issue_lines
from tests.driver.world import World, forget, make_world, object_file


@pytest.fixture(scope="module")
def template(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: Any) -> Iterator[World]:
    """One world for all rows: its records in an outer transaction, its folder beside a copy to begin from."""
    folder = tmp_path_factory.mktemp("world")
    with django_db_blocker.unblock(), transaction.atomic(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "RELAY_VAR", folder / "here" / "var")
        patch.setattr("relaysite.celery.app.send_task", lambda *_, **__: None)
        world = make_world(folder / "here")
        os.rename(folder / "here", folder / "kept")
        yield world
        transaction.set_rollback(True)


@pytest.fixture
def world(template: World) -> World:
    """As the leg left it, in its own place."""
    here = template.repo.parent
    shutil.rmtree(here, ignore_errors=True)
    shutil.copytree(here.with_name("kept"), here, symlinks=True)
    return template


def world_tip(world: World) -> str:
    return git(world.repo, "rev-parse", f"refs/heads/{world.branch}")


def nothing(world: World) -> None:
    """The same world."""


def amended(world: World) -> None:
    git(world.worktree, "commit", "-q", "--amend", "-m", "Said differently")


def rebased(world: World) -> None:
    onto = commit(world.repo, {"main.txt": "m\n"}, "On main meanwhile")
    git(world.worktree, "rebase", "-q", "--onto", onto, world.start)


def set_back(world: World) -> None:
    git(world.worktree, "reset", "-q", "--hard", world.cursors[0])


def force_pushed(world: World) -> None:
    """Moved by a push: neither the worktree nor its log of HEAD know of it."""
    elsewhere = world.repo.with_name("elsewhere")
    git(world.repo.parent, "clone", "-q", "--no-checkout", str(world.repo), str(elsewhere))
    git(world.repo, "config", "receive.denyCurrentBranch", "ignore")
    git(elsewhere, "push", "-q", "--force", "origin", f"{world.cursors[0]}:refs/heads/{world.branch}")


def pushed_ahead(world: World) -> None:
    tree = git(world.repo, "rev-parse", f"{world.cursors[1]}^{{tree}}")
    ahead = git(world.repo, "commit-tree", "-m", "By others", "-p", world.cursors[1], tree)
    git(world.repo, "update-ref", f"refs/heads/{world.branch}", ahead)


def unconnected(world: World) -> None:
    tree = git(world.repo, "rev-parse", f"{world.start}^{{tree}}")
    alone = git(world.repo, "commit-tree", "-m", "A history of its own", tree)
    git(world.worktree, "reset", "-q", "--hard", alone)


def collected(world: World) -> None:
    set_back(world)
    git(world.repo, "update-ref", "-d", f"refs/relay/wip/{world.pk}/1")
    forget(world.repo)


def all_collected(world: World) -> None:
    """Nothing of the relay is left but a branch of that name."""
    unconnected(world)
    git(world.repo, "update-ref", "-d", f"refs/relay/wip/{world.pk}/1")
    git(world.repo, "update-ref", "refs/heads/main", head(world.worktree))
    forget(world.repo)


def shallow(world: World) -> None:
    (world.repo / ".git" / "shallow").write_text(f"{world.cursors[1]}\n")


def shallow_and_amended(world: World) -> None:
    amended(world)
    (world.repo / ".git" / "shallow").write_text(f"{head(world.worktree)}\n")


def detached(world: World) -> None:
    git(world.repo, "checkout", "-q", "--detach")
    git(world.worktree, "checkout", "-q", "--detach", world.cursors[0])


def emptied(world: World) -> None:
    shutil.rmtree(world.repo / ".git")
    git(world.repo, "init", "-q", "-b", "main", ".")


def cloned_anew(world: World) -> None:
    """Another repository at that place, with all that was pushed: nothing ties the worktree to it yet."""
    mirror = world.repo.with_name("mirror.git")
    git(world.repo.parent, "clone", "-q", "--mirror", str(world.repo), str(mirror))
    shutil.rmtree(world.repo / ".git")
    git(world.repo.parent, "clone", "-q", "--mirror", str(mirror), str(world.repo / ".git"))
    git(world.repo, "config", "core.bare", "false")


def of_another_format(world: World) -> None:
    shutil.rmtree(world.repo / ".git")
    git(world.repo, "init", "-q", "-b", world.branch, "--object-format=sha256", ".")
    (world.repo / "README.md").unlink()
    commit(world.repo, {"one.txt": "1\n"}, "Made anew")


def bare(world: World) -> None:
    git(world.repo, "config", "core.bare", "true")


def moved(world: World) -> None:
    shutil.move(world.repo, world.repo.with_name("away"))


def moved_and_linked(world: World) -> None:
    moved(world)
    world.repo.symlink_to(world.repo.with_name("away"), target_is_directory=True)


def damaged_inside_another(world: World) -> None:
    """Its HEAD is torn; the repository around it must not answer in its place."""
    git(world.repo.parent, "init", "-q", ".")
    commit(world.repo.parent, {"other.txt": "x\n"}, "Another")
    (world.repo / ".git" / "HEAD").write_text("")


def of_another_owner(world: World) -> None:
    os.chown(world.repo / ".git", 65534, 65534)


def packed(world: World) -> None:
    git(world.repo, "pack-refs", "--all", "--prune")
    git(world.repo, "repack", "-q", "-a", "-d")
    git(world.repo, "commit-graph", "write", "--reachable")


def torn_packed_refs(world: World) -> None:
    packed(world)
    (world.repo / ".git" / "packed-refs").write_text("neither a name nor an object\n")


def torn_ref(world: World) -> None:
    (world.repo / ".git" / "refs" / "heads" / world.branch).write_text("torn\n")


def torn_neighbour(world: World) -> None:
    """A ref whose name begins like the relay's own."""
    (world.repo / ".git" / "refs" / "heads" / f"{world.branch}0").write_text("torn\n")


def unborn_symbolic(world: World) -> None:
    git(world.repo, "symbolic-ref", f"refs/heads/{world.branch}", "refs/heads/nowhere")


def ambiguous(world: World) -> None:
    """Tags and branches that are called like the branch and like the cursor."""
    for name in (world.branch, world.cursors[1], "HEAD"):
        git(world.repo, "update-ref", f"refs/tags/{name}", world.start)
    git(world.repo, "update-ref", f"refs/heads/{world.cursors[1]}", world.start)
    git(world.repo, "update-ref", f"refs/{world.branch}", world.start)


def replaced(world: World) -> None:
    """`git replace` would tell another history: that the cursor's parent is nobody's."""
    git(world.repo, "replace", "--graft", world.cursors[1])


def missing_in_the_history(world: World) -> None:
    git(world.repo, "commit-graph", "write", "--reachable")
    object_file(world.repo, world.start).unlink()


def missing_tip(world: World) -> None:
    object_file(world.repo, world.cursors[1]).unlink()


def torn_tip(world: World) -> None:
    """What a power cut leaves."""
    place = object_file(world.repo, world.cursors[1])
    place.unlink()
    place.touch()


def objects_gone(world: World) -> None:
    shutil.rmtree(world.repo / ".git" / "objects")
    (world.repo / ".git" / "objects").mkdir()


def tree_lost(world: World) -> None:
    object_file(world.repo, git(world.repo, "rev-parse", f"{world.cursors[1]}^{{tree}}")).unlink()


def content_lost(world: World) -> None:
    """As in a partial clone: the tree names a file that is not here."""
    object_file(world.repo, git(world.repo, "rev-parse", f"{world.cursors[1]}:.relay/issues.jsonl")).unlink()


def no_shield(world: World) -> None:
    """What we read through cannot be made: that is no fault of the repository."""
    shutil.rmtree(settings.RELAY_VAR / "shield")
    (settings.RELAY_VAR / "shield").touch()


def branch_deleted(world: World) -> None:
    git(world.repo, "update-ref", "-d", f"refs/heads/{world.branch}")


def files_gone(world: World) -> None:
    commit(world.worktree, {"src/a.py": None, "rows.jsonl": None, ".relay/memory/tip.md": None}, "Gone")


def issue_gone(world: World) -> None:
    commit(world.worktree, {".relay/issues.jsonl": issue_lines({2: "open"})}, "One issue less")


def issues_torn(world: World) -> None:
    commit(world.worktree, {".relay/issues.jsonl": issue_lines({2: "open"}) + "{torn\n"}, "Torn")


def no_issue_file(world: World) -> None:
    commit(world.worktree, {".relay/issues.jsonl": None}, "No issues")


def wip_deleted(world: World) -> None:
    git(world.repo, "update-ref", "-d", f"refs/relay/wip/{world.pk}/1")


def wip_moved(world: World) -> None:
    git(world.repo, "update-ref", f"refs/relay/wip/{world.pk}/1", world.start)


def worktree_removed(world: World) -> None:
    shutil.rmtree(world.worktree)


def worktree_pruned(world: World) -> None:
    """Out of sight for a while, and somebody tidied up."""
    away = world.worktree.with_name("unmounted")
    place = world.worktree
    os.rename(place, away)
    git(world.repo, "worktree", "prune", "--expire=now")
    os.rename(away, place)


def git_file_removed(world: World) -> None:
    (world.worktree / ".git").unlink()


# --- what a test asks of it


def rebuilt_at(world: World) -> tuple[str, str]:
    """Where, and by which part of the rule."""
    assert isinstance(world.reload(), Ready), world.relay.status_why
    return world.climb.cursor_sha, world.climb.plan["source"]


def rewrite(world: World, **changed: Any) -> None:
    """A baton of leg 1 with other anchors or artifacts becomes the current one: what another writer could have left."""
    row, baton = world.row, world.baton
    start = changed.pop("start_sha", baton.cursor.start_sha)
    at = changed.pop("at_sha", baton.tombstone.at_sha)
    told = replace(baton.tombstone, at_sha=at)
    cursor = replace(baton.cursor, start_sha=start, wip_tree="")
    rebaton.store(row.relay, row.leg, replace(baton, cursor=cursor, tombstone=told, **changed), "rotation", row.at)
