"""What a gate's page rests on, and the digest that binds a decision to it."""

from pathlib import Path

import pytest
from django.utils import timezone

from relays.core import baton as batons
from relays.models import Baton, Check, Decision, Fact, GateEpisode, GateState, Leg
from relays.reports import gate as report
from tests.report_builders import Story
from tests.tamper import unguarded
from tests.web_builders import make_gate, make_leg, make_relay, make_user

pytestmark = pytest.mark.django_db
TIP = "a" * 40


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = Story(tmp_path / "repo")
    told.leg(turns=5)
    told.leg(
        turns=5, peak=178_000, reason="RELAY_PARKED_UNSAFE", cause="ceiling", hold="TREE_DIRTY_UNPARKED", made=False,
        end_decision={"dirty": ["src/orders.py"], "candidates": ["Stub it.", "two\nlines", " Stub it. "]},
        holds=("TREE_DIRTY_UNPARKED", "TREE_DIRTY_UNPARKED", "IN_FLIGHT_TOOL_CALL"),
    )  # fmt: skip
    return told


def page(story: Story, gate: GateEpisode) -> report.GatePage:
    return report.gate_page(gate, timezone.now(), *report.branch_tip(story.relay))


def test_the_digest_stands_for_all_that_is_shown_and_for_nothing_else(story: Story) -> None:
    gate = story.park()
    current = Baton.objects.get(relay=story.relay, current=True)
    story.reloaded(current, story.legs[-1])
    first = report.seen_digest(gate, TIP)
    assert first == report.seen_digest(gate, TIP)
    story.reloaded(current, story.legs[-1])  # checked again, the same was found
    assert report.seen_digest(gate, TIP) == first
    seen = {first}

    def moved(digest: str) -> None:
        assert digest not in seen
        seen.add(digest)

    moved(report.seen_digest(gate, "b" * 40))
    GateEpisode.objects.filter(pk=gate.pk).update(items=["another"])
    gate.refresh_from_db()
    moved(report.seen_digest(gate, TIP))
    GateEpisode.objects.filter(pk=gate.pk).update(round=1)
    gate.refresh_from_db()
    moved(report.seen_digest(gate, TIP))
    story.reloaded(current, story.legs[-1], unknown=("artifacts[0].ref",))
    moved(report.seen_digest(gate, TIP))
    Check.objects.filter(verification__baton=current, verdict="unknown").update(verdict="dangling")
    moved(report.seen_digest(gate, TIP))
    with unguarded():
        Baton.objects.filter(pk=current.pk).update(digest="c" * 64)
    moved(report.seen_digest(gate, TIP))


def test_the_page_shows_what_the_digest_stands_for(story: Story) -> None:
    gate = story.park()
    found = page(story, gate)
    assert found.shown.digest == report.seen_digest(gate, found.shown.tip)
    assert found.shown.tip == story.cursor


def test_everything_needed_to_decide(story: Story) -> None:
    leg = story.legs[-1]
    Fact.objects.create(
        leg=leg, seq=50, kind="decision", label="Sandbox is allowed", durability="durable", at=story.clock
    )
    Fact.objects.create(leg=leg, seq=51, kind="fact", label="scratch", durability="turn", at=story.clock)
    Fact.objects.create(
        leg=leg, seq=52, kind="open_question", label="May it go?", backing="issue:#7", verdict="unknown", at=story.clock
    )
    found = page(story, story.park())
    assert found.headline == "Leg 1 reached its ceiling at 178,000 tokens without a safe point"
    assert [row.number for row in found.last] == [1, 0]
    assert found.dirty == ("src/orders.py",)
    assert [(held.token, held.count) for held in found.last[0].holds] == [
        ("IN_FLIGHT_TOOL_CALL", 1),
        ("TREE_DIRTY_UNPARKED", 2),
    ]
    assert [fact.label for fact in found.loose] == ["Sandbox is allowed", "May it go?"]
    assert all(fact.fix for fact in found.loose)
    assert found.loose[1].verdict == "unknown"
    assert [text for text, _ in found.candidates] == ["Stub it.", "Close issue 3."]
    assert [(question.ref, question.durable) for question in found.questions] == [
        ("issue:#40", True),
        ("issue:#7", True),
    ]
    assert found.next_leg == 2
    assert [step.place for step in found.way.steps] == ["now", "", "", "", ""]


def test_pointers_that_do_not_resolve_are_listed_with_their_evidence(story: Story) -> None:
    gate = story.park()
    current = Baton.objects.get(relay=story.relay, current=True)
    story.reloaded(current, story.legs[-1], unknown=("artifacts[1].ref",))
    found = page(story, gate)
    assert [(check.path, check.verdict) for check in found.unresolved] == [("artifacts[1].ref", "unknown")]
    assert found.resolved == found.pointer_count - 1


def test_what_the_detector_found_stands_with_its_fix(story: Story) -> None:
    """rules.md, Externalize gate: "A refusal names each fact and what would externalize it"."""
    gate, leg = story.park(), story.legs[-1]
    made = {"leg": leg, "kind": "detected", "at": story.clock, "evidence": "no pointer"}
    Fact.objects.create(**made, seq=0, durability="file_outside", label="/srv/notes.txt")
    Fact.objects.create(
        **{**made, "evidence": "exists, not on relay/x"},
        seq=1, durability="cursor_lost", label="lost", backing=f"commit:{'a' * 40}", verdict="dangling",
    )  # fmt: skip
    tip, problem = report.branch_tip(gate.relay)
    outside, lost = report.gate_page(gate, timezone.now(), tip, problem).loose
    assert (outside.kind, outside.verdict) == ("a file outside the repository", "refused")
    assert outside.fix == "move it into the repository and commit it"
    assert (lost.kind, lost.verdict, lost.evidence) == (
        "work that the branch lost",
        "dangling",
        "exists, not on relay/x",
    )
    assert lost.fix.startswith("bring the branch back")


def test_approvals_count_people_of_this_round_only(story: Story) -> None:
    gate = story.park(round=1)
    seen = report.seen_digest(gate, report.branch_tip(story.relay)[0])
    people = [make_user("", "reviewer") for _ in range(2)]
    for seq, (actor, turn) in enumerate([(people[0], 0), (people[1], 1), (people[1], 1)], start=1):
        Decision.objects.create(
            seq=seq, relay=story.relay, gate=gate, act="approve", actor=actor, detail={"round": turn},
            seen=seen, previous="0" * 64, digest=f"{seq:064d}", at=story.clock,
        )  # fmt: skip
    assert page(story, gate).have == 1


@pytest.mark.parametrize(
    ("token", "cause", "words"),
    [
        ("RELAY_PARKED_UNSAFE", "agent_crash", "Leg 0 was cut off when its agent crashed"),
        ("RELAY_PARKED_UNSAFE", "supervisor_crash", "Leg 0 was cut off when its supervisor crashed"),
        ("RELAY_PARKED_UNSAFE", "host_lost", "Leg 0 was cut off when its host was lost"),
        ("RELAY_PARKED_UNSAFE", "sign_in", "Leg 0 was cut off when its agent's sign-in was lost"),
        ("RELAY_PARKED_UNSAFE", "park_now", "Leg 0 was parked at once without a safe point"),
        ("RELAY_PARKED_UNSAFE", "", "Leg 0 ended without a safe point"),
        ("RELAY_NO_PROGRESS", "", "3 legs in a row without verified progress, up to leg 0"),
        ("BUDGET_EXHAUSTED", "", "An axis of the relay's envelope is spent (leg 0)"),
    ],
)
def test_the_headline_is_the_finding(token: str, cause: str, words: str) -> None:
    relay = make_relay(status="parked", empty_run=3)
    leg = make_leg(relay, 0, resident=[20_000], reason="RELAY_PARKED_UNSAFE", cause=cause)
    assert report.headline(make_gate(relay, token, leg=leg), leg) == words


def test_a_gate_without_leg_baton_or_repository_still_has_a_page() -> None:
    relay = make_relay(status="parked")
    gate = make_gate(relay, "UNSERVED_PAGE_FAULT")
    tip, problem = report.branch_tip(relay)
    assert tip == ""
    assert problem
    found = report.gate_page(gate, timezone.now(), tip, problem)
    assert (found.leg, found.last, found.next_leg, found.shown.problem) == (None, (), 0, problem)


@pytest.mark.parametrize(
    ("state", "places"),
    [(GateState.DISPATCHED, ["was", "was", "was", "now", ""]), (GateState.REFUSED, ["was", "", "", "", ""])],
)
def test_the_way_of_an_episode(state: str, places: list[str]) -> None:
    gate = make_gate(make_relay(status="parked"), state=state)
    found = report.gate_page(gate, timezone.now(), "")
    assert [step.place for step in found.way.steps] == places
    assert (found.way.ended.state if found.way.ended else "") == (state if state == GateState.REFUSED else "")


def test_a_baton_that_does_not_read_breaks_nothing(story: Story) -> None:
    with unguarded():
        Baton.objects.filter(relay=story.relay, current=True).update(text="{")
    found = page(story, story.park())
    assert batons.read("{").baton is None
    assert (found.next_action, found.start) == ("", "")
    assert Leg.objects.filter(relay=story.relay).count() == 2
