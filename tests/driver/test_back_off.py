"""states.md, Leg: "backoff | `running`: agent back in the same leg · `ending`: retries over, stop, park now".

A leg in back-off never drains; whatever a person wants, and whoever drives it, its changes are those of the table.
"""

from collections.abc import Callable

import pytest
from django.db import connection

from relays.actions import park
from relays.driver.boundaries import Boundaries
from relays.driver.claim import Claim
from relays.driver.draining import Drain
from relays.models import DriverClaim, Leg, LegState, RelayStatus, Request
from tests import histories
from tests.driver.conftest import Killed
from tests.driver.course import Course, boundary, commit, operator, player, turn
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.slow

Start = Callable[..., Course]
At = Callable[[int, Callable[[], object]], None]

WORKS = [*commit("w-$LEG.txt"), *turn(), *boundary("Go on."), *turn(), *boundary("Go on.", final=True)]


def backs_off(relay: Course) -> None:
    Leg.objects.filter(relay=relay.pk, state=LegState.RUNNING).update(state=LegState.BACKOFF)


@pytest.mark.django_db
@pytest.mark.parametrize("wish", ["park", "stop", "envelope", "shutdown", "ceiling"])
@pytest.mark.parametrize("state", [LegState.BACKOFF, LegState.RUNNING])
def test_a_leg_in_back_off_does_not_drain(wish: str, state: LegState) -> None:
    from relays.driver import budgets

    spent = {"turns_used": 2} if wish == "envelope" else {}
    relay = make_relay(policy={"envelope": {"turns": 1}} if wish == "envelope" else {}, **spent)
    leg = make_leg(relay, state=state)
    if wish in ("park", "stop"):
        setattr(relay, wish, Request.DRAIN)
        relay.save()
    DriverClaim.objects.create(relay=relay, fence=1)
    drain = Drain(relay, leg, Claim(relay.pk, 1))
    drain.shutdown = wish == "shutdown"
    with histories.recorded(connection) as changes:
        if wish == "ceiling":
            drain.at_ceiling(1)
        else:
            drain.follow(budgets.policy_of(relay), 1)
        assert histories.illegal(changes()) == []
    leg.refresh_from_db()
    drains = state == LegState.RUNNING
    assert (leg.state, leg.drain_reason) == (("draining", wish) if drains else ("backoff", ""))


@pytest.mark.parametrize(
    ("act", "status"),
    [
        ("park", RelayStatus.PARKED),
        pytest.param("park now", RelayStatus.PARKED, marks=pytest.mark.slow),
        pytest.param("stop now", RelayStatus.STOPPED, marks=pytest.mark.slow),
    ],
)
def test_what_a_person_wants_of_a_leg_in_back_off_is_done_inside_the_table(
    course: Start, meanwhile: At, act: str, status: str
) -> None:
    relay = course(**player(WORKS), done="file:goal.txt")

    def asked() -> None:
        backs_off(relay)
        (park.stop if act.startswith("stop") else park.park)(operator(), relay.pk, now=act.endswith("now"))

    meanwhile(1, asked)
    with histories.recorded(connection) as changes:
        relay.step()
        seen = changes()
    assert histories.illegal(seen) == []
    assert ("backoff", "ending") in [(was, became) for _, _, was, became in seen]
    assert relay.relay.status == status


def test_a_leg_whose_supervisor_died_in_back_off_is_judged_from_records(
    course: Start, killed: Callable[..., None]
) -> None:
    relay = course(**player(WORKS), done="file:goal.txt")
    killed(Boundaries, "judge", after=True)
    with histories.recorded(connection) as changes:
        with pytest.raises(Killed):
            relay.step()
        backs_off(relay)
        relay.step()
        seen = changes()
    assert histories.illegal(seen) == []
    assert ("backoff", "ending") in [(was, became) for _, _, was, became in seen]
    assert relay.legs[0].state == LegState.ENDED and relay.relay.status == RelayStatus.READY
