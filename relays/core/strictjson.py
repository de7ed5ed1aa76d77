"""JSON without the kindness of ordinary parsers: duplicate keys, 7.0, NaN and surrogates stay visible here.

Mission: "The baton is data, not prose, and it is the least trusted signal in the system." Two halves: `parse` turns
hostile text into a tree that still shows every oddity, `write` gives the one canonical spelling of a value.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relays.core.lines import recorded

#: deeper text is refused as a whole; the deepest legal baton has three levels
MAX_DEPTH = 64

# One pass: strings are stepped over (an unterminated one to the end, so that the scan stays linear), brackets counted.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_INTEGER = re.compile(r"(?:0|-?[1-9][0-9]{0,18})")

_ESCAPES = {code: f"\\u{code:04x}" for code in (*range(0x20), 0x3C, 0x3E, 0x26, 0x2028, 0x2029)} | {
    0x22: '\\"',
    0x5C: "\\\\",
    0x08: "\\b",
    0x0C: "\\f",
    0x0A: "\\n",
    0x0D: "\\r",
    0x09: "\\t",
}


class TextFault(ValueError):
    """The text as a whole is no JSON value that we read; `why` says it in one line without quoting the text."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class OddNumber:
    """A number that is no plain integer of at most 19 digits: 7.0, 1e3, NaN, -0, or far too long."""

    text: str


@dataclass(frozen=True, slots=True)
class Members:
    """An object as it stood in the text: every member in order, duplicates included."""

    items: "tuple[tuple[str, Value], ...]"


Scalar = str | int | bool | OddNumber | None
Value = Scalar | Members | list["Value"]


def _integer(text: str) -> int | OddNumber:
    return int(text) if _INTEGER.fullmatch(text) else OddNumber(text)


def _members(pairs: "list[tuple[str, Value]]") -> Members:
    return Members(tuple(pairs))


_DECODER = json.JSONDecoder(
    object_pairs_hook=_members, parse_int=_integer, parse_float=OddNumber, parse_constant=OddNumber, strict=True
)


def _too_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return False
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        sign = match.group()
        if sign in ("{", "["):
            depth += 1
            if depth > MAX_DEPTH:
                return True
        elif sign in ("}", "]"):
            depth -= 1
    return False


def parse(text: str | bytes, max_bytes: int) -> Value:
    """The value that the text spells, white space around it allowed; raises TextFault and nothing else.

    Size (UTF-8 bytes) and depth are judged before anything is parsed, so that a bomb costs no more than its reading.
    """
    if isinstance(text, str):
        if len(text) > max_bytes:
            raise TextFault(recorded("more than %(max_bytes)d bytes", max_bytes=max_bytes))
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise TextFault(recorded("a lone surrogate: not text in UTF-8")) from None
        if size > max_bytes:
            raise TextFault(recorded("%(size)d bytes, more than %(limit)d", size=size, limit=max_bytes))
    else:
        if len(text) > max_bytes:
            raise TextFault(recorded("%(size)d bytes, more than %(limit)d", size=len(text), limit=max_bytes))
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise TextFault(recorded("not UTF-8 at byte %(start)s", start=error.start)) from None
    if text.startswith("\ufeff"):
        raise TextFault(recorded("a byte order mark stands before the object"))
    if _too_deep(text):
        raise TextFault(recorded("nested deeper than %(max_depth)s", max_depth=MAX_DEPTH))
    try:
        value: Value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise TextFault(
            recorded(
                "not JSON: %(msg)s (line %(lineno)s, column %(colno)s)",
                msg=error.msg,
                lineno=error.lineno,
                colno=error.colno,
            )
        ) from None
    return value


def find_key(value: Value, key: str, path: str = "") -> str | None:
    """The path of the first member of that name at any depth, in the order of the text; None when there is none."""
    if isinstance(value, Members):
        for name, item in value.items:
            at = join(path, name)
            found = at if name == key else find_key(item, key, at)
            if found is not None:
                return found
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found = find_key(item, key, f"{path}[{index}]")
            if found is not None:
                return found
    return None


def shown(text: str, limit: int = 60) -> str:
    """Hostile text cut and made printable for a path or a line of evidence: no control character, no surrogate."""
    cut = text if len(text) <= limit else text[:limit] + "…"
    if cut.isprintable():
        return cut
    return "".join(sign if sign.isprintable() else f"\\u{ord(sign):04x}" for sign in cut)


def join(path: str, key: str) -> str:
    """`progress_cursor` and `start_sha` -> `progress_cursor.start_sha`; a hostile key is cut and made printable."""
    name = shown(key)
    return f"{path}.{name}" if path else name


def write(value: object) -> str:
    """Compact JSON, HTML-safe, keys in the mapping's own order: the one canonical spelling.

    `<` `>` `&` U+2028 U+2029 and control characters are escaped, all else is raw. Takes str, int, bool, None, mappings
    with str keys and sequences; anything else is a TypeError (a float has no canonical spelling here).
    """
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{write(_key(key))}:{write(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return "[" + ",".join(write(item) for item in value) + "]"
    raise TypeError(f"no canonical spelling for {type(value).__name__}")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError("keys of a canonical object are text")
    return key
