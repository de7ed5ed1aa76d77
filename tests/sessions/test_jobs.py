"""The life of an import, with a reader that does as it is told: who holds it, what it says, and how it ends.

What is really read is tested with the reader itself; `test_import_processes.py` has workers that die.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import OperationalError
from django.utils import timezone

from relays import tasks
from relays.driver import reconcile
from relays.models import Import, Topic
from relays.sessions import jobs, run, topics
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db

Reads = Callable[..., run.Outcome]


@pytest.fixture
def bells(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What was rung for, in order; a bell rings at once here instead of after the commit."""
    rung: list[tuple[str, int]] = []
    monkeypatch.setattr(jobs.bell, "ring", lambda task, what: rung.append((task, what)))
    return rung


@pytest.fixture
def begin(bells: list[tuple[str, int]], tmp_path: Path) -> Callable[..., Import]:
    user = make_user("pat", "operator")

    def made(*, follow: bool = False, paths: list[str] | None = None) -> Import:
        return jobs.begin(user, paths or [str(tmp_path.resolve())], follow=follow, now=timezone.now())

    return made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[Reads], None]:
    """`reads(act)`: whoever reads does what `act(paths, **options)` does."""
    monkeypatch.setattr(jobs, "BEAT_EVERY", 0.0)
    return lambda act: monkeypatch.setattr(run, "import_paths", act)


def part(done: int, of: int, **values: Any) -> run.Outcome:
    return run.Outcome(
        finished=done == of, files_total=of, files_done=done, bytes_total=of * 100, bytes_done=done * 100, **values
    )


def number(name: str) -> int:
    return Topic.objects.filter(name=name).values_list("number", flat=True).first() or 0


def test_it_waits_runs_and_is_done_in_as_many_steps_as_it_needs(
    begin: Callable[..., Import], reads: Callable[[Reads], None], bells: list[tuple[str, int]]
) -> None:
    job = begin()
    assert (job.status, bells) == ("waiting", [("relays.tasks.import_step", job.pk)])
    asked: list[Any] = []

    def act(paths: list[str], **options: Any) -> run.Outcome:
        asked.append((paths, options["job"].pk, options["seconds"]))
        assert options["job"].status == "running"
        options["progress"](run.Progress(3, len(asked), 300, len(asked) * 100))
        job.refresh_from_db()
        assert job.bytes_done == len(asked) * 100, "how far it is stands there while it runs"
        return part(len(asked), 3)

    reads(act)
    before = number(topics.job(job.pk))
    bells.clear()
    assert [jobs.step(job.pk) for _ in range(4)] == ["running", "running", "done", "not due"]
    assert asked == [(job.paths, job.pk, jobs.STEP_TAKES * jobs.READING)] * 3
    assert bells == [("relays.tasks.import_step", job.pk)] * 2, "it rings for its own next step, none when it is done"
    job.refresh_from_db()
    assert (job.status, job.files_done, job.files_total, job.bytes_done, job.error) == ("done", 3, 3, 300, "")
    assert job.ended_at and job.beat_at is None and job.next_at is None
    assert number(topics.job(job.pk)) > before
    assert number(topics.SESSIONS) == number(topics.job(job.pk)), "the list of imports shows its end too"


def test_the_task_takes_one_step(begin: Callable[..., Import], reads: Callable[[Reads], None]) -> None:
    job = begin()
    reads(lambda paths, **options: part(1, 1))
    tasks.import_step(job.pk)
    job.refresh_from_db()
    assert job.status == "done"
    tasks.import_step(job.pk + 1)  # a bell for what is not there is nobody's


def test_a_second_worker_finds_it_busy_and_one_at_a_time_reads_on_the_whole_site(
    begin: Callable[..., Import], reads: Callable[[Reads], None], bells: list[tuple[str, int]]
) -> None:
    job, other = begin(), begin()
    seen: list[str] = []

    def act(paths: list[str], **options: Any) -> run.Outcome:
        seen.extend((jobs.step(job.pk), jobs.step(other.pk)))
        assert not jobs.ring_due(timezone.now())
        assert options["seconds"] == jobs.STEP_TAKES_BESIDE * jobs.READING, "another waits: the step is short"
        return part(1, 2)

    reads(act)
    bells.clear()
    assert jobs.step(job.pk) == "running"
    assert seen == ["busy", "busy"]
    assert bells == [("relays.tasks.import_step", other.pk)], "whoever is due for longest comes next"


def test_whoever_beats_no_more_is_replaced_and_writes_nothing_afterwards(
    begin: Callable[..., Import], reads: Callable[[Reads], None]
) -> None:
    job = begin()
    said: list[object] = []

    def slow(paths: list[str], **options: Any) -> run.Outcome:
        old = timezone.now() - jobs.BEAT_STALE - timedelta(seconds=1)
        Import.objects.filter(pk=job.pk).update(beat_at=old)  # this worker hung for so long
        reads(lambda paths, **options: part(2, 2))
        said.append(jobs.step(job.pk))
        said.append(options["cancelled"]())
        options["progress"](run.Progress(9, 9, 900, 900))
        return part(1, 2)

    reads(slow)
    assert jobs.step(job.pk) == "lost"
    assert said == ["done", True]
    job.refresh_from_db()
    assert (job.status, job.files_done, job.bytes_total) == ("done", 2, 200)


def test_a_worker_killed_in_its_step_is_found_by_reconcile(
    begin: Callable[..., Import], reads: Callable[[Reads], None], bells: list[tuple[str, int]]
) -> None:
    job = begin()

    def killed(paths: list[str], **options: Any) -> run.Outcome:
        raise KeyboardInterrupt  # as SIGKILL does, it leaves the claim as it is

    reads(killed)
    with pytest.raises(KeyboardInterrupt):
        jobs.step(job.pk)
    bells.clear()
    reconcile.reconcile()
    assert bells == [], "nobody knows yet that it is dead"
    assert jobs.step(job.pk) == "busy"
    Import.objects.update(beat_at=timezone.now() - jobs.BEAT_STALE - timedelta(seconds=1))
    reconcile.reconcile()
    assert bells == [("relays.tasks.import_step", job.pk)]
    reads(lambda paths, **options: part(1, 1))
    assert jobs.step(job.pk) == "done"


def test_a_lost_bell_and_a_worker_killed_between_two_steps_cost_time_only(
    begin: Callable[..., Import], reads: Callable[[Reads], None], bells: list[tuple[str, int]]
) -> None:
    job = begin()
    reads(lambda paths, **options: part(1, 2))
    for _ in range(2):
        bells.clear()  # whatever rang was lost
        reconcile.reconcile()
        assert bells == [("relays.tasks.import_step", job.pk)]
        assert jobs.step(job.pk) == "running"


def test_cancelled_while_nobody_reads_it_ends_at_once(begin: Callable[..., Import]) -> None:
    job = begin()
    assert jobs.cancel(job.pk, now=timezone.now())
    job.refresh_from_db()
    assert job.status == "cancelled" and job.ended_at
    assert jobs.step(job.pk) == "not due"
    assert not jobs.cancel(job.pk, now=timezone.now())


@pytest.mark.parametrize("follow", [False, True])
def test_cancelled_in_the_middle_it_stops_reading_and_keeps_what_it_read(
    begin: Callable[..., Import], reads: Callable[[Reads], None], follow: bool
) -> None:
    job = begin(follow=follow)

    def act(paths: list[str], **options: Any) -> run.Outcome:
        assert not options["cancelled"]()
        assert jobs.cancel(job.pk, now=timezone.now())
        assert Import.objects.get(pk=job.pk).status == "running", "until the one who reads lets go"
        assert options["cancelled"]()
        return part(1, 3)

    reads(act)
    assert jobs.step(job.pk) == "cancelled"
    job.refresh_from_db()
    assert (job.files_done, job.ended_at is None, job.beat_at) == (1, False, None)


def test_cancelled_between_the_last_look_and_the_letting_go_it_does_not_rest_first(
    begin: Callable[..., Import], reads: Callable[[Reads], None]
) -> None:
    job = begin(follow=True)

    def act(paths: list[str], **options: Any) -> run.Outcome:
        jobs.cancel(job.pk, now=timezone.now())
        return part(1, 1)

    reads(act)
    assert jobs.step(job.pk) == "cancelled"


def test_a_cancelled_or_failed_one_goes_on_where_it_stood_a_done_one_does_not(
    begin: Callable[..., Import], reads: Callable[[Reads], None], bells: list[tuple[str, int]]
) -> None:
    job = begin()
    assert not jobs.resume(job.pk, now=timezone.now()), "it has not ended"
    reads(lambda paths, **options: part(1, 2))
    jobs.step(job.pk)
    jobs.cancel(job.pk, now=timezone.now())
    bells.clear()
    assert jobs.resume(job.pk, now=timezone.now())
    assert bells == [("relays.tasks.import_step", job.pk)]
    job.refresh_from_db()
    assert (job.status, job.cancel, job.ended_at, job.files_done) == ("waiting", False, None, 1)

    def broken(paths: list[str], **options: Any) -> run.Outcome:
        raise ValueError("of two\nlines")

    reads(broken)
    assert jobs.step(job.pk) == "failed"
    job.refresh_from_db()
    assert job.error == "ValueError: of two lines" and job.ended_at
    assert jobs.resume(job.pk, now=timezone.now())
    reads(lambda paths, **options: part(2, 2))
    assert jobs.step(job.pk) == "done"
    job.refresh_from_db()
    assert job.error == ""
    assert not jobs.resume(job.pk, now=timezone.now())


def test_a_database_that_does_not_answer_is_tried_again_later(
    begin: Callable[..., Import], reads: Callable[[Reads], None]
) -> None:
    job = begin()

    def locked(paths: list[str], **options: Any) -> run.Outcome:
        raise OperationalError("database is locked")

    reads(locked)
    assert jobs.step(job.pk) == "running"
    job.refresh_from_db()
    assert "database is locked" in job.error and job.next_at and job.next_at > timezone.now()
    assert jobs.step(job.pk) == "not due"
    Import.objects.update(next_at=timezone.now())
    reads(lambda paths, **options: part(1, 1))
    assert jobs.step(job.pk) == "done"
    job.refresh_from_db()
    assert job.error == ""


def test_problems_are_bounded_and_those_of_a_whole_look_replace_older_ones(
    begin: Callable[..., Import], reads: Callable[[Reads], None]
) -> None:
    job = begin(follow=True)
    met = [run.Problem(f"/p/{n}", "no permission") for n in range(150)]
    reads(lambda paths, **options: part(1, 2, problems=met[:60]))
    jobs.step(job.pk)
    reads(lambda paths, **options: part(1, 2, problems=met[30:]))
    jobs.step(job.pk)
    job.refresh_from_db()
    assert [one["path"] for one in job.problems] == [f"/p/{n}" for n in range(jobs.MOST_PROBLEMS)]
    odd = run.Problem("/p/\udcff\0", "w" * 1000)
    reads(lambda paths, **options: part(2, 2, problems=[odd]))
    jobs.step(job.pk)
    job.refresh_from_db()
    assert job.problems == [{"path": "/p/\\udcff\\0", "why": "w" * 300}]


def test_a_follow_looks_again_soon_while_something_changes(
    begin: Callable[..., Import], reads: Callable[[Reads], None]
) -> None:
    job = begin(follow=True)
    reads(lambda paths, **options: part(1, 1, changed={1}))
    assert jobs.step(job.pk) == "running"
    job.refresh_from_db()
    assert job.next_at is not None
    assert timedelta(0) < job.next_at - timezone.now() <= jobs.LOOK_SOONEST
    assert jobs.step(job.pk) == "not due"
    Import.objects.update(next_at=timezone.now())
    reads(lambda paths, **options: part(1, 1))
    assert jobs.step(job.pk) == "running"
    job.refresh_from_db()
    assert jobs.LOOK_SOONEST < job.next_at - timezone.now() <= jobs.LOOK_LATEST, "nothing changes: later"


def test_a_path_that_a_link_leads_elsewhere_since_it_was_named_is_not_read(
    begin: Callable[..., Import], reads: Callable[[Reads], None], tmp_path: Path
) -> None:
    here, secret = tmp_path.resolve() / "here", tmp_path.resolve() / "secret"
    here.mkdir()
    secret.mkdir()
    job = begin(paths=[str(here), str(secret)])
    here.rmdir()
    here.symlink_to(secret)
    read: list[list[str]] = []

    def act(paths: list[str], **options: Any) -> run.Outcome:
        read.append(paths)
        return part(1, 1)

    reads(act)
    assert jobs.step(job.pk) == "done"
    assert read == [[str(secret)]]
    job.refresh_from_db()
    assert [one["path"] for one in job.problems] == [str(here)]
    assert "link" in job.problems[0]["why"]
