"""The embedded broker: a bell that one process rings is heard by another, on a WAL file of its own."""

import os
import socket
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from celery import Celery
from celery.beat import SchedulingError
from celery.schedules import schedule

from relaysite.beat import Scheduler
from relaysite.broker import POLLING_SECONDS, Transport
from relaysite.celery import app

ROOT = Path(__file__).resolve().parents[2]

APP = """
import pathlib, sys
from kombu import Queue
from relaysite.celery import app

# a queue of this test alone, which the broker itself forgets
app.conf.task_queues = [Queue("NAME", queue_arguments={"x-expires": 120000})]
app.conf.task_default_queue = "NAME"

@app.task(name="bell")
def bell(path):
    pathlib.Path(path).touch()
"""
RING = "import bells, sys; bells.bell.delay(sys.argv[1])"

BROKERS = [
    pytest.param("", 0, id="embedded"),
    pytest.param("redis://127.0.0.1:6379/9", 6379, id="redis", marks=pytest.mark.slow),
    pytest.param("amqp://guest:guest@127.0.0.1:5672//", 5672, id="rabbitmq", marks=pytest.mark.slow),
]


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_our_transport_serves_the_embedded_address() -> None:
    with app.connection_for_write() as link:
        assert isinstance(link.transport, Transport)
        assert link.transport.polling_interval == POLLING_SECONDS


@pytest.mark.slow
@pytest.mark.parametrize(("url", "port"), BROKERS)
def test_a_worker_hears_a_bell_from_another_process(tmp_path: Path, url: str, port: int) -> None:
    if port and not answers(port):
        assert not os.environ.get("CI"), f"nothing answers on 127.0.0.1:{port}: in CI a missing service fails"
        pytest.skip(f"left out: nothing answers on 127.0.0.1:{port}")
    name = f"bells-{os.getpid()}"
    (tmp_path / "bells.py").write_text(APP.replace("NAME", name), encoding="utf-8")
    env = {
        **os.environ,
        "BROKER_URL": url,
        "RELAY_VAR": str(tmp_path / "var"),
        "PYTHONPATH": f"{tmp_path}:{ROOT}",
        "CELERY_SKIP_CHECKS": "1",
    }
    options = ["-Q", name, "-c", "1", "-l", "ERROR", "--without-gossip", "--without-mingle", "--without-heartbeat"]
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
    if not url:
        link = sqlite3.connect(tmp_path / "var" / "broker.sqlite3")
        assert link.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        link.close()


@pytest.mark.slow
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
    ends: list[tuple[int, str]] = []
    for one in several:  # every one is waited for before any is judged: a failure leaves no process behind
        assert one.stderr is not None
        words = one.stderr.read().decode()
        one.stderr.close()
        ends.append((one.wait(60), words))
    assert [code for code, _ in ends] == [0] * 4, ends


def test_a_queue_that_another_process_made_in_between_is_read_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The narrowest moment: our look found nothing, and the row is there when we insert."""
    broker = tmp_path / "broker.sqlite3"
    with Celery("other", broker=f"sqla+sqlite:///{broker}").connection_for_write() as link:
        channel = link.default_channel
        channel.queue_declare("first")
        held = channel.session
        commit, rival = held.commit, sqlite3.connect(broker)

        def overtaken() -> None:
            monkeypatch.setattr(held, "commit", commit)
            rival.execute("INSERT INTO kombu_queue (name) VALUES ('drive')")
            rival.commit()
            commit()

        monkeypatch.setattr(held, "commit", overtaken)
        channel.queue_declare("drive")
        assert rival.execute("SELECT count(*) FROM kombu_queue WHERE name = 'drive'").fetchone() == (1,)
        rival.close()


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
