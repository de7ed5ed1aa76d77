"""The gate's page and its form: decided on what was shown, or not at all."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from relays.models import Check, Decision, Fact, GateEpisode, GateState, Leg, LegState, Relay, Verification
from relays.reports.gate import branch_tip, seen_digest
from relays.stores.worktree import WorkTree
from tests import builders
from tests.reading import marked
from tests.report_builders import Story

pytestmark = pytest.mark.django_db
Clients = Callable[..., Client]


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = Story(tmp_path / "repo", policy={})
    told.leg(turns=5)
    told.leg(
        turns=5, peak=178_000, reason="RELAY_PARKED_UNSAFE", cause="ceiling", hold="TREE_DIRTY_UNPARKED", made=False,
        end_decision={"dirty": ["src/orders.py"], "candidates": ["Stub the gateway."]}, holds=("TREE_DIRTY_UNPARKED",),
    )  # fmt: skip
    return told


@pytest.fixture
def gate(story: Story) -> GateEpisode:
    return story.park()


def seen(story: Story, gate: GateEpisode) -> str:
    gate.refresh_from_db()
    return seen_digest(gate, branch_tip(story.relay)[0])


def text_of(client: Client, gate: GateEpisode) -> str:
    response = client.get(reverse("gate", args=[gate.pk]))
    assert response.status_code == 200
    return marked(response)


def test_everything_on_one_page(story: Story, gate: GateEpisode, client_of: Clients) -> None:
    leg = story.legs[-1]
    Fact.objects.create(
        leg=leg, seq=60, kind="decision", label="<script>x</script>", durability="durable", at=story.clock
    )
    text = text_of(client_of("reviewer"), gate)
    for words in (
        "Leg 1 reached its ceiling at 178,000 tokens without a safe point",
        "a person looks at what is durable and resumes",
        "src/orders.py",
        "Stub the gateway.",
        "Close issue 3.",
        "may the dump be replaced?",
        escape("<script>x</script>"),
        "append a ledger row for it",
        f'name="seen" value="{seen(story, gate)}"',
        "1 approval wanted",
    ):
        assert words in text
    assert "<script>x" not in text
    assert 'class="now" aria-current="step"' in text


def test_the_diff_of_parked_work_is_there_and_escaped(story: Story, gate: GateEpisode, client_of: Clients) -> None:
    (story.repo / "note.html").write_text("<img src=x>\n")
    sha = WorkTree(story.repo).store_wip(f"refs/relay/wip/{story.relay.pk}/1", "work in progress")
    Leg.objects.filter(pk=story.legs[-1].pk).update(wip_sha=sha)
    text = text_of(client_of("reviewer"), gate)
    assert "Diff of parked work" in text
    assert escape("+<img src=x>") in text
    assert "<img src=x>" not in text
    assert f"refs/relay/wip/{story.relay.pk}/1" in text


def test_who_may_read_and_who_may_decide(story: Story, gate: GateEpisode, client: Client, client_of: Clients) -> None:
    url = reverse("gate_decide", args=[gate.pk])
    assert client.get(reverse("gate", args=[gate.pk])).status_code == 302
    assert 'value="approve"' not in text_of(client_of("manager"), gate)
    data = {"decision": "approve", "seen": seen(story, gate), "comment": "fine"}
    assert client_of("manager", "operator").post(url, data).status_code == 403
    assert client_of("reviewer").get(url).status_code == 405
    assert client_of("reviewer").get(reverse("gate", args=[999])).status_code == 404
    assert not Decision.objects.exists()


def test_approve_with_a_chosen_next_action_and_an_answer(story: Story, gate: GateEpisode, client_of: Clients) -> None:
    response = client_of("reviewer").post(
        reverse("gate_decide", args=[gate.pk]),
        {
            "decision": "approve", "seen": seen(story, gate), "comment": "the dump is a fixture",
            "next": "Stub the gateway.",
            "ref-1": "issue:#40", "answer-1": "Yes, a sample is enough", "sets": "envelope.turns=400",
        },
        follow=True,
    )  # fmt: skip
    assert response.redirect_chain == [(reverse("gate", args=[gate.pk]), 303)]
    decision = Decision.objects.get(act="approve")
    assert Decision.objects.get(act="next_action").detail["next_action"] == "Stub the gateway."
    answer = Decision.objects.get(act="answer").detail
    assert (answer["question"], answer["answer"]) == ("issue:#40", "Yes, a sample is enough")
    assert Decision.objects.get(act="limit").detail["policy"]["envelope"]["turns"] == 400
    assert decision.seen
    gate.refresh_from_db()
    assert gate.state == GateState.REQUESTED
    text = marked(response)
    assert "the gate is requested" in text
    assert 'value="approve"' not in text


def test_changed_since_you_looked_keeps_all_that_was_typed(story: Story, gate: GateEpisode, client_of: Clients) -> None:
    old = seen(story, gate)
    builders.commit(story.repo, {"late.txt": "x\n"}, "A commit after the look")
    data = {
        "decision": "approve",
        "seen": old,
        "comment": "looks <good>",
        "next": "own",
        "next_own": "Do this.",
        "region": "src/**",
    }
    response = client_of("reviewer").post(reverse("gate_decide", args=[gate.pk]), data)
    text = marked(response)
    assert response.status_code == 409
    assert "Changed since you looked" in text
    assert "msg-stale" in text
    for kept in (escape("looks <good>"), 'value="Do this."', "src/**"):
        assert kept in text
    fresh = seen(story, gate)
    assert fresh != old
    assert f'name="seen" value="{fresh}"' in text
    assert not Decision.objects.exists()
    assert GateEpisode.objects.get(pk=gate.pk).state == GateState.WAITING


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"comment": " "}, "a comment is required"),
        ({"sets": "envelope.nonsense=1"}, "nonsense"),
        ({"decision": ""}, "nothing was decided"),
    ],
)
def test_a_refusal_says_one_line_and_changes_nothing(
    story: Story, gate: GateEpisode, client_of: Clients, change: dict[str, str], words: str
) -> None:
    data = {"decision": "approve", "seen": seen(story, gate), "comment": "kept text", **change}
    response = client_of("reviewer").post(reverse("gate_decide", args=[gate.pk]), data)
    assert response.status_code == 400
    assert words in marked(response)
    assert not Decision.objects.exists()


def test_four_eyes_refuse_on_the_page_and_keep_the_comment(
    story: Story, gate: GateEpisode, client_of: Clients, client: Client
) -> None:
    client_of("reviewer")  # a second one, so that four eyes bind
    owner = story.relay.owner
    owner.groups.add(Group.objects.get_or_create(name="reviewer")[0])
    client.force_login(owner)
    data = {"decision": "approve", "seen": seen(story, gate), "comment": "my own relay"}
    response = client.post(reverse("gate_decide", args=[gate.pk]), data)
    assert response.status_code == 403
    text = marked(response)
    assert "four eyes" in text
    assert "my own relay" in text
    assert not Decision.objects.exists()


def test_a_refused_gate_stands_on_its_relays_page(story: Story, gate: GateEpisode, client_of: Clients) -> None:
    client = client_of("reviewer", "operator")
    data = {"decision": "refuse", "seen": seen(story, gate), "comment": "not safe"}
    client.post(reverse("gate_decide", args=[gate.pk]), data)
    text = marked(client.get(reverse("relay", args=[story.relay.pk])))
    assert f"Gate {gate.pk} was refused" in text
    assert reverse("gate", args=[gate.pk]) in text
    assert 'form="act-resume"' not in text


def test_refuse_then_reopen(story: Story, gate: GateEpisode, client_of: Clients) -> None:
    client, url = client_of("reviewer"), reverse("gate_decide", args=[gate.pk])
    client.post(url, {"decision": "refuse", "seen": seen(story, gate), "comment": "not safe"})
    gate.refresh_from_db()
    assert gate.state == GateState.REFUSED
    assert 'value="reopen"' in text_of(client, gate)
    response = client.post(url, {"decision": "reopen", "comment": "after all"}, follow=True)
    again = GateEpisode.objects.get(state=GateState.WAITING)
    assert again.reopened_from == gate
    assert response.redirect_chain[-1][0] == reverse("gate", args=[again.pk])


def test_a_failed_start_shows_its_error(story: Story, gate: GateEpisode, client_of: Clients) -> None:
    GateEpisode.objects.filter(pk=gate.pk).update(error="git worktree add: no space left on device", round=1)
    text = text_of(client_of("reviewer"), gate)
    assert "no space left on device" in text
    assert "approvals of before have lapsed" in text


def test_only_the_state_refreshes_and_it_says_when_the_page_is_old(
    story: Story, gate: GateEpisode, client_of: Clients
) -> None:
    client, url, digest = client_of("reviewer"), reverse("gate", args=[gate.pk]), seen(story, gate)
    part = client.get(url, {"part": "state", "seen": digest})
    assert "Changed since you looked" not in marked(part)
    assert "<textarea" not in marked(part)
    assert (
        client.get(url, {"part": "state", "seen": digest}, headers={"If-None-Match": part["ETag"]}).status_code == 304
    )
    other = marked(client.get(url, {"part": "state", "seen": "0" * 64}))
    assert "Changed since you looked" in other
    assert client.get(url, {"part": "form"}).status_code == 404


def test_a_next_action_that_is_written_is_never_dropped(story: Story, gate: GateEpisode, client_of: Clients) -> None:
    reviewer, url = client_of("reviewer"), reverse("gate_decide", args=[gate.pk])
    form = {"seen": seen(story, gate), "comment": "ok", "next": "", "next_own": "Stub it.", "decision": "approve"}
    answer = reviewer.post(url, form)
    assert answer.status_code == 400 and "choose “Write another one”" in marked(answer)
    assert 'value="Stub it."' in marked(answer) and not Decision.objects.filter(gate=gate).exists()


def test_the_limit_that_is_asked_for_is_named_by_its_key(story: Story, client_of: Clients) -> None:
    gate = story.park("BUDGET_EXHAUSTED", items=["BUDGET_LEGS_EXHAUSTED", "tombstone of leg 1: RELAY_ROTATED"])
    assert 'placeholder="envelope.legs=40"' in text_of(client_of("reviewer"), gate)


# --- what confirms: a goal in prose, and the objective


def test_a_goal_in_prose_is_confirmed_or_sent_back_with_what_is_missing(story: Story, client_of: Clients) -> None:
    """rules.md, done_when: "a reviewer confirms it (DONE_UNCONFIRMED) as a decision bound to what was shown"."""
    Relay.objects.filter(pk=story.relay.pk).update(done_when="it reads <b>well</b>")
    gate = story.park("DONE_UNCONFIRMED", items=["the agent ended without a next action"])
    reviewer = client_of("reviewer")
    text = text_of(reviewer, gate)
    for words in ("Is this reached?", escape("it reads <b>well</b>"), "Confirm that it is reached", "Not reached"):
        assert words in text
    for words in ("Approve", "Narrowed region", "New limit", "Approving starts leg", "Approve and resume"):
        assert words not in text, words
    url = reverse("gate_decide", args=[gate.pk])
    own = {"seen": seen(story, gate), "comment": "no", "next": "own", "next_own": "Write the last chapter."}
    refused = reviewer.post(url, {**own, "decision": "approve"})
    assert refused.status_code == 400
    assert "refuse with --next-action or --objective" in marked(refused)
    del own["next"]  # nothing else can be chosen here: what is written counts
    assert reviewer.post(url, {**own, "decision": "refuse"}).status_code == 303
    assert Decision.objects.get(act="next_action").detail["next_action"] == "Write the last chapter."
    text = text_of(reviewer, gate)
    assert "Write the last chapter." in text and "carried by decision 1" in text
    again = story.park("DONE_UNCONFIRMED")
    answer = reviewer.post(
        reverse("gate_decide", args=[again.pk]),
        {"decision": "approve", "seen": seen(story, again), "comment": "It does."},
        follow=True,
    )
    assert "the gate is confirmed" in marked(answer)
    assert "The goal was confirmed" in marked(answer)
    story.relay.refresh_from_db()
    assert (story.relay.status, story.relay.ended_reason) == ("done", "RELAY_GOAL_DONE")


def test_a_drift_shows_both_objectives_and_confirms_the_relays_own(story: Story, client_of: Clients) -> None:
    """rules.md, Objective: a drift is never settled by guessing; approving says which one stands."""
    Relay.objects.filter(pk=story.relay.pk).update(objective="Close <none> of them")
    gate = story.park("OBJECTIVE_DRIFT", items=["objective drifted"])
    reviewer = client_of("reviewer")
    text = text_of(reviewer, gate)
    for words in (escape("Close <none> of them"), "Close the open issues of acme/orders", "Confirm the objective"):
        assert words in text
    answer = reviewer.post(
        reverse("gate_decide", args=[gate.pk]),
        {"decision": "approve", "seen": seen(story, gate), "comment": "That one."},
    )
    assert answer.status_code == 303
    assert Decision.objects.get(act="objective").detail["of"] == 1


def test_what_is_typed_beside_a_plain_refusal_is_not_decided(
    story: Story, gate: GateEpisode, client_of: Clients
) -> None:
    data = {"decision": "refuse", "seen": seen(story, gate), "comment": "no", "next": "Stub the gateway."}
    assert client_of("reviewer").post(reverse("gate_decide", args=[gate.pk]), data).status_code == 303
    assert list(Decision.objects.values_list("act", flat=True)) == ["refuse"]


def test_a_leg_that_never_started_is_said_to_be_that_and_not_the_end_of_one(story: Story, client_of: Clients) -> None:
    leg = Leg.objects.create(relay=story.relay, number=2, state=LegState.PENDING, trace="tr-2")
    story.legs.append(leg)
    gate = story.park(items=["cause: start_failed", "the program 'agent' is not there"])
    text = text_of(client_of("reviewer"), gate)
    assert "Leg 2 could not be started" in text
    assert "Leg 2 ended" not in text
    assert "cause: start_failed" not in text  # said once, as a word that explains itself
    assert "the program &#x27;agent&#x27; is not there" in text
    assert "Approving starts leg 2 at" in text  # it keeps its number
    inbox = marked(client_of("reviewer").get(reverse("needs_you")))
    assert "the program &#x27;agent&#x27; is not there" in inbox
    assert "start_failed" in inbox
    page = marked(client_of("operator").get(reverse("relay", args=[story.relay.pk])))
    assert "Leg 2 could not be started" in page


def test_pointers_are_judged_again_on_the_gates_own_page_and_nothing_typed_is_lost(
    story: Story, gate: GateEpisode, client_of: Clients
) -> None:
    reviewer = client_of("reviewer")
    baton = story.relay.batons.get(current=True)
    builders.git(story.repo, "update-ref", f"refs/heads/{story.relay.branch}", story.relay.start_sha)
    before = seen(story, gate)
    assert "Verify again" in text_of(reviewer, gate)
    assert "Verify again" not in text_of(client_of("manager"), gate)
    response = reviewer.post(
        reverse("gate_decide", args=[gate.pk]),
        {"decision": "verify", "seen": before, "comment": "half a though", "next": "Stub the gateway."},
    )
    text = marked(response)
    assert response.status_code == 200
    assert "Checked again: " in text
    assert "half a though" in text and not Decision.objects.filter(gate=gate).exists()
    assert Verification.objects.get(baton=baton).outcome in text
    dangling = Check.objects.filter(verification__baton=baton, pointer=True).exclude(verdict="verified")
    assert dangling
    assert all(f'<span class="mono">{check.path}</span>' in text for check in dangling)
    assert f'name="seen" value="{seen(story, gate)}"' in text and seen(story, gate) != before
    assert client_of("operator").post(reverse("gate_decide", args=[gate.pk]), {"decision": "verify"}).status_code == 403


def test_a_repository_that_does_not_answer_is_said_to_be_unknown_and_never_without_changes(
    story: Story, gate: GateEpisode, client_of: Clients
) -> None:
    Leg.objects.filter(pk=story.legs[-1].pk).update(cursor_sha="1" * 40, end_sha="2" * 40)
    story.repo.rename(story.repo.with_name("elsewhere"))
    text = text_of(client_of("reviewer"), gate)
    diff = text[text.index("Diff of commits of leg 1") :].partition("</details>")[0]
    assert "unknown" in diff and "0 files" not in diff
    assert "Diff of commits of leg 1" in text and "left no commit" not in text
