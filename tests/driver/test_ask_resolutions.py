"""Each ask has its own way out, and what a person said to it holds for the legs that follow.

Mission, "When Fak Asks Instead Of Guessing"; rules.md, Asks and "Assumption …: an effectful step needs all `use`, else
the ask opens", Page fault, and The driver: "each is a decision row that the next baton points at".
"""

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from relays.actions.base import Usage
from relays.core.settling import Settling
from relays.models import Assumption, Decision, GateEpisode, LedgerRow, Relay, RelayStatus
from relays.reports import gate as gate_report
from relays.reports import status
from tests.actions.acts import approve, check_chain, refuse
from tests.driver.course import Course, Step, boundary, commit, operator, player, reviewer, turn
from tests.reading import marked

pytestmark = [pytest.mark.slow, pytest.mark.postgres]

Start = Callable[..., Course]
END = boundary("Go on.", final=True)


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def leaning(*keys: str) -> list[Step]:
    """A leg that assumes each key on weak grounds and writes a row that leans on all of them."""
    assumed = [
        {"kind": "assumption", "key": key, "statement": f"{key} is so", "source": "inferred", "confidence": 0.4}
        for key in keys
    ]
    row = {"kind": "ledger", "refs": ["file:README.md"], "note": "leg $LEG", "assumes": list(keys)}
    return [*commit("work-$LEG.txt"), *turn(), *assumed, row, *END]


def rows(relay: Course) -> list[str]:
    return list(LedgerRow.objects.filter(relay=relay.pk, by="agent").order_by("at").values_list("note", flat=True))


def the_gate(relay: Course, token: str) -> GateEpisode:
    (gate,) = [one for one in relay.gates if one.token == token and one.state == "waiting"]
    return gate


def decided(relay: Course, act: str) -> list[dict[str, Any]]:
    found = [row.detail for row in Decision.objects.filter(relay=relay.pk, act=act).order_by("seq")]
    return [{key: value for key, value in one.items() if key != "of"} for one in found]


# ---- LOW_CONFIDENCE_ASSUMPTION --------------------------------------------------------------------------------------


def test_a_confirmed_assumption_may_be_leaned_on_from_then_on(course: Start) -> None:
    relay = course(**player(leaning("port")), done="file:goal.txt")
    relay.step()
    assert relay.waiting == ["LOW_CONFIDENCE_ASSUMPTION"]
    assert rows(relay) == [], "the row that leans on it was not written"
    assert relay.relay.status == RelayStatus.PARKED
    gate = the_gate(relay, "LOW_CONFIDENCE_ASSUMPTION")
    approve(reviewer(), gate, said=Settling(confirm=["port"]))
    assert decided(relay, "assumption") == [{"key": "port", "became": "confirmed", "statements": [sha("port is so")]}]
    row = Assumption.objects.get(leg__relay=relay.pk)
    assert (row.source, row.action) == ("user_stated", "use")
    assert status.status(relay.pk)["readout"]["assumptions"] == "use=1 query=0 refresh=0"
    mirror = LedgerRow.objects.get(relay=relay.pk, by="person")
    assert mirror.pk in {one.ref for one in relay.baton.artifacts}, "the next leg is given the decision by pointer"
    relay.step()
    assert rows(relay) == ["leg 1"], "the same weak assumption stands on a person's word now"
    assert relay.waiting == []
    check_chain()


def test_another_statement_under_a_confirmed_key_is_asked_about_anew(course: Start) -> None:
    """What a person said holds for what was shown to them, whatever an agent calls by its name later."""
    script = [
        one | {"statement": "port is so in leg $LEG"} if one.get("kind") == "assumption" else one
        for one in leaning("port")
    ]
    relay = course(**player(script), done="file:goal.txt")
    relay.step()
    approve(reviewer(), the_gate(relay, "LOW_CONFIDENCE_ASSUMPTION"), said=Settling(confirm=["port"]))
    relay.step()
    assert rows(relay) == [], "another thing was confirmed"
    approve(reviewer(), the_gate(relay, "LOW_CONFIDENCE_ASSUMPTION"), said=Settling(confirm=["port"]))
    assert [one["statements"] for one in decided(relay, "assumption")] == [
        [sha("port is so in leg 0")],
        [sha("port is so in leg 1")],
    ]


def test_one_that_is_to_be_read_again_stays_barred(course: Start) -> None:
    relay = course(**player(leaning("port", "host")), done="file:goal.txt")
    relay.step()
    approve(reviewer(), the_gate(relay, "LOW_CONFIDENCE_ASSUMPTION"), said=Settling(refresh=["host"]))
    found = {row.key: row.action for row in Assumption.objects.filter(leg__relay=relay.pk)}
    assert found == {"port": "use", "host": "refresh"}
    assert status.status(relay.pk)["readout"]["assumptions"] == "use=1 query=0 refresh=1"
    relay.step()
    assert rows(relay) == []
    gate = the_gate(relay, "LOW_CONFIDENCE_ASSUMPTION")
    assert ["'host'" in item for item in gate.items] == [True], "only what was not confirmed is asked again"


def test_a_refusal_confirms_nothing_and_the_relay_stays_parked(course: Start) -> None:
    relay = course(**player(leaning("port")), done="file:goal.txt")
    relay.step()
    refuse(reviewer(), the_gate(relay, "LOW_CONFIDENCE_ASSUMPTION"))
    assert decided(relay, "assumption") == []
    assert (relay.relay.status, relay.open_leg) == (RelayStatus.PARKED, None)
    assert Assumption.objects.get(leg__relay=relay.pk).action == "query"


def test_what_is_not_asked_about_cannot_be_settled(course: Start) -> None:
    relay = course(**player(leaning("port")), done="file:goal.txt")
    relay.step()
    gate = the_gate(relay, "LOW_CONFIDENCE_ASSUMPTION")
    for said in (Settling(confirm=["other"]), Settling(waive=["file:a"]), Settling(confirm=["port"], refresh=["port"])):
        with pytest.raises(Usage):
            approve(reviewer(), gate, said=said)
    assert relay.waiting == ["LOW_CONFIDENCE_ASSUMPTION"]
    assert not Decision.objects.filter(gate=gate).exists()


def test_the_second_of_two_approvers_confirms_nothing_twice(course: Start) -> None:
    from relays.actions.base import Actor
    from tests.driver.course import user

    relay = course(**player(leaning("port")), done="file:goal.txt", sets=["approvals=2"])
    relay.step()
    gate = the_gate(relay, "LOW_CONFIDENCE_ASSUMPTION")
    assert approve(reviewer(), gate).state == "waiting"
    assert approve(Actor(user("sam", "reviewer")), gate).state == "requested"
    assert decided(relay, "assumption") == [{"key": "port", "became": "confirmed", "statements": [sha("port is so")]}]


# ---- UNSERVED_PAGE_FAULT --------------------------------------------------------------------------------------------


@pytest.fixture
def missing(course: Start) -> Course:
    """A relay whose first leg needed `file:docs/plan.md`, which is nowhere."""
    needs = {"kind": "page_fault", "ref": "file:docs/plan.md", "required": True, "durability": "durable"}
    works = [*commit("work-$LEG.txt"), *turn(), *END]
    relay = course(**player({"0": [*works[:-2], needs, *END], "*": works}), done="file:goal.txt")
    relay.step()
    return relay


def test_a_page_fault_is_served_by_hand_and_the_next_leg_has_it_by_pointer(missing: Course) -> None:
    assert missing.waiting == ["UNSERVED_PAGE_FAULT"]
    gate = the_gate(missing, "UNSERVED_PAGE_FAULT")
    approve(reviewer(), gate, said=Settling(serve={"file:docs/plan.md": "it moved to file:README.md"}))
    assert decided(missing, "page_fault") == [
        {"record": "file:docs/plan.md", "became": "served", "by": "it moved to file:README.md"}
    ]
    mirror = LedgerRow.objects.get(relay=missing.pk, by="person")
    assert "it moved to file:README.md" in mirror.note
    assert mirror.pk in {one.ref for one in missing.baton.artifacts}
    missing.step()
    assert missing.reload.outcome == "fresh"
    assert len(missing.legs) == 2


def test_a_page_fault_is_waived(missing: Course) -> None:
    approve(reviewer(), the_gate(missing, "UNSERVED_PAGE_FAULT"), said=Settling(waive=["file:docs/plan.md"]))
    assert decided(missing, "page_fault") == [{"record": "file:docs/plan.md", "became": "waived"}]
    missing.step()
    assert len(missing.legs) == 2


def test_to_approve_alone_is_to_try_again(missing: Course) -> None:
    approve(reviewer(), the_gate(missing, "UNSERVED_PAGE_FAULT"))
    assert decided(missing, "page_fault") == []
    missing.step()
    assert len(missing.legs) == 2


def test_waiving_is_for_optional_pointers_never_for_anchors(course: Start) -> None:
    """rules.md, Reload: "approving it for an anchor means try again; waiving is for optional pointers"."""
    artifact = {"kind": "artifact", "ref": "file:docs/plan.md"}
    relay = course(**player([*commit("docs/plan.md"), *turn(), artifact, *END]), done="file:goal.txt")
    relay.step()
    before = relay.baton
    optional = next(f"{one.kind}:{one.ref}" for one in before.artifacts)
    from relays.driver import gates

    gate = gates.open_episode(
        relay.pk, "UNSERVED_PAGE_FAULT", leg=relay.legs[0], items=["a store did not answer"], now=relay.relay.status_at
    )
    Relay.objects.filter(pk=relay.pk).update(status=RelayStatus.PARKED)
    for anchor in (f"commit:{before.cursor.start_sha}", f"commit:{before.tombstone.at_sha}", "file:never/carried"):
        if anchor == optional:
            continue
        with pytest.raises(Usage, match="not asked about"):
            approve(reviewer(), gate, said=Settling(waive=[anchor]))
    approve(reviewer(), gate, said=Settling(waive=[optional]))
    after = relay.baton
    assert optional not in {f"{one.kind}:{one.ref}" for one in after.artifacts}
    assert (after.cursor, after.tombstone, after.objective) == (before.cursor, before.tombstone, before.objective)


# ---- BUDGET_EXHAUSTED, DONE_UNCONFIRMED -----------------------------------------------------------------------------


def test_a_spent_budget_is_extended_or_the_relay_is_ended(course: Start) -> None:
    for how in ("extended", "ended"):
        script = [*commit("work-$LEG.txt"), *turn(), *END]
        relay = course(**player(script), done="file:goal.txt", sets=["envelope.legs=1"])
        relay.drive()
        gate = the_gate(relay, "BUDGET_EXHAUSTED")
        if how == "extended":
            approve(reviewer(), gate, sets=["envelope.legs=2"])
            relay.drive()
            assert len(relay.legs) == 2
        else:
            refuse(reviewer(), gate, then="stop")
            assert (relay.relay.status, relay.relay.ended_reason) == ("stopped", "STOPPED")


def test_a_goal_in_prose_is_confirmed_as_a_decision_bound_to_what_was_shown(course: Start) -> None:
    script = [*commit("work-$LEG.txt"), *turn(), *boundary(final=True)]
    relay = course(**player(script), done="It reads well", sets=["envelope.legs=5"])
    relay.step()
    gate = the_gate(relay, "DONE_UNCONFIRMED")
    shown = gate_report.seen_digest(gate, gate_report.branch_tip(relay.relay)[0])
    approve(reviewer(), gate)
    said = Decision.objects.get(gate=gate, act="approve")
    assert said.seen == shown
    assert (relay.relay.status, relay.relay.ended_reason) == ("done", "RELAY_GOAL_DONE")


# ---- the page -------------------------------------------------------------------------------------------------------


def test_the_gates_page_shows_what_is_asked_and_carries_what_is_said(course: Start) -> None:
    relay = course(**player(leaning("port", "host")), done="file:goal.txt")
    relay.step()
    gate = the_gate(relay, "LOW_CONFIDENCE_ASSUMPTION")
    client = Client()
    client.force_login(reviewer().user)
    page = marked(client.get(f"/gates/{gate.pk}/"))
    assert "port is so" in page
    assert "inferred" in page
    assert "read it again" in page
    seen = page.partition('name="seen" value="')[2].partition('"')[0]
    form = {
        "seen": seen, "decision": "approve", "comment": "Looked.", "subject-1": "port", "way-1": "confirmed",
        "subject-2": "host", "way-2": "refreshed",
    }  # fmt: skip
    assert client.post(f"/gates/{gate.pk}/decide/", form).status_code == 303
    assert {one["key"]: one["became"] for one in decided(relay, "assumption")} == {
        "port": "confirmed", "host": "refreshed",
    }  # fmt: skip
    assert {row.seen for row in Decision.objects.filter(gate=gate)} == {seen}
    assert operator().user.username in marked(client.get(f"/relays/{relay.pk}/?tab=decisions"))
