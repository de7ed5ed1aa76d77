"""rules.md, Reload, stale, re-derivation; baton.md, The reader's ladder and Verdict of one pointer.

One table: what happened to the world since the leg ended -> outcome, culprit, git's evidence, the verdict of every
pointer that is not verified, and what the relay does next.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from relays.core.reload import REDERIVE
from relays.core.vocabulary import Reason
from relays.driver.prepare import Ready
from relays.models import Baton, Leg, RelayStatus
from tests.builders import git, make_repo
from tests.driver import changed
from tests.driver.changed import template, world, world_tip
from tests.driver.world import FILES, NEXT, World, make_world

pytestmark = pytest.mark.django_db
__all__ = ["template", "world"]  # pytest finds its fixtures by these names

START, AT = "progress_cursor.start_sha", "tombstone.at_sha"
ROW, WIP = "progress_cursor.ledger_ref", "progress_cursor.wip_tree"
COMMIT, ISSUE, MEMORY, LEDGER, LINE, FILE = (f"artifacts[{number}].ref" for number in range(6))
ASKED, WHICH, TRIED = "open_questions[0]", "open_questions[1]", "do_not_rederive[0]"
ANCHORS = (START, AT, COMMIT)
#: what git alone answers for; a ledger row lies in our tables, a memory in the worktree
IN_GIT = (*ANCHORS, WIP, ISSUE, LINE, FILE, ASKED, WHICH)
ALL = (*IN_GIT, MEMORY, TRIED, ROW, LEDGER)


# --- the table


@dataclass(frozen=True)
class Row:
    """`but`: pointers that are not verified, all with that verdict; `evidence` is of the culprit.

    `then`: `start` (from `cursor`, the baton as it is) · `rebuilt` (at `cursor`: s = the relay's start, 0, 1 = where
    that leg ended) · `wait` · `ask`.
    """

    change: Callable[[World], None]
    outcome: str
    path: str = ""
    evidence: str = ""
    but: dict[str, tuple[str, ...]] = field(default_factory=dict)
    then: str = "start"
    cursor: str = "1"
    source: str = ""


def fresh(change: Callable[[World], None]) -> Row:
    return Row(change, "fresh")


def stale(change: Callable[[World], None], evidence: str, cursor: str, source: str, *but: str, path: str = "") -> Row:
    """The cursor or another pointer dangles, and it is rebuilt."""
    gone = but or ANCHORS
    return Row(change, "stale", path or gone[0], evidence, {"dangling": gone}, "rebuilt", cursor, source)


def lost(change: Callable[[World], None], evidence: str, *but: str, unknown: tuple[str, ...] = ()) -> Row:
    """Dangles, and nothing verifies: a person is asked."""
    said = {"dangling": but or ANCHORS} | ({"unknown": unknown} if unknown else {})
    return Row(change, "stale", START, evidence, said, "ask")


def silent(change: Callable[[World], None], evidence: str, *but: str, path: str = START) -> Row:
    """Somebody did not answer: no leg, asked again, then a person."""
    return Row(change, "unknown", path, evidence, {"unknown": but}, "wait")


BASE, EARLIER = "merge-base of start_sha", "earlier cursor"
NO_BRANCH = (*ANCHORS, FILE, ASKED, LINE)
ROWS = [
    fresh(changed.nothing),
    stale(changed.amended, "exists, not on", "0", BASE),
    stale(changed.set_back, "exists, not on", "0", BASE),
    stale(changed.force_pushed, "exists, not on", "0", BASE),
    fresh(changed.pushed_ahead),
    lost(changed.unconnected, "exists, not on"),
    stale(changed.collected, "no such object", "0", EARLIER, *ANCHORS, WIP),
    fresh(changed.shallow),
    silent(changed.shallow_and_amended, "the clone is shallow and cannot prove more", *ANCHORS),
    lost(changed.emptied, "does not exist", *NO_BRANCH, WIP, unknown=(ISSUE, WHICH)),
    lost(changed.of_another_format, "no such object", *ANCHORS, WIP, ASKED),
    silent(changed.moved, "no such folder", *ALL),
    silent(changed.damaged_inside_another, "no such repository: another one lies around it", *ALL),
    fresh(changed.packed),
    silent(changed.torn_packed_refs, "unexpected line in", *ALL),
    silent(changed.torn_ref, "a ref is broken", *ALL),
    fresh(changed.torn_neighbour),
    silent(changed.missing_in_the_history, "git cannot answer", *ANCHORS),
    silent(changed.missing_tip, "git cannot answer", *(one for one in IN_GIT if one != WIP)),
    silent(changed.content_lost, "its content is not in this clone", ISSUE, WHICH, path=ISSUE),
    lost(changed.branch_deleted, "does not exist", *NO_BRANCH, unknown=(ISSUE, WHICH)),
    stale(changed.files_gone, "no such memory file", "1", BASE, MEMORY, LINE, FILE, TRIED),
    stale(changed.issue_gone, "not in .relay/issues.jsonl", "1", BASE, ISSUE),
    silent(changed.issues_torn, "line 2 is malformed", ISSUE, path=ISSUE),
    stale(changed.wip_deleted, "does not exist", "1", BASE, WIP),
    fresh(changed.worktree_removed),
    fresh(changed.worktree_pruned),
]
#: the same ways by another road
RARER = [
    stale(changed.rebased, "exists, not on", "s", BASE),
    lost(changed.all_collected, "no such object", *ANCHORS, WIP),
    fresh(changed.detached),
    fresh(changed.bare),
    fresh(changed.moved_and_linked),
    lost(changed.unborn_symbolic, "does not exist", *NO_BRANCH, unknown=(ISSUE, WHICH)),
    fresh(changed.ambiguous),
    fresh(changed.replaced),
    silent(changed.torn_tip, "git cannot answer", *(one for one in IN_GIT if one != WIP)),
    silent(changed.objects_gone, "git cannot answer", *IN_GIT),
    silent(changed.tree_lost, "git cannot answer", *(one for one in IN_GIT if one not in (*ANCHORS, WIP)), path=ISSUE),
    # the issues lie in an object that proves itself by its hash: to read that one takes no git and so no shield
    silent(changed.no_shield, "the shield repository cannot be made", *(x for x in IN_GIT if x not in (ISSUE, WHICH))),
    silent(changed.no_issue_file, "no issue store", ISSUE, WHICH, path=ISSUE),
    stale(changed.wip_moved, "/1 stands at ", "1", BASE, WIP),
    fresh(changed.git_file_removed),
    fresh(changed.cloned_anew),
]
TWO = [ROWS[0], ROWS[1]]
OWNED = silent(changed.of_another_owner, "dubious ownership", *ALL)


def judge(world: World, row: Row) -> None:
    """Reload, and hold all that the row says against what was recorded."""
    was, old = world.baton, world.row
    row.change(world)
    said = world.reload()
    climb = world.climb
    assert (climb.outcome, climb.path) == (row.outcome, row.path), climb.evidence
    assert row.evidence in climb.evidence
    assert climb.tip == (world_tip(world) if row.outcome == "fresh" else climb.tip)
    verdicts = {path: verdict for path, (verdict, _) in world.checks.items() if verdict != "verified"}
    assert verdicts == {path: verdict for verdict, paths in row.but.items() for path in paths}, world.checks
    assert set(world.checks) == set(ALL), "every pointer is judged and kept"
    for _, evidence in [*world.checks.values(), ("", climb.evidence)]:
        assert evidence and str(world.repo.parent) not in evidence and "\n" not in evidence
    counted = Leg.objects.get(relay=world.pk, number=1)
    dangling, unknown = (sum(one == word for one in verdicts.values()) for word in ("dangling", "unknown"))
    assert (counted.fidelity_dangling, counted.fidelity_unknown) == (dangling, unknown), "never one for the other"
    starts(world, row, said, was, old)


def starts(world: World, row: Row, said: Ready | str, was: Any, old: Baton) -> None:
    relay = world.relay
    if row.then == "wait":
        assert (relay.status, world.asked) == (RelayStatus.WAITING, []) and relay.next_at is not None
        assert row.evidence in relay.status_why and relay.unknown_since is not None
        assert world.row == old, "nothing was rebuilt on silence"
        world.again(later=timedelta(minutes=30))
        relay = world.relay
    if row.then in ("wait", "ask"):
        assert (relay.status, world.asked) == (RelayStatus.PARKED, ["UNSERVED_PAGE_FAULT"])
        assert world.row == old and not Baton.objects.filter(relay=world.pk, why="stale").exists()
        return
    cursor = {"s": world.start, "0": world.cursors[0], "1": world.cursors[1]}[row.cursor]
    assert isinstance(said, Ready), said
    assert said.cursor == cursor and world.asked == []
    assert git(world.worktree, "symbolic-ref", "HEAD") == f"refs/heads/{world.branch}"
    parked = WIP not in row.but.get("dangling", ())
    left = git(world.worktree, "status", "--porcelain")
    assert left == ("?? half.txt" if parked else ""), "the files are those of the tip, with the parked work and no more"
    if row.then == "start":
        assert world.row == old and said.next_action == NEXT
        return
    climb = world.climb
    assert (climb.rebuilt, climb.cursor_sha, climb.plan["source"]) == (True, cursor, row.source)
    baton, fresh_row = world.baton, world.row
    assert (fresh_row.why, climb.plan["fresh_baton"], climb.baton) == ("stale", fresh_row.digest, old)
    assert (baton.tombstone.reason, baton.tombstone.at_sha) == (Reason.BATON_STALE, cursor)
    assert (baton.cursor.start_sha, baton.next_action, said.next_action) == (cursor, REDERIVE, REDERIVE)
    assert (baton.relay_id, baton.leg, baton.objective, baton.done_when, baton.cursor.held_region) == (
        (was.relay_id, was.leg, was.objective, was.done_when, was.cursor.held_region)
    )
    kept = len(baton.artifacts) + len(baton.open_questions) + len(baton.do_not_rederive)
    gone = row.but["dangling"]
    carried = sum(one not in gone for one in ALL if one not in (START, AT, ROW, WIP))
    assert kept == carried, "only what verified is carried"
    assert bool(baton.cursor.wip_tree) == parked and bool(baton.cursor.ledger_ref) == (ROW not in gone)
    assert (
        climb.plan["reread"]["commits"]
        == git(world.repo, "rev-list", "--reverse", "--topo-order", f"{cursor}..refs/heads/{world.branch}").split()
    ), "what came after it is read anew"


@pytest.mark.parametrize(
    "row", [*ROWS, *(pytest.param(row, marks=pytest.mark.slow) for row in RARER)], ids=lambda row: row.change.__name__
)
def test_what_the_world_did_is_told_apart(row: Row, world: World) -> None:
    judge(world, row)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_owner_does_not_answer(world: World) -> None:
    judge(world, OWNED)


@pytest.mark.usefixtures("world")
@pytest.mark.slow
@pytest.mark.parametrize("row", TWO, ids=["fresh", "amended"])
def test_a_sha256_repository(row: Row, tmp_path: Path) -> None:
    world = make_world(tmp_path, object_format="sha256")
    assert len(world.start) == 64
    judge(world, row)


@pytest.mark.usefixtures("world")
@pytest.mark.slow
@pytest.mark.parametrize("row", TWO, ids=["fresh", "amended"])
def test_a_relay_that_works_in_place(row: Row, tmp_path: Path) -> None:
    world = make_world(tmp_path, sets=["workspace=in_place"])
    assert world.worktree == world.repo
    judge(world, row)


@pytest.mark.usefixtures("world")
def test_a_relay_in_a_submodule(tmp_path: Path) -> None:
    """Its git directory lies in the one above; the folder itself may be gone after a checkout there."""
    inner = make_repo(tmp_path / "inner", FILES, issues=2)
    outer = make_repo(tmp_path / "outer")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "part")
    git(outer, "commit", "-q", "-m", "A part")
    world = make_world(tmp_path, repo=outer / "part")
    assert world.relay.git_dir == str(outer / ".git" / "modules" / "part")
    shutil.rmtree(outer / "part")
    changed.amended(world)
    assert isinstance(world.reload(), Ready), world.relay.status_why
    assert (world.climb.outcome, world.climb.cursor_sha) == ("stale", world.cursors[0])
