"""What is asked instead of guessed, and the opposite cases: they stay automatic and open no gate.

Mission, continuous-usage.txt: "When Fak Asks Instead Of Guessing".
"""

from collections.abc import Callable
from typing import Any

import pytest

from relays.actions import park, resume
from relays.core.objective import pin_digest
from relays.models import (
    Baton,
    Boundary,
    Call,
    GateEpisode,
    Leg,
    PageFault,
    Relay,
    RelayStatus,
    ResetTransaction,
)
from relays.reports.status import status
from tests.contract.story import END, assumes, needs, promotes
from tests.driver.course import Course, boundary, commit, loop, operator, player, turn

pytestmark = pytest.mark.slow

Start = Callable[..., Course]
At = Callable[..., None]
WORKS = [*commit("work-$LEG.txt"), *turn(), *END]


def run(course: Start, script: Any, *, legs: int = 1, **values: Any) -> Course:
    relay = course(**player(script), **{"done": "file:goal.txt", **values})
    for _ in range(legs):
        relay.step()
    return relay


# ---- the six asks: no leg starts on a guess -------------------------------------------------------------------------


def test_objective_drift_is_asked(course: Start) -> None:
    """The Contract: "If the carried objective no longer matches what the user stated, fak surfaces an objective
    reconciliation outcome instead of treating the rewrite as continuity"."""
    relay = run(course, WORKS)
    other = "Do something else."
    found = relay.relay
    Relay.objects.filter(pk=relay.pk).update(objective=other, objective_digest=pin_digest(found.pin_id, other))
    assert status(relay.pk)["readout"]["objective"] == "drifted"
    relay.step()
    assert relay.waiting == ["OBJECTIVE_DRIFT"]
    assert len(relay.legs) == 1


def test_a_low_confidence_assumption_is_asked_before_its_effect(course: Start) -> None:
    leans = {"kind": "decision", "label": "Use it", "pointer": "file:README.md", "assumes": ["port"]}
    relay = run(course, [*WORKS[:-2], assumes("port", "inferred", confidence=0.79), leans, *END])
    assert relay.waiting == ["LOW_CONFIDENCE_ASSUMPTION"]
    assert relay.open_leg is None


def test_an_ambiguous_memory_promotion_is_asked(course: Start) -> None:
    relay = run(course, [*WORKS[:-2], promotes("bare", **{"class": "durable"}), *END])
    assert relay.waiting == ["AMBIGUOUS_MEMORY_PROMOTION"]


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("envelope.turns=1", "BUDGET_TURNS_EXHAUSTED"),
        ("envelope.output_tokens=10", "BUDGET_TOKENS_EXHAUSTED"),
        ("envelope.legs=1", "BUDGET_LEGS_EXHAUSTED"),
        ("envelope.wall=1ms", "TIME_BUDGET_EXHAUSTED"),
    ],
)
def test_budget_exhaustion_is_asked_with_its_axis(course: Start, limit: str, reason: str) -> None:
    if limit.endswith("1ms"):
        limit = "envelope.wall=1s"
        script: Any = [loop({"do": "sleep", "seconds": 0.3}, *turn(), *boundary("Go on."))]
    else:
        script = WORKS
    relay = course(**player(script), done="file:goal.txt", sets=[limit, "drain_turns=1"])
    relay.drive()
    assert relay.waiting == ["BUDGET_EXHAUSTED"]
    assert reason in relay.gates[0].items


def test_an_unserved_page_fault_is_asked(course: Start) -> None:
    relay = run(course, [*WORKS[:-2], needs("file:no/such", required=True), *END])
    assert relay.waiting == ["UNSERVED_PAGE_FAULT"]
    assert relay.open_leg is None


# a destructive memory operation is asked: mcp/test_memory.py


# ---- the opposite cases ---------------------------------------------------------------------------------------------


def none_asked(relay: Course) -> None:
    assert not GateEpisode.objects.filter(relay=relay.pk).exists()
    assert relay.relay.status == RelayStatus.READY


def test_replanning_the_resident_view_under_budget_opens_no_gate(course: Start) -> None:
    relay = run(
        course, [*commit("w-$LEG.txt"), *turn(60_000), *turn(130_000), *END], legs=3, sets=["envelope.turns=60"]
    )
    assert ResetTransaction.objects.filter(old_leg__relay=relay.pk).count() == 3
    assert [leg.armed for leg in relay.legs] == [True, True, True]
    none_asked(relay)


def test_serving_a_recoverable_cold_span_opens_no_gate(course: Start) -> None:
    cold = [needs("file:README.md", required=True), needs("file:no/such")]
    relay = run(course, [*WORKS[:-2], *cold, *END])
    found = dict(PageFault.objects.filter(leg__relay=relay.pk).values_list("ref", "outcome"))
    assert found["README.md"] == "page_in"
    assert found["no/such"] == "continue_with_pointer", "optional: the pointer is carried on"
    none_asked(relay)


def test_carrying_the_pinned_objective_intact_opens_no_gate(course: Start) -> None:
    relay = run(course, WORKS, legs=3)
    assert len(set(Baton.objects.filter(relay=relay.pk).values_list("pin_digest", flat=True))) == 1
    assert status(relay.pk)["readout"]["objective"] == "preserved"
    none_asked(relay)


def test_rearming_the_same_remaining_budget_after_a_reset_opens_no_gate(course: Start) -> None:
    relay = run(course, WORKS, legs=3, sets=["envelope.turns=60", "envelope.output_tokens=5000"])
    left = [
        (row.rearm["turns"]["left"], row.rearm["output_tokens"]["left"])
        for row in ResetTransaction.objects.filter(old_leg__relay=relay.pk).order_by("pk")
    ]
    assert left == [(59, 4990), (58, 4980), (57, 4970)]
    none_asked(relay)


def test_a_pause_between_two_legs_gives_nothing_back_and_takes_nothing(course: Start, meanwhile: At) -> None:
    relay = course(**player(WORKS), done="file:goal.txt", sets=["envelope.turns=60"])
    meanwhile(1, lambda: park.park(operator(), relay.pk))
    relay.step()
    assert relay.relay.status == RelayStatus.PARKED
    before = status(relay.pk)["readout"]["budget"]
    resume.resume(operator(), relay.pk)
    assert status(relay.pk)["readout"]["budget"] == before
    relay.step()
    assert relay.relay.turns_used == 2
    assert not GateEpisode.objects.filter(relay=relay.pk).exists()


def decisions(relay: Course) -> list[tuple[object, ...]]:
    """All that was decided, by number and word; no SHA, no time."""
    found: list[tuple[object, ...]] = []
    for leg in Leg.objects.filter(relay=relay.pk).order_by("number"):
        found.append((leg.number, leg.state, leg.reason, leg.armed, leg.hold, leg.cause, leg.progress))
        found += Boundary.objects.filter(leg=leg).order_by("number").values_list("turn", "hold", "answer", "armed")
    found += GateEpisode.objects.filter(relay=relay.pk).values_list("token", "blocks")
    found += [(baton.next_action, len(baton.artifacts)) for baton in [relay.baton]]
    return found


def test_cache_state_is_never_authority(course: Start, meanwhile: At) -> None:
    """ "A cold cache is a pricing event, not a continuity failure": warm, cold, not reported, or its records taken away
    in the middle, the decisions are the same."""

    def with_cache(read: int) -> Course:
        calls = [turn(60_000 - read // 2, cache_read=read // 2), turn(125_000 - read, cache_read=read)]
        return run(course, [*commit("w-$LEG.txt"), *calls[0], *boundary("Go on."), *calls[1], *END], legs=2)

    warm, cold = with_cache(110_000), with_cache(0)
    assert status(warm.pk)["readout"]["cache"] != status(cold.pk)["readout"]["cache"]
    taken = with_cache(0)
    Call.objects.filter(leg__relay=taken.pk).delete()
    assert status(taken.pk)["readout"]["cache"] == "not yet"
    assert decisions(warm) == decisions(cold) == decisions(taken)
    for relay in (warm, taken):
        relay.step()
    assert decisions(warm) == decisions(taken), "and so are those that follow"
    none_asked(warm)


def test_relay_mode_refuses_what_lives_in_the_transcript_only(course: Start) -> None:
    """ "If a fact lives only in the transcript, rotation is refused rather than laundered into prose"."""
    loose = {"kind": "fact", "label": "The port is 8080", "class": "bounded", "backing": None}
    refused = run(course, [*WORKS[:-2], loose, *END, *END])
    assert refused.legs[0].reason == "RELAY_PARKED_UNSAFE"
    assert "RELAY_NOT_EXTERNALIZED" in refused.holds(0)
    assert not ResetTransaction.objects.filter(old_leg__relay=refused.pk).exists()
    passed = run(course, [*WORKS[:-2], {**loose, "backing": "file:README.md"}, *END])
    assert passed.legs[0].reason == "RELAY_ROTATED"
