"""A house of its own for kill tests: database, broker, worker and beat in one folder, driven by commands."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MANAGE = [sys.executable, str(ROOT / "manage.py")]


class House:
    """Everything under `folder`; `kill_*` are SIGKILL, as a machine would do it."""

    def __init__(self, folder: Path) -> None:
        self.var = folder / "var"
        self.env = {**os.environ, "RELAY_VAR": str(self.var), "LOG_LEVEL": "ERROR"}
        self.env.pop("DATABASE_URL", None)
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        subprocess.run([*MANAGE, "migrate", "-v0"], env=self.env, check=True, cwd=ROOT)

    # --- processes

    def start(self, name: str) -> None:
        celery = [sys.executable, "-m", "celery", "-A", "relaysite"]
        argv = {
            "worker": [*celery, "worker", "-c", "1", "-l", "ERROR", "--without-gossip", "--without-mingle"],
            "beat": [*celery, "beat", "-l", "ERROR", "--pidfile", ""],
        }[name]
        log = (self.var / f"{name}.log").open("ab")
        self.children[name] = subprocess.Popen(
            argv, env=self.env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        log.close()

    def kill_worker(self) -> None:
        child = self.children.pop("worker")
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    def kill_supervisor(self) -> bool:
        """Whether there was one to kill."""
        row = self.one("SELECT pid FROM relays_driverclaim WHERE holder <> ''")
        if row is None:
            return False
        try:
            os.kill(row[0], signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def close(self) -> None:
        for child in self.children.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        self.kill_supervisor()

    # --- what is stored

    def one(self, query: str, *values: object) -> Any:
        with contextlib.closing(sqlite3.connect(self.var / "relaysite.sqlite3", timeout=20)) as connection:
            return connection.execute(query, values).fetchone()

    def all(self, query: str, *values: object) -> list[Any]:
        with contextlib.closing(sqlite3.connect(self.var / "relaysite.sqlite3", timeout=20)) as connection:
            return connection.execute(query, values).fetchall()

    def status(self, relay: str) -> str:
        return str(self.one("SELECT status FROM relays_relay WHERE id = ?", relay)[0])

    # --- the command line

    def relay(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> Any:
        done = subprocess.run(
            [*MANAGE, "relay", *arguments, "--json"], env=self.env, cwd=ROOT, capture_output=True, timeout=60
        )
        assert done.returncode in ok, (arguments, done.returncode, done.stderr.decode())
        return json.loads(done.stdout) if done.stdout.strip() else None

    def wait_for_claim(self, relay: str, resting: set[str], seconds: float) -> bool:
        """Wait until a supervisor drives the relay; False when it rests instead."""
        deadline = time.monotonic() + seconds
        while self.one("SELECT 1 FROM relays_driverclaim WHERE holder <> ''") is None:
            if self.status(relay) in resting:
                return False
            assert time.monotonic() < deadline, f"nobody drives {relay} after {seconds} s: {self.logs()}"
            time.sleep(0.05)
        return True

    def wait_for(self, relay: str, statuses: set[str], seconds: float) -> str:
        deadline = time.monotonic() + seconds
        while (status := self.status(relay)) not in statuses:
            assert time.monotonic() < deadline, f"{relay} is {status}, not {statuses}, after {seconds} s: {self.logs()}"
            time.sleep(0.05)
        return status

    def logs(self) -> str:
        """The end of every log, for the words of a failed test."""
        found = []
        for path in [*self.var.glob("*.log"), *self.var.glob("legs/*/supervisor.log"), self.var / "errors.log"]:
            if path.exists():
                found.append(f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}")
        return "\n".join(found)


def processes_with(entry: str) -> list[int]:
    """Pids whose environment has this `NAME=value`: a relay's agent and all that it started."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry.encode() in (place / "environ").read_bytes().split(b"\0"):
                found.append(int(place.name))
    return found
