"""One line of a JSON-lines file as an object, whatever it holds, at a bounded price in memory.

Issue: "huge lines (a 64 MB line does not take many times its size)". A decoded text takes up to four bytes a letter as
soon as one letter needs them; so of a very long line, the very long texts are measured where they lie and left out.
"""

import json
import re
from typing import Any, Final

import orjson

#: lines from this size on are thinned out before they are decoded
LONG_LINE: Final = 4 << 20
#: texts from this size on are left out of such a line
_LONG_TEXT: Final = 16 << 10
#: texts from this size on are left out where that leaves more than `_MOST_LEFT` of the line
_SHORT_TEXT: Final = 256
_MOST_LEFT: Final = 6 << 20
#: what stands for a text that was left out; no text of a session begins so
_LEFT_OUT: Final = "\x00left out:"
# takes an unfinished text to the end too: no position is looked at twice
_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_PIECE: Final = 1 << 20


def parse(raw: bytes) -> dict[str, Any] | None:
    """The object that the line is, None = it is none. Half letters that programs of JavaScript write are taken as

    they take them: a line is not lost because a text in it was cut between two halves of one letter.
    """
    if len(raw) < LONG_LINE:
        try:
            record = orjson.loads(raw)
        except ValueError:
            return parse_whole(raw)
        return record if record.__class__ is dict else None
    raw = _thinned(raw, _LONG_TEXT)
    if len(raw) > _MOST_LEFT:
        raw = _thinned(raw, _SHORT_TEXT)
    if len(raw) > _MOST_LEFT:
        return None  # millions of tiny values: as objects they take thirty times as much
    return parse_whole(raw)


def parse_whole(raw: bytes) -> dict[str, Any] | None:
    """The same of a document or a database's row, whose texts are not left out however long they are."""
    try:
        record = orjson.loads(raw)
    except ValueError:
        try:
            record = json.loads(raw.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
    return record if isinstance(record, dict) else None


def written_size(value: object) -> int:
    """Bytes of a value as JSON, about: also of what JSON can hold and UTF-8 cannot, and of what is nested deeply."""
    try:
        return len(orjson.dumps(value, default=str))
    except TypeError:
        try:
            return len(json.dumps(value, default=str))
        except (ValueError, RecursionError):
            return 0


def size(text: str) -> int:
    """Bytes of a text in UTF-8; of one that was left out, those that it had in its line."""
    if text.isascii():
        length = len(text)
        if length < 40 and text.startswith(_LEFT_OUT):
            return int(text[len(_LEFT_OUT) :]) if text[len(_LEFT_OUT) :].isdecimal() else length
        return length
    return sum(len(text[at : at + _PIECE].encode("utf-8", "surrogatepass")) for at in range(0, len(text), _PIECE))


def _thinned(raw: bytes, least: int) -> bytes:
    parts: list[bytes] = []
    kept = 0
    for found in _TEXT.finditer(raw):
        start, end = found.span()
        if end - start >= least and raw.endswith(b'"', start + 1, end):
            parts += (raw[kept:start], b'"\\u0000left out:%d"' % (end - start - 2))
            kept = end
    parts.append(raw[kept:])
    return b"".join(parts)
