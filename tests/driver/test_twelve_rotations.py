"""Twelve forced rotations on a real repository: one relay is run once, each promise about it is a test."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from relays.core import baton as batons
from relays.core import reset as reset_core
from relays.core.baton import Baton
from tests.builders import git, make_repo

pytestmark = pytest.mark.django_db  # a database is made where a test asks for one, and a fixture does not
ISSUES = 13


@dataclass
class Seen:
    """What is left of the relay, read once."""

    repo: Path
    relay: dict[str, Any] = field(default_factory=dict)
    legs: list[dict[str, Any]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)  # of the batons, in the order of their legs
    resets: list[dict[str, Any]] = field(default_factory=list)
    tombstones: list[dict[str, Any]] = field(default_factory=list)
    climbs: list[dict[str, Any]] = field(default_factory=list)
    notes: int = 0
    legs_after: int = 0
    verdicts: dict[str, str] = field(default_factory=dict)
    advanced: str = ""

    @property
    def batons(self) -> list[Baton]:
        read = [batons.read(text).baton for text in self.texts]
        return [baton for baton in read if baton is not None]


@pytest.fixture(scope="module")
def seen(django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Seen]:
    folder = tmp_path_factory.mktemp("twelve")
    repo = make_repo(folder / "repo", issues=ISSUES)
    with django_db_blocker.unblock(), pytest.MonkeyPatch.context() as patch:
        from django.conf import settings
        from django.core.management import call_command

        from relays import models
        from relays.driver import advance, outbox, spawn
        from relays.reports import status
        from tests.driver.course import Course, start_relay
        from tests.tamper import unguarded

        patch.setattr(settings, "RELAY_VAR", folder / "var")
        patch.setattr("relaysite.celery.app.send_task", lambda *_, **__: None)
        patch.setattr(spawn, "supervisor", lambda relay_id, leg_pk: True)
        course = Course(start_relay(repo).pk)
        course.drive()
        outbox.carry_out()
        outbox.carry_out()
        found = Seen(repo)
        found.relay = models.Relay.objects.filter(pk=course.pk).values()[0]
        found.legs = list(models.Leg.objects.order_by("number").values())
        found.texts = list(models.Baton.objects.order_by("leg__number").values_list("text", flat=True))
        found.resets = list(models.ResetTransaction.objects.order_by("new_leg__number").values())
        found.tombstones = list(models.Tombstone.objects.order_by("leg__number").values())
        found.climbs = list(models.Verification.objects.filter(purpose="reload").order_by("pk").values())
        found.notes = models.Outbox.objects.filter(kind="git_note", done_at__isnull=False).count()
        found.verdicts = {name: line.verdict for name, line in status.verdict_lines(course.relay).items()}
        found.advanced = advance.advance(course.pk)
        found.legs_after = models.Leg.objects.count()
        with unguarded():
            call_command("flush", interactive=False, verbosity=0)
    yield found


def test_every_verdict_that_can_be_judged_holds(seen: Seen) -> None:
    """rules.md, Computed verdicts: coverage and fidelity of twelve batons, peaks, commits, pin and tool errors."""
    judged = {name: word for name, word in seen.verdicts.items() if name not in ("faithful", "cheaper")}
    assert judged == dict.fromkeys(("flat", "fidelity", "coverage", "attribution", "objective", "rot"), "holds")
    assert all(leg["coverage_made"] == leg["coverage_reached"] > 0 for leg in seen.legs[:-1])
    assert seen.legs[-1]["coverage_made"] is None, "no successor has read the last baton"


def test_the_relay_reaches_its_goal_after_twelve_rotations(seen: Seen) -> None:
    assert (seen.relay["status"], seen.relay["ended_reason"]) == ("done", "RELAY_GOAL_DONE")
    assert [leg["reason"] for leg in seen.legs] == ["RELAY_ROTATED"] * 12 + ["RELAY_GOAL_DONE"]
    assert [stone["reason"] for stone in seen.tombstones] == [leg["reason"] for leg in seen.legs]
    rows = git(seen.repo, "show", f"{seen.relay['branch']}:.relay/issues.jsonl").splitlines()
    assert {json.loads(row)["state"] for row in rows} == {"closed"}


def test_legs_are_numbered_from_0_without_a_gap(seen: Seen) -> None:
    assert [leg["number"] for leg in seen.legs] == list(range(ISSUES))
    assert {leg["state"] for leg in seen.legs} == {"ended"}


def test_every_commit_belongs_to_exactly_one_leg(seen: Seen) -> None:
    made = git(seen.repo, "rev-list", f"{seen.relay['start_sha']}..{seen.relay['branch']}").split()
    claimed = Counter(commit["sha"] for leg in seen.legs for commit in leg["progress_detail"]["commits"])
    assert len(made) == ISSUES
    assert claimed == Counter(made)
    assert not [sha for leg in seen.legs for sha in leg["progress_detail"]["foreign"]]
    closed = [issue for leg in seen.legs for issue in leg["progress_detail"]["issues"]]
    assert closed == [f"issue:#{number}" for number in range(1, ISSUES + 1)]


def test_each_leg_starts_where_the_one_before_it_ended(seen: Seen) -> None:
    assert seen.legs[0]["cursor_sha"] == seen.relay["start_sha"]
    for before, after in zip(seen.legs, seen.legs[1:], strict=False):
        assert after["cursor_sha"] == before["end_sha"]
        assert after["started_at"] >= before["ended_at"]


def test_the_objective_pin_is_byte_identical_in_all_batons(seen: Seen) -> None:
    pins = {text[text.index('"objective":') : text.index(',"done_when":')] for text in seen.texts}
    assert len(seen.texts) == ISSUES and len(pins) == 1
    assert {baton.objective.digest for baton in seen.batons} == {seen.relay["objective_digest"]}


def test_every_baton_is_canonical_pointer_only_and_bounded(seen: Seen) -> None:
    assert len(seen.batons) == ISSUES, "each reads strictly"
    for number, (text, baton) in enumerate(zip(seen.texts, seen.batons, strict=True)):
        assert batons.canonical(baton) == text.encode()
        assert len(text.encode()) <= 16 * 1024
        assert baton.leg == number and baton.relay_id == seen.relay["id"]
        assert baton.tombstone.at_sha == baton.cursor.start_sha == seen.legs[number]["end_sha"]


def test_batons_stay_flat_from_leg_to_leg(seen: Seen) -> None:
    sizes = [len(text.encode()) for text in seen.texts[1:-1]]
    assert max(sizes) - min(sizes) < 200


def test_no_pointer_of_any_baton_dangles_or_is_unknown(seen: Seen) -> None:
    handed_over = seen.legs[:-1]
    assert all(leg["fidelity_verified"] > 0 for leg in handed_over)
    assert {(leg["fidelity_dangling"], leg["fidelity_unknown"]) for leg in handed_over} == {(0, 0)}
    assert seen.legs[-1]["fidelity_verified"] is None, "a baton without a successor does not count"
    assert [climb["outcome"] for climb in seen.climbs] == ["fresh"] * 12


def test_lineage_is_one_chain_of_traces(seen: Seen) -> None:
    traces = [leg["trace"] for leg in seen.legs]
    assert len(set(traces)) == ISSUES
    assert [leg["parent_trace"] for leg in seen.legs] == ["", *traces[:-1]]
    assert [baton.parent_trace for baton in seen.batons] == traces
    assert [(reset["old_trace"], reset["new_trace"]) for reset in seen.resets] == list(
        zip(traces, traces[1:], strict=False)
    )


def test_a_reset_seeds_with_preamble_pin_and_baton_alone(seen: Seen) -> None:
    assert len({reset["seed_digest"] for reset in seen.resets}) == 12
    for reset in seen.resets:
        assert [part["kind"] for part in reset["contributors"]] == ["preamble", "objective_pin", "baton"]
    turns = {leg["id"]: leg["turns"] for leg in seen.legs}
    for reset in seen.resets:
        assert reset_core.omitted_total(reset["omitted"]) == turns[reset["old_leg_id"]] >= 4
        assert [span["index"] for span in reset["omitted"]] == list(range(1, len(reset["omitted"]) + 1))
        assert len({span["digest"] for span in reset["omitted"]}) == len(reset["omitted"])


def test_peaks_stay_under_the_ceiling_and_flat(seen: Seen) -> None:
    peaks = [leg["peak_tokens"] for leg in seen.legs]
    assert all(leg["mark_tokens"] <= leg["peak_tokens"] < leg["ceiling_tokens"] for leg in seen.legs)
    assert len(set(peaks)) == 1


def test_every_baton_stands_as_a_git_note_at_its_commit(seen: Seen) -> None:
    assert seen.notes == ISSUES
    for text, baton in zip(seen.texts, seen.batons, strict=True):
        assert text in git(seen.repo, "notes", "--ref=refs/notes/relay", "show", baton.tombstone.at_sha)


def test_a_relay_that_is_done_stays_done(seen: Seen) -> None:
    assert seen.advanced == "nothing to do"
    assert seen.legs_after == ISSUES
