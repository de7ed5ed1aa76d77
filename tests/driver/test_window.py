"""rules.md, Policy is data: "`window_tokens` | by model, else 200000"; mark and ceiling are parts of the window."""

from collections.abc import Callable
from typing import Any

import pytest

from relays.core import policy
from relays.driver import budgets
from relays.driver.claim import Claim
from relays.driver.window import Window
from relays.models import DriverClaim, Leg, LegState
from tests.driver.course import Course, boundary, commit, loop, player, turn
from tests.web_builders import make_leg, make_relay

Start = Callable[..., Course]


def limits(*sets: str) -> dict[str, Any]:
    return policy.to_snapshot(policy.build({}, None, {}, sets))


def heard(leg: Leg, *models: str) -> tuple[int, int, int]:
    """Window, mark and ceiling after calls that these models answered."""
    DriverClaim.objects.get_or_create(relay=leg.relay, fence=1)
    window = Window(leg, Claim(leg.relay_id, 1))
    for model in models:
        window.heard(model, budgets.policy_of(leg.relay))
    leg.refresh_from_db()
    return leg.window_tokens, leg.mark_tokens, leg.ceiling_tokens


def test_a_leg_has_the_window_of_the_model_that_answers_its_first_call(course: Start) -> None:
    calls = [*turn(100_000, model="gpt-5-codex"), *boundary("Go on.")]
    more = loop(*turn(156_000, model="gpt-5-codex"), *boundary("Go on."))
    relay = course(**player([*commit("a.txt"), *calls, more]), done="file:goal.txt")
    relay.step()
    (leg,) = relay.legs
    assert (leg.model, leg.window_tokens, leg.mark_tokens, leg.ceiling_tokens) == (
        "gpt-5-codex",
        258_400,
        155_040,
        232_560,
    )
    assert leg.armed and leg.reason == "RELAY_ROTATED", "armed at its own mark, which 200,000 tokens would not have had"
    assert [row.axes["context"][1] for row in relay.boundaries(0)] == [258_400] * len(relay.boundaries(0))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("sets", "models", "expected"),
    [
        ([], ["gemini-2.5-pro"], (1_048_576, 629_146, 943_718)),
        ([], ["claude-sonnet-4-5"], (200_000, 120_000, 180_000)),
        ([], ["a model of nobody"], (200_000, 120_000, 180_000)),
        (["window_tokens=200000"], ["gemini-2.5-pro"], (200_000, 120_000, 180_000)),
        ([], ["gemini-2.5-pro", "gpt-5"], (258_400, 155_040, 232_560)),
        ([], ["gpt-5", "gemini-2.5-pro"], (258_400, 155_040, 232_560)),
        (["mark.context_tokens=90000", "ceiling=0.5"], ["gpt-5"], (258_400, 90_000, 129_200)),
    ],
)
def test_the_policy_wins_an_unknown_model_has_the_default_and_a_later_model_only_lowers(
    sets: list[str], models: list[str], expected: tuple[int, int, int]
) -> None:
    leg = make_leg(make_relay(policy=limits(*sets)), state=LegState.RUNNING)
    assert heard(leg, *models) == expected


@pytest.mark.django_db
def test_the_next_supervisor_of_a_leg_does_not_take_its_next_call_for_the_first() -> None:
    leg = make_leg(make_relay(policy=limits()), state=LegState.RUNNING, model="gpt-5", window_tokens=258_400)
    assert heard(leg, "gpt-5", "gemini-2.5-pro")[0] == 258_400


@pytest.mark.django_db
def test_what_the_start_named_stands() -> None:
    args = {"model": "claude-opus-4-8[1m]"}
    leg = make_leg(make_relay(policy=limits(), agent_args=args), state=LegState.RUNNING, window_tokens=1_000_000)
    assert heard(leg, "claude-opus-4-8")[0] == 1_000_000
