"""Finding a repository: where its parts are, what it can prove, and a plain answer when there is none."""

import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from relays.core.lines import recorded
from relays.stores.base import StoreUnavailable
from relays.stores.gitrun import GitResult, is_sha, run, unavailable
from relays.stores.plainfile import no_traps

#: the git directory itself is asked, whatever the user allows of bare repositories: who owns it is still checked, and
#: nothing in its config can run
_FROM_INSIDE: Final = ("-c", "safe.bareRepository=all")
#: what git says where `core.worktree` names a folder that is gone; its objects and refs are there all the same
_LOST_WORK_TREE: Final = "cannot chdir to"
#: for questions in which the work tree plays no part: one that is named is taken before that of the config
_ANY_WORK_TREE: Final = ("--work-tree=.",)


@dataclass(frozen=True, slots=True)
class Facts:
    """What one question to git says about a repository. `git_dir` is the common one, symbolic links resolved."""

    git_dir: Path
    bare: bool
    inside_work_tree: bool
    shallow: bool
    object_format: str

    @property
    def objects(self) -> Path:
        return self.git_dir / "objects"


@dataclass(frozen=True, slots=True)
class RepoPlace:
    """A repository as a person names it.

    `top`: root of the work tree, None in a bare one. `git_dir`: the common git directory. `head_branch`: None when HEAD
    is detached. `head_sha`: None before the first commit.
    """

    top: Path | None
    git_dir: Path
    bare: bool
    head_branch: str | None
    head_sha: str | None


def facts(path: Path) -> Facts:
    """Raises StoreUnavailable: no such folder, no repository there, dubious ownership, an unknown format."""
    where = path.absolute()
    try:
        there = where.is_dir()
    except OSError:  # a name that no file system takes, or a folder above it that may not be looked into
        there = False
    if not there:
        raise StoreUnavailable(
            recorded("no such folder"), where=str(where), fix=recorded("name a folder inside a git repository")
        )
    no_traps(where)
    asked = [
        "rev-parse",
        "--is-bare-repository",
        "--is-inside-work-tree",
        "--is-shallow-repository",
        "--show-object-format",
        "--path-format=absolute",
        "--git-common-dir",
    ]
    answer = _ask(asked, where, ok=(0, 128))
    lost = answer.code != 0 and _LOST_WORK_TREE in answer.err
    if lost:
        answer = _ask([*_ANY_WORK_TREE, *asked], where)
    elif answer.code:
        raise unavailable(answer, where)
    bare, inside, shallow, object_format, git_dir = os.fsdecode(answer.out).removesuffix("\n").split("\n", 4)
    return Facts(
        git_dir=Path(os.path.realpath(git_dir)),
        bare=bare == "true",
        inside_work_tree=inside == "true" and not lost,
        shallow=shallow == "true",
        object_format=object_format,
    )


def _ask(args: Sequence[str], where: Path, ok: Collection[int] = (0,)) -> GitResult:
    """Ask from inside the repository, never by GIT_DIR: only then does git check who owns it.

    The user's own config is read: a `safe.directory` that the operator set counts.
    """
    return run([*_FROM_INSIDE, *args], cwd=where, user_config=True, ok=ok)


def discover(path: Path) -> RepoPlace:
    """The repository that holds `path`. Raises StoreUnavailable, whose `str()` says what, where and what to do."""
    found = facts(path)
    where = path.absolute()
    top: Path | None = None
    if found.inside_work_tree:
        out = _ask(["rev-parse", "--path-format=absolute", "--show-toplevel"], where).out
        top = Path(os.path.realpath(os.fsdecode(out).removesuffix("\n")))
        if not os.path.lexists(top / ".git"):
            # whoever wrote that config would aim what we clean, park and lay back at a folder that is not its own
            raise StoreUnavailable(
                recorded("core.worktree aims the repository at another folder"),
                where=str(where),
                fix="unset core.worktree",
            )
    symbolic = _ask([*_ANY_WORK_TREE, "symbolic-ref", "-q", "HEAD"], where, ok=(0, 1))
    name = os.fsdecode(symbolic.out).removesuffix("\n")
    head = _ask([*_ANY_WORK_TREE, "rev-parse", "-q", "--verify", "HEAD"], where, ok=(0, 1))
    sha = head.out.decode("ascii", "replace").strip()
    return RepoPlace(
        top=top,
        git_dir=found.git_dir,
        bare=found.bare,
        head_branch=name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else None,
        head_sha=sha if is_sha(sha) else None,
    )


def readable(place: Path) -> bool:
    """Whether what lies there can be read; what does not exist hides nothing and is."""
    try:
        folder = stat.S_ISDIR(place.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return os.access(place, os.R_OK | os.X_OK if folder else os.R_OK)
