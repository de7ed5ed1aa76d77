"""What is begun early or kept from call to call answers as what is asked at the moment does."""

import gc
import os
import shutil
from pathlib import Path

import pytest

from relays.stores import gitrun, ownconfig, worktree
from relays.stores.base import StoreUnavailable
from relays.stores.worktree import WorkTree
from tests.builders import commit, git


def words(seen: list[object]) -> list[str]:
    return [word for one in seen for word in one if word in {"status", "ls-files"}]


def test_a_look_that_was_begun_is_taken_once(repo: Path) -> None:
    tree = WorkTree(repo)
    with gitrun.counting() as seen:
        tree.foresee()
        tree.foresee()
        assert sorted(words(seen)) == ["ls-files", "status"]
        assert tree.state().dirty == ()
        assert len(words(seen)) == 2, "both were begun before"
        (repo / "new.txt").write_text("x")
        assert tree.state().dirty == ("new.txt",), "the next one looks again"
        assert words(seen).count("status") == 2


def test_an_index_that_changes_after_it_was_foreseen_is_read_again(repo: Path) -> None:
    tree = WorkTree(repo)
    tree.state()
    commit(repo, {"a": "1"}, "More")
    tree.foresee()
    commit(repo, {"b": "1"}, "And more")
    git(repo, "update-index", "--assume-unchanged", "b")
    (repo / "b").write_text("changed")
    assert "b" in tree.state().dirty


def test_a_tree_that_cannot_be_read_is_foreseen_without_a_word(repo: Path) -> None:
    tree = WorkTree(repo)
    shutil.rmtree(repo)
    tree.foresee()
    assert not tree.state().known


def test_a_look_that_nobody_asks_for_ends(repo: Path) -> None:
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb") as stdin, os.fdopen(writes, "wb"):
        begun = gitrun.begin(["cat-file", "--batch"], cwd=repo, stdin=stdin)
        pid = begun._started.proc.pid
        assert begun._started.proc.poll() is None
        del begun
        gc.collect()
        assert not Path(f"/proc/{pid}").exists()


def test_output_that_is_poured_is_bounded_by_time_and_by_its_sink(repo: Path) -> None:
    big = commit(repo, {"big": "x" * 3_000_000}, "Big")
    sink = gitrun.Capped(1000)
    said = gitrun.run(["cat-file", "blob", f"{big}:big"], cwd=repo, sink=sink)
    assert (said.code, said.out, len(sink.kept), sink.full) == (0, b"", 1000, True)
    with pytest.raises(StoreUnavailable, match="did not answer within"):
        gitrun.run(["-c", "alias.slow=!sleep 30", "slow"], cwd=repo, timeout=0.5, sink=gitrun.Capped(10))
    with pytest.raises(StoreUnavailable, match="cannot answer"):
        gitrun.run(["cat-file", "blob", "nothing"], cwd=repo, sink=gitrun.Capped(10))

    class Full:
        def write(self, chunk: bytes, /) -> int:
            raise OSError(28, "No space left on device")

    with pytest.raises(StoreUnavailable, match="could not be read"):
        gitrun.run(["cat-file", "blob", f"{big}:big"], cwd=repo, sink=Full())


@pytest.mark.parametrize("how", ["config", "a link aimed elsewhere", "a file beside", "a link for the config", "gone"])
def test_our_common_directory_is_made_anew_where_somebody_touched_it(repo: Path, tmp_path: Path, how: str) -> None:
    ours, common = ownconfig.Instead(), repo / ".git"
    first = Path(ours.env(common, common, "[core]\n")["GIT_COMMON_DIR"])
    assert Path(ours.env(common, common, "[core]\n")["GIT_COMMON_DIR"]) == first, "kept while it stands"
    config = first / "config"
    if how == "config":
        config.write_text("[core]\n\tfsmonitor = touch pwned\n")
    elif how == "a link aimed elsewhere":
        (first / "refs").unlink()
        (first / "refs").symlink_to(tmp_path)
    elif how == "a file beside":
        (first / "config.worktree").write_text("")
    elif how == "a link for the config":
        (tmp_path / "same").write_text("[core]\n")
        config.unlink()
        config.symlink_to(tmp_path / "same")
    else:
        shutil.rmtree(first)
    second = Path(ours.env(common, common, "[core]\n")["GIT_COMMON_DIR"])
    assert second != first and not first.exists()
    assert (second / "config").read_text() == "[core]\n" and not (second / "config").is_symlink()
    assert {place.name for place in second.iterdir()} >= {"config", "refs"}
    del ours
    gc.collect()
    assert not second.exists(), "gone with whoever held it"


def test_a_look_that_began_long_ago_is_asked_anew(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worktree, "FORESEEN", 0.0)
    tree = WorkTree(repo)
    tree.foresee()
    (repo / "new.txt").write_text("x")
    assert tree.state().dirty == ("new.txt",)
