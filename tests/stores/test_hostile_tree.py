"""Work trees in which things lie that are no files, or that hide: rules.md, Safe point ("parked never means lost") and
Externalize gate (what the detector finds by itself). Nothing blocks, nothing is followed out, nothing is lost."""

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relays.stores import dirt, reflog
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore, discover
from relays.stores.plainfile import read_plain
from relays.stores.worktree import WorkTree, add_worktree
from tests.builders import commit, git, head, make_repo

WIP = "refs/relay/wip/RLY-1/0"


@pytest.fixture
def tree(repo: Path) -> WorkTree:
    return WorkTree(repo)


@pytest.fixture
def linked(repo: Path, store: GitStore, tmp_path: Path) -> WorkTree:
    """A relay's own work tree, which knows whose it is."""
    add_worktree(store, tmp_path / "linked", "relay/RLY-1", head(repo))
    return WorkTree(tmp_path / "linked", common=repo / ".git")


@pytest.fixture(autouse=True)
def at_once() -> Iterator[None]:
    """Whatever lies in the way, no look waits for git's time limit."""
    before = time.monotonic()
    yield
    assert time.monotonic() - before < 15


class TestNoFiles:
    """FIFOs, sockets and folders where git or we would open a file."""

    @pytest.mark.parametrize("name", ["HEAD", "index", "info/exclude", "info/attributes", "objects/info/alternates"])
    def test_in_the_git_directory(self, tree: WorkTree, name: str) -> None:
        place = tree.git_dir / name
        place.unlink(missing_ok=True)
        place.parent.mkdir(exist_ok=True)
        os.mkfifo(place)
        state = tree.state(parked=True)
        assert (state.known, state.parked) == (False, False)
        with pytest.raises(StoreUnavailable):
            tree.store_wip(WIP, "x")

    @pytest.mark.parametrize("name", [".gitignore", ".gitattributes", ".gitmodules"])
    def test_among_the_files_that_git_reads(self, tree: WorkTree, name: str) -> None:
        os.mkfifo(tree.path / name)
        assert not tree.state(parked=True).known

    def test_a_fifo_as_the_reflog_is_no_answer(self, tree: WorkTree) -> None:
        place = tree.git_dir / "logs" / "HEAD"
        place.unlink()
        os.mkfifo(place)
        with pytest.raises(StoreUnavailable, match="the reflog is not a file"):
            tree.reflog()
        with pytest.raises(StoreUnavailable):
            tree.created_shas()

    def test_a_reflog_without_end_is_no_answer(self, tree: WorkTree, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reflog, "REFLOG_BYTES", 1000)
        with (tree.git_dir / "logs" / "HEAD").open("ab") as log:
            log.write(b"x" * 2000)
        with pytest.raises(StoreUnavailable, match="larger than 1000 bytes"):
            tree.reflog()

    def test_a_device_gives_no_bytes_without_end(self, tree: WorkTree) -> None:
        place = tree.git_dir / "logs" / "HEAD"
        place.unlink()
        place.symlink_to("/dev/zero")
        with pytest.raises(StoreUnavailable, match="not a file"):
            tree.reflog()

    def test_a_fifo_as_the_config(self, tree: WorkTree) -> None:
        (tree.git_dir / "config").unlink()
        os.mkfifo(tree.git_dir / "config")
        assert not WorkTree(tree.path).state().known

    @pytest.mark.parametrize("name", ["HEAD", "config", "packed-refs", "shallow", "commondir"])
    def test_no_question_to_the_repository_waits(self, repo: Path, shield: Path, name: str) -> None:
        (repo / ".git" / name).unlink(missing_ok=True)
        os.mkfifo(repo / ".git" / name)
        with pytest.raises(StoreUnavailable, match="is not a file"):
            discover(repo)
        with pytest.raises(StoreUnavailable, match="is not a file"):
            GitStore(repo, shield).tip("main")

    def test_a_fifo_that_holds_the_branch_to_come_back_to(self, repo: Path, tree: WorkTree) -> None:
        (tree.git_dir / "rebase-merge").mkdir()
        os.mkfifo(tree.git_dir / "rebase-merge" / "head-name")
        with pytest.raises(StoreUnavailable):
            tree.clean_to_head()

    def test_sockets_and_fifos_among_the_files_hinder_nobody(self, repo: Path, tree: WorkTree) -> None:
        os.mkfifo(repo / "pipe")
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(repo / "sock"))
            (repo / "work.txt").write_text("work\n")
            parked = tree.store_wip(WIP, "x")
        assert parked
        assert git(repo, "ls-tree", "--name-only", parked, "--", "work.txt", "pipe", "sock") == "work.txt"

    def test_a_tracked_file_that_became_a_fifo_is_dirty_and_cannot_be_parked(self, repo: Path, tree: WorkTree) -> None:
        (repo / "README.md").unlink()
        os.mkfifo(repo / "README.md")
        (repo / "work.txt").write_text("work\n")
        state = tree.state(parked=True)
        assert set(state.dirty) == {"README.md", "work.txt"}
        assert state.unparked == ("README.md",)
        parked = tree.store_wip(WIP, "x")  # the rest is kept all the same
        assert parked and git(repo, "show", f"{parked}:work.txt") == "work"
        tree.clean_to_head()
        assert tree.state().dirty == ()
        assert (repo / "README.md").is_file()


class TestNames:
    def test_names_that_are_no_text_are_parked_and_laid_back(self, repo: Path, tree: WorkTree) -> None:
        odd = [b"caf\xe9.txt", b"line\nend", b'quo"te', b"-dash", b":(top)x", b"tab\there", b" blank "]
        for name in odd:
            with open(os.path.join(os.fsencode(repo), name), "wb") as file:
                file.write(name)
        state = tree.state(parked=True)
        assert len(state.dirty) == len(odd) and state.unparked == ()
        parked = tree.store_wip(WIP, "x")
        assert parked
        tree.clean_to_head()
        assert not any(os.path.lexists(os.path.join(os.fsencode(repo), name)) for name in odd)
        assert tree.lay_back(parked) == "applied"
        for name in odd:
            with open(os.path.join(os.fsencode(repo), name), "rb") as file:
                assert file.read() == name

    def test_links_are_kept_as_links_and_never_followed(self, repo: Path, tree: WorkTree, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.mkdir()
        (outside / "secret").write_text("secret\n")
        (repo / "to-folder").symlink_to(outside)
        (repo / "to-file").symlink_to(outside / "secret")
        (repo / "to-nothing").symlink_to("nowhere")
        parked = tree.store_wip(WIP, "x")
        assert parked
        kinds = {line.split()[3]: line.split()[0] for line in git(repo, "ls-tree", parked).splitlines()}
        assert {kinds[name] for name in ("to-folder", "to-file", "to-nothing")} == {"120000"}
        tree.clean_to_head()
        assert (outside / "secret").read_text() == "secret\n"
        assert tree.lay_back(parked) == "applied"
        assert (outside / "secret").read_text() == "secret\n"

    def test_a_tracked_folder_that_became_a_link_writes_nothing_outside(
        self, repo: Path, tree: WorkTree, tmp_path: Path
    ) -> None:
        commit(repo, {"docs/a.txt": "a\n"}, "Docs")
        outside = tmp_path / "outside"
        outside.mkdir()
        shutil.rmtree(repo / "docs")
        (repo / "docs").symlink_to(outside)
        parked = tree.store_wip(WIP, "x")
        assert parked
        tree.clean_to_head()
        assert (repo / "docs" / "a.txt").read_text() == "a\n"
        assert tree.lay_back(parked) == "applied"
        assert (repo / "docs").is_symlink()
        assert list(outside.iterdir()) == []


class TestSize:
    def test_a_file_that_is_too_large_is_named_and_not_read(
        self, repo: Path, tree: WorkTree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with (repo / "huge.bin").open("wb") as file:
            file.truncate(dirt.PARK_BYTES + 1)
        (repo / "small.txt").write_text("small\n")
        state = tree.state(parked=True)
        assert (state.parked_paths, state.unparked) == (("small.txt",), ("huge.bin",))
        with pytest.raises(StoreUnavailable, match="huge.bin is larger than"):
            tree.store_wip(WIP, "x")
        assert (repo / "huge.bin").exists() and (repo / "small.txt").exists()

    def test_more_paths_than_can_be_listed_are_never_parked(
        self, repo: Path, tree: WorkTree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dirt, "STATUS_BYTES", 200)
        for number in range(100):
            (repo / f"file-{number}.txt").write_text("x\n")
        state = tree.state(parked=True)
        assert state.unparked == (dirt.MORE,)

    def test_a_folder_that_git_cannot_open_is_no_clean_tree(self, repo: Path, tree: WorkTree) -> None:
        """Deeper than any path may be long: git warns, leaves it out and calls the tree clean."""
        at = os.open(repo, os.O_RDONLY)
        depth = 30
        for _ in range(depth):
            os.mkdir("d" * 200, dir_fd=at)
            below = os.open("d" * 200, os.O_RDONLY, dir_fd=at)
            os.close(at)
            at = below
        with open(os.open("note.txt", os.O_WRONLY | os.O_CREAT, dir_fd=at), "w") as note:
            note.write("only here")
        os.close(at)
        assert git(repo, "status", "--porcelain") == ""
        state = tree.state(parked=True)
        assert (state.known, state.parked) == (False, False)
        shutil.rmtree(repo / ("d" * 200))  # pytest's own cleaning knows no such depth


class TestHidden:
    """Index bits, module settings and stashes can make git look away; the detector does not."""

    @pytest.mark.parametrize("bit", ["--assume-unchanged", "--skip-worktree"])
    def test_an_index_bit_hides_nothing(self, repo: Path, tree: WorkTree, bit: str) -> None:
        git(repo, "update-index", bit, "README.md")
        assert tree.state().dirty == ()
        (repo / "README.md").write_text("changed\n")
        assert git(repo, "status", "--porcelain") == ""  # git itself does not see it
        state = tree.state(parked=True)
        assert (state.dirty, state.unparked) == (("README.md",), ())
        parked = tree.store_wip(WIP, "x")
        assert parked and git(repo, "show", f"{parked}:README.md") == "changed"

    def test_a_module_setting_in_the_tree_hides_nothing(self, repo: Path, tree: WorkTree, tmp_path: Path) -> None:
        inner = make_repo(tmp_path / "inner")
        git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
        git(repo, "config", "-f", ".gitmodules", "submodule.sub.ignore", "all")
        commit(repo, {}, "A submodule that asks not to be looked at")
        assert tree.state().dirty == ()
        (repo / "sub" / "new.txt").write_text("new\n")
        assert git(repo, "status", "--porcelain") == ""
        assert tree.state().dirty == ("sub",)

    def test_a_stash_under_a_name_of_its_own_counts(self, repo: Path, tree: WorkTree) -> None:
        (repo / "README.md").write_text("stashed\n")
        made = git(repo, "stash", "create")
        git(repo, "stash", "store", "-m", "nothing to see", made)
        git(repo, "checkout", "-q", "--", "README.md")
        assert tree.stash_count() == 1

    def test_stashes_on_a_detached_head(self, repo: Path, tree: WorkTree) -> None:
        git(repo, "checkout", "-q", "--detach")
        (repo / "README.md").write_text("stashed\n")
        git(repo, "stash")
        assert tree.stash_count() == 1

    @pytest.mark.parametrize(
        "name", ["~/notes.md", "$HOME/notes.md", "file:///tmp/notes.md", ".git/notes.md", "../notes.md", "a/../../n"]
    )
    def test_a_name_that_leads_out_is_outside(self, tree: WorkTree, name: str) -> None:
        assert tree.files_outside([name, "notes.md"]) == [name]

    def test_a_file_that_is_really_called_so_is_inside(self, repo: Path, tree: WorkTree) -> None:
        (repo / "~").mkdir()
        (repo / "~" / "notes.md").write_text("x")
        assert tree.files_outside(["~/notes.md"]) == []


def test_a_config_that_aims_at_another_folder_names_no_work_tree(repo: Path, tmp_path: Path) -> None:
    """In place, that folder would be cleaned, parked and written into."""
    (tmp_path / "victim").mkdir()
    git(repo, "config", "core.worktree", str(tmp_path / "victim"))
    assert discover(repo).top is None  # a start refuses it
    git(repo, "config", "core.worktree", str(tmp_path))  # the repository lies in it
    with pytest.raises(StoreUnavailable, match="core.worktree"):
        discover(repo)


class TestWhoseTree:
    """The `.git` of a relay's work tree is a file that its agent can replace."""

    def fake(self, tmp_path: Path) -> Path:
        return make_repo(tmp_path / "fake", {"README.md": "fake\n"})

    def test_replaced_by_a_folder(self, linked: WorkTree, tmp_path: Path) -> None:
        assert linked.state().dirty == ()
        (linked.path / ".git").unlink()
        shutil.copytree(self.fake(tmp_path) / ".git", linked.path / ".git")
        state = linked.state(parked=True)
        assert (state.known, state.parked) == (False, False)
        assert state.dirty == ("the work tree's .git leads to another repository",)
        with pytest.raises(StoreUnavailable):
            linked.store_wip(WIP, "x")
        with pytest.raises(StoreUnavailable):
            linked.created_shas()

    def test_replaced_by_a_file_that_leads_elsewhere(self, linked: WorkTree, tmp_path: Path) -> None:
        (linked.path / ".git").write_text(f"gitdir: {self.fake(tmp_path) / '.git'}\n")
        assert not linked.state().known

    def test_led_to_another_work_tree_of_the_same_repository(
        self, linked: WorkTree, store: GitStore, repo: Path, tmp_path: Path
    ) -> None:
        """There HEAD, index and reflog are those of another relay."""
        add_worktree(store, tmp_path / "other", "relay/RLY-2", head(repo))
        (linked.path / ".git").write_text((tmp_path / "other" / ".git").read_text())
        assert not linked.state().known

    @pytest.mark.parametrize("way", ["removed", "a link out"])
    def test_a_repository_around_it_is_not_taken_for_it(self, linked: WorkTree, tmp_path: Path, way: str) -> None:
        """Else what we clean and reset would be the work of whoever keeps our folders in a repository of theirs."""
        outer = make_repo(tmp_path)
        (outer / "README.md").write_text("precious\n")
        (outer / "untracked.txt").write_text("precious\n")
        if way == "removed":
            (linked.path / ".git").unlink()
        else:
            linked.path.rename(tmp_path / "aside")
            linked.path.symlink_to(outer)
        tree = WorkTree(linked.path, common=tmp_path / "repo" / ".git")
        assert not tree.state().known
        for act in (tree.clean_to_head, tree.reflog, lambda: tree.store_wip(WIP, "x"), lambda: tree.lay_back("a" * 40)):
            with pytest.raises(StoreUnavailable, match="another repository"):
                act()
        assert (outer / "README.md").read_text() == "precious\n"
        assert (outer / "untracked.txt").exists()

    @pytest.mark.parametrize("made", [os.mkfifo, Path.mkdir, lambda place: place.symlink_to("/dev/zero")])
    def test_replaced_by_what_leads_nowhere(self, linked: WorkTree, made: Callable[[Path], object]) -> None:
        (linked.path / ".git").unlink()
        made(linked.path / ".git")
        assert not linked.state().known

    def test_put_back_it_answers_again(self, linked: WorkTree, tmp_path: Path) -> None:
        own = (linked.path / ".git").read_text()
        (linked.path / ".git").write_text(f"gitdir: {self.fake(tmp_path) / '.git'}\n")
        assert not linked.state().known
        (linked.path / ".git").write_text(own)
        assert linked.state().known

    def test_a_ref_that_lies_in_the_way_loses_nothing(self, repo: Path, linked: WorkTree, store: GitStore) -> None:
        """A ref where our folder of refs should be: parked work cannot be stored, so it stays in the tree."""
        store.update_ref("refs/relay/wip/RLY-1", head(repo))
        (linked.path / "work.txt").write_text("work\n")
        with pytest.raises(StoreUnavailable):
            linked.store_wip(WIP, "x")
        assert (linked.path / "work.txt").read_text() == "work\n"


def test_a_file_is_read_up_to_its_limit_and_no_link_to_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_plain(tmp_path / "file", 5, "it") == b"12345"
    with pytest.raises(StoreUnavailable, match="it is larger than 4 bytes"):
        read_plain(tmp_path / "file", 4, "it")
    (tmp_path / "link").symlink_to("nowhere")
    assert read_plain(tmp_path / "link", 5, "it") is None
    assert read_plain(tmp_path / "file" / "below", 5, "it") is None
