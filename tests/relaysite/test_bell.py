"""architecture.md, The way of control: "the broker is a doorbell". One that is down keeps nobody waiting."""

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from kombu.exceptions import OperationalError
from kombu.utils import functional

from relaysite import bell
from relaysite.celery import app

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("awake")]


@pytest.fixture
def awake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bell, "_silent_until", 0.0)


@pytest.fixture
def refusing() -> Iterator[int]:
    """A port that nobody listens on, held so that nobody else comes to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long whoever rings was made to wait for a further try."""
    found: list[float] = []
    monkeypatch.setattr(functional, "sleep", found.append)
    return found


@pytest.mark.parametrize("scheme", ["redis", "amqp"])
def test_a_broker_that_refuses_is_tried_once_and_left_alone_for_a_while(
    django_capture_on_commit_callbacks: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    refusing: int,
    slept: list[float],
    scheme: str,
) -> None:
    """Workers and beat wait for it to come back; a page, a command and a supervisor go on."""
    monkeypatch.setattr(app.conf, "broker_url", f"{scheme}://127.0.0.1:{refusing}//")
    tried: list[str] = []
    send = bell._send

    def counted(task: str, what: str | int) -> None:
        tried.append(f"{task} {what}")
        send(task, what)

    monkeypatch.setattr(bell, "_send", counted)
    for number in range(3):
        with django_capture_on_commit_callbacks(execute=True):
            bell.ring("relays.tasks.advance", number)
    assert slept == []
    assert tried == ["relays.tasks.advance 0"]
    assert [line.message for line in caplog.records if line.levelname == "WARNING"] == [
        line.message for line in caplog.records if "reconcile will find it" in line.message
    ]
    monkeypatch.setattr(bell, "_silent_until", 0.0)
    with django_capture_on_commit_callbacks(execute=True):
        bell.ring("relays.tasks.advance", 3)
    assert tried == ["relays.tasks.advance 0", "relays.tasks.advance 3"], "it is tried again after a while"


def test_a_bell_that_cannot_be_rung_breaks_nothing(
    django_capture_on_commit_callbacks: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> None:
        raise OperationalError("down")

    monkeypatch.setattr(bell, "_send", down)
    with django_capture_on_commit_callbacks(execute=True):
        bell.ring("relays.tasks.advance", "RLY-1")
