"""Cache state is never authority: the same leg with other cache figures, or with none, is decided the same.

Mission: "Provider prompt-cache warmth can lower cost and latency, but it never decides whether a fact may be omitted. A
cold cache is a pricing event, not a continuity failure." rules.md: "no decision reads it, and a test shows that".
"""

from collections.abc import Callable
from typing import Any

import pytest

from relays.models import Boundary, PageFault, Promotion
from tests.driver.course import boundary, commit, player

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

#: how one call's resident tokens are told: (input, cache read, written for 5 minutes, for an hour); None = not reported
CACHES: dict[str, Callable[[int], tuple[int | None, ...]]] = {
    "warm": lambda all_: (1, all_ - 1, 0, 0),
    "cold": lambda all_: (all_, 0, 0, 0),
    "written": lambda all_: (0, 0, all_ - 1, 1),
    "removed": lambda all_: (all_, None, None, None),
}


def usage(resident: int, cache: str) -> dict[str, Any]:
    names = ("input", "cache_read", "cache_write_5m", "cache_write_1h")
    return {
        "kind": "usage",
        "model": "scripted-player",
        "message_id": "m$LEG-$SEQ",
        "output": 10,
        "chain": "main",
        **dict(zip(names, CACHES[cache](resident), strict=True)),
    }


def script(cache: str) -> list[dict[str, Any]]:
    """A leg that arms, holds on a dirty tree, recalls, promotes and rotates; then one that ends by itself."""
    said = {"kind": "externalized"}
    asked = {"kind": "boundary", "next_actions": ["Go on."], "final": False}
    return [
        {"kind": "turn_started"},
        usage(20_000, cache),
        asked,
        *commit("work.txt"),
        {"kind": "turn_started"},
        usage(90_000, cache),
        {"kind": "page_fault", "ref": "file:work.txt", "required": False, "durability": "turn"},
        {"kind": "page_fault", "ref": "file:work.txt", "required": False, "durability": "bounded"},
        {"kind": "promotion", "slug": "s", "class": "durable", "evidence": "file:work.txt"},
        {"do": "write", "path": "dirty.txt", "text": "x\n"},
        asked,
        {"do": "git", "args": ["clean", "-fdq"]},
        {"kind": "turn_started"},
        usage(125_000, cache),
        asked,
        said,
        {"kind": "turn_started"},
        usage(130_000, cache),
        said,
        *boundary("Go on.", final=True),
    ]


def decided(relay: Any) -> list[Any]:
    """All that was decided, but for the names of commits, which hold the time."""
    boundaries = [
        (
            row.leg.number,
            row.number,
            row.turn,
            row.armed,
            row.hold,
            row.hold_detail,
            row.answer,
            row.axes.get("context"),
            {key: value for key, value in row.decision.items() if key != "tip"},
        )
        for row in Boundary.objects.filter(leg__relay=relay.pk).select_related("leg").order_by("leg__number", "number")
    ]
    legs = [
        (leg.number, leg.reason, leg.cause, leg.hold, leg.armed, leg.peak_tokens, leg.ceiling_tokens, leg.progress)
        for leg in relay.legs
    ]
    faults = PageFault.objects.filter(leg__relay=relay.pk).order_by("leg", "seq").values_list("outcome", flat=True)
    promoted = Promotion.objects.filter(leg__relay=relay.pk).order_by("leg", "seq").values_list("outcome", flat=True)
    shape = [(len(relay.baton.artifacts), relay.baton.next_action, relay.baton.tombstone.reason, relay.relay.status)]
    return [boundaries, legs, list(faults), list(promoted), shape, relay.waiting]


def test_with_all_cache_figures_changed_or_removed_every_decision_is_the_same(course: Callable[..., Any]) -> None:
    found = {}
    for cache in CACHES:
        relay = course(**player(script(cache)))
        relay.step()
        relay.step()
        found[cache] = decided(relay)
        assert {row[4] for row in found[cache][0]} >= {"", "TREE_DIRTY_UNPARKED"}
        assert any(row[3] for row in found[cache][0]) and found[cache][2][:2] == ["page_in", "continue_with_pointer"]
    assert found["warm"] == found["cold"] == found["written"] == found["removed"]
