"""The settings file: everything from the environment, everything documented, safe by default."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core import checks as django_checks
from django.db import connection

from relays import checks

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (ROOT / "relaysite" / "settings.py").read_text(encoding="utf-8")
NAMES = sorted(set(re.findall(r'env\.\w+\(\s*"([A-Z_]+)"', SETTINGS)))


def test_the_names_are_found() -> None:
    assert {"RELAY_VAR", "DATABASE_URL", "BROKER_URL", "SECRET_KEY", "PUBLIC_URL", "TIME_ZONE"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_setting_stands_in_the_readme(name: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| `{name}`", readme, re.MULTILINE), f"{name} has no row in README.md's table of settings"


def test_safe_by_default() -> None:
    policy = settings.CONTENT_SECURITY_POLICY["DIRECTIVES"]
    assert "unsafe" not in str(policy)
    assert policy["script-src"] == policy["style-src"] == ["'self'"]
    assert settings.DEBUG is False
    assert "django.contrib.auth.middleware.LoginRequiredMiddleware" in settings.MIDDLEWARE
    assert settings.ATOMIC_REQUESTS is False


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TIME_ZONE", "Mars/Olympus"),
        ("DATABASE_URL", "mysql://ann:hidden@h/d"),
        ("BROKER_URL", "filesystem://"),
        ("LOG_LEVEL", "loud"),
        ("DEBUG", "perhaps"),
        ("SECRET_KEY", "short"),
        ("PUBLIC_URL", "relays.example.org"),
        ("SESSION_ROOTS", "sessions"),
    ],
)
def test_a_malformed_value_ends_the_command_with_one_line(name: str, value: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "relay", "canonical", "x"],
        env={**os.environ, name: value},
        capture_output=True,
        text=True,
        cwd="/",
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
    assert "hidden" not in done.stderr


def test_system_checks_pass_here() -> None:
    assert [found for found in django_checks.run_checks() if found.is_serious()] == []


def test_git_too_old_or_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, word in ((None, "none"), ((2, 30, 1), "2.30.1")):
        monkeypatch.setattr(checks, "git_version", lambda version=version: version)
        (found,) = checks.check_git(None)
        assert found.id == "relays.E001"
        assert word in found.msg


def test_sqlite_on_a_network_file_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        "rootfs / ext4 rw 0 0\nhost:/x /srv/my\\040share nfs4 rw 0 0\nd /srv/my\\040share/disk ext4 rw 0 0\n"
    )
    assert checks.network_file_system(Path("/srv/my share/relays/db"), mounts) == "nfs4"
    assert checks.network_file_system(Path("/srv/my share/disk/db"), mounts) == ""
    assert checks.network_file_system(Path("/srv/my share2/db"), mounts) == ""
    assert checks.network_file_system(Path("/srv"), tmp_path / "none") == ""
    monkeypatch.setattr(checks, "network_file_system", lambda path: "nfs4")
    found = checks.check_sqlite_place(None)
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        assert [one.id for one in found] == ["relays.E003"]
    else:
        assert found == []


def test_var_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks.os, "access", lambda path, mode: False)
    assert [one.id for one in checks.check_var(None)] == ["relays.E002"]


@pytest.mark.django_db
def test_the_database_is_in_wal_mode() -> None:
    assert checks.check_sqlite_wal(None, databases=["default"]) == []
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            assert cursor.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
            assert cursor.execute("PRAGMA foreign_keys").fetchone()[0] == 1
