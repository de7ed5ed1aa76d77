"""What this machine has of the agent programs is told without running one and without reading a credential."""

import builtins
import os
from pathlib import Path
from typing import Any

import pytest

from relays.agents import readiness, registry
from relays.reports import agents as report

KEY = "sk-ant-secret-of-this-test"


def program(place: Path, name: str, package: str = '{"version": "1.2.3-linux-x64"}') -> Path:
    path = place / "node_modules" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    path.chmod(0o755)
    (path.parent / "package.json").write_text(package, encoding="utf-8")
    return path


@pytest.fixture
def env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    (tmp_path / "bin").mkdir()
    return {"HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "bin"), "RELAY_AGENTS": str(tmp_path / "agents")}


def test_a_program_that_is_not_there_says_how_it_comes_there(env: dict[str, str]) -> None:
    for one in readiness.everyone(env):
        assert one.program == one.version == "" and one.needs
        assert f"npm install {one.package}@{one.measured}" in str(one.fix)


def test_version_and_sign_in_are_told_by_what_lies_there(env: dict[str, str], tmp_path: Path) -> None:
    program(tmp_path / "agents", "opencode-linux-x64/bin/opencode")
    found = readiness.look("opencode", env)
    assert (found.version, found.sign_in, found.needs) == ("1.2.3", "not seen", "")
    auth = tmp_path / "home/.local/share/opencode/auth.json"
    auth.parent.mkdir(parents=True)
    auth.touch()
    assert readiness.look("opencode", env).sign_in == "not seen", "an empty file is no sign-in"
    auth.write_text("x", encoding="utf-8")
    assert readiness.look("opencode", env).sign_in == "found"
    assert readiness.look("opencode", {**env, "XDG_DATA_HOME": str(tmp_path / "else")}).sign_in == "not seen"


def test_a_key_is_named_by_its_variable_and_what_a_start_needs_is_said(env: dict[str, str], tmp_path: Path) -> None:
    program(tmp_path / "agents", "@anthropic-ai/claude-code-linux-x64/claude")
    found = readiness.look("claude-code", {**env, "ANTHROPIC_API_KEY": KEY})
    assert found.sign_in == "found" and "--agent-arg env=ANTHROPIC_API_KEY" in str(found.fix)
    assert KEY not in repr(found)


def test_gemini_needs_node(env: dict[str, str], tmp_path: Path) -> None:
    program(tmp_path / "agents", "@google/gemini-cli/bundle/gemini.js")
    assert "node" in str(readiness.look("gemini", env).needs)
    node = tmp_path / "bin" / "node"
    node.write_text("", encoding="utf-8")
    node.chmod(0o755)
    assert readiness.look("gemini", env).needs == ""


@pytest.mark.parametrize("package", ["{", "[]", '{"version": 3}', '{"version": "1\\u0007"}'])
def test_a_package_that_says_nothing_is_no_error(env: dict[str, str], tmp_path: Path, package: str) -> None:
    program(tmp_path / "agents", "opencode-linux-x64/bin/opencode", package)
    assert readiness.look("opencode", env).version == ""


def test_no_credential_is_opened_and_no_process_is_run(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "agents", "opencode-linux-x64/bin/opencode")
    opened: list[str] = []
    real = builtins.open

    def watched(path: Any, *args: Any, **values: Any) -> Any:
        opened.append(str(path))
        return real(path, *args, **values)

    for known in readiness.KNOWN.values():
        for name in known.files:
            place = tmp_path / "home" / known.place / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(KEY, encoding="utf-8")
    monkeypatch.setattr(builtins, "open", watched)
    monkeypatch.setattr("io.open", watched)
    monkeypatch.setattr("subprocess.Popen", None)
    assert {one.sign_in for one in readiness.everyone(env)} == {"found"}
    assert [Path(path).name for path in opened] in ([], ["package.json"])


def test_every_agent_is_offered_once_and_in_order(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    offered = report.offered()
    assert sorted(one.name for one in offered) == sorted(registry.names())
    ready = {one.name: one.ready for one in offered}
    assert ready["command"] and ready["scripted"] and not ready["opencode"]
    assert all(one.fix for one in offered if not one.ready)
    assert os.environ["HOME"] == env["HOME"]
