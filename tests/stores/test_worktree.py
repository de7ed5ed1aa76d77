"""A work tree as it stands, and what a leg did in it."""

import os
from pathlib import Path

import pytest

from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore
from relays.stores.worktree import WorkTree, add_worktree, checkout_for_command, remove_worktree
from tests.builders import commit, git, head, make_repo


@pytest.fixture
def tree(repo: Path) -> WorkTree:
    return WorkTree(repo)


class TestState:
    def test_clean(self, tree: WorkTree) -> None:
        state = tree.state()
        assert (state.dirty, state.operation, state.known, state.green_or_parked) == ((), "", True, True)

    def test_every_kind_of_dirt_is_named(self, repo: Path, tree: WorkTree) -> None:
        commit(
            repo, {"gone": "x", "changed": "x", ".gitignore": "ignored\n", "moved from": "long content\n" * 9}, "Files"
        )
        (repo / "gone").unlink()
        (repo / "changed").write_text("y")
        git(repo, "mv", "moved from", "moved to")
        (repo / "staged").write_text("x")
        git(repo, "add", "staged")
        (repo / "new dir").mkdir()
        (repo / "new dir" / "a\nb").write_text("x")
        (repo / "ignored").write_text("x")
        assert set(tree.state().dirty) == {
            "gone", "changed", "moved from", "moved to", "staged", "new dir/a\nb",
        }  # fmt: skip

    def test_settings_that_hide_are_overruled(self, repo: Path, tree: WorkTree) -> None:
        git(repo, "config", "status.showUntrackedFiles", "no")
        (repo / "hidden").write_text("x")
        assert tree.state().dirty == ("hidden",)

    def test_parked(self, repo: Path, tree: WorkTree) -> None:
        assert tree.state(parked=True).green_or_parked
        (repo / "work").write_text("x")
        assert not tree.state().green_or_parked
        state = tree.state(parked=True)
        assert (state.parked_paths, state.green_or_parked) == (("work",), True)

    def test_the_inside_of_another_repository_is_never_parked(self, repo: Path, tree: WorkTree) -> None:
        make_repo(repo / "inner")
        state = tree.state(parked=True)
        assert state.dirty == ("inner/",)
        assert not state.green_or_parked
        (repo / "work").write_text("x")
        assert tree.state(parked=True).unparked == ("inner/",)

    def test_no_answer_is_unknown(self, tmp_path: Path, repo: Path) -> None:
        gone = WorkTree(tmp_path / "nowhere").state(parked=True)
        assert (gone.known, gone.dirty, gone.parked) == (False, ("the work tree is gone",), False)
        (repo / ".git" / "index").write_bytes(b"garbage")
        state = WorkTree(repo).state()
        assert not state.known
        assert not state.green_or_parked
        assert len(state.dirty) == 1 and state.dirty[0].startswith("git cannot answer: ")

    def test_it_takes_no_lock_and_writes_no_index(self, repo: Path, tree: WorkTree) -> None:
        os.utime(repo / "README.md", (1, 1))
        before = (repo / ".git" / "index").stat().st_mtime_ns
        tree.state()
        assert (repo / ".git" / "index").stat().st_mtime_ns == before


class TestOperation:
    def conflict(self, repo: Path) -> None:
        commit(repo, {"both": "base\n"}, "Base")
        git(repo, "checkout", "-q", "-b", "side")
        commit(repo, {"both": "side\n"}, "Side")
        git(repo, "checkout", "-q", "main")
        commit(repo, {"both": "main\n"}, "Main")

    @pytest.mark.parametrize(
        ("command", "name"),
        [
            (["merge", "side"], "merge"),
            (["rebase", "side"], "rebase"),
            (["rebase", "--apply", "side"], "rebase"),
            (["cherry-pick", "side"], "cherry-pick"),
            (["revert", "--no-edit", "HEAD~1"], "revert"),
        ],
    )
    def test_conflicts(self, repo: Path, tree: WorkTree, command: list[str], name: str) -> None:
        self.conflict(repo)
        git(repo, *command, ok=(1,))
        state = tree.state(parked=True)
        assert state.operation == name
        assert "both" in state.dirty
        assert not state.green_or_parked

    def test_bisect(self, repo: Path, tree: WorkTree) -> None:
        self.conflict(repo)
        git(repo, "bisect", "start")
        assert tree.operation() == "bisect"

    def test_index_lock_is_seen_and_left(self, repo: Path, tree: WorkTree) -> None:
        (repo / ".git" / "index.lock").touch()
        assert tree.state().operation == "index.lock"
        with pytest.raises(StoreUnavailable, match=r"index\.lock"):
            tree.clean_to_head()
        assert (repo / ".git" / "index.lock").exists()

    def test_of_the_linked_tree_and_of_no_other(self, repo: Path, tmp_path: Path) -> None:
        self.conflict(repo)
        git(repo, "worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
        git(tmp_path / "linked", "merge", "side", ok=(1,))
        assert WorkTree(tmp_path / "linked").operation() == "merge"
        assert WorkTree(repo).operation() == ""


class TestReflog:
    def test_what_creates_a_commit_and_what_does_not(self, repo: Path, tree: WorkTree) -> None:
        start = head(repo)
        git(repo, "checkout", "-q", "-b", "foreign")
        foreign = commit(repo, {"foreign": "x"}, "Foreign")
        git(repo, "checkout", "-q", "main")
        from_line = len(tree.reflog())
        made = [commit(repo, {"a": "1"}, "One")]
        git(repo, "commit", "-q", "--amend", "-m", "Amended")
        made.append(head(repo))
        git(repo, "merge", "-q", "--no-edit", "foreign")
        made.append(head(repo))
        git(repo, "revert", "--no-edit", made[1])
        made.append(head(repo))
        git(repo, "reset", "-q", "--hard", foreign)
        git(repo, "checkout", "-q", "-b", "other", start)
        git(repo, "merge", "-q", "--ff-only", "foreign")
        git(repo, "cherry-pick", made[1])
        made.append(head(repo))
        git(repo, "rebase", "-q", start)
        git(repo, "checkout", "-q", "-b", "late", start)
        late = commit(repo, {"late": "x"}, "fast-forward the clock")
        git(repo, "rebase", "-q", foreign)
        made += [late, head(repo)]
        assert tree.created_shas(from_line) == made
        assert foreign not in tree.created_shas(from_line)

    def test_a_linked_tree_has_its_own(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        linked = tmp_path / "linked"
        add_worktree(GitStore(repo, shield), linked, "relay/RLY-1", head(repo))
        from_line = len(WorkTree(linked).reflog())
        commit(repo, {"main": "x"}, "Elsewhere")
        here = commit(linked, {"a": "1"}, "Here")
        assert WorkTree(linked).created_shas(from_line) == [here]

    def test_it_is_kept_even_where_the_repository_keeps_none(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        git(repo, "config", "core.logAllRefUpdates", "false")
        linked = tmp_path / "linked"
        add_worktree(GitStore(repo, shield), linked, "relay/RLY-1", head(repo))
        here = commit(linked, {"a": "1"}, "Here")
        assert WorkTree(linked).created_shas() == [here]

    def test_a_shortened_one_counts_whole(self, repo: Path, tree: WorkTree) -> None:
        made = commit(repo, {"a": "1"}, "One")
        assert made in tree.created_shas(10_000)

    def test_torn_lines_are_passed_over(self, repo: Path, tree: WorkTree) -> None:
        before = tree.reflog()
        with (repo / ".git" / "logs" / "HEAD").open("ab") as log:
            log.write(b"garbage\n\xff\xfe\n" + b"1" * 40)
        assert tree.reflog() == before


class TestOffBranch:
    def test_commits_elsewhere(self, repo: Path, tree: WorkTree, store: GitStore) -> None:
        commit(repo, {"a": "1"}, "On main")
        git(repo, "commit", "-q", "--amend", "-m", "Amended")
        assert tree.off_branch(store, head(repo)) == []
        git(repo, "checkout", "-q", "-b", "side")
        side = commit(repo, {"b": "1"}, "Side")
        git(repo, "checkout", "-q", "--detach", "main")
        lost = commit(repo, {"c": "1"}, "Lost")
        git(repo, "checkout", "-q", "main")
        assert tree.off_branch(store, head(repo)) == [side, lost]
        git(repo, "merge", "-q", "--no-edit", side, lost)
        assert tree.off_branch(store, head(repo)) == []

    def test_detached_head(self, repo: Path, tree: WorkTree, store: GitStore) -> None:
        tip = head(repo)
        git(repo, "checkout", "-q", "--detach")
        sha = commit(repo, {"a": "1"}, "Detached")
        assert tree.off_branch(store, tip) == [sha]


class TestOutside:
    def test_stashes_of_this_branch_only(self, repo: Path, tree: WorkTree, tmp_path: Path) -> None:
        assert tree.stash_count() == 0
        (repo / "README.md").write_text("changed")
        git(repo, "stash")
        (repo / "README.md").write_text("changed")
        git(repo, "stash", "push", "-m", "named")
        assert tree.stash_count() == 2
        git(repo, "worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
        assert WorkTree(tmp_path / "linked").stash_count() == 0
        git(repo, "stash", "drop")
        assert tree.stash_count() == 1

    def test_files_outside(self, repo: Path, tree: WorkTree, tmp_path: Path) -> None:
        (repo / "link").symlink_to(tmp_path)
        written = ["a", str(repo / "b"), "../c", "/etc/d", "link/e", "x/../f", "a\x00b"]
        assert tree.files_outside(written) == ["../c", "/etc/d", "link/e", "a\ufffdb"]


class TestAddWorktree:
    def test_made_once(self, repo: Path, store: GitStore, tmp_path: Path) -> None:
        start = head(repo)
        path = tmp_path / "deep" / "er" / "tree"
        add_worktree(store, path, "relay/RLY-1", start)
        assert git(path, "symbolic-ref", "HEAD") == "refs/heads/relay/RLY-1"
        (path / "work").write_text("x")
        add_worktree(store, path, "relay/RLY-1", start)
        assert (path / "work").exists()

    def test_again_after_the_folder_was_lost(self, repo: Path, store: GitStore, tmp_path: Path) -> None:
        path = tmp_path / "tree"
        add_worktree(store, path, "relay/RLY-1", head(repo))
        tip = commit(path, {"a": "1"}, "Work")
        path.rename(tmp_path / "away")
        add_worktree(store, path, "relay/RLY-1", head(repo))
        assert head(path) == tip

    def test_taken(self, repo: Path, store: GitStore, tmp_path: Path) -> None:
        (tmp_path / "tree").mkdir()
        add_worktree(store, tmp_path / "tree", "relay/RLY-1", head(repo))
        with pytest.raises(StoreUnavailable, match="taken"):
            add_worktree(store, tmp_path / "tree", "relay/RLY-2", head(repo))
        with pytest.raises(StoreUnavailable, match="checked out elsewhere"):
            add_worktree(store, tmp_path / "second", "relay/RLY-1", head(repo))
        with pytest.raises(StoreUnavailable, match="checked out elsewhere"):
            add_worktree(store, tmp_path / "third", "main", head(repo))
        assert not (tmp_path / "second").exists()

    def test_remove(self, repo: Path, store: GitStore, tmp_path: Path) -> None:
        path = tmp_path / "tree"
        add_worktree(store, path, "relay/RLY-1", head(repo))
        (path / "dirty").write_text("x")
        assert remove_worktree(store, path) is True
        assert not path.exists()
        assert remove_worktree(store, path) is False
        assert store.tip("relay/RLY-1") == head(repo)
        with pytest.raises(StoreUnavailable):
            remove_worktree(store, repo)
        assert (repo / "README.md").exists()


class TestCheckout:
    def test_commands_work_in_it_and_nothing_leaks(self, repo: Path, store: GitStore, tmp_path: Path) -> None:
        first = head(repo)
        tip = commit(repo, {"a": "1", "run.sh": "exit 0\n"}, "Second")
        (repo / "dirty").write_text("x")
        git(repo, "config", "alias.st", "!touch leaked")
        into = checkout_for_command(store, tip, tmp_path / "out")
        assert git(into, "rev-list", "HEAD").split() == [tip, first]
        assert git(into, "status", "--porcelain") == ""
        assert sorted(path.name for path in into.iterdir()) == [".git", ".relay", "README.md", "a", "run.sh"]
        assert "alias" not in (into / ".git" / "config").read_text()
        commit(into, {"b": "1"}, "A command may commit")
        assert head(repo) == tip

    def test_an_older_commit(self, repo: Path, store: GitStore, tmp_path: Path) -> None:
        first = head(repo)
        commit(repo, {"a": "1"}, "Second")
        assert not (checkout_for_command(store, first, tmp_path / "out") / "a").exists()

    @pytest.mark.parametrize("object_format", ["sha1", "sha256"])
    def test_shapes(self, tmp_path: Path, shield: Path, object_format: str) -> None:
        repo = make_repo(tmp_path / "origin", {"a": "1"}, object_format=object_format)
        git(tmp_path, "clone", "-q", "--shared", str(repo), "shared")
        into = checkout_for_command(GitStore(tmp_path / "shared", shield), head(repo), tmp_path / "out")
        assert (into / "a").read_text() == "1"

    def test_shallow(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        tip = commit(repo, {"a": "1"}, "Second")
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", "shallow")
        into = checkout_for_command(GitStore(tmp_path / "shallow", shield), tip, tmp_path / "out")
        assert git(into, "rev-list", "HEAD") == tip

    def test_what_cannot_be_made_leaves_nothing(self, repo: Path, store: GitStore, tmp_path: Path) -> None:
        with pytest.raises(StoreUnavailable, match="is not a commit"):
            checkout_for_command(store, "1" * 40, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        with pytest.raises(StoreUnavailable, match="taken"):
            checkout_for_command(store, head(repo), repo)
        assert (repo / "README.md").exists()


def test_the_repositorys_own_config_does_not_aim_at_another_folder(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo")
    other = make_repo(tmp_path / "other")
    git(repo, "config", "core.worktree", str(other))
    (other / "theirs.txt").write_text("not ours", encoding="utf-8")
    (repo / "ours.txt").write_text("ours", encoding="utf-8")
    tree = WorkTree(repo)
    assert tree.state().dirty == ("ours.txt",)
    tree.clean_to_head()
    assert (other / "theirs.txt").exists()
    assert not (repo / "ours.txt").exists()
