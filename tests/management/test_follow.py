"""`follow`: what it says of what changes, how it ends, and that it writes nothing where it reads."""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relays.management.verbs import follow
from relays.models import Session, SourceFile, Topic
from tests.management.conftest import Cli
from tests.sessions.watched import (
    CODEX,
    FOUR,
    SAMPLES,
    Follower,
    append,
    counted,
    cuts,
    expected,
    rolled_up,
    snapshot,
    until,
)

# each look stores in a transaction of its own; a process needs what is committed
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "watched"
    made.mkdir()
    return made


Between = Callable[[Callable[[], None]], None]


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """`between(act, …)`: one act happens in each rest; in the one after them somebody presses Ctrl-C."""

    def plan(*acts: Callable[[], None]) -> None:
        left = iter(acts)

        def rest(follower: follow._Follower) -> None:
            act = next(left, None)
            if act is None:
                signal.raise_signal(signal.SIGINT)
            else:
                act()

        monkeypatch.setattr(follow._Follower, "rest", rest)

    return plan


def test_a_line_for_each_change_and_one_that_says_where_it_stands(cli: Cli, folder: Path, between: Between) -> None:
    lines = (SAMPLES / FOUR).read_bytes().splitlines(keepends=True)
    boundary = next(n for n, line in enumerate(lines) if b'"compact_boundary"' in line)
    file = folder / "s.jsonl"
    file.write_bytes(b"".join(lines[: boundary - 40]))
    between(
        lambda: append(file, b"".join(lines[boundary - 40 : boundary]) + lines[boundary][:50]),
        lambda: None,
        lambda: append(file, lines[boundary][50:] + b"".join(lines[boundary + 1 :])),
    )
    done = cli("follow", folder, "--json")
    assert done.code == 0, done.err
    assert done.err == ""
    events = [json.loads(line) for line in done.out.splitlines()]
    assert [one["event"] for one in events] == ["start", "change", "change", "end"]
    start, first, last, end = events
    assert (start["files"], start["sessions"]) == (1, 1)
    assert first["new_calls"] > 0 and first["new_compactions"] == 0
    assert last["calls"] == expected(FOUR)["calls"]
    assert last["compactions"] == last["new_compactions"] == expected(FOUR)["compactions"]
    assert 0 < last["resident_tokens"] < last["max_resident_tokens"]
    assert last["session"] == Session.objects.get().sid
    assert end == {
        "event": "end",
        "why": "interrupted",
        "files": 1,
        "sessions": 1,
        "calls": expected(FOUR)["calls"],
    }
    assert counted() == expected(FOUR)
    assert {"sessions", f"session:{Session.objects.get().pk}"} <= set(Topic.objects.values_list("name", flat=True))


def test_the_same_for_a_person(cli: Cli, folder: Path, between: Between) -> None:
    lines = (SAMPLES / FOUR).read_bytes().splitlines(keepends=True)
    file = folder / "s.jsonl"
    file.write_bytes(b"".join(lines[:20]))
    between(lambda: append(file, b"".join(lines[20:])), lambda: (folder / "b.jsonl").symlink_to("nowhere"))
    done = cli("follow", folder)
    assert done.code == 0
    change, end = done.out.decode().splitlines()
    assert change.startswith(f"claude-code {Session.objects.get().sid}: {expected(FOUR)['calls']} calls (+")
    assert " tokens resident, compaction seen (4 in all)" in change
    read = f"1 file of 1 session with {expected(FOUR)['calls']} calls"
    assert end == f"interrupted: read {read}; the same command goes on from here"
    following, problem = done.err.splitlines()
    assert following == "following 1 file of 1 session; Ctrl-C ends it"
    assert problem.startswith(f"{folder}/b.jsonl: ")


def test_nothing_is_written_where_it_reads(cli: Cli, folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "a" / "s.jsonl").write_bytes((SAMPLES / CODEX).read_bytes())
    before = snapshot(folder)
    done = cli("follow", folder, "--for", "0.5", "--every", "0.1", "--json")
    assert done.code == 0
    assert snapshot(folder) == before
    assert counted() == expected(CODEX)
    assert b'"why": "time over"' in done.out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "PATH"),
        (["/nowhere/at/all"], 14, "is not there"),
        (["x\0y"], 14, "is not there"),
        (["/tmp", "--every", "0"], 2, "--every"),
        (["/tmp", "--every", "nan"], 2, "--every"),
        (["/tmp", "--for", "inf"], 2, "--for"),
        (["/tmp", "--for", "soon"], 2, "--for"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(cli: Cli, arguments: list[str], code: int, words: str) -> None:
    done = cli("follow", *arguments)
    assert done.code == code
    assert words in done.line


# as processes --------------------------------------------------------------------------------------------------------


@pytest.fixture
def following(process_env: dict[str, str], transactional_db: None, tmp_path: Path) -> Iterator[Callable[..., Follower]]:
    begun: list[Follower] = []

    def start(*arguments: object, **options: bool) -> Follower:
        begun.append(Follower(process_env, tmp_path, *arguments, "--every", "0.1", **options))
        return begun[-1]

    yield start
    for one in begun:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_cut_anywhere_killed_in_the_middle_and_gone_on_with_it_is_as_if_read_at_once(
    folder: Path, following: Callable[..., Follower], seed: int
) -> None:
    chance = random.Random(seed)
    pieces = [
        (folder / Path(name).name, piece)
        for name in (FOUR, CODEX)
        for piece in cuts((SAMPLES / name).read_bytes(), chance, 25)
    ]
    # both files grow at the same time, each in its order
    order = sorted(range(len(pieces)), key=lambda n: (chance.random() * 25 + n % 25, n))
    queues = {path: [piece for other, piece in pieces if other == path] for path, _ in pieces}
    reader = following(folder)
    reader.started()
    for step, n in enumerate(order):
        path = pieces[n][0]
        append(path, queues[path].pop(0))
        time.sleep(chance.random() * 0.2)
        if step in (15, 30):
            assert reader.ended(signal.SIGKILL) == -signal.SIGKILL
            reader = following(folder)
            if step == 30:
                reader.started()
    until(lambda: counted() == expected(FOUR, CODEX))
    assert reader.ended(signal.SIGINT) == 0
    end = reader.lines()[-1]
    assert (end["event"], end["why"], end["calls"]) == ("end", "interrupted", expected(FOUR, CODEX)["calls"])
    assert reader.err.read_text() == ""
    assert counted() == rolled_up() == expected(FOUR, CODEX)


@pytest.mark.slow
def test_two_at_once_count_each_call_once(folder: Path, following: Callable[..., Follower]) -> None:
    readers = [following(folder), following(folder)]
    for reader in readers:
        reader.started()
    file = folder / "s.jsonl"
    for piece in cuts((SAMPLES / FOUR).read_bytes(), random.Random(7), 30):
        append(file, piece)
        time.sleep(0.05)
    until(lambda: counted() == expected(FOUR))
    for reader in readers:
        assert reader.ended(signal.SIGTERM) == 0, reader.err.read_text()
    assert counted() == rolled_up() == expected(FOUR)


@pytest.mark.slow
def test_a_file_that_is_cut_short_replaced_or_gone_is_no_end(folder: Path, following: Callable[..., Follower]) -> None:
    content = (SAMPLES / FOUR).read_bytes()
    file = folder / "s.jsonl"
    file.write_bytes(content)
    reader = following(folder)
    reader.started()
    assert counted() == expected(FOUR)
    with file.open("r+b") as stream:
        stream.truncate(len(content) // 3)
    until(lambda: SourceFile.objects.get(path=str(file.resolve())).size == len(content) // 3)
    append(file, content[len(content) // 3 :])
    until(lambda: SourceFile.objects.get(path=str(file.resolve())).size == len(content))
    until(lambda: counted() == expected(FOUR))
    other = folder / ".new"
    other.write_bytes(content)
    other.replace(file)
    status = os.stat(file)
    until(lambda: SourceFile.objects.get(path=str(file.resolve())).inode == status.st_ino)
    assert counted() == expected(FOUR)
    file.unlink()
    until(lambda: SourceFile.objects.get().status == "gone")
    assert counted() == expected(FOUR), "what was read of it stays"
    assert reader.ended(signal.SIGINT) == 0, reader.err.read_text()


@pytest.mark.slow
def test_a_folder_without_permission_is_named_and_the_rest_is_read(
    folder: Path, following: Callable[..., Follower]
) -> None:
    closed, file, content = folder / "closed", folder / "closed.jsonl", (SAMPLES / FOUR).read_bytes()
    closed.mkdir()
    (closed / "s.jsonl").write_bytes((SAMPLES / CODEX).read_bytes())
    file.write_bytes(content)
    (folder / "open.jsonl").write_bytes(content)
    closed.chmod(0)
    file.chmod(0)
    try:
        reader = following(folder, plain_user=True)
        reader.started()
        assert counted() == expected(FOUR)
        said = reader.err.read_text().splitlines()
        assert sorted(line.partition(": ")[0] for line in said) == [str(closed.resolve()), str(file.resolve())]
        assert all("permission" in line for line in said)
        closed.chmod(0o700)
        until(lambda: counted() == expected(FOUR, CODEX))
        assert reader.ended(signal.SIGINT) == 0
        assert reader.err.read_text().splitlines() == said, "once each"
    finally:
        closed.chmod(0o700)
