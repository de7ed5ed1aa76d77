"""`relay hooks install`: a person's settings are changed whole or not at all, and only where they asked for it."""

import json
import os
from pathlib import Path

import pytest

from relays.management.cli import Exit
from tests.management.conftest import Cli


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_they_are_put_in_and_taken_out_at_the_programs_own_place(cli: Cli, home: Path) -> None:
    path = home / ".claude" / "settings.json"
    done = cli("hooks", "install", "claude-code")
    assert done.code == Exit.FINE and b"RELAYSITE_TOKEN" in done.out
    put = path.read_bytes()
    assert "PreCompact" in json.loads(put)["hooks"]
    again = cli("hooks", "install", "claude-code", "--json").json
    assert (again["changed"], again["written"], path.read_bytes()) == (False, False, put)
    assert cli("hooks", "install", "claude-code", "--remove").code == Exit.FINE
    assert path.read_bytes() == b"{}\n"
    assert b"nothing of ours" in cli("hooks", "install", "claude-code", "--remove").out


def test_dry_run_shows_the_difference_and_writes_nothing(cli: Cli, home: Path) -> None:
    path = home / "mine.json"
    path.write_text('{\n  "model": "opus"\n}\n', encoding="utf-8")
    done = cli("hooks", "install", "claude-code", "--dry-run", "--settings", path, "--url", "https://relay.example.org")
    shown = done.out.decode()
    assert '+  "hooks": {' in shown and "https://relay.example.org/api/v1/hooks/claude-code" in shown
    assert shown.endswith("nothing was written\n") and path.read_text(encoding="utf-8") == '{\n  "model": "opus"\n}\n'
    cli("hooks", "install", "claude-code", "--dry-run")
    assert not (home / ".claude").exists()


def test_mode_and_link_stay_and_nothing_else_is_left_beside(cli: Cli, home: Path) -> None:
    real, link = home / "dots" / "claude.json", home / "settings.json"
    real.parent.mkdir()
    real.write_bytes(b'{"a": 1}')
    real.chmod(0o640)
    link.symlink_to(real)
    assert cli("hooks", "install", "claude-code", "--settings", link).code == Exit.FINE
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o640 and os.listdir(real.parent) == ["claude.json"]
    assert cli("hooks", "install", "claude-code", "--settings", link, "--remove").code == Exit.FINE
    assert real.read_bytes() == b'{"a": 1}'


@pytest.mark.parametrize("content", [b'{"a": 1,}', b"\xff{}", b"[]"])
def test_a_file_that_cannot_be_read_is_left_as_it_is(cli: Cli, home: Path, content: bytes) -> None:
    path = home / "settings.json"
    path.write_bytes(content)
    done = cli("hooks", "install", "claude-code", "--settings", path)
    assert done.code == Exit.INVALID and "was left as it is" in done.line and path.read_bytes() == content


def test_what_is_no_file_and_no_address_is_refused(cli: Cli, home: Path) -> None:
    assert cli("hooks", "install", "claude-code", "--settings", home).code == Exit.NOT_FOUND
    for url in ("ftp://x", "relay.example.org", "http://a?b", "http://u:p@h"):
        done = cli("hooks", "install", "claude-code", "--url", url)
        assert done.code == Exit.USAGE and "--url" in done.line
    assert cli("hooks", "install", "other").code == Exit.USAGE


def test_settings_that_changed_meanwhile_are_not_written_over(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from relays.management.verbs import hooks

    path = home / "settings.json"
    path.write_bytes(b"{}")
    seen = iter([b"{}", b'{"new": 1}'])
    monkeypatch.setattr(hooks, "_read", lambda path: next(seen))
    done = cli("hooks", "install", "claude-code", "--settings", path)
    assert done.code == Exit.FAILED and "changed meanwhile" in done.line and os.listdir(home) == ["settings.json"]
