"""Resume: a person's park goes on, a gate that is not decided or was refused does not."""

from datetime import timedelta

import pytest
from django.utils import timezone

from relays.actions import park, resume
from relays.actions.base import NotFound, NotLegalNow, NotPermitted
from relays.models import (
    Decision,
    GateEpisode,
    GateState,
    Leg,
    LegState,
    Relay,
    RelayStatus,
    Request,
    ResetTransaction,
)
from tests.actions.acts import People, approve, check_chain, everything, refuse
from tests.report_builders import Story
from tests.web_builders import make_gate, make_leg, make_relay

pytestmark = pytest.mark.django_db


def by_operator(relay: Relay) -> None:
    Relay.objects.filter(pk=relay.pk).update(policy={"resume": "by_operator"})


def parked_by_person(story: Story) -> Relay:
    Relay.objects.filter(pk=story.relay.pk).update(
        status=RelayStatus.PARKED, empty_run=2, armed_legs=3, attempts=4, turns_used=77, park=Request.NONE
    )
    return story.relay


@pytest.mark.parametrize("who", ["reviewer", "manager", "outsider"])
def test_only_an_operator_may(who: str, people: People, story: Story) -> None:
    relay = parked_by_person(story)
    before = everything()
    with pytest.raises(NotPermitted):
        resume.resume(getattr(people, who), relay.pk)
    assert everything() == before


def test_a_persons_park_goes_on_with_a_linked_leg_and_a_fresh_run(people: People, story: Story) -> None:
    relay = parked_by_person(story)
    outcome = resume.resume(people.operator, relay.pk, "go")
    assert (outcome.status, outcome.leg, outcome.will) == ("ready", 2, "start")
    relay.refresh_from_db()
    assert (relay.empty_run, relay.armed_legs, relay.attempts) == (0, 0, 0)
    assert relay.turns_used == 77  # a spent budget stays spent
    leg = Leg.objects.get(relay=relay, number=2)
    assert (leg.state, leg.parent_trace, leg.from_gate) == (LegState.PENDING, story.legs[1].trace, None)
    assert ResetTransaction.objects.get(new_leg=leg).old_leg == story.legs[1]
    assert (Decision.objects.get().act, Decision.objects.get().comment) == ("resume", "go")


def test_twice_makes_one_leg(people: People, story: Story) -> None:
    relay = parked_by_person(story)
    resume.resume(people.operator, relay.pk)
    before = everything()
    assert resume.resume(people.operator, relay.pk).will == "none"
    assert everything() == before
    assert Leg.objects.filter(relay=relay, state=LegState.PENDING).count() == 1


def test_the_pending_leg_of_a_parked_relay_is_taken_up_not_doubled(people: People) -> None:
    relay = make_relay(owner=people.operator.user, status=RelayStatus.READY)
    leg = make_leg(relay, 0, state=LegState.PENDING, attempts=2, start_error="no such program")
    park.park(people.operator, relay.pk)
    assert resume.resume(people.operator, relay.pk).leg == 0
    leg.refresh_from_db()
    assert (leg.state, leg.attempts, leg.start_error) == (LegState.PENDING, 0, "")
    assert Leg.objects.filter(relay=relay).count() == 1


def test_a_park_that_is_asked_for_is_taken_back(people: People) -> None:
    relay = make_relay(owner=people.operator.user)
    make_leg(relay, 0)
    park.park(people.operator, relay.pk)
    outcome = resume.resume(people.operator, relay.pk)
    assert (outcome.status, outcome.will) == ("running", "none")
    relay.refresh_from_db()
    assert relay.park == Request.NONE
    assert [row.act for row in Decision.objects.order_by("seq")] == ["park", "resume"]
    assert check_chain() == 2


def test_park_now_is_not_taken_back(people: People) -> None:
    relay = make_relay(owner=people.operator.user)
    make_leg(relay, 0)
    park.park(people.operator, relay.pk, now=True)
    assert resume.resume(people.operator, relay.pk).will == "none"
    relay.refresh_from_db()
    assert relay.park == Request.NOW


@pytest.mark.parametrize("status", ["done", "stopped"])
def test_what_is_final_stays(status: str, people: People) -> None:
    relay = make_relay(owner=people.operator.user, status=status)
    with pytest.raises(NotLegalNow, match=f"it is {status}"):
        resume.resume(people.operator, relay.pk)


def test_an_unknown_relay_is_not_found(people: People) -> None:
    with pytest.raises(NotFound):
        resume.resume(people.operator, "nope")


def test_a_waiting_gate_is_decided_first(people: People, gate: GateEpisode) -> None:
    before = everything()
    with pytest.raises(NotLegalNow, match=f"gate {gate.pk} .* waits for a decision") as refusal:
        resume.resume(people.operator, gate.relay_id)
    assert refusal.value.exit_code == 13
    assert everything() == before


def test_an_episode_that_blocks_another_step_is_decided_in_its_own_time(people: People, story: Story) -> None:
    gate = story.park("LOW_CONFIDENCE_ASSUMPTION", blocks="the release")
    assert resume.resume(people.operator, story.relay.pk).will == "start"
    gate.refresh_from_db()
    assert gate.state == GateState.WAITING


@pytest.mark.parametrize("state", [GateState.REFUSED, GateState.EXPIRED])
def test_a_refused_or_expired_gate_keeps_the_relay_parked(state: str, people: People, story: Story) -> None:
    gate = story.park(state=state)
    with pytest.raises(NotLegalNow, match=f"is {state}; reopen it with `relay refuse {gate.pk} --reopen`"):
        resume.resume(people.operator, story.relay.pk)


@pytest.mark.parametrize("closed", ["refused while it runs", "refused before it runs", "expired while it runs"])
def test_a_question_that_was_closed_while_the_relay_went_on_keeps_no_later_resume(people: People, closed: str) -> None:
    """ "Refuse leaves it parked": one that was not parked goes on, and an operator resumes what is parked later."""
    relay = make_relay(status=RelayStatus.RUNNING)
    leg = make_leg(relay, 0)
    gate = make_gate(relay, "LOW_CONFIDENCE_ASSUMPTION", leg=leg, items=["Which port?"])
    now = timezone.now()
    if closed == "expired while it runs":
        GateEpisode.objects.filter(pk=gate.pk).update(state=GateState.EXPIRED, state_at=now)
    else:
        refuse(people.reviewer, gate)
    later = now + timedelta(minutes=1)
    if closed == "refused before it runs":
        before = now - timedelta(hours=1)
        Leg.objects.filter(pk=leg.pk).update(
            started_at=before, ended_at=before, state=LegState.ENDED, reason="RELAY_ROTATED"
        )
        leg = make_leg(relay, 1, started_at=later)
        later += timedelta(minutes=1)
    Leg.objects.filter(pk=leg.pk).update(state=LegState.ENDED, reason="RELAY_ROTATED", ended_at=later)
    Relay.objects.filter(pk=relay.pk).update(status=RelayStatus.PARKED)
    assert resume.resume(people.operator, relay.pk).will == "start"


def test_an_older_refusal_still_counts_beside_a_newer_approval(people: People, story: Story) -> None:
    older = story.park("RELAY_NO_PROGRESS")
    newer = story.park()
    refuse(people.reviewer, older)
    assert approve(people.reviewer, newer).state == "approved"  # not requested: the refusal stands
    story.relay.refresh_from_db()
    assert story.relay.status == RelayStatus.PARKED
    with pytest.raises(NotLegalNow, match=f"gate {older.pk} .* is refused"):
        resume.resume(people.operator, story.relay.pk)
    again = refuse(people.reviewer, older, reopen=True)
    outcome = approve(people.reviewer, GateEpisode.objects.get(pk=again.gate))
    assert outcome.state == "requested"
    newer.refresh_from_db()
    assert newer.state == GateState.REQUESTED


def test_by_operator_is_two_clicks(people: People, gate: GateEpisode) -> None:
    by_operator(gate.relay)
    assert approve(people.reviewer, gate).state == "approved"
    relay = Relay.objects.get(pk=gate.relay_id)
    assert relay.status == RelayStatus.PARKED
    assert not Leg.objects.filter(relay=relay, state=LegState.PENDING).exists()
    with pytest.raises(NotPermitted):
        resume.resume(people.reviewer, relay.pk)
    assert resume.resume(people.operator, relay.pk).will == "start"
    gate.refresh_from_db()
    assert gate.state == GateState.REQUESTED
    assert Leg.objects.get(relay=relay, state=LegState.PENDING).from_gate == gate


def test_an_approved_start_that_a_person_parked_resumes_without_a_second_approval(
    people: People, gate: GateEpisode
) -> None:
    assert approve(people.reviewer, gate).state == "requested"
    park.park(people.operator, gate.relay_id)
    gate.refresh_from_db()
    assert gate.state == GateState.APPROVED
    assert resume.resume(people.operator, gate.relay_id).will == "start"
    gate.refresh_from_db()
    assert gate.state == GateState.REQUESTED
    assert Leg.objects.filter(relay=gate.relay_id, state=LegState.PENDING).count() == 1
