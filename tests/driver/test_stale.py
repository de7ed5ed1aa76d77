"""A baton that no longer matches git drives nothing: the culprit, the rebuilt cursor, the fresh baton."""

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from relays.core import baton as batons
from relays.driver.places import leg_folder
from relays.models import Baton, Relay, RelayStatus
from tests.builders import commit as made
from tests.builders import git, head
from tests.driver.course import boundary, commit, player, turn
from tests.tamper import unguarded

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
Start = Callable[..., Any]

REDERIVE = "Re-derive progress from the durable store."


def work(leg: int) -> list[dict[str, Any]]:
    return [*commit(f"work-{leg}.txt", f"leg {leg}\n"), *turn(), *boundary("Go on.", final=True)]


SCRIPT = {str(leg): work(leg) for leg in range(6)}


def test_an_amended_commit_makes_the_baton_stale_and_the_cursor_goes_back(course: Start) -> None:
    relay = course(**player(SCRIPT))
    relay.step()
    old = relay.legs[0].end_sha
    git(relay.worktree, "commit", "-q", "--amend", "-m", "Said differently")
    tip = head(relay.worktree)
    relay.step()

    climb = relay.reload
    assert (climb.outcome, climb.path) == ("stale", "progress_cursor.start_sha")
    assert f"exists, not on {relay.relay.branch}" in climb.evidence
    assert climb.rebuilt and climb.cursor_sha == relay.relay.start_sha, "the merge-base with the tip"

    stale = Baton.objects.get(relay=relay.pk, why="stale")
    first = Baton.objects.get(relay=relay.pk, why="rotation", leg__number=0)
    fresh, was = batons.read(stale.text).baton, batons.read(first.text).baton
    assert fresh is not None and was is not None
    assert (fresh.tombstone.reason, fresh.tombstone.at_sha) == ("RELAY_BATON_STALE", relay.relay.start_sha)
    assert fresh.cursor.start_sha == relay.relay.start_sha
    assert fresh.next_action == REDERIVE
    reread = {"commits": [tip], "issues": [], "ledger": []}
    assert (climb.plan["next_action"], climb.plan["reread"]) == (REDERIVE, reread), "what is read anew is kept"
    assert climb.plan["cursor"] == {"sha": relay.relay.start_sha, "rebuilt": True}
    assert (fresh.objective, fresh.done_when, fresh.cursor.held_region) == (
        was.objective,
        was.done_when,
        was.cursor.held_region,
    )
    assert old not in stale.text, "only pointers that verified are carried"
    assert first.text.count(old) >= 2, "the old baton is kept as it was"

    leg = relay.legs[1]
    assert leg.cursor_sha == relay.relay.start_sha
    assert leg.progress_detail["foreign"] == [tip] or leg.progress_detail["repeated"] == [tip]
    assert leg.progress == 1, "the amended commit is read anew and not counted again"
    counted = [one["sha"] for each in relay.legs for one in each.progress_detail["commits"]]
    assert len(counted) == len(set(counted)) == 2 and tip not in counted
    assert relay.legs[0].fidelity_dangling > 0
    assert (leg_folder(relay.pk, 1) / "baton.json").read_text() == stale.text, "what the agent was handed"


def test_a_branch_that_was_reset_to_an_earlier_commit_is_taken_up_there(course: Start) -> None:
    relay = course(**player(SCRIPT))
    relay.step()
    relay.step()
    git(relay.worktree, "reset", "-q", "--hard", relay.legs[0].end_sha)
    relay.step()
    climb = relay.reload
    assert (climb.outcome, climb.path, climb.cursor_sha) == (
        "stale",
        "progress_cursor.start_sha",
        relay.legs[0].end_sha,
    )
    assert relay.legs[2].cursor_sha == relay.legs[0].end_sha
    assert relay.legs[2].progress == 1


def test_a_cursor_that_is_gone_falls_back_to_the_newest_earlier_one(course: Start) -> None:
    relay = course(**player(SCRIPT))
    relay.step()
    relay.step()
    repo = Path(relay.relay.repo)
    git(relay.worktree, "reset", "-q", "--hard", relay.legs[0].end_sha)
    git(repo, "reflog", "expire", "--expire=now", "--all")
    git(repo, "gc", "-q", "--prune=now")
    git(repo, "cat-file", "-e", relay.legs[1].end_sha, ok=(1, 128))
    relay.step()
    climb = relay.reload
    assert (climb.outcome, climb.cursor_sha) == ("stale", relay.legs[0].end_sha)
    assert climb.plan["source"] == "earlier cursor"
    assert relay.legs[2].cursor_sha == relay.legs[0].end_sha


def test_a_commit_by_somebody_else_is_foreign_and_the_baton_stays_fresh(course: Start) -> None:
    relay = course(**player(SCRIPT))
    relay.step()
    foreign = made(relay.worktree, {"other.txt": "by hand\n"}, "By hand")
    relay.step()
    assert relay.reload.outcome == "fresh"
    assert relay.legs[1].progress_detail["foreign"] == [foreign]
    assert relay.legs[1].progress == 1


def test_a_pointer_that_no_longer_resolves_is_the_culprit(course: Start) -> None:
    asked = {"kind": "open_question", "label": "Who reads it?", "pointer": "file:README.md"}
    relay = course(**player({"0": [asked, *work(0)], **{str(n): work(n) for n in range(1, 6)}}))
    relay.step()
    assert relay.baton.open_questions == ("file:README.md Who reads it?",)
    made(relay.worktree, {"README.md": None}, "Gone")
    relay.step()
    climb = relay.reload
    assert (climb.outcome, climb.step, climb.path) == ("stale", 7, "open_questions[0]")
    assert climb.cursor_sha == relay.legs[0].end_sha, "the cursor itself still stands"
    assert relay.legs[1].cursor_sha == relay.legs[0].end_sha


def test_the_first_verdict_on_a_baton_stands_though_the_rebuilt_one_is_fresh(course: Start) -> None:
    relay = course(**player({"0": work(0), "1": [{"do": "exit", "code": 7}]}))
    relay.step()
    git(relay.worktree, "commit", "-q", "--amend", "-m", "Said differently")
    relay.step()
    assert relay.relay.status == RelayStatus.WAITING, "the leg did not start"
    dangling = relay.legs[0].fidelity_dangling
    assert dangling > 0
    relay.time_passes()
    relay.step()
    assert relay.reload.outcome == "fresh", "now it climbs the rebuilt baton"
    assert relay.legs[0].fidelity_dangling == dangling, "a rebuilt baton does not make the leg's own faithful"


def test_a_person_s_next_action_outlives_the_rebuild(course: Start) -> None:
    dirty = [*work(0)[:-2], {"do": "write", "path": "half.txt", "text": "x"}, *turn(950), *boundary("Go on.")]
    relay = course(**player({"0": dirty, "1": work(1)}), sets=["window_tokens=1000"])
    relay.step()
    relay.approve("RELAY_PARKED_UNSAFE", next_action="Read the parked work first.")
    git(relay.worktree, "commit", "-q", "--amend", "-m", "Said differently")
    relay.step()
    stale = Baton.objects.get(relay=relay.pk, why="stale")
    assert '"next_action":"Read the parked work first."' in stale.text


def test_a_branch_that_is_gone_is_a_page_fault(course: Start) -> None:
    relay = course(**player(SCRIPT))
    relay.step()
    tip = relay.legs[0].end_sha
    git(Path(relay.relay.repo), "update-ref", "-d", f"refs/heads/{relay.relay.branch}")
    relay.step()
    assert relay.relay.status == RelayStatus.PARKED and relay.waiting == ["UNSERVED_PAGE_FAULT"]
    assert relay.relay.branch in relay.gates[0].items[0]
    assert len(relay.legs) == 1
    git(Path(relay.relay.repo), "update-ref", f"refs/heads/{relay.relay.branch}", tip)
    relay.approve("UNSERVED_PAGE_FAULT")
    relay.step()
    assert len(relay.legs) == 2 and relay.gates[0].state == "confirmed"


def test_a_repository_that_does_not_answer_starts_no_leg_and_is_asked_again_with_back_off(course: Start) -> None:
    relay = course(**player(SCRIPT))
    relay.step()
    repo = Path(relay.relay.repo)
    away = repo.with_name("away")
    shutil.move(repo, away)
    delays = []
    for _ in range(3):
        relay.step()
        found = relay.relay
        assert found.status == RelayStatus.WAITING and "did not answer" in found.status_why
        assert found.next_at is not None
        delays.append(round((found.next_at - found.status_at).total_seconds()))
        relay.time_passes()
    assert delays == [5, 10, 20]
    assert relay.reload.outcome == "unknown" and relay.legs[0].fidelity_dangling == 0
    assert relay.gates == [] and len(relay.legs) == 1

    Relay.objects.filter(pk=relay.pk).update(unknown_since=timezone.now() - timedelta(minutes=30))
    relay.step()
    assert relay.relay.status == RelayStatus.PARKED and relay.waiting == ["UNSERVED_PAGE_FAULT"]

    shutil.move(away, repo)
    relay.approve("UNSERVED_PAGE_FAULT")
    relay.step()
    assert len(relay.legs) == 2
    assert (relay.legs[0].fidelity_unknown, relay.legs[0].fidelity_dangling) == (0, 0)


@pytest.mark.slow
def test_a_repository_that_does_not_answer_before_leg_0_waits_too(course: Start) -> None:
    relay = course(**player(SCRIPT))
    repo = Path(relay.relay.repo)
    shutil.move(repo, repo.with_name("away"))
    relay.step()
    assert relay.relay.status == RelayStatus.WAITING and relay.relay.unknown_since is not None
    shutil.move(repo.with_name("away"), repo)
    relay.time_passes()
    relay.step()
    assert len(relay.legs) == 1


def test_another_objective_in_the_database_than_in_the_baton_is_asked_not_guessed(course: Start) -> None:
    relay = course(**player(SCRIPT))
    relay.step()
    Relay.objects.filter(pk=relay.pk).update(objective="Do something else entirely.")
    relay.step()
    assert relay.waiting == ["OBJECTIVE_DRIFT"] and len(relay.legs) == 1
    assert relay.reload.path == "objective"


def test_a_stored_baton_that_was_damaged_drives_no_leg(course: Start) -> None:
    relay = course(**player(SCRIPT))
    relay.step()
    row = Baton.objects.get(relay=relay.pk, current=True)
    with unguarded():
        Baton.objects.filter(pk=row.pk).update(text=row.text.replace('"leg":0', '"claimed":1,"leg":0'))
    relay.step()
    assert relay.waiting == ["UNSERVED_PAGE_FAULT"] and len(relay.legs) == 1
    assert relay.reload.outcome == "invalid"
