"""Gemini CLI without its terminal: `-o stream-json` lines, and the one object that `-o json` prints.

sessions.md, other agents: "init, message, tool_use, tool_result, error, result{status,stats{…,models}}". Both name
usage once, as a sum over all calls of the session so far: a session that is resumed counts on from where it was. So a
sum is chain `aux`: it says nothing of how full the window was; its key holds the running sum
(`gemini:<session>:turn:<model>/<vector>`), and where the session's own file is known its calls say it better: see
`relays.sessions.replays`. "cached ⊂ input, thoughts outside output".
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from relays.core.meter import About, Act, ActKind, AnomalyKind, Extract, Seen
from relays.core.replay import vector
from relays.core.usage import Buckets
from relays.sessions import shell
from relays.sessions.fields import REF_CHARS, ident, moment, table, text, tokens, whole
from relays.sessions.files import LINE_BYTES
from relays.sessions.gemini_messages import WRITES, split_total
from relays.sessions.jsonline import parse, parse_whole
from relays.sessions.reader import Context, State

AGENT: Final = "gemini-cli"
_TYPES: Final = frozenset("init message tool_use tool_result error result".split())
_STATS: Final = frozenset("total_tokens input_tokens output_tokens cached input duration_ms tool_calls models".split())
_KEY_CHARS: Final = 200
#: no run has more; a larger number would not fit its column
_TOOLS_MAX: Final = 10**9
#: tools whose result has not come yet
_RUNNING: Final = 64
_OBJECT: Final = re.compile(rb"^\{", re.MULTILINE)
#: the one detail under which a stream without its result is noted, so that a result takes it back
NO_RESULT: Final = ""


class GeminiStream:
    """A kept stream; see `relays.sessions.reader.LineReader`.

    `NO_RESULT` says how the last run stands so far: a part in which its result comes takes back what an earlier one
    said.
    """

    def __init__(self, context: Context, state: State | None = None) -> None:
        kept = state or {}
        self._stem = ident(context.stem)
        self._sid: str = kept.get("sid", "")
        self._first: str = kept.get("first", "")
        self._last: str = kept.get("last", "")
        self._tools: list[int] = list(kept.get("tools", (0, 0)))
        #: id -> [name, command, path] of what the model asked for
        self._asked: dict[str, list[str]] = {name: list(row) for name, row in kept.get("asked", {}).items()}
        self._running: bool = kept.get("running", False)
        self._told: str = kept.get("told", "")
        self._out = Extract()

    def line(self, number: int, raw: bytes) -> None:
        if not raw or raw.isspace():
            return
        record = parse(raw)
        if record is None:
            self._out.note(AnomalyKind.BROKEN_LINE, self._sid, number)
            self._out.record("broken line", len(raw))
            return
        kind = text(record.get("type")) or "no type"
        if kind == "init":
            self._begin(record)
        self._sid = self._sid or self._stem
        at = moment(record.get("timestamp"))
        if at:
            self._first = min(filter(None, (self._first, at)))
            self._last = max(self._last, at)
        self._out.record(kind if kind in _TYPES else f"other {kind}", len(raw))
        if kind not in _TYPES:
            self._out.note(AnomalyKind.UNKNOWN_TYPE, self._sid, number, kind)
        elif kind == "tool_use":
            self._use(record)
        elif kind == "tool_result":
            self._result(record, number, at)
        elif kind == "result":
            if self._told:  # an earlier part said that this run has no result
                self._out.note(AnomalyKind.NO_RESULT, self._told, 0, NO_RESULT, -1)
                self._told = ""
            self._running = False
            self._sum(table(record.get("stats")), number, at)

    def take(self) -> Extract:
        out, self._out = self._out, Extract()
        if self._sid:
            out.tell(About(self._sid, AGENT, first_at=self._first, last_at=self._last))
        if self._running and not self._told:
            out.note(AnomalyKind.NO_RESULT, self._sid, 0, NO_RESULT)
            self._told = self._sid
        return out

    def state(self) -> State:
        return {
            "sid": self._sid,
            "first": self._first,
            "last": self._last,
            "tools": list(self._tools),
            "asked": {name: list(row) for name, row in self._asked.items()},
            "running": self._running,
            "told": self._told,
        }

    def _begin(self, record: Mapping[str, Any]) -> None:
        """A run begins; one before it that never told its result stays said."""
        if self._running:
            if not self._told:
                self._out.note(AnomalyKind.NO_RESULT, self._sid, 0, NO_RESULT)
            self._told = ""
        sid = ident(record.get("session_id")) or self._sid
        if self._sid and sid != self._sid:
            self._out.tell(About(self._sid, AGENT, first_at=self._first, last_at=self._last))
            self._first = self._last = ""
        self._sid, self._running, self._tools, self._asked = sid, True, [0, 0], {}

    def _use(self, record: Mapping[str, Any]) -> None:
        given = table(record.get("parameters"))
        command = shell.command_of(given.get("command"))[:REF_CHARS]
        path = text(given.get("file_path") or given.get("path"), REF_CHARS)
        self._asked[ident(record.get("tool_id"))] = [text(record.get("tool_name"), 60), command, path]
        while len(self._asked) > _RUNNING:
            del self._asked[next(iter(self._asked))]

    def _result(self, record: Mapping[str, Any], number: int, at: str) -> None:
        failed = record.get("status") == "error"
        self._tools = [self._tools[0] + 1, self._tools[1] + failed]
        name, command, path = self._asked.pop(ident(record.get("tool_id")), ["", "", ""])
        found: list[tuple[ActKind, str]] = [("file", path)] if name in WRITES and path and not failed else []
        if command:
            found += shell.named(command)
            output = record.get("output")
            if isinstance(output, str):
                found += shell.printed(shell.interest(command), output)
        for kind, ref in found:
            ref = text(ref, REF_CHARS)
            self._out.acts.setdefault((self._sid, kind, ref), Act(self._sid, kind, ref, number, at))

    def _sum(self, stats: Mapping[str, Any], number: int, at: str) -> None:
        for key in stats.keys() - _STATS:
            self._out.note(AnomalyKind.UNKNOWN_KEY, self._sid, number, f"stats.{text(key)}")
        by_model = table(stats.get("models"))
        if not by_model:
            # what older versions sum up may be of several models, of which only the chosen one is named
            self._model_sum("", stats, number, at)
        for model, figures in by_model.items():
            self._model_sum(model, table(figures), number, at)
        self._tools = [0, 0]

    def _model_sum(self, model: str, stats: Mapping[str, Any], number: int, at: str) -> None:
        def count(name: str) -> int:
            return tokens(stats, name, self._out, self._sid, number)

        side, wrote, cached, whole_sum = (
            count(name) for name in ("input_tokens", "output_tokens", "cached", "total_tokens")
        )
        beyond = whole_sum - side - wrote  # thoughts; a version that told no total had none
        if beyond < 0 and whole_sum:
            self._out.note(AnomalyKind.IDENTITY_MISMATCH, self._sid, number, "total_tokens")
        one = _seen(self._sid, model, (side, cached, wrote, max(0, beyond)), number, at, self._out)
        if one is not None:
            one.tools, one.tool_errors = self._tools
            self._tools = [0, 0]
            self._out.saw(one)


class GeminiAnswer:
    """What `-o json` printed; see `relays.sessions.reader.DocumentReader`. Lines before the object are passed over."""

    def __init__(self, context: Context) -> None:
        self._stem = ident(context.stem)

    def read(self, path: Path) -> Extract:
        out = Extract()
        if path.stat().st_size > LINE_BYTES:
            out.note(AnomalyKind.HUGE_LINE, detail="document")
            return out
        raw = path.read_bytes()
        begins = _OBJECT.search(raw)
        record = parse_whole(raw[begins.start() :]) if begins else None
        if record is None:
            out.note(AnomalyKind.BROKEN_LINE, detail="document")
            out.record("broken document", len(raw))
            return out
        # a version that names no session: its answer is known by its file
        sid = ident(record.get("session_id")) or self._stem
        out.about[sid] = About(sid, AGENT)
        out.record("answer", len(raw))
        stats = table(record.get("stats"))
        tools = table(stats.get("tools"))
        counts = [min(whole(tools.get(name)) or 0, _TOOLS_MAX) for name in ("totalCalls", "totalFail")]
        for model, figures in table(stats.get("models")).items():
            used = table(table(figures).get("tokens"))
            parts = {
                ours: tokens(used, theirs, out, sid, 1)
                for ours, theirs in (
                    ("input", "prompt"), ("output", "candidates"), ("thoughts", "thoughts"), ("tool", "tool"),
                )
            }  # fmt: skip
            side, wrote, fits = split_total(parts, whole(used.get("total")))
            if not fits:
                out.note(AnomalyKind.IDENTITY_MISMATCH, sid, 1, "total")
            thoughts = min(parts["thoughts"], wrote)
            cached = tokens(used, "cached", out, sid, 1)
            one = _seen(sid, model, (side, cached, wrote - thoughts, thoughts), 1, "", out)
            if one is not None:
                one.tools, one.tool_errors = counts
                counts = [0, 0]
                out.saw(one)
        return out


def _seen(sid: str, model: str, used: tuple[int, int, int, int], line: int, at: str, out: Extract) -> Seen | None:
    """A sum as a row; `used`: (input side, of it cached, output, thoughts beside it). None: nothing was used."""
    side, cached, wrote, thoughts = used
    if not any(used):
        return None
    if cached > side:
        out.note(AnomalyKind.IMPLAUSIBLE_USAGE, sid, line, "cached")
    total = vector(side, cached, wrote + thoughts, thoughts)
    return Seen(
        session=sid,
        key=ident(f"gemini:{sid}:turn:{text(model, 120)}/{total}", _KEY_CHARS),
        line=line,
        chain="aux",
        model=text(model, 120),
        at=at,
        buckets=Buckets(input=max(0, side - cached), cache_read=min(cached, side), output=wrote + thoughts),
        reasoning=thoughts,
        vector=total,
    )
