"""Read a bounded part of one file: needs no database, so that it can be done by another process.

What comes back is plain tuples, texts and numbers: cheap to send from a process to another and to put into rows.
"""

import os
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import orjson

from relays.core.lines import recorded
from relays.core.meter import Anomaly, AnomalyKind, Compaction, Extract, Seen
from relays.sessions import texts
from relays.sessions.detect import HEAD_BYTES, detect
from relays.sessions.files import (
    START,
    Cursor,
    Stat,
    blocks,
    cursor_at,
    open_for_reading,
    same,
    stat_of,
    words,
)
from relays.sessions.reader import FORMS, Context, Form, LineReader

#: a part ends after so many calls or bytes: what is held of a file, however long it is
PART_CALLS: Final = 4_000
PART_BYTES: Final = 48 << 20
PART_TEXTS: Final = 4_000
#: after so many bytes it is seen how much was gathered
TAKE_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Task:
    """Read on in `path` from `cursor`, with the reader that read so far (`form` "" = not known yet)."""

    path: str
    cursor: Cursor = START
    form: str = ""
    state: dict[str, Any] = field(default_factory=dict)
    part: int = 0  # from 0; a later part goes on in what this same run began
    texts: bool = False  # whether its lines are kept, see relays.sessions.texts


class CallRow(NamedTuple):
    """A row of a call as it is kept; `at` is UTC, "YYYY-MM-DD HH:MM:SS[.ffffff]", or ""."""

    sid: str
    key: str
    line: int
    chain: str
    agent_id: str
    model: str
    at: str
    input: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int
    output: int
    reasoning: int
    lower_bound: bool
    window: int | None
    vector: str
    turn: str
    tools: int
    tool_errors: int
    fill: str  # JSON, sorted keys
    claimed: str
    reported_cost: str


class MarkRow(NamedTuple):
    """A boundary as it is kept."""

    sid: str
    uid: str
    line: int
    at: str
    kind: str
    trigger: str
    declared_pre: int | None
    declared_post: int | None
    duration_ms: int | None


class ActRow(NamedTuple):
    """A durable act as it is kept."""

    sid: str
    kind: str
    ref: str
    line: int
    at: str
    call: str


class TouchRow(NamedTuple):
    """A file that a main call read or wrote, as it is kept."""

    sid: str
    call: str
    ref: str
    line: int


@dataclass(slots=True)
class Part:
    """What was read. `begun` is the cursor that it started from, `again` that it started over (`replaced`: because

    the file shrank or became another one); `more`: the file goes on. `status` "read", "skipped", "gone", "refused",
    "failed"; only "read" has content.
    """

    path: str
    status: str
    error: str = ""
    form: str = ""
    agent: str = ""
    begun: Cursor = START
    again: bool = False
    replaced: bool = False
    misread: bool = False  # an earlier look took it for another form: what that gave does not count
    more: bool = False
    held: bool = False  # a last line without an end
    looked: Stat = Stat(0, 0, 0, 0)
    cursor: Cursor = START
    state: dict[str, Any] = field(default_factory=dict)
    calls: list[CallRow] = field(default_factory=list)
    marks: list[MarkRow] = field(default_factory=list)
    acts: list[ActRow] = field(default_factory=list)
    touches: list[TouchRow] = field(default_factory=list)
    about: dict[str, dict[str, Any]] = field(default_factory=dict)  # session -> fields of About
    anomalies: list[tuple[str, str, str, int, int]] = field(default_factory=list)  # kind, session, detail, line, count
    records: dict[str, list[int]] = field(default_factory=dict)
    texts: list[tuple[int, str]] = field(default_factory=list)  # line, what is kept of it


def read_part(task: Task) -> Part:
    """The next part of a file. Never raises for what the file is or holds; the watched folder is not written to."""
    try:
        with open_for_reading(task.path) as stream:
            return _read(task, stream)
    except FileNotFoundError:
        return Part(task.path, "gone", begun=task.cursor, form=task.form)
    except PermissionError as error:
        return Part(task.path, "refused", words(error), begun=task.cursor, form=task.form)
    except OSError as error:
        return Part(task.path, "failed", words(error), begun=task.cursor, form=task.form)


def _read(task: Task, stream: BinaryIO) -> Part:
    now = stat_of(os.fstat(stream.fileno()))
    cursor, name, state = task.cursor, task.form, task.state
    part = Part(task.path, "read", begun=task.cursor, looked=now)
    if cursor.offset and not same(stream, cursor, now):
        part.replaced = part.again = True
        cursor, name, state = START, "", {}
    if not name or (cursor.offset < HEAD_BYTES and task.part == 0):
        # what the first bytes of a file that was still short were taken for is looked at again
        detected = _detect(task.path, stream)
        if name and detected and detected != name:
            part.misread = part.again = True
            cursor, state = START, {}
        name = detected or name
    if not name:
        part.status, part.error = "skipped", recorded("no session of an agent that is known")
        part.cursor = cursor_at(stream, now, 0, 0)
        return part
    form = FORMS[name]
    part.form, part.agent = name, form.agent
    context = Context(Path(task.path))
    if form.kind == "document":
        part.replaced = False  # such a file is written anew each time
        extract = form.document(context).read(Path(task.path))
        part.again = True
        part.cursor = cursor_at(stream, now, min(now.size, HEAD_BYTES), 0)
        _fill(part, extract)
        return part
    _lines(part, form, context, stream, cursor, state, task.texts)
    return part


def _detect(path: str, stream: BinaryIO) -> str | None:
    head = os.pread(stream.fileno(), HEAD_BYTES, 0)
    if len(head) < HEAD_BYTES and not head.endswith(b"\n"):
        # half a line says nothing for sure, but a document may have no line end at all
        whole = head[: head.rfind(b"\n") + 1]
        found = detect(Path(path), whole) if whole else None
        if found is not None:
            return found
        found = detect(Path(path), head)
        return found if found is not None and FORMS[found].kind == "document" else None
    return detect(Path(path), head)


def _lines(
    part: Part,
    form: Form,
    context: Context,
    stream: BinaryIO,
    cursor: Cursor,
    state: dict[str, Any],
    keep: bool,
) -> None:
    reader: LineReader = form.make(context, state or None)
    offset, number = cursor.offset, cursor.lines
    begun = at = offset
    extract: Extract | None = None
    huge: list[int] = []
    for behind, lines in blocks(stream, offset, part.looked.size):
        if not lines:
            number += 1
            huge.append(number)
        for raw in lines:
            number += 1
            if raw:
                reader.line(number, raw)
                if keep:
                    part.texts.append((number, texts.kept(raw)))
        offset = behind
        if offset - begun >= PART_BYTES:
            part.more = True
            break
        if offset - at < TAKE_BYTES:
            continue
        at = offset
        taken = reader.take()
        if extract is None:
            extract = taken
        else:
            _join(extract, taken)
        if len(extract.calls) >= PART_CALLS or len(part.texts) >= PART_TEXTS:
            part.more = True
            break
    taken = reader.take()
    if extract is None:
        extract = taken
    else:
        _join(extract, taken)
    for line in huge:
        extract.note(AnomalyKind.HUGE_LINE, line=line)
    part.more = part.more and offset < part.looked.size
    part.held = not part.more and offset < part.looked.size
    part.state = reader.state()
    part.cursor = cursor_at(stream, part.looked, offset, number)
    _fill(part, extract)


def _join(into: Extract, more: Extract) -> None:
    """Two following takes as one."""
    for call in more.calls.values():
        into.saw(call)
    for key, mark in more.compactions.items():
        known_mark = into.compactions.get(key)
        into.compactions[key] = mark if known_mark is None else _join_marks(known_mark, mark)
    for act_key, act in more.acts.items():
        into.acts.setdefault(act_key, act)
    for touch, line in more.touches.items():
        into.touches.setdefault(touch, line)
    for sid, about in more.about.items():
        known = into.about.get(sid)
        if known is None:
            into.about[sid] = about
        else:
            joined = join_about(asdict(known), asdict(about))
            for name, value in joined.items():
                setattr(known, name, value)
    for anomaly in more.anomalies.values():
        into.note(anomaly.kind, anomaly.session, anomaly.line, anomaly.detail, anomaly.count)
    for kind, (count, size) in more.records.items():
        entry = into.records.setdefault(kind, [0, 0])
        entry[0] += count
        entry[1] += size


def _join_marks(first: Compaction, later: Compaction) -> Compaction:
    """A boundary whose figures the file tells further on."""
    for name in ("declared_pre", "declared_post", "duration_ms"):
        if getattr(later, name) is not None:
            setattr(first, name, getattr(later, name))
    if later.trigger != "unknown":
        first.trigger = later.trigger
    first.at = first.at or later.at
    return first


def join_about(before: dict[str, Any], later: dict[str, Any]) -> dict[str, Any]:
    """What a file says of a session, and what it says further on: the later word, first and last times apart."""
    joined = {**before, **{name: value for name, value in later.items() if value}}
    joined["copy_hint"] = bool(before.get("copy_hint") or later.get("copy_hint"))
    firsts = sorted(filter(None, (before.get("first_at"), later.get("first_at"))))
    lasts = sorted(filter(None, (before.get("last_at"), later.get("last_at"))))
    joined["first_at"], joined["last_at"] = firsts[0] if firsts else "", lasts[-1] if lasts else ""
    return joined


def _fill(part: Part, extract: Extract) -> None:
    calls = part.calls
    for seen in extract.calls.values():
        calls.append(_call(seen))
    part.marks = [_mark(mark) for mark in extract.compactions.values()]
    part.acts = [
        ActRow(_text(act.session, 200), act.kind, _text(act.ref, 500), act.line, utc(act.at), _text(act.call, 200))
        for act in extract.acts.values()
    ]
    part.touches = [
        TouchRow(_text(sid, 200), _text(call, 200), _text(ref, 500), line)
        for (sid, call, ref), line in extract.touches.items()
    ]
    for sid, about in extract.about.items():
        fields = asdict(about)
        del fields["session"]
        fields["first_at"], fields["last_at"] = utc(about.first_at), utc(about.last_at)
        part.about[_text(sid, 200)] = fields
    part.anomalies = [_anomaly(anomaly) for anomaly in extract.anomalies.values()]
    part.records = {_text(kind, 120): entry for kind, entry in extract.records.items()}


def _call(seen: Seen) -> CallRow:
    buckets = seen.buckets
    return CallRow(
        seen.session,
        seen.key,
        seen.line,
        seen.chain,
        seen.agent_id[:120],
        seen.model[:120],
        utc(seen.at),
        buckets.input,
        buckets.cache_read,
        buckets.cache_write_5m,
        buckets.cache_write_1h,
        buckets.output,
        seen.reasoning,
        seen.lower_bound,
        seen.window,
        seen.vector[:120],
        seen.turn[:80],
        seen.tools,
        seen.tool_errors,
        orjson.dumps(seen.fill, option=orjson.OPT_SORT_KEYS).decode() if seen.fill else "{}",
        seen.copied,
        seen.reported_cost,
    )


def _mark(mark: Compaction) -> MarkRow:
    return MarkRow(
        _text(mark.session, 200),
        _text(mark.uid, 200),
        mark.line,
        utc(mark.at),
        mark.kind,
        mark.trigger,
        mark.declared_pre,
        mark.declared_post,
        mark.duration_ms,
    )


def _anomaly(anomaly: Anomaly) -> tuple[str, str, str, int, int]:
    return str(anomaly.kind), _text(anomaly.session, 200), _text(anomaly.detail, 120), anomaly.line, anomaly.count


def _text(value: str, most: int) -> str:
    return value.replace("\0", "")[:most]


def utc(text: str) -> str:
    """An ISO 8601 time as "YYYY-MM-DD HH:MM:SS[.ffffff]" in UTC; no zone means UTC; "" for anything else."""
    if not text:
        return ""
    try:
        at = datetime.fromisoformat(text)
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return ""
    if at.year < 1970:
        return ""
    if (
        len(text) == 24
        and text[23] == "Z"
        and text[10] == "T"
        and text[4] == "-"
        and text[19] == "."
        and text[20:23] != "000"
    ):
        return f"{text[:10]} {text[11:23]}000"  # as below, of the form that most files have
    return str(at.replace(tzinfo=None))


def money(text: str) -> Decimal | None:
    """A decimal text as a reader gives it, None for none."""
    return Decimal(text) if text else None
