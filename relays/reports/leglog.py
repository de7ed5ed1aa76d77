"""The log of a leg's agent, for people: its stream and its stderr, in lines, redacted and bounded.

Rules: "Raw logs are for people on the leg page; `recall` serves records of the durable stores, never transcript bytes".
What is read is cut at whole lines, so that no secret is torn in two before it is looked for; and each line is redacted
before it is shortened. Nothing here is kept.
"""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from relays.agents.channel import STREAM
from relays.core.redact import redact, redact_record

FILES: Final = {"stream": STREAM, "stderr": "stderr.log"}
LINES: Final = 120  # that a page shows at first, and that a change hands over
MORE: Final = 400  # that are asked for at once
BYTES: Final = 256 << 10  # read at once
LONGEST: Final = 2 << 20  # bytes of a line that is taken away whole
WIDTH: Final = 600  # characters of a line
BEFORE: Final = 16 << 10  # bytes before a stretch in which a key may have begun
_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_NAMES_A_SECRET = re.compile(r".*(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL)S?", re.I)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the file. `at`: where it begins in it; `clock`: when it was said, in the reader's zone, else ""."""

    at: int
    clock: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """Lines one behind the other. `start`, `end`: from where to where they lie; `size`: of the file as it is now.

    `there` False: the leg has no such file, or it was removed with what ended relays left behind.
    """

    lines: tuple[Line, ...]
    start: int
    end: int
    size: int
    there: bool = True


NONE = Chunk((), 0, 0, 0, there=False)


def path(relay_id: str, leg: int, of: str = "stream") -> Path:
    """Where the file lies; `of` is stream or stderr."""
    return Path(settings.RELAY_VAR) / "legs" / relay_id / str(leg) / FILES[of]


def tail(file: Path, lines: int = LINES) -> Chunk:
    """The newest lines."""
    size = _size(file)
    if size is None:
        return NONE
    chunk = after(file, max(0, size - BYTES), lines=1_000_000)
    shown = chunk.lines[-lines:]
    return Chunk(shown, shown[0].at if shown else chunk.end, chunk.end, chunk.size)


def after(file: Path, offset: int, *, lines: int = MORE) -> Chunk:
    """The lines that begin at `offset` or behind it, at most `lines` of them; the last one is whole."""
    size = _size(file)
    if size is None:
        return NONE
    offset = min(max(0, offset), size)
    lead = min(offset, BEFORE)
    raw = _read(file, offset - lead, lead + BYTES)
    before, raw = raw[:lead], raw[lead:]
    if lead and not before.endswith(b"\n"):  # in the middle of a line: it was shown from its beginning, or is too long
        skipped = raw.find(b"\n") + 1
        if not skipped:
            return Chunk((), offset, offset + len(raw) if len(raw) == BYTES else offset, size)
        before, raw, offset = before + raw[:skipped], raw[skipped:], offset + skipped
    whole = raw.rfind(b"\n") + 1
    if not whole and len(raw) == BYTES:
        whole = len(raw)  # a line longer than what is read: its beginning is shown
    return _chunk(raw[:whole], offset, size, _begun(_text(before)), lines)


def before(file: Path, offset: int, *, lines: int = MORE) -> Chunk:
    """The lines before `offset`, the newest `lines` of them."""
    size = _size(file)
    if size is None:
        return NONE
    offset = min(max(0, offset), size)
    chunk = after(file, max(0, offset - BYTES), lines=1_000_000)
    shown = [line for line in chunk.lines if line.at < offset][-lines:]
    return Chunk(tuple(shown), shown[0].at if shown else offset, offset, size)


def whole(file: Path) -> Iterator[str]:
    """All of it as text, redacted, piece by piece; of a line longer than LONGEST that it was left out."""
    offset = 0
    while True:
        size = _size(file)
        if size is None or offset >= size:
            return
        lead, count = min(offset, BEFORE), BYTES
        while True:  # up to the end of a line: a secret that is cut in two is not found in either
            raw = _read(file, offset - lead, lead + count)
            piece = raw[lead:]
            end = piece.rfind(b"\n") + 1
            if end or len(piece) < count or count >= LONGEST:
                break
            count *= 2
        begun = _begun(_text(raw[:lead]))
        if end or len(piece) < count:
            yield "".join(f"{text}\n" for _at, text, _record in _redacted(piece[: end or len(piece)], 0, begun))
            if not end:  # the last line, as far as it is written
                return
            offset += end
            continue
        yield f"[left out: a line of more than {LONGEST} bytes]\n"
        while (skipped := _read(file, offset, BYTES)) and b"\n" not in skipped:
            offset += len(skipped)
        offset += skipped.find(b"\n") + 1


def as_json(chunk: Chunk, running: bool) -> dict[str, object]:
    """What a page's script appends."""
    return {
        "start": chunk.start, "end": chunk.end, "size": chunk.size, "running": running,
        "lines": [[line.at, line.clock, line.kind, line.text] for line in chunk.lines],
    }  # fmt: skip


# ---- reading ------------------------------------------------------------------------------------------------------


def _open(file: Path) -> int | None:
    """A plain file of ours; a link or a pipe in its place is nothing."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return descriptor


def _size(file: Path) -> int | None:
    descriptor = _open(file)
    if descriptor is None:
        return None
    try:
        return os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)


def _read(file: Path, offset: int, count: int) -> bytes:
    descriptor = _open(file)
    if descriptor is None:
        return b""
    try:
        return os.pread(descriptor, count, offset)
    finally:
        os.close(descriptor)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _begun(text: str) -> bool:
    """Whether a key begins there that does not end there."""
    return _BEGIN.search(text, text.rfind("-----END ") + 1) is not None


def _chunk(raw: bytes, offset: int, size: int, begun: bool, most: int) -> Chunk:
    lines: list[Line] = []
    end = offset + len(raw)
    for at, text, record in _redacted(raw, offset, begun):
        if len(lines) == most:
            end = at
            break
        lines.append(_line(at, text, record))
    return Chunk(tuple(lines), offset, end, size)


def _redacted(raw: bytes, offset: int, begun: bool) -> Iterator[tuple[int, str, Mapping[str, Any] | None]]:
    """(where it begins, its text, its record if it is one) of each line. `begun`: a key began before them."""
    at = offset
    key = begun
    for part in raw.splitlines(keepends=True):
        text = _text(part).rstrip("\r\n")
        if key:  # a key that runs over lines is left out up to its end
            key = "-----END " not in text
            shown, record = "[redacted: private key]", None
        else:
            key = _begun(text)
            shown, record = _own(redact(text)), None
            if text.startswith("{"):
                try:
                    found = json.loads(text)
                except (ValueError, RecursionError):
                    found = None
                if isinstance(found, dict):
                    record = redact_record(found)
                    shown = _own(json.dumps(record, ensure_ascii=False, separators=(",", ":")))
        yield at, shown, record
        at += len(part)


@cache
def _secrets() -> tuple[str, ...]:
    """Secrets that this process has: an agent may have been given one of them by name."""
    named = (value for name, value in os.environ.items() if _NAMES_A_SECRET.fullmatch(name))
    return tuple(sorted({value for value in (*named, settings.SECRET_KEY) if len(value) >= 8}, key=len, reverse=True))


def _own(text: str) -> str:
    for secret in _secrets():
        if secret in text:
            text = text.replace(secret, "[redacted: value]")
    return text


# ---- a line in words ----------------------------------------------------------------------------------------------


def _line(at: int, text: str, record: Mapping[str, Any] | None) -> Line:
    if record is None:
        return Line(at, "", "", _short(text))
    kind = str(record.get("kind") or record.get("type") or record.get("event") or "")[:40]
    return Line(at, _clock(record.get("at") or record.get("timestamp")), kind, _short(_own(_words(record))))


def _short(text: str) -> str:
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"


def _clock(value: object) -> str:
    moment = None
    if isinstance(value, str) and len(value) < 40:
        try:
            moment = parse_datetime(value)
        except ValueError:
            moment = None
    if not isinstance(moment, datetime) or timezone.is_naive(moment):
        return ""
    return timezone.localtime(moment).strftime("%H:%M:%S")


_FRAME = ("kind", "type", "event", "seq", "at", "timestamp", "session_id", "uuid", "parent_tool_use_id")


def _words(record: Mapping[str, Any]) -> str:
    """What it says: the text of a message and its tools, else its fields."""
    message = record.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(filter(None, map(_block, content)))
    return " ".join(f"{key}={_value(value)}" for key, value in record.items() if key not in _FRAME)


def _block(block: object) -> str:
    if not isinstance(block, Mapping):
        return str(block)
    if isinstance(block.get("text"), str):
        return str(block["text"])
    if block.get("type") == "tool_use":
        return f"{block.get('name', 'tool')} {_value(block.get('input'))}"
    if block.get("type") == "tool_result":
        inner = block.get("content")
        return " ".join(map(_block, inner)) if isinstance(inner, list) else str(inner or "")
    return _value(block)


def _value(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
