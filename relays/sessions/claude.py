"""Claude Code's session files: `<session>.jsonl`, and its sub-agents' in all three layouts.

sessions.md, 1. Order is the file's, never that of timestamps or of `parentUuid`: chains break, and what breaks is only
noted. Main chain = not a sidechain, no agent, not in a `subagents` folder, not nested in a progress record. One file
may hold two sessions. A summary after a compaction is not something that the user said. Nothing here reads hooks: a
boundary record is the only sign of a compaction (T22).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

from orjson import loads

from relays.core.meter import About, AnomalyKind, Chain, Compaction, Extract
from relays.sessions.claude_calls import Calls, Row
from relays.sessions.claude_known import (
    MESSAGE_KEYS,
    QUIET_FAMILIES,
    QUIET_TYPES,
    RECORD_KEYS,
    SYSTEM_SUBTYPES,
)
from relays.sessions.claude_usage import SYNTHETIC, Usage
from relays.sessions.fields import content_id, ident, in_utc, moment, money, seconds, table, text, whole
from relays.sessions.jsonline import LONG_LINE, parse
from relays.sessions.reader import Context, State
from relays.sessions.recent import Recent

AGENT: Final = "claude-code"
#: agents that Claude Code starts for itself: they cost, and do no part of the work
_OWN_AGENTS: Final = ("acompact", "aside_question", "aprompt_suggestion")
_TRIGGERS: Final = ("auto", "manual")
#: records of nameless sidechains (1.0.x) whose first record is remembered
_ROOTS: Final = 32
#: sessions of one file that are told apart at the same time
_SESSIONS: Final = 16
read_time: Final = datetime.fromisoformat


def chain_of(agent_id: str) -> Chain:
    """ "aux" for the agents that Claude Code starts for itself (a compaction, a side question), else "sub"."""
    return "aux" if agent_id.split("-")[0] in _OWN_AGENTS else "sub"


class ClaudeSession:
    """One session file; see `relays.sessions.reader.LineReader`."""

    def __init__(self, context: Context, state: State | None = None) -> None:
        kept = state or {}
        self._context = context
        self._subagent = context.subagent
        self._fallback = ident(context.parent_session or context.stem)
        self._session: str = kept.get("session", "")
        self._time: str = kept.get("time", "")
        #: session -> whether its first chained record was one of a background session
        self._began: dict[str, bool] = dict(kept.get("began", {}))
        self._roots: dict[str, str] = dict(kept.get("roots", {}))
        self._calls = Calls(kept.get("calls"))
        self._recent = Recent(kept.get("recent"))
        self._usage = Usage()
        self._out = self._calls.out
        self._abouts: dict[str, About] = {}
        # what the record before this one said, so that what stays the same is not read again
        self._raw_session: object = None
        self._telling: About | None = None
        self._place: tuple[object, object, object] | None = None
        self._signs: tuple[object, object, object] | None = None
        self._names: tuple[str, ...] | None = None
        self._head: tuple[object, ...] | None = None
        self._said: About | None = None  # of the session that the record names
        self._due: tuple[object, object, object] | None = None  # signs that no record with a uuid was judged by yet
        self._is_main = False
        self._last_uuid: object = None
        self._main = Row("", 0)
        self._row_before: tuple[object, ...] | None = None
        self._key_before = ""

    # --- the protocol

    def line(self, number: int, raw: bytes) -> None:
        # every line of every file comes through here: what most lines need stands in place
        try:
            record = loads(raw) if len(raw) < LONG_LINE else parse(raw)
        except ValueError:
            record = parse(raw)
        if record.__class__ is not dict:
            if raw.strip():
                self._out.note(AnomalyKind.BROKEN_LINE, self._session, number)
                self._out.record("broken line", len(raw))
            return
        get = record.get
        shape = tuple(record)
        plan = _PLANS.get(shape) or _plan(shape)
        head = plan.head(record)
        if plan.names is not self._names or head != self._head:
            self._headed(record, plan.names, head)
        if plan.unknown:
            for key in plan.unknown:
                self._calls.unknown(AnomalyKind.UNKNOWN_KEY, self._session, number, key)
        kind = get("type")
        if kind.__class__ is not str:
            kind = "no type"
        at = get("timestamp")
        if at is None:
            at = ""
        elif at != self._time or at.__class__ is not str:
            at = self._clock(at, number)
        if at:
            about = self._said
            if about is not None:
                if at > about.last_at:
                    about.last_at = at
                if at < about.first_at or not about.first_at:
                    about.first_at = at
        uuid = get("uuid")
        if uuid.__class__ is str and uuid:
            recent = self._recent
            parent = get("parentUuid")
            if parent is not None and parent != self._last_uuid and not self._subagent:
                if not recent.knows(_short(parent)):
                    self._out.note(AnomalyKind.CHAIN_BREAK, self._session, number)
            self._last_uuid = uuid
            if self._due is not None:
                self._signs, self._due = self._due, None
                self._judge(self._signs)
            new = recent.new
            if uuid in new or uuid in recent.old or recent.kept or len(uuid) > 64:
                if recent.add(kind, uuid if len(uuid) <= 64 else ident(uuid)):
                    self._repeated(record, kind, number, len(raw), at)
                    return
            else:
                new[uuid] = kind
                if len(new) >= recent.room:
                    recent.turn()
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, record, number, len(raw), at)
            return
        self._out.record(f"other {self._calls.name(kind)}", len(raw))
        if kind not in QUIET_TYPES and not kind.startswith(QUIET_FAMILIES):
            self._calls.unknown(AnomalyKind.UNKNOWN_TYPE, self._session, number, kind)

    def take(self) -> Extract:
        out = self._calls.take()
        self._out = self._calls.out
        out.about, self._abouts = self._abouts, {}
        self._telling = self._place = self._signs = self._head = None
        return out

    def state(self) -> State:
        return {
            "session": self._session,
            "time": self._time,
            "began": self._began,
            "roots": self._roots,
            "calls": self._calls.state(),
            "recent": self._recent.state(),
        }

    # --- what each record says of its session

    def _headed(self, record: Mapping[str, Any], names: tuple[str, ...], head: tuple[object, ...]) -> None:
        """A record whose head is not that of the one before it: whose it is, and what it says of its session."""
        get = record.get
        sid = get("sessionId")
        if sid is not None and sid != self._raw_session:
            self._session = ident(sid) or self._session
            self._raw_session = sid
            self._telling = self._place = self._signs = None
        self._said = None
        if sid is not None:
            if self._telling is None:
                self._telling = self._about(self._session)
            self._said = self._telling
            place = (get("cwd"), get("gitBranch"), get("version"))
            if place != self._place:
                self._locate(self._telling, place)
        signs = (get("session_id"), get("sessionKind"), get("forkedFrom"))
        self._due = signs if signs != self._signs else None
        self._is_main = not self._subagent and get("agentId") is None
        self._main.session = self._session or self._fallback
        self._names, self._head = names, head

    def _clock(self, value: Any, number: int) -> str:
        """The record's time, "" where it has none that can be read; one before the record before it is noted."""
        if value.__class__ is not str:
            return ""
        before = self._time
        if value[10:11] == "T" and value[-1:] == "Z" and value[4:5] == value[7:8] == "-":
            try:
                read_time(value)
            except ValueError:
                return ""
            at = value
        else:
            at = in_utc(value)
            if not at:
                return ""
        if before and (at < before if len(at) == len(before) else (seconds(at) or 0) < (seconds(before) or 0)):
            self._out.note(AnomalyKind.TIME_BACKWARDS, self._session, number)
        self._time = at
        return at

    def _about(self, session: str) -> About:
        about = self._abouts.get(session)
        if about is None:
            about = self._abouts[session] = About(session, AGENT)
        return about

    def _locate(self, about: About, place: tuple[object, object, object]) -> None:
        self._place = place
        about.cwd = text(place[0], 4096) or about.cwd
        about.branch = text(place[1], 300) or about.branch
        about.version = text(place[2], 60) or about.version

    def _judge(self, signs: tuple[object, object, object]) -> None:
        """Whether the file itself says that this session's history is copied."""
        session = self._session
        maker = ident(table(signs[2]).get("sessionId")) or ident(signs[0])
        background = signs[1] == "bg"
        began = self._began.get(session)
        if began is None:
            self._began[session] = background
            if len(self._began) > _SESSIONS:
                del self._began[next(iter(self._began))]
        elif background and not began:
            # a background session makes a new file: what is not its own was copied from the one before it
            self._about(session).copy_hint = True
        if maker and maker != session:
            # a copy rewrites only `sessionId`; some versions say where it was forked
            about = self._about(session)
            about.copy_hint, about.parent = True, maker

    def _repeated(self, record: Mapping[str, Any], kind: str, number: int, length: int, at: str) -> None:
        self._out.note(AnomalyKind.REPEATED_RECORD, self._session, number, kind if kind in _HANDLERS else "")
        self._out.record("repeated record", length)
        if kind == "assistant":  # its figures may be the better ones; its content is in the window already
            self._assistant_usage(record, self._row(record, number, at), number)

    def _row(self, record: Mapping[str, Any], number: int, at: str) -> Row:
        if self._is_main and record.get("isSidechain") is not True:
            row = self._main
            row.line, row.at = number, at
            return row
        session = self._session or self._fallback
        named = ident(record.get("agentId"), 120) or ident(self._context.agent_id, 120)
        return Row(session, number, at, chain_of(named), named or self._root(record))

    def _root(self, record: Mapping[str, Any]) -> str:
        """Of a sidechain whose agent has no name: the uuid of its first record."""
        parent, uuid = text(record.get("parentUuid")), text(record.get("uuid"))
        root = self._roots.get(parent) or parent or uuid
        if uuid and uuid not in self._roots:
            self._roots[uuid] = root
            if len(self._roots) > _ROOTS:
                del self._roots[next(iter(self._roots))]
        return root

    # --- records

    def _assistant(self, record: Mapping[str, Any], number: int, length: int, at: str) -> None:
        row = self._row(record, number, at)
        key = self._assistant_usage(record, row, number)
        message = record.get("message")
        content = message.get("content") if message.__class__ is dict else None
        label = self._calls.answered(row, key, content)
        entry = self._out.records.get(label)
        if entry is None:
            self._out.record(label, length)
        else:
            entry[0] += 1
            entry[1] += length

    def _assistant_usage(self, record: Mapping[str, Any], row: Row, number: int, version: object = None) -> str:
        """The call's key. A row that a program made up, or without figures, is no row of a call."""
        message = record.get("message")
        if not isinstance(message, dict):
            return ""
        shape = tuple(message)
        if shape not in _MESSAGES:
            unknown = sorted(message.keys() - MESSAGE_KEYS)
            for name in unknown:
                self._calls.unknown(AnomalyKind.UNKNOWN_KEY, row.session, number, name, "message.")
            if not unknown and len(_MESSAGES) < _SHAPES:
                _MESSAGES.add(shape)
        identity, usage, stop = message.get("id"), message.get("usage"), message.get("stop_reason")
        version = version or record.get("version")
        before = self._row_before
        if before is not None and identity == before[0]:
            if before == (identity, row.session, row.chain, stop, version) and self._usage.same(usage):
                return self._key_before  # the next block of the same answer
        self._row_before = None
        key = ident(identity) or (
            ident(record.get("requestId")) or ident(record.get("uuid")) or f"said:{row.session}:{content_id(record)}"
        )
        model = message.get("model")
        if model == SYNTHETIC:
            return key
        used = self._usage.read(usage, self._out, row.session, number)
        if used is not None:
            bound = self._usage.placeholder(version, stop)
            self._calls.row(row, key, model, used[0], used[1], bound)
            if identity:
                self._row_before = (identity, row.session, row.chain, stop, version)
                self._key_before = key
        return key

    def _user(self, record: Mapping[str, Any], number: int, length: int, at: str) -> None:
        row = self._row(record, number, at)
        label = "compact summary" if record.get("isCompactSummary") is True else "user text"
        message = record.get("message")
        label = self._calls.given(row, message.get("content") if message.__class__ is dict else None, label)
        self._out.record(label, length)

    def _attachment(self, record: Mapping[str, Any], number: int, length: int, at: str) -> None:
        attachment = table(record.get("attachment"))
        label = f"attachment {self._calls.name(attachment.get('type') or 'no type')}"
        self._out.record(label, length)
        row = self._row(record, number, at)
        if row.chain == "main":
            self._calls.attached(row, label, attachment)

    def _progress(self, record: Mapping[str, Any], number: int, length: int, at: str) -> None:
        data = table(record.get("data"))
        self._out.record(f"progress {self._calls.name(data.get('type') or 'no type')}", length)
        nested = data.get("message")
        if not isinstance(nested, dict):
            return
        # a whole message of a sub-agent, with its usage: it counts by its id, never in the main chain
        agent = ident(data.get("agentId"), 120)
        when = nested.get("timestamp")
        row = Row(self._session or self._fallback, number, moment(when) or at, chain_of(agent), agent)
        kind = nested.get("type")
        if kind == "assistant":
            key = self._assistant_usage(nested, row, number, record.get("version"))
            self._calls.answered(row, key, table(nested.get("message")).get("content"))
        elif kind == "user":
            self._calls.given(row, table(nested.get("message")).get("content"))

    def _system(self, record: Mapping[str, Any], number: int, length: int, at: str) -> None:
        subtype = record.get("subtype")
        if not isinstance(subtype, str):
            subtype = "no subtype"
        self._out.record(f"system {self._calls.name(subtype)}", length)
        if subtype == "compact_boundary" or subtype == "microcompact_boundary":
            self._boundary(record, number, at, subtype == "microcompact_boundary")
        elif subtype not in SYSTEM_SUBTYPES:
            self._calls.unknown(AnomalyKind.UNKNOWN_TYPE, self._session, number, subtype, "system/")

    def _boundary(self, record: Mapping[str, Any], number: int, at: str, micro: bool) -> None:
        row = self._row(record, number, at)
        if row.chain != "main":
            return  # a sub-agent compacted: that is not this session's window
        said = table(record.get("microcompactMetadata" if micro else "compactMetadata"))
        pre, post = whole(said.get("preTokens")), whole(said.get("postTokens"))
        saved = whole(said.get("tokensSaved"))
        if micro and post is None and pre is not None and saved is not None and saved <= pre:
            post = pre - saved
        trigger = said.get("trigger")
        uid = ident(record.get("uuid"), 200) or f"{row.session}:said:{content_id(record)}"
        self._out.compactions.setdefault(
            (row.session, uid),
            Compaction(
                session=row.session,
                uid=uid,
                line=number,
                at=at,
                kind="microcompact" if micro else "compaction",
                trigger=trigger if trigger in _TRIGGERS else "unknown",
                declared_pre=pre,
                declared_post=post,
                duration_ms=whole(said.get("durationMs")),
            ),
        )

    def _cost_state(self, record: Mapping[str, Any], number: int, length: int, at: str) -> None:
        self._out.record("other cost-state", length)
        cost = money(record.get("totalCostUSD"))
        session = self._session or self._fallback
        if cost and not self._subagent:
            self._about(session).reported_cost = cost

    def _continued_in(self, record: Mapping[str, Any], number: int, length: int, at: str) -> None:
        self._out.record("other continued-in", length)
        child = ident(record.get("continuedInSessionId"))
        session = self._session or self._fallback
        if child and child != session:
            about = self._about(child)
            about.parent, about.copy_hint = session, True


def _short(value: Any) -> str:
    return (value if len(value) <= 64 else ident(value)) if value.__class__ is str else ""


#: what says whose a record is, and stays the same over most records of a file
_HEAD: Final = ("sessionId cwd gitBranch version session_id sessionKind forkedFrom agentId").split()
#: different orders of keys that are remembered: there are few
_SHAPES: Final = 4096


@dataclass(slots=True)
class _Plan:
    """What follows from a record's keys alone: those that are unknown, and those of its head with their values."""

    unknown: tuple[str, ...]
    names: tuple[str, ...]  # one object for equal names
    head: Callable[[Mapping[str, Any]], tuple[object, ...]]


_PLANS: Final[dict[tuple[str, ...], _Plan]] = {}
_NAMES: Final[dict[tuple[str, ...], tuple[str, ...]]] = {}
#: the same of messages of which every key is known
_MESSAGES: Final[set[tuple[str, ...]]] = set()


def _plan(shape: tuple[str, ...]) -> _Plan:
    names = tuple(name for name in _HEAD if name in shape)
    names = _NAMES.setdefault(names, names)
    head: Callable[[Mapping[str, Any]], tuple[object, ...]]
    head = itemgetter(*names) if len(names) > 1 else lambda record: tuple(record[name] for name in names)
    if len(_PLANS) > _SHAPES:
        _PLANS.clear()
    plan = _PLANS[shape] = _Plan(tuple(sorted(set(shape) - RECORD_KEYS)), names, head)
    return plan


_Handler = Callable[[ClaudeSession, Mapping[str, Any], int, int, str], None]
_HANDLERS: Final[Mapping[str, _Handler]] = {
    "assistant": ClaudeSession._assistant,
    "user": ClaudeSession._user,
    "system": ClaudeSession._system,
    "progress": ClaudeSession._progress,
    "attachment": ClaudeSession._attachment,
    "cost-state": ClaudeSession._cost_state,
    "continued-in": ClaudeSession._continued_in,
}
