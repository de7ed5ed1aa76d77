"""What a boundary is held by, and that the ceiling parks with everything kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relays.models import Fact, RelayStatus
from tests.builders import git
from tests.driver.course import boundary, commit, player, turn

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
HELD = [
    ("plant", "1", "RELAY_NOT_EXTERNALIZED"),
    ("dirty", "1", "TREE_DIRTY_UNPARKED"),
    ("next", "0", "NO_NEXT_ACTION"),
    ("next", "2", "AMBIGUOUS_NEXT_ACTION"),
]


@pytest.mark.parametrize(("flag", "value", "hold"), HELD, ids=[hold for _, _, hold in HELD])
def test_an_armed_leg_is_held_and_the_ceiling_parks_with_everything_kept(
    course: Callable[..., Any], flag: str, value: str, hold: str
) -> None:
    relay = course(issues=3, args={"items": "1", flag: value})
    relay.drive()

    armed = [boundary for boundary in relay.boundaries(0) if boundary.armed]
    assert armed[0].hold == hold and armed[0].answer == f"wind_down {hold}", "held after arming, with its name"
    assert armed[0].hold_detail or hold == "NO_NEXT_ACTION"
    assert armed[-1].answer == "stop"

    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "ceiling", hold)
    assert leg.peak_tokens <= leg.ceiling_tokens, "no model call passed it"
    assert leg.exit_code == 0, "told to stop, it ended by itself"
    assert relay.relay.status == RelayStatus.PARKED
    assert relay.waiting == ["RELAY_PARKED_UNSAFE"], "one episode"
    assert relay.open_leg is None, "no successor"

    # everything kept: commits on the branch, and counted; the leg's baton points at the tip
    made = git(relay.worktree, "rev-list", f"{leg.cursor_sha}..{relay.relay.branch}").split()
    assert [commit["sha"] for commit in leg.progress_detail["commits"]] == made[::-1] and made
    assert relay.baton.cursor.start_sha == leg.end_sha == made[0]
    assert relay.baton.tombstone.reason == "RELAY_PARKED_UNSAFE"


def test_dirty_work_is_judged_as_it_was_left_then_stored_and_laid_back(course: Callable[..., Any]) -> None:
    relay = course(issues=2, args={"items": "1", "dirty": "1"})
    relay.drive()
    (leg,) = relay.legs
    name = f"refs/relay/wip/{relay.pk}/0"
    stored = git(relay.worktree, "rev-parse", name)
    assert relay.baton.cursor.wip_tree == leg.wip_sha == stored
    assert "Left over from #1" in git(relay.worktree, "show", f"{stored}:work/scratch.txt")
    assert git(relay.worktree, "status", "--porcelain") == "?? work/scratch.txt", "the tree itself is as it was"
    assert leg.hold == "TREE_DIRTY_UNPARKED", "storing by the driver makes no safe point"

    git(relay.worktree, "clean", "-fdq")
    relay.approve("RELAY_PARKED_UNSAFE")
    relay.step()
    assert [leg.number for leg in relay.legs] == [0, 1]
    assert relay.legs[1].wip_laid_back == "applied"
    again = git(relay.worktree, "show", f"refs/relay/wip/{relay.pk}/1:work/scratch.txt")
    assert again.splitlines() == ["Left over from #1.", "Left over from #2."]


def test_a_planted_fact_is_named_with_what_would_externalize_it(course: Callable[..., Any]) -> None:
    relay = course(issues=2, args={"items": "1", "plant": "1"})
    relay.drive()
    held = next(boundary for boundary in relay.boundaries(0) if boundary.hold == "RELAY_NOT_EXTERNALIZED")
    assert any(line.startswith("How #1 was solved: ") for line in held.hold_detail)
    fact = Fact.objects.get(leg__relay=relay.pk, label="How #1 was solved")
    assert fact.backing == "" and fact.evidence == "no pointer"
    assert "How #1 was solved" not in relay.baton.next_action
    (gate,) = relay.gates
    assert any("How #1 was solved" in item for item in gate.items)


def test_a_program_that_passes_its_ceiling_unasked_is_an_overrun(course: Callable[..., Any]) -> None:
    relay = course(issues=2, args={"items": "1", "overrun": "1"})
    relay.drive()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause) == ("RELAY_PARKED_UNSAFE", "overrun")
    assert leg.peak_tokens > leg.ceiling_tokens
    assert relay.waiting == ["RELAY_PARKED_UNSAFE"] and relay.open_leg is None


def test_an_exit_code_is_a_crash_and_the_half_done_item_is_kept(course: Callable[..., Any]) -> None:
    relay = course(issues=3, args={"items": "3", "crash": "1"})
    relay.drive()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "agent_crash", "TREE_DIRTY_UNPARKED")
    assert leg.exit_code == 3
    assert "work/2.md" in git(relay.worktree, "ls-tree", "-r", "--name-only", relay.baton.cursor.wip_tree)
    assert relay.waiting == ["RELAY_PARKED_UNSAFE"]


def test_parked_work_crosses_the_rotation_and_lies_there_before_the_agent_starts(course: Callable[..., Any]) -> None:
    # two turns cross the mark in the middle of an item: the worker parks its tree instead of finishing it
    relay = course(issues=1, args={"items": "1", "park": "1"}, sets=["mark.context=0.3"])
    relay.step()
    (leg,) = relay.legs
    assert leg.reason == "RELAY_ROTATED", leg.hold
    wip = relay.baton.cursor.wip_tree
    assert wip == git(relay.worktree, "rev-parse", f"refs/relay/wip/{relay.pk}/0")
    assert "work/1.md" in git(relay.worktree, "ls-tree", "-r", "--name-only", wip)
    git(relay.worktree, "reset", "-q", "--hard")
    git(relay.worktree, "clean", "-fdq")
    relay.drive()
    legs = relay.legs
    assert legs[1].wip_laid_back == "applied"
    assert relay.relay.status == RelayStatus.DONE
    assert (relay.worktree / "work/1.md").exists()


def test_a_tree_that_cannot_be_read_holds_and_says_why_in_one_line(
    course: Callable[..., Any], meanwhile: Callable[..., None]
) -> None:
    script = [*commit("work.txt"), *turn(), *boundary("Go on."), *turn(), *boundary("Go on.", final=True)]
    relay = course(**player(script))

    def spoil() -> None:
        (Path(git(relay.worktree, "rev-parse", "--absolute-git-dir")) / "index").write_bytes(b"garbage")

    meanwhile(1, spoil)
    relay.step()
    held = relay.boundaries(0)[0]
    assert held.hold == "TREE_DIRTY_UNPARKED"
    (line,) = held.hold_detail
    assert line.startswith("the tree could not be read: git cannot answer: ") and "index" in line
    (leg,) = relay.legs
    assert (leg.reason, leg.hold) == ("RELAY_PARKED_UNSAFE", "TREE_DIRTY_UNPARKED")
    (gate,) = relay.gates
    assert line in gate.items
