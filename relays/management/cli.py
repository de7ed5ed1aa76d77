"""The conventions of the command line: what goes where, and how it ends.

Interface: "Errors: one line what, where, and what to do; never a traceback for bad input; exit 2 for usage."
"""

import argparse
import json
import re
import sys
import traceback
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn

from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder

#: what json.dumps leaves as it is and a terminal may obey or not show: C1 controls (one is CSI), marks of direction
_UNSEEN = re.compile("[\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]")


class Exit(IntEnum):
    """Exit codes; scripts rely on them."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    STALE = 3
    INVALID = 4
    DONE = 5
    HELD = 6
    UNKNOWN = 7
    PARKED = 8
    TIME_OVER = 9
    NOT_SAFE = 10
    NOT_PERMITTED = 12
    NOT_LEGAL_NOW = 13
    NOT_FOUND = 14


#: outcome of the reader's ladder -> exit code of check-baton and verify
OUTCOME_EXITS: Mapping[str, Exit] = {
    "fresh": Exit.FINE,
    "stale": Exit.STALE,
    "invalid": Exit.INVALID,
    "done": Exit.DONE,
    "held": Exit.HELD,
    "unknown": Exit.UNKNOWN,
}


class Refusal(Exception):
    """Ends the command with one line on stderr (what, where, what to do) and an exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.message = message
        self.code = int(code)


def refuse(message: str, code: int = Exit.USAGE) -> NoReturn:
    """End the command with `message` as its one line on stderr."""
    raise Refusal(message, code)


def one_line(text: object) -> str:
    """Any text as one printable line: agent text and paths must not write escapes to a terminal."""
    return "".join(
        sign if sign.isprintable() else " " if sign.isspace() else "�" for sign in " ".join(str(text).split("\n"))
    ).strip()


def printable(text: str) -> str:
    """Text of several lines for a terminal: line ends stay, every other control character is replaced."""
    return "\n".join(one_line(line) for line in text.split("\n"))


def emit(data: object, as_json: bool, text: str | Callable[[], str]) -> None:
    """The answer on stdout: `data` as one JSON line with --json, else `text` for a person."""
    if as_json:
        text_of = json.dumps(data, ensure_ascii=False, cls=DjangoJSONEncoder)
        write(_seen(text_of) + "\n")
    else:
        words = printable(text() if callable(text) else text)
        write(words + "\n" if words else "")


def _seen(text: str) -> str:
    return _UNSEEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", text)


def write(text: str) -> None:
    """UTF-8 to stdout whatever the locale; a lone surrogate becomes `?`."""
    write_bytes(text.encode("utf-8", "replace"))


def write_bytes(content: bytes) -> None:
    """Exactly these bytes to stdout; on a terminal, what it could obey is spelled as JSON spells it."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        content = _seen(content.decode("utf-8", "replace")).encode()
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None:  # a test's or an embedder's text stream
        sys.stdout.write(content.decode("utf-8", "replace"))
    else:
        stream.write(content)
    sys.stdout.flush()


def say(text: object) -> None:
    """One line on stderr: progress and refusals, never part of the answer."""
    sys.stderr.write(one_line(text).encode("utf-8", "replace").decode("utf-8") + "\n")
    sys.stderr.flush()


def many(number: int, what: str) -> str:
    """`1 file`, `1,110 calls`."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def table(rows: list[list[str]], head: list[str]) -> str:
    """Columns for a person, as wide as their widest cell."""
    cells = [head, *[[one_line(cell) for cell in row] for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
    )


def read_input(name: str, limit: int, *, cut: bool = False) -> bytes:
    """The bytes of a file, or of stdin for `-`. What cannot be read is refused.

    More than `limit` bytes are refused too, or with `cut` read no further: the strict reader then says so.
    """
    try:
        if name == "-":
            content = sys.stdin.buffer.read(limit + 1)
        else:
            path = Path(name)
            if path.is_dir():
                refuse(f"{name} is a folder: name a file, or - for standard input", Exit.USAGE)
            with path.open("rb") as stream:
                content = stream.read(limit + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        refuse(f"{name} cannot be read ({reason}): name a readable file, or - for standard input", Exit.USAGE)
    if len(content) > limit and not cut:
        refuse(f"{name} is larger than {limit} bytes: no facts are as large; check the name", Exit.USAGE)
    return content[:limit]


def keep_traceback(verb: str, error: BaseException) -> str:
    """Append the traceback to `errors.log` under RELAY_VAR; the place to name to a person."""
    path = Path(settings.RELAY_VAR) / "errors.log"
    stamp = datetime.now(UTC).isoformat(timespec="seconds")
    words = "".join(traceback.format_exception(error))
    try:
        with path.open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(f"{stamp} relay {verb}\n{words}\n")
    except OSError:
        return "no log: RELAY_VAR cannot be written"
    default = Path(settings.BASE_DIR) / "var"
    return "var/errors.log" if path.parent == default else str(path)


class LineParser(argparse.ArgumentParser):
    """argparse that refuses in one line instead of a usage block."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        options.setdefault("allow_abbrev", False)
        super().__init__(*arguments, **options)

    def error(self, message: str) -> NoReturn:
        refuse(f"{self.prog}: {one_line(message)}; see `{self.prog} --help`", Exit.USAGE)
