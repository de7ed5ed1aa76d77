"""A watched repository whose own config tries to run programs: nothing that we ask may start one.

Baton contract: "A watched repository's own config must never run a program."
"""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from relays.core.pointers import Kind, Pointer, Verdict
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.checkout import switch_worktree
from relays.stores.git import GitStore, discover
from relays.stores.gitwrite import IDENTITY
from relays.stores.ownconfig import lint
from relays.stores.worktree import WorkTree, add_worktree, checkout_for_command, remove_worktree
from tests.builders import commit, git, head, make_repo
from tests.trap import Trap

WIP = "refs/relay/wip/RLY-1/0"
FAKE = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


def test_the_trap_works(trap: Trap, tmp_path: Path) -> None:
    git(trap.repo, "cat-file", "-e", FAKE, ok=(0, 1, 128))
    assert "upload-pack" in trap.sprung() or "example.org" in trap.sprung()
    git(trap.repo, "status")
    (trap.repo / "a.txt").write_text("changed\n")
    git(trap.repo, "diff", ok=(0, 128))
    assert "clean" in trap.sprung()
    git(trap.repo, "worktree", "add", "-q", str(tmp_path / "plain"), "-b", "plain")
    assert "smudge" in trap.sprung()
    assert "post-checkout" in trap.sprung()
    assert "reference-transaction" in trap.sprung()


def test_no_question_runs_anything(trap: Trap, tmp_path: Path) -> None:
    assert discover(trap.repo).head_sha == trap.tip
    store = GitStore(trap.repo, tmp_path / "shield")
    tip = store.tip("main")
    assert tip == trap.tip
    answers = store.resolve_commits([trap.first, FAKE], tip)
    assert [answers[sha].verdict for sha in (trap.first, FAKE)] == ["verified", "dangling"]
    assert store.merge_bases(trap.first, tip) == [trap.first]
    assert store.merge_bases(FAKE, tip) == []
    assert [record.paths for record in store.commits_between(trap.first, tip)] == [("a.txt", "b.txt")]
    assert "+other" in store.diff(trap.first, tip, 10_000)
    assert store.read_file(tip, "none") is None
    assert len(store.paths(tip)) == 4
    with pytest.raises(StoreUnavailable):
        store.tree(FAKE)
    assert store.refs("refs/heads") != {}
    assert trap.sprung() == ""


@pytest.mark.django_db
def test_no_pointer_runs_anything(trap: Trap, tmp_path: Path) -> None:
    stores = Stores(GitStore(trap.repo, tmp_path / "shield"), trap.tip, ".relay/memory", "RLY-1")
    refs = {
        Kind.COMMIT: (trap.tip, FAKE),
        Kind.ISSUE: ("#1", "#2"),
        Kind.MEMORY: ("slug",),
        Kind.LEDGER: (".relay/issues.jsonl#L1", "none#L1", "RLY-9.0.e1"),
        Kind.FILE: ("*.txt", "none"),
    }
    answers = stores.resolve(Pointer(kind, ref) for kind, some in refs.items() for ref in some)
    assert answers[Pointer(Kind.FILE, "*.txt")].verdict is Verdict.VERIFIED
    assert len(answers) == 10
    stores.reread(trap.first, trap.tip)
    assert trap.sprung() == ""


def test_no_writing_runs_anything(trap: Trap, tmp_path: Path) -> None:
    store = GitStore(trap.repo, tmp_path / "shield")
    store.add_note(trap.tip, "one")
    store.add_note(trap.tip, "two")
    store.write_ledger_ref("RLY-1", [{"id": "RLY-1.0.e1"}])
    store.update_ref("refs/relay/x", trap.tip)
    store.delete_ref("refs/relay/x")
    assert trap.sprung() == ""


def test_no_work_tree_of_ours_runs_anything(trap: Trap, tmp_path: Path) -> None:
    store = GitStore(trap.repo, tmp_path / "shield")
    add_worktree(store, tmp_path / "tree", "relay/RLY-1", trap.tip)
    assert (tmp_path / "tree" / "a.txt").read_text() == "other\n"
    checkout_for_command(store, trap.tip, tmp_path / "out")
    assert (tmp_path / "out" / "a.txt").read_text() == "other\n"
    git(tmp_path / "out", "status")
    remove_worktree(store, tmp_path / "tree")
    assert trap.sprung() == ""


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda tree: tree.state(), id="state"),
        pytest.param(lambda tree: tree.store_wip(WIP, "x"), id="store_wip"),
        pytest.param(lambda tree: tree.clean_to_head(), id="clean_to_head"),
        pytest.param(lambda tree: (tree.reflog(), tree.head(), tree.stash_count()), id="records"),
    ],
)
def test_no_work_tree_question_runs_anything(trap: Trap, ask: Callable[[WorkTree], object]) -> None:
    """Neither for files that must be hashed to be told from what is tracked, nor for ones that are new."""
    (trap.repo / "a.txt").write_text("third\n")  # of the same size: only its content differs
    (trap.repo / "new.txt").write_text("new\n")
    (trap.repo / "new.more").write_text("new\n")
    ask(WorkTree(trap.repo))
    assert trap.sprung() == ""


def test_no_laying_back_runs_anything(trap: Trap, tmp_path: Path) -> None:
    """On the same commit, on a later one, and where both sides changed a file: there a merge driver would be asked."""
    store = GitStore(trap.repo, tmp_path / "shield")
    add_worktree(store, tmp_path / "tree", "relay/RLY-1", trap.tip)
    tree = WorkTree(tmp_path / "tree")
    (tree.path / "a.txt").write_text("mine\n")
    (tree.path / "new.txt").write_text("new\n")
    parked = tree.store_wip(WIP, "x")
    assert parked
    tree.clean_to_head()
    assert tree.lay_back(parked) == "applied"
    tree.clean_to_head()
    for name, laid in (("c.txt", "applied"), ("a.txt", "RELAY_WIP_STALE")):
        later = tree.git(["commit-tree", f"{_with(tree, name)}", "-p", tree.head()], stdin=b"x", env=IDENTITY)
        tree.git(["update-ref", "HEAD", later.out.decode().strip()])
        tree.clean_to_head()
        assert tree.lay_back(parked) == laid
        tree.clean_to_head()
    assert trap.sprung() == ""
    git(tree.path, "status", ok=(0, 128))
    (tree.path / "a.txt").write_text("again\n")
    git(tree.path, "add", "a.txt", ok=(0, 128))
    assert "clean" in trap.sprung()  # the agent's own git would have run it here


def _with(tree: WorkTree, name: str) -> str:
    """HEAD's tree with another `name`."""
    (tree.path / name).write_text("theirs\n")
    tree.git(["add", "--", name])
    return tree.git(["write-tree"]).out.decode().strip()


def test_no_switching_and_no_repair_runs_anything(trap: Trap, tmp_path: Path) -> None:
    store = GitStore(trap.repo, tmp_path / "shield")
    path = tmp_path / "tree"
    add_worktree(store, path, "relay/RLY-1", trap.tip)
    tree = WorkTree(path)
    tree.git(["symbolic-ref", "HEAD", "refs/heads/elsewhere"])
    tree.git(["update-ref", "HEAD", trap.first])
    tree.clean_to_head()
    switch_worktree(store, path, "relay/RLY-1", trap.tip)
    assert (path / "a.txt").read_text() == "other\n"
    (tree.git_dir / "BISECT_LOG").write_text("git bisect start\n")
    (tree.git_dir / "BISECT_START").write_text("relay/RLY-1\n")
    store.update_ref("refs/bisect/bad", trap.tip)
    tree.clean_to_head()
    assert (tree.operation(), tree.branch()) == ("", "relay/RLY-1")
    assert trap.sprung() == ""


def test_a_submodule_is_asked_under_our_config_too(trap: Trap, tmp_path: Path) -> None:
    """Git's own `status` and `add` go into it and obey what its config says."""
    inner = make_repo(tmp_path / "inner", {"i.txt": "i\n", ".gitattributes": "* filter=evil\n"})
    for key in ("clean", "required"):
        git(trap.repo, "config", "--unset-all", f"filter.evil.{key}")
    sub = trap.repo / "sub"
    git(trap.repo, "-c", "protocol.file.allow=always", "clone", "-q", str(inner), str(sub))
    for key in ("filter.evil.clean", "core.fsmonitor"):
        git(sub, "config", key, f"{tmp_path / 'program'} clean")
    git(trap.repo, "-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "add", "sub")
    trap.log.unlink(missing_ok=True)
    tree = WorkTree(trap.repo)
    (sub / "i.txt").write_text("j\n")
    state = tree.state(parked=True)
    assert "sub" in state.dirty
    assert "sub" not in state.parked_paths  # its inside could not be kept
    tree.store_wip(WIP, "x")
    assert trap.sprung() == ""
    git(trap.repo, "-c", "core.fsmonitor=false", "status", "--porcelain", "-uno", ok=(0, 128))
    assert "clean" in trap.sprung()


class TestLint:
    """stack.md 3.2: "a config lint … shown as a finding on the relay page"."""

    def test_each_key_that_can_run_something_is_named(self, trap: Trap) -> None:
        found = " ".join(lint(trap.repo / ".git"))
        for key in ("core.fsmonitor", "core.sshcommand", "core.hookspath", "core.pager", "diff.evil.command"):
            assert f"{key} " in found
        assert "more such keys" in found
        assert str(trap.repo.parent) not in found  # values may be secrets
        assert trap.sprung() == ""

    def test_a_plain_repository_has_none(self, repo: Path) -> None:
        git(repo, "config", "core.fsmonitor", "false")
        git(repo, "config", "user.name", "Somebody")
        assert lint(repo / ".git") == []

    def test_what_cannot_be_read_is_said_at_once(self, repo: Path) -> None:
        (repo / ".git" / "config").unlink()
        os.mkfifo(repo / ".git" / "config")
        assert lint(repo / ".git") == ["it cannot be read: the repository's config is not a file"]

    def test_a_hostile_key_is_one_line(self, repo: Path) -> None:
        with (repo / ".git" / "config").open("ab") as config:
            config.write('[filter "\x1b[2J\u202e<b>"]\n\tclean = x\n'.encode())
        (line,) = lint(repo / ".git")
        assert line.isprintable() or "\x1b" not in line


def test_settings_of_how_files_look_stay(repo: Path, tmp_path: Path) -> None:
    """A tree must look as it looks to the agent: line ends and sparse checkouts are the repository's."""
    commit(repo, {"crlf.txt": "one\ntwo\n", "far/away.txt": "x\n"}, "More")
    git(repo, "config", "core.autocrlf", "true")
    (repo / "crlf.txt").unlink()
    git(repo, "checkout", "crlf.txt")
    assert (repo / "crlf.txt").read_bytes() == b"one\r\ntwo\r\n"
    (repo / "crlf.txt").touch()
    git(repo, "sparse-checkout", "set", "--no-cone", "/*", "!/far/")
    assert not (repo / "far").exists()
    assert WorkTree(repo).state().dirty == ()


def test_the_first_work_tree_of_a_sha256_repository(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "repo", object_format="sha256")
    add_worktree(GitStore(repo, tmp_path / "shield"), tmp_path / "tree", "relay/RLY-1", head(repo))
    (tmp_path / "tree" / "README.md").write_text("other\n")
    assert WorkTree(tmp_path / "tree").state().dirty == ("README.md",)
    assert WorkTree(tmp_path / "tree").store_wip(WIP, "x")


def test_a_work_tree_that_was_not_filled_yet_is_filled_when_asked_again(
    repo: Path, store: GitStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between making and filling: what is there must not look like a tree whose files were all removed."""

    def dying(*_: object) -> None:
        raise KeyboardInterrupt

    path, tip = tmp_path / "tree", head(repo)
    with monkeypatch.context() as patch:
        patch.setattr("relays.stores.checkout._fill_worktree", dying)
        with pytest.raises(KeyboardInterrupt):
            add_worktree(store, path, "relay/RLY-1", tip)
    assert not (path / "README.md").exists()
    add_worktree(store, path, "relay/RLY-1", tip)
    assert (path / "README.md").exists()
    assert WorkTree(path).state().dirty == ()
    (path / "README.md").unlink()
    add_worktree(store, path, "relay/RLY-1", tip)
    assert WorkTree(path).state().dirty == ("README.md",)  # filled once: what was removed since stays removed
