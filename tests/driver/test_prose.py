"""rules.md, done_when: "Prose is legal but never true by itself; a reviewer confirms it (`DONE_UNCONFIRMED`) as a
decision bound to what was shown."

states.md, How a leg ends, rule 3, and the rows of relay and gate that a confirmation takes.
"""

from collections.abc import Callable
from typing import Any

import pytest

from relays.actions import decide, resume
from relays.actions.base import ChangedSinceSeen, NotLegalNow, NotPermitted, Usage
from relays.driver import advance
from relays.models import Decision, GateState, LegState, RegionLease, Relay, RelayStatus
from relays.reports import status
from tests.actions.acts import check_chain, refuse, seen
from tests.builders import commit as made
from tests.driver.course import boundary, commit, operator, player, reviewer, turn, user

Start = Callable[..., Any]

PROSE = "The handbook reads well"
#: the agent says that it is at its end, and names no next action: told once what holds, it ends
ENDS = [*turn(), *boundary(final=True), *boundary(final=True)]
BELIEVES = [*commit("work-$LEG.txt"), *ENDS]


def prose(course: Start, script: Any = BELIEVES, **values: Any) -> Any:
    sets = ["envelope.legs=9", *values.pop("sets", [])]
    return course(done=PROSE, sets=sets, **player(script), **values)


def unconfirmed(relay: Any) -> Any:
    (gate,) = (gate for gate in relay.gates if gate.token == "DONE_UNCONFIRMED" and gate.state == GateState.WAITING)
    return gate


def test_an_agent_that_ends_without_a_next_action_asks_whether_the_goal_is_reached(course: Start) -> None:
    relay = prose(course)
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause) == ("RELAY_ROTATED", "")
    assert relay.relay.status == RelayStatus.PARKED and relay.open_leg is None
    assert relay.waiting == ["DONE_UNCONFIRMED"]
    assert relay.baton.next_action == ""
    assert advance.advance(relay.pk) == "nothing to do", "prose is never true by itself"


def test_a_reviewer_who_confirms_it_ends_the_relay_and_no_leg_follows(course: Start) -> None:
    relay = prose(course, sets=["resume=by_operator"])
    relay.step()
    gate = unconfirmed(relay)
    looked = seen(gate)
    outcome = relay.approve("DONE_UNCONFIRMED")
    assert outcome.state == "confirmed"
    found = relay.relay
    assert (found.status, found.ended_reason, found.status_why) == (
        RelayStatus.DONE,
        "RELAY_GOAL_DONE",
        "DONE_UNCONFIRMED: confirmed by rae",
    )
    assert relay.open_leg is None and len(relay.legs) == 1
    assert not RegionLease.objects.get(relay=relay.pk).held
    row = Decision.objects.get(act="approve")
    assert (row.gate, row.seen, row.actor) == (gate, looked, reviewer().user)
    assert advance.advance(relay.pk) == "nothing to do", "a relay that is done stays done"
    assert status.status(relay.pk)["ended"]["reason"] == "RELAY_GOAL_DONE"
    assert check_chain() == 2


def test_a_confirmation_is_bound_to_what_was_shown(course: Start) -> None:
    relay = prose(course)
    relay.step()
    gate = unconfirmed(relay)
    looked = seen(gate)
    made(relay.worktree, {"late.txt": "x\n"}, "After the look")
    with pytest.raises(ChangedSinceSeen):
        decide.approve(reviewer(), gate.pk, seen=looked, comment="It reads well.")
    assert relay.relay.status == RelayStatus.PARKED
    with pytest.raises(NotPermitted, match="four eyes"):
        both = user("both", "reviewer", "operator")
        Relay.objects.filter(pk=relay.pk).update(owner=both)
        decide.approve(type(operator())(both), gate.pk, seen=seen(gate), comment="It reads well.")


@pytest.mark.slow
def test_as_many_reviewers_as_the_policy_wants_confirm_it(course: Start) -> None:
    relay = prose(course, sets=["approvals=2"])
    relay.step()
    assert relay.approve("DONE_UNCONFIRMED").state == "waiting"
    assert relay.relay.status == RelayStatus.PARKED
    gate = unconfirmed(relay)
    second = type(operator())(user("sam", "reviewer"))
    assert decide.approve(second, gate.pk, seen=seen(gate), comment="Yes.").state == "confirmed"
    assert relay.relay.status == RelayStatus.DONE


def test_nothing_is_carried_over_by_a_confirmation(course: Start) -> None:
    relay = prose(course)
    relay.step()
    for values in ({"next_action": "Go on."}, {"objective": "Another"}, {"sets": ["leg.turns=9"]}):
        with pytest.raises(Usage, match="refuse with --next-action or --objective"):
            relay.approve("DONE_UNCONFIRMED", **values)
    assert relay.waiting == ["DONE_UNCONFIRMED"] and not Decision.objects.filter(act="approve").exists()


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ({"next_action": "Write the last chapter."}, "Write the last chapter."),
        ({"objective": "Write a longer handbook."}, ""),
    ],
)
def test_a_refusal_that_says_what_is_missing_lets_an_operator_resume(
    course: Start, says: dict[str, str], told: str
) -> None:
    relay = prose(course)
    relay.step()
    gate = unconfirmed(relay)
    assert refuse(reviewer(), gate, **says).state == "refused"
    assert relay.relay.status == RelayStatus.PARKED and relay.open_leg is None, "refused, it stays parked"
    assert relay.baton.next_action == told
    assert resume.resume(operator(), relay.pk).will == "start"
    relay.step()
    assert len(relay.legs) == 2 and relay.reload.outcome == "fresh"
    assert relay.waiting == ["DONE_UNCONFIRMED"], "the agent believes so again, and it is asked again"
    assert relay.approve("DONE_UNCONFIRMED").state == "confirmed"


@pytest.mark.slow
def test_a_plain_refusal_stands_until_it_is_reopened_or_the_relay_stopped(course: Start) -> None:
    relay = prose(course)
    relay.step()
    gate = unconfirmed(relay)
    refuse(reviewer(), gate)
    with pytest.raises(NotLegalNow, match="then refuse it with --next-action, which says what is missing"):
        resume.resume(operator(), relay.pk)
    assert relay.relay.status == RelayStatus.PARKED
    again = refuse(reviewer(), gate, seen="", reopen=True)
    assert relay.waiting == ["DONE_UNCONFIRMED"]
    assert again.gate != gate.pk
    assert refuse(reviewer(), unconfirmed(relay), then="stop").state == "refused"
    assert relay.relay.status == RelayStatus.STOPPED


@pytest.mark.slow
def test_a_prose_relay_that_resumes_from_another_gate_goes_on_and_is_asked_in_its_turn(course: Start) -> None:
    dirty = [*turn(), {"do": "write", "path": "half.txt", "text": "x"}, *ENDS]
    relay = prose(course, {"0": dirty, "1": [{"do": "git", "args": ["add", "-A"]}, *BELIEVES]})
    relay.step()
    assert relay.waiting == ["RELAY_PARKED_UNSAFE"], "a dirty tree asks nobody whether it is done"
    assert relay.approve("RELAY_PARKED_UNSAFE").state == "requested"
    relay.step()
    assert relay.waiting == ["DONE_UNCONFIRMED"]
    assert relay.approve("DONE_UNCONFIRMED").state == "confirmed"
    assert [gate.state for gate in relay.gates] == ["confirmed", "confirmed"]


def test_a_next_action_is_a_rotation_as_for_any_goal(course: Start) -> None:
    relay = prose(course, [*commit("work-$LEG.txt"), *turn(), *boundary("Go on.", final=True)])
    relay.step()
    assert relay.relay.status == RelayStatus.READY and relay.gates == []


def test_an_envelope_that_is_spent_at_the_same_end_asks_both_and_confirming_needs_no_budget(course: Start) -> None:
    relay = prose(course, sets=["envelope.legs=1"])
    relay.step()
    assert relay.waiting == ["DONE_UNCONFIRMED", "BUDGET_EXHAUSTED"]
    assert relay.approve("DONE_UNCONFIRMED").state == "confirmed"
    assert [gate.state for gate in relay.gates] == ["confirmed", "superseded"]
    assert relay.relay.status == RelayStatus.DONE


@pytest.mark.slow
def test_a_pending_leg_is_void_when_the_goal_is_confirmed(course: Start) -> None:
    relay = prose(course)
    relay.step()
    gate = unconfirmed(relay)
    from relays.driver import successor

    left = successor.pending(relay.relay, gate.opened_at)
    relay.approve("DONE_UNCONFIRMED")
    left.refresh_from_db()
    assert left.state == LegState.VOID
