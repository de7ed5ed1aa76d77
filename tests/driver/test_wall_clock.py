"""rules.md, Budgets never reset by accident: "Wall clock counts running time over restarts, pauses … excluded"."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from relays.actions import park, resume
from relays.driver.boundaries import Boundaries
from relays.models import DriverClaim, Event, Leg, Relay, RelayStatus
from tests.driver.conftest import Killed
from tests.driver.course import Course, boundary, commit, loop, operator, player, turn

Start = Callable[..., Course]

WORK = player({"*": [*commit("w-$LEG.txt"), *turn(), *boundary("Go on."), *turn(), *boundary("Go on.", final=True)]})
NONE = timedelta(0)


def hours_pass(relay: Course, hours: int) -> None:
    """Everything that is stored happened so much earlier."""
    by = timedelta(hours=hours)
    legs = Leg.objects.filter(relay=relay.pk)
    for name in ("started_at", "ended_at", "charged_until", "last_event_at"):
        legs.exclude(**{name: None}).update(**{name: F(name) - by})
    Event.objects.filter(leg__relay=relay.pk).update(at=F("at") - by)
    Relay.objects.filter(pk=relay.pk).update(status_at=F("status_at") - by)
    DriverClaim.objects.filter(relay=relay.pk).exclude(heartbeat=None).update(heartbeat=F("heartbeat") - by)


def used(relay: Course) -> timedelta:
    return relay.relay.wall_used


def test_a_dead_supervisor_costs_only_what_ran(course: Start, killed: Callable[..., None]) -> None:
    relay = course(**WORK, sets=["envelope.wall=30m"])
    killed(Boundaries, "judge", nth=2)
    with pytest.raises(Killed):
        relay.step()
    before = used(relay)
    hours_pass(relay, 9)  # nobody drove it for a night
    relay.step()
    (leg,) = relay.legs
    assert leg.reason == "RELAY_ROTATED" and relay.open_leg is not None, "its budget is not spent by a night"
    assert NONE < used(relay) < timedelta(minutes=20)
    assert used(relay) >= before


@pytest.mark.slow
def test_no_restart_gives_back_what_was_used(course: Start, killed: Callable[..., None]) -> None:
    relay = course(**WORK, sets=["envelope.wall=10h"])
    seen = [used(relay)]
    for _ in range(3):
        killed(Boundaries, "judge", nth=1)
        with pytest.raises(Killed):
            relay.step()
        Leg.objects.filter(pk=relay.open_leg.pk).update(charged_until=F("charged_until") - timedelta(minutes=11))
        relay.step()
        seen.append(used(relay))
        if relay.waiting:
            relay.approve(relay.waiting[0], next_action="Go on.")
    assert seen == sorted(seen) and seen[-1] >= timedelta(minutes=33), "each leg's time is debited, crashed or not"


@pytest.mark.slow
def test_pauses_and_waiting_cost_nothing(course: Start) -> None:
    relay = course(**WORK, sets=["envelope.wall=30m", "rotations_per_hour=1"])
    relay.step()
    park.park(operator(), relay.pk)
    ran = used(relay)
    assert ran > NONE
    hours_pass(relay, 5)  # a person had it parked
    resume.resume(operator(), relay.pk)
    assert used(relay) == ran
    relay.step()
    relay.drive(1)
    assert relay.relay.status in (RelayStatus.WAITING, RelayStatus.READY)
    hours_pass(relay, 5)  # it waited for the cap
    if relay.relay.status == RelayStatus.WAITING:
        relay.time_passes()
    relay.step()
    assert [leg.reason for leg in relay.legs] == ["RELAY_ROTATED"] * len(relay.legs) and len(relay.legs) >= 2
    assert used(relay) < timedelta(minutes=25)


def test_a_spent_clock_stays_spent_over_a_crash_and_a_pause(course: Start, killed: Callable[..., None]) -> None:
    slow = player({"*": [*commit("w-$LEG.txt"), loop(*turn(), *boundary("Go on."))]})
    relay = course(**slow, sets=["envelope.wall=30m"])
    killed(Boundaries, "judge", nth=2)
    with pytest.raises(Killed):
        relay.step()
    Relay.objects.filter(pk=relay.pk).update(wall_used=timedelta(minutes=31))
    relay.step()
    assert relay.relay.status == RelayStatus.PARKED and "BUDGET_EXHAUSTED" in relay.waiting
    assert relay.open_leg is None, "no leg follows a spent envelope"
    items: list[Any] = next(gate.items for gate in relay.gates if gate.token == "BUDGET_EXHAUSTED")
    assert any("TIME_BUDGET_EXHAUSTED" in item for item in items)
    hours_pass(relay, 24)
    relay.approve("BUDGET_EXHAUSTED", sets=["envelope.wall=10h"])
    assert relay.relay.wall_used >= timedelta(minutes=31), "a new limit gives no time back"
    assert relay.relay.status == RelayStatus.READY
