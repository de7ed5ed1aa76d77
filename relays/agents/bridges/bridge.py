"""What every bridge has in common: one program, its lines, its hooks, the supervisor's answers, its end.

spec/agents.md 0: a driver has an in-flight set of several tools, counts usage once a message, and judges the end by
"(last result event, exit code, was-I-stopping) together". A bridge that dies takes its program with it: it is the
first process of the leg's pid namespace, or is found by the leg's marker. Single-threaded; standard library only.

A bridge is a subclass that overrides `start`, `said`, `hook`, `told` and `verdict`, and calls what stands under
"what a bridge says". No event may follow a `final` boundary but what the program does after it was told to go on.
"""

import contextlib
import json
import os
import selectors
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from relays.agents.bridges.hooks import HookCall, HookSocket, is_below, path_beside
from relays.agents.bridges.line import PATH_CHARS, Line, count, cut

#: the one text by which an agent is told to come to an end; it asks for no recap
WIND_DOWN: Final = (
    "RELAY_ARMED: this leg ends soon. Finish the current action and begin nothing new. Put what the next leg needs "
    "into a commit, an issue, a ledger row, a memory file or a tracked file, and declare it with the query tool (fact, "
    "decision, open_question, dead_end), each with its pointer. Leave the tree clean. Then name "
    "exactly one next_action, and say externalized last. The query tool's safe_point says what still holds."
)
STOPPED: Final = "the leg ends here"
GENTLE: Final = 5.0  # seconds that a program has to end by itself once it was told; the supervisor waits 10
FIRM: Final = 2.0  # seconds after SIGTERM
LINE_BYTES: Final = 64 * 1024 * 1024  # of one line of a program; a longer one is dropped
_CHUNK: Final = 1 << 16
_READS: Final = 64  # of a chunk each, at one time

Fields = Mapping[str, Any]


class Bridge:
    """Runs one program for one leg. `args`: `program` and `folder` (this leg's own, private), and the agent's own."""

    def __init__(self, args: Mapping[str, str], env: Mapping[str, str] | None = None) -> None:
        self.args = dict(args)
        self.env = dict(os.environ if env is None else env)
        self.program, self.folder = args["program"], Path(args["folder"])
        self.model = args.get("model", "")
        self.bounded = args.get("bounded", "1") == "1"  # held at its ceiling: no compaction is needed
        self.line = Line()
        self.in_flight: dict[str, str] = {}
        self.stopping = False
        self.exit_code: int | None = None
        self.popen: subprocess.Popen[bytes] | None = None
        self.hooks: HookSocket | None = None
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._held = bytearray()
        self._skipping = False
        self._unsent = bytearray()
        self._closing = False
        self._told_hold = ""
        self._gone: int | None = None

    # --- what a bridge overrides

    def start(self) -> None:
        """Start the program with `spawn` and give it the seed. An OSError says why it cannot be."""
        raise NotImplementedError

    def said(self, line: bytes) -> None:
        """One line that the program wrote to stdout."""

    def hook(self, call: HookCall) -> None:
        """One hook call; what the program wrote before it was `said` already. Answer it now or later."""
        call.answer()

    def verdict(self, code: int) -> int:
        """The program ended with this code (negative: by that signal), and nobody stopped it: what the leg is told."""
        return code

    # --- what a bridge says

    def turn_started(self) -> None:
        self.line.send("turn_started")

    def usage(self, message: str, model: str, buckets: Fields, *, chain: str = "main", cost: str | None = None) -> None:
        """One call's figures, known by its message id; said again, the larger figure of each bucket stands.

        `buckets`: input (uncached), cache_read, cache_write_5m, cache_write_1h, output; a cache bucket that is not
        reported is None.
        """
        figures = {
            key: None if buckets.get(key) is None and key.startswith("cache") else count(buckets.get(key))
            for key in ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")
        }
        more = {"cost": cost} if cost is not None else {}
        self.line.send("usage", model=cut(model, 120), message_id=cut(message, 120), **figures, chain=chain, **more)

    def tool_started(self, tool: str, name: str) -> None:
        """Once a tool: a second start of one that runs says nothing."""
        if tool not in self.in_flight:
            self.in_flight[tool] = name
            self.line.send("tool_started", id=cut(tool), name=cut(name))

    def tool_ended(self, tool: str, ok: bool, result_bytes: int) -> None:
        """Of one that was never started: it was refused before it ran, and its result is in the window all the same."""
        self.in_flight.pop(tool, None)
        self.line.send("tool_ended", id=cut(tool), ok=ok, result_bytes=count(result_bytes))

    def retry(self, cause: str, milliseconds: float | None = None) -> None:
        wait = {} if milliseconds is None else {"retry_in_ms": min(count(milliseconds), 86_400_000)}
        self.line.send("retry", cause=cause, **wait)

    def compacted(self, tokens_before: object = None) -> None:
        """The program shortened its window by itself, or was kept from it: the leg ran too long."""
        more = {} if tokens_before is None else {"tokens_before": count(tokens_before)}
        self.line.send("compacted", **more)

    def todo(self, key: str, is_open: bool, label: str = "") -> None:
        more = {"label": cut(label)} if label else {}
        self.line.send("todo", id=cut(key), open=is_open, **more)

    def file_written(self, path: str) -> None:
        if path:
            self.line.send("file_written", path=cut(path, PATH_CHARS))

    def boundary(self, then: Callable[[str], None], *, final: bool = False) -> None:
        """Ask what is to be done; `then` gets `go`, `wind_down <HOLD>` or `stop`. Until then no model call may pass."""
        self.line.boundary(then, final=final)

    def ask_tool(self, tool: str, name: str, then: Callable[[str], None]) -> None:
        """May this tool run? `then` gets `allow`, or `deny` and why."""
        self.line.ask_tool(cut(tool), cut(name), then)

    def words(self, answer: str, *, final: bool = False) -> str:
        """What the agent is told after an answer: WIND_DOWN where it winds down, "" where it was told and nothing
        changed since. At its own end it is told each time."""
        if not answer.startswith("wind_down"):
            return ""
        hold = answer.partition(" ")[2]
        told, self._told_hold = self._told_hold, hold or "-"
        return WIND_DOWN if final or told != self._told_hold else ""

    # --- the program

    def seed(self) -> str:
        """What the leg begins with, as it was made for it."""
        return Path(self.env["RELAY_SEED"]).read_text(encoding="utf-8")

    def mcp_argv(self) -> list[str]:
        """The query tool as an MCP server over stdio; it needs RELAY_SOCKET and RELAY_TOKEN, and nothing else."""
        return shlex.split(self.env["RELAY_MCP"])

    def own_file(self, name: str, text: str) -> str:
        """The path of a file of this leg alone, which the program is pointed at instead of the user's own."""
        path = self.folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
        return str(path)

    def own_environment(self) -> dict[str, str]:
        """Ours, which was made by the allowlist, for the program and so for its tools."""
        return dict(self.env)

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, stderr: Callable[[bytes], None] | None = None
    ) -> None:
        """Start the program in the leg's worktree; its stderr is ours, unless `stderr` takes what comes there."""
        popen = subprocess.Popen(
            list(argv),
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if stderr is None else subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self.popen = popen
        for pipe in (popen.stdin, popen.stdout, popen.stderr):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
        if popen.stdout is not None:
            self.watch(popen.stdout.fileno(), self._read_program)
        pin = os.pidfd_open(popen.pid)
        self.watch(pin, lambda: self._program_ended(popen, pin))
        if popen.stderr is not None and stderr is not None:
            source, take = popen.stderr, stderr
            self.watch(source.fileno(), lambda: self._read_stderr(source.fileno(), take))

    def tell(self, text: bytes) -> None:
        """Onto the program's stdin, as fast as it takes it."""
        self._unsent += text
        self._send()

    def close_stdin(self) -> None:
        """Nothing more is told, once all is sent."""
        self._closing = True
        self._send()

    def stop(self) -> None:
        """End the program: its stdin is closed, then SIGTERM, then SIGKILL; whoever supervises us ends all else."""
        if self.stopping:
            return
        self.stopping = True
        self.close_stdin()
        self.after(GENTLE, lambda: self.strike(signal.SIGTERM))
        self.after(GENTLE + FIRM, lambda: self.strike(signal.SIGKILL))

    def strike(self, number: signal.Signals) -> None:
        if self.popen is not None and self._gone is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.popen.pid, number)

    def watch(self, fd: int, ready: Callable[[], None]) -> None:
        """Call `ready` whenever something can be read from `fd`."""
        self._selector.register(fd, selectors.EVENT_READ, ready)

    def forget(self, fd: int) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(fd)

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self._timers.append((time.monotonic() + seconds, call))

    # --- hooks

    def hook_command(self, name: str = "") -> list[str]:
        """The command line of a hook that calls us; the first use opens the socket that it comes to."""
        path = path_beside(self.env["RELAY_SOCKET"])
        if not os.path.exists(path):
            self.hooks = HookSocket(
                path, watch=self.watch, forget=self.forget, take=self._hook_calls, may_call=self._may_call
            )
        program = str(Path(__file__).with_name("hook.py"))
        return [sys.executable, "-I", "-S", program, path, *([name] if name else [])]

    def _hook_calls(self, call: HookCall) -> None:
        self._read_program()  # what it wrote before it called
        self.hook(call)

    def _may_call(self, pid: int) -> bool:
        if self.popen is not None and is_below(pid, self.popen.pid):
            return True
        self.complain("a process that does not hang on the program spoke to its hooks; it is not heard")
        return False

    # --- the loop

    def run(self) -> int:
        """Until the program has ended; the exit code that tells how."""
        signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        os.set_blocking(0, False)
        self.watch(0, self._answers)
        try:
            self.start()
        except (OSError, ValueError) as error:
            self.complain(f"{self.program} could not be started: {error}")
            return 2
        try:
            while self.exit_code is None:
                self._once()
        except BrokenPipeError:
            return 1  # nobody listens any more
        finally:
            self.strike(signal.SIGKILL)
        return self.exit_code

    def _once(self) -> None:
        now = time.monotonic()
        due = [call for at, call in self._timers if at <= now]
        self._timers = [(at, call) for at, call in self._timers if at > now]
        for call in due:
            call()
        wait = min((at for at, _ in self._timers), default=now + 1.0) - now
        for key, _ in self._selector.select(max(0.0, min(wait, 1.0))):
            if key.fd in self._selector.get_map():  # an earlier one of this round may have closed it
                key.data()
        _reap_orphans(self.popen.pid if self.popen is not None else 0)
        if self._gone is not None and self.exit_code is None:
            self._read_program()
            self._finish(self._gone)

    def _finish(self, code: int) -> None:
        said = 0 if self.stopping else self.verdict(code)
        self.exit_code = said if said >= 0 else 128 - said

    def _answers(self) -> None:
        try:
            data = os.read(0, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:  # the supervisor is gone: nobody is left to hold the program
            self.forget(0)
            self.exit_code = 1
            return
        self.line.feed(data)

    def _program_ended(self, popen: subprocess.Popen[bytes], pin: int) -> None:
        self._gone = popen.poll()
        if self._gone is not None:
            self.forget(pin)
            os.close(pin)

    def _read_program(self) -> None:
        """All that the program has written up to now."""
        if self.popen is None or self.popen.stdout is None or self.popen.stdout.closed:
            return
        fd = self.popen.stdout.fileno()
        for _ in range(_READS):  # more than a pipe holds; one that never falls silent keeps us from nothing else
            try:
                data = os.read(fd, _CHUNK)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.forget(fd)
                self.popen.stdout.close()
                self._take(b"\n")
                return
            self._take(data)

    def _take(self, data: bytes) -> None:
        self._held += data
        if b"\n" not in data:
            if len(self._held) > LINE_BYTES:
                self._held.clear()
                self._skipping = True
            return
        *lines, rest = bytes(self._held).split(b"\n")
        self._held = bytearray(rest)
        for line in lines:
            if self._skipping:
                self._skipping = False
            elif line.strip():
                self.said(line)

    def _read_stderr(self, fd: int, take: Callable[[bytes], None]) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.forget(fd)
            return
        with contextlib.suppress(OSError):
            os.write(2, data)
        take(data)

    def _send(self) -> None:
        if self.popen is None or self.popen.stdin is None or self.popen.stdin.closed:
            return
        fd = self.popen.stdin.fileno()
        while self._unsent:
            try:
                del self._unsent[: os.write(fd, self._unsent[:_CHUNK])]
            except BlockingIOError:
                if fd not in self._selector.get_map():
                    self._selector.register(fd, selectors.EVENT_WRITE, self._send)
                return
            except OSError:
                self._unsent.clear()
        self.forget(fd)
        if self._closing:
            self.popen.stdin.close()

    def complain(self, text: str) -> None:
        """One line for people, into the leg's stderr log."""
        with contextlib.suppress(OSError):
            os.write(2, f"bridge: {cut(text, 1000)}\n".encode())


def read_object(line: bytes) -> dict[str, Any]:
    """A line as one JSON object; whatever else is {}."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _reap_orphans(own: int) -> None:
    """As the first process of a namespace we inherit whatever loses its parent there; our own child is not reaped."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == own:
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(found.si_pid, os.WNOHANG)
