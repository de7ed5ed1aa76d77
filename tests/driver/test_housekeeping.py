"""The embedded broker's file does not grow: heard bells go, those that nobody heard yet stay."""

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from relays.driver.housekeeping import purge_doorbells
from relaysite.broker import Transport


def bells(path: Path) -> list[tuple[int, int]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT visible, count(*) FROM kombu_message GROUP BY visible").fetchall()


def test_heard_bells_go_and_others_stay(tmp_path: Path, settings: Any) -> None:
    path = tmp_path / "broker.sqlite3"
    settings.CELERY_BROKER_URL = f"sqla+sqlite:///{path}"
    with Connection(settings.CELERY_BROKER_URL) as link:
        assert isinstance(link.transport, Transport)
        queue = link.SimpleQueue("bells")
        for number in range(3):
            queue.put({"bell": number})
        for _ in range(2):
            queue.get(timeout=10).ack()
        assert dict(bells(path)) == {0: 2, 1: 1}
        assert purge_doorbells() == 2
        assert dict(bells(path)) == {1: 1}
        assert queue.get(timeout=10).payload == {"bell": 2}
        queue.close()
    assert purge_doorbells() == 1, "it is heard now"


@pytest.mark.parametrize("url", ["redis://127.0.0.1:6379/9", "amqp://guest:guest@127.0.0.1:5672//", ""])
def test_other_brokers_are_left_alone(settings: Any, url: str) -> None:
    settings.CELERY_BROKER_URL = url
    assert purge_doorbells() == 0


def test_a_broker_that_was_never_used_is_not_made(tmp_path: Path, settings: Any) -> None:
    path = tmp_path / "broker.sqlite3"
    settings.CELERY_BROKER_URL = f"sqla+sqlite:///{path}"
    assert purge_doorbells() == 0
    assert not path.exists()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (visible INTEGER)")
        connection.execute("INSERT INTO other VALUES (0)")
        connection.commit()
    assert purge_doorbells() == 0
