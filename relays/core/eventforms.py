"""The closed forms of `relay.event.v1`: what each kind of event must hold, in which types and within which bounds.

Interface: the event protocol of the command adapter; `ledger` is ours. Bounds keep every value inside its column.
"""

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Final, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

#: of one bucket or one tool result; the sum of four still fits 31 bits
TOKENS_MAX: Final = 500_000_000
#: of a wait that an agent announces: a day
WAIT_MAX: Final = 86_400_000
#: of one call, in whatever currency; a leg's sum still fits its column
COST_MAX: Final = Decimal(100_000)


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
#: keys of the assumptions that an effect leans on
Assumes = Annotated[list[Short], Field(max_length=64)]
PointerKind = Literal["commit", "issue", "memory", "ledger", "file"]


class Payload(BaseModel):
    """Strict types; a field that the schema does not name stays in the event's payload and means nothing."""

    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", arbitrary_types_allowed=False)


class TurnStarted(Payload):
    """A model call of the main chain begins."""


class ToolStarted(Payload):
    id: Short
    name: Short


class ToolAsked(Payload):
    """Ours: may this tool run? Whoever asks waits for one line: `allow`, or `deny` and why."""

    id: Short
    name: Short


class ToolEnded(Payload):
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


class Usage(Payload):
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


class Retry(Payload):
    """The model did not answer and the agent tries again, `retry_in_ms` from now; a lost sign-in no try brings back."""

    cause: Literal["overload", "network", "sign_in"]
    retry_in_ms: Annotated[int, Field(ge=0, le=WAIT_MAX)] | None = None


class Compacted(Payload):
    """Ours: the program shortened its window by itself, or would have. A bounded leg never does: it ran too long."""

    tokens_before: Tokens | None = None


class Fact(Payload):
    """A load-bearing fact. A class left out is an unknown class, which is load-bearing; no backing refuses the gate."""

    label: Text
    class_: str = Field(default="", alias="class")
    backing: str | None = None
    assumes: Assumes = []


class Declared(Payload):
    """A decision, an open question or a dead end."""

    label: Text
    pointer: str | None = None
    assumes: Assumes = []


class Artifact(Payload):
    """Something durable that the leg made. On a line `"ref": "kind:ref"`; in the payload kind and ref apart."""

    kind: PointerKind
    ref: Ref


class Assumption(Payload):
    key: Short
    statement: Text
    source: Literal["user_stated", "witnessed", "inferred", "stale", "unknown"]
    confidence: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None = None


class Promotion(Payload):
    """`consent` is what the agent says; only a person's recorded decision counts (`core/promotion`)."""

    slug: Short
    class_: str = Field(default="", alias="class")
    evidence: str | None = None
    consent: bool | None = None
    assumes: Assumes = []


class PageFault(Payload):
    kind: Annotated[str, BeforeValidator(_filled), Field(max_length=20)]
    ref: Ref
    required: bool
    durability: str


class Todo(Payload):
    id: Short
    open: bool


class FileWritten(Payload):
    path: Annotated[str, BeforeValidator(_filled), Field(max_length=4096)]


class ParkTree(Payload):
    """The agent's word that every dirty path is meant to be carried over as it stands."""


class Externalized(Payload):
    """The agent's statement that all it relies on is declared."""


class Boundary(Payload):
    next_actions: Annotated[list[str], Field(max_length=64)]
    final: bool


class Ask(Payload):
    """A question to a person. `step`: what waits for its answer, left out = the next leg."""

    question: Text
    about: Literal["assumption", "promotion", "memory"] = "assumption"
    step: Annotated[str, BeforeValidator(_filled), Field(max_length=40)] | None = None


class NextAction(Payload):
    """Ours: the one next action, from an agent whose boundaries are asked by somebody else; stands until named anew."""

    text: Short


class Ledger(Payload):
    """Ours: appends one ledger row, `<relay>.<leg>.e<seq>`."""

    refs: Annotated[
        list[Annotated[str, BeforeValidator(_filled), Field(max_length=510)]], Field(min_length=1, max_length=64)
    ]
    note: Annotated[str, Field(max_length=4096)] | None = None
    assumes: Assumes = []


SCHEMAS: Final[Mapping[str, type[Payload]]] = {
    "turn_started": TurnStarted,
    "tool_asked": ToolAsked,
    "tool_started": ToolStarted,
    "tool_ended": ToolEnded,
    "usage": Usage,
    "retry": Retry,
    "compacted": Compacted,
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
    "ask": Ask,
    "ledger": Ledger,
    "next_action": NextAction,
}

KINDS: Final = frozenset(SCHEMAS)
