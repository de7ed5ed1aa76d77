"""rules.md, Verified progress: commits "created by its HEAD reflog during the leg". It is read as it grows."""

import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.stores import reflog
from relays.stores.reflog import PROOF, Reflog
from relays.stores.worktree import WorkTree
from tests.builders import commit, git, head


def line(number: int, message: str = "commit: One") -> bytes:
    return b"%040x %040x A <a@b> 1700000000 +0000\t%s\n" % (number, number + 1, message.encode())


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each look read."""
    found: list[int] = []
    rest_of = reflog.rest_of

    def counted(*args: object) -> bytes:
        content = rest_of(*args)  # type: ignore[arg-type]
        found.append(len(content))
        return content

    monkeypatch.setattr(reflog, "rest_of", counted)
    return found


def test_what_was_read_is_not_read_again(tmp_path: Path, read: list[int]) -> None:
    place = tmp_path / "HEAD"
    place.write_bytes(b"".join(line(number) for number in range(500)))
    log = Reflog(place)
    assert len(log.moves().entries) == 500
    with place.open("ab") as more:
        more.write(line(500) + line(501, "checkout: moving from a to b"))
    moves = log.moves()
    assert (len(moves.entries), len(moves.made)) == (502, 501)
    assert log.moves() == moves
    assert read == [500 * len(line(1)), len(line(500)) + len(line(501, "checkout: moving from a to b"))]


def test_beside_an_agent_that_commits_a_look_costs_what_was_added(repo: Path, read: list[int]) -> None:
    tree = WorkTree(repo)
    before = len(tree.reflog())
    made = []
    for number in range(5):
        made.append(commit(repo, {"a": str(number)}, f"Step {number}"))
        assert tree.created_shas(before) == made
    first, *later = read
    assert len(later) == 5 and max(later) < 250, "one line each"


@pytest.mark.parametrize("how", ["expired", "deleted", "removed", "in place"])
def test_a_log_that_was_written_anew_is_read_whole(repo: Path, how: str) -> None:
    for number in range(3):
        commit(repo, {"a": str(number)}, f"Step {number}")
    tree = WorkTree(repo)
    assert len(tree.reflog()) == 4
    log = repo / ".git" / "logs" / "HEAD"
    if how == "expired":
        git(repo, "reflog", "expire", "--expire=now", "--all")
    elif how == "deleted":
        git(repo, "reflog", "delete", "HEAD@{1}")
    elif how == "removed":
        log.unlink()
    else:
        kept = log.read_bytes().splitlines(keepends=True)
        log.write_bytes(b"".join(kept[1:]))
    commit(repo, {"b": "1"}, "Later")
    assert tree.reflog() == WorkTree(repo).reflog()
    assert tree.created_shas() == WorkTree(repo).created_shas()
    assert tree.created_shas()[-1] == head(repo)


def test_the_same_file_filled_anew_to_the_same_length_is_another_log(tmp_path: Path) -> None:
    place = tmp_path / "HEAD"
    place.write_bytes(line(1) + line(2))
    log = Reflog(place)
    log.moves()
    place.write_bytes(line(7) + line(8) + line(9))
    assert [entry.new for entry in log.moves().entries] == [f"{number + 1:040x}" for number in (7, 8, 9)]


def test_a_line_without_its_end_counts_and_is_read_again(tmp_path: Path) -> None:
    place = tmp_path / "HEAD"
    place.write_bytes(line(1) + line(2)[:-1])
    log = Reflog(place)
    assert len(log.moves().made_since(0)) == 2
    with place.open("ab") as more:
        more.write(b" whole\n" + line(3))
    assert [entry.message for entry in log.moves().entries] == ["commit: One", "commit: One whole", "commit: One"]


LINES = st.lists(
    st.one_of(
        st.builds(line, st.integers(0, 9), st.sampled_from(["commit: x", "reset: moving", "rebase (pick): y", "é"])),
        st.binary(max_size=60).map(lambda raw: raw + b"\n"),
        st.binary(max_size=30),
        st.integers(1, 3).map(lambda times: line(5, "commit: " + "x" * PROOF * times)),
    ),
    max_size=4,
).map(b"".join)
WAYS: dict[str, Callable[[Path, bytes], object]] = {
    "appended": lambda place, raw: place.write_bytes((place.read_bytes() if place.exists() else b"") + raw),
    "renamed over": lambda place, raw: (place.with_name("new").write_bytes(raw), place.with_name("new").replace(place)),
    "cut": lambda place, raw: os.truncate(place, min(len(raw), place.stat().st_size)) if place.exists() else None,
    "gone": lambda place, _: place.unlink(missing_ok=True),
}


@given(st.lists(st.tuples(st.sampled_from(sorted(WAYS)), LINES), max_size=8))
def test_whatever_becomes_of_it_it_says_what_a_look_at_the_whole_says(steps: list[tuple[str, bytes]]) -> None:
    with TemporaryDirectory() as folder:
        place = Path(folder, "HEAD")
        log = Reflog(place)
        for number, (way, raw) in enumerate(steps):
            WAYS[way](place, raw)
            if place.exists():
                os.utime(place, ns=(number, number))  # two changes within the clock's step are two
            assert log.moves() == Reflog(place).moves()
