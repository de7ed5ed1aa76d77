"""Real git repositories and small worlds for tests. Nothing depends on the machine's or the user's git config."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_IDENTITY = ("-c", "user.name=Tester", "-c", "user.email=tester@example.org", "-c", "commit.gpgSign=false")
_PLAIN = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0"}


def git(repo: Path, *args: str, stdin: bytes | None = None, ok: tuple[int, ...] = (0,)) -> str:
    """Run git in `repo` as an agent would; returns what it printed, without the last line end."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _PLAIN
    done = subprocess.run(
        ["git", *_IDENTITY, "-C", str(repo), *args],
        input=stdin,
        env=env,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in ok, f"git {' '.join(args)}: {done.stderr.decode(errors='replace')}"
    return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")


def make_repo(path: Path, files: Mapping[str, str] | None = None, issues: int = 0, object_format: str = "sha1") -> Path:
    """A repository at `path` on branch main with one commit of `files` and, where wanted, `issues` open issues."""
    path.mkdir(parents=True, exist_ok=True)
    git(path, "init", "-q", "-b", "main", f"--object-format={object_format}", ".")
    wanted = dict(files or {"README.md": "A repository of a test.\n"})
    if issues:
        wanted[".relay/issues.jsonl"] = issue_lines(dict.fromkeys(range(1, issues + 1), "open"))
    commit(path, wanted, "Begin")
    return path


def commit(repo: Path, files: Mapping[str, str | None], message: str) -> str:
    """Write `files` (None removes one), commit everything and return the SHA; no change makes an empty commit."""
    for name, content in files.items():
        place = repo / name
        if content is None:
            place.unlink()
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content, encoding="utf-8")
    git(repo, "add", "-A")
    git(repo, "commit", "-q", "--allow-empty", "-m", message)
    return head(repo)


def head(repo: Path, name: str = "HEAD") -> str:
    """The SHA that a name stands for."""
    return git(repo, "rev-parse", "--verify", name)


def issue_lines(states: Mapping[int, str]) -> str:
    """The text of an issue file: number -> "open" or "closed"."""
    return "".join(
        json.dumps({"number": number, "title": f"Task {number}", "state": state}) + "\n"
        for number, state in states.items()
    )
