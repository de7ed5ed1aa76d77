"""Who is heard at the socket that a program's hooks come to, and what a loud program cannot keep from being heard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relays.agents import tree
from relays.agents.bridges.bridge import Bridge, read_object
from relays.agents.bridges.hooks import HookCall, is_below
from relays.agents.bridges.line import count

HOOK = Path(__file__).parents[2] / "relays" / "agents" / "bridges" / "hook.py"
#: calls the hook twice: as a child of the program, and as a process that has lost its parent
PROGRAM = """
import os, subprocess, sys, time
argv = [sys.executable, "-I", "-S", *sys.argv[1:3]]
said = subprocess.run(argv, input=b'{"who": "child"}', capture_output=True).stdout
open(sys.argv[3] + "/child", "wb").write(said)
if os.fork() == 0:
    parent = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == parent:
        time.sleep(0.01)
    said = subprocess.run(argv, input=b'{"who": "orphan"}', capture_output=True).stdout
    open(sys.argv[3] + "/orphan.new", "wb").write(said)
    os.rename(sys.argv[3] + "/orphan.new", sys.argv[3] + "/orphan")
    os._exit(0)
os.wait()
time.sleep(60)
"""


class Heard(Bridge):
    def __init__(self, folder: Path) -> None:
        super().__init__({"program": "x", "folder": str(folder)}, {"RELAY_SOCKET": str(folder / "s")})
        self.calls: list[dict[str, object]] = []
        self.lines = 0

    def hook(self, call: HookCall) -> None:
        self.calls.append(call.said)
        call.answer({"heard": True})

    def said(self, line: bytes) -> None:
        self.lines += 1

    def close(self) -> None:
        if self.hooks is not None:
            self.hooks.close()
        if self.popen is not None:
            self.popen.kill()
            self.popen.wait(10)
            for pipe in (self.popen.stdin, self.popen.stdout):
                if pipe is not None:
                    pipe.close()


@pytest.fixture
def bridge(tmp_path: Path) -> Iterator[Heard]:
    made = Heard(tmp_path)
    yield made
    made.close()


def until(bridge: Bridge, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        bridge._once()


@pytest.mark.slow
@pytest.mark.skipif(not tree.LINUX, reason="the system does not tell who hangs on whom")
def test_what_the_program_let_go_cannot_speak_for_its_hooks(bridge: Heard, tmp_path: Path) -> None:
    path = bridge.hook_command()[-1]
    bridge.spawn([sys.executable, "-c", PROGRAM, str(HOOK), path, str(tmp_path)], dict(os.environ))
    until(bridge, (tmp_path / "orphan").exists)
    assert bridge.calls == [{"who": "child"}]
    assert json.loads((tmp_path / "child").read_bytes()) == {"heard": True}
    assert json.loads((tmp_path / "orphan").read_bytes())["continue"] is False


def test_a_program_that_never_falls_silent_keeps_its_hooks_and_its_end_from_nothing(bridge: Heard) -> None:
    bridge.spawn(["sh", "-c", "exec yes"], dict(os.environ))
    begun = time.monotonic()
    until(bridge, lambda: bridge.lines > 0)
    assert time.monotonic() - begun < 10


def test_of_a_line_that_is_too_long_nothing_is_heard_and_all_of_the_next(
    bridge: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []
    monkeypatch.setattr("relays.agents.bridges.bridge.LINE_BYTES", 1000)
    monkeypatch.setattr(bridge, "said", heard.append)
    for piece in (b'{"a":', b"x" * 900, b"x" * 900, b"x" * 5000, b'x"}\n{"b"', b":2}\n", b"\xff\xfe{\n", b"half {"):
        bridge._take(piece)
    bridge._take(b"\n")
    assert heard == [b'{"b":2}', b"\xff\xfe{", b"half {"]
    assert [read_object(line) for line in heard] == [{"b": 2}, {}, {}]


@pytest.mark.skipif(not tree.LINUX, reason="the system does not tell who hangs on whom")
def test_who_hangs_on_whom() -> None:
    own = os.getpid()
    with subprocess.Popen(["sleep", "30"]) as child:
        try:
            assert is_below(child.pid, own) and is_below(own, own)
            assert not is_below(own, child.pid) and not is_below(0, own) and not is_below(1, own)
        finally:
            child.kill()


@pytest.mark.parametrize(
    ("value", "expected"), [(float("inf"), 500_000_000), (float("-inf"), 0), (float("nan"), 0), (10**400, 500_000_000)]
)
def test_a_figure_beyond_all_measure_is_the_largest(value: float, expected: int) -> None:
    assert count(value) == expected
