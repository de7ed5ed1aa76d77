"""Approve and refuse: who may, bound to what was shown, counted, and what follows."""

import pytest
from django.contrib.auth.models import User

from relays.actions import decide
from relays.actions.base import Actor, ChangedSinceSeen, NotFound, NotLegalNow, NotPermitted, Usage
from relays.driver import gates
from relays.models import (
    Baton,
    Decision,
    GateEpisode,
    GateState,
    Leg,
    LegState,
    RegionLease,
    Relay,
    RelayStatus,
    ReviewerGroup,
)
from relays.reports import gate as gate_report
from tests import builders
from tests.actions.acts import People, approve, check_chain, everything, refuse, seen
from tests.report_builders import Story
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db


def rules(relay: Relay, **policy: object) -> None:
    Relay.objects.filter(pk=relay.pk).update(policy=policy)


def have(gate: GateEpisode) -> int:
    """What the gate's page says."""
    gate = GateEpisode.objects.select_related("relay", "leg").get(pk=gate.pk)
    return gate_report.gate_page(gate, gate.opened_at, *gate_report.branch_tip(gate.relay)).have


# --- who


@pytest.mark.parametrize("who", ["operator", "manager", "outsider"])
def test_only_a_reviewer_may(who: str, people: People, gate: GateEpisode) -> None:
    before = everything()
    for act in (approve, refuse):
        with pytest.raises(NotPermitted, match="role reviewer") as refusal:
            act(getattr(people, who), gate)
        assert refusal.value.exit_code == 12
    assert everything() == before


def test_an_unknown_gate_is_not_found(people: People) -> None:
    for act in (decide.approve, decide.refuse):
        with pytest.raises(NotFound):
            act(people.reviewer, 4711, seen="", comment="x")


# --- bound to what was shown


def test_approval_is_recorded_first_and_requests_the_next_leg(people: People, gate: GateEpisode) -> None:
    digest = seen(gate)
    outcome = approve(people.reviewer, gate, comment="Tree is fine.")
    assert outcome == decide.GateOutcome(gate.pk, "requested", 1, 1, 1, "")
    row = Decision.objects.get()
    assert (row.act, row.actor, row.os_user) == ("approve", people.reviewer.user, "unix-rae")
    assert (row.seen, row.comment, row.gate, row.relay) == (digest, "Tree is fine.", gate, gate.relay)
    relay = Relay.objects.get(pk=gate.relay_id)
    assert relay.status == RelayStatus.READY
    leg = Leg.objects.get(relay=relay, state=LegState.PENDING)
    assert (leg.number, leg.from_gate) == (2, gate)
    assert check_chain() == 1


@pytest.mark.parametrize("comment", ["", "   ", "\n\t"])
def test_a_comment_is_required(comment: str, people: People, gate: GateEpisode) -> None:
    before = everything()
    for act in (approve, refuse):
        with pytest.raises(Usage, match="a comment is required"):
            act(people.reviewer, gate, comment=comment)
    assert everything() == before


@pytest.mark.parametrize("what", ["", "f" * 64, "tip", "branch", "item", "baton", "verification"])
def test_changed_since_you_looked(what: str, people: People, story: Story, gate: GateEpisode) -> None:
    looked = seen(gate)
    current = Baton.objects.get(relay=story.relay, current=True)
    if what == "tip":
        builders.commit(story.repo, {"other.txt": "x"}, "Somebody else")
    elif what == "branch":
        builders.git(story.repo, "checkout", "-q", "main")
        builders.git(story.repo, "branch", "-q", "-D", story.relay.branch)
    elif what == "item":
        gates.open_episode(story.relay.pk, gate.token, leg=None, items=["one more"], now=story.clock)
    elif what == "baton":
        story.write(story.legs[-1], gate_read(current))
    elif what == "verification":
        story.reloaded(current, story.legs[-1], dangling=("artifacts[0].ref",))
    else:
        looked = what
    before = everything()
    for act in (approve, refuse):
        with pytest.raises(ChangedSinceSeen, match="changed since you looked") as refusal:
            act(people.reviewer, gate, seen=looked)
        assert refusal.value.exit_code == 13
    assert everything() == before


def gate_read(row: Baton):
    from dataclasses import replace

    from relays.core import baton as batons

    baton = batons.read(row.text).baton
    assert baton is not None
    return replace(baton, next_action="Something else.")


@pytest.mark.parametrize("state", [s for s in GateState if s != GateState.WAITING])
def test_only_a_waiting_gate_is_decided(state: str, people: People, story: Story) -> None:
    gate = story.park(state=state)
    before = everything()
    for act in (approve, refuse):
        with pytest.raises(NotLegalNow, match=f"it is {state}, not waiting"):
            act(people.reviewer, gate)
    assert everything() == before


def test_a_second_approval_of_the_same_finds_it_decided(people: People, gate: GateEpisode) -> None:
    looked = seen(gate)
    approve(people.reviewer, gate, seen=looked)
    before = everything()
    for again in (people.reviewer, people.second):
        with pytest.raises(NotLegalNow, match="it is requested"):
            approve(again, gate, seen=looked)
    assert everything() == before


# --- four eyes


def test_nobody_approves_what_they_started(people: People, story: Story) -> None:
    both = people.reviewer
    Relay.objects.filter(pk=story.relay.pk).update(owner=both.user)
    gate = story.park()
    before = everything()
    with pytest.raises(NotPermitted, match="four eyes: user rae started"):
        approve(both, gate)
    assert everything() == before
    assert refuse(both, gate).state == "refused"  # one's own relay may always be refused


def test_with_fewer_than_two_who_may_four_eyes_does_not_bind_and_the_decision_says_so(
    people: People, story: Story
) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(owner=people.reviewer.user)
    people.second.user.is_active = False
    people.second.user.save()
    make_user("tour", "reviewer")  # a machine user is no second person
    gate = story.park()
    outcome = approve(people.reviewer, gate)
    assert outcome.state == "requested"
    assert "did not bind" in outcome.note
    assert Decision.objects.get().detail["note"] == outcome.note


def test_four_eyes_can_be_switched_off(people: People, story: Story) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(owner=people.reviewer.user, policy={"four_eyes": False})
    outcome = approve(people.reviewer, story.park())
    assert (outcome.state, outcome.note) == ("requested", "")


# --- N approvals


def test_the_nth_approval_on_what_is_shown_requests(people: People, gate: GateEpisode) -> None:
    rules(gate.relay, approvals=2)
    looked = seen(gate)
    first = approve(people.reviewer, gate)
    assert (first.state, first.have, first.need) == ("waiting", 1, 2)
    assert have(gate) == 1
    assert not Leg.objects.filter(relay=gate.relay, state=LegState.PENDING).exists()
    before = everything()
    with pytest.raises(NotLegalNow, match="rae has approved it already"):
        approve(people.reviewer, gate)
    assert everything() == before
    second = approve(people.second, gate, seen=looked)
    assert (second.state, second.have) == ("requested", 2)
    assert have(gate) == 2
    assert check_chain() == 2


@pytest.mark.parametrize("how", ["let in no more", "without the role", "out of the group"])
def test_an_approval_of_who_may_decide_no_more_counts_no_more(how: str, people: People, gate: GateEpisode) -> None:
    rules(gate.relay, approvals=2)
    third = Actor(make_user("tim", "reviewer"))
    group = ReviewerGroup.objects.create(name="core")
    group.members.add(people.reviewer.user, people.second.user, third.user)
    Relay.objects.filter(pk=gate.relay_id).update(reviewers=group)
    approve(people.reviewer, gate)
    assert have(gate) == 1
    if how == "let in no more":
        User.objects.filter(username="rae").update(is_active=False)
    elif how == "without the role":
        people.reviewer.user.groups.clear()
    else:
        group.members.remove(people.reviewer.user)
    assert have(gate) == 0
    second = approve(people.second, gate)
    assert (second.state, second.have) == ("waiting", 1)
    assert approve(third, gate).state == "requested"


def test_approvals_lapse_on_a_new_item(people: People, story: Story, gate: GateEpisode) -> None:
    rules(gate.relay, approvals=2)
    approve(people.reviewer, gate)
    gates.open_episode(gate.relay_id, gate.token, leg=None, items=["one more"], now=story.clock)
    assert have(gate) == 0
    assert approve(people.second, gate).have == 1
    assert approve(people.reviewer, gate).state == "requested"


def test_approvals_lapse_when_the_branch_moved(people: People, story: Story, gate: GateEpisode) -> None:
    """`approved`: the Nth on the digest shown; the first approver saw another branch."""
    rules(gate.relay, approvals=2)
    approve(people.reviewer, gate)
    builders.commit(story.repo, {"other.txt": "x"}, "Somebody else")
    assert have(gate) == 0
    second = approve(people.second, gate)
    assert (second.state, second.have) == ("waiting", 1)
    assert approve(people.reviewer, gate).state == "requested"


def test_an_approval_with_a_change_counts_on_what_its_change_made(people: People, gate: GateEpisode) -> None:
    rules(gate.relay, approvals=2)
    looked = seen(gate)
    approve(people.reviewer, gate, next_action="Look at the stub first.")
    assert have(gate) == 1
    with pytest.raises(ChangedSinceSeen):
        approve(people.second, gate, seen=looked)
    assert approve(people.second, gate).state == "requested"


def test_an_approval_of_something_else_does_not_count_for_a_later_change(people: People, gate: GateEpisode) -> None:
    rules(gate.relay, approvals=3)
    approve(people.reviewer, gate)
    assert approve(people.second, gate, next_action="Something else.").have == 1
    assert have(gate) == 1  # what the second made of it, the first has not seen
    assert approve(people.reviewer, gate).have == 2


def test_only_the_last_of_two_gates_requests(people: People, story: Story) -> None:
    one, two = story.park("RELAY_NO_PROGRESS"), story.park()
    assert approve(people.reviewer, one).state == "approved"
    assert Relay.objects.get(pk=story.relay.pk).status == RelayStatus.PARKED
    assert approve(people.second, two).state == "requested"
    one.refresh_from_db()
    assert one.state == GateState.REQUESTED
    assert Leg.objects.filter(relay=story.relay, state=LegState.PENDING).count() == 1


def test_an_episode_that_blocks_another_step_keeps_no_leg_waiting(people: People, story: Story) -> None:
    """rules.md, Reason tokens: "each blocks the next leg, or the step that needs it, and says which"."""
    asks, stop = story.park("LOW_CONFIDENCE_ASSUMPTION", blocks="the release"), story.park()
    assert approve(people.reviewer, stop).state == "requested"
    asks.refresh_from_db()
    assert asks.state == GateState.WAITING
    assert Relay.objects.get(pk=story.relay.pk).status == RelayStatus.READY


def test_a_lost_host_is_said_to_be_dead(people: People, story: Story) -> None:
    Leg.objects.filter(pk=story.legs[1].pk).update(cause="host_lost")
    gate = story.park()
    before = everything()
    with pytest.raises(Usage, match="--host-dead"):
        approve(people.reviewer, gate)
    assert everything() == before
    assert approve(people.reviewer, gate, host_dead=True).state == "requested"
    assert Decision.objects.get().detail["host_dead"] is True


# --- refuse


def test_refused_leaves_it_parked(people: People, gate: GateEpisode) -> None:
    outcome = refuse(people.reviewer, gate)
    assert (outcome.state, outcome.have) == ("refused", 0)
    relay = Relay.objects.get(pk=gate.relay_id)
    assert relay.status == RelayStatus.PARKED
    assert RegionLease.objects.get(relay=relay).held
    assert Decision.objects.get().act == "refuse"
    with pytest.raises(NotLegalNow, match="it is refused"):
        approve(people.reviewer, gate)


def test_refused_with_stop_ends_the_relay(people: People, story: Story, gate: GateEpisode) -> None:
    other = story.park("RELAY_NO_PROGRESS")
    assert refuse(people.reviewer, gate, then="stop").state == "refused"
    relay = Relay.objects.get(pk=gate.relay_id)
    assert (relay.status, relay.ended_reason) == (RelayStatus.STOPPED, "STOPPED")
    assert not RegionLease.objects.get(relay=relay).held
    other.refresh_from_db()
    assert other.state == GateState.SUPERSEDED
    with pytest.raises(NotLegalNow, match="is stopped"):
        refuse(people.reviewer, gate, reopen=True)


def test_then_is_stop_or_nothing(people: People, gate: GateEpisode) -> None:
    before = everything()
    with pytest.raises(Usage, match="it is stop"):
        refuse(people.reviewer, gate, then="explode")
    with pytest.raises(Usage, match="--reopen goes alone"):
        refuse(people.reviewer, gate, then="stop", reopen=True)
    assert everything() == before


def test_reopened_it_waits_again_once(people: People, gate: GateEpisode) -> None:
    with pytest.raises(NotLegalNow, match="it is waiting"):
        refuse(people.reviewer, gate, reopen=True)
    refuse(people.reviewer, gate)
    again = refuse(people.second, gate, reopen=True, seen="")
    fresh = GateEpisode.objects.get(pk=again.gate)
    assert (fresh.state, fresh.reopened_from, fresh.items) == (GateState.WAITING, gate, gate.items)
    gate.refresh_from_db()
    assert gate.state == GateState.REFUSED
    before = everything()
    with pytest.raises(NotLegalNow, match=f"gate {fresh.pk} took its place"):
        refuse(people.reviewer, gate, reopen=True)
    assert everything() == before
    assert [row.act for row in Decision.objects.order_by("seq")] == ["refuse", "reopen"]
    assert approve(people.reviewer, fresh).state == "requested"
    assert check_chain() == 3


def test_nothing_is_reopened_beside_an_open_one_of_its_kind(people: People, story: Story) -> None:
    old = story.park(state=GateState.REFUSED)
    new = story.park()
    with pytest.raises(NotLegalNow, match=f"gate {new.pk} took its place"):
        refuse(people.reviewer, old, reopen=True)
