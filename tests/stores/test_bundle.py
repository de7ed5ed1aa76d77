"""All stores of one relay together: batches, clauses, and no exception whatever happens."""

import json
import shutil
from pathlib import Path

import pytest

from relays.core import baton as batons
from relays.core import donewhen
from relays.core.objective import make_pin
from relays.core.pointers import Kind, Pointer, Verdict
from relays.stores import gitrun
from relays.stores.bundle import Stores
from relays.stores.git import GitStore
from relays.stores.worktree import WorkTree
from tests.builders import commit, git, head, issue_lines

pytestmark = pytest.mark.django_db


def bundle(store: GitStore, tip: str | None, **more: Path) -> Stores:
    return Stores(store, tip, ".relay/memory", "RLY-1", branch="main", **more)


class TestResolve:
    def test_every_kind(self, repo: Path, store: GitStore) -> None:
        (repo / ".relay" / "memory").mkdir(parents=True)
        (repo / ".relay" / "memory" / "tip.md").write_text("x")
        tip = commit(repo, {"src/a.py": "x"}, "Work")
        pointers = {
            Pointer(Kind.COMMIT, tip): "a commit on main",
            Pointer(Kind.ISSUE, "#1"): "open in .relay/issues.jsonl",
            Pointer(Kind.MEMORY, "tip"): "a file in the memory folder",
            Pointer(Kind.LEDGER, ".relay/issues.jsonl#L1"): "a well-formed row at the tip",
            Pointer(Kind.FILE, "src/*.py"): "matches a file that is tracked at the tip",
        }
        answers = bundle(store, tip).resolve(pointers)
        assert {pointer: answer.evidence for pointer, answer in answers.items()} == pointers
        assert {answer.verdict for answer in answers.values()} == {Verdict.VERIFIED}

    def test_processes_do_not_grow(self, repo: Path, store: GitStore) -> None:
        tip = head(repo)
        store.tree(tip)
        counts = []
        for number in (2, 2, 60):  # what the tip reaches is asked once, by the first
            some = [Pointer(Kind.COMMIT, f"{n:040x}") for n in range(number)]
            some += [Pointer(Kind.ISSUE, f"#{n}") for n in range(1, number)]
            some += [Pointer(Kind.FILE, f"f{n}") for n in range(number)]
            some += [Pointer(Kind.LEDGER, f"f{n}#L1") for n in range(number)]
            with gitrun.counting() as seen:
                assert len(bundle(store, tip).resolve(some)) == len(some)
            counts.append(len(seen))
        assert counts[1] == counts[2] < counts[0]

    def test_a_repository_that_is_gone_is_unknown(self, repo: Path, store: GitStore) -> None:
        tip = head(repo)
        store.tree(tip)
        shutil.rmtree(repo)
        kinds = {Kind.COMMIT: tip, Kind.ISSUE: "#1", Kind.FILE: "README.md", Kind.LEDGER: "a#L1", Kind.MEMORY: "a"}
        answers = bundle(store, tip).resolve(Pointer(kind, ref) for kind, ref in kinds.items())
        assert {answer.verdict for answer in answers.values()} == {Verdict.UNKNOWN}
        assert all(answer.evidence and str(repo) not in answer.evidence for answer in answers.values())

    def test_a_branch_that_is_gone_dangles(self, repo: Path, store: GitStore) -> None:
        answers = bundle(store, None).resolve([Pointer(Kind.COMMIT, head(repo)), Pointer(Kind.FILE, "README.md")])
        assert {answer.verdict for answer in answers.values()} == {Verdict.DANGLING}
        assert "does not exist" in answers[Pointer(Kind.FILE, "README.md")].evidence

    def test_memory_lies_in_the_work_tree_that_is_named(self, repo: Path, store: GitStore, tmp_path: Path) -> None:
        git(repo, "worktree", "add", "-q", "-b", "linked", str(tmp_path / "linked"))
        (tmp_path / "linked" / ".relay" / "memory").mkdir(parents=True)
        (tmp_path / "linked" / ".relay" / "memory" / "a.md").write_text("x")
        pointer = Pointer(Kind.MEMORY, "a")
        assert bundle(store, head(repo)).resolve([pointer])[pointer].verdict is Verdict.DANGLING
        there = bundle(store, head(repo), work_tree=tmp_path / "linked")
        assert there.resolve([pointer])[pointer].verdict is Verdict.VERIFIED


class TestBaton:
    def test_every_path_is_answered(self, repo: Path, store: GitStore) -> None:
        tip = head(repo)
        (repo / "work").write_text("x")
        wip = WorkTree(repo).store_wip("refs/relay/wip/RLY-1/3", "x")
        pin = make_pin("p", "Drain the backlog.")
        text = {
            "schema": batons.SCHEMA,
            "relay_id": "RLY-1",
            "leg": 3,
            "parent_trace": "t",
            "objective": {"pin_id": pin.pin_id, "text": pin.text, "digest": pin.digest},
            "done_when": "issues:none open",
            "progress_cursor": {"start_sha": tip, "wip_tree": wip, "session_image": "img", "held_region": ["**"]},
            "next_action": "Go on.",
            "open_questions": ["#2 which?", "no pointer"],
            "artifacts": [{"kind": "commit", "ref": "1" * 40}],
            "do_not_rederive": [],
            "tombstone": {"reason": "RELAY_ROTATED", "at_sha": tip},
        }
        baton = batons.read(json.dumps(text)).baton
        assert baton is not None
        answers = bundle(store, tip).answers(baton)
        assert {path: str(answer.verdict) for path, answer in answers.items()} == {
            "progress_cursor.start_sha": "verified",
            "tombstone.at_sha": "verified",
            "artifacts[0].ref": "dangling",
            "progress_cursor.wip_tree": "verified",
            "open_questions[0]": "verified",
        }

    def test_wip_is_what_the_ref_says(self, repo: Path, store: GitStore) -> None:
        stores = bundle(store, head(repo))
        assert stores.wip(0, head(repo)).evidence == "refs/relay/wip/RLY-1/0 does not exist"
        git(repo, "update-ref", "refs/relay/wip/RLY-1/0", "HEAD")
        assert stores.wip(0, head(repo)).verdict is Verdict.VERIFIED
        assert stores.wip(0, "1" * 40).verdict is Verdict.DANGLING


class TestClauses:
    def truth(self, stores: Stores, line: str, **cmd: bool) -> list[str]:
        done = donewhen.parse(line)
        assert not done.prose, done.why_prose
        kept = {name: (donewhen.Truth.TRUE if good else donewhen.Truth.FALSE, "exit") for name, good in cmd.items()}
        answers = stores.clause_answers(done, kept)
        return [str(answers[clause][0]) if clause in answers else "-" for clause in done.clauses]

    def test_each_kind(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {".relay/issues.jsonl": issue_lines({1: "closed", 2: "open"}), "a.txt": "x"}, "Work")
        stores = bundle(store, tip)
        for line, wanted in {
            f"commit:{tip} and commit:{'1' * 40}": ["true", "false"],
            "issue:#1 closed and issue:#2 closed and issue:#9 closed": ["true", "false", "false"],
            "issue:owner/repo#1 closed and issues:none open": ["unknown", "false"],
            "file:*.txt and file:*.md and no-file:*.txt and no-file:*.rst": ["true", "true", "false", "true"],
            "ledger:RLY-9.0.e1 and ledger:.relay/issues.jsonl#L1": ["unknown", "true"],
            "cmd:good and cmd:bad and cmd:later": ["true", "false", "-"],
        }.items():
            assert self.truth(stores, line, good=True, bad=False) == wanted, line

    def test_without_an_issue_file(self, repo: Path, store: GitStore) -> None:
        stores = bundle(store, commit(repo, {".relay/issues.jsonl": None}, "Gone"))
        assert self.truth(stores, "issues:none open and issue:#1 closed") == ["false", "unknown"]

    def test_a_store_that_is_gone(self, repo: Path, store: GitStore) -> None:
        tip = head(repo)
        store.tree(tip)
        shutil.rmtree(repo)
        line = f"commit:{tip} and issues:none open and no-file:x and issue:#1 closed"
        assert self.truth(bundle(store, tip), line) == ["unknown"] * 4


class TestReread:
    def test_what_came_after_the_cursor(self, repo: Path, store: GitStore) -> None:
        cursor = head(repo)
        shas = [commit(repo, {"a": "1"}, "One")]
        shas.append(commit(repo, {".relay/issues.jsonl": issue_lines({1: "closed", 2: "open", 3: "open"})}, "Two"))
        store.write_ledger_ref("RLY-1", [{"id": "RLY-1.0.e1"}])
        stores = bundle(store, shas[-1])
        found = stores.reread(cursor, shas[-1])
        assert (found.commits, found.issues, found.ledger) == (tuple(shas), ("#1", "#3"), ("RLY-1.0.e1",))
        assert stores.reread(cursor, shas[-1]) == found
        assert stores.issue_digest() == Stores(store, shas[-1], None, "RLY-2").issue_digest() != ""
