"""states.md, Gate episode: what becomes of an episode, from each of its states; and what it keeps waiting.

rules.md, Reason tokens: "each blocks the next leg, or the step that needs it, and says which … One open episode per
relay and kind; it can hold several items". rules.md, Advisory before enforcement: "A new token or rule blocks nothing
until a named check consumes it."
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from relays.driver import finals, gates
from relays.models import NEXT_LEG, OPEN_GATES, GateEpisode, GateState, Relay, RelayStatus
from tests.builders import git
from tests.driver.course import Course, boundary, commit, player, turn
from tests.web_builders import make_relay

Start = Callable[..., Course]
At = Callable[[int, Callable[[], object]], None]

NOW = timezone.now()


def episode(relay: Relay, state: str, token: str = "RELAY_PARKED_UNSAFE") -> GateEpisode:
    return GateEpisode.objects.create(
        relay=relay, token=token, state=state, items=["one"], opened_at=NOW, state_at=NOW, round=3
    )


def state_of(gate: GateEpisode) -> str:
    gate.refresh_from_db()
    return gate.state


@pytest.mark.django_db
@pytest.mark.parametrize("state", OPEN_GATES)
def test_stop_supersedes_whatever_is_open(state: str) -> None:
    relay = make_relay(status=RelayStatus.PARKED)
    gate, decided = episode(relay, state), episode(relay, GateState.REFUSED)
    assert finals.stopped(relay.pk, frm=[RelayStatus.PARKED], now=NOW, why="stopped")
    assert (state_of(gate), state_of(decided)) == (GateState.SUPERSEDED, GateState.REFUSED)


@pytest.mark.django_db
@pytest.mark.parametrize("state", OPEN_GATES)
@pytest.mark.parametrize("end", ["done", "idle"])
def test_where_no_leg_is_needed_what_was_on_its_way_is_confirmed(state: str, end: str) -> None:
    relay = make_relay(status=RelayStatus.READY, watch=end == "idle")
    gate = episode(relay, state)
    if end == "done":
        assert finals.done(relay.pk, frm=[RelayStatus.READY], now=NOW)
    else:
        assert finals.idle(relay.pk, frm=[RelayStatus.READY], now=NOW, tip="", issues="")
    on_its_way = state in (GateState.REQUESTED, GateState.DISPATCHED)
    # what still waits loses its cause with the relay's end only: a watch that rests goes on
    otherwise = GateState.SUPERSEDED if end == "done" else state
    assert state_of(gate) == (GateState.CONFIRMED if on_its_way else otherwise)


@pytest.mark.django_db
@pytest.mark.parametrize("state", [GateState.WAITING, GateState.APPROVED, GateState.DISPATCHED])
def test_a_new_item_joins_the_open_episode_and_approvals_lapse(state: str) -> None:
    relay = make_relay(status=RelayStatus.PARKED)
    gate = episode(relay, state)
    again = gates.open_episode(relay.pk, gate.token, leg=None, items=["one", "two"], now=NOW + timedelta(seconds=1))
    assert (again.pk, again.state, again.items, again.round) == (gate.pk, GateState.WAITING, ["one", "two"], 4)
    assert GateEpisode.objects.count() == 1
    # the same said again is nothing new: who approved has seen it
    assert gates.open_episode(relay.pk, gate.token, leg=None, items=["two"], now=NOW).round == 4


@pytest.mark.django_db
def test_a_new_stop_of_the_kind_takes_the_place_of_a_requested_one() -> None:
    relay = make_relay(status=RelayStatus.PARKED)
    gate = episode(relay, GateState.REQUESTED)
    new = gates.open_episode(relay.pk, gate.token, leg=None, items=["two"], now=NOW)
    assert (state_of(gate), new.state, new.items) == (GateState.SUPERSEDED, GateState.WAITING, ["two"])


@pytest.mark.django_db
def test_a_park_takes_only_what_is_requested_back_to_approved() -> None:
    relay = make_relay(status=RelayStatus.PARKED)
    one, two = episode(relay, GateState.REQUESTED), episode(relay, GateState.WAITING, "RELAY_NO_PROGRESS")
    gates.withdraw_requested(relay.pk, NOW)
    assert (state_of(one), state_of(two)) == (GateState.APPROVED, GateState.WAITING)


def test_a_goal_that_came_true_at_the_gate_needs_no_leg(course: Start) -> None:
    dirty = [*turn(), {"do": "write", "path": "half.txt", "text": "x"}, *boundary("Go on.", final=True)]
    relay = course(**player([*dirty, *boundary("Go on.", final=True)]), done="file:goal.txt")
    relay.step()
    assert relay.waiting == ["RELAY_PARKED_UNSAFE"]
    git(relay.worktree, "checkout", "-q", "--", ".")
    (relay.worktree / "goal.txt").write_text("made by a person\n")
    git(relay.worktree, "add", "goal.txt")
    git(relay.worktree, "commit", "-q", "-m", "Goal", "--", "goal.txt")
    assert relay.approve("RELAY_PARKED_UNSAFE").state == "requested"
    relay.step()
    assert relay.relay.status == RelayStatus.DONE and [gate.state for gate in relay.gates] == ["confirmed"]
    assert [leg.number for leg in relay.legs] == [0], "the ladder says done: no leg is needed"


@pytest.mark.slow
def test_what_was_requested_stays_so_while_a_store_does_not_answer(course: Start) -> None:
    """ "requested … stays: cap, unknown, held"."""
    dirty = [*turn(), {"do": "write", "path": "half.txt", "text": "x"}, *boundary("Go on.", final=True)]
    script = {"0": [*dirty, *boundary("Go on.", final=True)], "*": [*turn(), *boundary("Go on.", final=True)]}
    relay = course(**player(script), done="file:goal.txt")
    relay.step()
    relay.approve("RELAY_PARKED_UNSAFE")
    repo = Path(relay.relay.repo)
    repo.rename(repo.with_name("away"))
    relay.step()
    assert relay.relay.status == RelayStatus.WAITING and [gate.state for gate in relay.gates] == ["requested"]
    repo.with_name("away").rename(repo)
    relay.time_passes()
    relay.step()
    assert relay.gates[0].state == "confirmed" and [leg.number for leg in relay.legs] == [0, 1]


@pytest.mark.parametrize("blocks", [NEXT_LEG, "the release"])
def test_an_ask_keeps_only_that_waiting_which_it_names(course: Start, meanwhile: At, blocks: str) -> None:
    relay = course(**player([*commit("work.txt"), *turn(), *boundary("Go on.", final=True)]), done="file:goal.txt")
    ask = {"leg": None, "items": ["which one?"], "now": timezone.now(), "blocks": blocks}
    meanwhile(1, lambda: gates.open_episode(relay.pk, "LOW_CONFIDENCE_ASSUMPTION", **ask))  # type: ignore[arg-type]
    relay.step()
    assert relay.legs[0].reason == "RELAY_ROTATED" and relay.waiting == ["LOW_CONFIDENCE_ASSUMPTION"]
    if blocks == NEXT_LEG:
        assert relay.relay.status == RelayStatus.PARKED and relay.open_leg is None
    else:
        assert relay.relay.status == RelayStatus.READY and relay.open_leg is not None
