"""`serve` whole: it answers, it mends itself, it refuses to be two, and Ctrl-C ends all of it."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.management.conftest import Cli

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class House:
    """A running serve: its port, its lines and its processes."""

    def __init__(self, process: "subprocess.Popen[bytes]", port: int, var: Path, log: Path) -> None:
        self.process, self.port, self.var, self.log = process, port, var, log

    def said(self, words: str, seconds: float = 60) -> str:
        deadline = time.monotonic() + seconds
        while words not in (text := self.log.read_text()):
            assert self.process.poll() is None, text
            assert time.monotonic() < deadline, text
            time.sleep(0.1)
        return text

    def pids(self) -> list[int]:
        """Every process that was started for this RELAY_VAR, found by its environment."""
        found = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdecimal() and f"RELAY_VAR={self.var}\0".encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                continue
        return found

    def left(self) -> list[str]:
        """The command lines of what still runs, for a failure that says what it is."""
        return [Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ") for pid in self.pids()]

    def child(self, *words: str) -> int:
        for pid in sorted(self.pids()):
            line = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
            if all(word in line for word in words):
                return pid
        raise AssertionError(f"no process {words}")

    def get(self, path: str) -> int:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            f"http://127.0.0.1:{self.port}{path}", timeout=10
        ) as answer:
            return int(answer.status)


@contextmanager
def house(var: Path, *options: str) -> Iterator[House]:
    port = free_port()
    log = var.parent / "terminal"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "relay", "serve", "--port", str(port), *options],
            env={**os.environ, "RELAY_VAR": str(var), "DATABASE_URL": "", "BROKER_URL": ""},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    made = House(process, port, var, log)
    try:
        yield made
    finally:
        process.kill()
        process.wait()
        for pid in made.pids():
            os.kill(pid, signal.SIGKILL)


def until(true: Callable[[], object], seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, f"it did not come true in {seconds} s"
        time.sleep(0.2)


def test_a_port_that_is_taken_is_one_line(cli: Cli) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        done = cli("serve", "--port", holder.getsockname()[1])
    assert done.code == 1
    assert "PORT=" in done.line


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_it_answers_mends_itself_and_ends_whole(tmp_path: Path) -> None:
    with house(tmp_path / "var", "--no-tour") as one:
        text = one.said("Ctrl-C ends everything")
        assert f"Relaysite is at http://127.0.0.1:{one.port}/" in text
        assert "the tour" not in text
        link = next(line for line in text.splitlines() if "/sign-in/" in line)
        assert one.get(link.partition(f":{one.port}")[2]) == 200
        assert one.get("/healthz") == one.get("/readyz") == 200

        second = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), "relay", "serve", "--port", str(free_port())],
            env={**os.environ, "RELAY_VAR": str(one.var), "DATABASE_URL": ""},
            capture_output=True,
            text=True,
        )
        assert second.returncode == 1
        assert second.stderr.count("\n") == 1
        assert "is served already" in second.stderr

        first = one.child("uvicorn")
        os.kill(first, signal.SIGKILL)
        one.said("web ended (exit -9)")
        until(lambda: one.child("-m") and one.log and _answers(one))

        one.process.send_signal(signal.SIGINT)
        assert one.process.wait(60) == 0
        text = one.log.read_text()
        assert "ended; `make run` goes on from here" in text
        assert "Traceback" not in text
        assert one.pids() == []


def _answers(one: House) -> bool:
    try:
        return one.get("/healthz") == 200
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_tour_runs_stops_at_a_safe_point_and_goes_on(tmp_path: Path) -> None:
    var = tmp_path / "var"
    with house(var) as one:
        one.said("the tour: ")
        until(lambda: _progress(var) >= 1)
        one.process.send_signal(signal.SIGTERM)
        assert one.process.wait(100) == 0
        time.sleep(2)  # the last supervisor has let go of its relay and is on its way out
        assert one.left() == [], one.log.read_text()
    before = _status(var)
    assert before["status"] in {"ready", "waiting"}, before
    with house(var) as two:
        text = two.said("Ctrl-C ends everything")
        assert "the tour: " not in text  # it goes on; it never begins anew
        until(lambda: max(leg["leg"] for leg in _status(var)["legs"] if leg["turns"]) > before["legs"][-1]["leg"] - 1)
        two.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        two.process.send_signal(signal.SIGINT)  # ends at once
        assert two.process.wait(30) == 0
        until(lambda: two.pids() == [])
    assert len(_relays(var)) == 1


def _command(var: Path, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "relay", *arguments, "--json"],
        env={**os.environ, "RELAY_VAR": str(var), "DATABASE_URL": "", "BROKER_URL": ""},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _relays(var: Path) -> list[dict[str, Any]]:
    return _command(var, "list")["relays"]


def _status(var: Path) -> dict[str, Any]:
    return _command(var, "status", _relays(var)[0]["relay"])


def _progress(var: Path) -> int:
    return sum(leg["turns"] for leg in _status(var)["legs"])
