"""Django system checks: what must be so before anything is served or driven."""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError, connection

GIT_LEAST = (2, 34)

#: file systems whose locks SQLite cannot trust
_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "glusterfs", "fuse.sshfs", "lustre"})


@cache
def git_version() -> tuple[int, ...] | None:
    """The version of the git on PATH, asked once; None when there is none or it does not run."""
    program = shutil.which("git")
    if program is None:
        return None
    try:
        done = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return tuple(int(part) for part in found.groups() if part is not None) if found else None


def network_file_system(path: Path, mounts: Path = Path("/proc/self/mounts")) -> str:
    """The kind of network file system that `path` lies on, or "" for a local one, or where nothing says."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    where = os.path.realpath(path)
    best, kind = "", ""
    for line in lines:
        parts = line.split(" ")
        if len(parts) < 3:
            continue
        point = parts[1].replace("\\040", " ")
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, parts[2]
    return kind if kind in _NETWORK else ""


@register("relays")
def check_git(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    version = git_version()
    if version is not None and version >= GIT_LEAST:
        return []
    least = ".".join(map(str, GIT_LEAST))
    found = ".".join(map(str, version)) if version else "none"
    return [
        Error(
            f"git {least} or newer is needed, found: {found}.",
            hint="Install it and see that PATH leads to it.",
            id="relays.E001",
        )
    ]


@register("relays")
def check_var(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    folder = Path(settings.RELAY_VAR)
    if os.access(folder, os.W_OK | os.X_OK):
        return []
    return [
        Error(f"RELAY_VAR={folder} cannot be written.", hint="Make it writable, or set RELAY_VAR.", id="relays.E002")
    ]


@register("relays")
def check_sqlite_place(app_configs: Sequence[AppConfig] | None, **options: Any) -> list[CheckMessage]:
    one = settings.DATABASES["default"]
    if not one["ENGINE"].endswith("sqlite3"):
        return []
    found = network_file_system(Path(str(one["NAME"])))
    if not found:
        return []
    hint = "Set RELAY_VAR or DATABASE_URL to a local disk, or use PostgreSQL."
    return [Error(f"The SQLite file {one['NAME']} lies on {found}, where it loses data.", hint=hint, id="relays.E003")]


@register(Tags.database)
def check_sqlite_wal(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **options: Any
) -> list[CheckMessage]:
    """Runs with `migrate` and `check --database default`: it opens the file."""
    if not databases or "default" not in databases or connection.vendor != "sqlite":
        return []
    try:
        with connection.cursor() as cursor:
            mode = cursor.execute("PRAGMA journal_mode").fetchone()[0]
    except DatabaseError as error:
        return [
            Error(
                f"The SQLite file cannot be opened: {error}.",
                hint="Check DATABASE_URL and RELAY_VAR.",
                id="relays.E004",
            )
        ]
    if mode in {"wal", "memory"}:
        return []
    hint = "Move it to a local disk that supports shared memory, or use PostgreSQL."
    return [Error(f"The SQLite file is in journal mode {mode}, not WAL.", hint=hint, id="relays.E005")]
