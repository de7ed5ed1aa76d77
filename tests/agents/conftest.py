"""A tiny supervisor for the agents' tests: real processes, a real socket, a real git repository with an issue file."""

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from relays.agents import process
from relays.agents.base import LegContext
from relays.agents.channel import Channel
from relays.agents.limits import Limits
from relays.agents.registry import adapter

TITLES = (
    "Write the opening page",
    'Say what "state": "open" means',
    "Grüße an alle <b>Leser</b>",
    "List the commands",
    "Draw the map",
    "Name the ports",
    "Write the last page",
)


@dataclass
class Repo:
    """A work tree on branch main with `.relay/issues.jsonl` committed."""

    path: Path

    def git(self, *args: str) -> str:
        env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        command = ["git", "-c", "user.name=Tester", "-c", "user.email=tester@example.invalid", *args]
        done = subprocess.run(command, cwd=self.path, env=env, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    @property
    def issues(self) -> Path:
        return self.path / ".relay" / "issues.jsonl"

    def rows(self, at: str = "HEAD") -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.git("show", f"{at}:.relay/issues.jsonl").splitlines()]

    def open(self) -> list[int]:
        return [row["number"] for row in self.rows() if row["state"] == "open"]

    def closings(self) -> list[str]:
        """Commits of the worker, oldest first."""
        return self.git("log", "--reverse", "--format=%H", "--author=Scripted worker").split()

    def status(self) -> list[str]:
        done = subprocess.run(
            ["git", "status", "--porcelain", "-uall"], cwd=self.path, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    made = Repo(tmp_path / "repo")
    made.path.mkdir()
    made.git("init", "--quiet", "--initial-branch=main")
    made.issues.parent.mkdir()
    lines = [
        json.dumps({"number": number, "title": title, "state": "open"}, ensure_ascii=False)
        for number, title in enumerate(TITLES, 1)
    ]
    made.issues.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (made.path / "README.md").write_text("A backlog.\n")
    made.git("add", "-A")
    made.git("commit", "--quiet", "-m", "Start")
    return made


Answer = Callable[["Leg", dict[str, Any]], str]


def go(leg: "Leg", event: dict[str, Any]) -> str:
    return "go"


def supervise(leg: "Leg", event: dict[str, Any]) -> str:
    """A small version of the real thing: stop at the ceiling, or when armed at a boundary that is safe."""
    if leg.resident + leg.growth >= leg.ceiling:
        return "stop"
    if event["final"] or leg.resident >= leg.mark:
        dirty = bool(leg.repo.status()) and not leg.said("park_tree")
        held = "TREE_DIRTY_UNPARKED" if dirty else "" if leg.said("externalized") else "RELAY_NOT_EXTERNALIZED"
        return f"wind_down {held}" if held else "stop"
    return "go"


@dataclass
class Leg:
    """What a leg said, in order, and what it was answered."""

    repo: Repo
    window: int
    events: list[dict[str, Any]] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    code: int | None = None
    stderr: str = ""
    dirty_at: list[list[str]] = field(default_factory=list)  # per boundary

    @property
    def mark(self) -> float:
        return 0.6 * self.window

    @property
    def ceiling(self) -> float:
        return 0.9 * self.window

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]

    @property
    def residents(self) -> list[int]:
        return [
            event["input"] + event["cache_read"] + event["cache_write_5m"] + event["cache_write_1h"]
            for event in self.of("usage")
        ]

    @property
    def resident(self) -> int:
        return self.residents[-1] if self.residents else 0

    @property
    def growth(self) -> int:
        return self.residents[-1] - self.residents[-2] if len(self.residents) > 1 else 0

    def since_boundary(self) -> list[str]:
        """Kinds of the events of the last boundary and before it, back to the one before."""
        kinds = [event["kind"] for event in self.events]
        before = [place for place, kind in enumerate(kinds[:-1]) if kind == "boundary"]
        return kinds[before[-1] + 1 if before else 0 :]

    def said(self, kind: str) -> bool:
        return kind in self.since_boundary()


def context(repo: Repo, folder: Path, socket: str, **more: Any) -> LegContext:
    given: dict[str, Any] = {
        "relay_id": "RLY-20260101-0001",
        "leg": 0,
        "baton_path": "",
        "worktree": str(repo.path),
        "objective": "Close every issue.",
        "done_when": "issues:none open",
        "next_action": "",
        "window_tokens": 200_000,
        "ceiling_tokens": 180_000,
        "log_dir": str(folder),
        "socket_path": socket,
        "token": "leg-token",
        "marker": f"test-{secrets.token_hex(8)}",
    }
    return LegContext(**{**given, **more})


@pytest.fixture
def run_leg(repo: Repo, tmp_path: Path) -> Callable[..., Leg]:
    """Run the scripted worker for one leg, answer every boundary, and return what was seen once its tree is gone."""
    count = iter(range(1000))

    def run(answer: Answer = supervise, limit: float = 60.0, on_stdout: bool = False, **more: Any) -> Leg:
        folder = tmp_path / f"log-{next(count)}"
        with Channel(folder) as channel:
            ctx = context(repo, folder, "" if on_stdout else channel.socket_path, **more)
            started = adapter("scripted").launch(ctx)
            agent = process.launch(started.argv, cwd=repo.path, env=started.env, marker=ctx.marker, log_dir=folder)
            channel.attach(agent)
            leg = Leg(repo, ctx.window_tokens)
            deadline = time.monotonic() + limit
            try:
                while not channel.closed:
                    assert time.monotonic() < deadline, leg.events[-3:]
                    for raw in channel.wait(0.2):
                        event = json.loads(raw)
                        leg.events.append(event)
                        if event["kind"] == "boundary":
                            leg.dirty_at.append(repo.status())
                            leg.answers.append(answer(leg, event))
                            channel.answer(leg.answers[-1])
                while agent.poll() is None and time.monotonic() < deadline:
                    time.sleep(0.01)
                leg.code = agent.poll()
            finally:
                agent.kill_tree()
                agent.close()
        leg.stderr = (folder / "stderr.log").read_text()
        lines = (folder / "stream.ndjson").read_text(encoding="utf-8").splitlines()
        assert [json.loads(line) for line in lines] == leg.events
        return leg

    return run


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., process.AgentProcess]]:
    """Launch a Python text as an agent; whatever is left of it at the end of the test is killed."""
    begun: list[process.AgentProcess] = []

    def begin(
        code: str, *args: str, contain: process.Containment | None = None, limits: Limits | None = None
    ) -> process.AgentProcess:
        marker = f"test-{secrets.token_hex(8)}"
        env = {"PATH": os.environ["PATH"]}
        argv = [sys.executable, "-c", code, *args]
        log = tmp_path / f"agent-{len(begun)}"
        agent = process.launch(argv, cwd=tmp_path, env=env, marker=marker, log_dir=log, contain=contain, limits=limits)
        begun.append(agent)
        return agent

    yield begin
    for agent in begun:
        agent.kill_tree()
        agent.close()


@pytest.fixture
def until() -> Callable[..., bool]:
    """Wait, without being busy, until something is true; says whether it became so in time."""

    def wait(true: Callable[[], object], seconds: float = 5.0) -> bool:
        deadline = time.monotonic() + seconds
        while not true():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    return wait


@pytest.fixture(scope="session")
def strongest() -> process.Containment:
    """What this machine allows; a test for a kind that it does not allow is skipped."""
    return process.containment()


@pytest.fixture(scope="session")
def plain_python() -> str | None:
    """A Python that a plain user may run, or None."""
    for program in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        if program is None:
            continue
        try:
            done = subprocess.run(
                [program, "-c", "import enum"], user=65534, group=65534, capture_output=True, check=False
            )
        except (OSError, PermissionError):
            continue
        if done.returncode == 0:
            return program
    return None
