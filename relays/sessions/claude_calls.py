"""What both Claude Code readers gather: calls, the tool results that came back for them, and what filled the window.

A call's rows, and the results of its tools, may lie far apart. The last calls of each chain stay open, so that a row or
a result that comes later adds to what is known; whatever is given out again is cumulative, and merging it is a maximum.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from relays.core.meter import Act, ActKind, AnomalyKind, Chain, Extract, Seen, copied, merge
from relays.core.usage import Buckets
from relays.sessions import shell
from relays.sessions.fields import REF_CHARS, ident, rows, table, text
from relays.sessions.jsonline import size

#: calls that stay open: a main call waits for its sub-agents while they make theirs, so each chain has its own
_OPEN_MAIN: Final = 16
_OPEN_OTHER: Final = 32
#: tools that were asked for and did not answer yet
_ASKED: Final = 64
#: sessions of one file whose window is filled side by side
_SESSIONS: Final = 16
#: different names (of tools, attachments, unknown types) that a file's accounts tell apart
_NAMES: Final = 120

_WRITERS: Final = {"Write": "file_path", "Edit": "file_path", "MultiEdit": "file_path", "NotebookEdit": "notebook_path"}
_READERS: Final = {"Read": "file_path", "NotebookRead": "notebook_path"}


@dataclass(slots=True)
class Row:
    """Whose record it is: its session, chain and place."""

    session: str
    line: int
    at: str = ""
    chain: Chain = "main"
    agent_id: str = ""


@dataclass(slots=True)
class _Asked:
    session: str
    key: str
    name: str
    interest: shell.Interest = ""
    path: str = ""
    touched: str = ""  # a file that it read or wrote for the main chain: the window holds it from then on


class Calls:
    """Gathers into `out`; `state` is bounded and goes on in the next object."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        kept = state or {}
        self.out = Extract()
        self._main = {(s.session, s.key): s for s in map(_restored, kept.get("main", ()))}
        self._other = {(s.session, s.key): s for s in map(_restored, kept.get("other", ()))}
        self._asked = {name: _Asked(*entry) for name, entry in kept.get("asked", {}).items()}
        self._fill: dict[str, dict[str, int]] = {sid: dict(kinds) for sid, kinds in kept.get("fill", {}).items()}
        self._newest: dict[str, str] = dict(kept.get("newest", {}))
        self._names: dict[str, str] = dict.fromkeys(kept.get("names", ()), "")
        self._dirty: dict[tuple[str, str], Seen] = {}
        self._models: set[str] = set()  # names that are fit to be kept as they are

    def state(self) -> dict[str, Any]:
        return {
            "main": [_packed(seen) for seen in self._main.values()],
            "other": [_packed(seen) for seen in self._other.values()],
            "asked": {
                name: [asked.session, asked.key, asked.name, asked.interest, asked.path, asked.touched]
                for name, asked in self._asked.items()
            },
            "fill": self._fill,
            "newest": self._newest,
            "names": list(self._names),
        }

    def take(self) -> Extract:
        """What was gathered since the last take, copies of the open calls included."""
        out, self.out = self.out, Extract()
        for key, seen in self._dirty.items():
            # a copy, for the open one goes on changing; kept apart from what an earlier, closed row gave
            known = out.calls.get(key)
            copy = copied(seen)
            out.calls[key] = copy if known is None else merge(known, copy)
        self._dirty = {}
        return out

    def name(self, value: object) -> str:
        """A name for the accounts; the first ones of a file stay apart, the rest is "(others)"."""
        if value.__class__ is str and value in self._names:
            return value
        name = text(value, 60) or "(no name)"
        if name not in self._names:
            if len(self._names) >= _NAMES:
                return "(others)"
            self._names[name] = ""
        return name

    # --- calls

    def row(self, row: Row, key: str, model: Any, buckets: Buckets, reasoning: int, lower_bound: bool) -> None:
        """A row of a call. Of a call of the main chain that is new, the window's filling until here is its own."""
        place = (row.session, key)
        known = self._main.get(place) or self._other.get(place)
        if known is not None:
            if (
                (known.buckets is buckets or known.buckets == buckets)
                and known.lower_bound <= lower_bound
                and known.reasoning == reasoning
                and known.chain == row.chain
            ):
                return
            again = replace(
                known, line=row.line, buckets=buckets, reasoning=reasoning, lower_bound=lower_bound, chain=row.chain
            )
            self._keep(place, merge(known, again))
            return
        seen = Seen(
            row.session,
            key,
            row.line,
            row.chain,
            row.agent_id,
            model if model.__class__ is str and model in self._models else self._model(model),
            row.at,
            buckets,
            reasoning,
            lower_bound,
        )
        if row.chain == "main":
            session, at, times = row.session, row.at, self._newest
            newest = times.pop(session, "")
            if not at or at >= newest:  # not a row of long ago that stands here again
                if session in self._fill:
                    seen.fill = self._fill.pop(session)
                newest = at or newest
            times[session] = newest
            if len(times) > _SESSIONS:
                del times[next(iter(times))]
            self._open(self._main, _OPEN_MAIN, place, seen)
        else:
            self._open(self._other, _OPEN_OTHER, place, seen)

    def _model(self, value: object) -> str:
        name = text(value, 120)
        if name == value and len(self._models) < _NAMES:
            self._models.add(name)
        return name

    def window(self, session: str, model: str, window: int) -> None:
        """The agent says how large the window of a model is: so it was for the last call of the main chain."""
        for place, seen in reversed(self._main.items()):
            if place[0] == session and seen.model == model:
                seen.window = window
                self._dirty[place] = seen
                return

    def _open(self, calls: dict[tuple[str, str], Seen], most: int, place: tuple[str, str], seen: Seen) -> None:
        if len(calls) >= most:
            oldest = next(iter(calls))
            closed = calls.pop(oldest)
            if self._dirty.pop(oldest, None) is not None:
                self.out.saw(closed)
        calls[place] = self._dirty[place] = seen

    def _keep(self, place: tuple[str, str], seen: Seen) -> None:
        calls = self._main if place in self._main else self._other
        calls[place] = self._dirty[place] = seen

    # --- content

    def answered(self, row: Row, key: str, content: Any) -> str:
        """The blocks of an answer: tools that it asks for, and what enters the window of the call after it.

        Gives the kind of record of the first block.
        """
        first = ""
        if content.__class__ is not list:
            return "assistant text"
        for block in content:
            if block.__class__ is not dict:
                continue
            kind = block.get("type")
            if kind == "text":
                label, said = "assistant text", block.get("text")
                length = size(said) if said.__class__ is str else _length(said)
            elif kind == "thinking" or kind == "redacted_thinking":
                label = "assistant thinking"
                length = _length(block.get("thinking") or block.get("data") or block.get("signature"))
            elif kind == "tool_use":
                label, length = "tool call", self._ask(row, key, block)
            else:
                label, length = f"assistant {self.name(kind)}", _length(block)
            if row.chain == "main":
                self.entered(row.session, label, length)
            first = first or label
        return first or "assistant text"

    def given(self, row: Row, content: object, label: str = "user text") -> str:
        """What a user's record gives the model: a text, or blocks with results of tools. The first block's kind."""
        if not isinstance(content, list):
            if row.chain == "main":
                self.entered(row.session, label, _length(content))
            return label
        first = ""
        for block in content:
            if not isinstance(block, dict):
                continue
            kind = block.get("type")
            if kind == "tool_result":
                name, length = self._returned(row, block)
            elif kind == "text":
                name, length = label, _length(block.get("text"))
            else:
                name, length = f"user {self.name(kind)}", _length(block)
            if row.chain == "main":
                self.entered(row.session, name, length)
            first = first or name
        return first or label

    def entered(self, session: str, kind: str, length: int) -> None:
        """So many bytes of this kind enter the window of the session's next main call."""
        if not length:
            return
        kinds = self._fill.get(session)
        if kinds is None:
            kinds = self._fill[session] = {}
            if len(self._fill) > _SESSIONS:
                del self._fill[next(iter(self._fill))]
        if kind in kinds:
            kinds[kind] += length
        else:
            kinds[kind] = length

    def attached(self, row: Row, label: str, attachment: object) -> None:
        """What the agent's own program put before the model."""
        self.entered(row.session, label, _length(attachment))

    def act(self, row: Row, kind: ActKind, ref: str, call: str) -> None:
        """Something that the session durably did; the first time counts."""
        ref = text(ref, REF_CHARS)
        if ref and (row.session, kind, ref) not in self.out.acts:
            self.out.acts[row.session, kind, ref] = Act(row.session, kind, ref, row.line, row.at, call)

    def _ask(self, row: Row, key: str, block: Mapping[str, Any]) -> int:
        arguments = block.get("input")
        if arguments.__class__ is not dict:
            arguments = {}
        name = block.get("name")
        if name.__class__ is not str or name not in self._names:
            name = self.name(name)
        asked = _Asked(row.session, key, name)
        if name in _WRITERS:
            asked.path = text(arguments.get(_WRITERS[name]), REF_CHARS)
            asked.touched = asked.path if row.chain == "main" else ""
        elif name in _READERS:
            asked.touched = text(arguments.get(_READERS[name]), REF_CHARS) if row.chain == "main" else ""
        else:
            command = arguments.get("command")
            if command.__class__ is str:
                asked.interest = shell.interest(command)
                if asked.interest:
                    for kind, ref in shell.named(command):
                        self.act(row, kind, ref, key)
        identity = ident(block.get("id"))
        if identity and key:
            waiting = self._asked
            if identity in waiting:
                del waiting[identity]
            waiting[identity] = asked
            if len(waiting) > _ASKED:
                del waiting[next(iter(waiting))]
        return _block_length(arguments) if arguments else 2

    def _returned(self, row: Row, block: Mapping[str, Any]) -> tuple[str, int]:
        content = block.get("content")
        length = size(content) if content.__class__ is str else _length(content)
        asked = self._asked.pop(ident(block.get("tool_use_id")), None)
        if asked is None:
            return "tool result", length
        failed = block.get("is_error") is True
        place = (asked.session, asked.key)
        seen = self._main.get(place) or self._other.get(place)
        if seen is not None:
            seen.tools += 1
            seen.tool_errors += failed
            self._dirty[place] = seen
        if asked.touched and not failed:
            self.out.touches.setdefault((asked.session, asked.key, asked.touched), row.line)
        if asked.path and not failed:
            self.act(row, "file", asked.path, asked.key)
        if asked.interest:
            for kind, ref in shell.printed(asked.interest, _said(content)):
                self.act(row, kind, ref, asked.key)
        return f"tool result {asked.name}", length

    def unknown(self, kind: AnomalyKind, session: str, line: int, name: object, within: str = "") -> None:
        """Count an unknown type or key by its name."""
        self.out.note(kind, session, line, f"{within}{self.name(name)}")


def _said(content: object) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block["text"] for block in rows(content) if isinstance(table(block).get("text"), str))


def _length(value: object) -> int:
    """Bytes of what a model is given: of texts their own, of pictures those of their data, else those of the JSON."""
    if isinstance(value, str):
        return size(value)
    if isinstance(value, list):
        return sum(map(_block_length, value))
    return 0 if value is None else _block_length(value)


def _block_length(block: object) -> int:
    if isinstance(block, dict) and (kind := block.get("type")) is not None:
        value = None
        if kind == "text":
            value = block.get("text")
        elif kind == "image" or kind == "document":
            value = table(block.get("source")).get("data")
        if isinstance(value, str):
            return size(value)
    try:
        return len(orjson.dumps(block))
    except TypeError:  # half letters, or nested too deeply: not worth more
        return 0


def _packed(seen: Seen) -> list[Any]:
    b = seen.buckets
    return [
        seen.session,
        seen.key,
        seen.line,
        seen.chain,
        seen.agent_id,
        seen.model,
        seen.at,
        [b.input, b.cache_read, b.cache_write_5m, b.cache_write_1h, b.output],
        seen.reasoning,
        seen.lower_bound,
        seen.tools,
        seen.tool_errors,
    ]


def _restored(entry: list[Any]) -> Seen:
    # window and filling were given out with an earlier take: merging keeps them
    session, key, line, chain, agent_id, model, at, buckets, reasoning, lower_bound, tools, errors = entry
    return Seen(
        session,
        key,
        line,
        chain,
        agent_id,
        model,
        at,
        Buckets(*buckets),
        reasoning,
        lower_bound,
        tools=tools,
        tool_errors=errors,
    )
