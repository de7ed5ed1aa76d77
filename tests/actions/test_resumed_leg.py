"""After a decision a real leg starts from the new baton: its ladder is fresh and what was decided is what it has."""

import os
import signal
from collections.abc import Callable

import pytest

from relays.actions import park, resume
from relays.actions.base import Usage
from relays.models import Baton, Check, Decision, GateState, LedgerRow, RelayStatus
from tests.actions.acts import approve, check_chain
from tests.driver.course import Course, operator, reviewer

Started = Callable[..., Course]


@pytest.fixture(autouse=True)
def _same_handlers() -> object:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_decision_with_every_change_then_fresh(course: Started) -> None:
    run = course(issues=4, sets=["envelope.legs=1", "resume=by_operator"])
    assert run.drive().status == RelayStatus.PARKED, run.relay.status_why
    (gate,) = run.gates
    assert gate.token == "BUDGET_EXHAUSTED"
    closed = run.baton
    questions = [entry.split(" ")[0] for entry in closed.open_questions]
    with pytest.raises(Usage, match="needs a new limit"):
        approve(reviewer(), gate)
    outcome = approve(
        reviewer(),
        gate,
        next_action="Take the next open issue.",
        answers=dict.fromkeys(questions, "As you see fit."),
        region=["work/**", ".relay/**"],
        sets=["envelope.legs=2"],
        objective="Close every issue but one.",
    )
    assert outcome.state == "approved"  # by_operator: the second click
    assert resume.resume(operator(), run.pk).will == "start"
    carried = run.baton
    assert (carried.cursor.start_sha, carried.tombstone) == (closed.cursor.start_sha, closed.tombstone)
    run.step()
    # the ladder of the new leg's reload, over the baton that the decision wrote
    climbed = run.reload
    assert (climbed.outcome, climbed.baton.why, climbed.rebuilt) == ("fresh", "decision", False)
    mirror = carried.artifacts[-1].ref
    place = f"artifacts[{len(carried.artifacts) - 1}].ref"
    assert Check.objects.get(verification=climbed, path=place).verdict == "verified"
    assert LedgerRow.objects.filter(pk=mirror, by="person").exists()
    gate.refresh_from_db()
    assert gate.state == GateState.CONFIRMED
    # the leg that ran hands on what was decided
    leg = run.legs[1]
    assert (leg.parent_trace, leg.cursor_sha, leg.from_gate) == (run.legs[0].trace, closed.cursor.start_sha, gate)
    after = run.baton
    assert (after.leg, after.objective.text) == (1, "Close every issue but one.")
    assert after.cursor.held_region == ("work/**", ".relay/**")
    assert not set(after.open_questions) & set(closed.open_questions)
    # the envelope is spent again: what was used stays used, and a second episode asks
    assert run.relay.legs_used == 2
    assert run.waiting == ["BUDGET_EXHAUSTED"]
    acts = list(Decision.objects.order_by("seq").values_list("act", flat=True))
    carried_acts = ["next_action", *["answer"] * len(questions), "region", "limit", "objective"]
    assert acts == ["start", "approve", *carried_acts, "resume"]
    assert check_chain() == len(acts)


def test_a_persons_park_between_legs_goes_on_from_the_same_baton(course: Started) -> None:
    run = course(issues=2)
    run.step()
    before = Baton.objects.get(relay=run.pk, current=True)
    assert park.park(operator(), run.pk).status == "parked"
    assert resume.resume(operator(), run.pk).will == "start"
    assert run.drive().status == RelayStatus.DONE
    assert [leg.number for leg in run.legs] == list(range(len(run.legs)))
    assert run.reload.outcome in ("fresh", "done")
    assert Baton.objects.filter(pk=before.pk, why="rotation").exists()
    assert not run.gates
    assert os.path.isdir(run.relay.repo)
