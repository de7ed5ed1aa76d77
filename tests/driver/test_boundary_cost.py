"""What a boundary costs the agent that waits there, counted in git processes: a process costs more than all the rest.

rules.md, Arm and fire: every boundary is judged on the world as it is, so what cannot have changed is not asked again.
"""

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import connection

from relays.driver import reload, supervisor
from relays.driver.attached import Attached
from relays.driver.measure import Measure
from relays.driver.supervisor import Supervisor
from relays.stores.base import StoreUnavailable
from relays.stores.gitrun import counting
from tests.driver.course import boundary, commit, player, turn


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[str]]]:
    """For each boundary in turn, the git words that were asked at it."""
    found: list[list[str]] = []
    take, answer = Supervisor._line, Attached.answer
    asked: list[list[Any]] = []

    def taken(self: Any, line: bytes) -> str:
        with counting() as seen:
            asked[:] = [seen]
            return take(self, line)

    def answered(self: Any, line: str) -> None:
        (seen,) = asked
        found.append([next(word for word in one if not word.startswith("-") and "=" not in word) for one in seen])
        answer(self, line)

    monkeypatch.setattr(Supervisor, "_line", taken)
    monkeypatch.setattr(Attached, "answer", answered)
    return lambda: found


def test_a_quiet_boundary_asks_only_for_what_may_have_changed(course, asked) -> None:
    steps = [*turn(1000), *commit("a.txt"), *boundary("Go on.")]
    steps += [*turn(1100), *boundary("Go on."), *turn(1200), *boundary("Go on."), *turn(130_000), *boundary("Go on.")]
    relay = course(done="file:none.txt", **player({"0": steps}))
    relay.step()
    first, *quiet, arms = asked()
    assert relay.answers(0) == ["go", "go", "go", "stop"]
    for words in quiet:
        assert words == ["status"], "nothing else can have changed unseen"
    assert not {"config", "ls-files"} & set(first), "asked while the agent worked"
    assert arms.count("patch-id") == 1, "progress is counted once, though arming asks for it twice"


def test_progress_is_counted_once_from_the_last_boundary_to_the_end_of_the_leg(course, monkeypatch) -> None:
    """The tip and the events are the same: what arming counted is what the end is judged by."""
    relay = course(**player({"0": [*turn(130_000), *commit("a.txt"), *boundary("Go on.")]}))
    with counting() as seen:
        relay.step()
    assert relay.legs[0].progress == 1
    assert sum("patch-id" in one for one in seen) == 1


def test_a_look_that_fails_while_the_agent_works_ends_nothing(course, monkeypatch) -> None:
    """It is asked again where it counts."""
    relay = course(**player({"0": [*turn(130_000), *commit("a.txt"), *boundary("Go on.")]}))
    stores_for, warm = reload.stores_for, Measure.warm
    failed: list[str] = []

    def silent(*_: Any) -> Any:
        failed.append("asked")
        raise StoreUnavailable("it does not answer")

    def while_silent(self: Measure) -> None:
        monkeypatch.setattr(reload, "stores_for", silent)
        warm(self)
        monkeypatch.setattr(reload, "stores_for", stores_for)

    monkeypatch.setattr(Measure, "warm", while_silent)
    relay.step()
    assert failed == ["asked"]
    assert relay.legs[0].reason == "RELAY_ROTATED"


def test_a_quiet_boundary_says_few_statements_and_commits_twice(course, monkeypatch) -> None:
    """A statement costs an agent's wait, and a commit a wait for the disk: what was said, and what was decided."""
    steps = [step for size in (1000, 1100, 1200, 1300) for step in (*turn(size), *boundary("Go on."))]
    relay = course(done="file:none.txt", **player({"0": [*steps, *turn(130_000), *boundary("Go on.")]}))
    take, said = Supervisor._boundary, []

    def taken(self: Any, seq: int, now: Any) -> str:
        said.append([])
        return take(self, seq, now)

    def heard(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if said:
            said[-1].append(sql.split()[0])
        return execute(sql, params, many, context)

    monkeypatch.setattr(Supervisor, "_boundary", taken)
    with connection.execute_wrapper(heard):
        relay.step()
    for words in said[1:-1]:
        assert len(words) <= 20 and words.count("BEGIN") <= 2, words


def test_words_that_come_together_are_written_together_and_no_stream_of_them_keeps_the_rest_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [100.0]
    monkeypatch.setattr(supervisor.time, "monotonic", lambda: clock[0])
    said: list[list[bytes]] = []
    reads: list[float] = []

    def read(patience: float) -> list[bytes]:
        reads.append(patience)
        clock[0] += patience
        return said.pop(0) if said else []

    leg = SimpleNamespace(queue=deque(), ingest=SimpleNamespace(waiting=[]), gathering=0.0)
    leg.line = SimpleNamespace(read=read)
    assert not Supervisor._more_comes(leg) and not reads, "nothing waits to be written"
    leg.ingest.waiting = ["tool_ended"]
    said.append([b"boundary"])
    assert Supervisor._more_comes(leg) and leg.queue.pop() == b"boundary"
    assert not Supervisor._more_comes(leg), "a breath of silence: it is written"
    said += [[b"on and on"]] * 1000
    told = 0
    while Supervisor._more_comes(leg):
        leg.queue.clear()
        told += 1
    assert 1 < told <= supervisor.UNWRITTEN / supervisor.BREATH + 1
    leg.queue.append(b"more than one look")
    assert not Supervisor._more_comes(leg), "what was said is written before it is looked at further"
