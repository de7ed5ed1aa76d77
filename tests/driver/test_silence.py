"""rules.md, Reload, stale, re-derivation: "`unknown` (a store did not answer, nothing dangling) → no leg starts;
retried with back-off (5 s doubling to 5 min); after `unknown_patience` an `UNSERVED_PAGE_FAULT` is asked"."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from relays.actions import decide
from relays.core.baton import Artifact
from relays.core.pointers import Kind
from relays.driver import reload
from relays.driver.prepare import Ready
from relays.models import GateEpisode, Leg, Relay, RelayStatus
from relays.reports import gate as gate_report
from relays.stores import gitrun
from tests.builders import git, make_repo
from tests.driver import changed
from tests.driver.changed import rewrite, template, world
from tests.driver.course import reviewer, start_relay
from tests.driver.world import FILES, World

pytestmark = pytest.mark.django_db
__all__ = ["template", "world"]  # pytest finds its fixtures by these names
START = "progress_cursor.start_sha"


# --- silence


def test_a_git_that_hangs_is_a_store_that_did_not_answer(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hangs = tmp_path / "git"
    hangs.write_text("#!/bin/sh\nexec sleep 60\n")
    hangs.chmod(0o755)
    monkeypatch.setattr(gitrun.Git, "GIT_PYTHON_GIT_EXECUTABLE", str(hangs))
    monkeypatch.setitem(gitrun.run.__kwdefaults__, "timeout", 0.5)
    world.reload()
    assert (world.climb.outcome, world.climb.path) == ("unknown", START)
    assert world.climb.evidence == "git did not answer within 0.5 s"
    assert world.relay.status == RelayStatus.WAITING


def test_without_git_nothing_is_judged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gitrun.Git, "GIT_PYTHON_GIT_EXECUTABLE", "/no/such/git")
    world.reload()
    assert (world.climb.outcome, world.climb.evidence) == ("unknown", "git is not installed")
    assert world.relay.status == RelayStatus.WAITING


def test_an_issue_store_elsewhere_that_is_not_set_up_is_unknown(world: World) -> None:
    rewrite(world, artifacts=(Artifact(Kind.ISSUE, "acme/orders#7"),))
    world.reload()
    assert (world.climb.outcome, world.climb.path) == ("unknown", "artifacts[0].ref")
    assert world.relay.status == RelayStatus.WAITING


def test_back_off_doubles_from_5_seconds_to_5_minutes(world: World) -> None:
    changed.moved(world)
    delays = []
    for _ in range(8):
        world.again()
        relay = world.relay
        delays.append(round((relay.next_at - relay.status_at).total_seconds()))
    assert delays == [5, 10, 20, 40, 80, 160, 300, 300]
    assert world.asked == []


def test_patience_is_counted_over_one_unbroken_silence(world: World) -> None:
    """A store that answered in between begins a new one, though the leg itself did not come up."""
    here, away = world.repo, world.repo.with_name("away")
    changed.moved(world)
    world.reload()
    shutil.move(away, here)
    assert isinstance(world.again(later=timedelta(minutes=29)), Ready)
    assert (world.relay.unknown_since, world.relay.attempts) == (None, 0)
    Leg.objects.filter(relay=world.pk, state="starting").update(state="pending")
    Relay.objects.filter(pk=world.pk).update(status=RelayStatus.READY)
    shutil.move(here, away)
    world.reload()
    relay = world.relay
    assert relay.status == RelayStatus.WAITING and world.asked == []
    assert round((relay.next_at - relay.status_at).total_seconds()) == 5


def test_a_wait_for_a_region_does_not_lengthen_the_wait_for_a_store(world: World) -> None:
    changed.moved(world)
    Relay.objects.filter(pk=world.pk).update(attempts=9)
    world.reload()
    relay = world.relay
    assert round((relay.next_at - relay.status_at).total_seconds()) == 5


def test_approving_the_page_fault_tries_again_and_the_leg_starts_when_the_store_is_back(world: World) -> None:
    here, away = world.repo, world.repo.with_name("away")
    changed.moved(world)
    world.reload()
    world.again(later=timedelta(hours=1))
    assert world.asked == ["UNSERVED_PAGE_FAULT"]
    shutil.move(away, here)
    gate = GateEpisode.objects.get(relay=world.pk)
    seen = gate_report.seen_digest(gate, decide._tip(world.relay))
    decide.approve(reviewer(), gate.pk, seen=seen, comment="It is back.")
    assert isinstance(world.reload(), Ready)
    assert world.climb.outcome == "fresh"
    gate.refresh_from_db()
    assert gate.state == "dispatched"


def test_approving_while_the_branch_is_still_gone_asks_anew(world: World) -> None:
    changed.branch_deleted(world)
    world.reload()
    gate = GateEpisode.objects.get(relay=world.pk)
    assert gate.items == [f"{START}: {world.branch} does not exist; no cursor verifies"]
    decide.approve(reviewer(), gate.pk, seen=gate_report.seen_digest(gate, ""), comment="Try again.")
    world.reload()
    states = GateEpisode.objects.filter(relay=world.pk).order_by("pk").values_list("token", "state")
    assert list(states) == [("UNSERVED_PAGE_FAULT", "superseded"), ("UNSERVED_PAGE_FAULT", "waiting")]
    assert world.relay.status == RelayStatus.PARKED


def test_a_person_who_verifies_sees_that_the_branch_is_gone(world: World) -> None:
    changed.branch_deleted(world)
    found = reload.verify_again(world.row.pk)
    assert (found.outcome, found.path, found.tip) == ("stale", START, "")
    assert found.evidence == f"{world.branch} does not exist"
    assert world.relay.status == RelayStatus.READY, "looking changes nothing"


@pytest.mark.usefixtures("world")
def test_a_branch_that_is_gone_before_any_baton_is_asked_too(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", FILES, issues=1)
    relay = start_relay(repo, sets=["workspace=in_place"])
    git(repo, "checkout", "-q", "--orphan", "other")
    git(repo, "branch", "-q", "-D", relay.branch)
    early = World(repo, relay.pk, relay.start_sha, [])
    early.reload()
    assert (early.relay.status, early.asked) == (RelayStatus.PARKED, ["UNSERVED_PAGE_FAULT"])
