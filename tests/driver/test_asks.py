"""The asks that block a leg's start: what opens them, and what approving them does.

rules.md, Objective ("dropped, drifted and query_user open OBJECTIVE_DRIFT"), Reload, stale, re-derivation ("approving
it for an anchor means try again"), Budgets never reset by accident, and The driver (Park, approve, resume, stop).
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from relays.actions import park, resume
from relays.actions.base import NotLegalNow, Usage
from relays.core.objective import pin_digest
from relays.driver.boundaries import Boundaries
from relays.models import Baton, Decision, LedgerRow, Relay, RelayStatus
from relays.reports import status
from tests.actions.acts import approve, check_chain, refuse
from tests.driver.conftest import Killed
from tests.driver.course import boundary, commit, loop, operator, player, reviewer, turn, user

pytestmark = pytest.mark.slow

Start = Callable[..., Any]
At = Callable[..., None]

WORKS = [*commit("work-$LEG.txt"), *turn(), *boundary("Go on.", final=True)]
OTHER = "Do something else entirely."


# --- OBJECTIVE_DRIFT


def drifted(course: Start, how: str = "text alone", **values: Any) -> Any:
    """A relay whose objective in the database is not the one that its baton carries, and whose next start asked."""
    relay = course(**player(WORKS), **values)
    relay.step()
    found = relay.relay
    pin_id = "pin-other" if how == "another pin" else found.pin_id
    digest = found.objective_digest if how == "text alone" else pin_digest(pin_id, OTHER)
    Relay.objects.filter(pk=relay.pk).update(pin_id=pin_id, objective=OTHER, objective_digest=digest)
    relay.step()
    assert relay.waiting == ["OBJECTIVE_DRIFT"] and len(relay.legs) == 1
    return relay


@pytest.mark.parametrize("how", ["text alone", "text and digest"])
def test_a_drift_while_the_relay_is_parked_is_asked_at_the_resume(course: Start, how: str) -> None:
    """No leg is pending then: the resume makes one, and its reload finds the drift before an agent starts."""
    relay = course(**player(WORKS), mode="shadow")
    relay.step()
    found = relay.relay
    assert found.status == RelayStatus.PARKED and relay.open_leg is None
    digest = found.objective_digest if how == "text alone" else pin_digest(found.pin_id, OTHER)
    Relay.objects.filter(pk=relay.pk).update(objective=OTHER, objective_digest=digest)
    resume.resume(operator(), relay.pk)
    relay.step()
    assert relay.waiting == ["OBJECTIVE_DRIFT"]
    assert relay.approve("OBJECTIVE_DRIFT").state == "requested"
    relay.step()
    assert relay.waiting == [] and relay.baton.objective.text == OTHER


@pytest.mark.parametrize("how", ["text alone", "text and digest", "another pin"])
def test_approving_a_drift_confirms_the_relays_own_objective_and_it_is_not_asked_again(course: Start, how: str) -> None:
    relay = drifted(course, how)
    before = relay.baton
    assert relay.approve("OBJECTIVE_DRIFT").state == "requested"
    found = relay.relay
    assert (found.objective, found.objective_digest) == (OTHER, pin_digest(found.pin_id, OTHER))
    row = Baton.objects.get(relay=relay.pk, current=True)
    assert (row.why, relay.baton.objective.text) == ("decision", OTHER)
    assert (relay.baton.cursor, relay.baton.tombstone) == (before.cursor, before.tombstone)
    said = Decision.objects.get(act="objective")
    assert (said.detail["objective_digest"], said.detail["of"]) == (found.objective_digest, said.seq - 1)
    assert LedgerRow.objects.filter(pk=relay.baton.artifacts[-1].ref, by="person").exists()
    relay.step()
    assert relay.reload.outcome == "fresh"
    assert len(relay.legs) == 2 and [gate.state for gate in relay.gates] == ["confirmed"]
    assert relay.baton.objective.text == OTHER
    relay.step()
    assert len(relay.legs) == 3 and len(relay.gates) == 1
    assert status.status(relay.pk)["verdicts"]["objective"] == "holds", "one digest between decisions"
    assert check_chain() == 3


def test_a_new_objective_settles_a_drift_as_well(course: Start) -> None:
    relay = drifted(course)
    relay.approve("OBJECTIVE_DRIFT", objective="Close the issues that matter.")
    relay.step()
    assert relay.reload.outcome == "fresh" and relay.baton.objective.text == "Close the issues that matter."


def test_an_objective_that_cannot_stand_is_not_confirmed(course: Start) -> None:
    relay = drifted(course)
    Relay.objects.filter(pk=relay.pk).update(objective=" ")
    with pytest.raises(Usage, match="state one with --objective"):
        relay.approve("OBJECTIVE_DRIFT")
    assert relay.waiting == ["OBJECTIVE_DRIFT"]
    assert relay.approve("OBJECTIVE_DRIFT", objective="Close them.").state == "requested"


def test_a_refused_drift_confirms_nothing_and_a_new_objective_in_the_refusal_lets_it_go_on(course: Start) -> None:
    relay = drifted(course)
    refuse(reviewer(), relay.gates[0])
    assert relay.baton.objective.text == "Close every open issue."
    assert not Decision.objects.filter(act="objective").exists()
    again = refuse(reviewer(), relay.gates[0], seen="", reopen=True)
    refuse(reviewer(), next(gate for gate in relay.gates if gate.pk == again.gate), objective="Close them.")
    assert relay.relay.status == RelayStatus.PARKED
    # the first refusal was reopened, the second stated a new objective: nothing stands against a resume
    resume.resume(operator(), relay.pk)
    relay.step()
    assert len(relay.legs) == 2 and relay.baton.objective.text == "Close them."


def test_the_second_of_two_approvers_finds_the_drift_settled_and_states_nothing_twice(course: Start) -> None:
    relay = drifted(course, sets=["approvals=2"])
    assert relay.approve("OBJECTIVE_DRIFT").state == "waiting"
    second = type(operator())(user("sam", "reviewer"))
    assert approve(second, relay.gates[0]).state == "requested"
    assert Decision.objects.filter(act="objective").count() == 1


def test_an_objective_that_was_lost_whole_is_stated_anew_under_the_identity_that_the_baton_carries(
    course: Start,
) -> None:
    """rules.md, Objective: "after unset → `dropped`"."""
    relay = drifted(course)
    before = relay.baton.objective
    Relay.objects.filter(pk=relay.pk).update(pin_id="", objective="", objective_digest="")
    with pytest.raises(Usage, match="state one with --objective"):
        relay.approve("OBJECTIVE_DRIFT")
    relay.approve("OBJECTIVE_DRIFT", objective="Close them.")
    assert (relay.baton.objective.pin_id, relay.relay.pin_id) == (before.pin_id, before.pin_id)
    relay.step()
    assert relay.reload.outcome == "fresh" and len(relay.legs) == 2


# --- UNSERVED_PAGE_FAULT


def test_a_baton_that_does_not_read_carries_nothing_and_a_plain_approval_tries_again(course: Start) -> None:
    relay = course(**player(WORKS))
    relay.step()
    row = Baton.objects.get(relay=relay.pk, current=True)
    damaged = row.text.replace('"leg":0', '"claimed":1,"leg":0')
    Baton.objects.filter(pk=row.pk).update(current=False)
    Baton.objects.create(
        relay=relay.relay, leg=row.leg, text=damaged, digest=row.digest, pin_digest="", size=1, current=True, at=row.at
    )
    relay.step()
    assert relay.waiting == ["UNSERVED_PAGE_FAULT"]
    for values in ({"next_action": "Go."}, {"objective": "Another"}, {"sets": ["leg.turns=9"]}):
        with pytest.raises(NotLegalNow, match="does not read"):
            relay.approve("UNSERVED_PAGE_FAULT", **values)
    assert relay.approve("UNSERVED_PAGE_FAULT").state == "requested"
    relay.step()
    assert relay.waiting == ["UNSERVED_PAGE_FAULT"] and len(relay.legs) == 1


def test_approving_a_page_fault_tries_again_with_a_fresh_patience(course: Start) -> None:
    relay = course(**player(WORKS), sets=["unknown_patience=10m"])
    relay.step()
    repo = Path(relay.relay.repo)
    away = repo.with_name("away")
    repo.rename(away)
    relay.step()
    Relay.objects.filter(pk=relay.pk).update(unknown_since=timezone.now() - timedelta(minutes=11), attempts=6)
    relay.time_passes()
    relay.step()
    assert relay.waiting == ["UNSERVED_PAGE_FAULT"]
    found = relay.relay
    assert (found.unknown_since, found.attempts) == (None, 0)
    assert relay.approve("UNSERVED_PAGE_FAULT").state == "requested"
    relay.step()
    found = relay.relay
    assert found.status == RelayStatus.WAITING, (
        "it does not answer still: patience begins anew, nobody is asked at once"
    )
    assert found.attempts == 1 and found.unknown_since is not None
    assert round((found.next_at - found.status_at).total_seconds()) == 5
    assert [gate.state for gate in relay.gates] == ["requested"], "it stays requested while the ladder is unknown"
    away.rename(repo)
    relay.time_passes()
    relay.step()
    assert len(relay.legs) == 2 and [gate.state for gate in relay.gates] == ["confirmed"]


# --- BUDGET_EXHAUSTED


def test_a_spent_envelope_is_asked_once_over_crashes_and_restarts_and_needs_a_new_limit(
    course: Start, killed: Any
) -> None:
    """Whoever dies at whichever step: what was used stays used, one episode asks, and nothing but a limit helps."""
    relay = course(**player([loop(*turn(), *boundary("Go on."))]), sets=["envelope.turns=3"])
    killed(Boundaries, "judge", nth=3)
    with pytest.raises(Killed):
        relay.step()
    used = relay.relay.turns_used
    assert used == 3
    relay.step()
    assert relay.waiting == ["BUDGET_EXHAUSTED"] and relay.relay.turns_used == used
    assert relay.relay.status_why == "BUDGET_EXHAUSTED: an axis of the relay's envelope is spent"
    for sets in ([], ["envelope.turns=3"], ["envelope.turns=2"], ["leg.turns=9"]):
        with pytest.raises(Usage, match="new limit|still holds"):
            relay.approve("BUDGET_EXHAUSTED", sets=sets)
    park.park(operator(), relay.pk)  # parked already: nothing happens, and nothing is given back
    assert relay.relay.turns_used == used and relay.waiting == ["BUDGET_EXHAUSTED"]
    relay.approve("BUDGET_EXHAUSTED", sets=["envelope.turns=5"])
    assert Decision.objects.get(act="limit").detail["sets"] == ["envelope.turns=5"]
    relay.drive()
    assert relay.relay.turns_used == 5, "two were left, not five"
    assert [gate.state for gate in relay.gates] == ["confirmed", "waiting"]


@pytest.mark.parametrize("goal", ["watch", "prose"])
def test_a_goal_without_an_end_of_its_own_keeps_a_limit(course: Start, goal: str) -> None:
    """rules.md, Policy is data: "A relay with a prose or watch goal must have at least one envelope limit"."""
    values: dict[str, Any] = {"watch": {"watch": True}, "prose": {"done": "It reads well"}}[goal]
    relay = course(**player([*turn(), *boundary("Go on.", final=True)]), sets=["envelope.legs=1"], **values)
    relay.drive()
    assert relay.waiting == ["BUDGET_EXHAUSTED"]
    with pytest.raises(Usage, match="envelope: .* needs at least one limit"):
        relay.approve("BUDGET_EXHAUSTED", sets=["envelope.legs=none"])
    assert relay.approve("BUDGET_EXHAUSTED", sets=["envelope.legs=none", "envelope.turns=90"]).state == "requested"


def test_a_person_is_asked_once_about_calls_without_a_price(course: Start) -> None:
    """rules.md, Budgets: "A call without a price makes spend unknown: asked once, never counted as 0"."""
    relay = course(**player(WORKS), sets=["envelope.spend=5", "drain_turns=1"])
    relay.step()
    assert relay.waiting == ["BUDGET_EXHAUSTED"]
    assert any("spend unknown" in item for item in relay.gates[0].items)
    relay.approve("BUDGET_EXHAUSTED", sets=["envelope.spend=9"])
    relay.step()
    assert relay.legs[1].drain_reason == "" and relay.legs[1].reason == "RELAY_ROTATED"
    assert relay.waiting == [] and relay.open_leg is not None, "a new limit does not ask the same again"


# --- a decision before any leg has ended


def test_what_is_decided_before_the_first_leg_is_pointed_at_by_the_first_baton(course: Start) -> None:
    relay = course(**player(WORKS), sets=["envelope.legs=0"])
    relay.step()
    assert relay.waiting == ["BUDGET_EXHAUSTED"] and relay.legs == []
    relay.approve("BUDGET_EXHAUSTED", sets=["envelope.legs=9"], objective="Close them.")
    relay.step()
    rows = LedgerRow.objects.filter(relay=relay.pk, by="person").values_list("pk", flat=True)
    assert len(rows) == 2
    assert {artifact.ref for artifact in relay.baton.artifacts if artifact.kind == "ledger"} >= set(rows)
    relay.step()
    assert relay.reload.outcome == "fresh", "and they resolve"
    assert not {artifact.ref for artifact in relay.baton.artifacts} & set(rows), "only those of the closing leg stay"
