"""Parked work: kept as a commit under our own ref, laid back before the successor starts.

Rules, Safe point: "stored (untracked files included) as a commit under `refs/relay/wip/<relay>/<leg>`, … so that parked
never means lost. The successor lays it back before its agent starts; on conflict the work stays under the ref, the leg
starts clean with `RELAY_WIP_STALE`."
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from relays.core.lines import recorded
from relays.core.vocabulary import Extra
from relays.stores import dirt
from relays.stores.base import StoreUnavailable
from relays.stores.gitrun import is_sha, need_ref, need_sha, text
from relays.stores.gitwrite import IDENTITY
from relays.stores.plainfile import read_plain

if TYPE_CHECKING:
    from relays.stores.worktree import WorkTree

APPLIED: Final = "applied"
_LONG: Final = 120.0  # seconds; a whole tree may be read or written


def store(tree: "WorkTree", ref: str, message: str) -> str | None:
    """See WorkTree.store_wip."""
    need_ref(ref)
    head = tree.base()
    work, index = _trees(tree)
    base = _tree_of(tree, head)
    staged = index if index is not None and _only_in(tree, index, base, work) else None
    if work == base and staged is None:
        return None
    kept = _kept(tree, ref)
    if kept is not None and kept[1:] == (work, head, staged):
        return kept[0]
    parents = ["-p", head]
    if staged is not None:
        # what is staged differs from the files too: it hangs beside, as git's own stash does it
        parents += ["-p", _commit(tree, staged, ["-p", head], "Index of parked work")]
    made = _commit(tree, work, parents, message)
    tree.git(["update-ref", "--no-deref", ref, made])
    return made


def _trees(tree: "WorkTree") -> tuple[str, str | None]:
    """The files as a tree, and the index as a tree (None in the middle of a merge), through an index of our own."""
    found = dirt.scan(tree)
    if large := dirt.too_large(found):
        raise StoreUnavailable(
            recorded("work cannot be parked: %(large)s", large=large),
            where=str(tree.path),
            fix=recorded("commit it, or move it out of the work tree"),
        )
    with tempfile.TemporaryDirectory(prefix="relay-index-") as folder:
        own = Path(folder) / "index"
        env = {"GIT_INDEX_FILE": str(own)}
        _copy_index(tree, own)
        result = tree.git(["write-tree"], env=env, ok=(0, 128))
        index = text(result.out).strip() if result.code == 0 else None
        hidden = b"".join(one.raw + b"\0" for one in found if one.hidden and one.whole)
        if hidden:  # an index bit told git to look away: in our copy it looks
            for bit in ("--no-assume-unchanged", "--no-skip-worktree"):
                tree.git(["-C", str(tree.top()), "update-index", bit, "-z", "--stdin"], stdin=hidden, env=env)
        return _add_all(tree, found, env), index


def _copy_index(tree: "WorkTree", own: Path) -> None:
    real = tree.git_dir / "index"
    if not os.path.lexists(real):
        tree.git(["read-tree", "HEAD"], env={"GIT_INDEX_FILE": str(own)})
        return
    try:
        shutil.copyfile(real, own)  # a copy: it knows which files are unchanged, so they are not read again
        shutil.copystat(real, own)  # as old, too: what changed in the moment that it was written is told by its age
    except OSError as error:
        raise StoreUnavailable(
            recorded("the index cannot be copied: %(error)s", error=error.strerror or error), where=str(real)
        ) from error


def _add_all(tree: "WorkTree", found: tuple[dirt.Dirt, ...], env: dict[str, str]) -> str:
    """Add all dirt to that index and return its tree.

    Git is kept from repositories inside (it would look into them under their own config) unless only their commit
    changed, and from what is no file any more.
    """
    changed = {one.raw for one in found if not one.inside}
    left = [place for place in tree.entries().repositories if place not in changed]
    left += [one.raw for one in found if one.odd]
    add = ["-C", str(tree.top()), "-c", "advice.addEmbeddedRepo=false", "-c", "core.safecrlf=false"]
    add += ["add", "-A", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul"]
    nested = [one.raw for one in found if one.inside and one.raw.endswith(b"/")]
    if tree.git(add, stdin=_but(left), env=env, ok=(0, 128), timeout=_LONG).code:
        # a repository without a commit that lies in this one cannot be added; all else can
        tree.git(add, stdin=_but([*left, *nested]), env=env, timeout=_LONG)
    return text(tree.git(["write-tree"], env=env).out).strip()


def _but(left: list[bytes]) -> bytes:
    """The pathspecs for everything but these paths, which are taken as they stand."""
    return b"\0".join([b".", *(b":(top,exclude,literal)" + raw for raw in left)]) + b"\0"


def _only_in(tree: "WorkTree", index: str, base: str, work: str) -> bool:
    """Whether the index holds something that neither HEAD nor the files have."""
    if index in {base, work}:
        return False
    return bool(_changed(tree, base, index) & _changed(tree, index, work))


def _changed(tree: "WorkTree", old: str, new: str, kind: str = "") -> frozenset[str]:
    """Paths that differ; `kind`: only those added (A) or deleted (D)."""
    pick = [f"--diff-filter={kind}"] if kind else []
    out = tree.git(["diff-tree", "-r", "-z", "--name-only", "--no-renames", *pick, old, new, "--"]).out
    return frozenset(os.fsdecode(name) for name in out.split(b"\0") if name)


def _in_the_way(tree: "WorkTree", parent: str, sha: str) -> bool:
    """Whether a file that git ignores lies where parked work would put one; git itself would overwrite it."""
    root = tree.top()
    gone = _changed(tree, parent, sha, "D")
    for name in _changed(tree, parent, sha, "A"):
        place = Path(name)
        if os.path.lexists(root / place) and not any(Path(path).is_relative_to(place) for path in gone):
            return True
        above = [folder for folder in place.parents if os.path.lexists(root / folder) and not (root / folder).is_dir()]
        if any(str(folder) not in gone for folder in above):
            return True
    return False


def _tree_of(tree: "WorkTree", sha: str) -> str:
    return text(tree.git(["rev-parse", "--verify", "--end-of-options", f"{need_sha(sha)}^{{tree}}"]).out).strip()


def _kept(tree: "WorkTree", ref: str) -> tuple[str, str, str, str | None] | None:
    """What stands under the ref: commit, tree, first parent, tree of the second parent."""
    out = text(tree.git(["rev-parse", "-q", "--verify", ref], ok=(0, 1)).out).strip()
    if not is_sha(out):
        return None
    body = text(tree.git(["cat-file", "commit", out], ok=(0, 128)).out).partition("\n\n")[0].splitlines()
    roots = [line.removeprefix("tree ") for line in body if line.startswith("tree ")]
    parents = [line.removeprefix("parent ") for line in body if line.startswith("parent ")]
    if len(roots) != 1 or not parents:
        return None
    return out, roots[0], parents[0], _tree_of(tree, parents[1]) if len(parents) > 1 else None


def _commit(tree: "WorkTree", content: str, parents: list[str], message: str) -> str:
    made = tree.git(["commit-tree", content, *parents], stdin=f"{message.strip()}\n".encode(), env=IDENTITY)
    return need_sha(text(made.out).strip())


def lay_back(tree: "WorkTree", sha: str) -> str:
    """See WorkTree.lay_back."""
    head = tree.head()
    parents = text(tree.git(["rev-list", "--parents", "-n1", need_sha(sha), "--"]).out).split()[1:]
    if not parents:
        raise StoreUnavailable(recorded("%(sha)s is not parked work: it has no parent", sha=sha))
    same = _tree_of(tree, parents[0]) == _tree_of(tree, head)
    state = tree.state(parked=True)
    if not state.known or state.operation:
        raise StoreUnavailable(
            recorded("the work tree is busy: %(read)s", read=state.operation or "it cannot be read"),
            where=str(tree.path),
        )
    if state.dirty and same and _trees(tree)[0] == _tree_of(tree, sha):
        return APPLIED
    if state.parked_paths:  # what lies inside another repository could be neither kept nor cleaned, and is no hindrance
        raise StoreUnavailable(
            recorded("the work tree holds other changes"),
            where=str(tree.path),
            fix=recorded("store and clean it first"),
        )
    if _in_the_way(tree, parents[0], sha):
        return Extra.WIP_STALE.value
    if same:
        # two-way: from the tree that is there to the tree that was parked
        done = tree.git(["read-tree", "-m", "-u", head, sha], ok=(0, 1, 128), timeout=_LONG).code == 0
    else:
        line = ["-m", "1"] if len(parents) > 1 else []
        pick = ["-c", "rerere.enabled=false", "cherry-pick", "--no-commit", "--keep-redundant-commits", *line, sha]
        done = tree.git(pick, ok=(0, 1, 128), env=IDENTITY, timeout=_LONG).code == 0
    if not done:
        clean_to_head(tree, untracked=False)
        return Extra.WIP_STALE.value
    tree.git(["read-tree", "HEAD"])  # the index as the agent left it is unknown: everything lies there unstaged
    tree.git(["update-index", "-q", "--refresh"], ok=(0, 1), timeout=_LONG)
    return APPLIED


def clean_to_head(tree: "WorkTree", untracked: bool = True) -> None:
    """See WorkTree.clean_to_head. `untracked`: remove files that git does not know, too."""
    git_dir = tree.git_dir
    if (git_dir / "index.lock").exists():
        raise StoreUnavailable(
            recorded("index.lock is held by another git process"),
            where=str(tree.path),
            fix=recorded("end that process"),
        )
    back: str | None = None
    if (git_dir / "rebase-merge").is_dir() or (git_dir / "rebase-apply").is_dir():
        back = _branch_in(git_dir / "rebase-merge" / "head-name") or _branch_in(git_dir / "rebase-apply" / "head-name")
        mailbox = (git_dir / "rebase-apply" / "applying").exists()
        # quit, not abort: what git had stashed away goes to the list of stashes instead of being thrown away
        tree.git(["am" if mailbox else "rebase", "--quit"])
    if (git_dir / "BISECT_LOG").exists():
        back = back or _branch_in(git_dir / "BISECT_START")
        tree.git(["reset", "-q", "--hard", "HEAD"], timeout=_LONG)
        _forget_bisect(tree)
    if (git_dir / "sequencer").is_dir():
        tree.git(["cherry-pick", "--quit"])
    if back is not None:
        tree.git(["symbolic-ref", "HEAD", back])
    tree.git(["reset", "-q", "--hard", "HEAD"], timeout=_LONG)
    if untracked:
        tree.git(["-C", str(tree.top()), "clean", "-f", "-d", "-q"], timeout=_LONG)


def _forget_bisect(tree: "WorkTree") -> None:
    """What `bisect reset` does beside its checkout, which would look into submodules under their own config."""
    out = tree.git(["for-each-ref", "--format=%(refname)", "--", "refs/bisect"]).out
    for name in text(out).splitlines():
        tree.git(["update-ref", "-d", need_ref(name)])
    for left in tree.git_dir.glob("BISECT_*"):
        left.unlink(missing_ok=True)


def _branch_in(path: Path) -> str | None:
    """The branch that git wrote down to come back to, as a full ref name."""
    name = text(read_plain(path, 4096, path.name) or b"").strip()
    if not name or name == "detached HEAD" or is_sha(name):
        return None
    return need_ref(name if name.startswith("refs/heads/") else f"refs/heads/{name}")
