"""baton.md, Verdict of one pointer: `verified`, `dangling`, and `unknown` where the store could not answer.

What a repository can become between two looks, asked of the store itself: nothing that merely stands beside the objects
(a commit-graph, a neighbour's ref, the repository around it) answers for them, and what could not be read is never
called missing.
"""

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from relays.core.pointers import Kind, Pointer, Verdict
from relays.stores import gitrun, place
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import REACHED, GitStore, discover
from relays.stores.worktree import WorkTree
from tests.builders import commit, git, head, make_repo

GONE = "0" * 39 + "1"
NOBODY = 65534


def object_file(repo: Path, sha: str) -> Path:
    return repo / ".git" / "objects" / sha[:2] / sha[2:]


def verdict(store: GitStore, sha: str, branch: str = "main") -> tuple[str, str]:
    """As a reload asks: the branch's tip, then the commit against it; what raises is unknown."""
    try:
        answer = store.resolve_commits([sha], store.tip(branch), branch)[sha]
    except StoreUnavailable as error:
        return "unknown", error.evidence
    return str(answer.verdict), answer.evidence


class TestOnlyObjectsProve:
    def test_a_commit_graph_that_outlived_its_objects(self, repo: Path, store: GitStore) -> None:
        middle = commit(repo, {"a": "1"}, "Middle")
        tip = commit(repo, {"a": "2"}, "Tip")
        git(repo, "commit-graph", "write", "--reachable")
        object_file(repo, middle).unlink()
        assert middle in git(repo, "rev-list", tip).split(), "git itself still tells of it"
        assert verdict(store, middle)[0] == "unknown"
        assert verdict(store, tip)[0] == "unknown", "a history with a hole proves nothing on either side"
        with pytest.raises(StoreUnavailable):
            store.commits_between(None, tip)

    def test_an_object_that_is_torn_is_not_a_missing_one(self, repo: Path, store: GitStore) -> None:
        """A power cut leaves an empty file. Off the branch, that it is not on it is still certain."""
        side = git(repo, "commit-tree", "-m", "Beside", "HEAD^{tree}")
        place = object_file(repo, side)
        place.unlink()
        place.touch()
        with pytest.raises(StoreUnavailable, match="git cannot answer"):
            store.types([side])
        with pytest.raises(StoreUnavailable):
            store.merge_bases(side, head(repo))
        said, evidence = verdict(store, side)
        assert said == "dangling" and evidence.startswith("not on main; what it is cannot be told: git cannot answer")
        assert str(repo) not in evidence

    def test_what_was_borrowed_and_is_gone_is_not_missing(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        first = head(repo)
        shared = tmp_path / "shared"
        git(tmp_path, "clone", "-q", "--shared", str(repo), str(shared))
        tip = commit(shared, {"b": "1"}, "Own")
        shutil.move(repo, tmp_path / "away")
        store = GitStore(shared, shield)
        assert verdict(store, first)[0] == verdict(store, tip)[0] == "unknown"
        with pytest.raises(StoreUnavailable, match="alternate object path"):
            store.types([first])

    def test_a_torn_pack(self, repo: Path, store: GitStore) -> None:
        tip = commit(repo, {"a": "1"}, "Second")
        git(repo, "repack", "-q", "-a", "-d")
        (pack,) = (repo / ".git" / "objects" / "pack").glob("*.pack")
        pack.chmod(0o644)
        pack.write_bytes(pack.read_bytes()[:40])
        assert verdict(store, tip)[0] == "unknown"
        with pytest.raises(StoreUnavailable, match="does not match index"):
            store.types([tip])

    def test_the_reach_of_a_few_tips_is_kept(self, repo: Path, store: GitStore) -> None:
        shas = [head(repo), *(commit(repo, {"a": str(n)}, "More") for n in range(3))]
        for number, sha in enumerate(shas):
            assert store.reached(sha, [*shas, GONE]) == frozenset(shas[: number + 1])
        assert len(store._reached) == REACHED

    def test_only_what_is_new_on_a_tip_is_walked(self, repo: Path, store: GitStore) -> None:
        first = head(repo)
        assert store.reached(first, [first]) == {first}
        tip = commit(repo, {"a": "1"}, "More")
        with gitrun.counting() as seen:
            assert store.reached(tip, [first, tip, GONE]) == {first, tip}
        assert seen == [], "a commit that was just made is read without a process"
        packed = commit(repo, {"a": "2"}, "Packed")
        git(repo, "gc", "-q")
        with gitrun.counting() as seen:
            assert store.reached(packed, [first, packed]) == {first, packed}
        assert [args[-2:] for args in seen] == [[f"^{tip}", "--"]]
        git(repo, "checkout", "-q", "--orphan", "alone")
        alone = commit(repo, {"b": "1"}, "Alone")
        assert store.reached(alone, [first, tip, alone]) == {alone}

    def test_a_tip_that_was_collected_since_does_not_hinder_the_next_one(self, repo: Path, store: GitStore) -> None:
        first, gone = head(repo), commit(repo, {"a": "1"}, "To be rewritten")
        assert gone in store.reached(gone, [gone])
        git(repo, "reset", "-q", "--hard", first)
        tip = commit(repo, {"b": "1"}, "Instead")
        git(repo, "reflog", "expire", "--expire=now", "--all")
        git(repo, "gc", "-q", "--prune=now")
        assert store.reached(tip, [first, gone, tip]) == {first, tip}


class TestRefs:
    def test_a_torn_neighbour_says_nothing(self, repo: Path, store: GitStore) -> None:
        git(repo, "branch", "relay/RLY-1")
        git(repo, "branch", "relay/RLY-10")
        (repo / ".git" / "refs" / "heads" / "relay" / "RLY-10").write_text("torn\n")
        assert store.tip("relay/RLY-1") == head(repo)
        with pytest.raises(StoreUnavailable, match="a ref is broken"):
            store.tip("relay/RLY-10")
        with pytest.raises(StoreUnavailable, match="a ref is broken"):
            store.refs("refs/heads/relay")

    def test_a_ref_whose_object_is_gone_is_no_answer(self, repo: Path, store: GitStore) -> None:
        (repo / ".git" / "refs" / "heads" / "main").write_text(f"{GONE}\n")
        assert verdict(store, GONE)[0] == verdict(store, "0" * 39 + "2")[0] == "unknown"

    def test_packed_and_loose_answer_alike(self, repo: Path, shield: Path) -> None:
        first, tip = head(repo), commit(repo, {"a": "1"}, "Second")
        side = git(repo, "commit-tree", "-m", "Beside", "HEAD^{tree}")
        asked = [first, tip, side, GONE]
        before = [verdict(GitStore(repo, shield), sha) for sha in asked]
        git(repo, "update-ref", "refs/keep/side", side)
        git(repo, "pack-refs", "--all", "--prune")
        git(repo, "gc", "-q", "--prune=now")
        assert [verdict(GitStore(repo, shield), sha) for sha in asked] == before
        assert [said for said, _ in before] == ["verified", "verified", "dangling", "dangling"]

    def test_names_that_are_shared_by_a_tag_are_told_apart(self, repo: Path, store: GitStore) -> None:
        first, tip = head(repo), commit(repo, {"a": "1"}, "Second")
        for name in (
            "refs/tags/main",
            f"refs/heads/{tip}",
            f"refs/tags/{tip}",
            "refs/main",
            "refs/heads/refs/heads/main",
        ):
            git(repo, "update-ref", name, first)
        assert store.tip("main") == store.tip("refs/heads/main") == tip
        assert verdict(store, tip) == ("verified", "a commit on main")


class TestPlace:
    def test_a_damaged_repository_is_not_answered_for_by_the_one_around_it(self, tmp_path: Path, shield: Path) -> None:
        outer = make_repo(tmp_path / "outer")
        inner = make_repo(outer / "inner")
        store = GitStore(inner / ".git", shield, exact=True)
        assert store.tip("main") == head(inner)
        (inner / ".git" / "HEAD").write_text("")
        assert discover(inner).git_dir == outer / ".git", "git itself goes up"
        with pytest.raises(StoreUnavailable, match="another one lies around it") as caught:
            GitStore(inner / ".git", shield, exact=True).tip("main")
        assert caught.value.fix and str(tmp_path) not in caught.value.evidence

    def test_a_link_to_the_git_directory_is_the_same_repository(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        (tmp_path / "link").symlink_to(repo)
        assert GitStore(tmp_path / "link" / ".git", shield, exact=True).tip("main") == head(repo)

    def test_what_the_user_allows_of_bare_repositories_does_not_matter(
        self, repo: Path, tmp_path: Path, shield: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The git directory itself is asked, which git takes for a bare one; its config can run nothing."""
        git(tmp_path, "clone", "-q", "--bare", str(repo), str(tmp_path / "bare.git"))
        (tmp_path / "config").write_text("[safe]\n\tbareRepository = explicit\n")
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
        for folder in (repo / ".git", tmp_path / "bare.git", repo):
            assert GitStore(folder, shield).tip("main") == discover(folder).head_sha == head(repo)

    def test_a_work_tree_that_is_gone_hides_neither_refs_nor_objects(self, repo: Path, shield: Path) -> None:
        """A submodule's git directory names its folder; a checkout of the repository above may take that away."""
        git(repo, "config", "core.worktree", "../../nowhere")
        found = discover(repo / ".git")
        assert (found.top, found.head_branch, found.head_sha) == (
            None,
            "main",
            GitStore(repo / ".git", shield).tip("main"),
        )
        store = GitStore(repo / ".git", shield)
        assert verdict(store, found.head_sha or "") == ("verified", "a commit on main")
        assert store.update_ref("refs/relay/x", found.head_sha or "") is True

    def test_a_format_that_is_not_known_is_no_answer(self, repo: Path, shield: Path) -> None:
        git(repo, "config", "core.repositoryFormatVersion", "1")
        git(repo, "config", "extensions.from-the-future", "true")
        with pytest.raises(StoreUnavailable, match="unknown repository extension"):
            GitStore(repo, shield).tip("main")

    def test_an_unreadable_place_is_told_from_an_absent_one(self, tmp_path: Path) -> None:
        assert place.readable(tmp_path) and place.readable(tmp_path / "absent" / "deeper")
        (tmp_path / "file").touch()
        assert place.readable(tmp_path / "file" / "below")
        (tmp_path / "loop").symlink_to(tmp_path / "loop")
        assert not place.readable(tmp_path / "loop")


class TestShallow:
    def test_that_a_commit_is_gone_cannot_be_proven(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        first, tip = head(repo), commit(repo, {"a": "1"}, "Second")
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", str(tmp_path / "cut"))
        store = GitStore(tmp_path / "cut", shield)
        with pytest.raises(StoreUnavailable, match="cannot prove that a commit is gone"):
            store.merge_bases(first, tip)
        assert store.merge_bases(tip, tip) == [tip]

    def test_what_was_fetched_since_is_seen_by_the_next_look(self, repo: Path, tmp_path: Path, shield: Path) -> None:
        first = head(repo)
        commit(repo, {"a": "1"}, "Second")
        cut = tmp_path / "cut"
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{repo}", str(cut))
        long_held = GitStore(cut, shield)
        assert verdict(long_held, first)[0] == verdict(long_held, GONE)[0] == "unknown"
        git(cut, "fetch", "-q", "--unshallow")
        assert verdict(GitStore(cut, shield), first)[0] == "verified"
        assert verdict(GitStore(cut, shield), GONE)[0] == "dangling"
        assert verdict(long_held, GONE)[0] == "unknown", "what was said of the clone before is never too much"


@pytest.mark.django_db
class TestBundle:
    def stores(self, store: GitStore, **more: Any) -> Stores:
        return Stores(store, store.tip("main"), ".relay/memory", "RLY-1", branch="main", **more)

    def test_a_wip_ref_whose_object_was_lost_denies_nothing(self, repo: Path, store: GitStore) -> None:
        """ "`wip_tree` verifies when it is the commit under `refs/relay/wip/<relay>/<leg>`"."""
        kept = git(repo, "commit-tree", "-m", "Parked", "HEAD^{tree}")
        git(repo, "update-ref", "refs/relay/wip/RLY-1/0", kept)
        assert self.stores(store).wip(0, kept).verdict is Verdict.VERIFIED
        object_file(repo, kept).unlink()
        answer = self.stores(store).wip(0, kept)
        assert (answer.verdict, "has lost" in answer.evidence) == (Verdict.UNKNOWN, True)

    def test_a_wip_ref_that_names_no_commit_dangles(self, repo: Path, store: GitStore) -> None:
        tree = head(repo, "HEAD^{tree}")
        git(repo, "update-ref", "refs/relay/wip/RLY-1/0", tree)
        answer = self.stores(store).wip(0, tree)
        assert (answer.verdict, answer.evidence) == (Verdict.DANGLING, "refs/relay/wip/RLY-1/0 names a tree")

    def test_memory_in_a_work_tree_that_is_gone_is_unknown(self, repo: Path, store: GitStore) -> None:
        """It may be tracked and come back with the work tree, though a repository lies around where it was."""
        pointer = Pointer(Kind.MEMORY, "tip")
        gone = self.stores(store, work_tree=repo / "was" / "here")
        assert gone.resolve([pointer])[pointer].verdict is Verdict.UNKNOWN
        there = self.stores(store, work_tree=repo)
        assert there.resolve([pointer])[pointer].verdict is Verdict.DANGLING

    def test_rows_that_travelled_are_read_anew_from_the_leg_after_the_cursor(self, repo: Path, store: GitStore) -> None:
        ids = ["RLY-1.0.e1", "RLY-1.1.c1", "RLY-1.12.d3", "RLY-1.r.d0", "odd"]
        store.write_ledger_ref("RLY-1", [{"id": name} for name in ids])
        tip = head(repo)
        assert self.stores(store).reread(tip, tip).ledger == tuple(ids)
        assert self.stores(store).reread(tip, tip, 1).ledger == tuple(ids[1:])
        assert self.stores(store).reread(tip, tip, 2).ledger == ("RLY-1.12.d3", "RLY-1.r.d0", "odd")


class TestWorkTree:
    def test_work_in_a_tree_whose_branch_was_moved_from_elsewhere_is_work_on_what_lies_there(
        self, repo: Path, tmp_path: Path
    ) -> None:
        """Kept against the new tip it would undo what was pushed, whenever it is laid back."""
        linked = tmp_path / "linked"
        git(repo, "worktree", "add", "-q", "-b", "other", str(linked))
        tree, before = WorkTree(linked), head(linked)
        ahead = commit(repo, {"pushed.txt": "by others"}, "Ahead")
        git(repo, "update-ref", "refs/heads/other", ahead)
        assert (tree.head(), tree.base()) == (ahead, before)
        assert tree.store_wip("refs/relay/wip/RLY-1/0", "Nothing") is None
        (linked / "edit.txt").write_text("x")
        kept = tree.store_wip("refs/relay/wip/RLY-1/0", "An edit")
        assert kept is not None and head(repo, f"{kept}^") == before
        tree.clean_to_head()
        assert tree.base() == tree.head() == ahead
        assert tree.lay_back(kept) == "applied"
        assert git(linked, "status", "--porcelain") == "?? edit.txt"
        assert (linked / "pushed.txt").read_text() == "by others"

    def test_a_log_that_names_nothing_that_exists_is_not_believed(self, repo: Path) -> None:
        log = repo / ".git" / "logs" / "HEAD"
        log.write_text(f"{GONE} {'0' * 39}2 T <t@x> 1 +0000\tcommit: x\n")
        assert WorkTree(repo).base() == head(repo)
        log.unlink()
        assert WorkTree(repo).base() == head(repo)


# --- permission: git takes what it may not read for missing, and says nothing


@pytest.fixture
def shared_place() -> Iterator[Path]:
    """A folder that another user may enter, too."""
    folder = Path(tempfile.mkdtemp(prefix="relaysite-shared-"))
    folder.chmod(0o755)
    yield folder
    for root, folders, _ in os.walk(folder):
        for name in folders:
            (Path(root) / name).chmod(0o755)
    shutil.rmtree(folder)


def as_another_user(act: Callable[[], Any]) -> Any:
    """What `act()` returns to a user whom permissions bind: a process of its own where the test runs as root."""
    if os.geteuid():
        return act()
    read, write = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.environ["HOME"] = "/"
            os.write(write, pickle.dumps(act()))
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        raw = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    return pickle.loads(raw)  # noqa: S301 - written by the lines above


@pytest.mark.parametrize(
    ("hidden", "unknown"),
    [
        ("", ""),
        (".git/refs/heads/relay", "on off"),
        (".git/refs/heads/relay/RLY-1", "on off"),
        (".git/packed-refs", "on off"),
        (".git/objects", "on off packed loose"),
        (".git/objects/pack", "on off packed"),
        (".git/objects/pack/*.idx", "on off packed"),
        (".git/objects/pack/*.pack", "on off packed"),
        (".git/objects/{tip}", "on off"),
        (".git/objects/{loose}", "loose"),
        (".git", "on off packed loose"),
    ],
)
def test_what_may_not_be_read_is_unknown_and_never_missing(shared_place: Path, hidden: str, unknown: str) -> None:
    """`on`, `off`: a commit on the branch and one beside it; `packed`, `loose`: whether such objects are there."""
    repo = make_repo(shared_place / "repo")
    packed = git(repo, "commit-tree", "-m", "Packed", "HEAD^{tree}")
    git(repo, "update-ref", "refs/keep/packed", packed)
    git(repo, "gc", "-q")
    git(repo, "pack-refs", "--all")
    git(repo, "checkout", "-q", "-b", "relay/RLY-1")
    tip = commit(repo, {"a": "1"}, "Tip")
    loose = git(repo, "commit-tree", "-m", "Loose", "HEAD^{tree}")
    if not os.geteuid():
        for path in [shared_place, *shared_place.rglob("*")]:
            os.chown(path, NOBODY, NOBODY)
    if hidden:
        (place,) = repo.glob(hidden.format(tip=f"{tip[:2]}/{tip[2:]}", loose=f"{loose[:2]}/{loose[2:]}"))
        place.chmod(0)

    def look() -> dict[str, str]:
        store = GitStore(repo, shared_place / "shield")
        found = {"on": verdict(store, tip, "relay/RLY-1")[0], "off": verdict(store, loose, "relay/RLY-1")[0]}
        for name, sha in {"packed": packed, "loose": loose}.items():
            try:
                found[name] = "there" if store.types([sha])[sha] else "missing"
            except StoreUnavailable:
                found[name] = "unknown"
        return found

    said = {"on": "verified", "off": "dangling", "packed": "there", "loose": "there"}
    assert as_another_user(look) == said | dict.fromkeys(unknown.split(), "unknown")


# --- any history: what git says against what the graph says


@st.composite
def histories(draw: st.DrawFn) -> list[list[int]]:
    """Parents of each commit, by number; every commit's parents come before it."""
    size = draw(st.integers(2, 9))
    return [
        draw(st.lists(st.integers(0, number - 1), max_size=2, unique=True)) if number else [] for number in range(size)
    ]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parents=histories(), data=st.data())
def test_ancestry_and_merge_bases_are_those_of_the_graph(
    tmp_path: Path, shield: Path, parents: list[list[int]], data: st.DataObject
) -> None:
    """rules.md, Reload: "the merge-base … with the tip, several → the smallest SHA"."""
    with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
        repo = Path(folder)
        git(repo, "init", "-q", "-b", "main", ".")
        stream = []
        for number, above in enumerate(parents):
            stream += [f"commit refs/heads/c{number}", f"mark :{number + 1}", "committer T <t@x.org> 1 +0000"]
            word = f"{number}"
            stream += [f"data {len(word)}", word]
            if not above:
                stream += ["deleteall"]
            stream += [f"{'merge' if index else 'from'} :{one + 1}" for index, one in enumerate(above)]
            stream += [""]
        git(repo, "fast-import", "--quiet", stdin="\n".join(stream).encode())
        store = GitStore(repo, shield)
        heads = store.refs("refs/heads")
        shas = [heads[f"refs/heads/c{number}"] for number in range(len(parents))]
        reach: list[set[int]] = []
        for number, above in enumerate(parents):
            reach.append({number}.union(*(reach[one] for one in above)))
        tip, other = (data.draw(st.integers(0, len(parents) - 1)) for _ in range(2))
        assert store.reached(shas[other], shas) == {shas[one] for one in reach[other]}
        answers = store.resolve_commits(shas, shas[tip])
        assert {number for number, sha in enumerate(shas) if answers[sha].verdict is Verdict.VERIFIED} == reach[tip]
        common = reach[tip] & reach[other]
        best = {one for one in common if not any(one in reach[two] for two in common - {one})}
        assert store.merge_bases(shas[other], shas[tip]) == sorted(shas[one] for one in best)
        assert set(store.shas_between(shas[other], shas[tip])) == {shas[one] for one in reach[tip] - reach[other]}
