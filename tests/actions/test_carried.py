"""What an approval may carry, and the decisions, baton, ledger rows and relay that come of it.

rules.md, The driver (Park, approve, resume, stop): "it may carry: a chosen next action, answers to questions, a
narrowed region, a new limit, a new objective; each is a decision row that the next baton points at".
"""

import json
from typing import Any

import pytest

from relays.actions.base import Held, NotLegalNow, Usage
from relays.core import baton as batons
from relays.driver import rebaton
from relays.driver.budgets import SPEND_UNKNOWN
from relays.models import (
    Baton,
    Decision,
    Fact,
    GateEpisode,
    GateState,
    LedgerRow,
    Outbox,
    RegionLease,
    Relay,
    Repository,
)
from tests.actions.acts import People, approve, check_chain, current, everything, refuse
from tests.report_builders import Story
from tests.web_builders import make_gate, make_leg, make_relay

pytestmark = pytest.mark.django_db

#: what is carried -> the act of its decision
ACTS = {"next action": "next_action", **{name: name for name in ("answer", "region", "limit", "objective")}}
QUESTION = "issue:#40"  # each baton of the story carries it
CHANGES: dict[str, dict[str, Any]] = {
    "next action": {"next_action": "  Look at the stub first. "},
    "answer": {"answers": {QUESTION: "Yes, it may."}},
    "region": {"region": ["work/**"]},
    "limit": {"sets": ["envelope.turns=500"]},
    "objective": {"objective": "Close the issues that matter"},
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_a_decision_and_a_new_baton_of_the_same_leg(
    what: str, people: People, story: Story, gate: GateEpisode
) -> None:
    old_row, old = Baton.objects.get(relay=story.relay, current=True), current(story.relay)
    outcome = approve(people.reviewer, gate, **CHANGES[what])
    new_row, new = Baton.objects.get(relay=story.relay, current=True), current(story.relay)
    assert outcome.state == "requested"
    assert (new_row.leg, new_row.why) == (old_row.leg, "decision")
    old_row.refresh_from_db()
    assert not old_row.current
    # the same leg, cursor and tombstone; one artifact more, which mirrors the decision
    assert (new.leg, new.parent_trace, new.tombstone) == (old.leg, old.parent_trace, old.tombstone)
    assert (new.cursor.start_sha, new.cursor.ledger_ref) == (old.cursor.start_sha, old.cursor.ledger_ref)
    assert new.artifacts[:-1] == old.artifacts
    mirror = LedgerRow.objects.get(pk=new.artifacts[-1].ref)
    approval, carried = Decision.objects.order_by("seq")
    assert (approval.seq, approval.act, approval.detail["carries"]) == (outcome.decision, "approve", [ACTS[what]])
    assert (carried.act, carried.detail["of"], carried.gate) == (ACTS[what], outcome.decision, gate)
    assert (carried.actor, carried.seen) == (people.reviewer.user, approval.seen)
    assert (str(new.artifacts[-1].kind), mirror.pk) == ("ledger", f"{story.relay.pk}.1.p{carried.seq}")
    assert (mirror.by, mirror.leg, mirror.relay) == ("person", old_row.leg, story.relay)
    told = json.loads(mirror.note)
    assert told.pop("decision") == carried.seq
    assert told and all(carried.detail[key] == value for key, value in told.items())
    assert mirror.refs == ([QUESTION] if what == "answer" else [f"ledger:{mirror.pk}"])
    relay = Relay.objects.get(pk=story.relay.pk)
    assert new.next_action == ("Look at the stub first." if what == "next action" else old.next_action)
    assert new.open_questions == (() if what == "answer" else old.open_questions)
    assert new.cursor.held_region == tuple(relay.region) == (("work/**",) if what == "region" else ("**",))
    assert tuple(RegionLease.objects.get(relay=relay).region) == tuple(relay.region)
    assert new.objective.text == relay.objective
    assert (new.objective.digest != old.objective.digest) is (what == "objective")
    assert new.objective.pin_id == old.objective.pin_id
    assert relay.policy.get("envelope", {}).get("turns") == (500 if what == "limit" else None)
    assert check_chain() == 2


def test_all_of_them_with_one_approval_are_decisions_of_their_own(
    people: People, story: Story, gate: GateEpisode
) -> None:
    every = {key: value for change in CHANGES.values() for key, value in change.items()}
    approve(people.reviewer, gate, **every)
    new = current(story.relay)
    rows = list(Decision.objects.filter(detail__of=1).order_by("seq"))
    assert [row.act for row in rows] == list(ACTS.values())
    pointed = [LedgerRow.objects.get(pk=artifact.ref) for artifact in new.artifacts[-len(rows) :]]
    assert [json.loads(mirror.note)["decision"] for mirror in pointed] == [row.seq for row in rows]
    # beside them the relay's own record, because it goes on
    owed = Outbox.objects.filter(relay=story.relay, done_at=None).exclude(target=f"{story.relay.pk}.state")
    assert {row.target for row in owed} >= {pointed[-1].pk, str(Baton.objects.get(current=True).pk)}, (
        "the note and the ledger's ref, so that another host takes up what was decided"
    )
    assert check_chain() == 6
    assert new.next_action == "Look at the stub first."
    assert (new.open_questions, new.cursor.held_region) == ((), ("work/**",))
    assert new.objective.text == "Close the issues that matter"


def test_nothing_carried_leaves_the_baton_as_it_is(people: People, story: Story, gate: GateEpisode) -> None:
    before = Baton.objects.get(relay=story.relay, current=True)
    approve(people.reviewer, gate)
    assert Baton.objects.get(relay=story.relay, current=True) == before
    assert not LedgerRow.objects.filter(by="person").exists()


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"next_action": "two\nlines"}, "--next-action must be one line"),
    ({"next_action": "x" * 201}, "--next-action must be one line"),
    ({"next_action": "a\x1b[31mb"}, "--next-action must be one line"),
    ({"region": ["/etc"]}, "'/etc'"),
    ({"region": ["../x"]}, "'../x'"),
    ({"region": ["g"] * 1 + [f"g{n}" for n in range(70)]}, "more than 64 globs"),
    ({"sets": ["envelope.trns=5"]}, "envelope.trns"),
    ({"sets": ["envelope.turns"]}, "key=value"),
    ({"sets": ["envelope.turns=lots"]}, "envelope.turns"),
    ({"sets": ["four_eyes=false"]}, "--set four_eyes"),
    ({"sets": ["approvals=1"]}, "--set approvals"),
    ({"sets": ["workspace=in_place"]}, "--set workspace"),
    ({"objective": "x" * 5000}, "longer than 4096 bytes"),
    ({"objective": "a\0b"}, "NUL"),
    ({"objective": "<" * 4096}, "shorten the objective"),
    ({"answers": {"issue:#39": "Yes."}}, "no open question"),
    ({"answers": {"what?": "Yes."}}, "no open question"),
    ({"answers": {QUESTION: " "}}, "an answer is one line"),
    ({"answers": {QUESTION: "a\nb"}}, "an answer is one line"),
    ({"answers": {QUESTION: "x" * 501}}, "an answer is one line"),
]


def test_what_cannot_be_carried_is_refused_and_nothing_happens(people: People, gate: GateEpisode) -> None:
    before = everything()
    for values, words in REFUSED:
        with pytest.raises(Usage) as refusal:
            approve(people.reviewer, gate, **values)
        assert words in str(refusal.value), values
        assert everything() == before


@pytest.mark.parametrize(
    ("held", "wanted", "within"),
    [
        (["**"], ["src/**"], True),
        (["src/**"], ["src/api/**", "src/*.py"], True),
        (["src/**"], ["src/a.py"], True),
        (["*.md"], ["README.md"], True),
        (["src/**", "docs/**"], ["docs/**"], True),
        (["src/**"], ["**"], False),
        (["src/**"], ["src/api/**", "docs/**"], False),
        (["src/**"], ["src2/**"], False),
        (["src/*.py"], ["src/**"], False),
    ],
)
def test_a_region_is_only_narrowed(
    held: list[str], wanted: list[str], within: bool, people: People, story: Story
) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(region=held)
    RegionLease.objects.filter(relay=story.relay).update(region=held)
    gate = story.park()
    if within:
        assert approve(people.reviewer, gate, region=wanted).state == "requested"
        assert Relay.objects.get(pk=story.relay.pk).region == wanted
    else:
        with pytest.raises(Usage, match="only narrow it"):
            approve(people.reviewer, gate, region=wanted)
        assert Relay.objects.get(pk=story.relay.pk).region == held


def test_a_region_that_another_took_meanwhile_is_refused_with_its_holder(
    people: People, story: Story, gate: GateEpisode
) -> None:
    RegionLease.objects.filter(relay=story.relay).update(held=False)  # released by a decision
    other = make_relay(git_dir=story.relay.git_dir)
    place = Repository.objects.get(git_dir=story.relay.git_dir)
    RegionLease.objects.create(relay=other, repository=place, region=["work/api/**"], since=story.clock)
    before = everything()
    with pytest.raises(Held, match=f"COLLISION_RISK: {other.pk}") as refusal:
        approve(people.reviewer, gate, region=["work/**"])
    assert refusal.value.exit_code == 6
    assert everything() == before
    approve(people.reviewer, gate, region=["docs/**"])
    assert RegionLease.objects.get(relay=story.relay).held


def test_a_question_without_a_pointer_is_answered_by_its_words(people: People, story: Story) -> None:
    Fact.objects.create(leg=story.legs[1], seq=90, kind="open_question", label="Is = allowed?", at=story.clock)
    gate = story.park()
    approve(people.reviewer, gate, answers={"Is = allowed?": "Yes."})
    new = current(story.relay)
    row = LedgerRow.objects.get(pk=new.artifacts[-1].ref)
    told = json.loads(row.note)
    assert (told["question"], told["answer"]) == ("Is = allowed?", "Yes.")
    assert row.refs == [f"ledger:{row.pk}"]
    assert len(new.open_questions) == 1  # the other question stays open


def test_an_answer_by_a_short_pointer_is_the_same_pointer(people: People, story: Story, gate: GateEpisode) -> None:
    approve(people.reviewer, gate, answers={"#40": "Yes."})
    assert current(story.relay).open_questions == ()


def test_long_answers_still_mirror_as_json(people: People, story: Story) -> None:
    labels = [f"Question {n}?" for n in range(12)]
    for n, label in enumerate(labels):
        Fact.objects.create(leg=story.legs[1], seq=90 + n, kind="open_question", label=label, at=story.clock)
    gate = story.park()
    approve(people.reviewer, gate, answers=dict.fromkeys(labels, "\u00e4" * 240))
    rows = list(Decision.objects.filter(act="answer").order_by("seq"))
    assert {row.detail["question"]: row.detail["answer"] for row in rows} == dict.fromkeys(labels, "\u00e4" * 240)
    for row, artifact in zip(rows, current(story.relay).artifacts[-12:], strict=True):
        mirror = LedgerRow.objects.get(pk=artifact.ref)
        assert len(mirror.note) <= 500 and json.loads(mirror.note)["decision"] == row.seq


def test_without_a_baton_only_what_the_relay_keeps_is_carried(people: People) -> None:
    relay = make_relay(owner=people.operator.user, status="parked")
    gate = make_gate(relay)
    for values in ({"next_action": "Go."}, {"answers": {QUESTION: "Yes."}}):
        with pytest.raises((NotLegalNow, Usage)):
            approve(people.reviewer, gate, **values)
    assert approve(people.reviewer, gate, objective="Another goal", sets=["leg.turns=9"]).state == "requested"
    relay.refresh_from_db()
    assert (relay.objective, relay.policy["leg"]["turns"]) == ("Another goal", 9)
    rows = LedgerRow.objects.filter(relay=relay, leg=None, by="person").order_by("id")
    assert [row.pk for row in rows] == [f"{relay.pk}.r.p{seq}" for seq in (2, 3)], "the first baton points at them"


def test_a_leg_that_runs_names_its_own_next_action(people: People, story: Story) -> None:
    """An episode that was reopened waits while a leg runs: that leg began without the decision."""
    running = story.leg(reason="")
    Relay.objects.filter(pk=story.relay.pk).update(status="running")
    gate = make_gate(story.relay)
    before = everything()
    with pytest.raises(NotLegalNow, match=f"leg {running.number} .* is running and names its own next action"):
        approve(people.reviewer, gate, next_action="Look at the stub first.")
    assert everything() == before
    approve(people.reviewer, gate, objective="Close the issues that matter")
    (mirror,) = LedgerRow.objects.filter(relay=story.relay, by="person", id__contains=".p")
    handed = batons.read(Baton.objects.get(relay=story.relay, current=True).text).baton
    owed = rebaton.mirrors_owed(story.relay, running, handed)
    assert [one.ref for one in owed] == [mirror.pk], "the baton of the leg that runs points at it"
    late = make_leg(story.relay, running.number + 1, started_at=mirror.at, state="void")
    assert rebaton.mirrors_owed(story.relay, late, handed) == (), "a leg that starts from it has it already"


# --- BUDGET_EXHAUSTED


TOO_LITTLE: list[tuple[list[str], str]] = [
    ([], "needs a new limit"),
    (["leg.turns=50"], "needs a new limit"),
    (["envelope.turns=40"], "needs a new limit"),
    (["envelope.turns=30"], "BUDGET_TURNS_EXHAUSTED still holds"),
    (["envelope.turns=41"], "BUDGET_TURNS_EXHAUSTED still holds"),
    (["envelope.legs=90"], "BUDGET_TURNS_EXHAUSTED still holds"),
]


def test_a_spent_envelope_needs_a_limit_that_leaves_something(people: People, story: Story) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(turns_used=41, policy={"envelope": {"turns": 40}})
    gate = story.park("BUDGET_EXHAUSTED")
    before = everything()
    for sets, words in TOO_LITTLE:
        with pytest.raises(Usage, match=words):
            approve(people.reviewer, gate, sets=sets)
        assert everything() == before


@pytest.mark.parametrize("new", ["envelope.turns=42", "envelope.turns=none"])
def test_with_a_higher_limit_it_goes_on_and_what_is_spent_stays_spent(new: str, people: People, story: Story) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(
        turns_used=41, policy={"envelope": {"turns": 40}}, warned_axes=["turns", "legs", SPEND_UNKNOWN]
    )
    assert approve(people.reviewer, story.park("BUDGET_EXHAUSTED"), sets=[new]).state == "requested"
    relay = Relay.objects.get(pk=story.relay.pk)
    # the axis with a new limit may warn again; of the others, and of unpriced calls, a person knows already
    assert (relay.turns_used, relay.warned_axes) == (41, ["legs", SPEND_UNKNOWN])


def test_a_new_mode_is_the_relays_mode(people: People, gate: GateEpisode) -> None:
    approve(people.reviewer, gate, sets=["mode=advise"])
    assert Relay.objects.get(pk=gate.relay_id).mode == "advise"


def test_two_who_change_one_after_the_other_lose_nothing(people: People, story: Story, gate: GateEpisode) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(policy={"approvals": 2})
    approve(people.reviewer, gate, sets=["envelope.turns=500"])
    approve(people.second, gate, sets=["envelope.legs=50"])
    envelope = Relay.objects.get(pk=story.relay.pk).policy["envelope"]
    assert (envelope["turns"], envelope["legs"]) == (500, 50)
    assert len(current(story.relay).artifacts) == 5  # both decisions are pointed at


def test_a_refusal_may_set_a_new_objective(people: People, story: Story, gate: GateEpisode) -> None:
    refuse(people.reviewer, gate, objective="Close the issues that matter")
    gate.refresh_from_db()
    assert gate.state == GateState.REFUSED
    new = current(story.relay)
    assert new.objective.text == Relay.objects.get(pk=story.relay.pk).objective == "Close the issues that matter"
    assert Decision.objects.get(act="objective").detail["objective_digest"] == new.objective.digest
    assert Decision.objects.get(act="refuse").detail["carries"] == ["objective"]
