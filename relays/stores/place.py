"""Finding a repository: where its parts are, what it can prove, and a plain answer when there is none."""

import os
from dataclasses import dataclass
from pathlib import Path

from relays.stores.base import StoreUnavailable
from relays.stores.gitrun import is_sha, run


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
    if not where.is_dir():
        raise StoreUnavailable("no such folder", where=str(where), fix="name a folder inside a git repository")
    # found from inside, never named by GIT_DIR: only then does git check who owns it
    answer = run(
        [
            "rev-parse",
            "--is-bare-repository",
            "--is-inside-work-tree",
            "--is-shallow-repository",
            "--show-object-format",
            "--path-format=absolute",
            "--git-common-dir",
        ],
        cwd=where,
        user_config=True,  # a safe.directory that the operator set counts
    )
    bare, inside, shallow, object_format, git_dir = os.fsdecode(answer.out).removesuffix("\n").split("\n", 4)
    return Facts(Path(os.path.realpath(git_dir)), bare == "true", inside == "true", shallow == "true", object_format)


def discover(path: Path) -> RepoPlace:
    """The repository that holds `path`. Raises StoreUnavailable, whose `str()` says what, where and what to do."""
    found = facts(path)
    where = path.absolute()
    top: Path | None = None
    if found.inside_work_tree:
        out = run(["rev-parse", "--path-format=absolute", "--show-toplevel"], cwd=where, user_config=True).out
        top = Path(os.path.realpath(os.fsdecode(out).removesuffix("\n")))
    symbolic = run(["symbolic-ref", "-q", "HEAD"], cwd=where, user_config=True, ok=(0, 1))
    name = os.fsdecode(symbolic.out).removesuffix("\n")
    head = run(["rev-parse", "-q", "--verify", "HEAD"], cwd=where, user_config=True, ok=(0, 1))
    sha = head.out.decode("ascii", "replace").strip()
    return RepoPlace(
        top=top,
        git_dir=found.git_dir,
        bare=found.bare,
        head_branch=name.removeprefix("refs/heads/") if name.startswith("refs/heads/") else None,
        head_sha=sha if is_sha(sha) else None,
    )
