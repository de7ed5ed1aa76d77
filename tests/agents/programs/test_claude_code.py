"""Claude Code itself runs the legs of real relays, against a scripted model and without any network."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.agents import real
from tests.agents.model import Asked, Model, Step
from tests.agents.programs.scripts import close

pytestmark = real.marks

Start = Callable[..., Any]


@pytest.fixture
def claude(course: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """`claude(model, …)` starts a relay that Claude Code runs; at the end no name was looked up and nobody lives."""
    program = real.require("claude-code")
    home = tmp_path / "home"
    home.mkdir()
    started = []
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")

    def start(model: Model, **values: Any) -> Any:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
        more = {"env": "ANTHROPIC_BASE_URL,ANTHROPIC_API_KEY", "program": program, **values.pop("args", {})}
        relay = course(agent="claude-code", args=more, **values)
        started.append(relay)
        return relay

    with real.watched_names() as names:
        yield start
    assert not names, f"looked up: {names}"
    assert [one for one in started if real.below(one.worktree)] == [], "a process of an agent lives"
    assert not list(home.iterdir()), "nothing of the user's own was touched"


def tool(verb: str, **arguments: Any) -> tuple[str, dict[str, Any]]:
    return (f"mcp__relay__{verb}", arguments)


def test_first_look(claude: Callable[..., Any]) -> None:
    script = [
        close(1, usage={"in": 100, "cache_read": 20_000, "out": 70}),
        {"calls": [tool("orient")], "usage": {"cache_read": 50_000}},
        {"calls": [tool("next_action", text="Close issue #2.")], "usage": {"cache_read": 90_000}},
        {"calls": [tool("externalized")], "usage": {"cache_read": 125_000}},
        {"calls":[tool("orient")], "usage": {"cache_read": 125_000}},
        {"calls":[tool("next_action", text="Close issue #2."), tool("externalized")], "usage": {"cache_read": 125_000}},
        {"text": "done"},
    ]
    with Model(script) as model:
        relay = claude(model)
        print(relay.step())
        for asked in model.main:
            print(asked.number, asked.tools, json.dumps(asked.body["messages"][-1])[-700:])
        from relays.models import Event
        for row in Event.objects.filter(leg__relay=relay.pk).order_by("seq"):
            print(row.seq, row.kind, json.dumps(row.payload)[:300])
        print(relay.holds(0), relay.answers(0))
        from relays.driver.places import leg_folder
        print((leg_folder(relay.pk, 0) / "stderr.log").read_text())
        print((relay.worktree/'.relay/issues.jsonl').read_text())
    assert 0
