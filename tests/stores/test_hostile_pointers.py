"""Pointers, globs, slugs, rows and files that agents wrote to harm whoever reads them: baton.md, Verdict of one pointer
("three values, never two"; "Refs come from agents and are hostile input"). Each look ends, and denies nothing it cannot
deny."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core.pointers import Answer, Kind, Pointer, Verdict
from relays.core.region import glob_matches, glob_problem
from relays.stores import gitwrite, issues
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.files import FileStore, Tracked
from relays.stores.git import FILE_BYTES, GitStore
from relays.stores.issues import IssueFile
from relays.stores.memory import MemoryStore
from tests.builders import commit, git, head

NAMES = st.sampled_from(["a", "b", "docs", "x.py", "é", "a b", "#x", "~"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
GLOBS = st.lists(st.one_of(NAMES, st.sampled_from(["*", "**", "?", "[ab]", "d*s", "*.py"])), min_size=1, max_size=4)


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    before = time.monotonic()
    yield
    assert time.monotonic() - before < 20


class TestGlobs:
    @settings(max_examples=300, deadline=None)
    @given(st.lists(PATHS, max_size=8, unique=True), GLOBS, st.booleans())
    def test_the_short_ways_answer_as_the_long_one(self, paths: list[str], parts: list[str], folder: bool) -> None:
        glob = "/".join(parts) + ("/" if folder else "")
        found = Tracked(paths).judge(glob)
        legal = glob in paths or not glob_problem(glob)
        wanted = legal and any(glob_matches(glob, path) for path in paths)
        assert (found.verdict is Verdict.VERIFIED) == wanted
        assert found.verdict is not Verdict.UNKNOWN

    def test_a_thousand_globs_on_a_large_tree_end_as_unknown_and_always_the_same(self) -> None:
        paths = [f"src/{number % 100}/{number}.py" for number in range(5_000)]
        refs = [f"**/*{number}*a*b*c*.rs" for number in range(1000)]
        tracked = Tracked(paths, 20_000)
        first = [tracked.judge(ref) for ref in refs]
        assert [answer.verdict for answer in first[:5]] == [Verdict.DANGLING] * 4 + [Verdict.UNKNOWN]
        assert first[-1] == Answer(Verdict.UNKNOWN, "too many globs for a tree of 5000 files")
        again = Tracked(paths, 20_000)
        assert [again.judge(ref) for ref in refs] == first

    def test_names_without_wildcards_cost_no_walk(self) -> None:
        tracked = Tracked([f"src/{number}/x.py" for number in range(50_000)], matches=0)
        assert all(tracked.judge(f"src/{number}").verdict is Verdict.VERIFIED for number in range(0, 50_000, 50))
        assert tracked.judge("src/none/x.py").verdict is Verdict.DANGLING

    @pytest.mark.parametrize(
        "ref",
        ["-rf", "../x", "/etc/passwd", "a\\b", ":(top)x", "!x", "a\nb", "a\0b", "", " x", "x" * 501, "a/../b"]
        + ["\ud800", ":/x", ":!x"],
    )
    def test_what_git_could_misread_is_refused(self, store: GitStore, repo: Path, ref: str) -> None:
        (answer,) = FileStore(store, head(repo)).resolve([ref]).values()
        assert answer.verdict is Verdict.DANGLING
        assert answer.evidence.isprintable()


class TestIssueFile:
    def test_a_million_lines_deny_nothing(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {issues.PATH: "{}\n" * 1_000_000}, "Bomb")
        with pytest.raises(StoreUnavailable, match="more than 100000 lines"):
            IssueFile(store, tip).open_numbers()
        stores = Stores(store, tip, None, "RLY-1")
        assert stores.resolve([Pointer(Kind.ISSUE, "#1")])[Pointer(Kind.ISSUE, "#1")].verdict is Verdict.UNKNOWN

    @pytest.mark.parametrize(
        "row",
        [
            '{"number": 7, "state": "open", "state": "closed"}',
            '{"number": 7.0, "state": "closed"}',
            '{"number": "7", "state": "closed"}',
            '{"number": true, "state": "closed"}',
            '{"number": 7, "state": "CLOSED"}',
            '{"number": 7, "state": "closed"',
            "[" * 100_000,
            '{"number": ' + "9" * 5000 + ', "state": "closed"}',
            '\ufeff{"number": 7, "state": "closed"}',
        ],
    )
    def test_a_row_that_could_be_read_in_two_ways_closes_nothing(self, repo: Path, store: GitStore, row: str) -> None:
        tip = commit(repo, {issues.PATH: f"{row}\n"}, "Row")
        (answer,) = IssueFile(store, tip).resolve(["#7"]).values()
        assert answer.verdict is Verdict.UNKNOWN

    def test_a_link_in_its_place_is_no_store(self, repo: Path, store: GitStore, tmp_path: Path) -> None:
        outside = tmp_path / "closed.jsonl"
        outside.write_text('{"number": 7, "state": "closed"}\n')
        (repo / issues.PATH).unlink()
        (repo / issues.PATH).symlink_to(outside)
        tip = commit(repo, {}, "A link out")
        (answer,) = IssueFile(store, tip).resolve(["#7"]).values()
        assert answer.verdict is Verdict.UNKNOWN


class TestMemory:
    def test_a_root_that_leads_out_of_the_work_tree_is_unknown(self, repo: Path, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "note.md").write_text("x")
        (repo / ".relay" / "memory").symlink_to(outside)
        with pytest.raises(StoreUnavailable, match="leads out of the work tree"):
            MemoryStore(repo / ".relay" / "memory", within=repo).resolve(["note"])
        # an operator's own absolute root may be a link
        assert MemoryStore(repo / ".relay" / "memory").resolve(["note"])["note"].verdict is Verdict.VERIFIED

    @pytest.mark.django_db
    def test_through_all_stores(self, repo: Path, store: GitStore, tmp_path: Path) -> None:
        (tmp_path / "note.md").write_text("x")
        note = Pointer(Kind.MEMORY, "note")
        for root, verdict in (("..", Verdict.UNKNOWN), (".relay/../..", Verdict.UNKNOWN), ("mem", Verdict.DANGLING)):
            answer = Stores(store, head(repo), root, "RLY-1", work_tree=repo).resolve([note])[note]
            assert answer.verdict is verdict, root

    def test_what_lies_in_a_slugs_place(self, repo: Path, tmp_path: Path) -> None:
        root = repo / "mem"
        root.mkdir()
        os.mkfifo(root / "fifo.md")
        (root / "folder.md").mkdir()
        (root / "out.md").symlink_to("/etc/passwd")
        (root / "loop.md").symlink_to("loop.md")
        (root / "device.md").symlink_to("/dev/zero")
        found = MemoryStore(root, within=repo).resolve(["fifo", "folder", "out", "loop", "device", "../x", "a/b", "-x"])
        assert Verdict.VERIFIED not in {answer.verdict for answer in found.values()}
        assert found["loop"].verdict is Verdict.UNKNOWN


class TestLedger:
    def test_a_million_rows_that_travelled_are_no_answer(self, repo: Path, store: GitStore) -> None:
        self.travel(repo, b'{"id":"RLY-9.0.e1"}\n' * 1_000_000)
        with pytest.raises(StoreUnavailable, match="more than 200000 rows"):
            store.read_ledger_ref("RLY-9")

    @pytest.mark.parametrize("raw", [b"[" * 200_000, b'{"id":1}\n', b'{"id":"x"}\n\xff\n', b'{"id":"a"}\n\n', b"\0"])
    def test_one_bad_row_makes_all_unknown(self, repo: Path, store: GitStore, raw: bytes) -> None:
        self.travel(repo, raw)
        with pytest.raises(StoreUnavailable, match="malformed"):
            store.read_ledger_ref("RLY-9")

    def test_a_folder_in_the_ledgers_place_is_replaced_by_the_ledger(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {"rows.jsonl/inside": "x"}, "A folder of that name")
        store.update_ref("refs/relay/ledger/RLY-9", tip)
        store.write_ledger_ref("RLY-9", [{"id": "RLY-9.0.e1"}])
        assert store.read_ledger_ref("RLY-9") == [{"id": "RLY-9.0.e1"}]

    def test_a_ledger_of_a_hundred_thousand_files_is_none_and_is_replaced(self, repo: Path, store: GitStore) -> None:
        blob = git(repo, "hash-object", "-w", "--stdin", stdin=b"")
        names = ("rows.jsonl", *(f"rows-{number:06}.jsonl" for number in range(100_000)))
        tree = git(repo, "mktree", stdin="".join(f"100644 blob {blob}\t{name}\n" for name in names).encode())
        git(repo, "update-ref", "refs/relay/ledger/RLY-9", git(repo, "commit-tree", "-m", "x", tree))
        assert store.read_ledger_ref("RLY-9") is None
        store.write_ledger_ref("RLY-9", [{"id": "RLY-9.0.e1"}])
        assert store.read_ledger_ref("RLY-9") == [{"id": "RLY-9.0.e1"}]

    def travel(self, repo: Path, raw: bytes) -> None:
        blob = git(repo, "hash-object", "-w", "--stdin", stdin=raw)
        tree = git(repo, "mktree", stdin=f"100644 blob {blob}\t{gitwrite.LEDGER_FILE}\n".encode())
        made = git(repo, "commit-tree", "-m", "x", tree)
        git(repo, "update-ref", "refs/relay/ledger/RLY-9", made)

    @pytest.mark.django_db
    @pytest.mark.parametrize(
        ("ref", "verdict"),
        [
            ("rows.jsonl#L1", Verdict.VERIFIED),
            ("rows.jsonl#L2", Verdict.DANGLING),
            ("rows.jsonl#L" + "9" * 400, Verdict.DANGLING),
            ("rows.jsonl#L0", Verdict.DANGLING),
            ("rows.jsonl#L01", Verdict.DANGLING),
            ("../rows.jsonl#L1", Verdict.DANGLING),
            ("/etc/passwd#L1", Verdict.DANGLING),
            ("-x#L1", Verdict.DANGLING),
            ("link#L1", Verdict.DANGLING),
            ("deep.jsonl#L1", Verdict.DANGLING),
            ("large.jsonl#L1", Verdict.UNKNOWN),
        ],
    )
    def test_a_line_of_a_tracked_file(self, repo: Path, store: GitStore, ref: str, verdict: Verdict) -> None:
        if ref.startswith("link"):
            (repo / "link").symlink_to("/etc/passwd")
        rows = {"rows.jsonl": '{"a": 1}\nnot a row\n', "deep.jsonl": "[" * 50_000}
        large = {"large.jsonl": "x" * (2 * FILE_BYTES)} if ref.startswith("large") else {}
        tip = commit(repo, {**rows, **large}, "Rows")
        pointer = Pointer(Kind.LEDGER, ref)
        assert Stores(store, tip, None, "RLY-1").resolve([pointer])[pointer].verdict is verdict


class TestNotes:
    def test_a_note_that_is_too_large_is_no_answer(self, repo: Path, store: GitStore) -> None:
        tip = head(repo)
        git(repo, "notes", "--ref", "relay", "add", "-F", "-", tip, stdin=b"x" * (2 * FILE_BYTES))
        with pytest.raises(StoreUnavailable, match="more than"):
            store.read_note(tip)

    def test_a_stranger_s_note_and_ledger_without_end_keep_us_from_nothing(self, repo: Path, store: GitStore) -> None:
        tip = head(repo)
        git(repo, "notes", "--ref", "relay", "add", "-F", "-", tip, stdin=b"x" * (2 * FILE_BYTES))
        assert store.add_note(tip, "kept")
        assert store.read_note(tip) == "kept\n"
        strange = commit(repo, {"rows.jsonl": "x" * FILE_BYTES}, "Strange")
        store.update_ref("refs/relay/ledger/RLY-9", strange)
        store.write_ledger_ref("RLY-9", [{"id": "RLY-9.0.e1"}])
        assert store.read_ledger_ref("RLY-9") == [{"id": "RLY-9.0.e1"}]

    def test_notes_that_are_no_tree_of_notes(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {f"{head(repo)}/inside": "x"}, "A folder called as a commit is")
        store.update_ref("refs/notes/relay", tip)
        first = git(repo, "rev-parse", "HEAD~1")
        assert store.read_note(first) in (None, "")
        assert store.add_note(first, "kept")
        assert store.read_note(first) == "kept\n"

    def test_a_note_ref_that_leads_to_a_branch_moves_no_branch(self, repo: Path, store: GitStore) -> None:
        git(repo, "symbolic-ref", "refs/notes/relay", "refs/heads/main")
        tip = head(repo)
        store.add_note(tip, "kept")
        assert store.tip("main") == tip
        assert store.read_note(tip) == "kept\n"


def test_rows_of_issues_are_read_in_one_go(repo: Path, store: GitStore) -> None:
    """The bound of lines leaves room for any real store."""
    rows = "".join(json.dumps({"number": n, "state": "open"}) + "\n" for n in range(1, 60_001))
    tip = commit(repo, {issues.PATH: rows}, "Many")
    assert len(IssueFile(store, tip).open_numbers()) == 60_000
