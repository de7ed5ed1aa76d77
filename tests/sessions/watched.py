"""What tests of imports share: files that grow as an agent writes them, what is right of them, and their readers."""

import ctypes
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from django.db.models import Count, Sum

from relays.models import Session, SessionBoundary, SessionCall

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "tests" / "samples"
#: four compactions, 203 kB to 1.3 MB: the samples whose figures are told below
FOUR = "claude/four-compactions-no-request-id.jsonl"
CODEX = "codex/three-compactions.jsonl"

_EXPECTED = {one["file"]: one for one in json.loads((SAMPLES / "expected.json").read_text())["files"]}


def expected(*names: str) -> dict[str, int]:
    """The calls, tokens and compactions of samples that share no call."""
    total = dict.fromkeys(("calls", "input", "cache_read", "cache_write", "output", "compactions"), 0)
    for name in names:
        one = _EXPECTED[name]
        tokens = one["tokens"]
        total["calls"] += one["calls"]
        total["input"] += tokens["input_tokens"]
        total["cache_read"] += tokens["cache_read_input_tokens"]
        total["cache_write"] += tokens["cache_creation_input_tokens"]
        total["output"] += tokens["output_tokens"]
        total["compactions"] += len(one["compactions"])
    return total


def counted() -> dict[str, int]:
    """The same figures of everything that the tables hold, from the rows that count and from no roll-up."""
    rows = SessionCall.objects.filter(counts=True).aggregate(
        calls=Count("key", distinct=True),
        input=Sum("input_tokens"),
        cache_read=Sum("cache_read"),
        short=Sum("cache_write_5m"),
        long=Sum("cache_write_1h"),
        output=Sum("output_tokens"),
    )
    rows = {name: value or 0 for name, value in rows.items()}
    write = rows.pop("short") + rows.pop("long")
    return {**rows, "cache_write": write, "compactions": SessionBoundary.objects.filter(counts=True).count()}


def rolled_up() -> dict[str, int]:
    """The same figures by the sessions' roll-ups."""
    rows = Session.objects.values_list(
        "calls", "input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens", "compactions"
    )
    calls, new, read, short, long, output, compactions = (sum(column) for column in zip(*rows, strict=True))
    return {
        "calls": calls,
        "input": new,
        "cache_read": read,
        "output": output,
        "cache_write": short + long,
        "compactions": compactions,
    }


def cuts(content: bytes, chance: random.Random, pieces: int) -> Iterator[bytes]:
    """The content in pieces that end anywhere: in the middle of a line, of a word, of a letter."""
    at = sorted(chance.randrange(1, len(content)) for _ in range(pieces - 1))
    for start, end in zip([0, *at], [*at, len(content)], strict=True):
        yield content[start:end]


def append(path: Path, content: bytes) -> None:
    with path.open("ab") as stream:
        stream.write(content)


def snapshot(folder: Path) -> dict[str, tuple[int, int, int, int]]:
    """Everything below a folder: mode, size and the times of change."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        status = path.lstat()
        found[str(path)] = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def until(holds: Callable[[], Any], seconds: float = 60) -> Any:
    """The first answer that is true; the time over is a failure."""
    deadline = time.monotonic() + seconds
    while not (answer := holds()):
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.05)
    return answer


def as_any_user() -> None:
    """In a new process: root too is refused what a file's mode refuses."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            assert libc.prctl(24, capability, 0, 0, 0) == 0  # PR_CAPBSET_DROP


class Follower:
    """`relay follow --json …` as a process; its lines of stdout and its words on stderr."""

    def __init__(self, env: dict[str, str], folder: Path, *arguments: object, plain_user: bool = False) -> None:
        self.out, self.err = folder / f"out-{time.monotonic_ns()}", folder / f"err-{time.monotonic_ns()}"
        command = [sys.executable, str(ROOT / "manage.py"), "relay", "follow", "--json", *map(str, arguments)]
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.process = subprocess.Popen(
                command, env=env, stdout=out, stderr=err, cwd="/", preexec_fn=as_any_user if plain_user else None
            )

    def lines(self, event: str = "") -> list[dict[str, Any]]:
        text = self.out.read_text(encoding="utf-8")
        found = [json.loads(line) for line in text.split("\n")[:-1]]  # whole lines
        return [one for one in found if not event or one["event"] == event]

    def started(self) -> dict[str, Any]:
        def line() -> dict[str, Any] | None:
            assert self.process.poll() is None, self.err.read_text()
            return next(iter(self.lines("start")), None)

        return until(line)

    def ended(self, number: int) -> int:
        """Send the signal; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=60)
