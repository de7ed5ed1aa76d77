"""Maintenance: one act on many relays, each with its own decision; a worker may die at it, a person may cancel it."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from relays.actions import maintenance, park, policies, resume
from relays.actions.base import Actor, NotLegalNow, NotPermitted, Usage
from relays.core import policy
from relays.models import Decision, Maintenance, Relay, RelayStatus
from relays.reports import maintenance as report
from tests.web_builders import make_gate, make_leg, make_relay, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann() -> Actor:
    return Actor(make_user("ann", "operator"))


def snapshot() -> dict[str, Any]:
    return policy.to_snapshot(policy.build({}, None, {}))


def relay_that(status: str = "waiting", **values: Any) -> Relay:
    return make_relay(status=status, policy=snapshot(), **values)


def states(act: Maintenance) -> dict[str, str]:
    return {item.relay_id: item.state for item in act.items.all()}


def run(act: Maintenance) -> str:
    for _ in range(10):
        word = maintenance.step(act.pk)
        if word not in ("running", "looking"):
            return word
    raise AssertionError("it does not end")


def test_all_that_go_on_park_by_a_decision_each_that_share_the_act(ann: Actor) -> None:
    waits, runs, rests = relay_that(), relay_that("running"), relay_that("idle", watch=True)
    make_leg(runs, 0, resident=[1000])
    before, ended = relay_that("parked"), relay_that("done")
    act = maintenance.park_all(ann, comment="a new disk", expected=3)
    assert run(act) == "done"
    assert states(act) == dict.fromkeys([waits.pk, runs.pk, rests.pk], "done")
    runs.refresh_from_db(), waits.refresh_from_db()
    assert (waits.status, runs.status, runs.park) == ("parked", "running", "drain")
    first, *each = Decision.objects.order_by("seq")
    assert (first.act, first.relay, first.detail["relays"]) == ("maintenance", None, 3)
    assert {one.relay_id for one in each} == set(states(act))
    assert {(one.act, one.detail["maintenance"], one.comment) for one in each} == {("park", act.pk, "a new disk")}
    assert [one.pk for one in (before, ended) if one.decisions.exists()] == []
    assert report.plan().to_park == 0 and report.one(act).draining == 1


def test_resume_takes_up_what_maintenance_parked_and_nothing_else(ann: Actor) -> None:
    ours, taken, gated, stopped = relay_that(), relay_that(), relay_that(), relay_that()
    theirs = relay_that()
    park.park(ann, theirs.pk)
    run(maintenance.park_all(ann))
    resume.resume(ann, taken.pk)
    park.park(ann, taken.pk, comment="mine now")
    make_gate(Relay.objects.get(pk=gated.pk))
    park.stop(ann, stopped.pk)
    plan = report.plan()
    assert (plan.held, plan.gated) == (1, 1)
    act = maintenance.resume_all(ann)
    assert run(act) == "done"
    assert states(act) == {ours.pk: "done", gated.pk: "kept"}
    assert "gate" in act.items.get(relay=gated).why
    assert {pk: Relay.objects.get(pk=pk).status for pk in (ours.pk, taken.pk, theirs.pk, gated.pk)} == {
        ours.pk: "ready",
        taken.pk: "parked",
        theirs.pk: "parked",
        gated.pk: "parked",
    }
    assert Decision.objects.get(relay=ours, act="resume").detail == {"maintenance": act.pk}


def test_one_that_drains_goes_on_without_a_new_leg_when_it_is_resumed(ann: Actor) -> None:
    runs = relay_that("running")
    make_leg(runs, 0, resident=[1000])
    run(maintenance.park_all(ann))
    assert run(maintenance.resume_all(ann)) == "done"
    runs.refresh_from_db()
    assert (runs.status, runs.park) == ("running", "")


def test_a_second_press_is_refused_and_many_more_than_were_shown_are_too(ann: Actor) -> None:
    relay_that()
    maintenance.park_all(ann, expected=1)
    with pytest.raises(NotLegalNow, match="under way"):
        maintenance.park_all(ann, expected=1)
    run(Maintenance.objects.get())
    for _ in range(5):
        relay_that()
    with pytest.raises(NotLegalNow, match="5 relays now, 1 were shown"):
        maintenance.park_all(ann, expected=1)
    assert Maintenance.objects.count() == 1
    with pytest.raises(NotPermitted):
        maintenance.park_all(Actor(make_user("", "reviewer")))


def test_a_worker_that_died_is_taken_over_and_nothing_is_decided_twice(ann: Actor) -> None:
    first, second = relay_that(), relay_that()
    act = maintenance.park_all(ann)
    Maintenance.objects.update(beat_at=timezone.now())
    assert maintenance.step(act.pk) == "busy"
    park.park(ann, first.pk, of=act.pk)  # the decision was made, and the worker died before it wrote that down
    Maintenance.objects.update(beat_at=timezone.now() - timedelta(minutes=5))
    assert maintenance.ring_due() == 1 and run(act) == "done"
    assert states(act) == {first.pk: "done", second.pk: "done"}
    assert Decision.objects.filter(act="park").count() == 2
    assert maintenance.step(act.pk) == "over"


def test_cancel_leaves_the_rest_as_it_is(ann: Actor) -> None:
    for _ in range(3):
        relay_that()
    act = maintenance.park_all(ann)
    maintenance.step(act.pk, seconds=0)
    assert maintenance.cancel(ann, act.pk).status == "cancelled"
    assert Relay.objects.filter(status=RelayStatus.PARKED).count() == 0
    with pytest.raises(NotLegalNow):
        maintenance.cancel(ann, act.pk)
    # one that a worker holds ends at its next look
    act = maintenance.park_all(ann)
    Maintenance.objects.filter(pk=act.pk).update(beat_at=timezone.now())
    assert maintenance.cancel(ann, act.pk).cancel
    Maintenance.objects.filter(pk=act.pk).update(beat_at=None)
    assert maintenance.step(act.pk) == "cancelled"


def test_values_are_given_to_many_by_a_decision_each(ann: Actor) -> None:
    one, other, ended = relay_that("parked"), relay_that(), relay_that("done")
    with pytest.raises(Usage, match="envelope.trns"):
        maintenance.policy_all(ann, sets=["envelope.trns=4"], comment="why")
    with pytest.raises(Usage, match="comment"):
        maintenance.policy_all(ann, sets=["envelope.turns=4"], comment=" ")
    with pytest.raises(Usage, match="no relay that goes on"):
        maintenance.policy_all(ann, sets=["envelope.turns=4"], comment="why", relays=[ended.pk])
    with pytest.raises(Usage, match="no relay that goes on"):
        maintenance.policy_all(ann, sets=["envelope.turns=4"], comment="why", relays=["a\0b"])
    assert not Maintenance.objects.exists()
    act = maintenance.policy_all(ann, sets=["envelope.turns=400\nrotations_per_hour=2"], comment="less at night")
    assert run(act) == "done" and states(act) == {one.pk: "done", other.pk: "done"}
    for relay in (one, other):
        relay.refresh_from_db()
        assert policy.from_snapshot(relay.policy).rotations_per_hour == 2
    again = maintenance.policy_all(ann, sets=["rotations_per_hour=2"], comment="again", relays=[one.pk])
    assert run(again) == "done" and states(again) == {one.pk: "kept"}


def test_a_relay_whose_records_do_not_read_keeps_no_other_from_its_turn(ann: Actor) -> None:
    broken, other = relay_that(), relay_that()
    Relay.objects.filter(pk=broken.pk).update(policy={"ceiling": "no number"})
    act = maintenance.policy_all(ann, sets=["rotations_per_hour=2"], comment="less")
    assert run(act) == "done"
    assert states(act) == {broken.pk: "kept", other.pk: "done"}
    assert act.items.get(relay=broken).why
    assert run(maintenance.park_all(ann)) == "done", "it parks like all others"
    assert Relay.objects.filter(status="parked").count() == 2


def test_a_database_that_did_not_answer_once_ends_no_act(ann: Actor, monkeypatch: pytest.MonkeyPatch) -> None:
    relay, parked = relay_that(), park.park
    act = maintenance.park_all(ann)

    def locked(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr(park, "park", locked)
    assert maintenance.step(act.pk) == "running"
    monkeypatch.setattr(park, "park", parked)
    assert run(act) == "done" and states(act) == {relay.pk: "done"}


@pytest.mark.parametrize("kind", ["policy", "resume"])
def test_what_a_worker_did_before_it_died_counts_as_done(kind: str, ann: Actor) -> None:
    relay = relay_that()
    run(maintenance.park_all(ann))
    if kind == "policy":
        act = maintenance.policy_all(ann, sets=["rotations_per_hour=2"], comment="less")
        policies.change(ann, relay.pk, sets=["rotations_per_hour=2"], comment="less", of=act.pk)
    else:
        act = maintenance.resume_all(ann)
        resume.resume(ann, relay.pk, of=act.pk)
    before = Decision.objects.count()
    assert run(act) == "done" and states(act) == {relay.pk: "done"}
    assert Decision.objects.count() == before


def test_what_starts_while_all_is_parked_is_parked_too_and_what_was_resumed_is_not(ann: Actor) -> None:
    first, meant = relay_that(), relay_that("parked")
    act = maintenance.park_all(ann, comment="a new disk", expected=1)
    started = relay_that("ready")  # its start was on its way when the button was pressed
    resume.resume(ann, meant.pk)
    assert run(act) == "done"
    assert states(act) == {first.pk: "done", started.pk: "done"}
    assert {relay.status for relay in Relay.objects.filter(pk__in=[first.pk, started.pk])} == {"parked"}
    assert Relay.objects.get(pk=meant.pk).status == "ready"
    assert report.plan().held == 2, "and one press lets both go on"


def test_who_may_operate_no_more_parks_nothing_more(ann: Actor) -> None:
    relay = relay_that()
    act = maintenance.park_all(ann)
    ann.user.groups.clear()
    assert run(act) == "done" and states(act) == {relay.pk: "kept"}
    assert Relay.objects.get().status == "waiting"
