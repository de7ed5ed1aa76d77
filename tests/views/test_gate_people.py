"""The gate's page for the people at it: who may decide, who did and when, and what happens when two decide at once."""

import re
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from relays.actions import reviewers
from relays.actions.base import Actor
from relays.driver import gates
from relays.models import Call, Decision, Fact, GateChange, GateEpisode, GateState, Leg, Relay
from relays.reports import cold
from relays.reports import gate as report
from relays.stores.worktree import WorkTree
from tests.reading import marked
from tests.report_builders import Story
from tests.web_builders import make_gate, make_relay, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = Story(tmp_path / "repo", policy={})
    told.leg(turns=3)
    told.leg(
        turns=3, reason="RELAY_PARKED_UNSAFE", cause="ceiling", hold="TREE_DIRTY_UNPARKED",
        end_decision={"dirty": ["note.txt", "dump.sql"], "candidates": ["Stub the gateway."]},
    )  # fmt: skip
    return told


@pytest.fixture
def gate(story: Story) -> GateEpisode:
    return story.park()


def as_user(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def digest(gate: GateEpisode) -> str:
    gate = GateEpisode.objects.select_related("relay").get(pk=gate.pk)
    return report.seen_digest(gate, report.branch_tip(gate.relay)[0])


def post(client: Client, gate: GateEpisode, decision: str = "approve", **values: str):
    data = {"decision": decision, "seen": digest(gate), "comment": "looked at it", **values}
    return client.post(reverse("gate_decide", args=[gate.pk]), data)


def text_of(client: Client, gate: GateEpisode, **query: str) -> str:
    answer = client.get(reverse("gate", args=[gate.pk]), query)
    assert answer.status_code == 200
    return marked(answer)


def page_of(gate: GateEpisode) -> report.GatePage:
    gate = GateEpisode.objects.select_related("relay__owner", "relay__reviewers", "leg").get(pk=gate.pk)
    return report.gate_page(gate, timezone.now(), *report.branch_tip(gate.relay))


# --- the way: who and when


def test_each_step_names_who_and_when(story: Story, gate: GateEpisode) -> None:
    rae = make_user("rae", "reviewer")
    assert post(as_user(rae), gate).status_code == 303
    now = timezone.now()
    gates.dispatch(story.relay.pk, now)
    gates.confirm(story.relay.pk, now)
    way = page_of(gate).way
    assert [(step.state, step.place, step.by) for step in way.steps] == [
        ("waiting", "was", ""), ("approved", "was", "rae"), ("requested", "was", "rae"),
        ("dispatched", "was", ""), ("confirmed", "now", ""),
    ]  # fmt: skip
    assert all(step.at for step in way.steps) and way.ended is None and way.before == ()


@pytest.mark.slow
def test_a_start_that_fails_begins_the_way_anew_and_keeps_the_one_before(story: Story, gate: GateEpisode) -> None:
    rae, sam = make_user("rae", "reviewer"), make_user("sam", "reviewer")
    post(as_user(rae), gate)
    gates.dispatch(story.relay.pk, timezone.now())
    assert gates.start_failed(story.relay.pk, "no space\nleft", timezone.now())
    Relay.objects.filter(pk=story.relay.pk).update(status="parked")
    way = page_of(gate).way
    assert [step.place for step in way.steps] == ["now", "", "", "", ""]
    assert [step.state for step in way.before] == ["approved", "requested", "dispatched"]
    text = text_of(as_user(sam), gate)
    assert "The start failed" in text and "the start failed: no space left" in text and "3 steps before" in text
    assert page_of(gate).approvals == ()
    assert post(as_user(rae), gate).status_code == 303  # the same person may approve in the new round
    assert Decision.objects.filter(act="approve").count() == 2


@pytest.mark.slow
@pytest.mark.parametrize("state", ["refused", "expired", "superseded"])
def test_how_it_left_the_way_is_said_with_who_and_why(story: Story, gate: GateEpisode, state: str) -> None:
    rae = make_user("rae", "reviewer")
    if state == "refused":
        post(as_user(rae), gate, "refuse")
    elif state == "expired":
        Relay.objects.update(policy={"gate_expiry": "30m"})
        gates.expire(timezone.now() + timedelta(hours=1))
    else:
        from relays.actions import park

        park.stop(Actor(make_user("pat", "operator")), story.relay.pk)
    found = page_of(gate)
    assert found.way.ended is not None and found.way.ended.at
    assert found.way.ended.state == state == GateEpisode.objects.get().state
    who, why = {"refused": ("rae", ""), "expired": ("", "30m"), "superseded": ("", "stopped by pat")}[state]
    assert found.way.ended.by == who and why in found.way.ended.why
    assert f"<b>{state}</b>" in text_of(as_user(rae), gate)


def test_an_episode_of_before_steps_were_kept_shows_what_is_known() -> None:
    gate = make_gate(make_relay(status="parked"), state=GateState.DISPATCHED)
    assert not GateChange.objects.exists()
    way = page_of(gate).way
    assert [(step.place, bool(step.at)) for step in way.steps] == [
        ("was", True), ("was", False), ("was", False), ("now", True), ("", False),
    ]  # fmt: skip


# --- twice, and at once


@pytest.mark.parametrize("decision", ["approve", "refuse"])
def test_a_double_click_is_one_decision_and_says_so(gate: GateEpisode, decision: str) -> None:
    client, looked = as_user(make_user("rae", "reviewer")), digest(gate)
    first = post(client, gate, decision, seen=looked)
    second = post(client, gate, decision, seen=looked)
    assert (first.status_code, second.status_code, second["Location"]) == (303, 303, first["Location"])
    assert Decision.objects.count() == 1
    assert "was recorded already, as decision 1" in text_of(client, gate)


def test_another_tab_with_another_limit_is_no_double_click(gate: GateEpisode) -> None:
    """Same person, same comment, same look: what the second tab carried is not said to be recorded."""
    client, looked = as_user(make_user("rae", "reviewer")), digest(gate)
    assert post(client, gate, seen=looked, sets="envelope.turns=400").status_code == 303
    other = post(client, gate, seen=looked, sets="envelope.turns=900")
    assert other.status_code == 409 and "it is requested, not waiting" in marked(other)
    assert post(client, gate, seen=looked, sets="envelope.turns=400").status_code == 303
    assert Decision.objects.filter(act="approve").count() == 1


@pytest.mark.slow
def test_another_comment_or_another_person_is_no_double_click(gate: GateEpisode) -> None:
    rae, sam, looked = make_user("rae", "reviewer"), make_user("sam", "reviewer"), digest(gate)
    post(as_user(rae), gate, seen=looked)
    for client, comment in ((as_user(rae), "other words"), (as_user(sam), "looked at it")):
        answer = post(client, gate, seen=looked, comment=comment)
        assert answer.status_code == 409
        text = marked(answer)
        assert "Nothing was decided" in text and "it is requested, not waiting" in text and comment in text
    assert Decision.objects.count() == 1


def test_decided_elsewhere_closes_the_open_page(gate: GateEpisode) -> None:
    rae, sam = as_user(make_user("rae", "reviewer")), as_user(make_user("sam", "reviewer"))
    looked = digest(gate)
    page = text_of(sam, gate)
    assert f"seen={looked}&amp;form=1" in page and 'id="r-acts"' in page
    query = {"part": "state", "seen": looked, "form": "1"}
    assert "hx-swap-oob" not in text_of(sam, gate, **query)
    post(rae, gate, seen=looked)
    part = text_of(sam, gate, **query)
    assert 'id="r-acts" hx-swap-oob="true"' in part and "By rae, meanwhile." in part
    assert 'value="approve"' not in part and "&amp;form=1" not in part
    # a page without buttons has none to close
    assert "hx-swap-oob" not in text_of(sam, gate, part="state", seen=looked)


# --- who may


def test_who_started_it_sees_why_not_and_may_refuse(story: Story, gate: GateEpisode) -> None:
    make_user("rae", "reviewer")
    owner = story.relay.owner
    owner.groups.add(*make_user("", "reviewer").groups.all())
    text = text_of(as_user(owner), gate)
    assert "You started this relay, so another reviewer approves it (four eyes): " in text and "rae" in text
    assert 'value="approve" disabled' in text and 'value="refuse">' in text
    assert post(as_user(owner), gate).status_code == 403
    assert not Decision.objects.exists()
    assert post(as_user(owner), gate, "refuse").status_code == 303


def test_fewer_than_two_and_four_eyes_do_not_bind(story: Story, gate: GateEpisode) -> None:
    owner = story.relay.owner
    owner.groups.add(*make_user("gone", "reviewer").groups.all())
    User.objects.filter(username="gone").update(is_active=False)
    client = as_user(owner)
    assert "Four eyes do not bind, since fewer than two people may approve" in text_of(client, gate)
    answer = client.post(
        reverse("gate_decide", args=[gate.pk]),
        {"decision": "approve", "seen": digest(gate), "comment": "alone"},
        follow=True,
    )
    assert "Four eyes did not bind: fewer than two people may approve." in marked(answer)
    assert "did not bind" in Decision.objects.get(act="approve").detail["note"]


@pytest.mark.slow
def test_n_of_m_names_who_approved_in_this_round(story: Story, gate: GateEpisode) -> None:
    Relay.objects.update(policy={"approvals": 2})
    rae, sam, kim = (make_user(name, "reviewer") for name in ("rae", "sam", "kim"))
    assert "1 approval is" not in text_of(as_user(rae), gate)
    assert "2 approvals wanted" in text_of(as_user(rae), gate)
    post(as_user(rae), gate)
    text = text_of(as_user(rae), gate)
    assert "1 of 2 approvals" in text and "You have approved it; somebody else approves too." in text
    assert 'value="approve" disabled' in text
    gates.open_episode(story.relay.pk, gate.token, leg=None, items=["one more"], now=timezone.now())
    text = text_of(as_user(rae), gate)
    assert "0 of 2 approvals" in text and "something new was asked: approvals of before have lapsed" in text
    post(as_user(sam), gate)
    post(as_user(kim), gate)
    found = page_of(gate)
    assert [one.name for one in found.approvals] == ["sam", "kim"] and found.gate.state == GateState.REQUESTED


@pytest.mark.slow
def test_too_few_who_may_approve_is_said_before_anybody_waits_for_them(gate: GateEpisode) -> None:
    Relay.objects.update(policy={"approvals": 3})
    assert "3 approvals are wanted and 1 may approve" in text_of(as_user(make_user("rae", "reviewer")), gate)


def test_a_group_decides_and_the_page_says_which(story: Story, gate: GateEpisode) -> None:
    rae, sam, ada = make_user("rae", "reviewer"), make_user("sam", "reviewer"), make_user("ada", "admin")
    reviewers.change_group(Actor(ada), "backend", add=["sam"])
    url = reverse("gate_reviewers", args=[gate.pk])
    assert as_user(rae).post(url, {"group": "backend", "comment": ""}).status_code == 400
    assert as_user(rae).post(url, {"group": "nothing", "comment": "x"}).status_code == 400
    assert as_user(make_user("max", "manager")).post(url, {"group": "backend", "comment": "x"}).status_code == 403
    assert as_user(make_user()).post(url, {"group": "backend", "comment": "x"}).status_code == 403
    assert as_user(rae).post(url, {"group": "backend", "comment": "theirs"}).status_code == 303
    text = text_of(as_user(rae), gate)
    side = marked(as_user(rae).get(f"/relays/{gate.relay_id}/?part=side"))
    assert re.search(r'<a href="/reviewers/">group backend</a>:\s*<span class="data">sam</span>', side), "its page too"
    assert "Only the group backend decides on this relay: sam." in text and 'value="approve"' not in text
    answer = post(as_user(rae), gate)
    assert answer.status_code == 403 and "only the reviewer group backend decides" in marked(answer)
    assert "looked at it" in marked(answer)
    assert as_user(rae).post(url, {"group": "", "comment": "back"}).status_code == 403
    assert 'group backend</a>: <span class="data">sam</span>' in text_of(as_user(sam), gate)
    assert post(as_user(sam), gate).status_code == 303


# --- what is shown


@pytest.mark.slow
def test_a_path_is_stored_only_where_the_stored_commit_holds_it(story: Story, gate: GateEpisode) -> None:
    (story.repo / "note.txt").write_text("seven b")
    sha = WorkTree(story.repo).store_wip(f"refs/relay/wip/{story.relay.pk}/1", "work in progress")
    reader = as_user(make_user("", "reviewer"))
    text = text_of(reader, gate)
    assert "0 stored, 2 not" in text
    Leg.objects.filter(pk=story.legs[-1].pk).update(wip_sha=sha)
    text = text_of(reader, gate)
    assert "1 stored, 1 not" in text and "7\xa0bytes" in text
    assert text.index("dump.sql</td>") < text.index("note.txt</td>")  # what is lost stands first
    Leg.objects.filter(pk=story.legs[-1].pk).update(wip_sha="0" * 40)
    assert "what is stored is not known" in text_of(reader, gate)


@pytest.mark.slow
def test_what_a_cold_prefix_costs(story: Story, gate: GateEpisode) -> None:
    """First writes at today's price, whatever was read from a cache then; no price is no figure."""
    relay = Relay.objects.get()
    first = Call.objects.get(leg=story.legs[-1], turn=1)
    assert "no price" in text_of(as_user(make_user("", "reviewer")), gate)
    Call.objects.filter(pk=first.pk).update(
        scripted=False, model="claude-sonnet-4-5", input_tokens=1000, cache_read=20_000, cache_write_5m=3_000,
        resident_tokens=24_000,
    )  # fmt: skip
    relay.agent = "claude-code"
    found = cold.cold_prefixes([relay], timezone.now())[relay.pk]
    # $3 a million of input, $3.75 of a write of five minutes
    assert (found.tokens, found.cost) == (24_000, Decimal("0.08925"))
    Call.objects.filter(pk=first.pk).update(cache_write_5m=0, cache_write_1h=3_000)
    assert cold.cold_prefixes([relay], timezone.now())[relay.pk].cost == Decimal("0.141")
    assert cold.cold_prefixes([make_relay()], timezone.now()) == {}


@pytest.mark.slow
def test_two_hundred_questions_and_an_answer_to_the_last(story: Story, gate: GateEpisode) -> None:
    leg = story.legs[-1]
    Fact.objects.bulk_create(
        Fact(
            leg=leg, seq=100 + n, kind="open_question", label=f"May file {n} go?", durability="durable",
            backing=f"file:work/{n}.md", verdict="verified", at=story.clock,
        )
        for n in range(199)
    )  # fmt: skip
    client = as_user(make_user("rae", "reviewer"))
    text = text_of(client, gate)
    assert "200 open questions" in text and text.count("May file ") == 2 * 199
    answer = post(client, gate, **{"ref-200": "file:work/198.md", "answer-200": "It may."})
    assert answer.status_code == 303, marked(answer)
    assert Decision.objects.get(act="answer").detail == {"of": 1, "question": "file:work/198.md", "answer": "It may."}


@pytest.mark.slow
def test_a_comment_of_ten_thousand_characters_whatever_the_line_ends(gate: GateEpisode) -> None:
    rae = as_user(make_user("rae", "reviewer"))
    long = "word\n" * 2000
    refused = post(rae, gate, comment=long.replace("\n", "\r\n") + "more than that")
    assert refused.status_code == 400
    assert "longer than 10000 characters" in marked(refused) and "more than that" in marked(refused)
    assert post(rae, gate, comment=long.replace("\n", "\r\n")).status_code == 303
    assert Decision.objects.get().comment == long.strip()
    text = text_of(rae, gate)
    assert "the whole comment" in text and escape("word\n" * 1990) in text


@pytest.mark.slow
def test_when_it_expires_is_said(gate: GateEpisode) -> None:
    Relay.objects.update(policy={"gate_expiry": "8h"})
    found = page_of(gate)
    assert found.expires_at == found.gate.state_at + timedelta(hours=8)
    assert "if nobody decides; the relay stays parked." in text_of(as_user(make_user("", "reviewer")), gate)


@pytest.mark.slow
def test_the_same_queries_for_a_small_and_a_large_episode(story: Story, gate: GateEpisode) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client = as_user(make_user("", "reviewer"))

    def count() -> int:
        with CaptureQueriesContext(connection) as found:
            text_of(client, gate)
        return len(found)

    few = count()
    for n in range(30):
        GateChange.objects.create(gate=gate, state="waiting", at=timezone.now(), by=make_user("", "reviewer"))
        Fact.objects.create(leg=story.legs[-1], seq=200 + n, kind="open_question", label=f"q {n}", at=story.clock)
    assert count() == few


@pytest.mark.slow
def test_groups_are_made_and_changed_by_an_admin_on_their_page(gate: GateEpisode) -> None:
    ada, rae = make_user("ada", "admin"), make_user("rae", "reviewer")
    url = reverse("reviewers")
    assert "No group yet" in marked(as_user(rae).get(url))
    assert as_user(rae).post(url, {"name": "backend", "add": "rae"}).status_code == 403
    assert as_user(ada).post(url, {"name": "backend", "add": "rae ada"}).status_code == 303
    answer = as_user(ada).post(url, {"name": "new", "add": "nobody <b>"})
    assert answer.status_code == 400 and "no such user: nobody, &lt;b&gt;" in marked(answer)
    assert 'value="nobody &lt;b&gt;"' in marked(answer)
    reviewers.give(Actor(ada), gate.relay_id, "backend", "theirs")
    assert as_user(ada).post(url, {"name": "backend", "remove": ["ada"]}).status_code == 303
    text = marked(as_user(ada).get(url))
    assert 'value="rae"> <span>take rae out' in text and 'value="ada"' not in text
    assert as_user(ada).post(url, {"name": "backend", "remove": ["rae"]}).status_code == 409
    assert [row.detail["group"] for row in Decision.objects.filter(act="group")] == ["backend", "backend"]
