"""The agents' query tool: its closed table of verbs, what each takes, and one line of request and answer.

Mission: a fresh leg is "seeded only by a small typed baton and a query interface into the durable store". Interface,
For agents: "A fresh leg has the baton and this query tool, nothing else". The MCP server and the command line are two
shells over this table; the leg's supervisor answers both.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from relays.core.events import first_problem, one_line_problem, read_object

#: first key and value of a request line: by these bytes it is told from an event
SCHEMA: Final = "relay.query.v1"
MARK: Final = b'{"query":"relay.query.'
TOKEN_CHARS: Final = 200
TEXT_BYTES: Final = 16 * 1024  # of one memory
SLICE_BYTES: Final = 16 * 1024  # of what one `recall` serves; the rest comes by `offset`
OFFSET_MAX: Final = 2**40


def _filled(value: object) -> object:
    if isinstance(value, str) and not value.strip():
        raise ValueError("must not be empty")
    return value


def _small(value: object) -> object:
    if isinstance(value, str) and len(value.encode("utf-8", "replace")) > TEXT_BYTES:
        raise ValueError(f"must be at most {TEXT_BYTES} bytes")
    return value


Line = Annotated[str, BeforeValidator(_filled), Field(max_length=500)]
Name = Annotated[str, BeforeValidator(_filled), Field(max_length=200)]
PointerText = Annotated[
    str, Field(max_length=510, description="`kind:ref` with kind commit, issue, memory, ledger or file; or `#n`")
]
Assumes = Annotated[
    list[Name], Field(max_length=64, description="keys of the assumptions (see `assume`) that this leans on")
]


class Arguments(BaseModel):
    """Closed and strict: an argument that the verb does not name is refused."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", populate_by_name=True)


class Nothing(Arguments):
    pass


class Recall(Arguments):
    kind: Annotated[
        Name,
        Field(description="commit, issue, memory, ledger, file; or digest: a sha256 that the baton or a reset names"),
    ]
    ref: Annotated[
        str,
        BeforeValidator(_filled),
        Field(max_length=500, description="SHA, #n, slug, row id, path#Lnn, path or glob"),
    ]
    required: Annotated[
        bool, Field(description="true: you cannot go on without it; if it cannot come, a person is asked")
    ] = False
    durability: Annotated[
        str, Field(max_length=40, description="bounded or durable: it can be read later, so the pointer may do")
    ] = ""
    offset: Annotated[int, Field(ge=0, le=OFFSET_MAX, description="byte to go on at, of what was left out")] = 0


class LedgerAppend(Arguments):
    refs: Annotated[list[PointerText], Field(min_length=1, max_length=64, description="what the row points at")]
    note: Annotated[str, Field(max_length=500, description="one line; a label, never the only place of a fact")] = ""
    assumes: Assumes = []


class Fact(Arguments):
    label: Annotated[Line, Field(description="one line")]
    class_: Annotated[
        str, Field(alias="class", max_length=40, description="turn (ephemeral), bounded or durable; left out = unknown")
    ] = ""
    backing: Annotated[
        PointerText | None, Field(description="where it durably stands; without one it refuses the gate")
    ] = None
    assumes: Assumes = []


class Declared(Arguments):
    label: Annotated[Line, Field(description="one line")]
    pointer: Annotated[
        PointerText | None, Field(description="where it durably stands; without one it refuses the gate")
    ] = None
    assumes: Assumes = []


class NextAction(Arguments):
    text: Annotated[str, BeforeValidator(_filled), Field(max_length=200, description="one line of at most 200 bytes")]


class Assume(Arguments):
    key: Annotated[Name, Field(description="how you cite it later")]
    statement: Annotated[str, BeforeValidator(_filled), Field(max_length=2000)]
    source: Literal["user_stated", "witnessed", "inferred", "stale", "unknown"]
    confidence: Annotated[float | None, Field(ge=0, le=1, allow_inf_nan=False, strict=False)] = None


class Remember(Arguments):
    """One memory, or (`act`) an operation on memories that needs more than an agent may do."""

    slug: Annotated[
        str, Field(max_length=200, description="letters, digits, '.', '_', '-'; for wipe a beginning of slugs")
    ] = ""
    text: Annotated[str, BeforeValidator(_small), Field(description="what to remember, at most 16 KiB")] = ""
    class_: Annotated[
        str, Field(alias="class", max_length=40, description="bounded or durable; turn and unclassified never persist")
    ] = ""
    evidence: Annotated[PointerText | None, Field(description="a pointer that shows it; it must resolve")] = None
    expires_days: Annotated[int | None, Field(ge=1, le=3650, description="bounded: after so many days it is gone")] = (
        None
    )
    act: Annotated[
        Literal["remember", "delete", "wipe", "reset"],
        Field(
            description="delete one slug, wipe all that begin with slug, reset all: a person is asked, nothing is done"
        ),
    ] = "remember"
    assumes: Assumes = []


class Ask(Arguments):
    question: Annotated[str, BeforeValidator(_filled), Field(max_length=2000)]
    about: Literal["assumption", "promotion", "memory"] = "assumption"
    step: Annotated[
        str | None,
        BeforeValidator(_filled),
        Field(max_length=40, description="what waits for the answer; left out = the next leg"),
    ] = None


@dataclass(frozen=True, slots=True)
class Verb:
    """One verb: what it takes, what it is for, and whether it only reads."""

    name: str
    arguments: type[Arguments]
    what: str
    reads: bool = False

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments, closed."""
        made = self.arguments.model_json_schema(by_alias=True)
        made.pop("title", None)
        made.pop("description", None)
        for one in made.get("properties", {}).values():
            one.pop("title", None)
        return made


VERBS: Final[Mapping[str, Verb]] = {
    verb.name: verb
    for verb in (
        Verb(
            "orient",
            Nothing,
            "The baton that this leg began with, each of its pointers, the goal, verified progress, and what people "
            "said. Ask it first.",
            reads=True,
        ),
        Verb(
            "recall",
            Recall,
            "Read one record back from git, the ledger, memory, issues or tracked files, in slices of 16 KiB. "
            "Recorded as a page fault with its outcome. Transcripts of earlier legs are never served.",
            reads=True,
        ),
        Verb("ledger_append", LedgerAppend, "Append one row of references to the relay's ledger."),
        Verb("fact", Fact, "Declare what the goal leans on, with the pointer where it durably stands."),
        Verb("decision", Declared, "Declare a decision, with the pointer where it is written down."),
        Verb("next_action", NextAction, "Name the one next action. It stands until you name another."),
        Verb("open_question", Declared, "Declare a question that the next leg must know, with its pointer."),
        Verb("dead_end", Declared, "Declare what must not be tried again, with the pointer that shows why."),
        Verb(
            "assume", Assume, "Record an assumption; the answer says use, query or refresh. Cite its key by `assumes`."
        ),
        Verb(
            "remember",
            Remember,
            "Keep a memory beyond this relay's legs: it must be bounded or durable and name evidence that resolves. "
            "Deleting, wiping, resetting and rewriting a standing profile are a person's to allow.",
        ),
        Verb("ask", Ask, "Ask a person. Costs one of the relay's clarification queries."),
        Verb(
            "externalized",
            Nothing,
            "State that all you rely on is declared. A later fact, decision, question, dead end, commit or tool call "
            "voids it: say it last.",
        ),
        Verb("done_check", Nothing, "Does done_when hold in the durable store?", reads=True),
        Verb("safe_point", Nothing, "May this leg stop here, and if not, why, and what would help?", reads=True),
    )
}


class QueryRefused(ValueError):
    """A use that does not happen; `why` is one line for the agent: what, and what to do."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it was said; the token is not judged, and the arguments are only an object yet."""

    token: str
    verb: str
    arguments: Mapping[str, Any]


def request_line(token: str, verb: str, arguments: Mapping[str, Any]) -> bytes:
    """One line without its newline; starts with MARK."""
    said = {"query": SCHEMA, "token": token, "verb": verb, "args": dict(arguments)}
    return json.dumps(said, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def is_request(line: bytes) -> bool:
    return line.lstrip(b" \t").startswith(MARK)


def read_request(line: bytes) -> Request:
    """Raises QueryRefused for what is no request; the verb is one of the table when this returns."""
    try:
        row = read_object(line)
    except ValueError as error:
        raise QueryRefused(f"the request cannot be read: {one_line_problem(str(error))}") from error
    if row.get("query") != SCHEMA or set(row) - {"query", "token", "verb", "args"}:
        raise QueryRefused(f"not a request of {SCHEMA}: it has query, token, verb and args")
    token, verb, arguments = row.get("token"), row.get("verb"), row.get("args", {})
    if not isinstance(token, str) or not 0 < len(token) <= TOKEN_CHARS:
        raise QueryRefused("no token: pass the RELAY_TOKEN of this leg")
    if not isinstance(verb, str) or verb not in VERBS:
        raise QueryRefused(f"no such verb; take one of {', '.join(VERBS)}")
    if not isinstance(arguments, dict):
        raise QueryRefused(f"{verb}: args must be an object")
    return Request(token, verb, arguments)


def read_arguments(verb: str, arguments: Mapping[str, Any]) -> Arguments:
    """The verb's arguments, checked. Raises QueryRefused, whose words name the argument."""
    try:
        return VERBS[verb].arguments.model_validate(dict(arguments))
    except ValidationError as error:
        raise QueryRefused(one_line_problem(f"{verb}: {first_problem(error)}")) from error
    except (ValueError, RecursionError) as error:
        raise QueryRefused(one_line_problem(f"{verb}: {error}")) from error


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a text, cut between characters. `left_out`: bytes before and behind it; `next_offset` None: it is the
    end."""

    text: str
    offset: int
    total: int
    next_offset: int | None

    @property
    def left_out(self) -> int:
        return self.total - len(self.text.encode("utf-8", "replace"))


def cut(raw: bytes, offset: int, limit: int = SLICE_BYTES) -> Slice:
    """At most `limit` bytes of UTF-8 from `offset` on; what is no UTF-8 is replaced, sign by sign, before it is cut."""
    whole = raw.decode("utf-8", "replace").encode()
    begin = min(offset, len(whole))
    while begin < len(whole) and whole[begin] & 0xC0 == 0x80:
        begin += 1
    end = min(begin + limit, len(whole))
    while begin < end < len(whole) and whole[end] & 0xC0 == 0x80:
        end -= 1
    return Slice(whole[begin:end].decode(), begin, len(whole), end if end < len(whole) else None)
