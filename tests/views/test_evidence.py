"""The evidence behind the readout on a relay's page: every kind, its pages, hostile text, and a constant cost."""

from collections.abc import Callable
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from relays.models import Assumption, PageFault, Promotion, ToolUse
from relays.reports.evidence import KINDS, LINES, SHOWN, addresses, evidence
from tests.reading import marked
from tests.report_builders import Story
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]
BAD = '"><script>alert(1)</script>{{7*7}}'


def fill(leg, number: int) -> None:  # type: ignore[no-untyped-def]
    at = timezone.now()
    for n in range(number):
        Assumption.objects.create(
            leg=leg, key=f"{n}{BAD}", statement=BAD, source="inferred", confidence=0.1, action="query", at=at
        )
        Promotion.objects.create(leg=leg, seq=n, slug=f"{n}{BAD}", durability=BAD[:40], outcome="ambiguous", at=at)
        PageFault.objects.create(leg=leg, seq=n, kind="file", ref=f"{n}{BAD}", required=True, outcome="deny", at=at)
        ToolUse.objects.create(leg=leg, number=n, verb="recall", about=BAD, words=BAD, refused=True, at=at)


def records(client: Client, relay_id: str, query: str) -> str:
    answer = client.get(f"/relays/{relay_id}/?tab=evidence&{query}")
    assert answer.status_code == 200
    return marked(answer).partition('id="records"')[2].partition("</section>")[0]


def test_every_line_of_the_readout_has_a_kind_and_an_address() -> None:
    assert set(LINES.values()) <= set(KINDS)
    assert all(address.startswith("/relays/RLY-1/?tab=evidence&of=") for address in addresses("RLY-1").values())


def test_without_a_record_a_kind_says_not_yet_and_an_unknown_one_is_the_first(client_of: ClientOf) -> None:
    relay = make_relay(policy={})
    assert "Not yet" in records(client_of("manager"), relay.pk, "of=memory")
    assert [kind for kind in KINDS if evidence(relay, kind).rows] == ["budget"]
    assert evidence(relay, "nothing").kind == next(iter(KINDS))


@pytest.mark.parametrize("kind", ["assumptions", "memory", "faults", "tool"])
def test_older_ones_are_a_page_away(kind: str) -> None:
    relay = make_relay()
    fill(make_leg(relay), SHOWN + 5)
    first = evidence(relay, kind)
    second = evidence(relay, kind, first.older)
    assert (len(first.rows), len(second.rows), second.older) == (SHOWN, 5, "")
    assert len({row for found in (first, second) for row in found.rows}) == SHOWN + 5


def test_what_agents_wrote_is_text_and_a_live_page_asks_for_what_it_shows(client_of: ClientOf) -> None:
    relay = make_relay()
    fill(make_leg(relay), 2)
    client = client_of("manager")
    for kind in ("assumptions", "memory", "faults", "tool"):
        page = marked(client.get(f"/relays/{relay.pk}/?part=records&tab=evidence&of={kind}"))
        assert "<script>alert" not in page
        assert page.count("<tr>") == 3
        assert f"tab=evidence&amp;of={kind}" in page


def test_it_costs_the_same_for_a_small_and_a_large_relay(tmp_path: Path) -> None:
    cost: dict[str, list[int]] = {kind: [] for kind in KINDS}
    for size in (2, 6):
        story = Story(tmp_path / f"repo-{size}")
        for _ in range(size):
            fill(story.leg(turns=3), size)
        for kind in KINDS:
            with CaptureQueriesContext(connection) as asked:
                evidence(story.relay, kind)
            cost[kind].append(len(asked))
    assert {kind: counts[0] for kind, counts in cost.items()} == {kind: counts[1] for kind, counts in cost.items()}
    assert max(max(counts) for counts in cost.values()) < 10


@pytest.mark.parametrize("rows", ["-1", "x", "9" * 30, "0", "\0", "1e3"])
def test_an_odd_place_to_go_on_from_breaks_nothing(rows: str) -> None:
    relay = make_relay()
    fill(make_leg(relay), 2)
    for kind in KINDS:
        evidence(relay, kind, rows)
