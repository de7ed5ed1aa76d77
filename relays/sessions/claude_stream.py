"""Claude Code headless: what `claude -p --output-format stream-json --verbose` wrote, kept in a file.

sessions.md, 2a. The output figure of an assistant line is the placeholder of the moment when the answer began: a lower
bound. With `--include-partial-messages` each call's `message_delta` has its final figures: then they are exact. A line
with a `parent_tool_use_id` is a sub-agent's. The result's cost is the agent's own word. A run without a result (killed,
hanging, cut), or with one that is zeroed after a crash, is said to be so, and its figures are those of its calls (T18).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from relays.core.meter import About, AnomalyKind, Compaction, Extract
from relays.sessions import claude_known as known
from relays.sessions.claude_calls import Calls, Row
from relays.sessions.claude_usage import SYNTHETIC, Usage
from relays.sessions.fields import content_id, ident, moment, money, table, text, whole
from relays.sessions.jsonline import parse
from relays.sessions.reader import Context, State

AGENT: Final = "claude-code"
_TRIGGERS: Final = ("auto", "manual")
#: answers that stream at the same time: one of the main chain, one of each sub-agent
_STREAMING: Final = 32
_KINDS: Final = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
NO_RESULT: Final = ""
ZEROED: Final = "zeroed result"


class ClaudeStream:
    """One kept stream; see `relays.sessions.reader.LineReader`.

    `NO_RESULT` says how the file ends so far: a part in which a result came for a run that an earlier part told as
    unfinished takes that back with a count of -1, so that the parts add up to what the whole file says.
    """

    def __init__(self, context: Context, state: State | None = None) -> None:
        kept = state or {}
        self._fallback = ident(context.stem)
        self._session: str = kept.get("session", "")
        self._running: bool = kept.get("running", False)
        #: the session whose run was told to be unfinished, "" = none
        self._told: str = kept.get("told", "")
        self._called: bool = kept.get("called", False)
        #: chain ("" = main, else the tool use that it works for) -> [call that streams, its model]
        self._streaming: dict[str, list[str]] = {c: list(entry) for c, entry in kept.get("streaming", {}).items()}
        self._calls = Calls(kept.get("calls"))
        self._usage = Usage()
        self._out = self._calls.out
        self._abouts: dict[str, About] = {}

    # --- the protocol

    def line(self, number: int, raw: bytes) -> None:
        record = parse(raw)
        if record is None:
            if raw.strip():
                self._out.note(AnomalyKind.BROKEN_LINE, self._session, number)
                self._out.record("broken line", len(raw))
            return
        self._session = ident(record.get("session_id")) or self._session or self._fallback
        for key in sorted(record.keys() - known.STREAM_KEYS):
            self._calls.unknown(AnomalyKind.UNKNOWN_KEY, self._session, number, key)
        at = moment(record.get("timestamp"))
        about = self._about()
        if at:
            about.first_at = min(filter(None, (about.first_at, at)))
            about.last_at = max(about.last_at, at)
        kind = record.get("type")
        if not isinstance(kind, str):
            kind = "no type"
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, record, self._row(record, number, at), len(raw))
            return
        self._out.record(f"other {self._calls.name(kind)}", len(raw))
        if kind not in known.STREAM_QUIET:
            self._calls.unknown(AnomalyKind.UNKNOWN_TYPE, self._session, number, kind)

    def take(self) -> Extract:
        out = self._calls.take()
        self._out = self._calls.out
        out.about, self._abouts = self._abouts, {}
        unfinished = self._session if self._running else ""
        if unfinished != self._told:
            if self._told:
                out.note(AnomalyKind.NO_RESULT, self._told, 0, NO_RESULT, -1)
            if unfinished:
                out.note(AnomalyKind.NO_RESULT, unfinished, 0, NO_RESULT)
            self._told = unfinished
        return out

    def state(self) -> State:
        return {
            "session": self._session,
            "running": self._running,
            "told": self._told,
            "called": self._called,
            "streaming": self._streaming,
            "calls": self._calls.state(),
        }

    def _about(self) -> About:
        about = self._abouts.get(self._session)
        if about is None:
            about = self._abouts[self._session] = About(self._session, AGENT)
        return about

    def _row(self, record: Mapping[str, Any], number: int, at: str) -> Row:
        parent = ident(record.get("parent_tool_use_id"), 120)
        return Row(self._session, number, at, "sub" if parent else "main", parent)

    # --- lines

    def _assistant(self, record: Mapping[str, Any], row: Row, length: int) -> None:
        self._running = True
        message = table(record.get("message"))
        key = (
            ident(message.get("id"))
            or ident(record.get("request_id"))
            or ident(record.get("uuid"))
            or f"said:{row.session}:{content_id(record)}"
        )
        if message.get("model") != SYNTHETIC:
            self._figures(row, key, message.get("model"), message.get("usage"), final=False)
        self._out.record(self._calls.answered(row, key, message.get("content")), length)

    def _figures(self, row: Row, key: str, model: object, usage: object, *, final: bool) -> None:
        used = self._usage.read(usage, self._out, row.session, row.line)
        if used is not None:
            self._called = True
            self._calls.row(row, key, model, used[0], used[1], not final)

    def _user(self, record: Mapping[str, Any], row: Row, length: int) -> None:
        self._running = True
        content = table(record.get("message")).get("content")
        self._out.record(self._calls.given(row, content), length)

    def _event(self, record: Mapping[str, Any], row: Row, length: int) -> None:
        event = table(record.get("event"))
        kind = event.get("type")
        self._out.record(f"stream event {self._calls.name(kind or 'no type')}", length)
        if kind == "message_start":
            self._running = True
            message = table(event.get("message"))
            key, model = ident(message.get("id")), text(message.get("model"), 120)
            self._streaming.pop(row.agent_id, None)
            if not key:
                return
            self._streaming[row.agent_id] = [key, model]
            if len(self._streaming) > _STREAMING:
                del self._streaming[next(iter(self._streaming))]
            self._figures(row, key, model, message.get("usage"), final=False)
        elif kind == "message_delta" and row.agent_id in self._streaming:
            key, model = self._streaming[row.agent_id]
            self._figures(row, key, model, event.get("usage"), final=True)
        elif kind == "message_stop":
            self._streaming.pop(row.agent_id, None)

    def _system(self, record: Mapping[str, Any], row: Row, length: int) -> None:
        subtype = record.get("subtype")
        if not isinstance(subtype, str):
            subtype = "no subtype"
        self._out.record(f"system {self._calls.name(subtype)}", length)
        if subtype == "init":
            self._running = True
            self._called = False
            about = self._about()
            about.cwd = text(record.get("cwd"), 4096) or about.cwd
            about.version = text(record.get("claude_code_version"), 60) or about.version
        elif subtype == "compact_boundary":
            if row.chain == "main":
                self._boundary(record, row)
        elif subtype not in known.STREAM_SUBTYPES and not subtype.startswith(known.STREAM_FAMILIES):
            self._calls.unknown(AnomalyKind.UNKNOWN_TYPE, row.session, row.line, subtype, "system/")

    def _boundary(self, record: Mapping[str, Any], row: Row) -> None:
        said = table(record.get("compact_metadata"))
        trigger = said.get("trigger")
        uid = ident(record.get("uuid"), 200) or f"{row.session}:said:{content_id(record)}"
        self._out.compactions.setdefault(
            (row.session, uid),
            Compaction(
                session=row.session,
                uid=uid,
                line=row.line,
                at=row.at,
                trigger=trigger if trigger in _TRIGGERS else "unknown",
                declared_pre=whole(said.get("pre_tokens")),
                declared_post=whole(said.get("post_tokens")),
                duration_ms=whole(said.get("duration_ms")),
            ),
        )

    def _rate_limit(self, record: Mapping[str, Any], row: Row, length: int) -> None:
        self._out.record("other rate_limit_event", length)

    def _result(self, record: Mapping[str, Any], row: Row, length: int) -> None:
        subtype = record.get("subtype")
        if not isinstance(subtype, str):
            subtype = "no subtype"
        failed = " with an error" if record.get("is_error") is True else ""
        self._out.record(f"result {self._calls.name(subtype)}{failed}", length)
        if subtype not in known.RESULT_SUBTYPES:
            self._calls.unknown(AnomalyKind.UNKNOWN_TYPE, row.session, row.line, subtype, "result/")
        self._running = False
        self._streaming.clear()
        cost, usage = money(record.get("total_cost_usd")), table(record.get("usage"))
        if self._called and not cost and not any(whole(usage.get(name)) for name in _KINDS):
            self._out.note(AnomalyKind.NO_RESULT, row.session, row.line, ZEROED)
        if cost:
            self._about().reported_cost = cost
        for model, figures in table(record.get("modelUsage")).items():
            window = whole(table(figures).get("contextWindow"))
            if window:
                self._calls.window(row.session, text(model, 120), window)


_Handler = Callable[[ClaudeStream, Mapping[str, Any], Row, int], None]
_HANDLERS: Final[Mapping[str, _Handler]] = {
    "assistant": ClaudeStream._assistant,
    "user": ClaudeStream._user,
    "stream_event": ClaudeStream._event,
    "system": ClaudeStream._system,
    "rate_limit_event": ClaudeStream._rate_limit,
    "result": ClaudeStream._result,
}
