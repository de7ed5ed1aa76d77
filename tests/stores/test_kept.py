"""What a SHA names never changes, so it is asked once; what was never answered is asked again."""

import pytest

from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore
from relays.stores.gitrun import counting
from relays.stores.kept import Kept


def test_the_oldest_answer_goes_first():
    asked: list[str] = []
    kept: Kept[str, str] = Kept(2)

    def ask(name: str) -> str:
        return kept.of(name, lambda: asked.append(name) or name.upper())

    assert [ask(name) for name in "abab"] == ["A", "B", "A", "B"]
    assert asked == ["a", "b"]
    assert [ask(name) for name in "ca"] == ["C", "A"]
    assert asked == ["a", "b", "c", "a"]


def test_no_answer_is_kept_that_was_not_given_or_may_not_stay():
    kept: Kept[str, str] = Kept(2)
    with pytest.raises(ZeroDivisionError):
        kept.of("a", lambda: str(1 // 0))
    assert kept.of("a", lambda: "now", lambda answer: False) == "now"
    assert kept.of("a", lambda: "later") == "later"


def test_a_commit_s_tree_is_read_once(repo, git, tmp_path):
    store = GitStore(repo, tmp_path / "shield")
    sha = git(repo, "rev-parse", "HEAD")
    first = store.tree(sha), store.paths(sha), store.read_file(sha, "README.md"), store.read_file(sha, "none")
    with counting() as seen:
        assert (store.tree(sha), store.paths(sha)) == first[:2]
        assert (store.read_file(sha, "README.md"), store.read_file(sha, "none")) == first[2:]
    assert not seen
    with pytest.raises(StoreUnavailable):
        store.read_file(sha, "README.md", limit=3)


def test_what_is_kept_never_speaks_for_a_store_that_is_gone(repo, git, tmp_path):
    """baton.md, Verdict of one pointer: "`unknown` (the store could not answer …)", "never counted as verified"."""
    store = GitStore(repo, tmp_path / "shield")
    sha = git(repo, "rev-parse", "HEAD")
    for ask in (lambda: store.tree(sha), lambda: store.paths(sha), lambda: store.read_file(sha, "README.md")):
        ask()
    (repo / ".git" / "objects").rename(repo / ".git" / "gone")
    for ask in (lambda: store.tree(sha), lambda: store.paths(sha), lambda: store.read_file(sha, "README.md")):
        with pytest.raises(StoreUnavailable):
            ask()
