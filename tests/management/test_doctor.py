"""`doctor`: each check says what it found and what to do; it never dies of what it finds."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone

from relays.agents.process import Containment
from relays.models import Heartbeat, RelayStatus
from relays.reports import health as doctor
from tests.management.conftest import Cli
from tests.web_builders import make_relay

pytestmark = pytest.mark.django_db


def found(name: str) -> doctor.Finding:
    return next(one for one in doctor.examine() if one.name == name)


def beat(kind: str, seconds: int) -> None:
    Heartbeat.objects.update_or_create(
        name=f"{kind}:host", defaults={"at": timezone.now() - timedelta(seconds=seconds)}
    )


def test_a_machine_that_is_well(cli: Cli) -> None:
    beat("worker", 1)
    beat("beat", 1)
    done = cli("doctor", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json["ok"] is True
    names = [check["name"] for check in done.json["checks"]]
    wal = ["sqlite"] if connection.vendor == "sqlite" else []
    assert names == [
        *["python", "git", "var", "disk", "clock", "containment", "database", *wal, "size"],
        *["broker", "worker", "beat", "tick", "supervisors", "outbox", "notices", "regions", "worktrees"],
        *["agent claude-code", "agent codex", "agent gemini", "agent opencode"],
        *["prices", "records", "hooks"],
    ]
    for check in done.json["checks"]:
        assert list(check) == ["name", "state", "detail", "fix"]
        assert check["state"] in {"ok", "absent", "warning"}
        assert bool(check["fix"]) == (check["state"] != "ok")
    assert cli("doctor").out.decode().rstrip().endswith(("warning", "warnings"))


def test_silent_worker_and_beat_are_warnings(cli: Cli) -> None:
    assert found("worker").detail == "never heard of"
    beat("worker", 31)
    beat("beat", 29)
    assert found("worker").state == "warning"
    assert "make run" in found("worker").fix
    assert found("beat").state == "ok"
    assert cli("doctor", "--json").json["ok"] is True


@pytest.mark.parametrize(("version", "state"), [(None, "failed"), ((2, 33, 9), "failed"), ((2, 34), "ok")])
def test_git(monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...] | None, state: str) -> None:
    monkeypatch.setattr(doctor, "git_version", lambda: version)
    assert found("git").state == state


def test_a_database_that_is_behind_or_gone_fails(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.MigrationExecutor, "migration_plan", lambda self, targets: [1, 2])
    assert "2 migrations" in found("database").detail
    assert found("database").fix == "run `python manage.py migrate`"

    def gone(self: object, targets: object) -> None:
        raise DatabaseError("could not connect\nmore words")

    monkeypatch.setattr(doctor.MigrationExecutor, "migration_plan", gone)
    assert found("database").detail == "could not connect"
    done = cli("doctor", "--json")
    assert (done.code, done.json["ok"]) == (1, False)


def test_a_broker_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    broken = tmp_path / "broker.sqlite3"
    broken.write_bytes(b"no database at all, whatever its name says" * 100)
    monkeypatch.setattr(settings, "CELERY_BROKER_URL", f"sqla+sqlite:///{broken}")
    assert found("broker").state == "failed"
    monkeypatch.setattr(settings, "CELERY_BROKER_URL", f"sqla+sqlite:///{tmp_path}/none")
    assert found("broker").state == "ok"


def test_disk_and_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 1024**3

    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: Usage)
    assert found("disk").state == "warning"
    Usage.free = 1024
    assert found("disk").state == "failed"
    assert found("clock").state == "ok"
    monkeypatch.setattr(doctor, "CLOCK_APART", timedelta(seconds=-1))
    assert found("clock").state == "failed"


def test_weak_containment_and_left_worktrees_are_warnings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(doctor.process, "containment", lambda: Containment.SUBREAPER)
    assert found("containment").state == "warning"
    monkeypatch.setattr(settings, "RELAY_VAR", tmp_path)
    living, ended = make_relay(), make_relay(status=RelayStatus.DONE)
    (tmp_path / "worktrees" / living.pk).mkdir(parents=True)
    assert found("worktrees").state == "ok"
    (tmp_path / "worktrees" / ended.pk).mkdir()
    assert found("worktrees").detail.startswith("1 ")
    assert "relay clean" in found("worktrees").fix


def test_a_check_that_breaks_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(path: object) -> None:
        raise OSError("no such device")

    monkeypatch.setattr(doctor.shutil, "disk_usage", broken)
    assert found("disk").state == "failed"
    assert "no such device" in found("disk").detail


def test_agent_programs_are_named_with_version_and_sign_in_and_no_content_is_read(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PATH", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "CLAUDE_CONFIG_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    home, place = tmp_path / "home", tmp_path / "agents"
    for package, version in (("opencode-linux-x64/bin/opencode", "1.18.33"), (".bin/claude", "9.0.0")):
        program = place / "node_modules" / package
        program.parent.mkdir(parents=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        (program.parent / "package.json").write_text(f'{{"version": "{version}"}}')
    auth = home / ".local/share/opencode/auth.json"
    auth.parent.mkdir(parents=True)
    auth.write_text("no program of ours may read this")
    auth.chmod(0)
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("RELAY_AGENTS", str(place))
    assert found("agent codex").state == found("agent gemini").state == "absent"
    assert "npm install @openai/codex@" in found("agent codex").fix
    opencode, claude = found("agent opencode"), found("agent claude-code")
    assert (
        opencode.state == "ok" and opencode.detail.startswith("1.18.33, ") and "auth.json is there" in opencode.detail
    )
    assert claude.state == "warning" and claude.detail.startswith("9.0.0 (measured with 2.1.332), ")
    assert "no sign-in is in sight" in claude.detail and "--agent-arg env=ANTHROPIC_API_KEY" in claude.fix


def test_a_var_folder_that_others_may_read_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(settings, "RELAY_VAR", tmp_path)
    for mode, state in ((0o750, "warning"), (0o701, "warning"), (0o700, "ok")):
        tmp_path.chmod(mode)
        assert found("var").state == state
        assert (f"chmod 700 {tmp_path}" in found("var").fix) == (state == "warning")
