"""`status` and `list`: the shapes that scripts rely on, and `not yet` where no record is."""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from relays.core.objective import make_pin
from relays.core.reset import omitted_spans
from relays.driver import progress
from relays.models import Assumption, Baton, Call, Decision, Leg, PageFault, Relay, ResetTransaction
from relays.reports import status as report
from tests.report_builders import Story
from tests.tamper import unguarded
from tests.web_builders import make_leg, make_relay, make_user

pytestmark = pytest.mark.django_db

LEG_KEYS = [
    "leg", "state", "armed", "cause", "hold", "trace", "parent_trace", "reason", "at_sha", "started", "ended", "turns",
    "peak_tokens", "ceiling_tokens", "fidelity", "progress", "holds", "cost",
]  # fmt: skip


VERDICTS = ("flat", "fidelity", "coverage", "attribution", "objective", "rot", "faithful", "cheaper")


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = Story(tmp_path / "repo")
    told.leg(turns=6, holds=("NO_NEXT_ACTION", "IN_FLIGHT_TOOL_CALL"), priced=True)
    told.leg(turns=6, priced=True)
    told.leg(
        turns=6, peak=178_000, reason="RELAY_PARKED_UNSAFE", cause="ceiling", hold="TREE_DIRTY_UNPARKED", made=False
    )
    return told


def test_the_shape_of_status(story: Story) -> None:
    gate = story.park()
    found = report.status(story.relay.pk)
    assert list(found)[:8] == ["relay", "status", "ended", "objective", "legs", "gates", "verdicts", "readout"]
    assert list(found["objective"]) == ["pin_id", "text", "digest"]
    assert [list(leg)[:18] for leg in found["legs"]] == [LEG_KEYS] * 3
    first, _, last = found["legs"]
    assert first["holds"] == ["IN_FLIGHT_TOOL_CALL", "NO_NEXT_ACTION"]  # in order of first appearance
    assert first["cost"] == {"total": "0.42", "currency": "USD", "unpriced_calls": 0}
    assert first["started"].endswith("Z")
    assert first["fidelity"]["score"] == 1.0
    assert (last["reason"], last["cause"], last["hold"]) == ("RELAY_PARKED_UNSAFE", "ceiling", "TREE_DIRTY_UNPARKED")
    assert last["fidelity"] == {"verified": 0, "dangling": 0, "unknown": 0, "score": None}
    assert last["cost"]["unpriced_calls"] == 6
    assert last["parent_trace"] == found["legs"][1]["trace"]
    assert list(found["verdicts"]) == list(VERDICTS)
    assert set(found["verdicts"].values()) <= {"holds", "violated", "not yet"}
    assert (found["verdicts"]["faithful"], found["verdicts"]["cheaper"]) == ("not yet", "not yet")
    assert list(found["readout"]) == ["objective", "budget", "resident_view", "assumptions", "reset", "memory", "cache"]
    shown = found["gates"][0]
    assert list(shown)[:5] == ["id", "token", "state", "seen", "blocks"]
    assert (shown["id"], shown["state"], len(shown["seen"])) == (gate.pk, "waiting", 64)
    json.dumps(found)


def test_the_digest_in_status_is_the_one_that_a_decision_needs(story: Story) -> None:
    from relays.reports.gate import branch_tip, seen_digest

    gate = story.park()
    tip, problem = branch_tip(story.relay)
    assert problem == ""
    assert report.status(story.relay.pk)["gates"][0]["seen"] == seen_digest(gate, tip)


def test_without_records_everything_reads_not_yet() -> None:
    pin = make_pin("pin-1", "Close the issues")
    found = report.status(make_relay(pin_id=pin.pin_id, objective=pin.text, objective_digest=pin.digest).pk)
    lines = found["readout"]
    assert lines.pop("objective") == "established"
    assert lines.pop("budget") == "turns=none tokens=none context=none queries=none time=none"
    assert set(lines.values()) == {"not yet"}
    assert set(found["verdicts"].values()) == {"not yet"}
    assert (found["legs"], found["gates"], found["ended"]) == ([], [], None)


def test_readout_comes_from_records(story: Story) -> None:
    leg = story.legs[-1]
    for key, action in (("a", "use"), ("b", "query"), ("c", "use")):
        Assumption.objects.create(leg=leg, key=key, statement="s", source="inferred", action=action, at=story.clock)
    Relay.objects.filter(pk=story.relay.pk).update(policy={"envelope": {"turns": 20}})
    lines = report.status(story.relay.pk)["readout"]
    assert lines["objective"] == "preserved"
    assert lines["budget"].startswith("turns=2 tokens=none context=2000 ")
    assert lines["assumptions"] == "use=2 query=1 refresh=0"
    assert lines["reset"].startswith(f"old_trace={story.legs[1].trace} new_trace={leg.trace} seed_digest=")
    assert lines["cache"] == "warm (cost only)"
    assert lines["memory"] == "not yet"


def test_what_was_served_and_refused_is_counted_over_all_legs(story: Story) -> None:
    newest, seq = story.legs[-1], 0
    before = report.status(story.relay.pk)["readout"]["resident_view"]
    assert before.endswith("page_faults=0/0")
    selected = int(before.split()[0].partition("=")[2])
    for leg, outcomes in ((story.legs[0], ("page_in", "deny")), (newest, ("page_in", "query_user", "page_in"))):
        for outcome in (*outcomes, "continue_with_pointer"):
            seq += 1
            PageFault.objects.create(
                leg=leg, seq=seq, kind="file", ref="a", required=True, outcome=outcome, at=story.clock
            )
    after = report.status(story.relay.pk)["readout"]["resident_view"]
    assert after.startswith(f"selected={selected + 2} "), "the newest leg holds what it recalled"
    assert after.endswith("page_faults=3/2")


def test_omitted_counts_turns_that_are_listed_as_one(story: Story) -> None:
    old, new = story.legs[-1], story.leg(reason="")
    omitted = [span.as_mapping() for span in omitted_spans(["0" * 64] * 7, listed=2)]
    ResetTransaction.objects.create(
        old_leg=old, new_leg=new, old_trace=old.trace, new_trace=new.trace, seed_digest="0" * 64, contributors=[],
        omitted=omitted, rearm={}, at=story.clock,
    )  # fmt: skip
    assert report.status(story.relay.pk)["readout"]["reset"].endswith(" omitted=7")


def test_a_cache_that_is_not_reported_is_unknown(story: Story) -> None:
    Call.objects.filter(leg__relay=story.relay).update(cache_reported=False)
    assert report.status(story.relay.pk)["readout"]["cache"] == "unknown (cost only)"


def test_a_drifted_baton_is_said(story: Story) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(objective="Another goal", objective_digest="0" * 64)
    assert report.status(story.relay.pk)["readout"]["objective"] != "preserved"


def test_a_dangling_pointer_violates_fidelity_and_unknown_never_counts_as_verified(story: Story) -> None:
    Leg.objects.filter(pk=story.legs[0].pk).update(fidelity_verified=3, fidelity_dangling=0, fidelity_unknown=2)
    found = report.status(story.relay.pk)
    assert found["verdicts"]["fidelity"] == "not yet"
    assert found["legs"][0]["fidelity"]["verified"] == 3
    Leg.objects.filter(pk=story.legs[0].pk).update(fidelity_dangling=1)
    assert report.status(story.relay.pk)["verdicts"]["fidelity"] == "violated"


def test_one_commit_in_two_legs_violates_attribution(story: Story) -> None:
    assert report.status(story.relay.pk)["verdicts"]["attribution"] == "holds"
    detail = Leg.objects.get(pk=story.legs[0].pk).progress_detail
    progress.keep(story.legs[1], detail)
    found = report.status(story.relay.pk)
    assert found["verdicts"]["attribution"] == "violated"
    assert found["verdict_details"]["attribution"]["numbers"]["shared"] == {detail["made"][0]: [0, 1]}


def test_coverage_is_a_number_per_leg_and_holds_only_at_one(story: Story) -> None:
    """rules.md, Computed verdicts: "a number per leg, and holds only at 1"; none judged is not yet."""
    found = report.status(story.relay.pk)
    assert found["verdicts"]["coverage"] == "not yet"
    assert found["legs"][0]["coverage"] == {"made": None, "reached": None, "score": None}
    Leg.objects.filter(pk=story.legs[0].pk).update(coverage_made=3, coverage_reached=3)
    Leg.objects.filter(pk=story.legs[1].pk).update(coverage_made=0, coverage_reached=0)
    found = report.status(story.relay.pk)
    assert found["verdicts"]["coverage"] == "holds"
    assert [leg["coverage"]["score"] for leg in found["legs"]] == [1.0, None, None]
    Leg.objects.filter(pk=story.legs[1].pk).update(coverage_made=4, coverage_reached=3)
    found = report.status(story.relay.pk)
    assert (found["verdicts"]["coverage"], found["legs"][1]["coverage"]["score"]) == ("violated", 0.75)


def test_rot_is_judged_by_fullness_too(story: Story) -> None:
    for leg in story.legs:
        Leg.objects.filter(pk=leg.pk).update(tool_calls=40, tool_errors=10, fullness={"1": [20, 0], "5": [20, 10]})
    found = report.status(story.relay.pk)
    assert found["verdicts"]["rot"] == "violated"
    assert found["verdict_details"]["rot"]["numbers"]["fullness"]["fuller"]["errors"] == 30


def test_no_verdict_reads_what_single_legs_made(story: Story) -> None:
    """architecture.md, Sizes to hold: "Pages cost the same for a small and a large relay"."""
    with CaptureQueriesContext(connection) as asked:
        report.verdict_lines(story.relay)
    assert not [query["sql"] for query in asked if "progress_detail" in query["sql"]]
    assert len(asked) <= 7


def test_a_low_axis_is_in_status_until_it_is_not_low(story: Story) -> None:
    """rules.md, Budgets: "One warning when an axis first falls under a fifth"."""
    low = {"turns_used": 33, "warned_axes": ["turns", "spend"], "policy": {"envelope": {"turns": 40, "spend": "9"}}}
    Relay.objects.filter(pk=story.relay.pk).update(**low)
    warning = {"axis": "turns", "limit": 40, "used": 33, "left": 7, "unknown": False}
    assert report.status(story.relay.pk)["warnings"] == [warning]
    Relay.objects.filter(pk=story.relay.pk).update(policy={"envelope": {"turns": 400}})
    assert report.status(story.relay.pk)["warnings"] == []


def test_a_new_objective_needs_a_decision(story: Story) -> None:
    assert report.status(story.relay.pk)["verdicts"]["objective"] == "holds"
    last = Baton.objects.get(relay=story.relay, current=True)
    with unguarded():
        Baton.objects.filter(pk=last.pk).update(pin_digest="f" * 64)
    assert report.status(story.relay.pk)["verdicts"]["objective"] == "violated"
    Decision.objects.create(
        seq=1, relay=story.relay, act="approve", actor=make_user("", "reviewer"), previous="0" * 64, digest="1" * 64,
        detail={"objective_digest": "f" * 64}, at=last.at,
    )  # fmt: skip
    assert report.status(story.relay.pk)["verdicts"]["objective"] == "holds"


@pytest.mark.parametrize(
    ("money", "text"),
    [
        (Decimal("0"), "0"),
        (Decimal("0E-10"), "0"),
        (Decimal("27.9300000000"), "27.93"),
        (Decimal("100"), "100"),
        (Decimal("1E-7"), "0.0000001"),
    ],
)
def test_money_is_a_plain_decimal_string(money: Decimal, text: str) -> None:
    assert report.amount(money) == text


def test_status_asks_as_often_for_sixty_legs_as_for_three() -> None:
    counts = []
    for legs in (3, 60):
        relay = make_relay()
        for number in range(legs):
            make_leg(relay, number, resident=[20_000, 125_000], reason="RELAY_ROTATED", armed=True, fidelity_verified=2)
        with CaptureQueriesContext(connection) as asked:
            found = report.status(relay.pk)
        assert len(found["legs"]) == legs
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_listing_pages_through_all_relays_once() -> None:
    made = [make_relay() for _ in range(7)]
    make_leg(made[0], 0, resident=[20_000, 50_000])
    seen, cursor = [], ""
    for _ in range(10):
        page = report.listing(cursor, limit=3)
        seen += [row["relay"] for row in page["relays"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [relay.pk for relay in Relay.objects.all()]
    first = report.listing(filters={"owner": made[0].owner.username})["relays"]
    assert [list(row)[:7] for row in first] == [["relay", "status", "leg", "repo", "owner", "next_at", "context"]]
    assert first[0]["context"] == {"now": 50_000, "mark": 120_000, "ceiling": 180_000}
    assert report.listing("nonsense")["relays"] == report.listing()["relays"]
