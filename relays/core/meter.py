"""The normal form of what an agent wrote about itself: calls, boundaries, durable acts, anomalies.

Mission, phase 0: "observe only. Instrument context growth per leg". Each reader turns its agent's own format into these
shapes; everything after it (storing, counting, pricing, shadow) knows no agent. Texts of sessions are no part of it:
identifiers, counts and sizes only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from enum import StrEnum
from operator import attrgetter
from typing import Final, Literal

from relays.core.usage import ZERO, Buckets, merge_max

Chain = Literal["main", "sub", "aux"]
#: "" = this session's own; "replay" = a fork's file repeats its parent's call (known from the parent's file);
#: "estimated" = it looks like a repetition, but the parent's file is missing
Copied = Literal["", "replay", "estimated"]

_CHAIN_ORDER: dict[Chain, int] = {"main": 0, "aux": 1, "sub": 2}


class AnomalyKind(StrEnum):
    """What a reader or the projection met that a person should know; closed."""

    BROKEN_LINE = "broken_line"  # a line that is no JSON object (two records glued, cut in the middle)
    PARTIAL_TAIL = "partial_tail"  # the last line has no end yet: held until it has
    HUGE_LINE = "huge_line"  # a line over the limit that one record may take: counted, not parsed
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_KEY = "unknown_key"
    TIME_BACKWARDS = "time_backwards"
    CHAIN_BREAK = "chain_break"  # a parentUuid that no earlier record of the file has
    UNEXPLAINED_DROP = "unexplained_drop"  # the window shrank without a boundary record
    INHERITED_COPY = "inherited_copy"  # calls that an earlier session made, copied by a fork or resume
    REPEATED_RECORD = "repeated_record"  # a record that stands in the file again under the same uuid
    REPLAY_ESTIMATED = "replay_estimated"
    NO_RESULT = "no_result"  # a headless stream that ended without its result line
    IMPLAUSIBLE_USAGE = "implausible_usage"  # more in the window than the window holds, a negative or absurd count
    IDENTITY_MISMATCH = "identity_mismatch"  # the parts of a call do not add up to the total that the agent wrote
    REPLACED = "replaced"  # the file shrank or became another one: read again from its start
    GONE = "gone"  # the file is no longer there; what was read of it stays


@dataclass(slots=True)
class Seen:
    """One model call as one file shows it. Rows of the same `key` in one file are merged (`merge`) by the reader.

    `key`: one name per API call over ALL files and agents (`message.id`, else `requestId`, else uuid; Codex:
    `codex:<thread>:<n>`; others `<agent>:<session>:<message id>`), at most 200 characters.
    `line`: of its first row in the file, from 1 (records without lines: their order, from 1).
    `at`: ISO 8601 text as the file has it, "" where it has none.
    """

    session: str
    key: str
    line: int
    chain: Chain = "main"
    agent_id: str = ""  # of a sub-agent
    model: str = ""
    at: str = ""
    buckets: Buckets = ZERO
    reasoning: int = 0  # part of buckets.output
    lower_bound: bool = False  # output is only a lower bound (the agent never wrote the final figure)
    window: int | None = None  # as the agent declares it
    vector: str = ""  # Codex: "input/cached/output/reasoning" of the running total, to find a replay
    turn: str = ""  # Codex: turn id
    copied: Copied = ""
    tools: int = 0  # tool results that came back for this call
    tool_errors: int = 0  # of them, those that the agent marked as failed
    fill: dict[str, int] = field(default_factory=dict)  # kind of record -> bytes since the main call before this one
    reported_cost: str = ""  # decimal text, as the agent itself says; "" = it does not


_values: Final = attrgetter(*(one.name for one in fields(Seen)))


def copied(seen: Seen) -> Seen:
    """A second object of the same values."""
    return Seen(*_values(seen))


def merge(a: Seen, b: Seen) -> Seen:
    """Two rows of the same call: field-wise maximum, the first line, the strongest chain; order does not matter.

    "Per key: field-wise max", and a call that the main chain shows is the main chain's.
    """
    first, other = (a, b) if (a.line, a.chain, a.at) <= (b.line, b.chain, b.at) else (b, a)
    return Seen(
        session=first.session,
        key=first.key,
        line=first.line,
        chain=min(a.chain, b.chain, key=_CHAIN_ORDER.__getitem__),
        agent_id=max(a.agent_id, b.agent_id),
        model=first.model or other.model,
        at=min(filter(None, (a.at, b.at)), default=""),
        buckets=merge_max(a.buckets, b.buckets),
        reasoning=max(a.reasoning, b.reasoning),
        lower_bound=a.lower_bound and b.lower_bound,
        window=max(filter(None, (a.window, b.window)), default=None),
        vector=max(a.vector, b.vector),
        turn=max(a.turn, b.turn),
        copied=first.copied and other.copied,
        tools=max(a.tools, b.tools),
        tool_errors=max(a.tool_errors, b.tool_errors),
        fill=merge_fill(a.fill, b.fill),
        reported_cost=max(a.reported_cost, b.reported_cost, key=_amount),
    )


def _amount(text: str) -> Decimal:
    return Decimal(text or 0)


def merge_fill(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    """Kind by kind the larger one: the same stretch read twice is the same stretch."""
    return {kind: max(a.get(kind, 0), b.get(kind, 0)) for kind in {*a, *b}}


@dataclass(slots=True)
class Compaction:
    """A boundary record: the agent says that it compacted. Declared and measured figures are never mixed: measured

    ones are of the calls before and after it, found when the session is projected.
    """

    session: str
    uid: str  # its uuid; where the agent gives none: "<window id>" or "line:<n>"
    line: int
    at: str = ""
    kind: Literal["compaction", "microcompact"] = "compaction"
    trigger: Literal["auto", "manual", "unknown"] = "unknown"
    declared_pre: int | None = None
    declared_post: int | None = None
    duration_ms: int | None = None


ActKind = Literal["commit", "file", "issue"]


@dataclass(slots=True)
class Act:
    """What the session durably did, as its own tool calls show: `commit` (an abbreviated or full id that git printed),

    `file` (a path that it wrote, as it named it), `issue` (`#12`, or `owner/name#12`). `call`: key of the call.
    """

    session: str
    kind: ActKind
    ref: str  # at most 500 characters, printable
    line: int
    at: str = ""
    call: str = ""


@dataclass(slots=True)
class About:
    """What a file says of one session; the empty value = it does not say. Merged field by field, later non-empty wins

    but for `first_at` (min) and `last_at` (max).
    """

    session: str
    agent: str
    cwd: str = ""
    branch: str = ""
    version: str = ""
    parent: str = ""  # the session that it was forked from or is a sub-agent of, where the file says so
    copy_hint: bool = False  # the file itself says that it is a fork, a resumed copy or a background copy
    first_at: str = ""
    last_at: str = ""
    reported_cost: str = ""


@dataclass(slots=True)
class Anomaly:
    """`count` times in this part of the file; `line` is the first one's (0 = of the file as a whole).

    `count` is negative where this part takes back what an earlier one said of the file as a whole.
    """

    kind: AnomalyKind
    session: str = ""
    line: int = 0
    count: int = 1
    detail: str = ""  # an identifier such as the unknown type's name; never a text of the session


@dataclass(slots=True)
class Extract:
    """What one part of a file gave. Reading a file in parts and merging gives what reading it at once gives."""

    calls: dict[tuple[str, str], Seen] = field(default_factory=dict)  # (session, key)
    compactions: dict[tuple[str, str], Compaction] = field(default_factory=dict)  # (session, uid)
    acts: dict[tuple[str, str, str], Act] = field(default_factory=dict)  # (session, kind, ref): the first one
    #: (session, key of the main call that asked for it, file that was read or written) -> line
    touches: dict[tuple[str, str, str], int] = field(default_factory=dict)
    about: dict[str, About] = field(default_factory=dict)
    anomalies: dict[tuple[AnomalyKind, str, str], Anomaly] = field(default_factory=dict)  # (kind, session, detail)
    records: dict[str, list[int]] = field(default_factory=dict)  # kind of record -> [count, bytes]

    def note(self, kind: AnomalyKind, session: str = "", line: int = 0, detail: str = "", count: int = 1) -> None:
        """Count an anomaly; its line stays the first one's. A negative count takes back what an earlier part said;

        what is taken back altogether is not there.
        """
        known = self.anomalies.get((kind, session, detail))
        if known is None:
            self.anomalies[kind, session, detail] = Anomaly(kind, session, line, count, detail)
        elif known.count + count:
            known.count += count
        else:
            del self.anomalies[kind, session, detail]

    def saw(self, call: Seen) -> None:
        """A row of a call: merged into what is known of it."""
        known = self.calls.get((call.session, call.key))
        self.calls[call.session, call.key] = call if known is None else merge(known, call)

    def tell(self, about: About) -> None:
        """What the file says of a session, to which it came back or not: its first and its last time are of all."""
        known = self.about.get(about.session)
        if known is not None:
            about.first_at = min(filter(None, (known.first_at, about.first_at)), default="")
            about.last_at = max(known.last_at, about.last_at)
            about.parent = about.parent or known.parent
        self.about[about.session] = about

    def record(self, kind: str, size: int) -> None:
        """One record of this kind with `size` bytes."""
        entry = self.records.get(kind)
        if entry is None:
            self.records[kind] = [1, size]
        else:
            entry[0] += 1
            entry[1] += size


def keep(call: Mapping[str, object], name: str) -> int:
    """A token count from an agent's JSON: a whole number that is not negative, else 0 (booleans and texts are none)."""
    value = call.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
