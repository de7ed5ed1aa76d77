"""A watched repository whose own config tries to run programs: nothing that we ask may start one.

Baton contract: "A watched repository's own config must never run a program."
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from relays.core.pointers import Kind, Pointer, Verdict
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import GitStore, discover
from relays.stores.worktree import WorkTree, add_worktree, checkout_for_command, remove_worktree
from tests.builders import commit, git, head, make_repo

FAKE = "0123456789abcdef0123456789abcdef01234567"
HOOKS = (
    "post-checkout",
    "reference-transaction",
    "post-index-change",
    "pre-commit",
    "post-commit",
    "post-merge",
    "post-rewrite",
)


class Trap:
    """A repository in which every setting that can start a program starts one that writes its name down."""

    def __init__(self, folder: Path) -> None:
        self.repo = make_repo(
            folder / "repo", {"a.txt": "text\n", ".gitattributes": "* filter=evil diff=evil merge=evil\n"}, issues=1
        )
        self.first = head(self.repo)
        self.tip = commit(self.repo, {"a.txt": "other\n", "b.txt": "b\n"}, "Second")
        self.log = folder / "sprung"
        program = folder / "program"
        program.write_text(f'#!/bin/sh\necho "$0 $*" >> "{self.log}"\ncase "$1" in clean|smudge) cat;; esac\n')
        program.chmod(0o755)
        hooks = folder / "hooks"
        hooks.mkdir()
        for name in HOOKS:
            (hooks / name).symlink_to(program)
            (self.repo / ".git" / "hooks").mkdir(exist_ok=True)
            (self.repo / ".git" / "hooks" / name).symlink_to(program)
        run = str(program)
        for key, value in {
            "core.hooksPath": str(hooks),
            "core.fsmonitor": run,
            "core.sshCommand": run,
            "core.gitProxy": run,
            "core.askPass": run,
            "core.pager": run,
            "core.editor": run,
            "core.alternateRefsCommand": run,
            "diff.external": run,
            "diff.evil.command": run,
            "diff.evil.textconv": run,
            "merge.evil.driver": run,
            "filter.evil.clean": f"{run} clean",
            "filter.evil.smudge": f"{run} smudge",
            "filter.evil.required": "true",
            "filter.a.b=c.smudge": f"{run} odd",
            "gpg.program": run,
            "log.showSignature": "true",
            "commit.gpgSign": "true",
            "credential.helper": run,
            "uploadpack.packObjectsHook": run,
            "gc.auto": "1",
            "remote.origin.url": "ssh://example.org/x",
            "remote.origin.promisor": "true",
            "remote.origin.partialclonefilter": "blob:none",
            "remote.origin.uploadpack": run,
            "core.repositoryFormatVersion": "1",
            "extensions.partialClone": "origin",
        }.items():
            git(self.repo, "config", key, value)

    def sprung(self) -> str:
        return self.log.read_text() if self.log.exists() else ""


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
        pytest.param(lambda tree: tree.store_wip("refs/relay/wip/RLY-1/0", "x"), id="store_wip"),
        pytest.param(lambda tree: tree.clean_to_head(), id="clean_to_head"),
        pytest.param(lambda tree: (tree.reflog(), tree.head(), tree.stash_count()), id="records"),
    ],
)
def test_a_work_tree_question_runs_filters_at_most(trap: Trap, ask: Callable[[WorkTree], object]) -> None:
    """A filter makes a file what it is to the agent's own git; hooks, monitors and fetching never take part."""
    (trap.repo / "a.txt").write_text("changed\n")
    (trap.repo / "new.txt").write_text("new\n")
    ask(WorkTree(trap.repo))
    started = [line.split()[1:2] for line in trap.sprung().splitlines()]
    assert [one for one in started if one not in (["clean"], ["smudge"])] == []
