"""Making work trees: one for each relay, and clean ones for commands.

House: "Each relay works in its own git worktree and branch". A command of `done_when` or `green` runs "on a clean
checkout of the tip": an own small repository that borrows the target's objects and knows nothing of its config.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from relays.core.lines import recorded
from relays.stores import ownconfig
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore
from relays.stores.gitrun import need_branch, need_sha, run

_LONG: Final = 300.0  # seconds; a whole tree is written
_FILLING: Final = recorded("Relaysite has not filled it yet")


def add_worktree(repo: GitStore, path: Path, branch: str, start_sha: str, own: Path | None = None) -> None:
    """A work tree at `path` on `branch`, made at `start_sha` where the branch does not exist. Once made, it is kept.

    `own`: its own git directory, where that is known already.

    Raises StoreUnavailable when the path is taken by something else or the branch is checked out elsewhere. Filters
    that only the repository's own config names are not run.
    """
    need_branch(branch)
    need_sha(start_sha)
    path = path.absolute()
    listed = _listed(repo)
    real = Path(os.path.realpath(path))
    if real in listed and listed[real].branch == branch and (path / ".git").is_file():
        if listed[real].lock == _FILLING:
            _fill_worktree(repo, path)
        _keep_reflog(own or _own_git_dir(path))
        return
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise StoreUnavailable(
            recorded("the folder for the work tree is taken by something else"),
            where=str(path),
            fix=recorded("move it away"),
        )
    elsewhere = next((place for place, held in listed.items() if held.branch == branch and place != real), None)
    if elsewhere is not None:
        raise StoreUnavailable(
            recorded("branch %(branch)s is checked out elsewhere", branch=branch),
            where=str(elsewhere),
            fix=recorded("remove that work tree or switch it to another branch"),
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    again = ["--force"] if real in listed else []  # known to git, its folder gone
    new = (
        [str(path), branch] if repo.ref(f"refs/heads/{branch}") else ["--no-track", "-b", branch, str(path), start_sha]
    )
    if real in listed and listed[real].lock == _FILLING:
        run(["--work-tree=.", "worktree", "unlock", str(real)], cwd=repo.git_dir, user_config=True)
    # nothing is written into it by git itself, which would obey the repository's config; the lock says that it is empty
    args = ["--work-tree=.", "worktree", "add", "-q", "--no-checkout", "--lock", "--reason", _FILLING, *again, *new]
    run(args, cwd=repo.git_dir, user_config=True)
    _fill_worktree(repo, path)
    _keep_reflog(_own_git_dir(path))


def _fill_worktree(repo: GitStore, path: Path) -> None:
    """Write the files of its branch into a new work tree, then take the lock away that says it has none yet."""
    with _own_config(repo, _own_git_dir(path)) as env:
        run([f"--work-tree={path}", "reset", "-q", "--hard"], cwd=path, env=env, user_config=True, timeout=_LONG)
    run(["--work-tree=.", "worktree", "unlock", str(path)], cwd=repo.git_dir, user_config=True)


def switch_worktree(repo: GitStore, path: Path, branch: str, start_sha: str) -> None:
    """Bring a linked work tree of `repo` whose HEAD stands elsewhere to `branch`, made at `start_sha` where it is gone.

    Raises StoreUnavailable when there is no such work tree, or when its dirty work is in the way.
    """
    need_branch(branch)
    if Path(os.path.realpath(path)) not in _listed(repo):
        raise StoreUnavailable(
            recorded("the folder is no work tree of this repository"), where=str(path), fix=recorded("move it away")
        )
    new = [branch] if repo.ref(f"refs/heads/{branch}") else ["--no-track", "-b", branch, need_sha(start_sha)]
    args = [f"--work-tree={path}", "checkout", "-q", "--no-guess", *new, "--"]
    with _own_config(repo, _own_git_dir(path)) as env:
        run(args, cwd=path, env=env, user_config=True, timeout=_LONG)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A work tree as git lists it. `branch`: "" when detached. `lock`: why it is locked, "" when it is not."""

    branch: str
    lock: str


def _listed(repo: GitStore) -> dict[Path, _Listed]:
    """Place of every work tree -> what git says of it."""
    out = run(["--work-tree=.", "worktree", "list", "--porcelain", "-z"], cwd=repo.git_dir).out
    found: dict[Path, _Listed] = {}
    for block in os.fsdecode(out).split("\0\0"):
        lines = dict(line.partition(" ")[::2] for line in block.split("\0") if line)
        if "worktree" in lines and "bare" not in lines:
            branch = lines.get("branch", "").removeprefix("refs/heads/")
            found[Path(os.path.realpath(lines["worktree"]))] = _Listed(branch, lines.get("locked", ""))
    return found


def stands_on(repo: GitStore, branch: str, but: Path) -> Path | None:
    """A work tree of the repository, other than `but`, that has the branch checked out. Raises StoreUnavailable."""
    real = Path(os.path.realpath(but))
    return next((place for place, held in _listed(repo).items() if held.branch == branch and place != real), None)


@contextmanager
def _own_config(repo: GitStore, git_dir: Path) -> Iterator[dict[str, str]]:
    """The environment in which no filter of the repository's config runs; the user's own ones are left alone."""
    config = ownconfig.harmless(ownconfig.settings(repo.git_dir, git_dir))
    with ownconfig.instead(git_dir, repo.git_dir, config) as env:
        yield env


def _keep_reflog(own: Path) -> None:
    """Progress is read from HEAD's reflog; git appends to one that exists, whatever core.logAllRefUpdates says."""
    log = own / "logs" / "HEAD"
    if os.path.lexists(log):
        return  # what lies there is judged by whoever reads it
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
    except OSError as error:
        raise StoreUnavailable(
            recorded("the reflog cannot be made: %(error)s", error=error.strerror), where=str(log)
        ) from error


def _own_git_dir(path: Path) -> Path:
    """The git directory of the work tree at `path`, resolved."""
    out = run(["rev-parse", "--absolute-git-dir"], cwd=path, user_config=True).out
    return Path(os.path.realpath(os.fsdecode(out).removesuffix("\n")))


def remove_worktree(repo: GitStore, path: Path) -> bool:
    """Remove a linked work tree with all that lies in it; False when git knows of none there. The branch is kept."""
    real = Path(os.path.realpath(path))
    listed = _listed(repo)
    if real not in listed:
        return False
    if listed[real].lock == _FILLING:
        run(["--work-tree=.", "worktree", "unlock", str(real)], cwd=repo.git_dir, user_config=True)
    args = ["--work-tree=.", "worktree", "remove", "--force", "--", str(real)]
    run(args, cwd=repo.git_dir, user_config=True, timeout=_LONG)
    return True


def checkout_for_command(git: GitStore, sha: str, into: Path) -> Path:
    """A clean checkout of `sha` at `into` (new or empty), HEAD detached, in a repository of its own; returns `into`.

    Its objects are the target's, borrowed; its config is git's default. Remove it when the command has ended. Raises
    StoreUnavailable and leaves nothing behind when it cannot be made.
    """
    git.check_tip(need_sha(sha))
    into = into.absolute()
    if into.exists() and (not into.is_dir() or any(into.iterdir())):
        raise StoreUnavailable(
            recorded("the folder for the checkout is taken"), where=str(into), fix=recorded("name a new one")
        )
    try:
        into.mkdir(parents=True, exist_ok=True)
        _fill(git, sha, into)
    except (StoreUnavailable, OSError) as error:
        shutil.rmtree(into, ignore_errors=True)
        if isinstance(error, OSError):
            raise StoreUnavailable(
                recorded("no checkout could be made: %(error)s", error=error.strerror), where=str(into)
            ) from error
        raise
    return into


def _fill(git: GitStore, sha: str, into: Path) -> None:
    run(["init", "-q", "--template=", f"--object-format={git.object_format}", "-b", "main", "."], cwd=into)
    inside = into / ".git"
    (inside / "objects" / "info").mkdir(parents=True, exist_ok=True)
    borrowed = os.fsencode(git.facts.objects)
    if b"\n" in borrowed:
        raise StoreUnavailable(recorded("the path of the repository holds a line end"), where=str(git.git_dir))
    (inside / "objects" / "info" / "alternates").write_bytes(borrowed + b"\n")
    if git.shallow:
        shutil.copyfile(git.git_dir / "shallow", inside / "shallow")
    (inside / "HEAD").write_text(f"{sha}\n", encoding="ascii")
    run(["read-tree", "-m", "-u", sha], cwd=into, timeout=_LONG)
