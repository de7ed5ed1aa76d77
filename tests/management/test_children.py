"""The processes of `serve`: kept up, given up on, and ended whole."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from relays.management import children as module
from relays.management.children import Child, Children, TooManyRestarts

SLEEPS = [sys.executable, "-u", "-c", "import time; print('up'); time.sleep(60)"]
ENDS = [sys.executable, "-c", "print('ERROR it is broken'); raise SystemExit(3)"]
STUBBORN = [
    *[sys.executable, "-u", "-c"],
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(60)",
]


class Said(list[str]):
    def __call__(self, line: str) -> None:
        self.append(line)


@pytest.fixture
def said() -> Said:
    return Said()


@pytest.fixture
def many(said: Said, tmp_path: Path) -> Iterator[Children]:
    made = Children(os.environ, tmp_path, said)
    yield made
    made.kill()


def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline, "it did not come true in 20 s"
        time.sleep(0.02)


def up(child: Child) -> bool:
    return child.log.exists() and "up" in child.log.read_text()


def test_a_child_that_is_killed_comes_back(many: Children, said: Said, tmp_path: Path) -> None:
    child = many.add("web", SLEEPS, tmp_path / "log" / "web.log")
    until(lambda: up(child))
    assert child.process is not None
    first = child.process.pid
    os.kill(first, signal.SIGKILL)
    until(lambda: not child.running)
    many.watch()
    assert said == [f"web ended (exit -9); it is started again in 1 s; see {child.log}"]
    until(lambda: many.watch() or child.running)
    assert child.process.pid != first


def test_one_that_will_not_stay_up_is_given_up_on(
    many: Children, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RESTARTS_A_MINUTE", 2)
    child = many.add("worker", ENDS, tmp_path / "worker.log")

    def watch() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            many.watch()
            child.due = 0.0  # the wait between two starts is not what is tested
            time.sleep(0.02)

    with pytest.raises(TooManyRestarts, match=r"worker ended 3 times in a minute \(exit 3\)"):
        watch()
    until(lambda: "worker: ERROR it is broken" in said)
    assert "it is broken" in child.log.read_text()


def test_that_open_pages_are_cut_off_at_the_end_is_no_error(many: Children, tmp_path: Path, said: Said) -> None:
    usual = (
        "print('ERROR:    Cancel 6 running task(s), timeout graceful shutdown exceeded'); print('ERROR it is broken')"
    )
    child = many.add("web", [sys.executable, "-c", usual], tmp_path / "web.log")
    until(lambda: "web: ERROR it is broken" in said)
    assert not any("Cancel" in line for line in said)
    assert "Cancel 6" in child.log.read_text(), "the log has it"


def test_stop_asks_first_and_kills_after_its_patience(many: Children, tmp_path: Path) -> None:
    polite = many.add("beat", SLEEPS, tmp_path / "beat.log")
    stubborn = many.add("worker", STUBBORN, tmp_path / "worker.log")
    other = many.add("web", SLEEPS, tmp_path / "web.log")
    until(lambda: up(polite) and up(stubborn) and up(other))
    assert many.stop(["beat", "worker"], 0.3) == ["worker"]
    assert not polite.running
    assert not stubborn.running
    assert other.running
    many.kill()
    assert not other.running


@pytest.mark.skipif(sys.platform != "linux", reason="the parent-death signal is Linux's")
def test_children_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = (
        "import os, sys, time, pathlib\n"
        "from relays.management.children import Children\n"
        "here = pathlib.Path(sys.argv[1])\n"
        "many = Children(os.environ, here, print)\n"
        "child = many.add('web', [sys.executable, '-c', 'import time; time.sleep(60)'], here / 'log')\n"
        "print(child.process.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    root = Path(__file__).resolve().parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    stat = Path(f"/proc/{pid}/stat")
    until(lambda: not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z")
