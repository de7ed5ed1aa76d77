"""An agent whose tree outlives its supervisor: the next one finds it, opens the same socket and goes on in its leg.

rules.md, The driver: "Crash of a supervisor: agent alive and this leg's → re-adopt where the adapter can, else end it."
Such an agent has no pipes of ours, which would break with us: it speaks over the socket only, its stdout and stderr go
to a file. It is contained like any other, but nothing ends it when its supervisor dies; so its wrapper is found again
by pid, start time, boot and marker, and ended by whoever has the leg's claim then.
"""

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from relays.agents.contained import WRAPPERS, Containment, Tree, containment, prefix_of
from relays.agents.limits import Limits, prepare
from relays.agents.process import MARKER, LaunchError, become_subreaper, check_program
from relays.agents.tree import alive, boot_id, stat, strike
from relays.agents.withheld import Withheld

RECORD = "agent.json"  # in the leg's folder: where its socket is and how it is contained
LOG = "stderr.log"
LOG_CAP = 1024 * 1024
UNKNOWN_EXIT = -9  # it ended and nobody saw how

_EXIT = "agent.exit"
#: its exit code survives whoever would have waited for it; renamed, so that it is there whole or not at all
_SHIM = '"$@"; code=$?; echo "$code" >"$0.new" && mv -f "$0.new" "$0"; exit "$code"'


@dataclass(frozen=True, slots=True)
class Record:
    """What the next supervisor needs beside the leg's row."""

    socket_path: str
    containment: Containment


def read_record(folder: Path) -> Record | None:
    """The record in a leg's folder; None when there is none that can be read."""
    try:
        found = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return Record(str(found["socket"]), Containment(found["containment"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


class OutlivingAgent(Tree):
    """A living agent, started by us or by a supervisor before us. Only the thread that holds it may use it."""

    def __init__(self, pid: int, started: int, boot: str, kind: Containment, marker: str, folder: Path) -> None:
        super().__init__(pid, started, boot, kind, marker)
        self._folder = folder
        self._code: int | None = None

    def poll(self) -> int | None:
        """The exit code once its wrapper has ended, UNKNOWN_EXIT when nobody saw it, else None."""
        if self._code is None:
            with contextlib.suppress(ChildProcessError):  # not our child when a supervisor before us started it
                done, status = os.waitpid(self.pid, os.WNOHANG)
                if done:
                    self._code = os.waitstatus_to_exitcode(status)
            if self._code is None and not alive(self.pid, self.started, self.boot_id):
                self._code = self._written_code()
        return self._code

    def trim_log(self) -> None:
        """Keep the newest half of a log that has grown past its cap; the agent goes on writing at its end."""
        path = self._folder / LOG
        with contextlib.suppress(OSError):
            size = path.stat().st_size
            if size <= LOG_CAP:
                return
            with path.open("rb") as source:
                source.seek(size - LOG_CAP // 2)
                path.with_name(LOG + ".1").write_bytes(source.read(LOG_CAP // 2))
            os.truncate(path, 0)

    def withhold(self, withheld: Withheld) -> None:
        """Take the secrets out of what it wrote, once it has ended: it wrote its log itself."""
        for name in (LOG, LOG + ".1"):
            with contextlib.suppress(OSError):
                path = self._folder / name
                was = path.read_bytes()
                if (kept := withheld.log(was)) != was:
                    path.write_bytes(kept)

    def close(self) -> None:
        """Nothing of ours is open: the tree goes on."""

    def _strike_wrapper(self) -> None:
        strike(self.pid, lambda: alive(self.pid, self.started, self.boot_id))

    def _written_code(self) -> int:
        try:
            return int((self._folder / _EXIT).read_text(encoding="ascii").strip())
        except (OSError, ValueError):
            return UNKNOWN_EXIT


def launch(
    argv: Sequence[str],
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    marker: str,
    log_dir: str | Path,
    socket_path: str,
    contain: Containment | None = None,
    limits: Limits | None = None,
) -> OutlivingAgent:
    """Start one agent that outlives us, contained, with exactly `env` plus the marker. Raises LaunchError."""
    kind = contain or containment()
    environment = {**env, MARKER: marker}
    check_program(argv[0] if argv else "", Path(cwd), environment.get("PATH", os.defpath))
    prefix, shell = prefix_of(kind), shutil.which("sh")
    if shell is None or (kind in WRAPPERS and not prefix):
        raise LaunchError(f"containment {kind} needs the programs sh and unshare; one of them is not there")
    become_subreaper(kind)
    folder = Path(log_dir)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / _EXIT).unlink(missing_ok=True)
    new = folder / (RECORD + ".new")
    new.write_text(json.dumps({"socket": socket_path, "containment": kind.value}), encoding="utf-8")
    os.replace(new, folder / RECORD)
    output = os.open(folder / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        popen = subprocess.Popen(
            [*prefix, shell, "-c", _SHIM, str(folder / _EXIT), *argv],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=prepare(limits or Limits()),
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise LaunchError(f"{argv[0]!r} could not be started in {cwd}: {error}") from error
    finally:
        os.close(output)
    seen = stat(popen.pid)
    popen.returncode = 0  # whoever holds it waits for it by its pid: this object is let go while it runs
    return OutlivingAgent(popen.pid, seen[2] if seen else 0, boot_id(), kind, marker, folder)


def find(pid: int, started: int, boot: str, marker: str, folder: Path) -> OutlivingAgent | None:
    """The agent that a supervisor before us started, if it lives and is that very one; else None."""
    record = read_record(folder)
    if record is None or not marker or not alive(pid, started, boot):
        return None
    return OutlivingAgent(pid, started, boot, record.containment, marker, folder)
