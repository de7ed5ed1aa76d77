"""A house of the bench alone: a var folder, a database with the settings that people run with, and repositories."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: whoever runs the bench may have any git config and any relay of their own
CLEAN = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "DJANGO_SETTINGS_MODULE": "relaysite.settings"}
DROPPED = ("RELAY_", "GIT_", "DATABASE_", "BROKER_", "SECRET_KEY", "SITE_POLICY", "SITE_PRICES")


@contextmanager
def house() -> Iterator[Path]:
    """A folder with `var/`; Django is set up on it, once a process. Removed at the end."""
    with tempfile.TemporaryDirectory(prefix="relaysite-bench-", ignore_cleanup_errors=True) as name:
        for key in [key for key in os.environ if key.startswith(DROPPED)]:
            del os.environ[key]
        os.environ.update(CLEAN, RELAY_VAR=str(Path(name) / "var"))
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        yield Path(name)


def git(repo: Path, *args: str, stdin: bytes | None = None) -> bytes:
    return subprocess.run(["git", "-C", str(repo), *args], input=stdin, check=True, capture_output=True).stdout


def history(repo: Path, commits: int) -> list[str]:
    """A repository with that many commits on `main`, each of one changed file; their SHAs, newest first."""
    repo.mkdir(parents=True)
    git(repo, "init", "-q", "-b", "main")
    parts: list[bytes] = []
    for number in range(commits):
        body = f"line {number}\n".encode()
        said = f"Step {number}\n".encode()
        parts.append(
            b"commit refs/heads/main\n"
            b"committer Bench <bench@example.org> %d +0000\n"
            % (1_700_000_000 + number)
            + b"data %d\n%s" % (len(said), said)
            + b"M 100644 inline src/file_%03d.txt\ndata %d\n%s\n" % (number % 200, len(body), body)
        )
    git(repo, "fast-import", "--quiet", stdin=b"".join(parts) + b"done\n")
    return git(repo, "rev-list", "main").decode().split()
