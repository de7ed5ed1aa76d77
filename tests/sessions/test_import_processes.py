"""An import over many steps by workers that are processes: two at once, one killed, cancelled and gone on with."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.utils import timezone

from relays.models import Import, ImportedFile, Session
from relays.sessions import jobs
from tests.sessions.watched import ROOT, counted, rolled_up, until
from tests.web_builders import make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.timeout(400)]

FILES, CALLS = 120, 12
#: steps so short that there are many; `sys.argv[2]`: for so many seconds nobody takes over from one that is silent
WORKER = """
import sys, time, django
django.setup()
from datetime import timedelta
from relays.models import Import
from relays.sessions import jobs, run
run.BATCH_PARTS = 3
jobs.BEAT_STALE, jobs.BEAT_EVERY = timedelta(seconds=float(sys.argv[2])), 0.02
jobs.bell.ring = lambda task, what: None
while Import.objects.get(pk=sys.argv[1]).status in jobs.OPEN:
    print(jobs.step(int(sys.argv[1]), seconds=0.01), flush=True)
    time.sleep(0.02)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Sessions of one file each, every second one a copy of the session before it with two calls of its own."""
    made = tmp_path.resolve() / "projects"
    made.mkdir()
    for n in range(FILES):
        lines = [line(n, n - n % 2, k) for k in range(CALLS - 2)] + [line(n, n, k) for k in (CALLS - 2, CALLS - 1)]
        (made / f"session-{n:04d}.jsonl").write_text("".join(lines), encoding="utf-8")
    return made


def line(session: int, owner: int, k: int) -> str:
    at = f"2026-03-{1 + session % 28:02d}T{owner // 60 % 24:02d}:{owner % 60:02d}:{k:02d}.000Z"
    return (
        json.dumps(
            {
                "type": "assistant",
                "uuid": f"u-{owner}-{k}",
                "sessionId": f"session-{session:04d}",
                "timestamp": at,
                "version": "2.1.200",
                "cwd": "/nowhere/orders",
                "requestId": f"r-{owner}-{k}",
                "message": {
                    "id": f"m-{owner}-{k}",
                    "model": "claude-sonnet-4-5",
                    "role": "assistant",
                    "stop_reason": "end_turn",
                    "content": [{"type": "text", "text": "Said."}],
                    "usage": {
                        "input_tokens": 1,
                        "cache_read_input_tokens": 1000 * k,
                        "cache_creation_input_tokens": 100,
                        "output_tokens": 7,
                    },
                },
            }
        )
        + "\n"
    )


def right() -> dict[str, int]:
    copies = FILES // 2 * (CALLS - 2)
    calls = FILES * CALLS - copies
    reads = FILES * sum(range(CALLS)) - FILES // 2 * sum(range(CALLS - 2))
    return {
        "calls": calls,
        "input": calls,
        "cache_read": reads * 1000,
        "cache_write": calls * 100,
        "output": calls * 7,
        "compactions": 0,
    }


@pytest.fixture
def job(transactional_db: None, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Import:
    monkeypatch.setattr(jobs.bell, "ring", lambda task, what: None)
    return jobs.begin(make_user("pat", "operator"), [str(folder)], follow=False, now=timezone.now())


Work = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def work(job: Import, process_env: dict[str, str]) -> Iterator[Work]:
    begun: list[subprocess.Popen[str]] = []
    env = {**process_env, "DJANGO_SETTINGS_MODULE": "relaysite.settings"}

    def start(stale: float = 30) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", WORKER, str(job.pk), str(stale)]
        begun.append(subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True))
        return begun[-1]

    yield start
    for one in begun:
        one.kill()
        one.communicate()


def all_is_right(job: Import) -> None:
    job.refresh_from_db()
    assert (job.status, job.error, job.problems) == ("done", "", [])
    assert (job.files_done, job.files_total, job.bytes_done) == (FILES, FILES, job.bytes_total)
    assert ImportedFile.objects.filter(job=job).count() == FILES
    assert Session.objects.count() == FILES
    assert counted() == rolled_up() == right()


def test_two_workers_on_one_import_do_nothing_twice(job: Import, work: Work) -> None:
    workers = [work(), work()]
    said = [one.communicate(timeout=200)[0].split("\n") for one in workers]
    assert [one.returncode for one in workers] == [0, 0]
    words = [word for one in said for word in one if word]
    assert words.count("done") == 1
    assert words.count("running") > 3, "it took many steps"
    assert "lost" not in words
    all_is_right(job)


def test_a_killed_worker_costs_its_step(job: Import, work: Work) -> None:
    for part in (0.1, 0.4):
        worker = work(stale=2)
        until(lambda part=part: (Import.objects.get(pk=job.pk).files_done or 0) > FILES * part)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        standing = Import.objects.get(pk=job.pk)
        assert standing.status == "running"
        assert standing.files_done < FILES
    assert work(stale=2).wait(timeout=200) == 0
    all_is_right(job)


def test_cancelled_in_the_middle_what_was_read_is_right_and_it_goes_on_from_there(job: Import, work: Work) -> None:
    worker = work()
    until(lambda: Import.objects.get(pk=job.pk).files_done)
    assert jobs.cancel(job.pk, now=timezone.now())
    began = time.monotonic()
    assert worker.wait(timeout=200) == 0
    job.refresh_from_db()
    assert job.status == "cancelled", f"after {time.monotonic() - began} s"
    read = job.files_done
    assert 0 < read < FILES
    assert counted() == rolled_up()
    assert 0 < counted()["calls"] < right()["calls"]
    assert jobs.resume(job.pk, now=timezone.now())
    assert work().wait(timeout=200) == 0
    all_is_right(job)
