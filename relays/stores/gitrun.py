"""The only door to git: one hardened process a call, through GitPython as a thin runner.

Baton contract: "A watched repository's own config must never run a program", and refs "are validated before they reach
a process or a path". Every call has a time limit; no call fetches, asks for a password or takes an optional lock.
"""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import tempfile
import time
import unicodedata
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol, cast

from relays.stores.base import BadName, StoreUnavailable

os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")  # a machine without git gets our one line, not an import error

from git import Git
from git.exc import GitCommandNotFound

from relays.core.lines import recorded

TIMEOUT: Final = 20.0  # seconds
_CHUNK: Final = 1 << 16
_ERR_BYTES: Final = 1 << 20  # of messages that are kept

_FLAGS: Final = (
    "--no-pager",
    "-c", "core.fsmonitor=false",
    "-c", "core.hooksPath=/dev/null",
    "-c", "protocol.allow=never",
    "-c", "gc.auto=0",
    "-c", "maintenance.auto=false",
    "-c", "submodule.recurse=false",
)  # fmt: skip
_ENV: Final = {
    "GIT_OPTIONAL_LOCKS": "0",  # watching must never break the agent's own commit
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": ":",
    "GIT_ASKPASS": "",
    "SSH_ASKPASS": "",
    "GIT_COMMIT_GRAPH_PARANOIA": "1",  # a commit-graph that outlived its objects proves nothing
}
_NO_CONFIG: Final = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_ATTR_NOSYSTEM": "1"}

#: who commits and where the user's config lies are the user's to say; each run below sets what it must not inherit
_HARMLESS: Final = (
    "GIT_PYTHON_",
    "GIT_AUTHOR_",
    "GIT_COMMITTER_",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
)

_HEX: Final = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})\Z")
_REF_BAD: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|(?:^|/)\.|\.lock(?:/|\Z)|[/.]\Z")

#: called with the arguments of each process that starts; tests count with it
watchers: list[Callable[[Sequence[str]], None]] = []


class Sink(Protocol):
    """What takes a process's output piece by piece."""

    def write(self, chunk: bytes, /) -> int: ...


@dataclass(frozen=True, slots=True)
class GitResult:
    """`out` is what the process printed, byte for byte; `err` its messages, for people."""

    code: int
    out: bytes
    err: str


def scrub() -> None:
    """Remove what a hook or a shell left behind (`GIT_DIR`, `GIT_INDEX_FILE`, …): it would change what is read."""
    for name in [name for name in os.environ if name.startswith("GIT_") and not name.startswith(_HARMLESS)]:
        os.environ.pop(name, None)


scrub()


def run(
    args: Sequence[str],
    *,
    cwd: Path,
    stdin: bytes | BinaryIO | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
    ok: Collection[int] = (0,),
    user_config: bool = False,
    sink: Sink | None = None,
) -> GitResult:
    """Run `git <args>` in `cwd`, hardened, and return what it said.

    `user_config`: read the user's and the machine's own git config too (line ends, ignore file, `safe.directory`, large
    files); for questions about a work tree, which must look as it looks to the agent, who is the same user.
    `sink`: a file that takes the output instead of `GitResult.out`.
    Raises StoreUnavailable when the exit code is not in `ok`, when the time is over, or when there is no git.
    """
    return begin(args, cwd=cwd, stdin=stdin, env=env, user_config=user_config).result(timeout=timeout, ok=ok, sink=sink)


def begin(
    args: Sequence[str],
    *,
    cwd: Path,
    stdin: bytes | BinaryIO | None = None,
    env: Mapping[str, str] | None = None,
    user_config: bool = False,
) -> "Begun":
    """Start `git <args>` as `run` does, and leave the answer for later. One that nobody asks for is ended.

    Raises StoreUnavailable when it cannot be started.
    """
    scrub()
    for watcher in watchers:
        watcher(args)
    # -C, not GitPython's working directory: that one expands $NAME in paths, and falls back to the present directory
    command = [Git.GIT_PYTHON_GIT_EXECUTABLE or "git", *_FLAGS, "-C", str(cwd), *args]
    environment = {**_ENV, **({} if user_config else _NO_CONFIG), **(env or {})}
    with contextlib.ExitStack() as stack:
        source: BinaryIO | None = None
        if isinstance(stdin, bytes):
            source = cast("BinaryIO", stack.enter_context(tempfile.TemporaryFile()))
            source.write(stdin)
            source.seek(0)
        elif stdin is not None:
            source = stdin
        try:
            # a group of its own, so that whatever git started ends with it when the time is over
            started = Git(os.sep).execute(command, source, as_process=True, env=environment, start_new_session=True)
        except GitCommandNotFound as error:
            raise StoreUnavailable(
                recorded("git is not installed"), fix=recorded("install git and try again")
            ) from error
        except (OSError, ValueError) as error:
            raise StoreUnavailable(
                recorded("git could not start: %(error)s", error=type(error).__name__), where=str(cwd)
            ) from error
    return Begun(started, cwd)


class Begun:
    """A git process that was started. Its answer is asked for once, or it is dropped."""

    def __init__(self, started: Git.AutoInterrupt, cwd: Path) -> None:
        self._started = started
        self._cwd = cwd
        self._asked = False
        self.began = time.monotonic()

    def drop(self) -> None:
        """End it: nobody asks for its answer. Safe to repeat."""
        if not self._asked and self._started.proc is not None:
            self._asked = True
            _kill(cast("subprocess.Popen[bytes]", self._started.proc))

    __del__ = drop

    def result(self, *, timeout: float = TIMEOUT, ok: Collection[int] = (0,), sink: Sink | None = None) -> GitResult:
        """What it said, as `run` promises; `timeout` counts from now."""
        process = cast("subprocess.Popen[bytes]", self._started.proc)
        self._asked = True
        try:
            if sink is None:
                code, out, err = _answer(process, timeout)
            else:
                code, out, err = _poured(process, timeout, sink)
        except (OSError, ValueError) as error:
            _kill(process)
            raise StoreUnavailable(
                recorded("git could not be read: %(error)s", error=type(error).__name__), where=str(self._cwd)
            ) from error
        result = GitResult(code, out, err)
        if code not in ok:
            raise unavailable(result, self._cwd, timeout)
        return result


def _answer(process: "subprocess.Popen[bytes]", timeout: float) -> tuple[int, bytes, str]:
    """Exit code, output and messages. Waited for here: a watchdog thread would cost a fifth of a short question."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        return _kill(process), b"", recorded("it did not complete in %(timeout)s s", timeout=f"{timeout:g}")
    return process.returncode, out, text(err).removesuffix("\n")


def _poured(process: "subprocess.Popen[bytes]", timeout: float, sink: Sink) -> tuple[int, bytes, str]:
    """The same, with the output poured into `sink` as it comes."""
    deadline = time.monotonic() + timeout
    err = Capped(_ERR_BYTES)
    with selectors.DefaultSelector() as waits:
        for pipe, into in ((process.stdout, sink), (process.stderr, err)):
            if pipe is not None:
                waits.register(pipe, selectors.EVENT_READ, into)
        while waits.get_map():
            ready = waits.select(max(deadline - time.monotonic(), 0))
            if not ready and time.monotonic() >= deadline:
                return _kill(process), b"", recorded("it did not complete in %(timeout)s s", timeout=f"{timeout:g}")
            for key, _ in ready:
                chunk = os.read(key.fd, _CHUNK)
                if chunk:
                    key.data.write(chunk)
                else:
                    waits.unregister(key.fileobj)
    try:
        code = process.wait(max(deadline - time.monotonic(), 0.1))
    except subprocess.TimeoutExpired:
        return _kill(process), b"", recorded("it did not complete in %(timeout)s s", timeout=f"{timeout:g}")
    _close(process)
    return code, b"", text(bytes(err.kept)).removesuffix("\n")


def _kill(process: "subprocess.Popen[bytes]") -> int:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    _close(process)
    return process.wait()


def _close(process: "subprocess.Popen[bytes]") -> None:
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()


def unavailable(result: GitResult, cwd: Path, timeout: float = TIMEOUT) -> StoreUnavailable:
    """The error for a process that ended badly, in one line."""
    err = result.err
    if result.code < 0 and "did not complete in" in err:
        return StoreUnavailable(
            recorded("git did not answer within %(timeout)s s", timeout=f"{timeout:g}"), where=str(cwd)
        )
    if "dubious ownership" in err:
        return StoreUnavailable(
            recorded("git refuses the repository: dubious ownership"),
            where=str(cwd),
            fix=recorded("run as its owner, or name its path in safe.directory of your git config"),
        )
    if "not a git repository" in err:
        return StoreUnavailable(
            recorded("no such repository"), where=str(cwd), fix=recorded("name a folder inside a git repository")
        )
    if "cannot change to" in err:
        return StoreUnavailable(
            recorded("no such folder"), where=str(cwd), fix=recorded("name a folder inside a git repository")
        )
    return StoreUnavailable(
        recorded("git cannot answer: %(said)s", said=_first_line(err) or f"exit code {result.code}"), where=str(cwd)
    )


def _first_line(err: str) -> str:
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    line = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[0] if lines else "")
    line = re.sub(r"^(?:(?:fatal|error):\s*)+", "", line)
    # evidence stands in plans, which must be the same on every machine: only the last part of a path is kept
    line = re.sub(r"'/[^']*?([^/']*)/?'", r"'\1'", line)
    line = re.sub(r"(?<![\w./-])/(?:[^\s/:'\"]+/)*([^\s/:'\"]+)", r"\1", line)
    return plain(line)[:300]


def text(raw: bytes) -> str:
    """Bytes from git as text that any table, page and JSON can hold."""
    return raw.decode("utf-8", "replace")


def plain(line: str) -> str:
    """One line for people: controls, line ends and lone surrogates become a replacement character."""
    return "".join("\ufffd" if unicodedata.category(char) in {"Cc", "Zl", "Zp", "Cs"} else char for char in line)


def is_sha(value: str) -> bool:
    """Full lower-case hex of an object name, 40 or 64 long; nothing else ever reaches git as an object."""
    return _HEX.match(value) is not None


def need_sha(value: str) -> str:
    """`value`, or BadName."""
    if not is_sha(value):
        raise BadName(recorded("%(value)s is not a full lower-case SHA", value=repr(plain(value)[:80])))
    return value


def need_ref(name: str) -> str:
    """A full ref name that git would take and that cannot be read as an option or leave its folder; else BadName."""
    if not name.startswith("refs/") or name.count("/") < 2:
        raise BadName(recorded("%(name)s is not a full ref name", name=repr(plain(name)[:80])))
    need_branch(name)
    return name


def need_branch(name: str) -> str:
    """A branch name by git's own rules, stricter in nothing but the leading dash; else BadName."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= 250 or name.startswith(("-", "/")) or name in {"@", "HEAD"} or _REF_BAD.search(name):
        raise BadName(recorded("%(name)s is not a name for a branch", name=repr(plain(name)[:80])))
    return name


def need_path(path: str) -> str:
    """A path inside a tree: relative, no `..`, no controls; else BadName."""
    parts = path.split("/")
    bad = not path or path.startswith("-") or "\\" in path or plain(path) != path
    if bad or any(part in {"", ".", ".."} for part in parts):
        raise BadName(recorded("%(path)s is not a path inside the repository", path=repr(plain(path)[:80])))
    return path


class Capped:
    """A sink that keeps the first `limit` bytes and lets the rest go by, so that no output fills the memory."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.kept = bytearray()
        self.full = False

    def write(self, chunk: bytes, /) -> int:
        room = self.limit - len(self.kept)
        self.full = self.full or len(chunk) > room
        self.kept += chunk[: max(room, 0)]
        return len(chunk)


@contextmanager
def counting() -> Iterator[list[Sequence[str]]]:
    """The arguments of every git process that starts inside the block."""
    seen: list[Sequence[str]] = []
    watchers.append(seen.append)
    try:
        yield seen
    finally:
        watchers.remove(seen.append)
