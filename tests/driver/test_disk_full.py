"""A full disk: the database refuses a write, git refuses an object. Nothing is half, it is said in words, and the relay
goes on when there is room again.

rules.md, The driver: "ONE database transaction"; "whoever retries any step after a crash reaches the same result".
Safe point: "parked never means lost". states.md: "A recorded end decision is finished".
"""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection

from relays import tasks
from relays.agents import channel, process
from relays.driver import outbox, supervised
from relays.models import Baton, Heartbeat, LegState, RelayStatus, ResetTransaction, Tombstone
from tests import histories
from tests.builders import git
from tests.driver.course import Course, boundary, commit, player, turn

pytestmark = pytest.mark.slow

Start = Callable[..., Course]
FULL = "database or disk is full"
WORK = [*commit("work.txt"), *turn(), *boundary("Go on."), *turn(), *boundary("Go on.", final=True)]
CHANGES = ("INSERT", "UPDATE", "DELETE")


@pytest.fixture(autouse=True)
def legal(transactional_db: None) -> Iterator[None]:
    with histories.recorded(connection) as changes:
        yield
        assert histories.illegal(changes()) == []


class Disk:
    """Takes `room` statements that change something, then none until there is room again."""

    def __init__(self) -> None:
        self.room: int | None = None
        self.refused = 0

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.lstrip().upper().startswith(CHANGES) and self.room is not None:
            if self.room <= 0:
                self.refused += 1
                raise OperationalError(FULL)
            self.room -= 1
        return execute(sql, params, many, context)


@pytest.fixture
def disk() -> Iterator[Disk]:
    found = Disk()
    with connection.execute_wrapper(found):
        yield found


#: so many hundredths of the statements that a leg changes the database with find room; how many they are differs by a
#: few from leg to leg (what comes close together is written together), so the very last ones cannot be aimed at
ROOM = [0, 1, 2, 5, 9, 14, 20, 27, 34, 41, 48, 55, 62, 69, 76, 80, 83, 87, 91]
TOLD = {20, 83}
needed: list[int] = []


@pytest.mark.parametrize("room", [pytest.param(n, marks=() if n in TOLD else pytest.mark.slow) for n in ROOM])
def test_a_database_that_refuses_leaves_nothing_half(
    course: Start, disk: Disk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(supervised, "BEAT", 1e12)  # the clock changes the database, too
    if not needed:
        first = course(**player(WORK))
        disk.room = 10_000
        first.step()
        needed.append(10_000 - disk.room)
    relay = course(**player(WORK))
    disk.room = needed[0] * room // 100
    with pytest.raises(OperationalError, match=FULL):
        relay.step()
    assert FULL in caplog.text and relay.pk in caplog.text, "said where it can be said"
    open_leg = relay.open_leg
    assert open_leg is not None
    assert not open_leg.marker or not process.living(open_leg.marker), "no agent is left to a supervisor that is gone"
    ended = Tombstone.objects.filter(leg__relay=relay.pk)
    assert ended.count() == Baton.objects.filter(relay=relay.pk, why="rotation").count() == len(relay.legs)

    with pytest.raises(OperationalError, match=FULL):
        relay.step()  # whoever comes meanwhile changes nothing either
    disk.room = None
    for _ in range(3):
        if relay.legs:
            break
        if relay.relay.status == RelayStatus.WAITING:
            relay.time_passes()
        relay.step()
    (leg,) = relay.legs
    assert ended.count() == Baton.objects.filter(relay=relay.pk).count() == 1
    made = git(relay.worktree, "rev-list", f"{relay.relay.start_sha}..{relay.relay.branch}").split()
    assert leg.end_sha == made[0], "no commit is lost"
    if leg.reason == "RELAY_ROTATED":
        assert relay.open_leg is not None and relay.open_leg.number == 1
        assert ResetTransaction.objects.filter(old_leg=leg).count() == 1
    else:
        assert (leg.cause, leg.hold) == ("supervisor_crash", "NO_NEXT_ACTION") and len(relay.waiting) == 1


def test_a_bell_that_finds_no_room_starts_nothing_and_is_heard_later(
    course: Start, disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    relay = course(**player(WORK))
    disk.room = 0
    tasks.reconcile()
    assert disk.refused and FULL in caplog.text and not Heartbeat.objects.exists()
    assert relay.open_leg is not None and relay.open_leg.state == LegState.PENDING
    disk.room = None
    tasks.reconcile()
    assert Heartbeat.objects.exists()
    relay.step()
    assert len(relay.legs) == 1


def test_an_owed_note_waits_for_room(course: Start, disk: Disk) -> None:
    relay = course(**player({"*": WORK}))
    relay.step()
    disk.room = 0
    with pytest.raises(OperationalError, match=FULL):
        outbox.carry_out()
    assert git(relay.relay.git_dir, "for-each-ref", "refs/notes") == "", (
        "claimed first: what cannot be claimed is not done"
    )
    disk.room = None
    assert outbox.carry_out() >= 1
    assert "refs/notes/relay" in git(relay.relay.git_dir, "for-each-ref", "refs/notes")


def test_an_agent_log_that_cannot_grow_is_named_where_a_person_looks(
    course: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    relay = course(**player(WORK))
    write = channel._Stream.write
    boundaries = 0

    def full(self: Any, data: bytes) -> None:
        nonlocal boundaries
        boundaries += b'"boundary"' in data
        if boundaries > 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, data)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(channel._Stream, "write", full)
        relay.step()
    assert "No space left on device" in relay.relay.status_why
    relay.step()
    assert len(relay.legs) == 1 and relay.relay.status in (RelayStatus.READY, RelayStatus.PARKED)


@contextmanager
def small_files() -> Iterator[Callable[[], None]]:
    """Once it is called no file of ours, or of a git that we start, grows past 16 MiB: as on a disk without room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        yield lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 1024 * 1024, hard))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_work_that_git_cannot_store_stays_where_it_is_and_goes_on(
    course: Start, meanwhile: Callable[..., None]
) -> None:
    """Nothing is lost and nothing claims to be stored: the dirty tree is the next leg's as it was left."""
    script = [*commit("work.txt"), *turn(), *boundary("Go on."), {"do": "exit", "code": 3}]
    relay = course(**player({"0": script, "*": [*turn(), *boundary("Go on.", final=True)]}))
    big = os.urandom(24 * 1024 * 1024)  # nothing of it compresses

    with small_files() as disk_is_full:

        def fill() -> None:
            (relay.worktree / "big.bin").write_bytes(big)
            disk_is_full()

        meanwhile(1, fill)
        relay.step()
        (leg,) = relay.legs
        assert (leg.reason, leg.cause, leg.hold) == ("RELAY_PARKED_UNSAFE", "agent_crash", "TREE_DIRTY_UNPARKED")
        assert leg.wip_sha == relay.baton.cursor.wip_tree == "", "it is not said to be stored"
        assert "git cannot answer" in str(leg.tombstone.assessment), "and that it is not is said"
        relay.approve("RELAY_PARKED_UNSAFE", next_action="Go on.")
        relay.step()
        assert relay.relay.status == RelayStatus.WAITING and "worktree" in relay.relay.status_why
    relay.time_passes()
    relay.step()
    assert [leg.number for leg in relay.legs] == [0, 1]
    assert (relay.worktree / "big.bin").read_bytes() == big
