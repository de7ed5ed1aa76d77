"""The relay's page: what it shows, what it refuses, and that it costs the same for a small and a large relay."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils.html import escape

from relays.models import Counted, Decision, Leg, Relay, RelayStatus
from relays.reports import status
from relays.views.csvfile import cell
from tests import builders
from tests.reading import marked
from tests.report_builders import Story
from tests.web_builders import bump, make_leg, make_relay

pytestmark = pytest.mark.django_db
Clients = Callable[..., Client]
PARTS = ("head", "kpis", "series", "chart", "legs", "side", "records")


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = Story(tmp_path / "repo", objective="Close <b>all</b> issues")
    told.leg(turns=5)
    told.leg(turns=5, holds=("NO_NEXT_ACTION",))
    return told


def page(client: Client, relay: Relay, **query: object) -> str:
    response = client.get(reverse("relay", args=[relay.pk]), query)
    assert response.status_code == 200
    return marked(response)


def test_sign_in_and_a_role_are_needed(story: Story, client: Client, client_of: Clients) -> None:
    url = reverse("relay", args=[story.relay.pk])
    assert client.get(url).status_code == 302
    assert client_of().get(url).status_code == 403
    assert client_of("manager").get(url).status_code == 200
    assert client_of("manager").get(reverse("relay", args=["RLY-nope"])).status_code == 404
    assert client_of("manager").get(url, {"part": "nope"}).status_code == 404


def test_what_the_page_shows(story: Story, client_of: Clients) -> None:
    story.leg(turns=5, reason="")
    text = page(client_of("operator"), story.relay)
    assert escape("Close <b>all</b> issues") in text
    assert "<b>all</b>" not in text
    for word in (
        "RELAY_ROTATED",
        "NO_NEXT_ACTION",
        "scripted worker",
        "Operator readout",
        "not yet",
        "holds",
        "unpriced",
    ):
        assert word in text
    assert text.count('data-row="leg-') == 3
    assert f"relay:{story.relay.pk}" in text
    assert "style=" not in text.replace("plotly.js-style-global", "")
    figure = json.loads(text.split('<script id="d-flat" type="application/json">')[1].split("</script>")[0])
    assert [y for trace in figure["figure"]["data"][:2] for y in trace["y"] if y is not None]


def test_a_low_budget_is_said_on_page_and_lists(story: Story, client_of: Clients) -> None:
    """rules.md, Budgets: "One warning when an axis first falls under a fifth"."""
    client = client_of("manager")
    low = {
        "status": "running", "turns_used": 35, "spend_used": "8.50", "warned_axes": ["turns", "spend"],
        "policy": {"envelope": {"turns": 40, "spend": "10"}},
    }  # fmt: skip
    Relay.objects.filter(pk=story.relay.pk).update(**low)
    text = marked(client.get(reverse("relay", args=[story.relay.pk])))
    assert "Under a fifth is left: money, turns" in text
    assert "turns 5 of 40" in text
    for name in ("relays", "needs_you"):
        assert "under a fifth is left: " in marked(client.get(reverse(name)))
    Relay.objects.filter(pk=story.relay.pk).update(warned_axes=[])
    assert "Under a fifth" not in marked(client.get(reverse("relay", args=[story.relay.pk])))


def test_findings_about_the_repository_are_shown_as_text(story: Story, client_of: Clients) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(findings=["config key <b>core.fsmonitor</b> would run a program"])
    text = marked(client_of("manager").get(reverse("relay", args=[story.relay.pk])))
    assert "config key &lt;b&gt;core.fsmonitor&lt;/b&gt; would run a program" in text


def test_the_gate_that_waits_is_the_loud_thing(story: Story, client_of: Clients) -> None:
    story.leg(
        turns=5, peak=178_000, reason="RELAY_PARKED_UNSAFE", cause="ceiling", hold="TREE_DIRTY_UNPARKED", made=False
    )
    gate = story.park()
    text = page(client_of("operator"), story.relay)
    assert text.count("btn-loud") == 1
    assert "Leg 2 reached its ceiling at 178,000 tokens without a safe point" in text
    assert f'href="{reverse("gate", args=[gate.pk])}"' in text
    assert f"Resume: gate {gate.pk} needs a decision first." in text


def test_a_done_relay_says_how_to_merge_and_shows_its_diff(story: Story, client_of: Clients) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(
        status=RelayStatus.DONE, ended_at=story.clock, ended_reason="RELAY_GOAL_DONE"
    )
    client = client_of("operator")
    text = page(client, story.relay, tab="diff")
    assert "Done: 2 commits" in text
    assert f"merge --no-ff {story.relay.branch}" in text
    assert "+++ b/work/2.md" in text
    assert "act-park" in text
    assert 'form="act-park"' not in text  # nothing to do on a relay that is done


def test_what_is_merged_and_is_no_verified_progress_is_said_first(story: Story, client_of: Clients) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(status=RelayStatus.DONE, ended_at=story.clock)
    client = client_of("operator")
    assert "no verified progress" not in page(client, story.relay)
    for n in range(2):
        Counted.objects.create(relay=story.relay, leg=story.legs[0], kind="commit", value=f"{n:040x}", counts=False)
    again = {"relay": story.relay, "leg": story.legs[1], "kind": "commit", "value": f"{1:040x}"}
    Counted.objects.create(**again, shared=True)
    text = page(client, story.relay)
    assert "Done: 4 commits on" in text and "2 of them are no verified progress" in text


def test_a_done_relay_that_was_merged_says_so(story: Story, client_of: Clients) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(status=RelayStatus.DONE, ended_at=story.clock)
    client, url = client_of("operator"), story.relay
    builders.git(story.repo, "checkout", "-q", "-b", "main-line", story.relay.start_sha)
    builders.commit(story.repo, {"other.txt": "x\n"}, "Meanwhile")
    assert f"merge --no-ff {story.relay.branch}" in page(client, url)
    builders.git(story.repo, "merge", "-q", "--no-ff", "-m", "Take it", story.relay.branch)
    text = page(client, url)
    assert "into main-line, which is checked out" in text and "merge --no-ff" not in text
    story.repo.rename(story.repo.with_name("gone"))
    assert "The branch is not known:" in page(client, url)


def test_a_relay_that_worked_in_place_has_nothing_to_merge(story: Story, client_of: Clients) -> None:
    policy = {**story.relay.policy, "workspace": "in_place"}
    Relay.objects.filter(pk=story.relay.pk).update(status=RelayStatus.DONE, ended_at=story.clock, policy=policy)
    text = page(client_of("operator"), story.relay)
    assert "merge --no-ff" not in text
    assert f"its commits are on {story.relay.branch} of {story.relay.repo} already" in text


def test_a_very_long_objective_leaves_what_waits_in_sight(story: Story, client_of: Clients) -> None:
    words = "Make every call site use the decimal type. " * 90 + "The end of it."
    Relay.objects.filter(pk=story.relay.pk).update(objective=words)
    story.relay.refresh_from_db()
    gate = story.park()
    for url in (reverse("relay", args=[story.relay.pk]), reverse("gate", args=[gate.pk])):
        text = marked(client_of("reviewer").get(url))
        head, _, rest = text[text.index("<h1") :].partition("The whole objective</summary>")
        assert "The end of it." not in head
        assert f'<p class="pre data">{words}</p>' in rest


def test_only_a_normal_end_is_quiet_among_the_marks_of_the_graph(story: Story, client_of: Clients) -> None:
    story.leg(turns=5, peak=178_000, reason="RELAY_PARKED_UNSAFE", cause="ceiling", made=False)
    story.park()
    text = page(client_of("operator"), story.relay)
    marks = text[text.index('aria-label="Marks of the graph"') :]
    marks = marks[: marks.index("</table>")]
    assert 'class="tok tok-quiet" href="/vocabulary/#RELAY_ROTATED"' in marks
    assert 'class="tok tok-gate" href="/vocabulary/#RELAY_PARKED_UNSAFE"' in marks


def test_a_relays_decisions_say_what_was_decided_and_lead_to_the_chain(story: Story, client_of: Clients) -> None:
    client = client_of("operator")
    client.post(reverse("relay_restate", args=[story.relay.pk]), {"objective": "Another goal", "comment": "Too wide"})
    decision = Decision.objects.get(act="objective")
    text = page(client, story.relay, tab="decisions")
    story.relay.refresh_from_db()
    records = text[text.index('id="records"') :]
    assert "Too wide" in records and f'data-copy="{story.relay.objective_digest}"' in records
    assert f'href="/decisions/?before={decision.seq + 1}#d-{decision.seq}"' in records


def test_a_commit_among_pointers_is_short_and_copies_whole(story: Story, client_of: Clients) -> None:
    sha = story.legs[0].end_sha
    for url in (
        reverse("relay", args=[story.relay.pk]) + "?tab=ledger", reverse("leg", args=[story.relay.pk, 0]),
    ):  # fmt: skip
        text = marked(client_of("manager").get(url))
        assert f'<span class="mono">commit</span> <button class="sha" type="button" data-copy="{sha}"' in text
        assert f">commit:{sha}<" not in text


@pytest.mark.parametrize("part", PARTS)
def test_a_part_is_sent_once_until_it_changes(story: Story, client_of: Clients, part: str) -> None:
    client, url = client_of("operator"), reverse("relay", args=[story.relay.pk])
    first = client.get(url, {"part": part})
    assert first.status_code == 200
    assert "csrfmiddlewaretoken" not in marked(first)
    again = client.get(url, {"part": part}, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    story.leg(turns=9, reason="")
    bump(f"relay:{story.relay.pk}")
    changed = client.get(url, {"part": part}, headers={"If-None-Match": first["ETag"]})
    assert changed.status_code == (304 if part == "records" else 200)


def test_the_chart_comes_as_json(story: Story, client_of: Clients) -> None:
    response = client_of("manager").get(reverse("relay", args=[story.relay.pk]), {"part": "chart"})
    assert response["Content-Type"] == "application/json"
    assert set(json.loads(response.content)) == {"figure", "alternative"}


def test_tabs_and_pages_of_records(story: Story, client_of: Clients) -> None:
    client = client_of("manager")
    assert "what was done" in page(client, story.relay, tab="ledger")
    assert "No decision yet" in page(client, story.relay, tab="decisions")
    held = page(client, story.relay, tab="boundaries", held="1")
    assert held.count('data-row="bd-') == 1
    assert page(client, story.relay, tab="boundaries", rows="junk").count('data-row="bd-') == 10


def test_the_page_asks_as_often_for_sixty_legs_as_for_three(client_of: Clients) -> None:
    client, counts = client_of("operator"), []
    for legs in (3, 60):
        relay = make_relay()
        for number in range(legs):
            make_leg(relay, number, resident=[20_000, 125_000], reason="RELAY_ROTATED", fidelity_verified=3)
        page(client, relay)  # what is asked once per process is asked
        with CaptureQueriesContext(connection) as asked:
            text = page(client, relay)
        counts.append(len(asked))
        assert text.count('data-row="leg-') == min(legs, 50)
    assert counts[0] == counts[1]
    older = page(client, relay, before="10")
    assert older.count('data-row="leg-') == 10


# ---- acts ---------------------------------------------------------------------------------------------------------


def test_acts_of_a_running_relay(story: Story, client_of: Clients) -> None:
    story.leg(turns=3, reason="")
    text = page(client_of("operator"), story.relay)
    for name in ("park", "park_now", "stop", "stop_now"):
        assert f'type="submit" form="act-{name}"' in text
        assert f'<form id="act-{name}" method="post"' in text
    assert 'form="act-resume"' not in text
    reading = page(client_of("manager"), story.relay)
    assert "needs the role operator" in reading
    assert 'type="submit" form="act-park"' not in reading


def test_park_is_recorded_and_said(story: Story, client_of: Clients) -> None:
    leg = story.leg(turns=3, reason="")
    client = client_of("operator")
    response = client.post(reverse("relay_park", args=[story.relay.pk]), {"comment": "lunch"}, follow=True)
    assert response.redirect_chain == [(reverse("relay", args=[story.relay.pk]), 303)]
    assert f"leg {leg.number} ends at its next safe point" in marked(response)
    assert Decision.objects.get().comment == "lunch"
    assert Relay.objects.get(pk=story.relay.pk).park == "drain"
    assert 'form="act-resume"' in page(client, story.relay)  # withdraw


def test_resume_says_what_is_true_before_the_relay_was_checked(story: Story, client_of: Clients) -> None:
    """rules.md, Done: it is checked before a leg starts, so a resume may end the relay, or let a watch rest."""
    Relay.objects.filter(pk=story.relay.pk).update(status=RelayStatus.PARKED)
    client = client_of("operator")
    assert "It is checked first; leg 2 starts from the current baton unless it is done" in page(client, story.relay)
    response = client.post(reverse("relay_resume", args=[story.relay.pk]), follow=True)
    assert "the next leg starts unless it is done or may rest" in marked(response)


def test_a_fact_is_stated_shown_as_text_and_taken_back(story: Story, client_of: Clients) -> None:
    """interface.md, Pages 3: "pins and explicit user facts can be added and removed as decisions"."""
    url, client = reverse("relay_facts", args=[story.relay.pk]), client_of("operator")
    assert 'form="act-facts"' in page(client, story.relay)
    said = marked(client.post(url, {"do": "fact", "stated": "<b>The port</b> is 8001."}, follow=True))
    assert "Recorded: the next leg is given what stands now." in said
    assert "&lt;b&gt;The port&lt;/b&gt; is 8001." in said and "<b>The port</b>" not in said
    client.post(url, {"do": "pin", "stated": "#1"})
    assert [row.act for row in Decision.objects.order_by("seq")] == ["fact_add", "pin_add"]
    assert 'value="pin issue:#1"' in page(client, story.relay)
    client.post(url, {"do": "pin issue:#1"})
    text = page(client, story.relay)
    assert "issue:#1" not in text.partition("Pins and facts")[2].partition("</section>")[0]
    refused = marked(client.post(url, {"do": "all", "stated": "x"}, follow=True))
    assert "say whether it is a fact or a pin" in refused and Decision.objects.count() == 3
    reading = page(client_of("manager"), story.relay)
    assert "is 8001." in reading and 'form="act-facts"' not in reading
    assert client_of("manager").post(url, {"do": "pin", "stated": "#1"}).status_code == 403


def test_a_refusal_is_one_line_on_the_page(story: Story, client_of: Clients) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(status=RelayStatus.DONE, ended_at=story.clock)
    response = client_of("operator").post(reverse("relay_stop", args=[story.relay.pk]), follow=True)
    assert "a done relay stays done" in marked(response)
    assert not Decision.objects.exists()


@pytest.mark.parametrize("name", ["park", "park_now", "stop", "stop_now", "resume"])
def test_acts_need_post_and_the_role(story: Story, client_of: Clients, name: str) -> None:
    url = reverse(f"relay_{name}", args=[story.relay.pk])
    assert client_of("operator").get(url).status_code == 405
    assert client_of("manager", "reviewer").post(url).status_code == 403
    checked = Client(enforce_csrf_checks=True)
    checked.force_login(story.relay.owner)
    assert checked.post(url).status_code == 403
    assert not Decision.objects.exists()


# ---- csv ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("=1+1", "'=1+1"),
        ("+x", "'+x"),
        ("-x", "'-x"),
        ("@x", "'@x"),
        ("\tx", "'\tx"),
        ("a=b", "a=b"),
        (-5, "-5"),
        (None, ""),
        (True, "yes"),
    ],
)
def test_no_cell_is_a_formula(value: object, text: str) -> None:
    assert cell(value) == text


def test_tables_as_csv(story: Story, client_of: Clients) -> None:
    client = client_of("manager")
    Leg.objects.filter(pk=story.legs[0].pk).update(model="=cmd()")
    url = reverse("relay", args=[story.relay.pk])
    legs = b"".join(client.get(url, {"format": "csv", "of": "legs"})).decode().splitlines()
    turns = b"".join(client.get(url, {"format": "csv", "of": "turns"})).decode().splitlines()
    assert (len(legs), len(turns)) == (3, 11)
    assert legs[1].startswith("0,ended,RELAY_ROTATED,")
    assert client.get(url, {"format": "csv", "of": "nope"}).status_code == 404


def test_a_watch_that_rests_says_how_often_it_was_looked_at(client_of: Clients) -> None:
    """rules.md, No progress and watch: a quiet check leaves no record but its count."""
    relay = make_relay(status="idle", watch=True, status_why="done_when holds", idle_looks=1)
    assert "done_when holds; 1 quiet check since" in page(client_of("manager"), relay)
    Relay.objects.filter(pk=relay.pk).update(idle_looks=4200)
    assert "; 4,200 quiet checks since" in page(client_of("manager"), relay)
    assert status.status(relay.pk)["idle_looks"] == 4200
    Relay.objects.filter(pk=relay.pk).update(status="waiting")
    assert "quiet check" not in page(client_of("manager"), relay)
    assert status.status(relay.pk)["idle_looks"] is None
