"""Messages and parts of OpenCode sessions: calls by step, compactions, tools and what they durably did.

sessions.md: "reasoning inside or outside output depending on version: use `total` identity". Without a total it cannot
be known: output is then taken as it stands, which is a lower bound where the model reasoned.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from relays.core.meter import About, Act, ActKind, AnomalyKind, Compaction, Extract, Seen
from relays.core.usage import Buckets
from relays.sessions import shell
from relays.sessions.fields import REF_CHARS, from_millis, ident, money, rows, table, text, tokens, whole
from relays.sessions.jsonline import parse_whole, written_size

AGENT: Final = "opencode"
_PARTS: Final = frozenset(
    "text reasoning tool file step-start step-finish snapshot patch agent subtask retry compaction".split()
)
_WRITES: Final = frozenset({"write", "edit", "multiedit"})
_ENDED: Final = frozenset({"completed", "error"})


class Copies:
    """Answers of all sessions of one database, to find the same one again in a fork."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}

    def key(self, own: str, fingerprint: str) -> str:
        """The key of the first answer with this fingerprint, which is `own` unless another had it before."""
        return self._keys.setdefault(fingerprint, own) if fingerprint else own


class Conversation:
    """One session, message by message in order."""

    def __init__(self, session: object, out: Extract, copies: Copies) -> None:
        self.sid = ident(session) or "unnamed"
        self._out, self._copies = out, copies
        self._about = About(session=self.sid, agent=AGENT)
        self._entering: dict[str, int] = {}
        self._asked: Compaction | None = None  # a compaction that was asked for; it is one once its summary is there

    def about(self, directory: object, version: object, parent: object) -> None:
        self._about.cwd = text(directory, 4096)
        self._about.version = text(version, 60)
        self._about.parent = ident(parent)

    def end(self) -> None:
        """All messages were given."""
        self._out.about[self.sid] = self._about

    def message(
        self, message: Mapping[str, Any], message_id: object, parts: Iterable[Mapping[str, Any]], line: int
    ) -> None:
        """One message with its parts in order; `line` = its number, from 1."""
        if not message:
            return
        name = ident(message_id) or f"line:{line}"
        time = table(message.get("time"))
        at = from_millis(time.get("created"))
        if at:
            self._about.first_at = min(filter(None, (self._about.first_at, at)))
            self._about.last_at = max(self._about.last_at, from_millis(time.get("completed")) or at)
        role = message.get("role")
        if role == "assistant":
            self._answer(message, name, parts, line, at)
            return
        if role != "user":
            self._out.note(AnomalyKind.UNKNOWN_TYPE, self.sid, line, text(role) or "no role")
        for part in parts:
            kind, size = self._part(part, line)
            if kind == "compaction":
                self._asked = Compaction(self.sid, f"{AGENT}:{self.sid}:{name}"[:200], line, at)
                if isinstance(part.get("auto"), bool):
                    self._asked.trigger = "auto" if part["auto"] else "manual"
            elif kind in ("text", "file"):
                self._enter(f"user {kind}", size)

    def _part(self, part: Mapping[str, Any], line: int) -> tuple[str, int]:
        kind = text(part.get("type")) or "no type"
        size = written_size(part)
        if kind not in _PARTS:
            self._out.note(AnomalyKind.UNKNOWN_TYPE, self.sid, line, f"part/{kind}")
        self._out.record(f"part {kind}", size)
        return kind, size

    def entered(self, kind: str, size: int) -> None:
        """Something else that the next answer reads."""
        self._enter(kind, size)

    def _enter(self, kind: str, size: int) -> None:
        self._entering[kind] = self._entering.get(kind, 0) + size

    # --- an answer

    def _answer(
        self, message: Mapping[str, Any], name: str, parts: Iterable[Mapping[str, Any]], line: int, at: str
    ) -> None:
        self._out.record("assistant message", 0)
        summary = message.get("summary") is True
        if not message.get("cwd") and not self._about.cwd:
            self._about.cwd = text(table(message.get("path")).get("cwd"), 4096)
        key = self._copies.key(f"{AGENT}:{self.sid}:{name}"[:190], _fingerprint(message))
        if not key.startswith(f"{AGENT}:{self.sid}:"):
            self._about.copy_hint = True
        fill, self._entering = self._entering, {}
        step, tools, errors = 0, 0, 0
        for part in parts:
            kind, size = self._part(part, line)
            if kind == "step-finish" and isinstance(part.get("tokens"), dict):
                step += 1
                one = self._seen(message, _step_key(key, step), line, at, summary, part)
                one.tools, one.tool_errors, one.fill = tools, errors, fill
                self._out.saw(one)
                fill, self._entering = self._entering, {}
                tools, errors = 0, 0
            elif kind == "tool":
                ended, failed = self._tool(part, size, _step_key(key, step + 1), line, at)
                tools, errors = tools + ended, errors + failed
            elif kind == "patch":
                for path in rows(part.get("files")):
                    self._act("file", path, line, at, _step_key(key, step + 1))
            elif kind in ("text", "reasoning"):
                self._enter("assistant text" if kind == "text" else "assistant thinking", size)
        if not step and isinstance(message.get("tokens"), dict):
            one = self._seen(message, key, line, at, summary, message)
            one.tools, one.tool_errors, one.fill = tools, errors, fill
            if any(one.buckets.as_mapping().values()):
                self._out.saw(one)
                fill = {}
        for kind, size in fill.items():  # a part of the last step, or an answer that came to nothing: read by the next
            self._enter(kind, size)
        self._boundary(message, name, line, at, summary)

    def _seen(
        self, message: Mapping[str, Any], key: str, line: int, at: str, summary: bool, source: Mapping[str, Any]
    ) -> Seen:
        """A call; the one that writes a summary is cost, not the session's window."""
        buckets, reasoning, lower_bound = self._buckets(table(source.get("tokens")), line)
        model = table(message.get("model"))
        return Seen(
            session=self.sid,
            key=key,
            line=line,
            chain="aux" if summary else "main",
            model=text(message.get("modelID") or model.get("modelID") or model.get("id"), 120),
            at=at,
            buckets=buckets,
            reasoning=reasoning,
            lower_bound=lower_bound,
            reported_cost=money(source.get("cost")),
        )

    def _buckets(self, usage: Mapping[str, Any], line: int) -> tuple[Buckets, int, bool]:
        def count(source: Mapping[str, Any], name: str) -> int:
            return tokens(source, name, self._out, self.sid, line)

        cache = table(usage.get("cache"))
        read, wrote, thought = count(usage, "input"), count(usage, "output"), count(usage, "reasoning")
        cached, written = count(cache, "read"), count(cache, "write")
        stated = whole(usage.get("total"))
        outside = read + cached + written
        ways = [(read, outside + wrote + thought, wrote + thought), (read, outside + wrote, wrote)]
        inside = read - cached - written
        if inside >= 0:
            ways += [(inside, read + wrote + thought, wrote + thought), (inside, read + wrote, wrote)]
        plain, output, bound = read, wrote, bool(thought)
        if thought > wrote:
            output, bound = wrote + thought, False  # it cannot be within
        if stated:
            for way_plain, way_total, way_output in ways:
                if way_total == stated:
                    plain, output, bound = way_plain, way_output, False
                    break
            else:
                self._out.note(AnomalyKind.IDENTITY_MISMATCH, self.sid, line, "total")
        buckets = Buckets(input=plain, cache_read=cached, cache_write_5m=written, output=output)
        return buckets, min(thought, output), bound

    def _tool(self, part: Mapping[str, Any], size: int, key: str, line: int, at: str) -> tuple[int, int]:
        state = table(part.get("state"))
        name = text(part.get("tool"), 60)
        given = table(state.get("input"))
        output = state.get("output")
        result = len(output.encode("utf-8", "replace")) if isinstance(output, str) else 0
        self._enter("tool call", max(0, size - result))
        self._enter(f"tool result {name}", result)
        if text(state.get("status")) not in _ENDED:
            return 0, 0
        code = table(state.get("metadata")).get("exit")
        failed = state.get("status") == "error" or (isinstance(code, int) and code != 0)
        if name in _WRITES and not failed:
            self._act("file", given.get("filePath"), line, at, key)
        command = shell.command_of(given.get("command"))
        if command:
            for kind, ref in _done(command, output):
                self._act(kind, ref, line, at, key)
        return 1, int(failed)

    def _act(self, kind: ActKind, ref: object, line: int, at: str, key: str) -> None:
        name = text(ref, REF_CHARS)
        if name:
            self._out.acts.setdefault((self.sid, kind, name), Act(self.sid, kind, name, line, at, key))

    def _boundary(self, message: Mapping[str, Any], name: str, line: int, at: str, summary: bool) -> None:
        """A compaction is one when its summary is there; one that failed leaves the window as it was."""
        if summary and not message.get("error"):
            found = self._asked or Compaction(self.sid, f"{AGENT}:{self.sid}:{name}"[:200], line, at)
            # a fork's copy is the compaction that it repeats
            known = _fingerprint(message)
            found.uid = self._copies.key(found.uid, f"compaction {known}" if known else "")
            self._out.compactions[self.sid, found.uid] = found
        self._asked = None


def parsed(raw: object, out: Extract, line: int) -> Mapping[str, Any]:
    """A JSON object, or an empty one and a broken line."""
    if isinstance(raw, str):
        raw = raw.encode("utf-8", "surrogatepass")
    value = parse_whole(raw) if isinstance(raw, bytes) else None
    if value is not None:
        return value
    out.note(AnomalyKind.BROKEN_LINE, line=line)
    return {}


def created(message: Mapping[str, Any]) -> int:
    """When it was begun, in milliseconds since 1970; 0 where it does not say."""
    at = table(message.get("time")).get("created")
    return int(at) if isinstance(at, int | float) and not isinstance(at, bool) and 0 < at < 10**14 else 0


def _done(command: str, output: object) -> Iterator[tuple[ActKind, str]]:
    yield from shell.named(command)
    if isinstance(output, str):
        yield from shell.printed(shell.interest(command), output)


def _step_key(key: str, step: int) -> str:
    return key if step <= 1 else f"{key}#{step}"


def _fingerprint(message: Mapping[str, Any]) -> str:
    """What a fork's copy has in common with the answer itself; "" where it is too little to tell them apart."""
    time, usage = table(message.get("time")), table(message.get("tokens"))
    if not time.get("created") or not time.get("completed") or not usage:
        return ""
    facts = [time["created"], time["completed"], message.get("providerID"), message.get("modelID"), usage]
    try:
        return orjson.dumps(facts, option=orjson.OPT_SORT_KEYS, default=str).decode("utf-8", "replace")
    except TypeError:  # half a letter, or numbers that no agent writes
        return ""
