"""What a committed transaction owes outside the database: done once however often it is tried, never given up."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from relays.core.baton import TombstoneRecord
from relays.driver import git as stores
from relays.driver import outbox, travel
from relays.models import Baton, LedgerRow, Outbox, Relay
from relays.stores import travel as travel_store
from relays.stores.git import GitStore
from tests.actions.acts import current
from tests.builders import git
from tests.report_builders import Story

pytestmark = pytest.mark.django_db
NOTES = "refs/notes/relay"


@pytest.fixture
def story(tmp_path: Path, settings: Any) -> Story:
    settings.RELAY_VAR = tmp_path / "var"
    told = Story(tmp_path / "repo", issues=3)
    told.leg(turns=2)
    return told


def owe(story: Story, kind: str, target: str, **values: Any) -> Outbox:
    return Outbox.objects.create(kind=kind, relay=story.relay, target=target, not_before=timezone.now(), **values)


def note_of(story: Story) -> tuple[Outbox, Baton]:
    baton = Baton.objects.get(relay=story.relay, current=True)
    return owe(story, Outbox.Kind.GIT_NOTE, str(baton.pk)), baton


def due_again(row: Outbox) -> None:
    """As a crash between the effect and its record leaves it."""
    Outbox.objects.filter(pk=row.pk).update(done_at=None, not_before=timezone.now())


def test_a_note_is_written_once_when_it_is_repeated(story: Story) -> None:
    row, baton = note_of(story)
    assert outbox.carry_out() == 1
    row.refresh_from_db()
    assert row.done_at is not None and (row.attempts, row.error) == (1, "")
    sha = baton.leg.tombstone.at_sha
    written = git(story.repo, "rev-parse", NOTES)
    assert git(story.repo, "notes", f"--ref={NOTES}", "show", sha) == baton.text
    due_again(row)
    assert outbox.carry_out() == 1
    assert git(story.repo, "rev-parse", NOTES) == written
    assert git(story.repo, "notes", f"--ref={NOTES}", "show", sha).count(baton.text) == 1


def test_what_is_done_or_not_due_is_left_alone(story: Story) -> None:
    row, _ = note_of(story)
    Outbox.objects.filter(pk=row.pk).update(not_before=timezone.now() + timedelta(minutes=1))
    assert outbox.carry_out() == 0
    Outbox.objects.filter(pk=row.pk).update(not_before=timezone.now(), done_at=timezone.now())
    assert outbox.carry_out() == 0
    row.refresh_from_db()
    assert row.attempts == 0
    assert git(story.repo, "for-each-ref", NOTES) == ""


def test_a_failure_is_kept_with_its_error_and_tried_again_ever_later(story: Story, tmp_path: Path) -> None:
    row, baton = note_of(story)
    story.repo.rename(tmp_path / "away")
    delays = []
    for attempt in range(1, 4):
        before = timezone.now()
        assert outbox.carry_out() == 0
        row.refresh_from_db()
        assert (row.attempts, row.done_at) == (attempt, None)
        assert row.error and str(tmp_path) not in row.error
        delays.append(round((row.not_before - before).total_seconds()))
        assert outbox.carry_out() == 0, "it is not due"
        row.refresh_from_db()
        assert row.attempts == attempt
        due_again(row)
    assert delays == [10, 20, 40]
    (tmp_path / "away").rename(story.repo)
    assert outbox.carry_out() == 1
    row.refresh_from_db()
    assert row.done_at is not None and row.error == ""
    assert baton.text in git(story.repo, "notes", f"--ref={NOTES}", "show", baton.leg.tombstone.at_sha)


def test_it_waits_half_an_hour_at_most(story: Story, tmp_path: Path) -> None:
    row, _ = note_of(story)
    story.repo.rename(tmp_path / "away")
    Outbox.objects.filter(pk=row.pk).update(attempts=500)
    before = timezone.now()
    outbox.carry_out()
    row.refresh_from_db()
    assert timedelta(minutes=29) < row.not_before - before < timedelta(minutes=31)


def test_one_that_fails_keeps_no_other_waiting(story: Story, tmp_path: Path) -> None:
    other = Story(tmp_path / "other", issues=3)
    other.leg(turns=2)
    failing, _ = note_of(other)
    fine, _ = note_of(story)
    other.repo.rename(tmp_path / "away")
    assert outbox.carry_out() == 1
    failing.refresh_from_db()
    fine.refresh_from_db()
    assert (failing.done_at, fine.done_at is not None) == (None, True)


def test_the_ledger_travels_under_its_ref(story: Story) -> None:
    row = owe(story, Outbox.Kind.LEDGER_REF, f"{story.relay.pk}.0")
    assert outbox.carry_out() == 1
    ref = f"refs/relay/ledger/{story.relay.pk}"
    first = git(story.repo, "rev-parse", ref)
    kept = LedgerRow.objects.get(relay=story.relay)
    assert stores.store(story.relay).read_ledger_ref(story.relay.pk) == [
        {"id": kept.pk, "refs": kept.refs, "note": kept.note, "by": "agent", "at": kept.at.isoformat()}
    ]
    due_again(row)
    assert outbox.carry_out() == 1
    assert git(story.repo, "rev-parse", ref) == first, "the same rows change nothing"
    story.leg(turns=2)
    owe(story, Outbox.Kind.LEDGER_REF, f"{story.relay.pk}.1")
    assert outbox.carry_out() == 1
    rows = stores.store(story.relay).read_ledger_ref(story.relay.pk)
    assert rows is not None
    assert [one["id"] for one in rows] == [f"{story.relay.pk}.{number}.e9" for number in (0, 1)]
    assert git(story.repo, "rev-parse", f"{ref}^") == first


def test_rows_that_are_owed_together_are_written_once(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one pass finds owed was all committed before it wrote; the record of a relay is owed over and over."""
    for number in range(5):
        owe(story, Outbox.Kind.LEDGER_REF, f"{story.relay.pk}.{number}")
    travel.owe(story.relay.pk, timezone.now())
    wrote: list[int] = []
    write = GitStore.write_ledger_ref

    def counted(store: GitStore, relay_id: str, rows: Any) -> str:
        wrote.append(len(rows))
        return write(store, relay_id, rows)

    monkeypatch.setattr(GitStore, "write_ledger_ref", counted)
    assert outbox.carry_out() == 6
    assert wrote == [1]
    Relay.objects.filter(pk=story.relay.pk).update(status="parked")
    travel.owe(story.relay.pk, timezone.now())
    assert outbox.carry_out() == 1
    record = travel_store.read_record(stores.store(story.relay), story.relay.pk)
    assert record is not None and record.status == "parked"
    assert wrote == [1], "a record that changed is no row of the ledger"


def test_two_legs_that_end_at_one_sha_append_to_its_note(story: Story) -> None:
    """architecture.md: "two legs that end at one SHA append to its note"; whichever is written first."""
    _, first = note_of(story)
    story.leg(turns=1, made=False)
    _, second = note_of(story)
    assert first.pk != second.pk
    assert outbox.carry_out() == 2
    sha = json.loads(second.text)["tombstone"]["at_sha"]
    assert sha == json.loads(first.text)["tombstone"]["at_sha"]
    assert git(story.repo, "notes", f"--ref={NOTES}", "show", sha) == f"{first.text}\n\n{second.text}"


def test_a_rebuilt_baton_is_noted_at_its_own_sha(story: Story) -> None:
    story.leg(turns=1)
    rebuilt = replace(
        current(story.relay), tombstone=TombstoneRecord("RELAY_BATON_STALE", story.legs[0].end_sha, "rebuilt")
    )
    row = story.write(story.legs[1], rebuilt)
    owe(story, Outbox.Kind.GIT_NOTE, str(row.pk))
    assert outbox.carry_out() == 1
    assert git(story.repo, "notes", f"--ref={NOTES}", "show", story.legs[0].end_sha) == row.text


def test_what_is_owed_again_while_it_is_done_is_not_lost(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relay that is parked while its record is being written: the record is written once more."""
    travel.owe(story.relay.pk, timezone.now())
    real = outbox._do

    def and_then_it_changes(row: Outbox) -> None:
        real(row)
        monkeypatch.undo()
        Relay.objects.filter(pk=story.relay.pk).update(status="parked")
        travel.owe(story.relay.pk, timezone.now())

    monkeypatch.setattr(outbox, "_do", and_then_it_changes)
    outbox.carry_out()
    assert Outbox.objects.get(target=f"{story.relay.pk}.state").done_at is None
    assert outbox.carry_out() == 1
    record = travel_store.read_record(stores.store(story.relay), story.relay.pk)
    assert record is not None and record.status == "parked"
    assert Outbox.objects.filter(target=f"{story.relay.pk}.state").count() == 1


def test_a_record_that_cannot_be_made_keeps_nothing_else_waiting(story: Story) -> None:
    Relay.objects.filter(pk=story.relay.pk).update(start_sha="not a sha")
    travel.owe(story.relay.pk, timezone.now())
    row, _ = note_of(story)
    assert outbox.carry_out() == 1
    row.refresh_from_db()
    assert row.done_at is not None
    assert "start_sha" in Outbox.objects.get(target=f"{story.relay.pk}.state").error
