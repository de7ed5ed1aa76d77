"""A supervisor that dies at any step: whoever retries reaches the same result, never a second successor."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection

from relays.agents import process
from relays.driver import baton_maker, successor
from relays.driver.attached import Attached
from relays.driver.boundaries import Boundaries
from relays.driver.ending import Ending
from relays.driver.ingest import Ingest
from relays.driver.prepare import Prepare
from relays.driver.supervise import Supervisor
from relays.models import Baton, Event, Leg, LegState, RelayStatus, ResetTransaction, Tombstone
from tests.builders import git
from tests.driver.conftest import Killed
from tests.driver.course import boundary, commit, loop, player, turn

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
Start = Callable[..., Any]
Kill = Callable[..., None]

WORK = [*commit("work.txt"), *turn(), *boundary("Go on.", final=True)]


def once(relay: Any) -> None:
    """Nothing happened twice."""
    numbers = list(Leg.objects.filter(relay=relay.pk).order_by("number").values_list("number", flat=True))
    assert numbers == list(range(len(numbers)))
    assert Leg.objects.filter(relay=relay.pk).exclude(state__in=["ended", "void"]).count() <= 1
    assert Tombstone.objects.filter(leg__relay=relay.pk).count() == len(relay.legs)
    assert Baton.objects.filter(relay=relay.pk, why="rotation").count() == len(relay.legs)
    olds = list(ResetTransaction.objects.filter(old_leg__relay=relay.pk).values_list("old_leg", flat=True))
    assert len(olds) == len(set(olds))


STEPS: list[tuple[str, Any, str, dict[str, Any]]] = [
    ("before the ladder", Prepare, "_may_start", {}),
    ("before the leg is starting", Prepare, "_to_starting", {}),
    ("the leg is starting", Prepare, "_to_starting", {"after": True}),
    ("before its process", process, "launch", {}),
    ("its process lives", Supervisor, "_wait_for_first_event", {}),
    ("before the first event is kept", Supervisor, "_running", {}),
    ("the leg runs", Supervisor, "_running", {"after": True}),
    ("before events are stored", Ingest, "flush", {}),
    ("events are stored", Ingest, "flush", {"after": True}),
    ("before the boundary", Boundaries, "judge", {}),
    ("the boundary is kept", Boundaries, "judge", {"after": True}),
    ("before the end is judged", Ending, "judge", {}),
    ("before the end is recorded", Ending, "record", {}),
    ("the end is recorded", Ending, "record", {"after": True}),
    ("before it is judged again", Ending, "again", {}),
    ("before the transaction", baton_maker, "gather", {"after": True}),
    ("inside the transaction", Ending, "_move_on", {}),
    ("the successor's row is written", successor, "make", {"after": True}),
    ("the leg is closed", Ending, "close", {"after": True}),
]


#: between these lie the changes of state; the others are tried by `make slow`
TELLING = {
    "the leg is starting",
    "its process lives",
    "the leg runs",
    "the boundary is kept",
    "the end is recorded",
    "inside the transaction",
    "the leg is closed",
}


@pytest.mark.parametrize(
    ("owner", "name", "how"),
    [pytest.param(*step[1:], id=step[0], marks=() if step[0] in TELLING else pytest.mark.slow) for step in STEPS],
)
def test_a_death_at_any_step_leads_to_the_same_one_rotation(
    course: Start, killed: Kill, owner: Any, name: str, how: dict[str, Any]
) -> None:
    relay = course(**player(WORK))
    killed(owner, name, **how)
    with pytest.raises(Killed):
        relay.step()
    marker = Leg.objects.get(relay=relay.pk, number=0).marker
    assert not marker or not process.living(marker), "no agent is left behind"
    for _ in range(3):
        if relay.legs:
            break
        relay.step()
    once(relay)
    leg = relay.legs[0]
    made = git(relay.worktree, "rev-list", f"{relay.relay.start_sha}..{relay.relay.branch}").split()
    claimed = [one["sha"] for one in leg.progress_detail["commits"]]
    assert made and claimed and set(claimed) | set(leg.progress_detail["repeated"]) <= set(made)
    assert made[0] == leg.end_sha, "no commit is lost"
    if leg.reason == "RELAY_ROTATED":
        assert relay.open_leg.number == 1 and relay.relay.status == RelayStatus.READY
    else:
        # it died before a boundary was kept: no next action is known, so a person looks
        assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "supervisor_crash", "NO_NEXT_ACTION")
        assert name in ("_running", "flush") and relay.waiting == ["RELAY_PARKED_UNSAFE"]


def test_a_recorded_end_is_finished_whatever_on_crash_says(course: Start, killed: Kill) -> None:
    relay = course(**player(WORK), sets=["on_crash=park"])
    killed(Ending, "record", after=True)
    with pytest.raises(Killed):
        relay.step()
    assert relay.open_leg.state == LegState.ENDING
    relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED" and relay.open_leg.number == 1


def test_a_leg_whose_agent_cannot_be_ended_has_no_successor_until_it_is_gone(
    course: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rules.md, The driver: "the old leg's process is confirmed gone before the next one starts"."""
    relay = course(**player(WORK))
    end = Attached.end

    def lives(self: Attached, *_: Any) -> None:
        raise process.StillAlive(self.leg.marker, [self.leg.agent_pid])

    monkeypatch.setattr(Attached, "end", lives)
    assert "not closed yet" in relay.step()
    leg = relay.open_leg
    assert (leg.number, leg.state, leg.end_decision["reason"]) == (0, LegState.ENDING, "RELAY_ROTATED")
    assert Leg.objects.count() == 1 and not Tombstone.objects.exists()
    monkeypatch.setattr(Attached, "end", end)
    relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED" and relay.open_leg.number == 1


@pytest.mark.parametrize(("policy", "reason"), [("continue", "RELAY_ROTATED"), ("park", "RELAY_PARKED_UNSAFE")])
def test_on_crash_says_whether_a_safe_leg_that_died_rotates(
    course: Start, killed: Kill, policy: str, reason: str
) -> None:
    relay = course(**player([*commit("a.txt"), loop(*turn(), *boundary("Go on."))]), sets=[f"on_crash={policy}"])
    killed(Boundaries, "judge", nth=3)
    with pytest.raises(Killed):
        relay.step()
    relay.step()
    (leg,) = relay.legs
    assert leg.reason == reason
    assert leg.cause == ("supervisor_crash" if policy == "park" else "")
    assert (relay.open_leg is not None) == (policy == "continue")


def test_dirty_work_of_a_dead_leg_is_stored_and_laid_back(course: Start, killed: Kill) -> None:
    dirty = [*commit("a.txt"), {"do": "write", "path": "half.txt", "text": "half\n"}]
    relay = course(**player([*dirty, loop(*turn(), *boundary("Go on."))]))
    killed(Boundaries, "judge", nth=2)
    with pytest.raises(Killed):
        relay.step()
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "supervisor_crash", "TREE_DIRTY_UNPARKED")
    assert git(relay.worktree, "show", f"refs/relay/wip/{relay.pk}/0:half.txt") == "half"
    relay.approve("RELAY_PARKED_UNSAFE")
    killed(Boundaries, "judge", nth=1)
    with pytest.raises(Killed):
        relay.step()
    assert relay.open_leg.wip_laid_back == "applied"


def test_a_supervisor_that_fails_says_so_where_a_person_looks(course: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    relay = course(**player(WORK))

    def broken(*_: object, **__: object) -> None:
        raise ValueError("no\x1b such thing")

    with monkeypatch.context() as patch, pytest.raises(ValueError, match="such thing"):
        patch.setattr(Ending, "close", broken)
        relay.step()
    found = relay.relay
    assert found.status == RelayStatus.RUNNING
    assert found.status_why == "the supervisor failed and is started again: ValueError: no\ufffd such thing"
    relay.step()
    assert relay.relay.status == RelayStatus.READY and relay.relay.status_why == ""


@pytest.mark.slow
def test_a_tool_that_ran_when_the_supervisor_died_counts_as_in_flight(course: Start, killed: Kill) -> None:
    script = [
        *turn(),
        *boundary("Go on."),
        *turn(),
        {"kind": "tool_started", "id": "t1", "name": "shell"},
        *boundary("Go on."),
    ]
    relay = course(**player(script))
    killed(Boundaries, "judge", nth=2)
    with pytest.raises(Killed):
        relay.step()
    relay.step()
    assert relay.legs[0].hold == "IN_FLIGHT_TOOL_CALL"
    assert "tool call t1 was still running (shell)" in relay.gates[-1].items, "its id alone tells a person nothing"
    assert relay.legs[0].end_decision["in_flight"] == ["t1"], "programs read the id"


def test_a_tree_that_changed_after_the_decision_is_judged_again(course: Start, killed: Kill) -> None:
    relay = course(**player(WORK))
    killed(Ending, "record", after=True)
    with pytest.raises(Killed):
        relay.step()
    (relay.worktree / "late.txt").write_text("written after the decision\n")
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "agent_exit", "TREE_DIRTY_UNPARKED")
    assert leg.wip_sha


def test_judged_again_an_end_keeps_what_forced_it(course: Start, killed: Kill) -> None:
    relay = course(**player([*turn(950), *boundary("Go on.")]), sets=["window_tokens=1000"])
    killed(Ending, "record", after=True)
    with pytest.raises(Killed):
        relay.step()
    assert relay.open_leg.end_decision["reason"] == "RELAY_ROTATED"
    (relay.worktree / "late.txt").write_text("written after the decision\n")
    relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "ceiling")


def test_events_are_folded_again_to_the_same_figures(course: Start, killed: Kill) -> None:
    relay = course(**player([*turn(400, 7), *boundary("Go on."), *turn(500, 9), *boundary("Go on.")]))
    killed(Boundaries, "judge", nth=2)
    with pytest.raises(Killed):
        relay.step()
    before = relay.open_leg
    relay.step()
    (leg,) = relay.legs
    assert (leg.turns, leg.peak_tokens, leg.output_tokens, leg.calls) == (2, 500, 16, 2)
    assert (before.turns, before.peak_tokens, before.output_tokens, before.calls) == (2, 500, 16, 2)
    assert (relay.relay.turns_used, relay.relay.output_used, relay.relay.legs_used) == (2, 16, 1)


@pytest.mark.parametrize("late", [False, True])
def test_turns_are_read_before_the_transaction_and_again_only_where_they_are_not_all(
    course: Start, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """rules.md, The driver: "ONE database transaction"; nobody waits for it while the leg's events are read."""
    relay = course(**player({"0": WORK}))
    turns_of, locked = successor.turns_of, []

    def reading(leg: Leg) -> successor.Turns:
        locked.append(connection.in_atomic_block)
        found = turns_of(leg)
        if late and len(locked) == 1:
            last = Event.objects.filter(leg=leg).order_by("-seq")[0]
            Event.objects.create(leg=leg, seq=last.seq + 1, kind="odd", known=False, payload={}, at=last.at)
        return found

    monkeypatch.setattr(successor, "turns_of", reading)
    relay.step()
    assert locked == ([False, True] if late else [False])
    (leg,) = relay.legs
    omitted = ResetTransaction.objects.get(old_leg=leg).omitted
    assert [span["digest"] for span in omitted] == list(turns_of(leg).digests) and omitted
