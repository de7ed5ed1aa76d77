"""What was told through the query tool outlives the supervisor that took it, and goes on in the next one's hands."""

from collections.abc import Callable
from typing import Any

import pytest

from relays.core.events import TOLD
from relays.driver.boundaries import Boundaries
from relays.models import Event, Fact, ToolUse
from tests.driver.conftest import Killed

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


def test_what_was_told_before_a_crash_is_judged_after_it(
    asked: Callable[..., Any], killed: Callable[..., None]
) -> None:
    """The boundary kills the supervisor: its agent is gone, and the leg is judged from records."""
    killed(Boundaries, "judge")
    steps = [
        {"do": "commit", "path": "a.txt", "text": "a\n"},
        ["fact", {"label": "kept", "class": "durable", "backing": "commit:$SHA"}],
        ["fact", {"label": "loose", "class": "durable"}],
        ["next_action", {"text": "Go on."}],
        ["externalized", {}],
    ]
    with pytest.raises(Killed):
        asked(steps)
    from relays.models import Relay
    from tests.driver.course import Course

    relay = Course(Relay.objects.get().pk)
    assert list(Event.objects.filter(seq__gte=TOLD).order_by("seq").values_list("kind", flat=True)) == [
        "fact",
        "fact",
        "next_action",
        "externalized",
    ]
    relay.step()
    leg = relay.legs[0]
    assert leg.reason == "RELAY_PARKED_UNSAFE", "a fact without a pointer stands in its way"
    assert set(Fact.objects.filter(leg=leg, kind="fact").values_list("label", "verdict")) == {
        ("kept", "verified"),
        ("loose", ""),
    }
    assert relay.baton.next_action == "Go on."
    assert [use.number for use in ToolUse.objects.filter(leg=leg)] == [0, 1, 2, 3]
