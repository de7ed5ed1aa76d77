"""`doctor`: each check says what it found and what to do; it never dies of what it finds."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from django.conf import settings
from django.db import DatabaseError, connection
from django.utils import timezone
from kombu import Connection
from kombu.transport import memory

from relays.agents.process import Containment
from relays.models import (
    Channel,
    DayCost,
    Delivery,
    DriverClaim,
    Heartbeat,
    HookEvent,
    HookTally,
    Notice,
    Outbox,
    RegionLease,
    RelayStatus,
    Repository,
    SessionAnomaly,
    SourceFile,
)
from relays.reports import health as doctor
from tests.management.conftest import Cli
from tests.web_builders import make_leg, make_relay

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
    assert [check for check in done.json["checks"] if check["state"] == "failed"] == []
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
    said = cli("doctor", "--json").json
    assert [check for check in said["checks"] if check["state"] == "failed"] == []
    assert said["ok"] is True


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


def test_an_embedded_broker_that_nobody_rang_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its file is there before its first message makes the tables."""
    (tmp_path / "broker.sqlite3").touch()
    monkeypatch.setattr(settings, "CELERY_BROKER_URL", f"sqla+sqlite:///{tmp_path / 'broker.sqlite3'}")
    assert (found("broker").state, found("broker").detail) == ("ok", "embedded, not used yet")


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
    assert found("worktrees").detail == "1 worktree of a relay that has ended"
    assert "Maintenance → Clean up, or `relay clean`," in found("worktrees").fix
    (tmp_path / "worktrees" / make_relay(status=RelayStatus.STOPPED).pk).mkdir()
    assert found("worktrees").detail == "2 worktrees of relays that have ended"


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


def one(check: Callable[[], Iterator[doctor.Finding]]) -> doctor.Finding:
    """What one check alone finds."""
    (finding,) = check()
    return finding


def test_a_relay_that_is_due_and_not_looked_at_is_named() -> None:
    assert one(doctor.tick).state == "ok"
    now = timezone.now()
    late = make_relay(status=RelayStatus.READY, status_at=now - timedelta(minutes=3))
    make_relay(status=RelayStatus.WAITING, next_at=now + timedelta(hours=1), status_at=now - timedelta(hours=1))
    driven = make_relay(status=RelayStatus.READY, status_at=now - timedelta(minutes=3))
    DriverClaim.objects.create(relay=driven, holder="here:1", heartbeat=now)
    assert one(doctor.tick).state == "warning"
    assert late.pk in one(doctor.tick).detail and driven.pk not in one(doctor.tick).detail


def test_a_silent_supervisor_is_a_warning_and_a_hung_one_a_failure() -> None:
    now, relay = timezone.now(), make_relay()
    claim = DriverClaim.objects.create(relay=relay, holder="orders-1:77", heartbeat=now)
    assert one(doctor.supervisors).detail == "1 at work, none is silent"
    for minutes, state in ((2, "warning"), (11, "failed")):
        DriverClaim.objects.filter(pk=claim.pk).update(heartbeat=now - timedelta(minutes=minutes))
        assert one(doctor.supervisors).state == state
        assert relay.pk in one(doctor.supervisors).detail and "orders-1:77" in one(doctor.supervisors).detail
    DriverClaim.objects.update(holder="")
    assert one(doctor.supervisors).state == "ok", "what was given back is nobody's"


def test_a_region_that_an_ended_relay_holds_is_a_warning() -> None:
    relay = make_relay(status=RelayStatus.DONE)
    repository = Repository.objects.create(git_dir="/srv/acme/orders/.git")
    lease = RegionLease.objects.create(relay=relay, repository=repository, region=["**"], since=timezone.now())
    assert one(doctor.regions).state == "warning" and "relay release" in one(doctor.regions).fix
    RegionLease.objects.filter(pk=lease.pk).update(held=False)
    assert one(doctor.regions).state == "ok"


def test_what_cannot_be_written_to_a_repository_is_a_warning_with_its_error() -> None:
    row = Outbox.objects.create(kind="git_note", relay=make_relay(), target="1", not_before=timezone.now())
    assert one(doctor.outbox).detail == "1 on their way"
    Outbox.objects.filter(pk=row.pk).update(attempts=3, error="Permission denied\nmore")
    assert one(doctor.outbox).state == "warning" and one(doctor.outbox).detail.endswith("Permission denied")


def test_models_without_a_price_records_and_hook_events_that_nobody_knows_are_named() -> None:
    now, relay = timezone.now(), make_relay()
    leg = make_leg(relay)
    zero = dict.fromkeys(("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens"), 0)
    for day, model in ((now.date(), "new-model"), (now.date() - timedelta(days=30), "old-model")):
        DayCost.objects.create(
            day=day, kind="relay", relay=relay, leg=leg, owner=relay.owner, model=model, calls=9, unpriced=7, units=0,
            scripted=False, agent="x", repository="r", **zero,
        )  # fmt: skip
    assert "new-model (7)" in one(doctor.prices).detail and "old-model" not in one(doctor.prices).detail
    source = SourceFile.objects.create(path="/srv/a.jsonl", read_at=now)
    SessionAnomaly.objects.create(source=source, kind="unknown_key", detail="x", count=5)
    assert one(doctor.records).state == "ok" and "5 unknown keys" in one(doctor.records).detail
    SessionAnomaly.objects.create(source=source, kind="unknown_type", detail="novelty", count=2)
    assert one(doctor.records).state == "warning" and "2 records" in one(doctor.records).detail
    assert "novelty" in one(doctor.records).detail
    HookTally.objects.create(minute=now, kept=4)
    assert one(doctor.hooks).detail == "4 calls in the last day, all kept"
    HookTally.objects.update(refused=2)
    assert one(doctor.hooks).state == "warning" and "2 refused" in one(doctor.hooks).detail
    HookEvent.objects.create(agent="claude-code", sid="s", event="Sunrise", known=False, size=1, at=now)
    assert "Sunrise" in one(doctor.hooks).detail


def test_notices_that_did_not_arrive_or_wait_too_long_are_a_warning() -> None:
    now = timezone.now()
    assert one(doctor.notices).state == "ok"
    notice = Notice.objects.create(event="relay_done", key="x", at=now - timedelta(minutes=11))
    assert one(doctor.notices).detail == "1 wait for more than 10 minutes"
    Notice.objects.update(spread_at=now)
    channel = Channel.objects.create(name="c", kind="webhook", shown="s", key="k", salt="s", created_at=now)
    Delivery.objects.create(notice=notice, channel=channel, state="dead", not_before=now, done_at=now)
    assert one(doctor.notices).detail.startswith("1 notice of the last week")


def test_a_full_queue_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor._queue("embedded", 1).detail == "embedded, 1 message waits"
    assert doctor._queue("embedded", doctor.QUEUE_WARNING + 1).state == "warning"


def test_a_queue_whose_length_nobody_tells_is_unknown_and_never_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "CELERY_BROKER_URL", "memory://")
    monkeypatch.setattr(doctor.app, "connection_for_write", lambda: Connection("memory://"))
    assert (one(doctor.broker).state, one(doctor.broker).detail.endswith(" 0 messages wait")) == ("ok", True)

    def silent(*_: object, **__: object) -> None:
        raise OSError("no answer")

    monkeypatch.setattr(memory.Channel, "queue_declare", silent)
    said = one(doctor.broker)
    assert said.state == "warning" and said.detail.endswith("how many messages wait is unknown") and said.fix
