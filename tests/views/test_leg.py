"""The leg's page: turns with their boundaries, facts, progress and tombstone."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from relays.driver import rebaton
from relays.models import Baton, Boundary, Call, Fact, Leg, Relay, ResetTransaction
from relays.reports import legs, made, seed
from relays.templatetags.words import grouped
from tests.reading import marked
from tests.report_builders import Story
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db
Clients = Callable[..., Client]


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = Story(tmp_path / "repo")
    told.leg(turns=4)
    told.leg(turns=120, holds=("TREE_DIRTY_UNPARKED", "TREE_DIRTY_UNPARKED", "NO_NEXT_ACTION"))
    return told


def page(client: Client, relay: Relay, number: int, **query: object) -> str:
    response = client.get(reverse("leg", args=[relay.pk, number]), query)
    assert response.status_code == 200
    return marked(response)


def test_what_the_page_shows(story: Story, client_of: Clients) -> None:
    Fact.objects.create(
        leg=story.legs[1], seq=90, kind="fact", label="<i>raw</i>", durability="durable", at=timezone.now()
    )
    text = page(client_of("manager"), story.relay, 1, page=3)
    for words in (
        "TREE_DIRTY_UNPARKED",
        "NO_NEXT_ACTION",
        "wind_down",
        "Close issue 2",
        "issue:#2",
        "Tombstone",
        escape("<i>raw</i>"),
    ):
        assert words in text
    assert "<i>raw</i>" not in text
    assert reverse("leg", args=[story.relay.pk, 0]) in text


def test_what_the_detector_found_and_what_no_gate_can_see(story: Story, client_of: Clients) -> None:
    """rules.md, Externalize gate: "The page says what a gate cannot see"."""
    blind = "A gate cannot see facts that were neither declared nor left a trace."
    leg = story.legs[1]
    Fact.objects.create(
        leg=leg, seq=0, kind="detected", durability="file_outside", label="/srv/<b>x</b>", at=timezone.now()
    )
    text = page(client_of("manager"), story.relay, 1)
    assert "a file outside the repository" in text
    assert escape("/srv/<b>x</b>") in text
    assert blind in text
    Fact.objects.filter(leg=leg).delete()
    assert blind in page(client_of("manager"), story.relay, 1)


def test_a_hold_that_kept_nobody_is_marked(story: Story, client_of: Clients) -> None:
    """rules.md, Advisory before enforcement: "Shadow and advise never hold"; what they record is marked as that."""
    leg = story.legs[1]
    mark = '<span class="dim">advisory</span>'
    held = list(leg.boundaries.exclude(hold="").order_by("number"))
    assert len(held) == 3 and not any(one.advisory for one in held)
    assert mark not in page(client_of("manager"), story.relay, 1)
    would = {"step": "wind_down", "hold": held[0].hold, "end": False, "cause": ""}
    Boundary.objects.filter(pk__in=[one.pk for one in held[:2]]).update(decision={"would": would})
    Boundary.objects.filter(pk=held[2].pk).update(decision={"would": {}})
    assert page(client_of("manager"), story.relay, 1, page=3).count(mark) == 2
    records = client_of("manager").get(reverse("relay", args=[story.relay.pk]), {"tab": "boundaries", "held": 1})
    assert marked(records).count(mark) == 2


def test_findings_of_a_leg_are_marked(story: Story, client_of: Clients) -> None:
    """rules.md, Verified progress: "a commit outside the region is a finding, not progress"; so are foreign ones."""
    leg = story.legs[0]
    detail = {**leg.progress_detail, "foreign": ["a" * 40], "outside": ["b" * 40], "lost": ["c" * 40]}
    Leg.objects.filter(pk=leg.pk).update(progress_detail=detail)
    text = page(client_of("manager"), story.relay, 0)
    for sha in ("a" * 40, "b" * 40, "c" * 40):
        assert f'data-copy="{sha}"' in text
    assert text.count("a finding") == 3
    assert text.count("ver-stale") == 3


@pytest.mark.parametrize(
    ("made", "reached", "shown"),
    [(None, None, "not yet"), (4, 4, "4/4"), (4, 3, "3/4"), (0, 0, "0/0")],
)
def test_coverage_is_shown(made: int | None, reached: int | None, shown: str, story: Story, client_of: Clients) -> None:
    Leg.objects.filter(pk=story.legs[1].pk).update(coverage_made=made, coverage_reached=reached)
    text = page(client_of("manager"), story.relay, 1)
    cell = text.partition(">coverage</a></dt><dd>")[2].partition("</dd>")[0]
    assert shown in cell
    assert ("ver-violated" in cell) == (made != reached)


def test_turns_are_paged_and_a_turn_can_be_named(story: Story) -> None:
    first = legs.leg_page(story.relay, 1, timezone.now(), 1)
    second = legs.leg_page(story.relay, 1, timezone.now(), 2)
    assert first is not None
    assert second is not None
    assert [len(one.turns) for one in (first, second)] == [50, 50]
    assert (first.pages, second.turns[0].call.turn) == (3, 51)
    assert first.turns[0].growth is None
    assert second.turns[0].growth == second.turns[0].call.resident_tokens - first.turns[-1].call.resident_tokens
    assert all(turn.boundary and turn.boundary.turn == turn.call.turn for turn in second.turns)


def test_what_held_is_cut_at_a_word_and_all_of_it_stays_in_reach(story: Story, client_of: Clients) -> None:
    paths = [f"src/orders/part {n:02}.py" for n in range(20)]
    held = Boundary.objects.filter(leg=story.legs[0]).order_by("number")
    held.filter(number=0).update(hold="TREE_DIRTY_UNPARKED", hold_detail=paths)
    held.filter(number=1).update(hold="TREE_DIRTY_UNPARKED", hold_detail=["x" * 300])
    found = legs.leg_page(story.relay, 0, timezone.now())
    assert found is not None
    first, second = found.turns[:2]
    whole = "; ".join(paths)
    assert first.detail == whole
    shown = first.short.removesuffix(" …")
    assert first.short.endswith(" …") and len(shown) <= legs.DETAIL_CHARS
    assert whole.startswith(shown) and whole[len(shown)] in " ;", "no word is cut"
    assert second.short == f"{'x' * legs.DETAIL_CHARS} …", "a path without a blank is cut where the row ends"
    text = page(client_of("manager"), story.relay, 0)
    assert f"<summary>{first.short}</summary>" in text and whole in text


def test_a_side_call_is_no_resident_turn(story: Story) -> None:
    Call.objects.create(leg=story.legs[0], key="side", turn=2, main=False, output_tokens=5, at=timezone.now())
    found = legs.leg_page(story.relay, 0, timezone.now())
    assert found is not None
    assert [turn.call.main for turn in found.turns].count(False) == 1
    assert next(turn for turn in found.turns if not turn.call.main).boundary is None
    assert len(found.turns) == 5


def test_the_seed_is_that_of_the_baton_that_it_started_from(story: Story, client_of: Clients) -> None:
    """rules.md, Reset transaction: "seed digest", of what really crossed; what wrote a later baton is said in words."""
    text = page(client_of("manager"), story.relay, 1)
    recorded = ResetTransaction.objects.get(new_leg=story.legs[1])
    assert f'data-copy="{recorded.seed_digest}"' in text and "written after the rotation" not in text
    assert " bytes</span>" not in text, "this record does not say how large it was"
    handed = Baton.objects.get(leg=story.legs[0])
    rebaton.after_idle(story.relay, handed, "Look at the stub.", story.legs[1].started_at or timezone.now())
    text = page(client_of("manager"), story.relay, 1)
    assert "with the baton of a watch that woke, written after the rotation" in text
    begun = seed.of(recorded)
    assert begun is not None and begun.size and f">{grouped(begun.size)} bytes</span>" in text
    assert f'data-copy="{recorded.seed_digest}"' not in text


def test_a_leg_that_runs_says_not_yet(client_of: Clients) -> None:
    relay = make_relay()
    make_leg(relay, 0, resident=[20_000])
    text = page(client_of("manager"), relay, 0)
    assert "The leg has not ended." in text
    assert "counted when the leg ends" in text


def test_missing_legs_and_parts(story: Story, client_of: Clients) -> None:
    client = client_of("manager")
    assert client.get(reverse("leg", args=[story.relay.pk, 7])).status_code == 404
    url = reverse("leg", args=[story.relay.pk, 0])
    assert client.get(url, {"part": "nope"}).status_code == 404
    part = client.get(url, {"part": "leg"})
    assert client.get(url, {"part": "leg"}, headers={"If-None-Match": part["ETag"]}).status_code == 304
    assert client_of().get(url).status_code == 403


def test_the_page_asks_as_often_for_a_long_leg_as_for_a_short_one(client_of: Clients) -> None:
    client, counts = client_of("manager"), []
    for turns in (2, 400):
        relay = make_relay()
        make_leg(relay, 0, resident=[20_000] * turns)
        page(client, relay, 0)
        with CaptureQueriesContext(connection) as asked:
            page(client, relay, 0)
        counts.append(len(asked))
    assert counts[0] == counts[1]
    assert Leg.objects.count() == 2


@pytest.mark.parametrize(
    ("item", "ref", "line"),
    [
        ("a" * 40, "a" * 40, ""),
        ({"sha": "b", "subject": "S", "added": 2}, "b", "subject S; added 2"),
        (["c", 1], "c", "1"),
    ],
)
def test_progress_reads_any_form_of_record(item: object, ref: str, line: str) -> None:
    (group,) = made.progress_groups({"commits": [item]})
    assert (group.count, group.words, group.finding, group.items) == (1, "commit in the region", False, ((ref, line),))


def test_a_finding_is_one_in_every_language_and_all_are_counted_though_some_are_shown():
    (group,) = made.progress_groups({"foreign": ["a" * 40] * (made.FACTS + 1)})
    assert (group.count, len(group.items), group.finding) == (made.FACTS + 1, made.FACTS, True)
    assert group.words == "foreign commits, by others: a finding, not progress"
