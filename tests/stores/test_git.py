"""Commits, ancestry and trees, asked of real repositories."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from relays.core.pointers import Verdict
from relays.stores import gitrun
from relays.stores.base import BadName, StoreUnavailable
from relays.stores.git import GitStore, discover
from tests.builders import commit, git, head, make_repo

ROOT = Path(__file__).parents[2]
FAKE = "0123456789abcdef0123456789abcdef01234567"


def on_side(repo: Path) -> str:
    """A commit on another branch."""
    git(repo, "checkout", "-q", "-b", "side")
    sha = commit(repo, {"side": "x"}, "Side")
    git(repo, "checkout", "-q", "main")
    return sha


class TestCommits:
    def test_verdicts_and_evidence(self, repo: Path, store: GitStore) -> None:
        first = head(repo)
        side = on_side(repo)
        second = commit(repo, {"a": "1"}, "Second")
        git(repo, "tag", "-a", "-m", "t", "v1", first)
        tag = head(repo, "refs/tags/v1")
        tree = head(repo, "HEAD^{tree}")
        tip = store.tip("main")
        assert tip == second
        answers = store.resolve_commits([first, second, side, FAKE, tag, tree], tip)
        assert {sha: (answer.verdict, answer.evidence) for sha, answer in answers.items()} == {
            first: (Verdict.VERIFIED, "a commit on main"),
            second: (Verdict.VERIFIED, "a commit on main"),
            side: (Verdict.DANGLING, "exists, not on main"),
            FAKE: (Verdict.DANGLING, "no such object"),
            tag: (Verdict.DANGLING, "is a tag, not a commit"),
            tree: (Verdict.DANGLING, "is a tree, not a commit"),
        }

    @pytest.mark.parametrize(
        "ref",
        ["", "HEAD", "main", "abc123", "--all", "HEAD~1", FAKE.upper(), FAKE + "\n", FAKE + "^0", "x" * 40, FAKE * 9],
    )
    def test_what_is_no_sha_never_reaches_git(self, store: GitStore, ref: str) -> None:
        tip = store.tip("main")
        with gitrun.counting() as seen:
            answer = store.resolve_commits([ref], tip)[ref]
        assert answer.verdict is Verdict.DANGLING
        assert answer.evidence.startswith("refused: ")
        assert seen == []

    def test_processes_do_not_grow_with_the_number_of_commits(self, repo: Path, store: GitStore) -> None:
        lines = ["commit refs/heads/main", "committer T <t@example.org> 1 +0000", "data 0", f"from {head(repo)}", ""]
        stream = "\n".join(lines) + "".join(
            f"commit refs/heads/main\ncommitter T <t@example.org> {n} +0000\ndata 0\n\n" for n in range(2, 400)
        )
        git(repo, "fast-import", "--quiet", stdin=stream.encode())
        tip = store.tip("main")
        real = git(repo, "rev-list", "main").split()
        fakes = [f"{n:040x}" for n in range(1, 100)]
        store.tree(real[0])  # makes the shield repository, once for all
        with gitrun.counting() as seen:
            store.resolve_commits(real[:1], tip)
        assert len(seen) == 1  # what the tip reaches; it never changes, so it is not asked again
        counts = {}
        for number in (1, 10, 300):
            with gitrun.counting() as seen:
                answers = store.resolve_commits(real[:number], tip)
            assert all(answer.verdict is Verdict.VERIFIED for answer in answers.values())
            counts[number] = len(seen)
            with gitrun.counting() as seen:
                answers = store.resolve_commits(real[:number] + fakes[:number], tip)
            assert sum(answer.verdict is Verdict.DANGLING for answer in answers.values()) == min(number, 99)
            counts[-number] = len(seen)
        assert counts == {1: 0, 10: 0, 300: 0, -1: 1, -10: 1, -300: 1}

    def test_rewritten_history_dangles(self, repo: Path, store: GitStore) -> None:
        gone = commit(repo, {"a": "1"}, "To be rewritten")
        git(repo, "commit", "-q", "--amend", "-m", "Rewritten")
        tip = store.tip("main")
        assert store.resolve_commits([gone], tip)[gone].evidence == "exists, not on main"
        git(repo, "reflog", "expire", "--expire=now", "--all")
        git(repo, "gc", "-q", "--prune=now")
        assert store.resolve_commits([gone], tip)[gone].evidence == "no such object"

    def test_a_branch_that_is_gone(self, repo: Path, store: GitStore) -> None:
        sha = head(repo)
        assert store.tip("no-such") is None
        answer = store.resolve_commits([sha], None, "no-such")[sha]
        assert (answer.verdict, answer.evidence) == (Verdict.DANGLING, "no-such does not exist")

    def test_replace_refs_and_grafts_prove_nothing(self, repo: Path, store: GitStore) -> None:
        side = on_side(repo)
        tip = commit(repo, {"a": "1"}, "Second")
        git(repo, "replace", "--graft", tip, side)
        (repo / ".git" / "info").mkdir(exist_ok=True)
        (repo / ".git" / "info" / "grafts").write_text(f"{tip} {side}\n")
        assert side in git(repo, "rev-list", "main")
        assert store.resolve_commits([side], tip)[side].verdict is Verdict.DANGLING


class TestOtherShapes:
    def test_sha256(self, tmp_path: Path, shield: Path) -> None:
        repo = make_repo(tmp_path / "wide", object_format="sha256")
        first, tip = head(repo), commit(repo, {"a": "1"}, "Second")
        store = GitStore(repo, shield)
        assert len(tip) == 64
        assert store.object_format == "sha256"
        answers = store.resolve_commits([first, tip, tip[:40]], store.tip("main"))
        assert [answers[sha].verdict for sha in (first, tip, tip[:40])] == ["verified", "verified", "dangling"]
        assert [record.sha for record in store.commits_between(first, tip)] == [tip]
        assert store.add_note(tip, "note") is True
        assert git(repo, "notes", "--ref=relay", "show", tip) == "note"

    def test_shared_clone_reads_through_alternates(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        first = head(repo)
        git(tmp_path, "clone", "-q", "--shared", str(repo), str(tmp_path / "shared"))
        tip = commit(tmp_path / "shared", {"a": "1"}, "Own")
        store = GitStore(tmp_path / "shared", shield)
        answers = store.resolve_commits([first, tip], store.tip("main"))
        assert [answer.verdict for answer in answers.values()] == ["verified", "verified"]
        assert GitStore(repo, shield).resolve_commits([tip], first)[tip].verdict is Verdict.DANGLING

    def test_linked_worktree(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        git(repo, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
        tip = commit(tmp_path / "linked", {"a": "1"}, "In the linked one")
        store = GitStore(tmp_path / "linked", shield)
        assert store.git_dir == (repo / ".git").resolve()
        assert store.tip("other") == tip
        assert store.resolve_commits([tip], tip)[tip].verdict is Verdict.VERIFIED

    def test_bare(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        git(tmp_path, "clone", "-q", "--bare", str(repo), str(tmp_path / "bare.git"))
        store = GitStore(tmp_path / "bare.git", shield)
        assert store.tip("main") == head(repo)
        assert discover(tmp_path / "bare.git").top is None

    def test_packed(self, repo: Path, store: GitStore) -> None:
        first = head(repo)
        commit(repo, {"a": "1"}, "Second")
        git(repo, "gc", "-q")
        git(repo, "commit-graph", "write", "--reachable")
        assert store.resolve_commits([first, FAKE], store.tip("main"))[first].verdict is Verdict.VERIFIED

    def test_a_shallow_clone_cannot_deny(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        first = head(repo)
        tip = commit(repo, {"a": "1"}, "Second")
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", str(tmp_path / "shallow"))
        store = GitStore(tmp_path / "shallow", shield)
        assert store.shallow
        asked = [first, tip, FAKE, head(repo, "HEAD^{tree}")]
        answers = store.resolve_commits(asked, store.tip("main"))
        assert [answers[sha].verdict for sha in asked] == ["unknown", "verified", "unknown", "dangling"]
        assert "shallow" in answers[first].evidence
        with pytest.raises(StoreUnavailable, match="shallow"):
            side = git(tmp_path / "shallow", "commit-tree", "-m", "x", f"{tip}^{{tree}}")
            store.merge_bases(side, tip)

    def test_odd_path(self, tmp_path: Path, shield: Path) -> None:
        repo = make_repo(tmp_path / "a $HOME ü 'q' \n x")
        store = GitStore(repo, shield)
        assert store.tip("main") == head(repo)
        assert store.resolve_commits([head(repo)], head(repo))[head(repo)].verdict is Verdict.VERIFIED


class TestNoAnswer:
    def test_no_folder_and_no_repository(self, tmp_path: Path, shield: Path) -> None:
        with pytest.raises(StoreUnavailable, match="no such folder") as caught:
            discover(tmp_path / "nowhere")
        assert str(tmp_path) in str(caught.value)
        assert str(tmp_path) not in caught.value.evidence
        (tmp_path / "empty").mkdir()
        with pytest.raises(StoreUnavailable, match="no such repository"):
            GitStore(tmp_path / "empty", shield).tip("main")

    def test_gone_after_it_was_found(self, repo: Path, store: GitStore) -> None:
        sha = head(repo)
        assert store.tip("main") == sha
        shutil.rmtree(repo)
        with pytest.raises(StoreUnavailable, match="gone"):
            store.resolve_commits([sha], sha)
        with pytest.raises(StoreUnavailable, match="no such repository"):
            store.tip("main")

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
    def test_dubious_ownership(self, repo: Path, shield: Path) -> None:
        for place in (repo, repo / ".git"):
            os.chown(place, 65534, 65534)
        with pytest.raises(StoreUnavailable, match="dubious ownership") as caught:
            GitStore(repo, shield).tip("main")
        assert "safe.directory" in str(caught.value)
        assert caught.value.evidence == "git refuses the repository: dubious ownership"

    def test_a_missing_object_in_the_history(self, repo: Path, store: GitStore) -> None:
        first = head(repo)
        tip = commit(repo, {"a": "1"}, "Second")
        (repo / ".git" / "objects" / first[:2] / first[2:]).unlink()
        with pytest.raises(StoreUnavailable, match="git cannot answer") as caught:
            store.resolve_commits([tip], tip)
        assert str(repo) not in caught.value.evidence

    def test_time_is_limited(self, repo: Path, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "never")
        with pytest.raises(StoreUnavailable, match=r"did not answer within 0.3 s"):
            gitrun.run(["config", "--file", str(tmp_path / "never"), "--list"], cwd=repo, timeout=0.3)

    def test_what_git_started_ends_with_it_when_the_time_is_over(self, repo: Path, tmp_path: Path) -> None:
        mark = tmp_path / "pid"
        slow = f"!echo $$ > '{mark}'; exec sleep 60"
        with pytest.raises(StoreUnavailable, match=r"did not answer within 2 s"):
            gitrun.run(["-c", f"alias.slow={slow}", "slow"], cwd=repo, timeout=2)
        stat = Path(f"/proc/{mark.read_text().strip()}/stat")
        for _ in range(50):
            if not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z":
                return  # gone, or dead and not reaped yet
            time.sleep(0.1)
        pytest.fail("it still runs")

    def test_no_git(self, repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gitrun.Git, "GIT_PYTHON_GIT_EXECUTABLE", "/no/such/git")
        with pytest.raises(StoreUnavailable, match="git is not installed"):
            gitrun.run(["version"], cwd=repo)


class TestRefs:
    def test_tip_takes_branch_and_full_name_and_no_neighbour(self, repo: Path, store: GitStore) -> None:
        git(repo, "branch", "relay/RLY-1")
        assert store.tip("relay/RLY-1") == store.tip("refs/heads/relay/RLY-1") == head(repo)
        assert store.tip("relay") is None
        assert store.refs("refs/heads") == dict.fromkeys(["refs/heads/main", "refs/heads/relay/RLY-1"], head(repo))

    @pytest.mark.parametrize(
        "name",
        [
            "",
            "-x",
            "--all",
            "a..b",
            "a b",
            "a\n",
            "x.lock",
            "a/.b",
            "/a",
            "a/",
            "a//b",
            "@",
            "a@{1}",
            "a^",
            "a:b",
            "*",
            "\ud800",
        ],
    )
    def test_hostile_names_are_refused(self, store: GitStore, name: str) -> None:
        with gitrun.counting() as seen, pytest.raises(BadName):
            store.tip(name)
        assert seen == []

    def test_a_broken_ref_is_no_answer(self, repo: Path, store: GitStore) -> None:
        (repo / ".git" / "refs" / "heads" / "torn").write_text("garbage\n")
        with pytest.raises(StoreUnavailable, match="broken"):
            store.tip("torn")

    def test_update_ref(self, repo: Path, store: GitStore) -> None:
        first, second = head(repo), commit(repo, {"a": "1"}, "Second")
        name = "refs/relay/wip/RLY-1/0"
        assert store.update_ref(name, first) is True
        assert store.update_ref(name, first) is False
        with pytest.raises(StoreUnavailable, match="moved"):
            store.update_ref(name, second, "0" * 40)
        with pytest.raises(StoreUnavailable, match="moved"):
            store.update_ref(name, second, second)
        assert store.update_ref(name, second, first) is True
        assert store.ref(name) == second
        assert store.delete_ref(name) is True
        assert store.delete_ref(name) is False

    def test_a_lock_of_another_process_is_left_alone(self, repo: Path, store: GitStore) -> None:
        lock = repo / ".git" / "refs" / "relay" / "x.lock"
        lock.parent.mkdir(parents=True)
        lock.touch()
        with pytest.raises(StoreUnavailable):
            store.update_ref("refs/relay/x", head(repo))
        assert lock.exists()


class TestTrees:
    def test_read_files(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {"a b/c": "one\n\nmissing\n", "empty": "", "last": "x"}, "Files")
        found = store.read_files(tip, ["a b/c", "none", "empty", "a b", "last"])
        assert found == {"a b/c": b"one\n\nmissing\n", "none": None, "empty": b"", "a b": None, "last": b"x"}
        with gitrun.counting() as seen:
            store.read_files(tip, ["a b/c", "empty", "last"] * 20)
        assert len(seen) == 1

    def test_size_is_capped(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {"big": "x" * 100_000}, "Big")
        assert len(store.read_file(tip, "big") or b"") == 100_000
        with pytest.raises(StoreUnavailable, match="more than 1000 bytes"):
            store.read_file(tip, "big", limit=1000)

    @pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "a/../b", "a\nb", "-x", "a//b", "./a", "a\\b"])
    def test_hostile_paths_are_refused(self, repo: Path, store: GitStore, path: str) -> None:
        with pytest.raises(BadName):
            store.read_file(head(repo), path)

    def test_a_missing_commit_is_no_missing_file(self, store: GitStore) -> None:
        with pytest.raises(StoreUnavailable):
            store.read_file(FAKE, "README.md")
        with pytest.raises(StoreUnavailable):
            store.tree(FAKE)

    def test_what_a_partial_clone_left_out_is_no_missing_file(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        git(repo, "config", "uploadpack.allowFilter", "true")
        git(tmp_path, "clone", "-q", "--no-checkout", "--filter=blob:none", f"file://{repo}", str(tmp_path / "part"))
        store = GitStore(tmp_path / "part", shield)
        with pytest.raises(StoreUnavailable, match="not in this clone"):
            store.read_file(head(repo), ".relay/issues.jsonl")
        assert store.read_file(head(repo), "nowhere") is None

    def test_paths_leave_submodules_out(self, repo: Path, store: GitStore) -> None:
        git(repo, "update-index", "--add", "--cacheinfo", f"160000,{FAKE},sub")
        git(repo, "commit", "-q", "-m", "Submodule")
        assert set(store.paths(head(repo))) == {"README.md", ".relay/issues.jsonl"}

    def test_diff_is_cut(self, repo: Path, store: GitStore) -> None:
        first, tip = head(repo), commit(repo, {"a": "line\n" * 5000}, "Long")
        assert "+line" in store.diff(first, tip, 1 << 20)
        cut = store.diff(first, tip, 500)
        assert len(cut) < 600
        assert cut.endswith("[cut at 500 bytes]\n")

    def test_merge_bases(self, repo: Path, store: GitStore) -> None:
        base = head(repo)
        side = on_side(repo)
        tip = commit(repo, {"a": "1"}, "Second")
        assert store.merge_bases(side, tip) == [base]
        assert store.merge_bases(FAKE, tip) == []
        git(repo, "checkout", "-q", "--orphan", "alone")
        assert store.merge_bases(commit(repo, {"b": "1"}, "Alone"), tip) == []

    def test_several_merge_bases_are_sorted(self, repo: Path, store: GitStore) -> None:
        git(repo, "checkout", "-q", "-b", "left")
        left = commit(repo, {"l": "1"}, "Left")
        git(repo, "checkout", "-q", "-b", "right", "main")
        right = commit(repo, {"r": "1"}, "Right")
        git(repo, "merge", "-q", "-m", "one", left)
        one = head(repo)
        git(repo, "checkout", "-q", "left")
        git(repo, "merge", "-q", "-m", "other", right)
        assert store.merge_bases(one, head(repo)) == sorted([left, right])


class TestShield:
    def test_two_processes_may_make_it_at_once(self, shield: Path) -> None:
        lines = ["from pathlib import Path", "from relays.stores.shield import shield"]
        code = "; ".join([*lines, f"print(shield(Path({str(shield)!r}), 'sha1'))"])
        running = [
            subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT)
            for _ in range(4)
        ]
        answers = [process.communicate(timeout=60) for process in running]
        assert {out.decode().strip() for out, _ in answers} == {str(shield / "sha1.git")}, answers
        assert os.listdir(shield) == ["sha1.git"]

    def test_variables_left_by_a_hook_change_nothing(
        self, repo: Path, tmp_path: Path, shield: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = make_repo(tmp_path / "other", {"x": "y"})
        for name, value in {"GIT_DIR": other / ".git", "GIT_WORK_TREE": other, "GIT_OBJECT_DIRECTORY": other}.items():
            monkeypatch.setenv(name, str(value))
        assert GitStore(repo, shield).git_dir == (repo / ".git").resolve()
        assert "GIT_DIR" not in os.environ


class TestDiscover:
    def test_branch_head_and_top(self, repo: Path) -> None:
        (repo / "sub").mkdir()
        place = discover(repo / "sub")
        assert place.top == repo.resolve()
        assert (place.bare, place.head_branch, place.head_sha) == (False, "main", head(repo))
        git(repo, "checkout", "-q", "--detach")
        assert discover(repo).head_branch is None

    def test_before_the_first_commit(self, tmp_path: Path) -> None:
        git(tmp_path, "init", "-q", "-b", "main", "new")
        place = discover(tmp_path / "new")
        assert (place.head_branch, place.head_sha) == ("main", None)
