"""Page faults that an agent's own stream reports: judged against the stores, asked where they must be, and kept.

rules.md, Resident view: "gone, tombstoned or unknown: required → `deny`, optional → `continue_with_pointer` …"; a
required record that cannot come is a person's.
"""

from collections.abc import Callable
from typing import Any

import pytest

from relays.driver import ingest
from relays.models import PageFault
from tests.driver.course import boundary, commit, player, turn

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

Start = Callable[..., Any]


def fault(ref: str, *, required: bool = False, durability: str = "turn") -> dict[str, Any]:
    return {"kind": "page_fault", "ref": ref, "required": required, "durability": durability}


def outcomes(relay: Any) -> list[str]:
    return list(PageFault.objects.filter(leg__relay=relay.pk).order_by("seq").values_list("outcome", flat=True))


def test_each_page_fault_has_the_outcome_that_the_stores_give_it(course: Start) -> None:
    script = [
        *commit("a.txt"),
        *turn(),
        fault("file:a.txt"),
        fault("file:a.txt", required=True),
        fault("file:a.txt", durability="bounded"),
        fault("file:gone.txt"),
        fault("issue:#1", required=True),
        {
            "kind": "page_fault",
            "page_fault": {"kind": "transcript", "ref": "leg 0"},
            "required": True,
            "durability": "",
        },
        fault("file:../../etc/passwd"),
        *boundary("Go on.", final=True),
    ]
    relay = course(**player(script))
    relay.step()
    assert outcomes(relay) == [
        "page_in",
        "page_in",
        "continue_with_pointer",
        "continue_with_pointer",
        "page_in",
        "deny",
        "continue_with_pointer",
    ]
    assert all(PageFault.objects.values_list("reason", flat=True))
    assert not relay.waiting, "what is optional, and what is never served, asks nobody"
    assert len(relay.legs) == 1 and relay.relay.status == "ready"


def test_a_required_record_that_cannot_come_is_asked_once_and_keeps_the_next_leg(course: Start) -> None:
    script = [
        *commit("a.txt"),
        *turn(),
        fault("file:gone.txt", required=True),
        fault("file:gone.txt", required=True),
        *boundary("Go on.", final=True),
    ]
    relay = course(**player(script))
    relay.step()
    assert outcomes(relay) == ["deny", "deny"]
    assert relay.waiting == ["UNSERVED_PAGE_FAULT"] and relay.relay.status == "parked"
    (item,) = relay.gates[0].items
    assert item.startswith("page fault: file:gone.txt: deny, ")
    relay.approve("UNSERVED_PAGE_FAULT")
    assert relay.relay.status == "ready"


def test_a_flood_of_page_faults_is_judged_as_unknown_and_costs_no_process_each(
    course: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "FAULTS", 2)
    script = [*commit("a.txt"), *turn(), *[fault("file:a.txt")] * 5, *boundary("Go on.", final=True)]
    relay = course(**player(script))
    relay.step()
    assert outcomes(relay) == ["page_in", "page_in", *["continue_with_pointer"] * 3]
