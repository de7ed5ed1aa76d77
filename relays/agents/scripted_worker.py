"""The scripted worker: a program without a model that really drains a repository's issue file, one commit an item.

It takes the lowest open number of `.relay/issues.jsonl`, writes `work/<number>.md`, closes the row and commits both
together; each item is played as four turns with usage figures that are scripted and say so (model "scripted").
It speaks `relay.event.v1` and obeys the answer at every boundary. Standard library only: it is started by its file.
"""

import json
import math
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple, NoReturn

ISSUES = ".relay/issues.jsonl"
SCRATCH = "work/scratch.txt"
VERIFY = "Verify that every issue is closed."
TIDY = "Tidy the folder work."
GIT = (
    *("git", "-c", "user.name=Scripted worker", "-c", "user.email=scripted-worker@relaysite.invalid"),
    *("-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"),
)

WINDOW = 200_000  # tokens, where RELAY_WINDOW_TOKENS does not say
BASE = 0.12  # of the window: resident at a leg's first call
MARK = 0.60  # of the window: crossed by the last turn of the `items`-th item, never earlier
DEAD = 1.2  # of the window: where a program without a ceiling gives up

# how much each turn of an item adds, four in all; the last is the commit
READ, EDIT, CLOSE, COMMIT, THINK = 1.0, 1.3, 0.7, 1.0, 1.0


class FlagError(ValueError):
    """A flag that is not known or has a bad value; one line: `text`, its `%(name)s` filled by `values`."""

    def __init__(self, text: str, **values: str | int) -> None:
        super().__init__(text % values)
        self.text, self.values = text, values


class Flags(NamedTuple):
    items: int = 3  # so many items fill the window up to the mark
    dirty: bool = False  # leave an uncommitted file behind after each item, never parked
    plant: bool = False  # declare a fact without backing in each item
    next: int = 1  # how many next actions are named
    overrun: bool = False  # obey nothing but stop, and pass the ceiling without asking
    crash: bool = False  # exit 3 in the middle of the second item
    park: bool = False  # told to wind down: park the dirty tree instead of finishing the item
    pace: float = 0.0  # seconds a turn
    retry: str = ""  # overload or network: the second turn is answered at the second try; sign_in: not at all
    only: int | None = None  # end by itself after so many items of this leg


_WHOLE = {"items": (1, 20), "next": (0, 2), "only": (0, 1000)}
_TROUBLES = ("overload", "network", "sign_in")
_SWITCHES = ("dirty", "plant", "overrun", "crash", "park")
_PACE_MAX = 3600.0


def parse_flags(given: Mapping[str, str]) -> Flags:
    """The flags of `name=value` pairs; raises FlagError with one line that names the flag and what is allowed."""
    found: dict[str, Any] = {}
    for name, value in given.items():
        if name in _WHOLE:
            low, high = _WHOLE[name]
            if not re.fullmatch(r"[0-9]{1,4}", value) or not low <= int(value) <= high:
                raise FlagError(
                    "%(name)s=%(value)s is not allowed: a whole number from %(low)s to %(high)s",
                    name=name,
                    value=repr(value),
                    low=low,
                    high=high,
                )
            found[name] = int(value)
        elif name in _SWITCHES:
            if value not in ("0", "1"):
                raise FlagError("%(name)s=%(value)s is not allowed: 0 or 1", name=name, value=repr(value))
            found[name] = value == "1"
        elif name == "retry":
            if value not in _TROUBLES:
                raise FlagError(
                    "%(name)s=%(value)s is not allowed: one of %(allowed)s",
                    name=name,
                    value=repr(value),
                    allowed=", ".join(_TROUBLES),
                )
            found[name] = value
        elif name == "pace":
            if not re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,6})?", value) or float(value) > _PACE_MAX:
                raise FlagError(
                    "%(name)s=%(value)s is not allowed: seconds a turn, from 0 to %(most)s",
                    name=name,
                    value=repr(value),
                    most=round(_PACE_MAX),
                )
            found[name] = float(value)
        else:
            allowed = ", ".join(Flags._fields)
            raise FlagError(
                "%(name)s is not known to the scripted worker; allowed: %(allowed)s", name=repr(name), allowed=allowed
            )
    return Flags(**found)


class Stopped(Exception):
    """Told to stop."""


class SpentWindow(Exception):
    """Nobody stopped it and its window is more than full."""


class Line:
    """Events out and answers in: on RELAY_SOCKET where there is one, else on stdout and stdin."""

    def __init__(self, path: str) -> None:
        self.seq = 0
        self._held = b""
        self._in, self._out = 0, 1
        if path:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.connect(path)
            self._in = self._out = self._socket.fileno()

    def send(self, kind: str, **fields: object) -> int:
        self.seq += 1
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event = {"kind": kind, "seq": self.seq, "at": at, **fields}
        left = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace") + b"\n"
        while left:
            left = left[os.write(self._out, left) :]
        return self.seq

    def answer(self) -> str:
        while b"\n" not in self._held:
            data = os.read(self._in, 4096)
            if not data:
                _give_up("the supervisor has gone")
            self._held += data
        line, _, self._held = self._held.partition(b"\n")
        return line.decode("utf-8", "replace").strip()

    def stop_waits(self) -> bool:
        """Has somebody said stop without being asked?"""
        return bool(select.select([self._in], [], [], 0)[0]) and self.answer() == "stop"


class Issue(NamedTuple):
    number: int
    title: str

    @property
    def action(self) -> str:
        return cut(f"Close issue #{self.number}: {self.title}" if self.title else f"Close issue #{self.number}", 200)

    @property
    def path(self) -> str:
        return f"work/{self.number}.md"


def cut(text: str, limit: int) -> str:
    """One line of at most `limit` UTF-8 bytes, cut at a character; control characters become blanks."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    return line.encode("utf-8", "replace")[:limit].decode("utf-8", "ignore").strip()


def parse_row(line: bytes) -> dict[str, Any] | None:
    """A row of the issue file; None for a line that is none (such lines are kept as they are)."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    number = row.get("number") if isinstance(row, dict) else None
    return row if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None


def open_issues(text: bytes) -> list[Issue]:
    """The open issues, lowest number first."""
    rows = (parse_row(line) for line in text.splitlines())
    found = {row["number"]: str(row.get("title", "")) for row in rows if row is not None and row.get("state") == "open"}
    return [Issue(number, cut(found[number], 500)) for number in sorted(found)]


def close_row(text: bytes, number: int) -> bytes:
    """The file with that row's state set to closed; all other bytes as they were."""
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        row = parse_row(line)
        if row is None or row["number"] != number or row.get("state") != "open":
            continue
        wanted = {**row, "state": "closed"}
        changed = re.sub(rb'("state"\s*:\s*)"open"', rb'\1"closed"', line)
        if parse_row(changed) != wanted:
            ending = line[len(line.rstrip(b"\r\n")) :]
            changed = json.dumps(wanted, ensure_ascii=False).encode("utf-8", "backslashreplace") + ending
        lines[index] = changed
    return b"".join(lines)


def page(issue: Issue) -> str:
    """What is written for an issue: made from its title alone, so that the same issue gives the same file."""
    words = issue.title.split() or ["(no title)"]
    steps = "\n".join(f"{place}. {word}" for place, word in enumerate(words, 1))
    return (
        f"# {issue.title or f'Issue {issue.number}'}\n\nIssue: #{issue.number}\nWorked on by: scripted worker\n\n"
        f"## Steps\n\n{steps}\n\n## Result\n\n{len(words)} steps taken, {len(issue.title)} characters of title read.\n"
    )


def _give_up(why: str) -> NoReturn:
    sys.stderr.write(f"scripted worker: {why}\n")
    sys.stderr.flush()
    os._exit(1)


def _git(*args: str) -> bytes:
    done = subprocess.run([*GIT, *args], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    if done.returncode != 0:
        raise OSError(f"git {args[0]}: {done.stderr.decode('utf-8', 'replace').strip()[:500]}")
    return done.stdout


def _inside(path: str) -> str:
    """The path, if it is really in the work tree: a link in the repository may point anywhere."""
    top = os.path.realpath(".")
    if os.path.islink(path) or os.path.commonpath([top, os.path.realpath(path)]) != top:
        raise OSError(f"{path} leads out of the work tree")
    return path


def _write(path: str, data: bytes, *, append: bool = False) -> None:
    os.makedirs(os.path.dirname(_inside(path)), exist_ok=True)
    with open(_inside(path), "ab" if append else "wb") as file:
        file.write(data)


def _read(path: str) -> bytes:
    try:
        with open(_inside(path), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


class Meter:
    """The scripted usage: each call reads all before it from the cache and writes what was new since."""

    def __init__(self, window: int, items: int) -> None:
        self.window = window
        self._base = int(BASE * window)
        # the last turn of the `items`-th item (4·items - 1 steps on) is above the mark, the one before it below
        self._step = (MARK - BASE) * window / (4 * items - 1.5)
        self._steps = 0.0
        self._before = 0
        self._input = max(1, min(12, int(self._step / 4)))
        self.resident = 0

    def call(self, weight: float, *, tool: bool) -> tuple[dict[str, int], int]:
        """(the five buckets of the next call, tokens of its tool's result)."""
        self.resident = self._at(self._steps)
        read = max(0, self._before - self._input)
        written = self.resident - read - self._input
        self._steps += weight
        growth = self._at(self._steps) - self.resident
        output = max(1, round(growth * 0.07)) if tool else growth
        self._before = self.resident
        buckets = {
            "input": self._input,
            "cache_read": read,
            "cache_write_5m": written,
            "cache_write_1h": 0,
            "output": output,
        }
        return buckets, max(0, growth - output) if tool else 0

    def _at(self, steps: float) -> int:
        return self._base + math.ceil(self._step * steps)


#: answers that closing a further item does not change
STANDING = {
    f"wind_down {hold}"
    for hold in (
        "TREE_DIRTY_UNPARKED",
        "NO_NEXT_ACTION",
        "AMBIGUOUS_NEXT_ACTION",
        "RELAY_NOT_EXTERNALIZED",
        "NOT_AT_SAFE_POINT",
    )
}


class Worker:
    def __init__(self, flags: Flags, line: Line, env: Mapping[str, str]) -> None:
        self.flags = flags
        self.line = line
        self.relay, self.leg = env.get("RELAY_ID", ""), _count(env.get("RELAY_LEG", ""), 0)
        window = _count(env.get("RELAY_WINDOW_TOKENS", ""), WINDOW) or WINDOW
        self.meter = Meter(window, flags.items)
        self.ceiling = _count(env.get("RELAY_CEILING_TOKENS", ""), 0) or int(0.9 * window)
        self.turns = 0
        self.closed = 0
        self.uncommitted = False
        self.told = "go"

    def run(self) -> int:
        while (issue := self.pick()) is not None:
            self.close(issue)
            while self.told in STANDING and not self.flags.park:
                # more items would not lift what holds: think on until it is let go or told to stop
                self.turn(THINK)
                self.boundary(externalized=True)
            if self.told == "wind_down" and not self.flags.park:
                # nothing left to wind down: said once more, then it goes on until it is told to stop
                self.turn(THINK)
                self.boundary(externalized=True)
        return self.finish()

    def pick(self) -> Issue | None:
        """The lowest number open at HEAD: a row that was closed here but never committed is not closed."""
        if self.flags.only is not None and self.closed >= self.flags.only:
            return None
        return next(iter(open_issues(committed())), None)

    def close(self, issue: Issue) -> None:
        """Four turns: read, edit, close the row, commit both files; a boundary after each."""
        self.turn(READ, "read", lambda: _read(ISSUES))
        self.boundary()
        self.turn(EDIT, "edit", lambda: self.edit(issue))
        if self.flags.crash and self.closed == 1:
            sys.stderr.write("scripted worker: crash=1, as told\n")
            sys.exit(3)
        self.boundary()
        self.turn(CLOSE, "edit", lambda: self.close_row(issue))
        self.boundary()
        self.turn(COMMIT, "shell", lambda: self.commit(issue))
        self.record(issue)
        last = not open_issues(committed())
        self.boundary(externalized=last or not self.flags.park)

    def edit(self, issue: Issue) -> None:
        self.uncommitted = True
        _write(issue.path, page(issue).encode("utf-8", "replace"))
        self.line.send("file_written", path=issue.path)

    def close_row(self, issue: Issue) -> None:
        here = _read(ISSUES)
        known = any((row := parse_row(line)) and row["number"] == issue.number for line in here.splitlines())
        _write(ISSUES, close_row(here if known else committed(), issue.number))
        self.line.send("file_written", path=ISSUES)

    def commit(self, issue: Issue) -> None:
        paths = ("--", issue.path, ISSUES)
        _git("--literal-pathspecs", "add", "--force", *paths)
        message = cut(f"Close #{issue.number}: {issue.title}", 500)
        _git("--literal-pathspecs", "commit", "--quiet", "--no-verify", "--only", "-m", message, *paths)
        self.uncommitted = False
        self.closed += 1

    def record(self, issue: Issue) -> None:
        """Everything that this item leaves behind, each thing by a pointer."""
        send, ref = self.line.send, f"#{issue.number}"
        sha = _git("rev-parse", "HEAD").decode().strip()
        row = self.ledger([f"commit:{sha}", f"issue:{ref}"], f"Closed {ref} in one commit.")
        for kind, what in (("commit", sha), ("issue", ref), ("ledger", row)):
            self.artifact(kind, what)
        backing = f"commit:{sha}"
        send("fact", label=cut(f"{ref} is closed: {issue.title}", 120), **{"class": "durable"}, backing=backing)
        if self.leg == 0 and self.closed == 1:
            after = next(iter(open_issues(committed())), None)
            if after is not None:
                label = cut(f"Does #{after.number} build on {ref}?", 120)
                send("open_question", label=label, pointer=f"issue:#{after.number}")
            why = f"Writing file and row of {ref} in two commits was tried and dropped: they belong together."
            tried = self.ledger([f"issue:{ref}"], why)
            send("dead_end", label="File and row in two commits", pointer=f"ledger:{tried}")
        if self.flags.plant:
            send("fact", label=f"How {ref} was solved", **{"class": "durable"}, backing=None)
        if self.flags.dirty:
            _write(SCRATCH, f"Left over from {ref}.\n".encode(), append=True)
            send("file_written", path=SCRATCH)

    def artifact(self, kind: str, ref: str) -> None:
        self.line.send("artifact", ref=f"{kind}:{ref}")

    def ledger(self, refs: list[str], note: str) -> str:
        """Append a ledger row; its id is known before it is written: the relay's, the leg's and the event's own."""
        return f"{self.relay}.{self.leg}.e{self.line.send('ledger', refs=refs, note=note)}"

    def finish(self) -> int:
        """No work is left, or `only` is reached: offer the end; when held, think on until stopped or out of window."""
        if self.turns == 0:
            self.turn(READ, "read", lambda: _read(ISSUES))
        asked = 0
        while not self.flags.overrun and asked < 2:
            self.boundary(final=True, externalized=True)
            if self.told == "go":
                return 0
            asked += 1
            if self.told != "wind_down" and self.flags.only is None:
                break
        if asked == 2:
            return 0
        while True:
            self.turn(THINK)
            self.boundary(externalized=True)

    def turn(self, weight: float, tool: str = "", act: Callable[[], object] | None = None) -> None:
        """One scripted model call, and the tool call that it asks for."""
        send = self.line.send
        if self.meter.resident > DEAD * self.meter.window:
            raise SpentWindow
        self.turns += 1
        send("turn_started")
        if self.flags.retry and self.turns == 2:
            self.retry()
        time.sleep(self.flags.pace / 2)
        buckets, result = self.meter.call(weight, tool=act is not None)
        message = f"scripted-{self.relay}-{self.leg}-{self.turns}"
        send("usage", model="scripted", message_id=message, **buckets, chain="main")
        if act is None:
            time.sleep(self.flags.pace / 2)
            return
        call = f"call-{self.turns}"
        send("tool_started", id=call, name=tool)
        done = False
        try:
            act()
            done = True
            time.sleep(self.flags.pace / 2)
        finally:
            send("tool_ended", id=call, ok=done, result_tokens=result)

    def retry(self) -> None:
        """The model does not answer: say so and try again, or give up where no try helps."""
        self.line.send("retry", cause=self.flags.retry, retry_in_ms=int(self.flags.pace * 1000))
        if self.flags.retry == "sign_in":
            sys.stderr.write("scripted worker: not signed in, as told\n")
            sys.exit(1)
        time.sleep(self.flags.pace)

    def boundary(self, *, final: bool = False, externalized: bool = False) -> None:
        """Ask, wait and keep the answer; raises Stopped."""
        if self.flags.overrun:
            externalized = False  # else it would be let go at a safe point before it can overrun
            if MARK * self.meter.window <= self.meter.resident <= self.ceiling:
                if self.line.stop_waits():
                    raise Stopped
                return
        if self.flags.park and self.uncommitted and self.told.startswith("wind_down"):
            self.line.send("park_tree")
            externalized = True
        if externalized:
            self.line.send("externalized")
        self.line.send("boundary", next_actions=self.next_actions(), final=final)
        self.told = self.line.answer()
        if self.told == "stop":
            raise Stopped

    def next_actions(self) -> list[str]:
        actions = [issue.action for issue in open_issues(committed())[:2]]
        spare = [action for action in (VERIFY, TIDY) if action not in actions]
        return [*actions, *spare][: self.flags.next]


def committed() -> bytes:
    """The issue file at HEAD; as it stands here where HEAD has none."""
    try:
        return _git("show", f"HEAD:{ISSUES}")
    except OSError:
        return _read(ISSUES)


def check_baton(path: str) -> str:
    """One line when the baton's next action does not name an issue that is open: it is read, never trusted."""
    try:
        with open(path, "rb") as file:
            baton = json.loads(file.read(1024 * 1024))
        action = str(baton["next_action"])
    except (OSError, ValueError, RecursionError, KeyError, TypeError) as error:
        return f"the baton cannot be read ({type(error).__name__}); going by the issue file alone"
    wanted = re.match(r"Close issue #([0-9]{1,9})\b", action)
    lowest = next((issue.number for issue in open_issues(committed())), None)
    if wanted is not None and int(wanted[1]) != lowest:
        return f"the baton names #{wanted[1]}, the lowest open issue is {lowest}; going by the issue file"
    return ""


def _count(text: str, otherwise: int) -> int:
    return int(text) if re.fullmatch(r"[0-9]{1,12}", text) else otherwise


def main(args: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))
    try:
        flags = parse_flags(dict(arg.partition("=")[::2] for arg in args))
    except FlagError as error:
        sys.stderr.write(f"scripted worker: {error}\n")
        return 2
    baton = os.environ.get("RELAY_BATON", "")
    doubt = check_baton(baton) if baton else ""
    if doubt:
        sys.stderr.write(f"scripted worker: {cut(doubt, 500)}\n")
    try:
        line = Line(os.environ.get("RELAY_SOCKET", ""))
        return Worker(flags, line, os.environ).run()
    except (Stopped, SpentWindow):
        return 0
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"scripted worker: {error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
