"""One agent's whole process tree: started contained, ended whole, and never left behind.

Mission: a leg "ends at a safe point, never mid-action"; what a leg started must be gone before its successor starts.
Killing the program is not enough (an agent's tools run in sessions of their own), so the tree is contained (see
`contained`); and the kernel kills the wrapper when the supervisor dies (parent-death signal), even by `kill -9`.
"""

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from relays.agents import limits as bounds
from relays.agents.contained import WRAPPERS, Containment, Tree, containment, prefix_of
from relays.agents.limits import Limits
from relays.agents.tree import (
    LINUX,
    MARKER,
    PAUSE,
    StillAlive,
    alive,
    boot_id,
    identity,
    kill_by_marker,
    living,
    stat,
    this_process,
)
from relays.agents.withheld import Withheld

__all__ = [
    "MARKER",
    "AgentProcess",
    "CappedLog",
    "Containment",
    "LaunchError",
    "StillAlive",
    "alive",
    "boot_id",
    "containment",
    "identity",
    "kill_by_marker",
    "launch",
    "living",
    "this_process",
]

STDERR_CAP = 1024 * 1024

_LIBC = ctypes.CDLL(None, use_errno=True) if LINUX else None
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_CHUNK = 65536
_LINE = 65536  # bytes of a log that wait for the end of their line


class LaunchError(Exception):
    """The agent could not be started; one line: what, where."""


def _die_with(parent: int, limits: Limits | None = None) -> Callable[[], None]:
    """What the child does between fork and exec; only prepared things are touched there."""
    libc, kill, apply = _LIBC, int(signal.SIGKILL), bounds.prepare(limits or Limits())

    def prepare() -> None:
        if libc is not None and libc.prctl(_PR_SET_PDEATHSIG, kill, 0, 0, 0) != 0:
            os._exit(126)
        if os.getppid() != parent:  # it died before the signal was asked for
            os._exit(126)
        apply()

    return prepare


class CappedLog:
    """A file that keeps the newest output: two halves of at most half the cap, `<path>` and `<path>.1` before it.

    `withheld` takes the secrets out of each line before it is written; a line waits for its end for that.
    """

    def __init__(self, path: Path, cap: int = STDERR_CAP, withheld: Withheld | None = None) -> None:
        self._path = path
        self._half = max(1, cap // 2)
        self._withheld = withheld
        self._begun = bytearray()
        self._file = self._open()

    def _open(self) -> IO[bytes]:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        return open(descriptor, "ab", buffering=0)

    def write(self, data: bytes) -> None:
        if self._withheld is None:
            self._put(data)
            return
        self._begun += data
        end = len(self._begun) if len(self._begun) > _LINE else self._begun.rfind(b"\n") + 1
        whole = bytes(self._begun[:end])
        del self._begun[:end]
        self._put(self._withheld.log(whole))

    def flush(self) -> None:
        """What has no end of line yet, too: nothing more follows."""
        if self._withheld is not None and self._begun:
            left = bytes(self._begun)
            self._begun.clear()
            self._put(self._withheld.log(left))

    def _put(self, data: bytes) -> None:
        while data:
            room = self._half - self._file.tell()
            if room <= 0:
                self._file.close()
                os.replace(self._path, self._path.with_name(self._path.name + ".1"))
                self._file = self._open()
                continue
            written = self._file.write(data[:room]) or 0
            data = data[written:]

    def close(self) -> None:
        if not self._file.closed:
            self.flush()
            self._file.close()


class AgentProcess(Tree):
    """A started agent, our own child. `stdin`, `stdout` and `stderr` are our ends of its pipes, raw and non-blocking.

    Only the thread that started it may use it.
    """

    def __init__(self, popen: "subprocess.Popen[bytes]", kind: Containment, marker: str, log: CappedLog) -> None:
        if popen.stdin is None or popen.stdout is None or popen.stderr is None:
            raise ValueError("an agent needs all three pipes")
        self._popen = popen
        self._log = log
        self.stdin: IO[bytes] = popen.stdin
        self.stdout: IO[bytes] = popen.stdout
        self.stderr: IO[bytes] = popen.stderr
        for pipe in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(pipe.fileno(), False)
        seen = stat(popen.pid)
        super().__init__(popen.pid, seen[2] if seen else 0, boot_id(), kind, marker)

    def poll(self) -> int | None:
        """The exit code once it has ended (negative: the signal that ended it), else None."""
        return self._popen.poll()

    def drain_stderr(self) -> bool:
        """Move what stderr holds now into the capped file, without ever waiting; False once nothing can follow."""
        if self.stderr.closed:
            return False
        try:
            chunk = os.read(self.stderr.fileno(), _CHUNK)
        except BlockingIOError:
            return True  # nothing now
        except OSError:
            chunk = b""
        if not chunk:
            self.stderr.close()
            self._log.flush()
            return False
        self._log.write(chunk)
        return True

    def terminate(self, grace: float = 5.0) -> None:
        """SIGTERM to the agent, up to `grace` seconds for it to end by itself, then the whole tree is killed."""
        if self.poll() is None:
            for pid in self._agents():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while self.poll() is None and time.monotonic() < deadline:
            self.drain_stderr()
            time.sleep(PAUSE)
        self.kill_tree()

    def kill_tree(self, wait: float = 5.0) -> None:
        """As promised by `Tree`; the pipes stay open, so that the last output can still be read."""
        super().kill_tree(wait)
        for _ in range(4):  # the last words, at most a pipe full; never waits
            self.drain_stderr()

    def close(self) -> None:
        """Close our ends of the pipes and the log. The tree is not ended by this."""
        for pipe in (self.stdin, self.stdout, self.stderr):
            with contextlib.suppress(OSError):
                pipe.close()
        self._log.close()

    def _strike_wrapper(self) -> None:
        self._popen.kill()


def launch(
    argv: Sequence[str],
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    marker: str,
    log_dir: str | Path,
    contain: Containment | None = None,
    limits: Limits | None = None,
) -> AgentProcess:
    """Start one agent, contained, with exactly `env` plus the marker; its stderr goes to `log_dir/stderr.log` (capped,
    and without the secrets in `env`).

    Only from the main thread: the parent-death signal follows the THREAD that forked. `contain` forces a kind.
    Raises LaunchError when it cannot be started.
    """
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("an agent is started from the main thread only")
    if not argv or not marker or "\0" in marker:
        raise LaunchError("an agent needs a program and a marker")
    kind = contain or containment()
    environment = {**env, MARKER: marker}
    check_program(argv[0], Path(cwd), environment.get("PATH", os.defpath))
    prefix = prefix_of(kind)
    if kind in WRAPPERS and not prefix:
        raise LaunchError(f"containment {kind} needs the program unshare, which is not there")
    become_subreaper(kind)
    folder = Path(log_dir)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    log = CappedLog(folder / "stderr.log", withheld=Withheld(env))
    try:
        popen = subprocess.Popen(
            [*prefix, *argv],
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            preexec_fn=_die_with(os.getpid(), limits),
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        log.close()
        raise LaunchError(f"{argv[0]!r} could not be started in {cwd}: {error}") from error
    return AgentProcess(popen, kind, marker, log)


def become_subreaper(kind: Containment) -> None:
    """Where nothing else holds an agent's orphans together they become our children, not those of the first process."""
    if kind is Containment.SUBREAPER and _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def check_program(program: str, cwd: Path, path: str) -> None:
    """Said before the start, because inside a wrapper a missing program is only an exit code."""
    if not cwd.is_dir():
        raise LaunchError(f"the folder {cwd} to start {program!r} in is not there")
    candidate = str(cwd / program) if os.sep in program else program
    if not program or "\0" in program or shutil.which(candidate, path=path) is None:
        raise LaunchError(f"the program {program!r} is not there or not executable (PATH {path})")
