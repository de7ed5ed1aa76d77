"""Notes and the travelling ledger: written once, however often it is asked for."""

from pathlib import Path

import pytest

from relays.stores.base import BadName, StoreUnavailable
from relays.stores.git import GitStore
from relays.stores.gitrun import counting
from relays.stores.gitwrite import BLOCK_ROWS
from tests.builders import commit, git, head, make_repo


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

    @pytest.mark.parametrize("object_format", ["sha1", "sha256"])
    def test_only_the_newest_rows_are_stored_again(self, tmp_path: Path, shield: Path, object_format: str) -> None:
        """What a leg writes at its end does not grow with the legs before it."""
        repo = make_repo(tmp_path / "many", object_format=object_format)
        store = GitStore(repo, shield)
        rows: list[dict[str, object]] = [{"id": f"RLY-1.{number}.e1"} for number in range(3 * BLOCK_ROWS)]
        first = store.write_ledger_ref("RLY-1", rows)
        blocks = ["rows-000000.jsonl", "rows-000001.jsonl", "rows.jsonl"]
        assert git(repo, "ls-tree", "--name-only", first).split() == blocks
        assert store.read_ledger_ref("RLY-1") == rows
        rows.append({"id": "RLY-1.768.e1"})
        store.write_ledger_ref("RLY-1", rows)  # the third block is full, and lies in the store already
        rows.append({"id": "RLY-1.769.e1"})
        with counting() as asked:
            last = store.write_ledger_ref("RLY-1", rows)
        assert sum("hash-object" in one for one in asked) == 1
        assert git(repo, "diff", "--name-only", f"{last}^", last).split() == ["rows.jsonl"]
        assert store.read_ledger_ref("RLY-1") == rows
        assert store.write_ledger_ref("RLY-1", rows) == last

    def test_whatever_else_stands_there_is_put_right(self, repo: Path, store: GitStore) -> None:
        rows: list[dict[str, object]] = [{"id": f"RLY-1.{number}.e1"} for number in range(BLOCK_ROWS + 1)]
        store.write_ledger_ref("RLY-1", rows)
        forged = {"rows-000000.jsonl": '{"id":"RLY-1.9.e9"}\n', "rows-000001.jsonl": "", "rows.jsonl": "", "x": ""}
        for files in (forged, {"rows-000000.jsonl/inside": "x"}, {"rows.jsonl": '{"id":"RLY-1.0.e1"}\n'}):
            git(repo, "update-ref", "refs/relay/ledger/RLY-1", commit(repo, files, "Forged"))
            git(repo, "reset", "-q", "--hard", "HEAD^")
            made = store.write_ledger_ref("RLY-1", rows)
            assert git(repo, "ls-tree", "--name-only", made).split() == ["rows-000000.jsonl", "rows.jsonl"]
            assert store.read_ledger_ref("RLY-1") == rows

    def test_one_file_with_all_rows_is_read_as_well(self, repo: Path, store: GitStore) -> None:
        text = "".join(f'{{"id":"RLY-4.{number}.e1"}}\n' for number in range(3 * BLOCK_ROWS))
        git(repo, "update-ref", "refs/relay/ledger/RLY-4", commit(repo, {"rows.jsonl": text}, "In one file"))
        found = store.read_ledger_ref("RLY-4")
        assert found is not None and [len(found), found[-1]] == [3 * BLOCK_ROWS, {"id": f"RLY-4.{len(found) - 1}.e1"}]

    def test_a_block_that_is_missing_is_no_answer(self, repo: Path, store: GitStore) -> None:
        files = {"rows-000001.jsonl": '{"id":"a"}\n', "rows.jsonl": '{"id":"b"}\n'}
        git(repo, "update-ref", "refs/relay/ledger/RLY-5", commit(repo, files, "Without the first"))
        with pytest.raises(StoreUnavailable, match="lacks rows-000000.jsonl"):
            store.read_ledger_ref("RLY-5")

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
