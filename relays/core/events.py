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
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

SCHEMA: Final = "relay.event.v1"
LINE_BYTES: Final = 256 * 1024
DEPTH: Final = 32
KIND_CHARS: Final = 40
SEQ_MAX: Final = 2**63 - 1
#: of one bucket or one tool result; the sum of four still fits 31 bits
TOKENS_MAX: Final = 500_000_000
#: of one call, in whatever currency; a leg's sum still fits its column
COST_MAX: Final = Decimal(100_000)
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
    """What a line was: an event, or (`event` None) a problem in one line, with kind and seq where they can be read."""

    event: Event | None
    kind: str = ""
    seq: int | None = None
    payload: Mapping[str, Any] | None = None
    problem: str | None = None


# --- the closed schemas ---------------------------------------------------------------------------------------------


def _filled(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("must not be empty")
    return value


def _money(value: object) -> object:
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return value
    try:
        amount = Decimal(str(value))
    except InvalidOperation as error:
        raise ValueError("must be a number") from error
    if not amount.is_finite() or not 0 <= amount <= COST_MAX:
        raise ValueError(f"must be between 0 and {COST_MAX}")
    return amount


Text = Annotated[str, BeforeValidator(_filled)]
Short = Annotated[str, BeforeValidator(_filled), Field(max_length=200)]
Name = Annotated[str, BeforeValidator(_filled), Field(max_length=120)]
Ref = Annotated[str, BeforeValidator(_filled), Field(max_length=500)]
Tokens = Annotated[int, Field(ge=0, le=TOKENS_MAX)]
Money = Annotated[Decimal, BeforeValidator(_money)]
PointerKind = Literal["commit", "issue", "memory", "ledger", "file"]


class _Payload(BaseModel):
    """Strict types; a field that the schema does not name stays in the event's payload and means nothing."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", arbitrary_types_allowed=False)


class TurnStarted(_Payload):
    """A model call of the main chain begins."""


class ToolStarted(_Payload):
    id: Short
    name: Short


class ToolEnded(_Payload):
    """The result's size in tokens, or in bytes where the agent does not know its tokens."""

    id: Short
    ok: bool
    result_tokens: Tokens | None = None
    result_bytes: Tokens | None = None

    @model_validator(mode="after")
    def _sized(self) -> "ToolEnded":
        if self.result_tokens is None and self.result_bytes is None:
            raise ValueError("result_tokens or result_bytes is required")
        return self


class Usage(_Payload):
    """One call's buckets; null in a cache bucket means that the agent does not report it."""

    model: Name
    message_id: Name
    input: Tokens
    cache_read: Tokens | None
    cache_write_5m: Tokens | None
    cache_write_1h: Tokens | None
    output: Tokens
    cost: Money | None = None
    chain: Literal["main", "sub"]


class Fact(_Payload):
    """A load-bearing fact. A class left out is an unknown class, which is load-bearing; no backing refuses the gate."""

    label: Text
    class_: str = Field(default="", alias="class")
    backing: str | None = None


class Declared(_Payload):
    """A decision, an open question or a dead end."""

    label: Text
    pointer: str | None = None


class Artifact(_Payload):
    """Something durable that the leg made. On a line `"ref": "kind:ref"`; in the payload kind and ref apart."""

    kind: PointerKind
    ref: Ref


class Assumption(_Payload):
    key: Short
    statement: Text
    source: Literal["user_stated", "witnessed", "inferred", "stale", "unknown"]
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None


class Promotion(_Payload):
    """`consent` is what the agent says; only a person's recorded decision counts (`core/promotion`)."""

    slug: Short
    class_: str = Field(default="", alias="class")
    evidence: str | None = None
    consent: bool | None = None


class PageFault(_Payload):
    kind: Annotated[str, BeforeValidator(_filled), Field(max_length=20)]
    ref: Ref
    required: bool
    durability: str


class Todo(_Payload):
    id: Short
    open: bool


class FileWritten(_Payload):
    path: Annotated[str, BeforeValidator(_filled), Field(max_length=4096)]


class ParkTree(_Payload):
    """The agent's word that every dirty path is meant to be carried over as it stands."""


class Externalized(_Payload):
    """The agent's statement that all it relies on is declared."""


class Boundary(_Payload):
    next_actions: Annotated[list[str], Field(max_length=64)]
    final: bool


class Ledger(_Payload):
    """Ours: appends one ledger row, `<relay>.<leg>.e<seq>`."""

    refs: Annotated[
        list[Annotated[str, BeforeValidator(_filled), Field(max_length=510)]], Field(min_length=1, max_length=64)
    ]
    note: Annotated[str, Field(max_length=4096)] | None = None


SCHEMAS: Final[Mapping[str, type[_Payload]]] = {
    "turn_started": TurnStarted,
    "tool_started": ToolStarted,
    "tool_ended": ToolEnded,
    "usage": Usage,
    "fact": Fact,
    "decision": Declared,
    "open_question": Declared,
    "dead_end": Declared,
    "artifact": Artifact,
    "assumption": Assumption,
    "promotion": Promotion,
    "page_fault": PageFault,
    "todo": Todo,
    "file_written": FileWritten,
    "park_tree": ParkTree,
    "externalized": Externalized,
    "boundary": Boundary,
    "ledger": Ledger,
}

KINDS: Final = frozenset(SCHEMAS)


# --- reading a line -------------------------------------------------------------------------------------------------


class _Malformed(ValueError):
    pass


_TOKEN = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)


def parse_line(line: bytes) -> Parsed:
    """Read one line of a leg's stream; white space around the object is legal. Never raises."""
    if len(line) > LINE_BYTES:
        return Parsed(None, problem=f"line of {len(line)} bytes, more than {LINE_BYTES}")
    try:
        row = _object(line)
    except _Malformed as error:
        return Parsed(None, problem=_one_line(str(error)))
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
        return Parsed(None, known_kind, known_seq, payload, _one_line(str(error)))
    except ValidationError as error:
        return Parsed(None, known_kind, known_seq, payload, _one_line(f"{known_kind}: {_first(error)}"))
    event = Event(known_kind, known_seq, at, payload, schema is not None)
    return Parsed(event, known_kind, known_seq, payload)


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


def _first(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part) for part in found["loc"])
    why = found["msg"].removeprefix("Value error, ")
    return f"{where}: {why}" if where else why


def _one_line(text: str) -> str:
    """A problem quotes hostile text: made printable, one line, and short."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)[:PROBLEM_CHARS]
