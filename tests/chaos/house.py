"""A house of its own for kill tests: database, broker, workers, beat and people in one folder."""

import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests import histories

ROOT = Path(__file__).resolve().parents[2]
MANAGE = [sys.executable, str(ROOT / "manage.py")]


class House:
    """Everything under `folder`; `kill_*` are SIGKILL, as a machine would do it. Changes of state are recorded."""

    def __init__(self, folder: Path) -> None:
        self.var = folder / "var"
        self.env = {**os.environ, "RELAY_VAR": str(self.var), "LOG_LEVEL": "ERROR"}
        self.env.pop("DATABASE_URL", None)
        self.children: dict[str, subprocess.Popen[bytes]] = {}
        subprocess.run([*MANAGE, "migrate", "-v0"], env=self.env, check=True, cwd=ROOT)
        with contextlib.closing(self._connect()) as connection:
            for statement in histories.SQLITE:
                connection.execute(statement)
            connection.commit()

    # --- processes

    def start(self, name: str) -> None:
        """`beat`, or a worker: any name that begins so."""
        celery = [sys.executable, "-m", "celery", "-A", "relaysite"]
        argv = [*celery, "beat", "-l", "ERROR", "--pidfile", ""]
        if name.startswith("worker"):
            argv = [*celery, "worker", "-n", name, "-c", "1", "-l", "ERROR", "--without-gossip", "--without-mingle"]
        log = (self.var / f"{name}.log").open("ab")
        self.children[name] = subprocess.Popen(
            argv, env=self.env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        log.close()

    def people(self, requests: list[dict[str, Any]]) -> list[str]:
        """They start these relays and then approve whatever waits; the relays' ids."""
        log = (self.var / "people.log").open("ab")
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.people", *map(json.dumps, requests)],
            env=self.env, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
        )  # fmt: skip
        log.close()
        self.children["people"] = child
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in requests]
        assert all(said), self.logs()
        return [json.loads(line)["relay"] for line in said]

    def kill_worker(self, name: str) -> None:
        child = self.children.pop(name)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()

    def kill_supervisor(self, relay: str) -> bool:
        """Whether there was one to kill."""
        row = self.one("SELECT pid FROM relays_driverclaim WHERE holder <> '' AND relay_id = ?", relay)
        if row is None:
            return False
        try:
            os.kill(row[0], signal.SIGKILL)
        except ProcessLookupError:
            return False
        return True

    def kill_agent(self, relay: str, dice: random.Random) -> bool:
        """One process of the living leg's agent: its wrapper, itself or a tool. Whether there was one."""
        row = self.one(
            "SELECT marker FROM relays_leg WHERE relay_id = ? AND marker <> '' ORDER BY number DESC LIMIT 1", relay
        )
        found = sorted(marked({row[0]})) if row else []
        if not found:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(dice.choice(found), signal.SIGKILL)
            return True
        return False

    def close(self) -> None:
        for child in self.children.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
            for pipe in (child.stdin, child.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()
        for (relay,) in self.all("SELECT id FROM relays_relay"):
            self.kill_supervisor(relay)
        for pid in marked(self.markers()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def markers(self) -> set[str]:
        """Of every agent that was ever started here."""
        return {row[0] for row in self.all("SELECT marker FROM relays_leg WHERE marker <> ''")}

    # --- what is stored

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.var / "relaysite.sqlite3", timeout=20)

    def one(self, query: str, *values: object) -> Any:
        with contextlib.closing(self._connect()) as connection:
            return connection.execute(query, values).fetchone()

    def all(self, query: str, *values: object) -> list[Any]:
        with contextlib.closing(self._connect()) as connection:
            return connection.execute(query, values).fetchall()

    def statuses(self) -> dict[str, str]:
        return dict(self.all("SELECT id, status FROM relays_relay"))

    def logs(self) -> str:
        """The end of every log, for the words of a failed test."""
        found = []
        for path in [*self.var.glob("*.log"), *self.var.glob("legs/*/supervisor.log"), self.var / "errors.log"]:
            if path.exists():
                found.append(f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}")
        return "\n".join(found)


def marked(markers: set[str]) -> list[int]:
    """Pids whose environment has one of these markers: agents and all that they started."""
    wanted = {f"RELAY_MARKER={marker}".encode() for marker in markers}
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if wanted & set((place / "environ").read_bytes().split(b"\0")):
                found.append(int(place.name))
    return found
