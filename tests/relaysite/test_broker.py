"""The embedded broker: a bell that one process rings is heard by another, on a WAL file of its own."""

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from celery.beat import SchedulingError
from celery.schedules import schedule

from relaysite.beat import Scheduler
from relaysite.broker import POLLING_SECONDS, Transport
from relaysite.celery import app

ROOT = Path(__file__).resolve().parents[2]

APP = """
import pathlib, sys
from relaysite.celery import app

@app.task(name="bell")
def bell(path):
    pathlib.Path(path).touch()
"""
RING = "import bells, sys; bells.bell.delay(sys.argv[1])"


def test_our_transport_serves_the_embedded_address() -> None:
    with app.connection_for_write() as link:
        assert isinstance(link.transport, Transport)
        assert link.transport.polling_interval == POLLING_SECONDS


def test_a_worker_hears_a_bell_from_another_process(tmp_path: Path) -> None:
    (tmp_path / "bells.py").write_text(APP, encoding="utf-8")
    env = {
        **os.environ,
        "RELAY_VAR": str(tmp_path / "var"),
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "CELERY_SKIP_CHECKS": "1",
    }
    options = ["-Q", "drive", "-c", "1", "-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    with (tmp_path / "worker.log").open("wb") as log:
        worker = subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "bells", "worker", *options],
            env=env,
            cwd=tmp_path,
            stdout=log,
            stderr=log,
        )
    try:
        heard = tmp_path / "heard"
        subprocess.run([sys.executable, "-c", RING, str(heard)], env=env, cwd=tmp_path, check=True)
        deadline = time.monotonic() + 60
        while not heard.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert heard.exists(), (tmp_path / "worker.log").read_text()
    finally:
        worker.terminate()
        worker.wait(30)
    link = sqlite3.connect(tmp_path / "var" / "broker.sqlite3")
    assert link.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    link.close()


def test_processes_that_meet_a_fresh_file_at_once_all_open_it(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from relaysite.celery import app\n"
        "link = app.connection_for_write()\n"
        "sys.stdin.read()\n"
        "link.default_channel.queue_declare('drive')\n"
        "link.release()\n"
    )
    env = {**os.environ, "RELAY_VAR": str(tmp_path / "var"), "PYTHONPATH": str(ROOT), "CELERY_SKIP_CHECKS": "1"}
    several = [
        subprocess.Popen([sys.executable, "-c", program], env=env, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    time.sleep(3)  # all of them are loaded and wait
    for one in several:
        assert one.stdin is not None
        one.stdin.close()
    for one in several:
        assert one.stderr is not None
        words = one.stderr.read().decode()
        one.stderr.close()
        assert one.wait(60) == 0, words


def test_beat_opens_a_new_channel_after_a_bell_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(app, schedule_filename=str(tmp_path / "beat"), lazy=True)
    entry = scheduler.Entry(name="bell", task="bell", schedule=schedule(2.0), app=app)
    scheduler.data = {"bell": entry}
    before = scheduler.producer
    before.channel.close()
    with pytest.raises(SchedulingError):
        scheduler.apply_async(entry, producer=scheduler.producer, advance=False)
    assert scheduler.producer is not before
    assert scheduler.apply_async(entry, producer=scheduler.producer, advance=False).id
    scheduler.connection.release()
