"""What is read again after compactions, from files as an agent writes them; what rotations read again, from records."""

import json
from pathlib import Path
from typing import Any

import pytest

from relays.costs import faithful, refresh, rollups
from relays.models import Comparison, CostDue, Event, Fact, Leg, PageFault, Relay, Session
from relays.reports import status
from relays.sessions import run
from tests.costs.relays import add_leg
from tests.report_builders import make_relay
from tests.sessions.claude_lines import answer, asks, boundary, result, said, usage

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.postgres]


def session_file(folder: Path, compactions: int, again: int) -> Path:
    """Before each compaction ten files are read; after it, `again` of them within 20 calls and the rest later."""
    records: list[Any] = [said(1)]
    resident = 30_000

    def read(*files: str) -> None:
        nonlocal resident
        for file in files:
            n = len(records) + 1
            records.append(answer(n, f"m{n}", usage(resident, short=100), asks(f"t{n}", "Read", file_path=file)))
            records.append(result(n + 1, f"t{n}"))
            resident += 2_000

    for number in range(compactions):
        files = [f"/srv/project/{number}-{one}.py" for one in range(10)]
        read(*files)
        records.append(boundary(len(records) + 1, {"trigger": "auto", "preTokens": resident}))
        resident = 40_000
        read(*files[:again])
        read(*(f"/srv/project/other-{number}-{one}.py" for one in range(20 - again)))
        read(*files[again:])
        records.append(boundary(len(records) + 1, {"trigger": "auto", "preTokens": resident}))
        resident = 40_000
    path = folder / f"{compactions}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def test_the_share_read_again_within_twenty_calls_of_a_compaction(tmp_path: Path) -> None:
    run.import_paths([session_file(tmp_path, 1, 4)])
    session = Session.objects.get()
    assert session.compactions == 2
    rollups.cut_sessions([session.pk])
    # of the second one, after which no call came, nothing is measured
    [first] = CostDue.objects.get(session=session).cuts
    assert first["again"] == [10, 4]
    row = refresh.compute_session(session)
    assert row.faithful["rows"][0] == ["read again within 20 calls after compactions", 0.4, 1]
    assert row.faithful["verdict"] == "not yet"


def rotated(legs: int, recalled: int) -> Relay:
    """Each leg holds ten references and its baton reaches what it made; the next recalls `recalled` of them."""
    relay = make_relay()
    for number in range(legs):
        leg = add_leg(relay, number, [20_000 + 3_000 * step for step in range(25)], effect=2)
        Leg.objects.filter(pk=leg.pk).update(coverage_made=4, coverage_reached=4)
        for one in range(9):
            Fact.objects.create(
                leg=leg, seq=100 + one, kind="fact", label="x", backing=f"file:{number}-{one}.py", at=leg.ended_at
            )
        Event.objects.create(leg=leg, seq=200, kind="file_written", payload={"path": f"{number}-9.py"}, at=leg.ended_at)
        for one in range(recalled if number else 0):
            PageFault.objects.create(
                leg=leg, seq=15 + one, kind="file", ref=f"{number - 1}-{one}.py", required=False, outcome="page_in",
                at=leg.ended_at,
            )  # fmt: skip
        # later than its first 20 calls: that is no orientation any more
        PageFault.objects.create(
            leg=leg, seq=245, kind="file", ref=f"{number - 1}-8.py", required=False, outcome="page_in", at=leg.ended_at
        )
    return relay


def test_what_a_fresh_leg_recalls_in_its_first_twenty_calls() -> None:
    found = faithful.rotations(rotated(4, 3))
    # the late recall is a reference that the leg held, too
    assert [(one.read.resident, one.read.again) for one in found if one.read] == [(11, 3), (14, 3), (14, 3)]
    assert [(one.made, one.reached) for one in found] == [(4, 4)] * 3


def test_an_agent_that_reports_no_recall_says_nothing_of_it() -> None:
    relay = rotated(3, 0)
    PageFault.objects.all().delete()
    assert [one.read for one in faithful.rotations(relay)] == [None, None]


@pytest.mark.parametrize(("recalled", "word"), [(0, "holds"), (9, "violated")])
def test_the_verdict_of_a_relay_may_be_that_it_lost(tmp_path: Path, recalled: int, word: str) -> None:
    run.import_paths([session_file(tmp_path, 4, 6)])
    relay = rotated(8, recalled)
    refresh.bring_up()
    row = Comparison.objects.get(relay=relay)
    assert row.faithful["verdict"] == word, row.faithful["what"]
    line = status.verdict_lines(relay)["faithful"]
    assert line.verdict == word
    assert ("the relay lost" in line.what) == (word == "violated")


def test_one_leg_that_recalls_says_nothing_of_the_others() -> None:
    """A leg that never recalls may have read everything again with its own tools: that is not known, not nothing."""
    relay = rotated(4, 0)
    PageFault.objects.exclude(leg__number=2).delete()
    found = faithful.rotations(relay)
    assert [one.read is not None for one in found] == [False, True, False]
