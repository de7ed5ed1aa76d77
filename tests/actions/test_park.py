"""Park and stop: who may, from which status, asked twice, and what they leave behind."""

import pytest

from relays.actions import park
from relays.actions.base import NotFound, NotLegalNow, NotPermitted, Outcome, Usage
from relays.core import lifecycle
from relays.models import (
    Decision,
    GateEpisode,
    GateState,
    Leg,
    LegState,
    RegionLease,
    Relay,
    RelayStatus,
    Request,
)
from tests.actions.acts import People, check_chain, everything
from tests.report_builders import Story
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db
ACTS = {"park": park.park, "stop": park.stop}


def relay_that(is_: str, leg: str, people: People) -> Relay:
    relay = make_relay(owner=people.operator.user, status=is_)
    RegionLease.objects.create(relay=relay, repository=_repository(relay), region=["**"], since=relay.created_at)
    make_leg(relay, 0, reason="RELAY_ROTATED")
    if leg:
        make_leg(relay, 1, state=leg)
    return relay


def _repository(relay: Relay):
    from relays.models import Repository

    return Repository.objects.get_or_create(git_dir=relay.git_dir)[0]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("who", ["reviewer", "manager", "outsider"])
def test_only_an_operator_may(act: str, who: str, people: People, story: Story) -> None:
    before = everything()
    with pytest.raises(NotPermitted, match="role operator") as refusal:
        ACTS[act](getattr(people, who), story.relay.pk)
    assert refusal.value.exit_code == 12
    assert everything() == before


def test_a_user_who_was_switched_off_may_nothing(people: People, story: Story) -> None:
    people.operator.user.is_active = False
    with pytest.raises(NotPermitted):
        park.park(people.operator, story.relay.pk)


@pytest.mark.parametrize("act", ACTS)
def test_an_unknown_relay_is_not_found(act: str, people: People) -> None:
    with pytest.raises(NotFound) as refusal:
        ACTS[act](people.operator, "RLY-20200101-0001")
    assert refusal.value.exit_code == 14


@pytest.mark.parametrize("leg", ["starting", "running", "draining", "backoff", "ending"])
@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("now", [False, True])
def test_with_a_live_leg_it_is_a_request_to_the_driver(act: str, leg: str, now: bool, people: People) -> None:
    relay = relay_that("running", leg, people)
    outcome = ACTS[act](people.operator, relay.pk, now=now, comment="lunch")
    assert outcome == Outcome(relay.pk, "running", 1, "now" if now else "drain")
    relay.refresh_from_db()
    assert getattr(relay, act) == (Request.NOW if now else Request.DRAIN)
    row = Decision.objects.get()
    assert (row.act, row.comment, row.relay_id) == (act + "_now" * now, "lunch", relay.pk)
    assert not GateEpisode.objects.exists()
    assert RegionLease.objects.get(relay=relay).held


@pytest.mark.parametrize("act", ACTS)
def test_asked_twice_it_is_one_decision_and_now_is_never_taken_back(act: str, people: People) -> None:
    relay = relay_that("running", "running", people)
    assert ACTS[act](people.operator, relay.pk).will == "drain"
    assert ACTS[act](people.operator, relay.pk).will == "drain"
    assert Decision.objects.count() == 1
    assert ACTS[act](people.operator, relay.pk, now=True).will == "now"
    before = everything()
    assert ACTS[act](people.operator, relay.pk, now=True).will == "now"
    assert ACTS[act](people.operator, relay.pk).will == "now"
    assert everything() == before
    assert [row.act for row in Decision.objects.order_by("seq")] == [act, f"{act}_now"]
    assert check_chain() == 2


@pytest.mark.parametrize("status", ["ready", "waiting", "idle"])
def test_a_quiet_relay_is_parked_at_once_without_an_episode(status: str, people: People) -> None:
    relay = relay_that(status, "pending", people)
    outcome = park.park(people.operator, relay.pk)
    assert outcome == Outcome(relay.pk, "parked", 1, "none")
    relay.refresh_from_db()
    assert (relay.status_why, relay.next_at, relay.park) == ("parked by pat", None, "")
    assert not GateEpisode.objects.exists()
    assert Leg.objects.get(relay=relay, number=1).state == LegState.PENDING
    before = everything()
    assert park.park(people.operator, relay.pk) == outcome
    assert park.park(people.operator, relay.pk, now=True) == outcome
    assert everything() == before


@pytest.mark.parametrize("status", ["ready", "waiting", "idle", "parked"])
def test_a_quiet_relay_is_stopped_at_once(status: str, people: People) -> None:
    relay = relay_that(status, "pending", people)
    outcome = park.stop(people.operator, relay.pk)
    assert outcome == Outcome(relay.pk, "stopped", 1, "none")
    relay.refresh_from_db()
    assert (relay.ended_reason, relay.status_why) == ("STOPPED", "stopped by pat")
    assert relay.ended_at is not None
    assert Leg.objects.get(relay=relay, number=1).state == LegState.VOID
    assert not RegionLease.objects.get(relay=relay).held
    before = everything()
    assert park.stop(people.operator, relay.pk) == outcome
    assert everything() == before


def test_stop_closes_what_waits(people: People, gate: GateEpisode) -> None:
    park.stop(people.operator, gate.relay_id)
    gate.refresh_from_db()
    assert gate.state == GateState.SUPERSEDED


def test_park_takes_a_requested_start_back_to_approved(people: People, story: Story) -> None:
    gate = story.park(state=GateState.REQUESTED)
    Relay.objects.filter(pk=story.relay.pk).update(status=RelayStatus.READY)
    make_leg(story.relay, 2, state=LegState.PENDING)
    assert park.park(people.operator, story.relay.pk).status == "parked"
    gate.refresh_from_db()
    assert gate.state == GateState.APPROVED


@pytest.mark.parametrize(("act", "status"), [("park", "done"), ("park", "stopped"), ("stop", "done")])
def test_what_is_final_stays(act: str, status: str, people: People) -> None:
    relay = relay_that(status, "", people)
    before = everything()
    with pytest.raises(NotLegalNow, match=f"it is {status}") as refusal:
        ACTS[act](people.operator, relay.pk)
    assert refusal.value.exit_code == 13
    assert everything() == before


def test_a_hostile_comment_changes_nothing(people: People, story: Story) -> None:
    before = everything()
    with pytest.raises(Usage, match="control character"):
        park.park(people.operator, story.relay.pk, comment="a\0b")
    assert everything() == before


def test_every_change_that_park_and_stop_make_is_legal() -> None:
    for status in (*park.QUIET, RelayStatus.PARKED):
        assert lifecycle.may_change(lifecycle.RELAY, status, "stopped")
    for status in park.QUIET:
        assert lifecycle.may_change(lifecycle.RELAY, status, "parked")
