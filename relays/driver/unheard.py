"""What an agent said last and a supervisor that died did not store: read again from the leg's raw stream.

Every line is in the stream before it is judged, so that a fact which came after the last flush is not lost with the
supervisor: without it the gate would be asked about less than the agent declared.
"""

import os
from pathlib import Path

from relays.agents.channel import STREAM
from relays.core.events import parse_line

START = "stream.start"  # where in the stream the present agent began: an earlier start of the leg counted anew from 1
TAIL = 64 * 1024
MOST = 16 * 1024 * 1024  # bytes looked at; what a flood left beyond that stays unheard


def begin(folder: Path) -> None:
    """Remember where the stream stands; before an agent is started."""
    try:
        size = (folder / STREAM).stat().st_size
    except FileNotFoundError:
        size = 0
    new = folder / (START + ".new")
    new.write_text(str(size), encoding="ascii")
    os.replace(new, folder / START)


def lines(folder: Path, after: int) -> list[bytes]:
    """The whole lines of the present agent whose sequence number is above `after`, in their order; [] without a stream.

    Reads from the end, no more than it needs.
    """
    try:
        start = int((folder / START).read_text(encoding="ascii"))
        with (folder / STREAM).open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            length = TAIL
            while True:
                begin_at = max(start, size - length)
                stream.seek(begin_at)
                found = stream.read(size - begin_at).split(b"\n")
                # the last piece has no line end: torn, or empty; the first may have lost its beginning
                whole = found[:-1] if begin_at == start else found[1:-1]
                if begin_at == start or length >= MOST or _reaches(whole, after):
                    return _new(whole, after)
                length *= 4
    except (OSError, ValueError):
        return []


def _new(whole: list[bytes], after: int) -> list[bytes]:
    """Events above that number, and malformed declarations behind the last event that is not above it."""
    parsed = [parse_line(line) for line in whole]
    stored = [at for at, one in enumerate(parsed) if one.event is not None and one.event.seq <= after]
    behind = stored[-1] if stored else -1
    return [
        line
        for at, (line, one) in enumerate(zip(whole, parsed, strict=True))
        if (one.event is not None and one.event.seq > after) or (one.declares is not None and at > behind)
    ]


def _reaches(whole: list[bytes], after: int) -> bool:
    first = next((seq for line in whole if (seq := _seq(line)) is not None), None)
    return first is not None and first <= after


def _seq(line: bytes) -> int | None:
    event = parse_line(line).event
    return None if event is None else event.seq
