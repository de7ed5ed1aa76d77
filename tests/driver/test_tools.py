"""rules.md, Assumptions: "An effectful step ([…] a tool on the policy's list, denied by the adapter's hook where it has
one) needs all `use`, else the ask opens"."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from relays.driver.places import leg_folder
from relays.models import Event, RelayStatus
from tests.driver.course import Course, Step, boundary, commit, player, turn

pytestmark = pytest.mark.slow
Start = Callable[..., Course]
END = boundary("Go on.", final=True)


def assumes(key: str, source: str, **more: Any) -> Step:
    return {"kind": "assumption", "key": key, "statement": f"{key} holds", "source": source, **more}


def deploys(number: int, name: str = "deploy") -> Step:
    """Asks whether the tool may run, and runs it where it may."""
    ran = [{"kind": "tool_started", "id": f"t{number}", "name": name},
           {"kind": "tool_ended", "id": f"t{number}", "ok": True, "result_tokens": 1}]  # fmt: skip
    return {"kind": "tool_asked", "id": f"t{number}", "name": name, "then": ran}


def told(relay: Course, leg: int = 0) -> list[str]:
    """What the agent was told about its tools, one after the other."""
    text = (leg_folder(relay.pk, leg) / "stderr.log").read_text()
    return re.findall(r"^tool: (.*)$", text, re.MULTILINE)


def ran(relay: Course) -> list[str]:
    return [row.payload["id"] for row in Event.objects.filter(leg__relay=relay.pk, kind="tool_started").order_by("seq")]


@pytest.mark.parametrize("way", ["stdout", "socket"])
def test_a_listed_tool_is_denied_while_an_assumption_is_weak_and_a_person_is_asked(course: Start, way: str) -> None:
    script = [
        *commit("a.txt"),
        {"kind": "turn_started"},
        deploys(1),  # nothing is assumed yet
        assumes("port", "inferred", confidence=0.5),
        deploys(2, "read"),
        deploys(3),
        assumes("host", "stale"),
        deploys(4, "mcp__mail__send"),
        assumes("port", "witnessed"),
        assumes("host", "user_stated"),
        deploys(5),
        *turn()[1:],
        *END,
    ]
    relay = course(**player(script, way), done="file:goal.txt", sets=["effectful_tools=deploy,mcp__*"])
    relay.step()
    weak = "assumption 'port': query, confidence 0.5 is below 0.8 (inferred)"
    assert told(relay) == [
        "allow",
        "allow",
        f"deny {weak}",
        "deny assumption 'host': refresh, stale: read it again, and 1 more",
        "allow",
    ]
    assert [one for one in ran(relay) if one in {"t1", "t2", "t3", "t4", "t5"}] == ["t1", "t2", "t5"]
    (gate,) = relay.gates
    assert (gate.token, gate.blocks) == ("LOW_CONFIDENCE_ASSUMPTION", "next leg")
    assert gate.items == [
        "tool 'deploy' leans on 'port': query, confidence 0.5 is below 0.8 (inferred)",
        "tool 'mcp__mail__send' leans on 'host': refresh, stale: read it again",
        "tool 'mcp__mail__send' leans on 'port': query, confidence 0.5 is below 0.8 (inferred)",
    ]
    assert relay.legs[0].reason == "RELAY_ROTATED" and relay.relay.status == RelayStatus.PARKED


def test_of_a_program_that_asks_nobody_a_person_is_asked_all_the_same(course: Start) -> None:
    started = {"kind": "tool_started", "id": "t9", "name": "deploy"}
    ended = {"kind": "tool_ended", "id": "t9", "ok": True, "result_tokens": 1}
    script = [*commit("a.txt"), *turn(), assumes("port", "unknown"), started, ended, *END]
    relay = course(**player(script), done="file:goal.txt", sets=["effectful_tools=deploy"])
    relay.step()
    (gate,) = relay.gates
    assert gate.items == ["tool 'deploy' leans on 'port': query, its source is unknown"]


def test_a_question_that_cannot_be_read_is_denied_and_one_in_shadow_is_allowed(course: Start) -> None:
    script = [*turn(), assumes("port", "unknown"), {"kind": "tool_asked", "id": "t1"}, deploys(2), *END]
    relay = course(**player(script), done="file:goal.txt", sets=["effectful_tools=*"])
    relay.step()
    first, second = told(relay)
    assert first.startswith("deny the question cannot be read: tool_asked: name") and second.startswith("deny assum")
    shadow = course(**player(script), done="file:goal.txt", sets=["effectful_tools=*"], mode="shadow", region=["x/**"])
    shadow.step()
    assert told(shadow)[1] == "allow"
