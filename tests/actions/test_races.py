"""Two people at once, each in a thread with a connection of its own: exactly one wins, and the record stays whole."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import pytest
from django.db import connection

from relays.actions import carried, maintenance, notifications, park, resume
from relays.actions.base import Actor, ChangedSinceSeen, Held, NotLegalNow, Refused
from relays.actions.decide import approve, refuse
from relays.actions.start import StartRequest, start
from relays.driver import gates
from relays.models import (
    OPEN_STATES,
    Channel,
    Decision,
    GateEpisode,
    GateState,
    Leg,
    LegState,
    Maintenance,
    RegionLease,
    Relay,
    RelayStatus,
)
from tests import builders
from tests.actions.acts import People, check_chain, seen
from tests.report_builders import Story
from tests.web_builders import make_relay, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.postgres]
Act = Callable[[], Any]


def at_once(*acts: Act) -> list[Any]:
    """Each act's outcome or its refusal, in their order. Any other error fails the test."""
    found: list[Any] = [None] * len(acts)
    barrier = Barrier(len(acts))

    def run(place: int, act: Act) -> None:
        try:
            barrier.wait(20)
            found[place] = act()
        except Exception as error:  # noqa: BLE001 - judged below, in the test's own thread
            found[place] = error
        finally:
            connection.close()

    threads = [Thread(target=run, args=pair) for pair in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for outcome in found:
        assert not isinstance(outcome, Exception) or isinstance(outcome, Refused), repr(outcome)
        assert outcome is not None
    return found


def won(found: list[Any]) -> list[Any]:
    return [outcome for outcome in found if not isinstance(outcome, Refused)]


def pending(relay: Relay | str) -> int:
    return Leg.objects.filter(relay=relay, state=LegState.PENDING).count()


def reviewers(people: People) -> tuple[Actor, Actor]:
    return people.reviewer, people.second


def test_two_approvals_of_one_gate(people: People, gate: GateEpisode) -> None:
    looked = seen(gate)
    found = at_once(*[lambda who=who: approve(who, gate.pk, seen=looked, comment="x") for who in reviewers(people)])
    assert len(won(found)) == 1
    assert [outcome.exit_code for outcome in found if isinstance(outcome, Refused)] == [13]
    assert (Decision.objects.count(), pending(gate.relay_id), check_chain()) == (1, 1, 1)


def test_the_same_person_twice_counts_once(people: People, gate: GateEpisode) -> None:
    Relay.objects.update(policy={"approvals": 2})
    looked = seen(gate)
    found = at_once(*[lambda: approve(people.reviewer, gate.pk, seen=looked, comment="x")] * 2)
    assert len(won(found)) == 1
    gate.refresh_from_db()
    assert (gate.state, check_chain()) == (GateState.WAITING, 1)


def test_two_of_two_approvals_request_once(people: People, gate: GateEpisode) -> None:
    Relay.objects.update(policy={"approvals": 2})
    looked = seen(gate)
    found = at_once(*[lambda who=who: approve(who, gate.pk, seen=looked, comment="x") for who in reviewers(people)])
    assert sorted(outcome.state for outcome in found) == ["requested", "waiting"]
    assert (pending(gate.relay_id), check_chain()) == (1, 2)


def test_approvals_of_the_two_last_gates_request_once(people: People, story: Story) -> None:
    both = story.park("RELAY_NO_PROGRESS"), story.park()
    looked = [seen(gate) for gate in both]
    found = at_once(
        *[
            lambda who=who, gate=gate, digest=digest: approve(who, gate.pk, seen=digest, comment="x")
            for who, gate, digest in zip(reviewers(people), both, looked, strict=True)
        ]
    )
    assert sorted(outcome.state for outcome in found) == ["approved", "requested"]
    assert set(GateEpisode.objects.values_list("state", flat=True)) == {GateState.REQUESTED}
    assert (pending(story.relay), check_chain()) == (1, 2)


def test_approve_against_refuse_with_stop(people: People, gate: GateEpisode) -> None:
    looked = seen(gate)
    found = at_once(
        lambda: approve(people.reviewer, gate.pk, seen=looked, comment="x"),
        lambda: refuse(people.second, gate.pk, seen=looked, comment="x", then="stop"),
    )
    assert len(won(found)) == 1
    relay = Relay.objects.get()
    gate.refresh_from_db()
    assert (relay.status, gate.state) in {(RelayStatus.READY, "requested"), (RelayStatus.STOPPED, "refused")}
    assert pending(relay) == (relay.status == RelayStatus.READY)
    assert RegionLease.objects.get().held is (relay.status == RelayStatus.READY)


def test_two_changes_of_one_gate_lose_none_and_leave_one_current_baton(people: People, gate: GateEpisode) -> None:
    looked = seen(gate)
    found = at_once(
        *[
            lambda who=who: approve(who, gate.pk, seen=looked, comment="x", next_action=f"Go on, {who.user}.")
            for who in reviewers(people)
        ]
    )
    assert len(won(found)) == 1
    assert gate.relay.batons.filter(why="decision").count() == 1


def test_two_resumes(people: People, story: Story) -> None:
    Relay.objects.update(status=RelayStatus.PARKED)
    found = at_once(*[lambda: resume.resume(people.operator, story.relay.pk)] * 3)
    assert sorted(outcome.will for outcome in found) == ["none", "none", "start"]
    assert (pending(story.relay), check_chain()) == (1, 1)


def test_park_against_stop_against_approve(people: People, gate: GateEpisode) -> None:
    looked = seen(gate)
    found = at_once(
        lambda: park.park(people.operator, gate.relay_id),
        lambda: park.stop(people.operator, gate.relay_id),
        lambda: approve(people.reviewer, gate.pk, seen=looked, comment="x"),
    )
    relay = Relay.objects.get()
    assert relay.status == RelayStatus.STOPPED  # whatever came first, a stop is for good
    assert not Leg.objects.filter(state__in=OPEN_STATES).exists()
    assert not RegionLease.objects.get().held
    assert not GateEpisode.objects.filter(state__in=["waiting", "approved", "requested", "dispatched"]).exists()
    assert Decision.objects.count() == check_chain() <= len(won(found))


def test_two_starts_of_overlapping_regions(people: People, tmp_path: Path) -> None:
    repo = builders.make_repo(tmp_path / "repo", issues=1)

    def begin(region: str) -> Relay:
        return start(
            people.operator,
            StartRequest(str(repo), "Close them.", "issues:none open", "scripted", region=[region]),
        )

    found = at_once(lambda: begin("src/**"), lambda: begin("src/api/**"), lambda: begin("**"))
    (relay,) = won(found)
    assert all(isinstance(outcome, Held) and relay.pk in str(outcome) for outcome in found if outcome is not relay)
    assert Relay.objects.count() == Leg.objects.count() == RegionLease.objects.count() == check_chain() == 1


def test_two_starts_of_disjoint_regions_get_two_numbers(people: People, tmp_path: Path) -> None:
    repo = builders.make_repo(tmp_path / "repo", issues=1)
    found = at_once(
        *[
            lambda place=place: start(
                people.operator,
                StartRequest(str(repo), "Close them.", "issues:none open", "scripted", region=[f"{place}/**"]),
            )
            for place in ("a", "b", "c")
        ]
    )
    assert len({relay.pk for relay in found}) == 3
    assert check_chain() == 3


def test_a_start_against_a_region_that_a_decision_takes(people: People, story: Story) -> None:
    """The region was released; a start and an approval want it at once: both wait in one order, one has it."""
    RegionLease.objects.update(held=False)
    gate = story.park()
    looked = seen(gate)
    found = at_once(
        lambda: start(
            people.operator,
            StartRequest(str(story.repo), "Close them.", "issues:none open", "scripted", region=["work/**"]),
        ),
        lambda: approve(people.reviewer, gate.pk, seen=looked, comment="x", region=["work/**"]),
    )
    assert len(won(found)) == 1
    assert [type(outcome) for outcome in found if isinstance(outcome, Refused)] == [Held]
    assert RegionLease.objects.filter(held=True).count() == 1


def test_the_chain_holds_under_writers_of_many_relays(people: People) -> None:
    relays = [make_relay(owner=people.operator.user, status=RelayStatus.READY) for _ in range(6)]

    def work(relay: Relay) -> int:
        for _ in range(3):
            park.park(people.operator, relay.pk)
            resume.resume(people.operator, relay.pk)
        return 6

    found = at_once(*[lambda relay=relay: work(relay) for relay in relays])
    assert found == [6] * 6
    assert check_chain() == 36


def test_park_against_a_supervisors_start_of_the_leg(people: People) -> None:
    """The driver's start of a leg stands before the park or after it: never a live leg of a parked relay."""
    from django.db import transaction

    from relays.driver.changes import change_leg

    for _ in range(4):
        relay = make_relay(owner=people.operator.user, status=RelayStatus.READY)
        leg = Leg.objects.create(relay=relay, number=0, trace=f"tr-{relay.pk}")

        def begin(relay: Relay = relay, leg: Leg = leg) -> bool:
            with transaction.atomic():
                now = Relay.objects.select_for_update().get(pk=relay.pk)
                return now.status == RelayStatus.READY and change_leg(leg.pk, LegState.STARTING, frm=[LegState.PENDING])

        started, parked = at_once(begin, lambda relay=relay: park.park(people.operator, relay.pk))
        relay.refresh_from_db()
        leg.refresh_from_db()
        if started:
            assert (relay.status, relay.park, leg.state, parked.will) == ("ready", "drain", "starting", "drain")
        else:
            assert (relay.status, leg.state, parked.will) == ("parked", "pending", "none")


def test_refused_acts_are_refusals(people: People, gate: GateEpisode) -> None:
    """`at_once` reports a refusal and would not hide another error."""
    with pytest.raises(AssertionError):
        at_once(lambda: 1 // 0)
    assert isinstance(at_once(lambda: resume.resume(people.operator, gate.relay_id))[0], NotLegalNow)


@pytest.mark.parametrize("act", ["approve", "refuse"])
def test_an_expiry_in_the_middle_of_a_decision_comes_before_it_or_after_it(
    act: str, people: People, gate: GateEpisode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pass that closes gates comes between the reviewer's look at the gate and its change: never both."""
    Relay.objects.update(policy={"gate_expiry": "1h"})
    GateEpisode.objects.update(state_at=gate.state_at - timedelta(hours=2))
    looked, checked, passing = seen(gate), carried.check, Event()

    def meanwhile(*args: Any, **values: Any) -> Any:
        passing.set()
        time.sleep(0.5)
        return checked(*args, **values)

    def expiring() -> Any:
        passing.wait(20)
        return gates.expire(gate.state_at) or 0

    monkeypatch.setattr(carried, "check", meanwhile)
    deciding = approve if act == "approve" else refuse
    decided, closed = at_once(lambda: deciding(people.reviewer, gate.pk, seen=looked, comment="x"), expiring)
    gate.refresh_from_db()
    assert closed == 0 and decided.state == gate.state == ("requested" if act == "approve" else "refused")
    assert pending(gate.relay) == (act == "approve")


def test_two_different_changes_at_once_are_never_taken_for_one_another(people: People, gate: GateEpisode) -> None:
    """Two of two, each with a limit of their own, from the same look: the second is told that it changed."""
    Relay.objects.update(policy={"approvals": 2})
    looked = seen(gate)
    found = at_once(
        *[
            lambda who=who, turns=turns: approve(
                who, gate.pk, seen=looked, comment="x", sets=[f"envelope.turns={turns}"]
            )
            for who, turns in zip(reviewers(people), (400, 900), strict=True)
        ]
    )
    (first,) = won(found)
    assert (first.state, first.have) == ("waiting", 1)
    assert [type(one) for one in found if isinstance(one, Refused)] == [ChangedSinceSeen]
    assert Decision.objects.filter(act="limit").count() == 1 and not pending(gate.relay)


@pytest.mark.parametrize("act", ["park_all", "resume_all", "add_channel"])
def test_what_two_press_at_once_is_one_act(act: str, people: People) -> None:
    relay = make_relay(owner=people.operator.user, status=RelayStatus.WAITING)
    admins = [Actor(make_user("", "admin")) for _ in range(3)]
    if act == "resume_all":
        maintenance.step(maintenance.park_all(people.operator).pk)
    if act == "add_channel":
        url = "https://receiver.example/hook"
        found = at_once(*[lambda who=who: notifications.add_channel(who, name="team", url=url) for who in admins])
        assert len(won(found)) == 1 == Channel.objects.count()
        return
    found = at_once(*[lambda who=who: getattr(maintenance, act)(who) for who in admins])
    (made,) = won(found)
    # and two workers that are rung for it carry it out once
    at_once(*[lambda: maintenance.step(made.pk)] * 3)
    word = "park" if act == "park_all" else "resume"
    assert Decision.objects.filter(relay=relay, act=word).count() == 1
    assert Relay.objects.get().status == ("parked" if act == "park_all" else "ready")
    assert Maintenance.objects.get(pk=made.pk).status == "done" and check_chain() > 0
