"""rules.md, Reload: "SHAs and patch-ids of earlier legs never count again": one row for each thing that a leg made."""

from importlib import import_module
from pathlib import Path

import pytest
from django.apps import apps

from relays.driver import progress
from relays.models import Counted, Leg, Relay
from relays.reports import relay as relay_report
from tests.report_builders import Story
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db

DETAIL = {
    "made": ["a" * 40, "b" * 40],
    "commits": [{"sha": "a" * 40, "patch_id": "p"}],
    "issues": ["issue:#1"],
    "foreign": ["f" * 40],
    "patch_ids": ["p"],
    "refs": ["file:x"],
    "trees": ["t" * 40],
}


def rows() -> list[tuple[object, ...]]:
    found = Counted.objects.values_list("leg__number", "kind", "value", "counts", "shared")
    return sorted(found)


def ended(relay: Relay, detail: dict[str, object], number: int = 0) -> Leg:
    return make_leg(relay, number, reason="RELAY_ROTATED", progress=1, progress_detail=detail)


@pytest.fixture
def relay() -> Relay:
    return make_relay()


def test_a_leg_leaves_one_row_for_each_thing(relay: Relay) -> None:
    progress.keep(ended(relay, DETAIL), DETAIL)
    assert rows() == [
        (0, "commit", "a" * 40, True, False),
        (0, "commit", "b" * 40, False, False),
        (0, "foreign", "f" * 40, False, False),
        (0, "issue", "issue:#1", False, False),
        (0, "patch", "p", False, False),
        (0, "ref", "file:x", False, False),
        (0, "tree", "t" * 40, False, False),
    ]


def test_keeping_again_changes_nothing(relay: Relay) -> None:
    leg = ended(relay, DETAIL)
    progress.keep(leg, DETAIL)
    before = rows()
    progress.keep(leg, DETAIL)
    assert rows() == before


def test_a_commit_that_an_earlier_leg_made_is_marked(relay: Relay) -> None:
    progress.keep(ended(relay, DETAIL), DETAIL)
    again = {"made": ["b" * 40, "c" * 40]}
    progress.keep(ended(relay, again, 1), again)
    assert [row[2:] for row in rows() if row[0] == 1] == [("b" * 40, False, True), ("c" * 40, False, False)]


def test_another_relay_of_the_same_repository_shares_nothing(relay: Relay) -> None:
    progress.keep(ended(relay, DETAIL), DETAIL)
    progress.keep(ended(make_relay(), DETAIL), DETAIL)
    assert not any(shared for *_, shared in rows())


def test_a_leg_whose_stores_did_not_answer_leaves_nothing(relay: Relay) -> None:
    progress.keep(ended(relay, {}), {})
    assert rows() == []


def test_legs_that_ended_before_the_table_was_there_are_filled_in(relay: Relay) -> None:
    second = {**DETAIL, "made": ["b" * 40, "c" * 40], "commits": [{"sha": "c" * 40}]}
    legs = [(ended(relay, DETAIL), DETAIL), (ended(relay, second, 1), second)]
    make_leg(relay, 2, resident=[1000])
    legs.append((ended(make_relay(), DETAIL), DETAIL))
    import_module("relays.migrations.0006_counted").fill(apps, None)
    filled = rows()
    Counted.objects.all().delete()
    for leg, detail in legs:
        progress.keep(leg, detail)
    assert rows() == filled and len(filled) == 21


def test_what_a_done_relay_made_is_counted_from_rows(tmp_path: Path) -> None:
    story = Story(tmp_path / "repo")
    story.leg(turns=2)
    story.leg(turns=2)
    story.relay.status = "done"
    finished = relay_report.head(story.relay).finished
    assert finished is not None
    assert finished.commits == 2
