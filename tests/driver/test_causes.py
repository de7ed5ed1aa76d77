"""states.md, Gate episode: "waiting | … `superseded`: relay ended, cause gone"; rules.md, The driver: "A relay parked
by a gate, an ask or a person never resumes by itself"."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from relays.actions import resume
from relays.core import policy
from relays.driver import causes, reconcile, spawn
from relays.driver.prepare import Ready
from relays.models import GateEpisode, GateState, Leg, LegState, Relay, RelayStatus
from relays.reports import gate as gate_report
from tests.actions.acts import approve
from tests.builders import git
from tests.driver.changed import template, world
from tests.driver.course import operator, reviewer
from tests.driver.world import World, make_world
from tests.web_builders import make_gate, make_leg, make_relay

pytestmark = pytest.mark.django_db
__all__ = ["template", "world"]  # pytest finds its fixtures by these names


def look(later: timedelta = timedelta()) -> int:
    return causes.look(timezone.now() + later, time.monotonic() + 60)


def gate_of(relay_id: str) -> GateEpisode:
    return GateEpisode.objects.filter(relay=relay_id).latest("pk")


def faulted(world: World) -> GateEpisode:
    """What its next leg needs does not answer, and the patience with it is over."""
    world.reload()
    assert world.relay.status == RelayStatus.WAITING, world.relay.status_why
    world.again(later=timedelta(hours=1))
    assert world.asked == ["UNSERVED_PAGE_FAULT"] and world.relay.status == RelayStatus.PARKED
    assert look() == 0, "its cause stands"
    return gate_of(world.pk)


def spent(**values: Any) -> GateEpisode:
    """A parked relay whose turns were spent, and which was asked for a new limit."""
    relay = make_relay(status=RelayStatus.PARKED, turns_used=10, policy=limits("envelope.turns=10"), **values)
    make_leg(relay, reason="RELAY_ROTATED")
    return make_gate(relay, "BUDGET_EXHAUSTED", items=["BUDGET_TURNS_EXHAUSTED", "tombstone of leg 0: RELAY_ROTATED"])


def limits(*sets: str) -> dict[str, Any]:
    return policy.to_snapshot(policy.build({}, None, {}, sets))


def extended(relay: Relay, *sets: str) -> None:
    Relay.objects.filter(pk=relay.pk).update(policy=limits(*sets))


# --- UNSERVED_PAGE_FAULT


def test_a_repository_that_is_back_supersedes_the_ask_and_an_operator_resumes(world: World) -> None:
    away = world.repo.with_name("away")
    world.repo.rename(away)
    gate = faulted(world)
    away.rename(world.repo)
    assert look() == 0, "it was looked at just now"
    assert look(later=timedelta(minutes=1)) == 1
    gate.refresh_from_db()
    assert gate.state == GateState.SUPERSEDED
    assert gate.closed_why.startswith("cause gone: everything that the baton points at resolves at ")
    found = world.relay
    assert found.status == RelayStatus.PARKED, "it never resumes by itself"
    assert "cause gone" in found.status_why and found.status_why.endswith("an operator resumes the relay, or stops it")
    assert resume.resume(operator(), world.pk).will == "start"
    assert isinstance(world.reload(), Ready)


def test_a_branch_that_is_checked_out_again_supersedes_the_ask(tmp_path: Path, settings: Any, monkeypatch: Any) -> None:
    settings.RELAY_VAR = tmp_path / "var"
    monkeypatch.setattr("relaysite.celery.app.send_task", lambda *_, **__: None)
    here = make_world(tmp_path, sets=["workspace=in_place"])
    git(here.repo, "stash", "-q", "-u")
    git(here.repo, "switch", "-q", "-c", "mine")
    gate = faulted(here)
    assert "switch to it" in gate.items[0]
    git(here.repo, "switch", "-q", here.branch)
    assert look(later=timedelta(minutes=1)) == 1
    gate.refresh_from_db()
    assert gate.state == GateState.SUPERSEDED and here.relay.status == RelayStatus.PARKED


def test_a_pointer_that_still_dangles_keeps_the_ask(world: World) -> None:
    away = world.repo.with_name("away")
    world.repo.rename(away)
    gate = faulted(world)
    away.rename(world.repo)
    git(world.worktree, "reset", "-q", "--hard", world.start)  # the branch answers, and has lost the work
    assert look(later=timedelta(minutes=1)) == 0
    gate.refresh_from_db()
    assert gate.state == GateState.WAITING


# --- BUDGET_EXHAUSTED and OBJECTIVE_DRIFT: our own records tell


def test_a_budget_that_was_extended_elsewhere_supersedes_the_ask() -> None:
    gate = spent()
    assert look() == 0
    extended(gate.relay, "envelope.turns=10", "envelope.legs=40")
    assert look(later=timedelta(minutes=1)) == 0, "another limit leaves nothing of this one"
    extended(gate.relay, "envelope.turns=11")
    assert look(later=timedelta(minutes=2)) == 1
    gate.refresh_from_db()
    assert (gate.state, gate.closed_why) == (
        GateState.SUPERSEDED,
        "cause gone: every limit that was spent leaves something again",
    )


def test_calls_without_a_price_stay_asked() -> None:
    gate = spent(unpriced_calls=3)
    GateEpisode.objects.filter(pk=gate.pk).update(items=["spend unknown: 3 calls have no price"])
    extended(gate.relay, "envelope.spend=5")
    assert look() == 0
    extended(gate.relay, "envelope.turns=50")  # money is limited no more
    assert look(later=timedelta(minutes=1)) == 1


def test_spent_queries_are_an_axis_of_their_own() -> None:
    gate = spent(queries_used=2)
    GateEpisode.objects.filter(pk=gate.pk).update(items=["BUDGET_QUERIES_EXHAUSTED", "refused question: Which?"])
    extended(gate.relay, "envelope.turns=10", "envelope.queries=2")
    assert look() == 0
    extended(gate.relay, "envelope.turns=10", "envelope.queries=3")
    assert look(later=timedelta(minutes=1)) == 1


def test_an_objective_that_is_the_relays_own_again_supersedes_the_drift(world: World) -> None:
    pin = world.relay.pin
    Relay.objects.filter(pk=world.pk).update(objective="Do something else.")
    world.reload()
    assert world.asked == ["OBJECTIVE_DRIFT"] and look() == 0
    Relay.objects.filter(pk=world.pk).update(objective=pin.text)
    assert look(later=timedelta(minutes=1)) == 1
    assert gate_of(world.pk).closed_why == "cause gone: the objective that was handed over is the relay's own again"


# --- whose cause cannot vanish, who decides, and what goes on


def test_a_stop_that_happened_stays(world: World) -> None:
    tokens = ["RELAY_PARKED_UNSAFE", "RELAY_NO_PROGRESS", "DONE_UNCONFIRMED", "LOW_CONFIDENCE_ASSUMPTION"]
    relay = make_relay(status=RelayStatus.PARKED)
    gates = [make_gate(relay, token) for token in tokens]
    assert look() == 0
    assert {GateEpisode.objects.get(pk=gate.pk).state for gate in gates} == {GateState.WAITING}


def test_a_gate_that_people_have_begun_to_decide_is_theirs() -> None:
    """With two approvals wanted, the limit that the first one gave must not take the second one's say."""
    gate = spent()
    extended(gate.relay, "envelope.turns=10", "approvals=2")
    gate.refresh_from_db()
    seen = gate_report.seen_digest(gate, "")
    from relays.actions import decide

    said = decide.approve(reviewer(), gate.pk, seen=seen, comment="More.", sets=["envelope.turns=99"])
    assert (said.state, said.have, said.need) == ("waiting", 1, 2)
    assert look() == 0 and look(later=timedelta(minutes=1)) == 0
    gate.refresh_from_db()
    assert gate.state == GateState.WAITING


def test_what_was_approved_meanwhile_is_requested_when_the_last_cause_is_gone() -> None:
    gate = spent()
    other = make_gate(gate.relay)
    assert approve(reviewer(), other).state == "approved", "the budget still waits"
    extended(gate.relay, "envelope.turns=99")
    assert look() == 1
    other.refresh_from_db()
    assert other.state == GateState.REQUESTED
    assert Relay.objects.get(pk=gate.relay_id).status == RelayStatus.READY
    assert Leg.objects.filter(relay=gate.relay_id, state=LegState.PENDING).exists()


def test_a_decision_that_gives_the_limit_on_another_gate_settles_the_ask_at_once() -> None:
    gate = spent()
    other = make_gate(gate.relay)
    assert approve(reviewer(), other, sets=["envelope.turns=99"]).state == "requested"
    gate.refresh_from_db()
    assert gate.state == GateState.SUPERSEDED
    assert Relay.objects.get(pk=gate.relay_id).status == RelayStatus.READY


def test_a_pass_looks_at_a_bounded_number_and_at_each_in_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "LOOKS", 2)
    gates = [spent() for _ in range(5)]
    for gate in gates:
        extended(gate.relay, "envelope.turns=99")
    assert [look(), look(), look(), look()] == [2, 2, 1, 0]


def test_the_periodic_pass_looks_and_a_damaged_policy_keeps_nobody_elses_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    damaged, gate = spent(), spent()
    Relay.objects.filter(pk=damaged.relay_id).update(policy={"ceiling": "much"})
    extended(gate.relay, "envelope.turns=99")
    monkeypatch.setattr(spawn, "supervisor", lambda relay_id, leg_pk: False)
    reconcile.reconcile()
    gate.refresh_from_db()
    damaged.refresh_from_db()
    assert (gate.state, damaged.state) == (GateState.SUPERSEDED, GateState.WAITING)
