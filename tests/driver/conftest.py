"""Relays of the driver's tests: real git, real agents in real containment; the supervisor runs in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.builders import make_repo

if TYPE_CHECKING:
    from tests.driver.course import Course


@pytest.fixture
def course(
    transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> Callable[..., Course]:
    """`course(issues=3, done=…, region=…, agent=…, args={…}, sets=[…], mode=…)` starts a relay on a fresh repository.

    `repo=` names an existing one. Bells are not rung: each step is taken by the test.
    """
    from relays.driver import spawn
    from tests.driver.course import Course, start_relay

    # a database that was emptied counts its relays anew: their worktrees must not meet those of another test
    settings.RELAY_VAR = tmp_path / "var"
    # neither the broker nor a process of its own takes the next step: the test does
    monkeypatch.setattr("relaysite.celery.app.send_task", lambda *_, **__: None)
    monkeypatch.setattr(spawn, "supervisor", lambda relay_id, leg_pk: False)
    monkeypatch.setattr(spawn, "looker", lambda relay_id: False)
    count = iter(range(100))

    def start(*, issues: int = 3, repo: Path | None = None, **values: Any) -> Course:
        place = repo or make_repo(tmp_path / f"repo-{next(count)}", issues=issues)
        return Course(start_relay(place, **values).pk)

    return start


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`meanwhile(boundary, act)`: just before that boundary (counted over legs from 1) is judged, `act()` happens."""
    from relays.driver.boundaries import Boundaries

    acts: dict[int, Callable[[], object]] = {}
    seen = 0
    judge = Boundaries.judge

    def judged(self: Any, *args: Any, **values: Any) -> Any:
        nonlocal seen
        seen += 1
        if act := acts.pop(seen, None):
            act()
        return judge(self, *args, **values)

    monkeypatch.setattr(Boundaries, "judge", judged)

    def at(boundary: int, act: Callable[[], object]) -> None:
        acts[seen + boundary] = act

    return at


class Killed(BaseException):
    """Stands for `kill -9` of a supervisor in this process: nothing catches it."""


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`killed(owner, "name", nth=1, after=False)`: the nth call of that method kills the supervisor, once."""

    def arrange(owner: Any, name: str, *, nth: int = 1, after: bool = False) -> None:
        real = getattr(owner, name)
        calls = 0

        def dying(*args: Any, **values: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls != nth:
                return real(*args, **values)
            if after:
                real(*args, **values)
            raise Killed(name)

        monkeypatch.setattr(owner, name, dying)

    return arrange
