"""The real Claude Code calls this site through its own `http` hooks, and ends as if nobody had listened.

Run by `make agents`, or with the program's binary in CLAUDE_CODE; else it is left out and says so. The model is a
script on loopback.
"""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from relays.actions.base import Actor
from relays.actions.tokens import add
from relays.agents import programs
from relays.core import hookfile, hooks
from relays.models import HookEvent
from tests.web_builders import make_user

INSTALLED = os.environ.get("AGENT_TESTS", "")
FOUND = (
    programs.find(programs.PROGRAMS["claude-code"], env={programs.PLACES: INSTALLED, "PATH": ""}) if INSTALLED else ""
)
PROGRAM = os.environ.get("CLAUDE_CODE") or FOUND
pytestmark = [
    pytest.mark.agents,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        not PROGRAM,
        reason="left out: Claude Code is not there; `make agents` installs it (npm @anthropic-ai/claude-code@2.1.332)",
    ),
]
#: all but the one whose hook has to make the worktree itself (the program calls no http hook at SessionStart)
WIRED = sorted(hooks.CLAUDE_EVENTS - {"WorktreeCreate"})
USE = {"input_tokens": 1000, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5}


class Model(BaseHTTPRequestHandler):
    """First one shell command that works and one that fails, at once; then a word."""

    asked: ClassVar[list[str]] = []

    def log_message(self, format: str, *args: object) -> None:
        return

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(self.path)
        done = "tool_result" in json.dumps(body.get("messages", []))
        commands = [] if done or not body.get("tools") else ["echo one", "exit 3"]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for kind, more in self.answer(commands):
            self.wfile.write(f"event: {kind}\ndata: {json.dumps({'type': kind, **more})}\n\n".encode())

    def answer(self, commands: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        message = {"id": f"msg_{len(self.asked)}", "type": "message", "role": "assistant", "model": "scripted",
                   "content": [], "stop_reason": None, "stop_sequence": None, "usage": USE}  # fmt: skip
        yield "message_start", {"message": message}
        for at, command in enumerate(commands):
            block = {"type": "tool_use", "id": f"toolu_{len(self.asked)}_{at}", "name": "Bash", "input": {}}
            typed = json.dumps({"command": command, "description": "a step"})
            yield "content_block_start", {"index": at, "content_block": block}
            yield "content_block_delta", {"index": at, "delta": {"type": "input_json_delta", "partial_json": typed}}
            yield "content_block_stop", {"index": at}
        if not commands:
            yield "content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}
            yield "content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": "Done."}}
            yield "content_block_stop", {"index": 0}
        why = "tool_use" if commands else "end_turn"
        yield "message_delta", {"delta": {"stop_reason": why, "stop_sequence": None}, "usage": USE}
        yield "message_stop", {}


@pytest.fixture
def model() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def by_hand(site: str) -> str:
    """Every event, as a person may write it."""
    hook = {**hookfile.entry(site), "timeout": 20}
    return json.dumps({"hooks": {name: [{"matcher": "", "hooks": [hook]}] for name in WIRED}})


def by_the_command(site: str) -> str:
    """What `relay hooks install claude-code` writes."""
    return hookfile.installed("", site)


@pytest.mark.parametrize("wired", [by_hand, by_the_command])
def test_the_real_program_calls_through_its_hooks_and_ends_well(
    live_server: Any, model: str, tmp_path: Path, wired: Callable[[str], str]
) -> None:
    secret = add(Actor(make_user("", "operator")), name="a test", role="sender", days=1).secret
    home, project = tmp_path / "home", tmp_path / "project"
    (home / ".claude").mkdir(parents=True)
    project.mkdir()
    (home / ".claude" / "settings.json").write_text(wired(live_server.url), encoding="utf-8")
    quiet = ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "DISABLE_TELEMETRY", "DISABLE_ERROR_REPORTING",
             "DISABLE_AUTOUPDATER", "IS_SANDBOX")  # fmt: skip
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "ANTHROPIC_BASE_URL": model, "ANTHROPIC_API_KEY": "test-key",
           "RELAYSITE_TOKEN": secret, **dict.fromkeys(quiet, "1")}  # fmt: skip
    command = [PROGRAM, "-p", "Do it.", "--output-format", "json", "--dangerously-skip-permissions"]
    ran = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    assert (said["is_error"], said["result"]) == (False, "Done.")

    rows = list(HookEvent.objects.order_by("pk"))
    names = {row.event for row in rows}
    wanted = {"PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd"}
    if wired is by_hand:
        wanted |= {"UserPromptSubmit", "PreToolUse", "PostToolBatch"}
    assert wanted <= names
    assert {row.sid for row in rows} == {said["session_id"]}
    assert all(row.known and not row.blocked for row in rows)
    assert not [row.said for row in rows if hooks.UNKNOWN in row.said]
    assert {row.signal for row in rows} == {"", "failed", "ended"}
