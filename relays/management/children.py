"""The processes of `serve`: started in groups of their own, logged to files, restarted when they die, ended cleanly."""

import ctypes
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from logging.handlers import RotatingFileHandler
from pathlib import Path

RESTARTS_A_MINUTE = 5
LOG_BYTES = 5 * 1024 * 1024
_LOUD = re.compile(r"\b(ERROR|CRITICAL|FATAL)\b")
#: uvicorn's word for live pages that were open when it was asked to end: nothing that anybody could mend
_USUAL = re.compile(r"Cancel \d+ running task\(s\), timeout graceful shutdown exceeded")
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """In the child: a `kill -9` of serve must not leave a worker behind that nobody watches."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


@dataclass
class Child:
    """One kind of process. `starts`: when it was started lately, on the monotonic clock."""

    name: str
    argv: Sequence[str]
    log: Path
    process: "subprocess.Popen[str] | None" = None
    due: float = 0.0  # not started again before
    starts: deque[float] = field(default_factory=deque)
    pump: threading.Thread | None = None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        """To its whole group; nothing when it is gone."""
        if self.process is not None and self.process.poll() is None:
            try:
                os.killpg(self.process.pid, number)
            except ProcessLookupError:
                return


class TooManyRestarts(Exception):
    """A child that will not stay up; one line."""


class Children:
    """Starts, watches and ends them. `say` gets one line for a person at a time. Use it from the main thread only."""

    def __init__(self, env: Mapping[str, str], cwd: Path, say: Callable[[str], None]) -> None:
        self.env = dict(env)
        self.cwd = cwd
        self.say = say
        self.children: list[Child] = []

    def add(self, name: str, argv: Sequence[str], log: Path) -> Child:
        log.parent.mkdir(parents=True, exist_ok=True)
        child = Child(name, argv, log)
        self.children.append(child)
        self._start(child)
        return child

    def _start(self, child: Child) -> None:
        child.starts.append(time.monotonic())
        child.process = subprocess.Popen(
            child.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=self.env,
            cwd=self.cwd,
            start_new_session=True,
            preexec_fn=_end_with_parent,
        )
        child.pump = threading.Thread(target=self._pump, args=(child, child.process), daemon=True)
        child.pump.start()

    def _pump(self, child: Child, process: "subprocess.Popen[str]") -> None:
        """Everything into the file, errors to the terminal too."""
        handler = RotatingFileHandler(child.log, maxBytes=LOG_BYTES, backupCount=1, encoding="utf-8", errors="replace")
        handler.setFormatter(logging.Formatter("%(message)s"))
        logger = logging.Logger(f"serve.{child.name}.{process.pid}")
        logger.addHandler(handler)
        if process.stdout is None:
            return
        with process.stdout as lines:
            for line in lines:
                text = line.rstrip("\n")
                logger.info("%s", text)
                if _LOUD.search(text) and not _USUAL.search(text):
                    self.say(f"{child.name}: {text}")
        handler.close()

    def watch(self) -> None:
        """Restart whoever died, later each time; call it often. Raises TooManyRestarts."""
        now = time.monotonic()
        for child in self.children:
            if child.running:
                continue
            if child.process is not None:
                code = child.process.returncode
                while child.starts and now - child.starts[0] > 60:
                    child.starts.popleft()
                if len(child.starts) > RESTARTS_A_MINUTE:
                    times = len(child.starts)
                    raise TooManyRestarts(
                        f"{child.name} ended {times} times in a minute (exit {code}); see {child.log}"
                    )
                wait = min(0.5 * 2 ** len(child.starts), 10.0)
                self.say(f"{child.name} ended (exit {code}); it is started again in {wait:g} s; see {child.log}")
                child.process, child.due = None, now + wait
            elif now >= child.due:
                self._start(child)

    def stop(self, names: Sequence[str], patience: float) -> list[str]:
        """SIGTERM and up to `patience` seconds, then SIGKILL; the names of those that had to be killed."""
        wanted = [child for child in self.children if child.name in names]
        for child in wanted:
            # only the program itself: celery's pool processes are ended by celery
            if child.process is not None and child.running:
                child.process.terminate()
        deadline = time.monotonic() + patience
        while any(child.running for child in wanted) and time.monotonic() < deadline:
            time.sleep(0.05)
        killed = [child.name for child in wanted if child.running]
        for child in wanted:
            self._finish(child)
        return killed

    def kill(self) -> None:
        """All of them at once."""
        for child in self.children:
            self._finish(child)

    @staticmethod
    def _finish(child: Child) -> None:
        child.signal(signal.SIGKILL)
        if child.process is not None:
            child.process.wait()
        if child.pump is not None:
            child.pump.join(2)  # its last lines; a grandchild that holds the pipe is not waited for
