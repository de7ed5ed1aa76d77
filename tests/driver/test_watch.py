"""rules.md, No progress and watch: a watch rests while its invariant holds, and wakes by itself.

states.md, Relay: the row `idle` and every way into it; "a quiet check stays".
"""

import contextlib
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from relays.actions import park, resume
from relays.agents import process
from relays.core import lifecycle, watch
from relays.driver import advance, commands, idle, reconcile, spawn
from relays.driver.claim import kernel_lock, locked_here
from relays.driver.ending import Ending
from relays.models import (
    OPEN_STATES,
    Baton,
    Check,
    CommandResult,
    Decision,
    Fact,
    GateEpisode,
    LedgerRow,
    Leg,
    LegState,
    RegionLease,
    Relay,
    RelayStatus,
    ResetTransaction,
    Verification,
)
from relays.reports import status
from tests.builders import commit as made
from tests.builders import git, issue_lines, make_repo
from tests.driver.conftest import Killed
from tests.driver.course import boundary, commit, operator, player, turn

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
Start = Callable[..., Any]
At = Callable[..., None]

LIMIT = "envelope.legs=20"
KEPT = "file:kept.txt"
MENDS = [*commit("kept.txt"), *turn(), *boundary("Go on.", final=True)]
IDLES = [*turn(), *boundary("Look again.", final=True)]


def watching(course: Start, tmp_path: Path, script: Any = MENDS, *, done: str = KEPT, **values: Any) -> Any:
    """A watch over a repository where `kept.txt` is there; nothing is filed."""
    repo = make_repo(tmp_path / "watched", {"README.md": "x\n", "kept.txt": "x\n"})
    return course(repo=repo, watch=True, done=done, sets=[LIMIT, *values.pop("sets", [])], **player(script), **values)


def breaks(relay: Any, files: dict[str, str | None] | None = None) -> str:
    return made(relay.worktree, files or {"kept.txt": None}, "Break it")


# --- into idle


def test_an_invariant_that_holds_at_the_start_is_idle_without_a_leg(course: Start, tmp_path: Path) -> None:
    relay = watching(course, tmp_path)
    assert relay.relay.watch
    assert "not now: idle" in relay.step()
    found = relay.relay
    assert (found.status, found.ended_reason, found.legs_used, found.next_at) == (RelayStatus.IDLE, "", 0, None)
    assert relay.legs == [] and relay.gates == []
    assert relay.open_leg.state == LegState.PENDING, "it is the next to start"
    assert RegionLease.objects.get(relay=relay.pk).held, "a region is held until the relay is done or stopped"


def test_a_broken_invariant_is_restored_by_leg_0_and_its_end_is_idle(course: Start, tmp_path: Path) -> None:
    relay = watching(course, tmp_path, done="file:other.txt", script=[*commit("other.txt"), *turn(), *boundary()])
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.progress) == ("RELAY_IDLE_PARKED", "", 1)
    found = relay.relay
    assert found.status == RelayStatus.IDLE and found.ended_at is None
    assert found.progress_total == 1 and relay.gates == [] and relay.open_leg is None
    assert relay.baton.tombstone.reason == "RELAY_IDLE_PARKED"
    assert leg.relay.empty_run == 0


def test_leg_0_is_told_to_restore_the_invariant(course: Start, tmp_path: Path, monkeypatch: Any) -> None:
    told = next_actions(monkeypatch)
    relay = watching(course, tmp_path, done="file:other.txt")
    relay.step()
    assert told == ["Restore the invariant in done_when."]


def next_actions(monkeypatch: Any) -> list[str]:
    """What each leg that starts from here on is told to do."""
    from relays.driver import launching

    told: list[str] = []
    launch = launching.launch

    def launched(relay: Any, leg: Any, claim: Any, ready: Any, *rest: Any) -> Any:
        told.append(ready.next_action)
        return launch(relay, leg, claim, ready, *rest)

    monkeypatch.setattr(launching, "launch", launched)
    return told


def test_an_idle_end_neither_grows_nor_resets_the_run_and_progress_resets_it(course: Start, tmp_path: Path) -> None:
    """A leg that makes nothing itself, while somebody else mends what was broken."""
    relay = watching(course, tmp_path, IDLES, done="file:other.txt")
    relay.step()
    assert (relay.legs[0].reason, relay.relay.empty_run) == ("RELAY_ROTATED", 1)
    made(relay.worktree, {"other.txt": "by hand\n"}, "By hand")
    relay.step()
    assert relay.relay.status == RelayStatus.IDLE and relay.relay.empty_run == 1
    breaks(relay, {"other.txt": None})
    assert advance.advance(relay.pk) == "driven"
    mends = [*commit("other.txt"), *turn(), *boundary("Go on.", final=True)]
    Relay.objects.filter(pk=relay.pk).update(agent_args=player(mends)["args"])
    relay.step()
    assert (relay.legs[1].reason, relay.relay.empty_run) == ("RELAY_IDLE_PARKED", 0)


def test_an_idle_leg_without_progress_is_no_empty_leg(course: Start, tmp_path: Path, meanwhile: At) -> None:
    """What a command looks at is mended outside the branch while a leg runs: its answer is asked for anew."""
    sign = tmp_path / "sign"
    sets = ["no_progress_legs=2", "every=10m", "done_check_every=0"]
    relay = watching(course, tmp_path, IDLES, done=f'cmd:"test -f {sign}"', sets=sets)
    relay.step()
    assert (relay.legs[0].reason, relay.relay.empty_run) == ("RELAY_ROTATED", 1)
    meanwhile(1, sign.touch)
    relay.step()
    leg = relay.legs[1]
    assert (leg.reason, leg.progress) == ("RELAY_IDLE_PARKED", 0)
    assert (relay.relay.status, relay.relay.empty_run) == (RelayStatus.IDLE, 1), "it neither grows nor resets"
    assert relay.gates == [], "else it were the K-th empty leg"
    assert CommandResult.objects.filter(relay=relay.pk).count() == 1, "the newest answer of a tip stays"


def test_what_is_pending_keeps_it_from_rest(course: Start, tmp_path: Path, monkeypatch: Any) -> None:
    """The invariant holds from the start, and an issue is open."""
    told = next_actions(monkeypatch)
    repo = make_repo(tmp_path / "busy", {"README.md": "x\n", ".relay/issues.jsonl": issue_lines({1: "open"})})
    closes = [
        *turn(),
        *boundary("Go on."),
        {"do": "git", "args": ["rm", "-q", "--cached", ".relay/issues.jsonl"]},
        {"do": "git", "args": ["clean", "-fdxq"]},
        *commit(".relay/issues.jsonl", issue_lines({1: "closed"})),
        *turn(),
        *boundary("Go on."),
    ]
    relay = course(repo=repo, watch=True, done="file:README.md", sets=[LIMIT], **player(closes))
    relay.step()
    (leg,) = relay.legs
    assert told == [watch.SETTLE]
    assert relay.answers(0) == ["go", "stop"], "holding alone is not the end"
    assert (leg.reason, relay.relay.status) == ("RELAY_IDLE_PARKED", RelayStatus.IDLE)


def test_an_open_question_is_pending_until_a_person_answers_it(course: Start, tmp_path: Path) -> None:
    asks = {"kind": "open_question", "label": "May it go?", "pointer": "file:README.md"}
    script = {"0": [asks, *MENDS], "*": IDLES}
    repo = make_repo(tmp_path / "asks", {"README.md": "x\n"})
    relay = course(repo=repo, watch=True, done=KEPT, sets=[LIMIT, "no_progress_legs=1"], **player(script))
    relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED", "it holds, and a question is open"
    relay.step()
    assert relay.waiting == ["RELAY_NO_PROGRESS"]
    climb = relay.reload
    assert climb.outcome == "fresh"
    said = Check.objects.get(verification=climb, step=8).evidence
    assert said.startswith("not done: ") and "nothing pending: 1 open question" in said
    relay.approve("RELAY_NO_PROGRESS", answers={"file:README.md": "Yes."})
    relay.step()
    assert relay.relay.status == RelayStatus.IDLE and len(relay.legs) == 2
    assert [gate.state for gate in relay.gates] == ["confirmed"], "the ladder says idle: no leg is needed"


@pytest.mark.slow
def test_a_resumed_watch_that_holds_rests_again(course: Start, tmp_path: Path) -> None:
    relay = watching(course, tmp_path)
    relay.step()
    park.park(operator(), relay.pk)
    assert relay.relay.status == RelayStatus.PARKED
    assert advance.advance(relay.pk) == "nothing to do"
    resume.resume(operator(), relay.pk)
    relay.step()
    assert relay.relay.status == RelayStatus.IDLE and relay.legs == []
    park.stop(operator(), relay.pk)
    assert (relay.relay.status, relay.relay.ended_reason) == (RelayStatus.STOPPED, "STOPPED")


def test_a_park_that_was_asked_for_wins_over_rest(course: Start, tmp_path: Path, meanwhile: At) -> None:
    relay = watching(course, tmp_path, done="file:other.txt", script=[*commit("other.txt"), *turn(), *boundary()])
    meanwhile(1, lambda: park.park(operator(), relay.pk))
    relay.step()
    assert relay.legs[0].reason == "RELAY_IDLE_PARKED"
    assert (relay.relay.status, relay.gates) == (RelayStatus.PARKED, [])


@pytest.mark.slow
def test_an_advisory_end_parks_and_the_resumed_watch_rests(course: Start, tmp_path: Path) -> None:
    relay = watching(course, tmp_path, done="file:other.txt", mode="shadow", script=[*commit("other.txt"), *IDLES])
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.advisory, relay.relay.status) == ("RELAY_IDLE_PARKED", True, RelayStatus.PARKED)
    resume.resume(operator(), relay.pk)
    relay.step()
    assert relay.relay.status == RelayStatus.IDLE


def test_a_spent_envelope_is_asked_for_when_there_is_something_to_do(course: Start, tmp_path: Path) -> None:
    mends = [*commit("other.txt"), *turn(), *boundary()]
    relay = watching(course, tmp_path, mends, done="file:other.txt", sets=["envelope.legs=1"])
    relay.step()
    assert relay.relay.status == RelayStatus.IDLE and relay.gates == []
    breaks(relay, {"other.txt": None})
    advance.advance(relay.pk)
    relay.step()
    assert relay.waiting == ["BUDGET_EXHAUSTED"] and len(relay.legs) == 1


# --- a quiet check stays


TABLES = (
    Relay,
    Leg,
    Baton,
    GateEpisode,
    Decision,
    LedgerRow,
    Verification,
    Check,
    ResetTransaction,
    CommandResult,
    Fact,
)


def test_a_hundred_quiet_checks_open_no_gate_and_start_no_leg(course: Start, tmp_path: Path, monkeypatch: Any) -> None:
    """The issue: "a watch relay over 100 quiet checks opens no gate and starts no leg"."""
    relay = watching(course, tmp_path, sets=["every=1h"])
    relay.step()
    monkeypatch.setattr(reconcile, "LOOK_AGAIN", timedelta(0))
    # a supervisor that was asked for would show here
    monkeypatch.setattr(spawn, "supervisor", lambda relay_id, leg_pk: pytest.fail("a leg was started"))
    before = {table: list(table.objects.order_by("pk").values_list("pk", flat=True)) for table in TABLES}
    Relay.objects.update(idle_looks=0)
    first = relay.relay
    for check in range(100):
        if check % 25 == 24:  # `every` is over
            Relay.objects.filter(pk=relay.pk).update(next_at=timezone.now())
        assert reconcile.reconcile() == 0
    found = relay.relay
    assert (found.status, found.status_at) == (RelayStatus.IDLE, first.status_at)
    assert found.idle_looks == 100
    assert found.next_at > timezone.now() + timedelta(minutes=59), "`every` begins anew with each look at the whole"
    assert {table: list(table.objects.order_by("pk").values_list("pk", flat=True)) for table in TABLES} == before


def test_a_quiet_check_is_cheap(
    course: Start, tmp_path: Path, monkeypatch: Any, django_assert_max_num_queries: Any
) -> None:
    """Every pass makes one for each watch at rest: two git processes that read refs, two statements, no transaction."""
    relay = watching(course, tmp_path)
    relay.step()
    processes: list[Any] = []
    run = subprocess.Popen.__init__

    def counted(self: Any, args: Any, *rest: Any, **values: Any) -> None:
        assert not connection.in_atomic_block, "no git runs inside a transaction"
        processes.append(args)
        run(self, args, *rest, **values)

    monkeypatch.setattr(subprocess.Popen, "__init__", counted)
    with django_assert_max_num_queries(2):
        assert idle.look(relay.pk, timezone.now()) == "idle"
    assert len(processes) <= 2, processes


def test_a_commit_that_changes_nothing_of_it_is_a_quiet_check(course: Start, tmp_path: Path) -> None:
    relay = watching(course, tmp_path)
    relay.step()
    tip = breaks(relay, {"other.txt": "x\n"})
    assert idle.look(relay.pk, timezone.now()) == "idle"
    assert (relay.relay.status, relay.relay.idle_tip) == (RelayStatus.IDLE, tip)


# --- it wakes by itself


def test_the_branch_moves_and_a_broken_invariant_starts_a_leg_that_restores_it(
    course: Start, tmp_path: Path, monkeypatch: Any
) -> None:
    told = next_actions(monkeypatch)
    relay = watching(
        course, tmp_path, {"0": [*commit("other.txt"), *IDLES], "*": MENDS}, done=f"{KEPT} and file:other.txt"
    )
    relay.step()
    closed = relay.baton
    assert relay.relay.status == RelayStatus.IDLE
    breaks(relay)
    monkeypatch.setattr(reconcile, "LOOK_AGAIN", timedelta(0))
    assert reconcile.reconcile() == 0
    found = relay.relay
    assert found.status == RelayStatus.READY
    assert found.status_why.startswith("the invariant is broken: file:kept.txt: ")
    # a new current baton of the same closing leg: same reason, cursor and tombstone, and what is to be done
    row = Baton.objects.get(relay=relay.pk, current=True)
    assert (row.why, row.leg.number) == ("wake", 0)
    assert relay.baton.next_action == "Restore the invariant in done_when."
    assert (relay.baton.tombstone, relay.baton.cursor) == (closed.tombstone, closed.cursor)
    (reset,) = ResetTransaction.objects.all()
    assert (reset.old_leg.number, reset.new_leg.number) == (0, 1)
    relay.step()
    assert told[1:] == ["Restore the invariant in done_when."]
    assert relay.reload.outcome == "fresh"
    assert [leg.reason for leg in relay.legs] == ["RELAY_IDLE_PARKED", "RELAY_IDLE_PARKED"]
    assert relay.legs[1].parent_trace == relay.legs[0].trace
    assert relay.relay.status == RelayStatus.IDLE and relay.gates == []


@pytest.mark.slow
def test_a_watch_that_rested_before_its_first_leg_wakes_with_leg_0(
    course: Start, tmp_path: Path, monkeypatch: Any
) -> None:
    told = next_actions(monkeypatch)
    relay = watching(course, tmp_path)
    relay.step()
    pending = relay.open_leg
    breaks(relay)
    assert advance.advance(relay.pk) == "driven"
    assert relay.open_leg == pending, "no second leg is made for it"
    relay.step()
    assert told == ["Restore the invariant in done_when."]
    assert (relay.legs[0].number, relay.relay.status) == (0, RelayStatus.IDLE)


def test_an_issue_that_is_filed_is_pending_and_wakes_it(course: Start, tmp_path: Path, monkeypatch: Any) -> None:
    told = next_actions(monkeypatch)
    relay = watching(course, tmp_path)
    relay.step()
    breaks(relay, {".relay/issues.jsonl": issue_lines({1: "open"})})
    advance.advance(relay.pk)
    assert relay.relay.status_why == "something is pending: nothing pending: open in scope: #1"
    relay.step()
    assert told == [watch.SETTLE]


@pytest.mark.slow
def test_what_mended_itself_meanwhile_rests_again_without_a_leg(course: Start, tmp_path: Path) -> None:
    relay = watching(course, tmp_path)
    relay.step()
    breaks(relay)
    advance.advance(relay.pk)
    made(relay.worktree, {"kept.txt": "again\n"}, "Mend it")
    relay.step()
    assert relay.relay.status == RelayStatus.IDLE and relay.legs == []


@pytest.mark.slow
def test_a_later_leg_does_what_the_one_before_it_named(course: Start, tmp_path: Path, monkeypatch: Any) -> None:
    """Only a watch that rested is told to restore its invariant; a rotation in the middle of that work is none."""
    told = next_actions(monkeypatch)
    work = [*commit("step-$LEG.txt"), *turn(), *boundary("Mend the second half.", final=True)]
    relay = watching(course, tmp_path, {"0": work, "*": MENDS})
    relay.step()
    breaks(relay)
    advance.advance(relay.pk)
    relay.step()
    relay.step()
    assert told == ["Restore the invariant in done_when.", "Mend the second half."]


def test_a_branch_that_was_rewritten_at_rest_is_stale_and_rederives(
    course: Start, tmp_path: Path, monkeypatch: Any
) -> None:
    told = next_actions(monkeypatch)
    relay = watching(
        course, tmp_path, {"0": [*commit("other.txt"), *IDLES], "*": MENDS}, done=f"{KEPT} and file:other.txt"
    )
    relay.step()
    git(relay.worktree, "reset", "-q", "--hard", relay.relay.start_sha)
    advance.advance(relay.pk)
    relay.step()
    assert relay.reload.outcome == "stale"
    assert told[1] == "Re-derive progress from the durable store."


def test_every_looks_at_a_ledger_row_that_no_commit_shows(course: Start, tmp_path: Path) -> None:
    relay = watching(course, tmp_path, done=f"{KEPT} and no-file:gone.txt", sets=["every=10m"])
    relay.step()
    due = relay.relay.next_at
    assert timedelta(minutes=9) < due - timezone.now() <= timedelta(minutes=10)
    # the branch as it stands is all that it looks at before that
    Relay.objects.filter(pk=relay.pk).update(done_when=f"ledger:{relay.pk}.0.e1")
    assert advance.advance(relay.pk) == "idle"
    Relay.objects.filter(pk=relay.pk).update(next_at=timezone.now())
    assert advance.advance(relay.pk) == "driven"
    assert relay.relay.status == RelayStatus.READY


@pytest.mark.parametrize("meanwhile_", ["another worker looks", "a person parks it", "a person stops it"])
def test_of_a_look_and_what_happens_meanwhile_one_wins(
    course: Start, tmp_path: Path, monkeypatch: Any, meanwhile_: str
) -> None:
    """states.md, Relay: a change is conditional on the state that it was judged in; never a second pending leg."""
    relay = watching(course, tmp_path)
    relay.step()
    park.park(operator(), relay.pk)
    resume.resume(operator(), relay.pk)
    Leg.objects.filter(relay=relay.pk).delete()  # as after a leg that ended idle: none is pending
    Relay.objects.filter(pk=relay.pk).update(status=RelayStatus.IDLE)
    breaks(relay)
    acts = {
        "another worker looks": lambda: idle.look(relay.pk, timezone.now()),
        "a person parks it": lambda: park.park(operator(), relay.pk),
        "a person stops it": lambda: park.stop(operator(), relay.pk),
    }
    leave = idle._leave

    def left(*args: Any, **values: Any) -> str:
        monkeypatch.setattr(idle, "_leave", leave)
        acts[meanwhile_]()
        return leave(*args, **values)

    monkeypatch.setattr(idle, "_leave", left)
    assert idle.look(relay.pk, timezone.now()) == "nothing to do"
    status_ = {"another worker looks": "ready", "a person parks it": "parked", "a person stops it": "stopped"}
    assert relay.relay.status == status_[meanwhile_]
    assert Leg.objects.filter(relay=relay.pk).count() == (1 if meanwhile_ == "another worker looks" else 0)


@pytest.mark.parametrize("step", ["judge", "record", "close"])
def test_a_crash_at_any_step_of_an_idle_end_leads_to_the_same_rest(
    course: Start, tmp_path: Path, killed: Any, step: str
) -> None:
    """rules.md, The driver: "whoever retries any step after a crash reaches the same result"."""
    relay = watching(course, tmp_path, [*commit("other.txt"), *turn(), *boundary()], done="file:other.txt")
    killed(Ending, step)
    with pytest.raises(Killed):
        relay.step()
    assert relay.relay.status == RelayStatus.RUNNING
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, relay.relay.status, relay.relay.empty_run) == ("RELAY_IDLE_PARKED", RelayStatus.IDLE, 0)
    assert relay.gates == [] and relay.open_leg is None


# --- unknown is not idle


def test_a_store_that_does_not_answer_makes_it_wait_and_then_it_is_asked_like_any_other(
    course: Start, tmp_path: Path
) -> None:
    relay = watching(
        course, tmp_path, {"0": [*commit("other.txt"), *IDLES], "*": MENDS}, done=f"{KEPT} and file:other.txt"
    )
    relay.step()
    repo = Path(relay.relay.repo)
    away = repo.with_name("away")
    shutil.move(repo, away)
    advance.advance(relay.pk)
    found = relay.relay
    assert found.status == RelayStatus.WAITING and found.status_why.startswith("a store did not answer")
    assert round((found.next_at - found.status_at).total_seconds()) == 5 and found.unknown_since is not None
    assert relay.open_leg.number == 1 and relay.gates == []
    shutil.move(away, repo)
    relay.time_passes()
    relay.step()
    assert relay.relay.status == RelayStatus.IDLE and len(relay.legs) == 1, "it answers, and it holds"
    assert relay.relay.unknown_since is None


@pytest.mark.slow
def test_an_issue_file_that_does_not_read_is_unknown(course: Start, tmp_path: Path) -> None:
    relay = watching(course, tmp_path)
    relay.step()
    breaks(relay, {".relay/issues.jsonl": issue_lines({1: "closed"}) + "{broken\n"})
    advance.advance(relay.pk)
    found = relay.relay
    assert found.status == RelayStatus.WAITING and "malformed" in found.status_why
    relay.time_passes()
    relay.step()
    assert relay.relay.status == RelayStatus.WAITING and relay.legs == [], "the ladder says the same"
    breaks(relay, {".relay/issues.jsonl": issue_lines({1: "closed"})})
    relay.time_passes()
    relay.step()
    assert relay.relay.status == RelayStatus.IDLE


# --- commands


def test_a_cmd_is_run_anew_when_every_is_over_though_the_branch_stands_still(
    course: Start, tmp_path: Path, monkeypatch: Any
) -> None:
    sign = tmp_path / "sign"
    sign.touch()
    relay = watching(course, tmp_path, done=f'cmd:"test -f {sign}"', sets=["every=10m"])
    relay.step()
    assert relay.relay.status == RelayStatus.IDLE
    asked: list[str] = []
    monkeypatch.setattr(spawn, "looker", lambda relay_id: asked.append(relay_id) or True)
    assert advance.advance(relay.pk) == "idle" and asked == [], "not before"
    Relay.objects.filter(pk=relay.pk).update(next_at=timezone.now())
    assert advance.advance(relay.pk) == "looking" and asked == [relay.pk], "a command has a process of its own"
    for _ in range(2):
        assert idle.look_with_commands(relay.pk) == f"{relay.pk}: idle"
    assert relay.relay.next_at > timezone.now() + timedelta(minutes=9)
    assert CommandResult.objects.filter(relay=relay.pk).count() == 1, "the newest answer stays, however often it looks"
    sign.unlink()
    assert idle.look_with_commands(relay.pk) == f"{relay.pk}: woken"
    assert (relay.relay.status, relay.open_leg.number) == (RelayStatus.READY, 0)
    relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED", "the answer that woke it was kept: it is not run a second time"


def test_a_person_who_parks_it_ends_the_look_while_its_command_runs(
    course: Start, tmp_path: Path, monkeypatch: Any
) -> None:
    sign = tmp_path / "slow"
    relay = watching(course, tmp_path, done=f'cmd:"test ! -f {sign} || sleep 60"', sets=["every=10m"])
    relay.step()
    sign.touch()
    monkeypatch.setattr(idle._Beat, "EVERY", timedelta(0))
    beats = 0
    hold = idle.Claim.hold

    def parked(self: Any, now: Any = None) -> None:
        nonlocal beats
        beats += 1
        if beats == 2:
            park.park(operator(), relay.pk)
        hold(self, now)

    monkeypatch.setattr(idle.Claim, "hold", parked)
    begun = timezone.now()
    assert "left alone" in idle.look_with_commands(relay.pk)
    assert timezone.now() - begun < timedelta(seconds=30)
    assert relay.relay.status == RelayStatus.PARKED
    assert not process.living(commands.marker_of(relay.pk)), "nothing of it is left"


def test_a_look_at_what_is_driven_or_no_longer_idle_is_left_alone(course: Start, tmp_path: Path) -> None:
    relay = watching(course, tmp_path, done='cmd:"true"', sets=["every=10m"])
    assert idle.look_with_commands(relay.pk).endswith("nothing to do")
    relay.step()
    with kernel_lock(relay.pk):
        assert "left alone" in idle.look_with_commands(relay.pk)
    assert relay.relay.status == RelayStatus.IDLE
    assert idle.look("RLY-20200101-0001", timezone.now()) == "nothing to do"


# --- one pass over all of them


@pytest.mark.slow
def test_a_pass_is_bounded_and_one_that_fails_comes_last_and_ends_nothing(
    course: Start, tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    relays = []
    for name in ("one", "two", "three"):
        repo = make_repo(tmp_path / name, {"README.md": "x\n"})
        relays.append(course(repo=repo, watch=True, done="file:README.md", sets=[LIMIT], **player(IDLES)))
        relays[-1].step()
    Relay.objects.update(idle_looks=0)  # each was looked at once already, when it came to rest
    seen: list[str] = []
    look = idle.look

    def looked(relay_id: str, now: Any) -> str:
        seen.append(relay_id)
        if relay_id == relays[0].pk:
            raise RuntimeError("no such luck")
        return look(relay_id, now)

    monkeypatch.setattr(idle, "look", looked)
    monkeypatch.setattr(reconcile, "LOOK_AGAIN", timedelta(0))
    monkeypatch.setattr(reconcile, "LOOKS", 2)
    reconcile.reconcile()
    reconcile.reconcile()
    first, second, third = (relay.pk for relay in relays)
    assert seen == [first, second, third, first]
    assert [relay.relay.idle_looks for relay in relays] == [0, 1, 1]
    assert [record.message for record in caplog.records if first in record.message]
    monkeypatch.setattr(reconcile, "LOOKS_TAKE", -1.0)
    reconcile.reconcile()
    assert len(seen) == 4, "a pass that took its time begins no further look"


def test_a_relay_that_cannot_be_advanced_ends_nothing_else(course: Start, tmp_path: Path, monkeypatch: Any) -> None:
    """architecture.md: whatever one relay meets, the outbox, the gates and the other relays have their turn."""
    relays = [course(repo=make_repo(tmp_path / name, issues=1)) for name in ("one", "two")]
    seen: list[str] = []

    def advanced(relay_id: str) -> str:
        seen.append(relay_id)
        if relay_id == relays[0].pk:
            raise RuntimeError("no such luck")
        return "started"

    done: list[str] = []
    monkeypatch.setattr(advance, "advance", advanced)
    monkeypatch.setattr(reconcile.outbox, "carry_out", lambda: done.append("outbox"))
    monkeypatch.setattr(reconcile.gates, "expire", lambda now: done.append("gates"))
    assert reconcile.reconcile() == 1
    assert seen == [relay.pk for relay in relays]
    assert done == ["outbox", "gates"]


# --- any order of it


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_in_whatever_order_a_watch_rests_only_where_it_holds(
    course: Start, tmp_path: Path, monkeypatch: Any, killed: Any, seed: int
) -> None:
    """states.md, Relay: any order of commits, looks, parks, resumes and crashes stays inside the table; a watch at rest
    holds with nothing pending at the tip that it saw, has one leg pending at most, and never asked anybody."""
    moves: set[tuple[str, str]] = set()
    update = Relay.objects.all().__class__.update

    def updated(self: Any, **fields: Any) -> int:
        before = list(self.values_list("status", flat=True)) if self.model is Relay and "status" in fields else []
        changed = update(self, **fields)
        if changed:
            moves.update((status, str(fields["status"])) for status in before)
        return int(changed)

    monkeypatch.setattr(Relay.objects.all().__class__, "update", updated)
    mends = [
        {"do": "git", "args": ["rm", "-q", "--cached", "--ignore-unmatch", ".relay/issues.jsonl"]},
        {"do": "git", "args": ["clean", "-fdxq"]},
        *commit("kept.txt"),
        *commit(".relay/issues.jsonl", issue_lines({1: "closed"})),
        *turn(),
        *boundary("Go on.", final=True),
    ]
    sets = ["no_progress_legs=0"]
    relay = watching(course, tmp_path, mends, done=f"{KEPT} and issues:none open", sets=sets)
    chance = random.Random(seed)
    truth = {True: issue_lines({1: "closed"}), False: issue_lines({1: "open"})}

    def moved(files: dict[str, str | None]) -> None:
        if relay.worktree.exists():
            made(
                relay.worktree, {k: v for k, v in files.items() if v is not None or (relay.worktree / k).exists()}, "x"
            )

    def crashes() -> None:
        if relay.open_leg is not None and relay.relay.status == RelayStatus.READY:
            killed(Ending, chance.choice(["judge", "record", "close"]))
            with contextlib.suppress(Killed):
                relay.step()

    def goes_on() -> None:
        if relay.relay.status == RelayStatus.PARKED:
            resume.resume(operator(), relay.pk)

    acts: list[Callable[[], object]] = [
        lambda: moved({"kept.txt": "again\n"}),
        lambda: moved({"kept.txt": None}),
        lambda: moved({".relay/issues.jsonl": truth[True]}),
        lambda: moved({".relay/issues.jsonl": truth[False]}),
        *[lambda: advance.advance(relay.pk)] * 5,
        *[lambda: relay.relay.status in (RelayStatus.READY, RelayStatus.RUNNING) and relay.step()] * 5,
        lambda: park.park(operator(), relay.pk),
        *[goes_on] * 3,
        crashes,
    ]
    wanted = {("ready", "idle"), ("idle", "ready"), ("running", "idle")}
    for done in range(300):
        if done >= 60 and wanted <= moves:
            break
        chance.choice(acts)()
        found = relay.relay
        assert Leg.objects.filter(relay=relay.pk, state__in=OPEN_STATES).count() <= 1
        if found.status == RelayStatus.IDLE:
            files = git(Path(found.repo), "ls-tree", "-r", "--name-only", found.idle_tip).splitlines()
            assert "kept.txt" in files
            assert '"open"' not in git(Path(found.repo), "show", f"{found.idle_tip}:.relay/issues.jsonl")
    assert relay.gates == []
    assert wanted <= moves, "it rested, woke and rested again"
    assert {pair for pair in moves if pair[0] != pair[1]} <= {
        (frm, to) for frm, targets in lifecycle.RELAY.items() for to in targets
    }


WORKER = """
import time
from relays.driver import reconcile
from relays.models import Leg, Relay
until = time.monotonic() + 60
def over():
    return Leg.objects.filter(state="ended").exists() and Relay.objects.get().status == "idle"
while time.monotonic() < until and not over():
    reconcile.reconcile()
    time.sleep(0.5)
"""


@pytest.mark.slow
def test_a_command_that_fails_by_itself_wakes_the_watch_and_a_leg_mends_it_as_real_processes(
    course: Start, tmp_path: Path, process_env: dict[str, str], settings: Any
) -> None:
    """Nothing moves on the branch, nobody rings: a worker's passes, a look and a supervisor of their own do it."""
    sign = tmp_path / "sign"
    sign.touch()
    mends = [{"do": "write", "path": str(sign), "text": "x"}, *turn(), *boundary("Go on.", final=True)]
    sets = ["every=1", "done_check_every=0"]
    relay = watching(course, tmp_path, mends, done=f'cmd:"test -f {sign}"', sets=sets)
    relay.step()
    assert relay.relay.status == RelayStatus.IDLE
    sign.unlink()
    env = {**process_env, "RELAY_VAR": str(settings.RELAY_VAR)}
    worker = [sys.executable, "manage.py", "shell", "-v", "0", "-c", WORKER]
    done = subprocess.run(worker, cwd=settings.BASE_DIR, env=env, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr.decode()
    (leg,) = relay.legs
    assert (leg.reason, leg.progress) == ("RELAY_IDLE_PARKED", 0)
    assert relay.relay.status == RelayStatus.IDLE and relay.gates == []
    # whoever still looks or supervises has let go before the folder is taken away
    deadline = time.monotonic() + 30
    while locked_here(relay.pk) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert not locked_here(relay.pk)


def test_json_of_a_watch(course: Start, tmp_path: Path) -> None:
    relay = watching(course, tmp_path)
    relay.step()
    found = json.loads(json.dumps(status.status(relay.pk)))
    assert (found["status"], found["gates"], found["ended"]) == ("idle", [], None)
