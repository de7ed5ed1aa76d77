"""A file of `relay.event.v1` lines that any program wrote: calls from `usage`, tools and durable acts.

interface.md: the event protocol of the command adapter, read by the same rules (`relays.core.events`). Events name no
session: it is named by the file and by a digest of its first line, so that a copy of the file is the same session and
another file of that name is not. Key of a call: `relay:<session>:<message id>`.
"""

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from relays.core.events import LINE_BYTES, Event, parse_line
from relays.core.meter import About, Act, ActKind, AnomalyKind, Extract, Seen
from relays.core.usage import Buckets
from relays.sessions.fields import REF_CHARS, ident, money, text
from relays.sessions.reader import Context, State

AGENT: Final = "relay"
_PENDING: Final = 64
#: sizes of results come in tokens or in bytes; to compare kinds, a token is taken as this many bytes
_BYTES_OF_TOKEN: Final = 4


class RelayEvents:
    """One event file; see `relays.sessions.reader.LineReader`."""

    def __init__(self, context: Context, state: State | None = None) -> None:
        kept = state or {}
        self._stem = ident(context.stem, 100)
        self._sid: str = kept.get("sid", "")
        self._first: str = kept.get("first", "")
        self._last_at: str = kept.get("last", "")
        self._tools: dict[str, str] = dict(kept.get("tools", {}))  # id -> name, of running ones
        self._entering: dict[str, int] = dict(kept.get("entering", {}))
        self._call: dict[str, Any] | None = (
            dict(kept["call"]) if kept.get("call") else None
        )  # the last main call, to which results come back
        self._out = Extract()

    def line(self, number: int, raw: bytes) -> None:
        if not raw or raw.isspace():
            return
        if not self._sid:
            self._sid = f"{self._stem}-{hashlib.sha256(raw).hexdigest()[:8]}"
        parsed = parse_line(raw)
        event = parsed.event
        if event is None:
            huge = len(raw) > LINE_BYTES
            self._out.note(
                AnomalyKind.HUGE_LINE if huge else AnomalyKind.BROKEN_LINE, self._sid, number, text(parsed.kind)
            )
            self._out.record("broken line", len(raw))
            return
        self._out.record(event.kind if event.known else f"other {text(event.kind)}", len(raw))
        if not event.known:
            self._out.note(AnomalyKind.UNKNOWN_TYPE, self._sid, number, text(event.kind))
        at = event.at.isoformat().replace("+00:00", "Z") if event.at else ""
        if at:
            self._first = min(filter(None, (self._first, at)))
            self._last_at = max(self._last_at, at)
        self._event(event, number, at)

    def take(self) -> Extract:
        if self._sid:
            self._out.about[self._sid] = About(self._sid, AGENT, first_at=self._first, last_at=self._last_at)
        out, self._out = self._out, Extract()
        return out

    def state(self) -> State:
        return {
            "sid": self._sid,
            "first": self._first,
            "last": self._last_at,
            "tools": dict(self._tools),
            "entering": dict(self._entering),
            "call": dict(self._call) if self._call else None,
        }

    def _event(self, event: Event, number: int, at: str) -> None:
        payload = event.payload
        if event.kind == "usage":
            self._usage(payload, number, at)
        elif event.kind == "tool_started":
            self._tools[ident(payload["id"])] = text(payload["name"], 60)
            while len(self._tools) > _PENDING:
                del self._tools[next(iter(self._tools))]
        elif event.kind == "tool_ended":
            self._ended(payload)
        elif event.kind == "file_written":
            self._act("file", payload["path"], number, at)
        elif event.kind == "artifact" and payload["kind"] in ("commit", "file", "issue"):
            self._act(payload["kind"], payload["ref"], number, at)

    def _usage(self, payload: Mapping[str, Any], number: int, at: str) -> None:
        main = payload["chain"] == "main"
        key = f"{AGENT}:{self._sid}:{ident(payload['message_id'], 60)}"
        seen = Seen(
            session=self._sid,
            key=key,
            line=number,
            chain="main" if main else "sub",
            model=text(payload["model"], 120),
            at=at,
            buckets=Buckets.of(payload),
            reported_cost=money(payload.get("cost")),
        )
        if main and (self._call is None or self._call["key"] != key):
            self._call = {
                "key": key, "line": number, "at": at, "model": seen.model, "tools": 0, "errors": 0,
                "fill": self._entering,
            }  # fmt: skip
            self._entering = {}
        if main and self._call:
            seen = self._with_results(seen)
        self._out.saw(seen)

    def _with_results(self, seen: Seen) -> Seen:
        call = self._call or {}
        return dataclasses.replace(seen, tools=call["tools"], tool_errors=call["errors"], fill=dict(call["fill"]))

    def _ended(self, payload: Mapping[str, Any]) -> None:
        name = self._tools.pop(ident(payload["id"]), "")
        size = payload.get("result_bytes")
        if size is None:
            size = (payload.get("result_tokens") or 0) * _BYTES_OF_TOKEN
        label = f"tool result {name}".strip()
        self._entering[label] = self._entering.get(label, 0) + size
        call = self._call
        if call is None:
            return
        call["tools"] += 1
        call["errors"] += not payload["ok"]
        row = Seen(session=self._sid, key=call["key"], line=call["line"], model=call["model"], at=call["at"])
        self._out.saw(self._with_results(row))

    def _act(self, kind: ActKind, ref: object, number: int, at: str) -> None:
        name = text(ref, REF_CHARS)
        if name:
            call = self._call["key"] if self._call else ""
            self._out.acts.setdefault((self._sid, kind, name), Act(self._sid, kind, name, number, at, call))
