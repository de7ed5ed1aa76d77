"""`codex exec --json` streams: one turn of a thread per usage line, as cost and not as a view into the window.

sessions.md, Codex: "usage is cumulative over the thread, also across `resume`. No context size, no turn_id, no
compaction event. => deltas vs last-seen per thread_id; resident context only from the rollout". A turn is therefore
chain `aux`: it says nothing of how full the window was. Its key holds the running total
(`codex:<thread>:turn:<vector>`), so that copies of a stream are one turn; across several streams of one thread
`relays.core.replay.turns` gives what each turn added, and where the thread's rollout is known its calls say it better.
"""

from collections.abc import Mapping
from typing import Any, Final

from relays.core.meter import About, Act, ActKind, AnomalyKind, Extract, Seen
from relays.core.replay import vector
from relays.core.usage import Buckets
from relays.sessions import shell
from relays.sessions.fields import ident, moment, rows, table, text, tokens, whole
from relays.sessions.jsonline import parse
from relays.sessions.reader import Context, State

AGENT: Final = "codex"
_THREADS: Final = 16
_USAGE: Final = (
    "input_tokens",
    "cached_input_tokens",
    "output_tokens",
    "reasoning_output_tokens",
    "cache_write_input_tokens",
)
_TYPES: Final = frozenset(
    "thread.started turn.started turn.completed turn.failed item.started item.updated item.completed error".split()
)
_ITEMS: Final = frozenset(
    """agent_message reasoning command_execution file_change mcp_tool_call collab_tool_call web_search todo_list plan
    error""".split()
)
_TOOLS: Final = frozenset("command_execution file_change mcp_tool_call collab_tool_call web_search".split())


class CodexExec:
    """One stream; see `relays.sessions.reader.LineReader`."""

    def __init__(self, context: Context, state: State | None = None) -> None:
        kept = state or {}
        self._thread: str = kept.get("thread", "")
        self._stem = ident(context.stem)
        self._totals: dict[str, list[int]] = {name: list(row) for name, row in kept.get("totals", {}).items()}
        self._tools: list[int] = list(kept.get("tools", (0, 0)))
        self._open: bool = kept.get("open", False)
        self._out = Extract()

    def line(self, number: int, raw: bytes) -> None:
        if not raw or raw.isspace():
            return
        record = parse(raw)
        if record is None:
            self._out.note(AnomalyKind.BROKEN_LINE, self._thread, number)
            self._out.record("broken line", len(raw))
            return
        kind = text(record.get("type"))
        if kind == "thread.started":
            self._thread = ident(record.get("thread_id")) or self._thread
        self._thread = self._thread or self._stem
        if self._thread not in self._out.about:
            self._out.about[self._thread] = About(self._thread, AGENT)
        at = moment(record.get("timestamp"))
        if kind not in _TYPES:
            self._out.note(AnomalyKind.UNKNOWN_TYPE, self._thread, number, kind or "no type")
            self._out.record(f"other {kind or 'no type'}", len(raw))
            return
        if kind.startswith("item."):
            self._item(table(record.get("item")), kind, number, len(raw), at)
            return
        self._out.record(kind, len(raw))
        if kind == "turn.started":
            self._open, self._tools = True, [0, 0]
        elif kind == "turn.failed":
            self._open = False
        elif kind == "turn.completed":
            self._open = False
            self._turn(record.get("usage"), number, at)

    def take(self) -> Extract:
        out, self._out = self._out, Extract()
        return out

    def state(self) -> State:
        """`open`: a turn began and has not ended, so that a stream which ends here has no result."""
        return {
            "thread": self._thread,
            "totals": {name: list(row) for name, row in self._totals.items()},
            "tools": list(self._tools),
            "open": self._open,
        }

    def _turn(self, usage: object, number: int, at: str) -> None:
        if not isinstance(usage, dict):
            return
        for key in usage.keys() - {*_USAGE, "total_tokens"}:
            self._out.note(AnomalyKind.UNKNOWN_KEY, self._thread, number, text(key))
        now = [tokens(usage, name, self._out, self._thread, number) for name in _USAGE]
        before = self._totals.pop(self._thread, None)
        self._totals[self._thread] = now
        while len(self._totals) > _THREADS:
            del self._totals[next(iter(self._totals))]
        if now == before:
            return
        fell = before is not None and (now[0] < before[0] or now[2] < before[2])
        base = [0] * len(now) if before is None or fell else before
        input_side, cached, output, reasoning, written = (a - b for a, b in zip(now, base, strict=True))
        plain = input_side - cached - written
        if plain < 0 or cached < 0 or written < 0:
            self._out.note(AnomalyKind.IMPLAUSIBLE_USAGE, self._thread, number, "cached_input_tokens")
        total = vector(*now[:4])
        self._out.saw(
            Seen(
                session=self._thread,
                key=f"{AGENT}:{self._thread}:turn:{total}"[:200],
                line=number,
                chain="aux",
                at=at,
                buckets=Buckets(
                    input=max(0, plain), cache_read=max(0, cached), cache_write_5m=max(0, written), output=output
                ),
                reasoning=max(0, min(reasoning, output)),
                vector=total,
                tools=self._tools[0],
                tool_errors=self._tools[1],
            )
        )
        self._tools = [0, 0]

    def _item(self, item: Mapping[str, Any], event: str, number: int, size: int, at: str) -> None:
        kind = text(item.get("type"))
        self._out.record(f"{event} {kind or 'no type'}", size)
        if kind not in _ITEMS:
            self._out.note(AnomalyKind.UNKNOWN_TYPE, self._thread, number, f"item/{kind or 'no type'}")
        if event != "item.completed" or kind not in _TOOLS:
            return
        code = item.get("exit_code")
        failed = item.get("status") in ("failed", "declined") or (whole(code) != 0 and isinstance(code, int))
        self._tools[0] += 1
        self._tools[1] += failed
        if kind == "file_change" and not failed:
            for change in rows(item.get("changes")):
                self._act("file", table(change).get("path"), number, at)
        if kind == "command_execution":
            command = shell.command_of(item.get("command"))
            output = item.get("aggregated_output")
            found = [*shell.named(command)]
            if isinstance(output, str):
                found += shell.printed(shell.interest(command), output)
            for act, ref in found:
                self._act(act, ref, number, at)

    def _act(self, kind: ActKind, ref: object, number: int, at: str) -> None:
        name = text(ref, 500)
        if name:
            self._out.acts.setdefault((self._thread, kind, name), Act(self._thread, kind, name, number, at))
