"""People of every role, a relay that is parked at a gate over a real repository, and no bell that rings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import make_repo

if TYPE_CHECKING:
    from relays.models import GateEpisode
    from tests.actions.acts import People
    from tests.driver.course import Course
    from tests.report_builders import Story


@pytest.fixture(autouse=True)
def _no_bells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the broker nor a process of its own takes the next step: the test does."""
    from relays.driver import spawn
    from relaysite.celery import app

    monkeypatch.setattr(app, "send_task", lambda *_, **__: None)
    monkeypatch.setattr(spawn, "supervisor", lambda relay_id, leg_pk: False)
    monkeypatch.setattr(spawn, "looker", lambda relay_id: False)


@pytest.fixture
def people(db: None) -> People:
    from tests.actions.acts import People

    return People.made()


@pytest.fixture
def story(people: People, tmp_path: Path) -> Story:
    """Started by the operator `pat`; leg 0 rotated, leg 1 ended unsafe."""
    from tests.report_builders import Story

    told = Story(tmp_path / "repo", owner=people.operator.user)
    told.leg(turns=2)
    told.leg(turns=2, reason="RELAY_PARKED_UNSAFE", cause="ceiling", hold="TREE_DIRTY_UNPARKED")
    return told


@pytest.fixture
def gate(story: Story) -> GateEpisode:
    """The relay is parked and this waits."""
    return story.park()


@pytest.fixture
def course(transactional_db: None, tmp_path: Path) -> Callable[..., Course]:
    """`course(issues=3, args={…}, sets=[…])` starts a relay that really runs: `drive()` takes its steps here."""
    from tests.driver.course import Course, start_relay

    def start(*, issues: int = 3, **values: Any) -> Course:
        return Course(start_relay(make_repo(tmp_path / "driven", issues=issues), **values).pk)

    return start
