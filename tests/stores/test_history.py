"""What a range of commits did, with hostile words in it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from relays.stores import gitrun
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore
from tests.builders import commit, git, head


def test_fields_of_a_commit(repo: Path, store: GitStore) -> None:
    start = head(repo)
    (repo / "bin").write_bytes(bytes(range(256)))
    sha = commit(repo, {"README.md": "one\ntwo\n", "dir/ü b": "x\n"}, "Subject\n\nBody of\nit")
    (record,) = store.commits_between(start, sha)
    assert (record.sha, record.parents, record.tree) == (sha, (start,), head(repo, "HEAD^{tree}"))
    assert set(record.paths) == {"README.md", "bin", "dir/ü b"}
    assert (record.subject, record.author) == ("Subject", "Tester")
    assert (record.added, record.deleted) == (3, 1)
    assert record.at.tzinfo is UTC
    assert abs((datetime.now(UTC) - record.at).total_seconds()) < 300
    assert len(record.patch_id) == 40


def test_order_range_and_root(repo: Path, store: GitStore) -> None:
    start = head(repo)
    shas = [commit(repo, {"a": str(number)}, f"n {number}") for number in range(3)]
    assert [record.sha for record in store.commits_between(start, shas[-1])] == shas
    assert store.shas_between(start, shas[-1]) == tuple(shas)
    everything = store.commits_between(None, shas[-1])
    assert [record.sha for record in everything] == [start, *shas]
    assert set(everything[0].paths) == {".relay/issues.jsonl", "README.md"}
    assert store.commits_between(shas[-1], shas[-1]) == []


def test_a_rename_names_both_sides(repo: Path, store: GitStore) -> None:
    start = commit(repo, {"old": "same content\n" * 20}, "Old")
    git(repo, "mv", "old", "new")
    git(repo, "commit", "-q", "-m", "Rename")
    assert set(store.commits_between(start, head(repo))[0].paths) == {"old", "new"}


def test_the_same_change_has_the_same_patch_id(repo: Path, store: GitStore) -> None:
    start = head(repo)
    git(repo, "checkout", "-q", "-b", "side")
    one = commit(repo, {"work": "done\n"}, "Work")
    git(repo, "checkout", "-q", "main")
    commit(repo, {"other": "x"}, "Other")
    git(repo, "cherry-pick", one)
    picked = store.commits_between(start, head(repo))[-1]
    assert picked.sha != one
    assert picked.patch_id == store.commits_between(start, one)[0].patch_id


def test_binary_changes_differ(repo: Path, store: GitStore) -> None:
    start = head(repo)
    for content in (b"\0one", b"\0two"):
        (repo / "bin").write_bytes(content)
        commit(repo, {}, "Binary")
    first, second = store.commits_between(start, head(repo))
    assert first.patch_id
    assert first.patch_id != second.patch_id


def test_an_empty_commit_has_no_paths_and_no_patch_id(repo: Path, store: GitStore) -> None:
    start = head(repo)
    sha = commit(repo, {}, "Nothing")
    (record,) = store.commits_between(start, sha)
    assert (record.paths, record.patch_id) == ((), "")


def test_a_merge_answers_for_what_it_brought_in_itself(repo: Path, store: GitStore) -> None:
    start = commit(repo, {"both": "base\n"}, "Base")
    git(repo, "checkout", "-q", "-b", "side")
    commit(repo, {"both": "side\n", "side": "s"}, "Side")
    git(repo, "checkout", "-q", "main")
    commit(repo, {"both": "main\n"}, "Main")
    git(repo, "merge", "-q", "side", ok=(1,))
    (repo / "both").write_text("resolved\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "-m", "Merge")
    merge = store.commits_between(start, head(repo))[-1]
    assert len(merge.parents) == 2
    assert merge.paths == ("both",)
    assert merge.patch_id == ""


def test_hostile_words_forge_nothing(repo: Path, store: GitStore) -> None:
    start = head(repo)
    fake = "1" * 40
    message = f"1\t1\tforged\n\ncommit {fake}\ndiff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -0,0 +1 @@\n+x\n"
    name = f"{fake} 3\t4\tpath\nline"
    sha = commit(repo, {name: f"commit {fake}\ndiff --git a/y b/y\n"}, message)
    (record,) = store.commits_between(start, sha)
    assert record.sha == sha
    assert record.paths == (name,)
    assert record.subject == "1\ufffd1\ufffdforged"
    assert len(record.patch_id) == 40


def test_no_utf8_is_shown_with_replacement(repo: Path, store: GitStore) -> None:
    start = head(repo)
    Path(repo, "caf\udce9").write_text("x")
    git(repo, "add", "-A")
    git(repo, "-c", "i18n.commitEncoding=latin-1", "commit", "-q", "-F", "-", stdin="é\n".encode("latin-1"))
    (record,) = store.commits_between(start, head(repo))
    assert record.paths == ("caf\ufffd",)
    assert record.subject == "é"


def test_processes_do_not_grow(repo: Path, store: GitStore) -> None:
    start = head(repo)
    counts = set()
    for number in range(6):
        tip = commit(repo, {"a": str(number)}, f"n {number}")
        store.types([tip])
        with gitrun.counting() as seen:
            assert len(store.commits_between(start, tip)) == number + 1
        counts.add(len(seen))
    assert counts == {3}


@pytest.mark.parametrize("date", ["<p@e> 99999999999999 +0000", "<p@e>", ""], ids=["year 3170843", "none", "nothing"])
def test_a_date_that_no_calendar_has_is_the_epoch(repo: Path, store: GitStore, date: str) -> None:
    parent = head(repo)
    text = f"tree {store.tree(parent)}\nparent {parent}\nauthor P {date}\ncommitter P {date}\n\nx\n"
    sha = git(repo, "hash-object", "-t", "commit", "-w", "--stdin", "--literally", stdin=text.encode())
    (record,) = store.commits_between(parent, sha)
    assert (record.sha, record.at.year, record.subject) == (sha, 1970, "x")


def test_an_unknown_cursor_is_no_answer(repo: Path, store: GitStore) -> None:
    with pytest.raises(StoreUnavailable):
        store.commits_between("1" * 40, head(repo))
