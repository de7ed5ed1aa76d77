"""Notes and the travelling ledger: written once, however often it is asked for."""

from pathlib import Path

import pytest

from relays.stores.base import BadName, StoreUnavailable
from relays.stores.git import GitStore
from tests.builders import commit, git, head


class TestNotes:
    def test_appending_twice_leaves_one_copy(self, repo: Path, store: GitStore) -> None:
        sha = head(repo)
        assert store.read_note(sha) is None
        assert store.add_note(sha, '{"leg":0}') is True
        assert store.add_note(sha, '{"leg":0}') is False
        assert store.add_note(sha, '{"leg":1}') is True
        assert store.add_note(sha, '{"leg":0}') is False
        assert store.read_note(sha) == '{"leg":0}\n\n{"leg":1}\n'
        assert git(repo, "notes", "--ref=relay", "show", sha) == '{"leg":0}\n\n{"leg":1}'

    def test_a_part_of_a_paragraph_is_not_the_paragraph(self, repo: Path, store: GitStore) -> None:
        sha = head(repo)
        store.add_note(sha, "leg 10")
        assert store.add_note(sha, "leg 1") is True
        assert store.add_note(sha, "leg 1", append=False) is True
        assert store.read_note(sha) == "leg 1\n"

    def test_notes_that_git_wrote_are_found_and_kept(self, repo: Path, store: GitStore) -> None:
        # so many that git spreads them over folders
        commits = "".join(
            f"commit refs/heads/many\ncommitter T <t@example.org> {n} +0000\ndata 0\n\n" for n in range(300)
        )
        git(repo, "fast-import", "--quiet", stdin=commits.encode())
        shas = git(repo, "rev-list", "many").split()
        lines = "".join(f"N inline {sha}\ndata 3\nold\n" for sha in shas)
        stream = f"commit refs/notes/relay\ncommitter T <t@example.org> 1 +0000\ndata 0\n{lines}"
        git(repo, "fast-import", "--quiet", stdin=stream.encode())
        assert "/" in git(repo, "ls-tree", "-r", "--name-only", "refs/notes/relay")
        assert store.read_note(shas[7]) == "old"
        assert store.add_note(shas[7], "new") is True
        assert git(repo, "notes", "--ref=relay", "show", shas[7]) == "old\n\nnew"
        assert len(git(repo, "notes", "--ref=relay", "list").splitlines()) == 300

    def test_two_objects_keep_their_own(self, repo: Path, store: GitStore) -> None:
        first, second = head(repo), commit(repo, {"a": "1"}, "Second")
        store.add_note(first, "one")
        store.add_note(second, "two")
        assert (store.read_note(first), store.read_note(second)) == ("one\n", "two\n")

    @pytest.mark.parametrize("ref", ["notes", "--help", "refs/notes/../heads/main", "refs/notes"])
    def test_hostile_refs(self, repo: Path, store: GitStore, ref: str) -> None:
        with pytest.raises(BadName):
            store.add_note(head(repo), "x", ref=ref)


class TestLedger:
    ROWS = [{"id": "RLY-1.0.e3", "refs": ["issue:#1"], "note": "ü\u2028\n"}, {"id": "RLY-1.0.e4", "refs": []}]

    def test_rows_travel_and_repeat_as_one(self, repo: Path, store: GitStore) -> None:
        assert store.read_ledger_ref("RLY-1") is None
        made = store.write_ledger_ref("RLY-1", self.ROWS[:1])
        assert store.write_ledger_ref("RLY-1", self.ROWS[:1]) == made
        assert store.ref("refs/relay/ledger/RLY-1") == made
        later = store.write_ledger_ref("RLY-1", self.ROWS)
        assert git(repo, "rev-parse", f"{later}^") == made
        assert git(repo, "ls-tree", "--name-only", later) == "rows.jsonl"
        assert store.read_ledger_ref("RLY-1") == self.ROWS

    def test_no_rows_is_an_empty_file(self, store: GitStore) -> None:
        store.write_ledger_ref("RLY-2", [])
        assert store.read_ledger_ref("RLY-2") == []

    def test_a_malformed_row_is_no_answer(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {"rows.jsonl": '{"id":"a"}\nnot json\n'}, "Forged")
        git(repo, "update-ref", "refs/relay/ledger/RLY-3", tip)
        with pytest.raises(StoreUnavailable, match="line 2"):
            store.read_ledger_ref("RLY-3")

    def test_hostile_relay_ids(self, store: GitStore) -> None:
        for relay_id in ("../../heads/main", "", "a b", "x.lock"):
            with pytest.raises(BadName):
                store.write_ledger_ref(relay_id, [])
