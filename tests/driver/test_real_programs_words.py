"""What real programs say that the scripted worker does not: figures twice, a compaction, no cost of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from relays.models import Call, Event
from tests.driver.course import Step, boundary, player

pytestmark = pytest.mark.slow
Start = Callable[..., Any]


def usage(message: str, resident: int, output: int = 1, model: str = "scripted-player") -> Step:
    figures = {"input": resident, "cache_read": 0, "cache_write_5m": 0, "cache_write_1h": 0, "output": output}
    return {"kind": "usage", "model": model, "message_id": f"$LEG-{message}", "chain": "main", **figures}


def test_figures_of_one_call_said_again_are_no_second_call_past_the_ceiling(course: Start) -> None:
    """The call was let through at a boundary: it ends at the ceiling, judged, and is no overrun."""
    begun = [usage("a", 60_000), usage("a", 60_000, 40), *boundary("Go on.")]
    passes = [usage("b", 181_000), usage("b", 181_000, 400), *boundary("Go on.")]
    relay = course(**player([*begun, *passes]))
    relay.step()
    assert (relay.legs[0].cause, relay.legs[0].calls, relay.legs[0].turns) == ("", 2, 2)
    assert relay.legs[0].reason in ("RELAY_ROTATED", "RELAY_NO_PROGRESS")


def test_a_call_that_nobody_let_through_and_that_grows_past_the_ceiling_is_an_overrun(course: Start) -> None:
    relay = course(**player([usage("a", 60_000), usage("b", 1_000), usage("b", 181_000), *boundary("Go on.")]))
    relay.step()
    assert (relay.legs[0].reason, relay.legs[0].cause) == ("RELAY_PARKED_UNSAFE", "overrun")


@pytest.mark.parametrize(("mode", "cause"), [("enforce", "overrun"), ("shadow", "agent_exit")])
def test_a_compaction_ends_a_held_leg_as_overrun_and_is_recorded_in_any(course: Start, mode: str, cause: str) -> None:
    said = [usage("a", 60_000), {"kind": "compacted", "tokens_before": 167_000}, *boundary("Go on.", final=True)]
    relay = course(**player(said), mode=mode)
    relay.step()
    assert Event.objects.get(kind="compacted").payload == {"tokens_before": 167_000}
    own = relay.legs[0]
    assert own.cause == "overrun" if cause == "overrun" else own.cause != "overrun"
    assert own.unknown_events == 0


def test_a_limit_on_spend_holds_for_a_program_that_reports_no_cost(course: Start) -> None:
    """By the price list, while the leg runs: it is not first known when the leg has ended."""
    model = "claude-haiku-4-5"
    steps = [step for number in range(9) for step in (usage(str(number), 100_000, 10, model), *boundary("Go on."))]
    relay = course(**player(steps), sets=["envelope.spend=0.25", "drain_turns=0"])
    relay.drive()
    (gate,) = relay.gates
    assert gate.token == "BUDGET_EXHAUSTED" and not any("no price" in item for item in gate.items)
    calls = Call.objects.all()
    assert 3 <= len(calls) <= 4 and all(call.listed and call.cost for call in calls)
    own = relay.legs[0]
    assert own.unpriced_calls == 0 and own.spend == relay.relay.spend_used == sum(call.cost for call in calls)
