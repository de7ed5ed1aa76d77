"""The closed event vocabulary `relay.event.v1`: one JSON object a line, from any program that runs a leg.

Rules: "Unknown kinds are kept and counted." A line is hostile input: `parse_line` never raises; what cannot be
used comes back as `Parsed.problem`, one line that names the field. Text that no database column could hold
(NUL characters, lone surrogates, numbers out of range) is malformed here, so that nothing behind needs to ask again.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from relays.core.eventforms import SCHEMAS
from relays.core.lines import recorded

SCHEMA: Final = "relay.event.v1"
LINE_BYTES: Final = 256 * 1024
DEPTH: Final = 32
KIND_CHARS: Final = 40
#: declarations that came malformed are numbered from here on, what was told through the query tool from TOLD on; no
#: agent's own number reaches either
UNREAD: Final = 2**62
TOLD: Final = UNREAD - 2**40
SEQ_MAX: Final = TOLD - 1
PROBLEM_CHARS: Final = 300


@dataclass(frozen=True, slots=True)
class Event:
    """One accepted event.

    `payload` is the object without kind, seq and at, unknown extra fields included (of an artifact and a page fault,
    `kind` and `ref` are those of its pointer); `at` is in UTC, None where the line gave none; `known` is False for a
    kind outside the vocabulary.
    """

    kind: str
    seq: int
    at: datetime | None
    payload: Mapping[str, Any]
    known: bool = True


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a line was: an event, or (`event` None) a problem in one line, with kind and seq where they can be read.

    `declares`: of a malformed line that meant to declare something, that declaration without a backing and without a
    number of its own (seq -1): what an agent relies on is not gone because it was said badly.
    """

    event: Event | None
    kind: str = ""
    seq: int | None = None
    payload: Mapping[str, Any] | None = None
    problem: str | None = None
    declares: Event | None = None


class _Malformed(ValueError):
    pass


_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)


def parse_line(line: bytes) -> Parsed:
    """Read one line of a leg's stream; white space around the object is legal. Never raises."""
    if len(line) > LINE_BYTES:
        problem = recorded("line of %(n)d bytes, more than %(line_bytes)d", n=len(line), line_bytes=LINE_BYTES)
        return Parsed(None, problem=problem, declares=_glimpse(line, problem))
    try:
        row = _object(line)
    except _Malformed as error:
        problem = one_line_problem(str(error))
        return Parsed(None, problem=problem, declares=_glimpse(line, problem))
    kind, seq = row.get("kind"), row.get("seq")
    payload = {key: value for key, value in row.items() if key not in {"kind", "seq", "at"}}
    known_kind = kind if isinstance(kind, str) and len(kind) <= KIND_CHARS and kind.isprintable() else ""
    known_seq = seq if isinstance(seq, int) and not isinstance(seq, bool) and 0 <= seq <= SEQ_MAX else None
    try:
        if not known_kind:
            raise _Malformed(f"kind: must be a name of 1 to {KIND_CHARS} characters")
        if known_seq is None:
            raise _Malformed("seq: must be an integer, 0 or more")
        at = _moment(row["at"]) if row.get("at") is not None else None
        schema = SCHEMAS.get(known_kind)
        if known_kind in _POINTING:
            payload = _with_pointer(known_kind, payload)
        if schema is not None:
            schema.model_validate(payload)
    except _Malformed as error:
        problem = one_line_problem(str(error))
    except ValidationError as error:
        problem = one_line_problem(f"{known_kind}: {first_problem(error)}")
    else:
        event = Event(known_kind, known_seq, at, payload, schema is not None)
        return Parsed(event, known_kind, known_seq, payload)
    declares = _declaration(known_kind, payload.get("label"), problem)
    return Parsed(None, known_kind, known_seq, payload, problem, declares)


#: kinds that declare what a leg relies on, and the kind under which a malformed one is kept
_DECLARING: Final[Mapping[str, str]] = {
    "fact": "fact",
    "decision": "decision",
    "open_question": "open_question",
    "dead_end": "dead_end",
    "todo": "fact",
    "file_written": "fact",
}
_GLIMPSE: Final = re.compile(rb'"kind"\s*:\s*"(' + "|".join(_DECLARING).encode("ascii") + rb')"')
_GLIMPSE_BYTES: Final = 4096


def _glimpse(line: bytes, problem: str) -> Event | None:
    """A line that is no object at all can still be seen to have meant a declaration."""
    found = _GLIMPSE.search(line[:_GLIMPSE_BYTES])
    return _declaration(found[1].decode("ascii"), None, problem) if found else None


def _declaration(kind: str, label: object, problem: str) -> Event | None:
    """Of a malformed line: what it declared, without class and backing, so that it refuses until it is said properly.

    Said again under its own label, it is replaced; where none could be read, a person sees what was wrong.
    """
    kept = _DECLARING.get(kind)
    if kept is None:
        return None
    own = (
        label
        if isinstance(label, str) and label.strip() and kept == kind
        else recorded("%(kind)s that cannot be read: %(problem)s", kind=kind, problem=problem)
    )
    return Event(kept, -1, None, {"label": own, "malformed": problem})


#: kinds whose own field `kind` cannot stand beside the event's `kind` in one JSON object
_POINTING: Final = frozenset({"artifact", "page_fault"})


def _with_pointer(event: str, payload: dict[str, Any]) -> dict[str, Any]:
    """On a line an artifact and a page fault have `"ref": "kind:ref"`, or an object named like the event.

    The payload holds `kind` and `ref` either way.
    """
    inner = payload.get(event)
    if isinstance(inner, dict):
        return {key: value for key, value in payload.items() if key != event} | inner
    ref = payload.get("ref")
    if isinstance(ref, str):
        if ref.startswith("#"):
            return payload | {"kind": "issue"}
        word, colon, rest = ref.partition(":")
        if not colon:
            raise _Malformed(f"{event}: ref: must be kind:ref")
        return payload | {"kind": word, "ref": rest}
    return payload


def read_object(line: bytes) -> dict[str, Any]:
    """A line as one JSON object, as strictly as an event: no key twice, no NaN, nothing that no column could hold.

    Raises ValueError, one line that says what is wrong.
    """
    if len(line) > LINE_BYTES:
        raise _Malformed(f"line of {len(line)} bytes, more than {LINE_BYTES}")
    return _object(line)


def _object(line: bytes) -> dict[str, Any]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Malformed(f"not UTF-8 at byte {error.start}") from error
    if not text.strip():
        raise _Malformed("empty line")
    _check_depth(text)
    try:
        row = json.loads(
            text, object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
        )
    except _Malformed:
        raise
    except (ValueError, RecursionError) as error:
        raise _Malformed(f"not JSON: {error}") from error
    if not isinstance(row, dict):
        raise _Malformed("not a JSON object")
    if "\\u" in text:  # only an escape can bring in what UTF-8 and JSON themselves refuse
        _check_characters(row)
    return row


def _check_depth(text: str) -> None:
    if text.count("[") + text.count("{") <= DEPTH:
        return
    depth = 0
    for found in _TOKEN.finditer(text):
        mark = found.group()
        if mark in "[{":
            depth += 1
            if depth > DEPTH:
                raise _Malformed(f"nested deeper than {DEPTH}")
        elif mark in "]}":
            depth -= 1


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Malformed(f"{key[:80]}: key given twice")
            seen.add(key)
    return row


def _no_constant(name: str) -> Any:
    raise _Malformed(f"{name} is not JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _Malformed("a number is out of range")
    return value


def _integer(digits: str) -> int:
    if len(digits) > 40:
        raise _Malformed("a number is out of range")
    return int(digits)


def _check_characters(row: dict[str, Any]) -> None:
    """No NUL and no lone surrogate, in keys and values."""
    waiting: list[Any] = [row]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting.extend(value.keys())
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)
        elif isinstance(value, str):
            if "\0" in value:
                raise _Malformed("a text holds a NUL character")
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                raise _Malformed("a text holds a lone surrogate") from error


def _moment(value: object) -> datetime:
    if not isinstance(value, str) or len(value) > 40:
        raise _Malformed("at: must be an ISO 8601 time")
    try:
        at = datetime.fromisoformat(value)
        if at.tzinfo is None:
            raise _Malformed("at: must name its time zone")
        return at.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        if isinstance(error, _Malformed):
            raise
        raise _Malformed("at: must be an ISO 8601 time") from error


def first_problem(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in found["loc"])
    why = found["msg"].removeprefix("Value error, ")
    return f"{where}: {why}" if where else why


def one_line_problem(text: str) -> str:
    """A problem quotes hostile text: made printable, one line, and short."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)[:PROBLEM_CHARS]
