"""What a leg leaves for its verdicts: coverage, tool calls by fullness, detected facts, low budgets."""

import json
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.utils import timezone

from relays.core.coverage import Coverage
from relays.core.events import parse_line
from relays.core.legview import LegView
from relays.core.policy import Envelope
from relays.driver import budgets, coverage, reload
from relays.driver.claim import Claim, LostClaim
from relays.driver.ingest import Ingest
from relays.models import Baton, DriverClaim, Fact, Leg, Relay, Topic
from relays.reports import status
from tests.builders import git
from tests.driver.course import Course, boundary, commit, player, turn
from tests.web_builders import make_leg, make_relay

Start = Callable[..., Any]
END = [*turn(), *boundary("Go on.", final=True)]


def covered(leg: Leg) -> tuple[int | None, int | None]:
    return leg.coverage_made, leg.coverage_reached


# --- rules.md, Computed verdicts: coverage


def test_what_a_leg_made_is_reached_from_its_baton(course: Start) -> None:
    """Commits, ledger rows and memories; judged beside fidelity, when the successor reloads."""
    leg0 = [
        *commit("one.txt"),
        {"do": "commit", "message": "Nothing, yet made"},
        *commit(".relay/memory/lessons.md"),
        {"kind": "artifact", "ref": "memory:lessons"},
        {"kind": "artifact", "ref": "memory:never-written"},
        {"kind": "ledger", "refs": ["file:one.txt"]},
        *END,
    ]
    relay: Course = course(**player({"0": leg0, "*": END}))
    relay.step()
    assert covered(relay.legs[0]) == (None, None), "not yet: nobody has read the baton"
    assert status.status(relay.pk)["verdicts"]["coverage"] == "not yet"
    relay.step()
    assert covered(relay.legs[0]) == (5, 5), "three commits, a row and the memory that was there"
    assert status.status(relay.pk)["verdicts"]["coverage"] == "holds"
    relay.step()
    assert covered(relay.legs[1]) == (0, 0)
    assert status.status(relay.pk)["verdicts"]["coverage"] == "holds", "a leg that made nothing proves nothing"


@pytest.mark.slow
def test_what_had_no_room_in_the_baton_is_reached_through_its_ledger_row(course: Start) -> None:
    """baton.md, Bounds: "the oldest entries move into one ledger row that lists them": nothing is lost."""
    rows = [{"kind": "ledger", "refs": ["file:README.md"], "note": f"row {n}"} for n in range(140)]
    relay: Course = course(**player({"0": [*commit("one.txt"), *rows, *END], "*": END}))
    relay.step()
    assert len(relay.baton.artifacts) < 141
    relay.step()
    assert covered(relay.legs[0]) == (141, 141)


def test_what_no_store_answered_for_is_not_yet(course: Start) -> None:
    """ "unknown is never counted as verified and never shown as dangling": nothing is called missing unheard."""
    relay: Course = course(**player({"*": [*commit("work-$LEG.txt"), *END]}))
    relay.step()
    row = Baton.objects.get(relay=relay.pk, current=True)
    climbed = reload.climb(relay.relay, row, purpose="verify", leg=None, now=timezone.now())

    def judged(verdict: str, *, answered: bool = True) -> Coverage | None:
        checks = tuple(replace(one, verdict=verdict) if one.pointer else one for one in climbed.ladder.checks)
        stores = climbed.stores if answered else None
        return coverage.judge(row, replace(climbed, ladder=replace(climbed.ladder, checks=checks), stores=stores))

    assert judged("verified") == Coverage(1, 1)
    assert judged("unknown") is None
    assert judged("verified", answered=False) is None
    (gone,) = (found.missing for found in [judged("dangling")] if found)
    assert [pointer.ref for pointer in gone] == [relay.legs[0].end_sha]
    Leg.objects.filter(pk=row.leg_id).update(progress=None)
    row.leg.refresh_from_db()
    assert judged("verified") is None, "what it made was never counted"


def test_a_driver_with_an_old_fence_keeps_no_verdict(course: Start) -> None:
    """rules.md, The driver: "a supervisor with an old fence ends its agent and writes nothing"."""
    relay: Course = course(**player({"*": [*commit("work-$LEG.txt"), *END]}))
    relay.step()
    row = Baton.objects.get(relay=relay.pk, current=True)
    climbed = reload.climb(relay.relay, row, purpose="verify", leg=None, now=timezone.now())
    fence = DriverClaim.objects.get(relay=relay.pk).fence
    with pytest.raises(LostClaim):
        coverage.keep(row, climbed, Claim(relay.pk, fence - 1))
    assert covered(relay.legs[0]) == (None, None)
    coverage.keep(row, climbed, Claim(relay.pk, fence))
    assert covered(relay.legs[0]) == (1, 1)


@pytest.mark.slow
def test_a_closed_issue_is_reached_too(course: Start) -> None:
    relay: Course = course(issues=2)
    relay.drive()
    first, _ = relay.legs
    assert first.progress_detail["issues"] == ["issue:#1"]
    made = len(first.progress_detail["made"]) + 1 + Leg.objects.get(pk=first.pk).ledger.filter(by="agent").count()
    assert covered(first) == (made, made)


def test_work_that_the_branch_lost_between_the_legs_is_not_reached(course: Start) -> None:
    relay: Course = course(**player({"*": [*commit("work-$LEG.txt"), *commit("more-$LEG.txt"), *END]}))
    relay.step()
    git(relay.worktree, "reset", "-q", "--hard", "HEAD~1")
    relay.step()
    assert relay.reload.outcome == "stale"
    assert covered(relay.legs[0]) == (2, 1), "the cursor is not on the branch; the first commit is"
    found = status.status(relay.pk)
    assert found["verdicts"]["coverage"] == "violated"
    assert found["legs"][0]["coverage"] == {"made": 2, "reached": 1, "score": 0.5}


# --- rules.md, Computed verdicts: rot "over how full the window was"


def test_tool_calls_are_kept_by_how_full_the_window_was(course: Start) -> None:
    def tool(name: str, ok: bool) -> list[dict[str, Any]]:
        ended = {"kind": "tool_ended", "id": name, "ok": ok, "result_tokens": 1}
        return [{"kind": "tool_started", "id": name, "name": "x"}, ended]

    script = [
        *turn(150), *tool("a", True), *tool("b", False), *boundary("Go on."),
        *turn(550), *tool("c", False), *boundary("Go on.", final=True),
    ]  # fmt: skip
    relay: Course = course(**player(script), sets=["window_tokens=1000"])
    relay.step()
    (leg,) = relay.legs
    assert leg.fullness == {"1": [2, 1], "5": [1, 1]}
    assert (leg.tool_calls, leg.tool_errors) == (3, 2)


# --- rules.md, Externalize gate: what the detector finds by itself


def test_what_the_detector_finds_is_kept_and_shown(course: Start) -> None:
    script = [
        {"kind": "todo", "id": "t1", "open": True, "label": "Write the tests"},
        {"kind": "file_written", "path": "../../elsewhere.txt"},
        {"do": "write", "path": "dirty.txt", "text": "x"},
        *turn(),
        *boundary("Go on."),
        {"kind": "todo", "id": "t1", "open": False},
        *turn(),
        *boundary("Go on.", final=True),
    ]
    relay: Course = course(**player(script))
    relay.step()
    (leg,) = relay.legs
    rows = Fact.objects.filter(leg=leg, kind="detected").order_by("seq")
    found = [(row.seq, row.durability, row.label, row.verdict) for row in rows]
    assert [line[:2] for line in found] == [(0, "dirty"), (1, "file_outside")], "judged again: the task is closed"
    assert found[0][2:] == ("dirty.txt", "")
    assert rows[0].evidence == "no pointer"
    assert leg.hold == "TREE_DIRTY_UNPARKED"


# --- rules.md, Budgets: "One warning when an axis first falls under a fifth"


@pytest.mark.django_db
def test_an_axis_warns_once_and_again_only_after_a_new_limit() -> None:
    relay = make_relay(policy={"envelope": {"turns": 10, "spend": "5"}}, turns_used=8)

    def warned() -> list[str]:
        budgets.warn(relay.pk)
        return list(Relay.objects.get(pk=relay.pk).warned_axes)

    assert warned() == [], "a fifth is left"
    Relay.objects.filter(pk=relay.pk).update(turns_used=9)
    assert warned() == ["turns"]
    seen = Topic.objects.get(name=f"relay:{relay.pk}").number
    assert warned() == ["turns"]
    assert Topic.objects.get(name=f"relay:{relay.pk}").number == seen, "nothing new, so nobody is told"
    Relay.objects.filter(pk=relay.pk).update(spend_used=Decimal("4.01"))
    assert warned() == ["turns", "spend"]


def test_only_an_axis_with_a_new_limit_can_warn_again() -> None:
    before = Envelope(turns=10, spend=Decimal(5))
    kept = ["turns", "spend", budgets.SPEND_UNKNOWN]
    assert budgets.still_warned(before, Envelope(turns=20, spend=Decimal(5)), kept) == ["spend", budgets.SPEND_UNKNOWN]
    assert budgets.still_warned(before, Envelope(turns=10), kept) == ["turns", budgets.SPEND_UNKNOWN]
    assert budgets.still_warned(before, before, kept) == kept


@pytest.mark.django_db
def test_usage_is_warned_of_in_the_flush_that_debits_it() -> None:
    relay = make_relay(policy={"envelope": {"turns": 1, "output_tokens": 1000}})
    leg = make_leg(relay, 0, resident=[1])
    ingest = Ingest(relay, leg, cast(Claim, SimpleNamespace(hold=lambda now: None)), LegView())
    line = {"seq": 1, "model": "m", "message_id": "m1", "input": 5, "output": 10, "chain": "main"}
    buckets = dict.fromkeys(("cache_read", "cache_write_5m", "cache_write_1h"), 0)
    event = parse_line(json.dumps({"kind": "usage", **line, **buckets}).encode()).event
    assert event is not None
    assert ingest.take(event, timezone.now())
    ingest.flush(timezone.now())
    assert Relay.objects.get(pk=relay.pk).warned_axes == ["turns"]


@pytest.mark.slow
def test_usage_and_running_time_and_legs_are_warned_of_as_they_are_debited(course: Start) -> None:
    relay: Course = course(
        **player([*[step for _ in range(9) for step in turn()], {"do": "sleep", "seconds": 0.9}, *END]),
        sets=["envelope.turns=11", "envelope.wall=1s", "envelope.legs=1", "no_progress_legs=0"],
    )
    relay.step()
    assert sorted(relay.relay.warned_axes) == ["legs", "turns", "wall"]
    warnings = status.status(relay.pk)["warnings"]
    assert {one["axis"] for one in warnings} == {"legs", "turns", "wall"}
    assert next(one for one in warnings if one["axis"] == "turns")["left"] == 1
