"""One supervisor for one relay: none beside a living one, none while one is being started."""

import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from relays.driver import places, spawn
from relays.driver.claim import kernel_lock
from relays.models import DriverClaim
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, settings: Any) -> list[dict[str, Any]]:
    """The processes that would have been started, each with its arguments."""
    settings.RELAY_VAR = tmp_path / "var"
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(spawn.subprocess, "Popen", lambda argv, **values: found.append({"argv": argv, **values}))
    return found


@pytest.fixture
def leg(started: list[dict[str, Any]]) -> Any:
    return make_leg(make_relay(status="ready"), 0, state="pending", started_at=None)


def spawned_at(relay_id: str) -> Any:
    return DriverClaim.objects.get(relay=relay_id).spawned_at


def test_it_is_a_process_of_its_own(leg: Any, started: list[dict[str, Any]]) -> None:
    assert spawn.supervisor(leg.relay_id, leg.pk)
    (process,) = started
    assert process["argv"] == [sys.executable, str(ROOT / "manage.py"), "relay", "supervise", str(leg.pk)]
    assert process["start_new_session"], "a signal to whoever started it does not reach it"
    assert process["stdout"].name == str(places.relay_folder(leg.relay_id) / "supervisor.log")
    assert process["stdin"] == spawn.subprocess.DEVNULL


def test_none_is_started_within_the_grace_of_another(leg: Any, started: list[dict[str, Any]]) -> None:
    assert spawn.supervisor(leg.relay_id, leg.pk)
    at = spawned_at(leg.relay_id)
    assert not spawn.supervisor(leg.relay_id, leg.pk)
    assert len(started) == 1
    assert spawned_at(leg.relay_id) == at, "a refused start does not prolong the grace"
    DriverClaim.objects.update(spawned_at=timezone.now() - spawn.START_GRACE + timedelta(seconds=2))
    assert not spawn.supervisor(leg.relay_id, leg.pk)
    DriverClaim.objects.update(spawned_at=timezone.now() - spawn.START_GRACE - timedelta(seconds=1))
    assert spawn.supervisor(leg.relay_id, leg.pk)
    assert len(started) == 2


def test_none_is_started_while_one_holds_the_lock(leg: Any, started: list[dict[str, Any]]) -> None:
    with kernel_lock(leg.relay_id):
        assert not spawn.supervisor(leg.relay_id, leg.pk)
    assert started == []
    assert not DriverClaim.objects.filter(relay=leg.relay_id).exists(), "no grace began"
    assert spawn.supervisor(leg.relay_id, leg.pk)


def test_the_lock_of_one_relay_keeps_no_other_waiting(leg: Any, started: list[dict[str, Any]]) -> None:
    other = make_leg(make_relay(status="ready"), 0, state="pending", started_at=None)
    with kernel_lock(other.relay_id):
        assert spawn.supervisor(leg.relay_id, leg.pk)
    assert len(started) == 1


def test_one_that_ended_well_lets_the_next_start_at_once(leg: Any, started: list[dict[str, Any]]) -> None:
    assert spawn.supervisor(leg.relay_id, leg.pk)
    spawn.forget_spawn(leg.relay_id)
    assert spawn.supervisor(leg.relay_id, leg.pk)
    assert len(started) == 2
