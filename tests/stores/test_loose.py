"""What is read without git is what git itself says, or it is no answer and git is asked."""

import os
import random
import shutil
import zlib
from hashlib import sha1
from pathlib import Path

import pytest

from relays.stores import gitrun, loose
from relays.stores.git import GitStore
from tests.builders import commit, git, head

NAMES = ["a", "a.b", "a-b", "a0", "deep/er/file", "deep/er/other", "deep/x", "deep.txt", "deep0", "é", "sp ace", "z/1"]


@pytest.fixture
def store(repo: Path, tmp_path: Path) -> GitStore:
    return GitStore(repo, tmp_path / "shield")


def objects(repo: Path) -> Path:
    return repo / ".git" / "objects"


def place(repo: Path, sha: str) -> Path:
    return objects(repo) / sha[:2] / sha[2:]


def listed(repo: Path, sha: str) -> list[str]:
    return [
        name
        for name in git(repo, "-c", "core.quotePath=false", "ls-tree", "-r", "-z", "--name-only", sha).split("\0")
        if name
    ]


def test_files_of_one_commit_after_the_other_are_those_that_git_lists(repo: Path, store: GitStore) -> None:
    dice = random.Random(7)
    first = head(repo)
    assert list(store.paths(first)) == listed(repo, first)
    for step in range(30):
        for name in dice.sample(NAMES, 3):
            if (repo / name).exists() and dice.random() < 0.5:
                git(repo, "rm", "-q", "-r", "--", name)
            elif not any(parent.is_file() for parent in (repo / name).parents):
                (repo / name).parent.mkdir(parents=True, exist_ok=True)
                (repo / name).write_text(str(step))
        if step % 9 == 4:
            git(repo, "mv", "-k", "deep", f"moved{step}")
        tip = commit(repo, {"turn": str(step)}, f"Step {step}")
        with gitrun.counting() as seen:
            found = list(store.paths(tip))
            texts = {name: store.read_file(tip, name) for name in ("deep/er/file", "deep", "a/none", "turn", "none")}
            assert store.reached(tip, [first, tip]) == {first, tip}
            assert store.tree(tip) == git(repo, "rev-parse", f"{tip}^{{tree}}")
        assert found == listed(repo, tip)
        assert texts == store.read_files(tip, list(texts))
        assert step == 0 or seen == [] or step > 15, "just made: no process"
        if step == 15:
            git(repo, "gc", "-q")


def test_a_folder_that_was_packed_and_changes_is_read_again(repo: Path, store: GitStore) -> None:
    start = commit(repo, {"one/a": "1", "two/b": "1", "two/deep/c": "1"}, "Start")
    git(repo, "gc", "-q")
    store.paths(start)
    tip = commit(repo, {"two/d": "2"}, "More")
    with gitrun.counting() as seen:
        assert list(store.paths(tip)) == listed(repo, tip)
    assert seen == [], "what did not change is known, what did was just made"
    git(repo, "mv", "two", "three")
    git(repo, "commit", "-q", "-m", "Moved")
    assert list(store.paths(head(repo))) == listed(repo, head(repo))


def test_links_submodules_and_programs(repo: Path, store: GitStore) -> None:
    store.paths(head(repo))
    (repo / "link").symlink_to("README.md")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{head(repo)},sub")
    tip = commit(repo, {"prog": "#!"}, "Kinds")
    assert list(store.paths(tip)) == [name for name in listed(repo, tip) if name != "sub"]
    assert store.read_file(tip, "link") == b"README.md"
    assert store.read_file(tip, "sub") is None and store.read_file(tip, "sub/x") is None
    assert store.read_file(tip, "link/x") is None


@pytest.mark.parametrize("how", ["other", "torn", "longer", "no zlib", "link", "pipe", "empty", "huge"])
def test_an_object_that_does_not_prove_itself_is_no_answer(repo: Path, tmp_path: Path, how: str) -> None:
    sha = commit(repo, {"a": "1"}, "Work")
    assert loose.commit(objects(repo), sha) is not None
    file = place(repo, sha)
    raw = file.read_bytes()
    whole = zlib.decompress(raw)
    file.chmod(0o600)
    file.unlink()
    if how == "link":
        (tmp_path / "kept").write_bytes(raw)
        file.symlink_to(tmp_path / "kept")
    elif how == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(
            {
                "other": zlib.compress(whole.replace(b"Work", b"Wirk")),
                "torn": raw[:-9],
                "longer": zlib.compress(whole + b"x"),
                "no zlib": b"x" * 40,
                "empty": b"",
                "huge": zlib.compress(whole + b"\0" * (loose.OBJECT_BYTES + 1)),
            }[how]
        )
    assert loose.commit(objects(repo), sha) is None


@pytest.mark.parametrize(
    "body",
    [b"100644 a/b\0" + b"x" * 20, b"100644 a\0" + b"x" * 19, b"100644 a\0" + b"x" * 20 + b"100644 a\0" + b"y" * 20,
     b"777 a\0" + b"x" * 20, b"100644 \0" + b"x" * 20, b"100644 a"],
    ids=["slash", "short", "twice", "mode", "no name", "no object"],
)  # fmt: skip
def test_a_tree_that_git_might_read_otherwise_is_no_answer(repo: Path, body: bytes) -> None:
    whole = b"tree %d\0" % len(body) + body
    sha = sha1(whole, usedforsecurity=False).hexdigest()
    place(repo, sha).parent.mkdir(exist_ok=True)
    place(repo, sha).write_bytes(zlib.compress(whole))
    assert loose.listing(objects(repo), sha, loose.Listing.of([], {})) is None
    assert loose.blob(objects(repo), sha, "a") is None


def test_a_commit_is_no_tree_and_a_tag_no_commit(repo: Path, store: GitStore) -> None:
    sha = head(repo)
    git(repo, "tag", "-a", "-m", "x", "v1")
    tag = git(repo, "rev-parse", "refs/tags/v1")
    assert loose.commit(objects(repo), tag) is None and loose.blob(objects(repo), sha, "a") is None
    assert store.tree(tag) == store.tree(sha), "git peels it"


def test_a_history_that_does_not_stand_on_the_known_tip_is_walked_by_git(repo: Path) -> None:
    first = head(repo)
    last = commit(repo, {"a": "1"}, "Last")
    known = frozenset({first, last})
    git(repo, "checkout", "-q", "-b", "beside", first)
    beside = commit(repo, {"b": "1"}, "Beside")
    assert loose.above(objects(repo), beside, last, known) is None
    git(repo, "merge", "-q", "-m", "Both", last)
    assert loose.above(objects(repo), head(repo), last, known) == {beside, head(repo)}
    shutil.rmtree(place(repo, beside).parent)
    assert loose.above(objects(repo), head(repo), last, known) is None


@pytest.mark.parametrize(
    "text", ["", "x" * 40 + "\n", "0" * 40 + "\n", "ref: refs/heads/main\n", "{sha} \n", "{SHA}\n"]
)
def test_a_ref_of_another_form_is_left_to_git(repo: Path, store: GitStore, text: str) -> None:
    sha = head(repo)
    (repo / ".git/refs/heads/odd").write_text(text.format(sha=sha, SHA=sha.upper()))
    assert loose.ref(repo / ".git", "refs/heads/odd") is None


def test_a_ref_and_head_are_what_git_says(repo: Path, store: GitStore) -> None:
    sha = commit(repo, {"a": "1"}, "Work")
    with gitrun.counting() as seen:
        assert store.git_dir and len(seen) == 1
        assert store.tip("main") == sha
        assert len(seen) == 1
    assert loose.head(repo / ".git") == "refs/heads/main"
    git(repo, "pack-refs", "--all")
    assert loose.ref(repo / ".git", "refs/heads/main") is None and store.tip("main") == sha
    (repo / ".git/refs/heads/link").symlink_to("main")
    assert loose.ref(repo / ".git", "refs/heads/link") is None
    assert loose.ref(repo / ".git", "refs/bisect/bad") is None, "of one work tree alone"
    git(repo, "checkout", "-q", "--detach")
    assert loose.head(repo / ".git") is None
