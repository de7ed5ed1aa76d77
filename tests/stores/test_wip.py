"""Parked work: kept whole, laid back, and never lost on a conflict."""

from pathlib import Path

import pytest

from relays.core.vocabulary import Extra
from relays.stores.base import StoreUnavailable
from relays.stores.worktree import WorkTree
from tests.builders import commit, git, head, make_repo

REF = "refs/relay/wip/RLY-1/0"


@pytest.fixture
def tree(repo: Path) -> WorkTree:
    commit(repo, {".gitignore": "*.log\n", "kept": "1\n" * 10, "gone": "x\n", "run": "x"}, "Files")
    return WorkTree(repo)


def dirty(repo: Path) -> None:
    (repo / "kept").write_text("1\n" * 10 + "more\n")
    (repo / "gone").unlink()
    (repo / "run").chmod(0o755)
    (repo / "new dir").mkdir()
    (repo / "new dir" / "ü\nx").write_bytes(b"\0\xff")
    (repo / "staged").write_text("staged")
    git(repo, "add", "staged")
    (repo / "debug.log").write_text("ignored")
    (repo / "link").symlink_to("kept")


def seen(repo: Path) -> str:
    return git(repo, "status", "--porcelain=v2", "--untracked-files=all")


class TestStore:
    def test_everything_is_kept_and_nothing_moves(self, repo: Path, tree: WorkTree) -> None:
        dirty(repo)
        before = seen(repo)
        index = (repo / ".git" / "index").read_bytes()
        sha = tree.store_wip(REF, "Parked by leg 0")
        assert sha == head(repo, REF)
        assert seen(repo) == before
        assert (repo / ".git" / "index").read_bytes() == index
        assert git(repo, "rev-parse", f"{sha}^") == head(repo)
        names = git(repo, "diff", "--name-status", "-z", f"{sha}^", str(sha)).split("\0")
        assert dict(zip(names[1::2], names[0::2], strict=False)) == {
            "gone": "D", "kept": "M", "run": "M", "link": "A", "new dir/ü\nx": "A", "staged": "A",
        }  # fmt: skip
        assert git(repo, "log", "-1", "--format=%an %s", str(sha)) == "Relaysite Parked by leg 0"

    def test_the_same_work_keeps_its_commit(self, repo: Path, tree: WorkTree) -> None:
        dirty(repo)
        first = tree.store_wip(REF, "one")
        assert tree.store_wip(REF, "two") == first
        (repo / "kept").write_text("other")
        assert tree.store_wip(REF, "three") != first

    def test_a_clean_tree_has_none(self, tree: WorkTree) -> None:
        assert tree.store_wip(REF, "x") is None

    def test_in_the_middle_of_a_merge(self, repo: Path, tree: WorkTree) -> None:
        git(repo, "checkout", "-q", "-b", "side")
        commit(repo, {"kept": "side\n", "side": "s"}, "Side")
        git(repo, "checkout", "-q", "main")
        commit(repo, {"kept": "main\n"}, "Main")
        git(repo, "merge", "side", ok=(1,))
        before = seen(repo)
        sha = tree.store_wip(REF, "x")
        assert seen(repo) == before
        assert (repo / ".git" / "MERGE_HEAD").exists()
        assert "<<<<<<<" in git(repo, "show", f"{sha}:kept")
        assert git(repo, "show", f"{sha}:side") == "s"

    def test_what_is_only_staged_is_kept_beside(self, repo: Path, tree: WorkTree) -> None:
        (repo / "kept").write_text("staged only\n")
        git(repo, "add", "kept")
        (repo / "kept").write_text("1\n" * 10)
        sha = tree.store_wip(REF, "x")
        assert sha is not None
        assert git(repo, "show", f"{sha}^2:kept") == "staged only"
        assert tree.store_wip(REF, "x") == sha

    def test_in_a_linked_tree(self, repo: Path, tree: WorkTree, tmp_path: Path) -> None:
        git(repo, "worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
        (tmp_path / "linked" / "work").write_text("x")
        sha = WorkTree(tmp_path / "linked").store_wip(REF, "x")
        assert head(repo, REF) == sha

    def test_a_repository_without_a_commit_inside_hides_nothing_else(self, repo: Path, tree: WorkTree) -> None:
        git(repo, "init", "-q", "inside")
        (repo / "inside" / "a").write_text("x")
        (repo / "new").write_text("kept")
        sha = tree.store_wip(REF, "x")
        assert sha is not None
        assert git(repo, "show", f"{sha}:new") == "kept"
        assert "inside" not in git(repo, "ls-tree", "--name-only", sha).splitlines()

    def test_while_another_process_holds_the_index(self, repo: Path, tree: WorkTree) -> None:
        dirty(repo)
        (repo / ".git" / "index.lock").touch()
        assert tree.store_wip(REF, "x") is not None
        assert (repo / ".git" / "index.lock").exists()


class TestLayBack:
    def parked(self, repo: Path, tree: WorkTree) -> str:
        dirty(repo)
        sha = tree.store_wip(REF, "x")
        assert sha is not None
        tree.clean_to_head()
        assert seen(repo) == ""
        return sha

    def test_on_the_same_commit(self, repo: Path, tree: WorkTree) -> None:
        sha = self.parked(repo, tree)
        assert tree.lay_back(sha) == "applied"
        assert head(repo) != sha
        assert (repo / "kept").read_text().endswith("more\n")
        assert (repo / "new dir" / "ü\nx").read_bytes() == b"\0\xff"
        assert (repo / "run").stat().st_mode & 0o100
        assert not (repo / "gone").exists()
        assert git(repo, "diff", "--cached", "--name-only") == ""
        assert tree.store_wip(REF, "x") == sha

    def test_twice_is_once(self, repo: Path, tree: WorkTree) -> None:
        sha = self.parked(repo, tree)
        tree.lay_back(sha)
        assert tree.lay_back(sha) == "applied"

    def test_on_a_later_commit(self, repo: Path, tree: WorkTree) -> None:
        sha = self.parked(repo, tree)
        tip = commit(repo, {"kept": "first\n" + "1\n" * 10}, "Later")
        assert tree.lay_back(sha) == "applied"
        assert head(repo) == tip
        assert (repo / "kept").read_text() == "first\n" + "1\n" * 10 + "more\n"
        assert git(repo, "diff", "--cached", "--name-only") == ""
        assert tree.operation() == ""

    def test_with_staged_work_beside_on_a_later_commit(self, repo: Path, tree: WorkTree) -> None:
        (repo / "staged").write_text("one")
        git(repo, "add", "staged")
        (repo / "staged").write_text("two")
        sha = tree.store_wip(REF, "x")
        assert sha is not None
        tree.clean_to_head()
        commit(repo, {"other": "x"}, "Later")
        assert tree.lay_back(sha) == "applied"
        assert (repo / "staged").read_text() == "two"

    def test_a_conflict_leaves_a_clean_tree_and_the_work(self, repo: Path, tree: WorkTree) -> None:
        sha = self.parked(repo, tree)
        tip = commit(repo, {"kept": "1\n" * 10 + "rival\n"}, "Later")
        assert tree.lay_back(sha) == Extra.WIP_STALE
        assert seen(repo) == ""
        assert head(repo) == tip
        assert tree.state().green_or_parked
        assert head(repo, REF) == sha

    def test_another_repository_inside_is_no_hindrance(self, repo: Path, tree: WorkTree) -> None:
        (repo / "new").write_text("kept")
        sha = tree.store_wip(REF, "x")
        assert sha is not None
        git(repo, "init", "-q", "inside")
        (repo / "inside" / "a").write_text("x")
        tree.clean_to_head()
        assert tree.lay_back(sha) == "applied"
        assert (repo / "new").read_text() == "kept" and (repo / "inside" / "a").exists()

    def test_an_ignored_file_in_the_way_is_not_overwritten(self, repo: Path, tree: WorkTree) -> None:
        (repo / "tool.log").write_text("forced")
        git(repo, "add", "-f", "tool.log")
        sha = tree.store_wip(REF, "x")
        assert sha is not None
        git(repo, "reset", "-q", "--hard")
        (repo / "tool.log").write_text("precious")
        assert tree.lay_back(sha) == Extra.WIP_STALE
        assert (repo / "tool.log").read_text() == "precious"
        assert seen(repo) == ""

    def test_other_changes_are_not_touched(self, repo: Path, tree: WorkTree) -> None:
        sha = self.parked(repo, tree)
        (repo / "kept").write_text("mine")
        with pytest.raises(StoreUnavailable, match="other changes"):
            tree.lay_back(sha)
        assert (repo / "kept").read_text() == "mine"


class TestClean:
    @pytest.mark.parametrize(
        "command",
        [
            ["merge", "side"],
            ["rebase", "side"],
            ["rebase", "--apply", "side"],
            ["cherry-pick", "side"],
            ["bisect", "start"],
        ],
    )
    def test_an_operation_is_dropped_and_the_branch_is_back(
        self, repo: Path, tree: WorkTree, command: list[str]
    ) -> None:
        git(repo, "checkout", "-q", "-b", "side")
        commit(repo, {"kept": "side\n"}, "Side")
        git(repo, "checkout", "-q", "main")
        tip = commit(repo, {"kept": "main\n"}, "Main")
        git(repo, *command, ok=(0, 1))
        (repo / "untracked").write_text("x")
        (repo / "debug.log").write_text("ignored")
        tree.clean_to_head()
        assert (tree.operation(), seen(repo), head(repo)) == ("", "", tip)
        assert git(repo, "symbolic-ref", "HEAD") == "refs/heads/main"
        assert (repo / "debug.log").exists()

    def test_another_repository_inside_is_left(self, repo: Path, tree: WorkTree) -> None:
        make_repo(repo / "inner")
        tree.clean_to_head()
        assert (repo / "inner" / ".git").exists()
