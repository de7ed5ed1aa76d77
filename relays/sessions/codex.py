"""Codex rollouts (`rollout-*.jsonl`): calls from `token_count`, compactions, forks that repeat their parent.

sessions.md, Codex: a `token_count` is a call only if the running total changed; a total that fell begins a new epoch;
the input side of the call is what was resident; a fork's file repeats its parent's history, and the rows that its own
file can prove (or only suspect) to be repeated are marked here, those that the parent's file proves by `core/replay`.
Key of a call: `codex:<thread>:<n>`, n = its number among the changed totals of the file.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final

from relays.core.meter import About, Act, ActKind, AnomalyKind, Compaction, Extract, Seen
from relays.core.replay import vector
from relays.core.usage import Buckets
from relays.sessions import codex_records as records
from relays.sessions import shell
from relays.sessions.codex_fork import Fork
from relays.sessions.codex_window import Window
from relays.sessions.fields import ident, moment, table, text, tokens, whole
from relays.sessions.jsonline import parse
from relays.sessions.reader import UUID, Context, State

AGENT: Final = "codex"
#: calls that results may still come back for; a result of an older one is counted with none
_RECENT: Final = 8
_LINE_KEYS: Final = frozenset({"timestamp", "type", "payload", "ordinal"})
_USAGE_KEYS: Final = frozenset(
    """input_tokens cached_input_tokens cache_write_input_tokens output_tokens reasoning_output_tokens
    total_tokens""".split()
)


class CodexRollout:
    """One rollout file; see `relays.sessions.reader.LineReader`."""

    def __init__(self, context: Context, state: State | None = None) -> None:
        kept = state or {}
        self._file_id = _thread_of_name(context.path)
        self._thread: str = kept.get("thread", "")
        self._counted: int = kept.get("counted", 0)
        self._total: list[int] | None = kept.get("total")
        self._model: str = kept.get("model", "")
        self._turn: str = kept.get("turn", "")
        self._declared_window: int | None = kept.get("window")
        self._last_time: str = kept.get("time", "")
        self._about: dict[str, str] = dict(kept.get("about", {}))
        self._fork = Fork(kept.get("fork"))
        self._window = Window(kept.get("fill"))
        self._tools = records.Pending(kept.get("tools"))
        self._recent: dict[int, Seen] = {int(n): _restored(row) for n, row in kept.get("recent", {}).items()}
        #: boundary since the last counted call, as fields of Compaction; a size declared without one
        self._boundary: dict[str, Any] | None = dict(kept["boundary"]) if kept.get("boundary") else None
        self._boundary_by_event: bool = kept.get("by_event", False)
        self._declared_size: int | None = kept.get("declared")
        self._dirty: set[int] = set()
        self._out = Extract()

    # --- the protocol

    def line(self, number: int, raw: bytes) -> None:
        if not raw or raw.isspace():
            return
        record = parse(raw)
        if record is None:
            self._out.note(AnomalyKind.BROKEN_LINE, self._thread, number)
            self._out.record("broken line", len(raw))
            return
        kind, payload = record.get("type"), table(record.get("payload"))
        if not self._thread:
            self._thread = (ident(payload.get("id")) if kind == "session_meta" else "") or self._file_id
        at = moment(record.get("timestamp"))
        self._clock(at, number)
        for key in record.keys() - _LINE_KEYS:
            self._out.note(AnomalyKind.UNKNOWN_KEY, self._thread, number, text(key))
        handler = _HANDLERS.get(kind) if isinstance(kind, str) else None
        if handler is None:
            name = text(kind) or "no type"
            self._out.record(f"other {name}", len(raw))
            self._out.note(AnomalyKind.UNKNOWN_TYPE, self._thread, number, name)
        else:
            handler(self, payload, number, len(raw), at)

    def take(self) -> Extract:
        for n in sorted(self._dirty):
            self._out.saw(dataclasses.replace(self._recent[n]))
        self._dirty.clear()
        if self._thread:
            about = self._about
            self._out.about[self._thread] = About(
                session=self._thread,
                agent=AGENT,
                cwd=about.get("cwd", ""),
                branch=about.get("branch", ""),
                version=about.get("version", ""),
                parent=self._fork.parent,
                copy_hint=self._fork.repeats,
                first_at=about.get("first", ""),
                last_at=about.get("last", ""),
            )
        out, self._out = self._out, Extract()
        return out

    def state(self) -> State:
        return {
            "thread": self._thread,
            "counted": self._counted,
            "total": self._total,
            "model": self._model,
            "turn": self._turn,
            "window": self._declared_window,
            "time": self._last_time,
            "about": dict(self._about),
            "fork": self._fork.state(),
            "fill": self._window.state(),
            "tools": self._tools.state(),
            "recent": {str(n): dataclasses.asdict(row) for n, row in self._recent.items()},
            "boundary": dict(self._boundary) if self._boundary else None,
            "by_event": self._boundary_by_event,
            "declared": self._declared_size,
        }

    # --- time and session

    def _clock(self, at: str, number: int) -> None:
        if not at:
            return
        if self._last_time and len(at) == len(self._last_time) and at < self._last_time:
            self._out.note(AnomalyKind.TIME_BACKWARDS, self._thread, number)
        self._last_time = at
        self._about["first"] = min(filter(None, (self._about.get("first"), at)))
        self._about["last"] = max(self._about.get("last", ""), at)
        self._fork.clock(at)

    def _meta(self, payload: Mapping[str, Any], number: int, size: int, at: str) -> None:
        self._out.record("session_meta", size)
        thread = ident(payload.get("id"))
        self._fork.meta(payload, own=not thread or thread == self._thread, at=at)
        if thread and thread != self._thread:
            return  # its parent's, repeated
        about = self._about
        about["cwd"] = text(payload.get("cwd"), 4096) or about.get("cwd", "")
        about["version"] = text(payload.get("cli_version"), 60) or about.get("version", "")
        about["branch"] = text(table(payload.get("git")).get("branch"), 300) or about.get("branch", "")

    def _turn_context(self, payload: Mapping[str, Any], number: int, size: int, at: str) -> None:
        self._out.record("turn_context", size)
        self._begin_turn(payload)
        self._model = text(payload.get("model"), 120) or self._model
        if not self._about.get("cwd"):
            self._about["cwd"] = text(payload.get("cwd"), 4096)

    def _begin_turn(self, payload: Mapping[str, Any]) -> None:
        turn = text(payload.get("turn_id"))
        if turn:
            self._fork.turn(turn, payload.get("started_at"), new=turn != self._turn)
            self._turn = turn

    # --- what the model was given and gave

    def _response_item(self, payload: Mapping[str, Any], number: int, size: int, at: str) -> None:
        kind = payload.get("type")
        name = kind if isinstance(kind, str) else ""
        call_id = text(payload.get("call_id") or payload.get("id"))
        if name == "message":
            role = payload.get("role")
            label = f"{role} text" if role in ("assistant", "user", "developer", "system") else "other text"
            self._window.answered(label, size) if role == "assistant" else self._window.entered(label, size)
            self._out.record(label, size)
        elif name == "reasoning":
            self._window.answered("assistant thinking", size)
            self._out.record("assistant thinking", size)
        elif name in records.CALLS:
            self._window.answered("tool call", size)
            self._out.record("tool call", size)
            if name in records.ANSWERED:
                self._asked(records.asked(payload, name), call_id, number, at)
        elif name in records.RESULTS:
            self._result(payload, call_id, number, size, at)
        else:
            if name not in records.ITEMS:
                self._out.note(
                    AnomalyKind.UNKNOWN_TYPE, self._thread, number, f"response_item/{text(kind) or 'no type'}"
                )
            label = f"item {text(kind, 60) or 'no type'}"
            self._window.entered(label, size)
            self._out.record(label, size)

    def _asked(self, call: records.Asked, call_id: str, number: int, at: str) -> None:
        self._tools.add(call_id, self._counted + 1, call)
        for kind, ref in call.issues:
            self._act(kind, ref, number, at, self._counted + 1)

    def _result(self, payload: Mapping[str, Any], call_id: str, number: int, size: int, at: str) -> None:
        asked = self._tools.take(call_id)
        label = f"tool result {asked['name']}" if asked else "tool result"
        self._out.record(label, size)
        n = asked["n"] if asked else self._counted
        if n > self._counted:  # its call is not counted yet: the result enters the window of the one after it
            self._window.answered(label, size)
        else:
            self._window.entered(label, size)
        if not asked:
            return
        output, failed = records.result_of(payload)
        failed = failed or asked["failed"]
        if n > self._counted or n in self._recent:
            self._tools.returned(n, failed)
            self._attach(n)
        if not failed:
            for path in asked["files"]:
                self._act("file", path, number, at, n)
        for kind, ref in shell.printed(asked["what"], output):
            self._act(kind, ref, number, at, n)

    def _attach(self, n: int) -> None:
        row = self._recent.get(n)
        if row is not None:
            tools, errors = self._tools.of(n)
            row.tools, row.tool_errors = tools, errors
            self._dirty.add(n)

    def _act(self, kind: ActKind, ref: str, number: int, at: str, n: int) -> None:
        ref = text(ref, 500)
        if not ref or self._fork.repeating:
            return  # what the parent did is in the parent's file
        key = (self._thread, kind, ref)
        if key not in self._out.acts:
            self._out.acts[key] = Act(self._thread, kind, ref, number, at, self._key(n))

    # --- events

    def _event(self, payload: Mapping[str, Any], number: int, size: int, at: str) -> None:
        kind = payload.get("type")
        name = kind if isinstance(kind, str) else ""
        if name == "token_count":
            self._token_count(payload, number, size, at)
            return
        self._out.record(f"event {text(kind, 60) or 'no type'}", size)
        if name == "task_started" or name == "turn_started":
            self._declared_window = whole(payload.get("model_context_window")) or self._declared_window
            self._begin_turn(payload)
        elif name == "context_compacted":
            if self._boundary is None:
                self._compact(number, at, "", by_event=True)
        elif name in records.ENDS:
            call_id = text(payload.get("call_id"))
            files = records.changed_files(payload) if name == "patch_apply_end" else []
            self._tools.ended(call_id, records.failed_end(name, payload), bool(files))
            if payload.get("success") is not False:
                for path in files:
                    self._act("file", path, number, at, self._tools.asker(call_id, self._counted))
        elif name not in records.EVENTS:
            self._out.note(AnomalyKind.UNKNOWN_TYPE, self._thread, number, f"event_msg/{text(kind) or 'no type'}")

    def _token_count(self, payload: Mapping[str, Any], number: int, size: int, at: str) -> None:
        info = table(payload.get("info"))
        total = info.get("total_token_usage")
        if not isinstance(total, dict):
            self._out.record("token_count without figures", size)
            return
        self._declared_window = whole(info.get("model_context_window")) or self._declared_window
        last = table(info.get("last_token_usage"))
        now = self._figures(total, number)
        before, self._total = self._total, now
        if now == before:
            self._out.record("token_count repeated", size)
            if not any(whole(last.get(name)) for name in ("input_tokens", "output_tokens")):
                self._declare(whole(last.get("total_tokens")))
            return
        fell = before is not None and (now[0] < before[0] or now[2] < before[2])
        self._out.record("token_count new epoch" if fell else "token_count", size)
        for key in (total.keys() | last.keys()) - _USAGE_KEYS:
            self._out.note(AnomalyKind.UNKNOWN_KEY, self._thread, number, text(key))
        base = [0] * len(now) if before is None or fell else before
        delta = [a - b for a, b in zip(now, base, strict=True)]
        used = delta
        if any(whole(last.get(name)) for name in ("input_tokens", "output_tokens")):
            used = self._figures(last, number)
            if used != delta and before is not None and not fell:
                self._out.note(AnomalyKind.IDENTITY_MISMATCH, self._thread, number, "last is not the change of total")
        self._count(used, now, number, at)

    def _figures(self, usage: Mapping[str, Any], number: int) -> list[int]:
        """[input side, cached, output, reasoning, cache writes]."""
        out, thread = self._out, self._thread
        figures = [
            tokens(usage, name, out, thread, number)
            for name in (
                "input_tokens",
                "cached_input_tokens",
                "output_tokens",
                "reasoning_output_tokens",
                "cache_write_input_tokens",
            )
        ]
        stated = usage.get("total_tokens")
        if stated is not None and stated != figures[0] + figures[2]:
            out.note(AnomalyKind.IDENTITY_MISMATCH, thread, number, "total_tokens")
        return figures

    def _count(self, used: list[int], total: list[int], number: int, at: str) -> None:
        input_side, cached, output, reasoning, written = used
        plain = input_side - cached - written
        if min(used) < 0 or plain < 0:
            self._out.note(AnomalyKind.IMPLAUSIBLE_USAGE, self._thread, number, "cached_input_tokens")
        self._counted += 1
        n = self._counted
        tools, errors = self._tools.of(n)
        self._recent[n] = Seen(
            session=self._thread,
            key=self._key(n),
            line=number,
            model=self._model,
            at=at,
            buckets=Buckets(
                input=max(0, plain), cache_read=max(0, cached), cache_write_5m=max(0, written), output=max(0, output)
            ),
            reasoning=max(0, min(reasoning, output)),
            window=self._declared_window,
            vector=vector(*total[:4]),
            turn=self._turn,
            copied=self._fork.copied(),
            tools=tools,
            tool_errors=errors,
            fill=self._window.call(),
        )
        self._dirty.add(n)
        while len(self._recent) > _RECENT:
            oldest = min(self._recent)
            row = self._recent.pop(oldest)
            self._tools.forget(oldest)
            if oldest in self._dirty:
                self._dirty.discard(oldest)
                self._out.saw(row)
        self._boundary, self._boundary_by_event, self._declared_size = None, False, None

    def _key(self, n: int) -> str:
        return f"{AGENT}:{self._thread}:{n}"

    # --- compactions

    def _compacted(self, payload: Mapping[str, Any], number: int, size: int, at: str) -> None:
        self._out.record("compact summary", size)
        self._window.entered("compact summary", size)
        if self._boundary is not None and self._boundary_by_event:
            self._boundary_by_event = False  # the event came first: one compaction
            return
        self._compact(number, at, text(payload.get("window_id")), by_event=False)

    def _compact(self, number: int, at: str, window_id: str, *, by_event: bool) -> None:
        # without an id of its own a repeated boundary is still the same one: the running total stands in for it
        if self._boundary is not None:
            self._declared_size = None  # it was the earlier boundary's
        running = vector(*self._total[:4]) if self._total and any(self._total) else f"{self._thread}:line:{number}"
        uid = window_id or ident(f"{AGENT}:{self._turn}:{running}", 200)
        self._boundary = {"session": self._thread, "uid": uid, "line": number, "at": at}
        self._boundary_by_event = by_event
        self._declare(self._declared_size)
        if self._declared_size is None:
            self._out.compactions[self._thread, uid] = Compaction(**self._boundary)

    def _declare(self, size: int | None) -> None:
        if not size:
            return
        self._declared_size = size
        if self._boundary is not None:
            self._boundary["declared_post"] = size
            self._out.compactions[self._thread, self._boundary["uid"]] = Compaction(**self._boundary)


def _thread_of_name(path: PurePath) -> str:
    found = list(UUID.finditer(path.stem))
    return found[-1].group().lower() if found else ident(path.stem)


def _restored(row: Mapping[str, Any]) -> Seen:
    return Seen(**{**row, "buckets": Buckets(**row["buckets"])})


def _only_counted(name: str) -> Any:
    def handler(self: CodexRollout, payload: Mapping[str, Any], number: int, size: int, at: str) -> None:
        self._out.record(name, size)

    return handler


_HANDLERS: Final[Mapping[str, Any]] = {
    "session_meta": CodexRollout._meta,
    "turn_context": CodexRollout._turn_context,
    "response_item": CodexRollout._response_item,
    "event_msg": CodexRollout._event,
    "compacted": CodexRollout._compacted,
    **{
        name: _only_counted(name)
        for name in ("world_state", "inter_agent_communication_metadata", "token_usage_record")
    },
}
