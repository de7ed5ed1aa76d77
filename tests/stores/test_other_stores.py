"""Issues, files, memories and ledger rows: three verdicts each."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from hypothesis import given
from hypothesis import strategies as st

from relays.core.donewhen import Truth
from relays.core.pointers import Verdict
from relays.models import LedgerRow, Relay
from relays.stores import gitrun
from relays.stores.base import StoreUnavailable
from relays.stores.files import FileStore
from relays.stores.git import GitStore
from relays.stores.issues import IssueFile, _read
from relays.stores.ledger import LedgerStore
from relays.stores.memory import MemoryStore
from tests.builders import commit, git, head, issue_lines

PATH = ".relay/issues.jsonl"


class TestIssues:
    def test_open_closed_and_none(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {PATH: issue_lines({1: "closed", 2: "open"})}, "Close")
        issues = IssueFile(store, tip)
        answers = issues.resolve(["#1", "#2", "#3", "owner/repo#1", "1", "--x"])
        assert {ref: (answer.verdict, answer.evidence) for ref, answer in answers.items() if ref[0] not in "1-"} == {
            "#1": (Verdict.VERIFIED, "closed in .relay/issues.jsonl"),
            "#2": (Verdict.VERIFIED, "open in .relay/issues.jsonl"),
            "#3": (Verdict.DANGLING, "not in .relay/issues.jsonl"),
            "owner/repo#1": (Verdict.UNKNOWN, "no issue store for that repository is set up here"),
        }
        assert answers["1"].verdict is answers["--x"].verdict is Verdict.DANGLING
        assert answers["#1"].detail["state"] == "closed"
        assert (issues.states(), issues.open_numbers()) == ({1: "closed", 2: "open"}, [2])

    def test_it_is_read_at_the_tip_and_not_from_the_files(self, repo: Path, store: GitStore) -> None:
        (repo / PATH).write_text(issue_lines({9: "open"}))
        assert IssueFile(store, head(repo)).states() == {1: "open", 2: "open"}

    def test_none_open(self, repo: Path, store: GitStore) -> None:
        def clause(text: str | None) -> Truth:
            return IssueFile(store, commit(repo, {PATH: text}, "x")).none_open()[0]

        assert clause(issue_lines({1: "closed", 2: "open"})) is Truth.FALSE
        assert clause(issue_lines({1: "closed"})) is Truth.TRUE
        assert clause(issue_lines({1: "closed"}) + "garbage\n") is Truth.UNKNOWN
        assert clause(issue_lines({1: "open"}) + "garbage\n") is Truth.FALSE
        assert clause("") is Truth.TRUE
        assert clause(None) is Truth.FALSE

    def test_a_missing_file_is_no_store(self, repo: Path, store: GitStore) -> None:
        issues = IssueFile(store, commit(repo, {PATH: None}, "Gone"))
        assert issues.resolve(["#1"])["#1"].verdict is Verdict.UNKNOWN
        assert (issues.states(), issues.digest(), issues.exists) == ({}, "", False)

    def test_a_malformed_row_denies_nothing(self, repo: Path, store: GitStore) -> None:
        text = issue_lines({1: "open", 2: "open"}) + '{"number": true, "state": "open"}\n' + issue_lines({2: "closed"})
        answers = IssueFile(store, commit(repo, {PATH: text}, "x")).resolve(["#1", "#2", "#3"])
        assert [answer.verdict for answer in answers.values()] == ["verified", "unknown", "unknown"]
        assert "line 3" in answers["#3"].evidence

    def test_a_number_that_fits_no_pointer_is_malformed(self, repo: Path, store: GitStore) -> None:
        rows = issue_lines({10**600: "closed", 1: "closed"})
        issues = IssueFile(store, commit(repo, {PATH: rows}, "x"))
        assert issues.states() == {1: "closed"}
        assert issues.none_open()[0] is Truth.UNKNOWN

    def test_digest_changes_with_the_file(self, repo: Path, store: GitStore) -> None:
        before = IssueFile(store, head(repo)).digest()
        assert IssueFile(store, commit(repo, {"a": "1"}, "x")).digest() == before
        assert IssueFile(store, commit(repo, {PATH: issue_lines({1: "closed"})}, "x")).digest() != before

    @given(st.binary(max_size=200))
    def test_no_bytes_break_it(self, raw: bytes) -> None:
        rows = _read(raw)
        assert all(state in {"open", "closed"} for state in rows.states.values())

    def test_deep_nesting_is_one_malformed_row(self) -> None:
        assert "line 1" in _read(b"[" * 100_000).problem


class TestFiles:
    def test_paths_and_globs_at_the_tip(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {"src/a.py": "x", "docs/deep/b.md": "x", "odd[1].txt": "x", "bl ank": "x"}, "Files")
        (repo / "untracked.txt").write_text("x")
        wanted = {
            "src/a.py": True, "src": True, "src/": True, "*.md": True, "docs/**/b.md": True, "odd[1].txt": True,
            "bl ank": True, "**": True, "nope": False, "untracked.txt": False, "src/a.py/x": False, "SRC/a.py": False,
            "../x": False, "/etc/passwd": False, "-x": False, "!src": False, "a\nb": False,
        }  # fmt: skip
        answers = FileStore(store, tip).resolve(list(wanted))
        assert {ref: answer.verdict is Verdict.VERIFIED for ref, answer in answers.items()} == wanted
        assert {answer.verdict for answer in answers.values()} == {Verdict.VERIFIED, Verdict.DANGLING}

    def test_one_process(self, repo: Path, store: GitStore) -> None:
        tip = head(repo)
        store.types([tip])  # makes the shield repository, once for all
        with gitrun.counting() as seen:
            FileStore(store, tip).resolve([f"f{number}" for number in range(100)])
        assert len(seen) == 1

    def test_a_hostile_glob_takes_no_time(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {"a" * 200: "x"}, "Long name")
        assert FileStore(store, tip).resolve(["*a" * 30 + "b"]).popitem()[1].verdict is Verdict.DANGLING


class TestMemory:
    def test_verdicts(self, tmp_path: Path) -> None:
        root = tmp_path / "memory"
        root.mkdir()
        (root / "here.md").write_text("x")
        (root / "within.md").symlink_to("here.md")
        (tmp_path / "secret.md").write_text("x")
        (root / "leak.md").symlink_to(tmp_path / "secret.md")
        (root / "folder.md").mkdir()
        os.mkfifo(root / "pipe.md")
        (root / "loop.md").symlink_to("loop.md")
        wanted = {
            "here": "verified", "within": "verified", "none": "dangling", "leak": "dangling", "folder": "dangling",
            "pipe": "dangling", "../secret": "dangling", "": "dangling", "loop": "unknown",
        }  # fmt: skip
        answers = MemoryStore(root).resolve(list(wanted))
        assert {slug: str(answer.verdict) for slug, answer in answers.items()} == wanted
        assert all(str(tmp_path) not in answer.evidence for answer in answers.values())

    def test_a_root_that_is_a_link(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "real" / "a.md").write_text("x")
        (tmp_path / "link").symlink_to("real")
        assert MemoryStore(tmp_path / "link").resolve(["a"])["a"].verdict is Verdict.VERIFIED

    def test_no_root(self, repo: Path, tmp_path: Path) -> None:
        assert MemoryStore(repo / ".relay" / "memory").resolve(["a"])["a"].verdict is Verdict.DANGLING
        for root in (None, tmp_path / "unmounted" / "memory", repo / "README.md"):
            with pytest.raises(StoreUnavailable):
                MemoryStore(root).resolve(["a"])


@pytest.fixture
def relay(db: None, repo: Path) -> Relay:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    return Relay.objects.create(
        id="RLY-20261130-0001",
        status_at=now,
        created_at=now,
        pin_id="p",
        objective="o",
        objective_digest="0" * 64,
        done_when="d",
        repo=str(repo),
        git_dir=str(repo / ".git"),
        branch="main",
        worktree=str(repo),
        start_sha=head(repo),
        agent="scripted",
        owner=User.objects.create_user("owner"),
    )


class TestLedger:
    def add(self, relay: Relay, row: str) -> None:
        LedgerRow.objects.create(id=row, relay=relay, refs=[], by="agent", at=relay.created_at)

    def test_rows_by_id(self, relay: Relay, repo: Path, store: GitStore) -> None:
        self.add(relay, f"{relay.pk}.0.e1")
        refs = [f"{relay.pk}.0.e1", f"{relay.pk}.0.e2", "RLY-1.0.e1", "plain", "../x"]
        answers = LedgerStore(store, head(repo)).resolve(refs)
        assert [str(answers[ref].verdict) for ref in refs] == ["verified", "dangling", "unknown", "unknown", "dangling"]

    def test_rows_that_travelled(self, relay: Relay, repo: Path, store: GitStore) -> None:
        store.write_ledger_ref("RLY-1", [{"id": "RLY-1.0.e1"}])
        store.write_ledger_ref(relay.pk, [{"id": f"{relay.pk}.0.e9"}])
        refs = ["RLY-1.0.e1", "RLY-1.0.e2", f"{relay.pk}.0.e9"]
        answers = LedgerStore(store, head(repo)).resolve(refs)
        # a relay that is known here is answered for by our own table alone
        assert [str(answers[ref].verdict) for ref in refs] == ["verified", "unknown", "dangling"]

    @pytest.mark.django_db
    def test_lines_at_the_tip(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {"l.jsonl": '{"a":1}\n\n[1]\nx\n'}, "Rows")
        wanted = {
            "l.jsonl#L1": "verified", "l.jsonl#L2": "dangling", "l.jsonl#L3": "dangling", "l.jsonl#L4": "dangling",
            "l.jsonl#L99": "dangling", "none#L1": "dangling", "../l#L1": "dangling", "l.jsonl#L0": "dangling",
            f"{PATH}#L1": "verified",
        }  # fmt: skip
        answers = LedgerStore(store, tip).resolve(list(wanted))
        assert {ref: str(answer.verdict) for ref, answer in answers.items()} == wanted

    def test_a_constant_number_of_queries(
        self, relay: Relay, repo: Path, store: GitStore, django_assert_num_queries: object
    ) -> None:
        self.add(relay, f"{relay.pk}.0.e0")
        for number in (1, 50):
            with django_assert_num_queries(2):  # type: ignore[operator]
                LedgerStore(store, head(repo)).resolve([f"{relay.pk}.0.e{row}" for row in range(number + 1)])


def test_git_is_not_asked_without_need(repo: Path, store: GitStore) -> None:
    git(repo, "status")
    with gitrun.counting() as seen:
        assert FileStore(store, head(repo)).resolve(["../x"])["../x"].verdict is Verdict.DANGLING
        assert IssueFile(store, head(repo)).resolve(["x"])["x"].verdict is Verdict.DANGLING
    assert seen == []
