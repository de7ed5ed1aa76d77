"""states.md, Leg: "backoff | `running`: agent back in the same leg · `ending`: retries over, stop, park now".

A leg in back-off never drains; its relay waits and says until when; no running time and no money is counted twice.
"""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from relays.actions import park
from relays.driver.backing_off import BackOff
from relays.driver.claim import Claim
from relays.driver.draining import Drain
from relays.models import DriverClaim, LegState, Relay, RelayStatus, Request
from tests import histories
from tests.driver.conftest import Killed
from tests.driver.course import Course, Step, boundary, commit, loop, operator, player, turn
from tests.driver.test_wall_clock import hours_pass, used
from tests.web_builders import make_leg, make_relay

Start = Callable[..., Course]
Within = Callable[[Callable[[], object]], Step]


def retry(cause: str = "overload", **more: Any) -> list[Step]:
    """The agent's model did not answer, and it tries again."""
    return [{"kind": "retry", "cause": cause, **more}]


@pytest.fixture
def within(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Within:
    """`within(act)`: when a leg stands in back-off, `act()` happens once; the step at which its agent waits for it."""
    done = tmp_path / "acted"
    acts: list[Callable[[], object]] = []
    tick = BackOff.tick

    def ticked(self: BackOff) -> None:
        tick(self)
        if self.leg.state == LegState.BACKOFF and acts:
            try:
                acts.pop()()
            finally:
                done.touch()

    monkeypatch.setattr(BackOff, "tick", ticked)

    def arrange(act: Callable[[], object]) -> Step:
        acts.append(act)
        return {"do": "await", "path": str(done)}

    return arrange


def works(*meets: Step) -> list[Step]:
    """A leg that is safe at its first boundary, meets something in its second turn, and then ends well."""
    return [
        *commit("w-$LEG.txt"),
        *turn(cost=0.5),
        *boundary("Go on."),
        {"kind": "turn_started"},
        *meets,
        *turn(cost=0.25)[1:],
        *boundary("Go on.", final=True),
    ]


def test_the_leg_backs_off_its_relay_waits_and_the_same_leg_comes_back(course: Start, within: Within) -> None:
    seen: dict[str, Any] = {}
    relay: Course

    def look() -> None:
        now = relay.relay
        seen.update(status=now.status, why=now.status_why, next_at=now.next_at, leg=relay.open_leg.state)

    waits = within(look)
    relay = course(**player(works(*retry(), *retry("network", retry_in_ms=60_000), waits)), done="file:goal.txt")
    before = timezone.now()
    with histories.recorded(connection) as changes:
        relay.step()
        found = changes()
    assert histories.illegal(found) == []
    assert seen["status"] == RelayStatus.WAITING and seen["leg"] == LegState.BACKOFF
    assert seen["why"].startswith("the leg in back-off: the model's service cannot be reached")
    # when the agent tries again, as it said
    assert before + timedelta(seconds=50) < seen["next_at"] < timezone.now() + timedelta(seconds=70)
    ways = [(kind, was, became) for kind, _, was, became in found]
    assert ways.count(("leg", "running", "backoff")) == ways.count(("leg", "backoff", "running")) == 1
    assert ways.count(("relay", "running", "waiting")) == ways.count(("relay", "waiting", "running")) == 1
    (leg,) = relay.legs
    assert (leg.reason, leg.turns, leg.attempts) == ("RELAY_ROTATED", 2, 0)
    assert relay.relay.status == RelayStatus.READY and relay.relay.next_at is None


def test_a_lost_sign_in_parks_and_says_so_in_plain_words(course: Start) -> None:
    relay = course(args={"items": "3", "retry": "sign_in"})
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause) == ("RELAY_PARKED_UNSAFE", "sign_in")
    assert relay.waiting == ["RELAY_PARKED_UNSAFE"]
    plain = "the agent's sign-in has expired or was lost: sign the agent in again, then approve"
    assert plain in relay.relay.status_why and plain in " ".join(relay.gates[0].items)
    assert relay.relay.status == RelayStatus.PARKED and relay.open_leg is None


@pytest.mark.slow
def test_the_scripted_worker_meets_overload_and_goes_on(course: Start) -> None:
    relay = course(args={"items": "1", "retry": "overload"}, issues=2)
    with histories.recorded(connection) as changes:
        relay.drive()
        found = changes()
    assert histories.illegal(found) == []
    assert ("backoff", "running") in [(was, became) for _, _, was, became in found]
    assert relay.relay.status == RelayStatus.DONE


@pytest.mark.slow
def test_back_off_costs_no_running_time_and_no_money_twice(course: Start, within: Within) -> None:
    relay: Course
    # the agent says its last call again while it tries: one message is one call
    again = turn(cost=0.5)[1] | {"message_id": "m$LEG-2"}
    waits = within(lambda: hours_pass(relay, 9))
    relay = course(**player(works(*retry(), waits, again, *retry(), again)), sets=["envelope.wall=30m"])
    relay.step()
    (leg,) = relay.legs
    assert leg.reason == "RELAY_ROTATED" and relay.open_leg is not None, "its budget is not spent by waiting"
    assert timedelta(0) < used(relay) < timedelta(minutes=5)
    assert relay.relay.spend_used == leg.spend == Decimal("0.75") and leg.calls == 2


@pytest.mark.slow
def test_an_agent_that_announced_its_next_try_is_not_silent_until_then(course: Start) -> None:
    late = works(*retry(retry_in_ms=30_000), {"do": "sleep", "seconds": 2.5})
    relay = course(**player(late), sets=["silence_limit=1"], done="file:goal.txt")
    relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause, relay.legs[0].turns) == ("RELAY_ROTATED", "", 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("gives_up", "sets", "cause"),
    [
        ([{"do": "exit", "code": 1}], [], "agent_crash"),
        ([loop({"do": "sleep", "seconds": 0.2}, *retry())], ["unknown_patience=1"], "silence"),
        ([{"do": "sleep", "seconds": 60}], ["silence_limit=1"], "silence"),
    ],
)
def test_retries_that_are_over_park_where_a_crash_would_rotate(
    course: Start, gives_up: list[Step], sets: list[str], cause: str
) -> None:
    relay = course(**player(works(*retry(retry_in_ms=0), *gives_up)), sets=sets, done="file:goal.txt")
    with histories.recorded(connection) as changes:
        relay.step()
        assert histories.illegal(changes()) == []
    (leg,) = relay.legs
    assert (leg.reason, leg.cause) == ("RELAY_PARKED_UNSAFE", cause)
    assert relay.relay.status == RelayStatus.PARKED and relay.open_leg is None
    assert "the model's service is overloaded" in relay.relay.status_why
    assert relay.baton.next_action == "Go on.", "a park keeps the next action"


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


@pytest.mark.slow
@pytest.mark.parametrize(
    ("act", "over", "status"),
    [
        ("park", "running", RelayStatus.PARKED),  # it drains when its agent is back
        ("park now", "ending", RelayStatus.PARKED),
        ("stop", "ending", RelayStatus.STOPPED),
        ("stop now", "ending", RelayStatus.STOPPED),
    ],
)
def test_what_a_person_wants_of_a_leg_in_back_off_is_done_inside_the_table(
    course: Start, within: Within, act: str, over: str, status: str
) -> None:
    relay: Course
    verb, _, now = act.partition(" ")
    waits = within(lambda: getattr(park, verb)(operator(), relay.pk, now=bool(now)))
    hangs = [] if over == "running" else [{"do": "sleep", "seconds": 60}]
    relay = course(**player(works(*retry(), waits, *hangs)), done="file:goal.txt")
    with histories.recorded(connection) as changes:
        relay.step()
        seen = changes()
    assert histories.illegal(seen) == []
    assert [became for kind, _, was, became in seen if (kind, was) == ("leg", "backoff")] == [over]
    assert relay.relay.status == status
    assert relay.waiting == (["RELAY_PARKED_UNSAFE"] if act == "park now" else [])


@pytest.mark.slow
def test_a_leg_whose_supervisor_died_in_back_off_is_judged_from_records(course: Start, within: Within) -> None:
    relay: Course

    def dies() -> None:
        raise Killed("in back-off")

    relay = course(**player(works(*retry(), within(dies))), done="file:goal.txt")
    with histories.recorded(connection) as changes:
        with pytest.raises(Killed):
            relay.step()
        assert relay.relay.status == RelayStatus.WAITING
        hours_pass(relay, 9)
        relay.step()
        seen = changes()
    assert histories.illegal(seen) == []
    assert ("backoff", "ending") in [(was, became) for _, _, was, became in seen]
    assert relay.legs[0].reason == "RELAY_ROTATED" and relay.relay.status == RelayStatus.READY
    assert used(relay) < timedelta(minutes=5), "the time that nobody drove it is no running time"


@pytest.mark.slow
def test_a_relay_whose_supervisor_died_in_back_off_is_looked_at_again_within_minutes(
    course: Start, within: Within, monkeypatch: pytest.MonkeyPatch
) -> None:
    from relays.driver import advance, reconcile, spawn

    relay: Course

    def dies() -> None:
        raise Killed("in back-off")

    relay = course(**player(works(*retry(retry_in_ms=8 * 3_600_000), within(dies))), done="file:goal.txt")
    with pytest.raises(Killed):
        relay.step()
    assert relay.relay.next_at - timezone.now() <= timedelta(minutes=5), "though the agent tries in eight hours"
    started: list[str] = []
    monkeypatch.setattr(spawn, "supervisor", lambda relay_id, leg_pk: bool(started.append(relay_id)) or True)
    Relay.objects.filter(pk=relay.pk).update(next_at=timezone.now())
    assert relay.pk in reconcile._due(timezone.now())
    assert advance.advance(relay.pk) == "started" and started == [relay.pk]
    assert relay.relay.status == RelayStatus.WAITING, "it is not ready: its leg still stands in back-off"


@pytest.mark.slow
def test_an_agent_that_outlives_its_supervisor_comes_back_from_its_back_off(course: Start, within: Within) -> None:
    relay: Course

    def dies() -> None:
        raise Killed("in back-off")

    outlives = player(works(*retry(), within(dies)), "reconnect")
    outlives["args"] |= {"reconnect": "1"}
    relay = course(**outlives, done="file:goal.txt")
    with histories.recorded(connection) as changes:
        with pytest.raises(Killed):
            relay.step()
        relay.step()
        seen = changes()
    assert histories.illegal(seen) == []
    assert [became for kind, _, was, became in seen if (kind, was) == ("leg", "backoff")] == ["running"]
    assert relay.legs[0].reason == "RELAY_ROTATED" and relay.legs[0].turns == 2


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["shadow", "advise"])
def test_a_watched_agent_that_lost_its_sign_in_is_let_end_and_closes_as_advice(course: Start, mode: str) -> None:
    relay = course(args={"items": "3", "retry": "sign_in"}, mode=mode)
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.cause, leg.advisory) == ("RELAY_PARKED_UNSAFE", "sign_in", True)
    assert relay.waiting == [] and relay.relay.status == RelayStatus.PARKED
