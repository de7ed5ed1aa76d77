"""The closed shape of `fak.relay.baton.v1` as values, and step 1 of the ladder: exact keys, types, forms, bounds.

Mission: "A deliberately closed schema." The names that others use are exported by `relays.core.baton`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from relays.core.lines import recorded
from relays.core.objective import Pin
from relays.core.pointers import (
    Kind,
    PointerError,
    check_ref,
    control_character,
    is_sha,
    name_problem,
    read_entry,
    utf8_size,
)
from relays.core.region import glob_problem
from relays.core.strictjson import Members, OddNumber, Value, join, shown

#: other writers hold numbers in 64 signed bits
MAX_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Bounds:
    """Sizes of a NEW baton in UTF-8 bytes and list lengths; the reader takes `factor` times as much."""

    total: int = 16 * 1024
    objective: int = 4 * 1024
    next_action: int = 200
    line: int = 500
    label: int = 120
    open_questions: int = 64
    artifacts: int = 128
    do_not_rederive: int = 128
    held_region: int = 64
    factor: int = 8


@dataclass(frozen=True, slots=True)
class Artifact:
    """A pointer to something that the closing leg durably made."""

    kind: Kind
    ref: str


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where verified progress is read from: re-verified by every reader, never trusted."""

    start_sha: str
    ledger_ref: str = ""
    wip_tree: str = ""
    session_image: str = ""
    held_region: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TombstoneRecord:
    """The closing leg's typed exit record."""

    reason: str
    at_sha: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Baton:
    """One accepted baton, lists as they stood in the text; the schema tag is a constant and not kept."""

    relay_id: str
    leg: int
    parent_trace: str
    objective: Pin
    done_when: str
    cursor: Cursor
    next_action: str
    open_questions: tuple[str, ...]
    artifacts: tuple[Artifact, ...]
    do_not_rederive: tuple[str, ...]
    tombstone: TombstoneRecord


class Refused(Exception):
    """Step 1 refuses: the path of the offending key and one line of why."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(why)
        self.path = path
        self.why = why


def _object(value: Value, path: str, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Value]:
    if not isinstance(value, Members):
        raise Refused(path, recorded("an object is wanted, not %(value)s", value=_type(value)))
    found: dict[str, Value] = {}
    for key, item in value.items:
        if key in found:
            raise Refused(join(path, key), recorded("the key stands twice"))
        if key not in required and key not in optional:
            raise Refused(join(path, key), recorded("an unknown key"))
        found[key] = item
    for key in required:
        if key not in found:
            raise Refused(join(path, key), recorded("the key is missing"))
    return found


def _type(value: Value) -> str:
    match value:
        case None:
            return recorded("null")
        case bool():
            return recorded("a truth value")
        case int():
            return recorded("a number")
        case OddNumber():
            return recorded("the number %(what)s", what=shown(value.text, 24))
        case str():
            return recorded("a string")
        case list():
            return recorded("a list")
        case Members():
            return recorded("an object")


def _text(value: Value, path: str, limit: int, *, empty: bool = False, lines: bool = False) -> str:
    if not isinstance(value, str):
        raise Refused(path, recorded("a string is wanted, not %(value)s", value=_type(value)))
    size = utf8_size(value)
    if size is None:
        raise Refused(path, recorded("a lone surrogate has no UTF-8 form"))
    if size > limit:
        raise Refused(path, recorded("%(size)d bytes, more than %(limit)d", size=size, limit=limit))
    if not empty and not value.strip():
        raise Refused(path, recorded("it is empty"))
    if not lines and control_character(value):
        raise Refused(path, recorded("one line is wanted: no line break or other control character"))
    return value


def _number(value: Value, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refused(path, recorded("an integer is wanted, not %(value)s", value=_type(value)))
    if not 0 <= value <= MAX_NUMBER:
        raise Refused(path, recorded("the integer is negative or too large"))
    return value


def _list(value: Value, path: str, limit: int) -> list[Value]:
    if not isinstance(value, list):
        raise Refused(path, recorded("a list is wanted, not %(value)s", value=_type(value)))
    if len(value) > limit:
        raise Refused(path, recorded("%(n)d entries, more than %(limit)d", n=len(value), limit=limit))
    return value


def _sha(value: Value, path: str) -> str:
    text = _text(value, path, 64)
    if not is_sha(text):
        raise Refused(path, recorded("not a full object name (40 or 64 lower-case hex digits)"))
    return text


def _checked(text: str, path: str, problem: Callable[[str], str]) -> str:
    if why := problem(text):
        raise Refused(path, why)
    return text


class Shape:
    """Step 1 on a parsed text: exact keys, types, forms, bounds."""

    def __init__(self, bounds: Bounds) -> None:
        self.factor = bounds.factor
        self.bounds = bounds
        self.line = bounds.line * bounds.factor

    def baton(self, value: Value) -> tuple[str, Baton]:
        """The text's schema tag as it stands, and the baton."""
        bounds, factor = self.bounds, self.factor
        top = _object(
            value,
            "",
            (
                "schema",
                "relay_id",
                "leg",
                "parent_trace",
                "objective",
                "done_when",
                "progress_cursor",
                "next_action",
                "open_questions",
                "artifacts",
                "do_not_rederive",
                "tombstone",
            ),
        )
        schema = _text(top["schema"], "schema", self.line, empty=True)
        return schema, Baton(
            # the id becomes part of ref and branch names
            relay_id=_checked(_text(top["relay_id"], "relay_id", self.line), "relay_id", name_problem),
            leg=_number(top["leg"], "leg"),
            parent_trace=_text(top["parent_trace"], "parent_trace", self.line),
            objective=self.objective(top["objective"]),
            done_when=_text(top["done_when"], "done_when", self.line, empty=True),
            cursor=self.cursor(top["progress_cursor"]),
            next_action=_text(top["next_action"], "next_action", bounds.next_action * factor, empty=True),
            open_questions=self.entries(top["open_questions"], "open_questions", bounds.open_questions),
            artifacts=self.artifacts(top["artifacts"]),
            do_not_rederive=self.entries(top["do_not_rederive"], "do_not_rederive", bounds.do_not_rederive),
            tombstone=self.tombstone(top["tombstone"]),
        )

    def objective(self, value: Value) -> Pin:
        found = _object(value, "objective", ("pin_id", "text", "digest"), ("step", "source_span_id"))
        return Pin(
            pin_id=_text(found["pin_id"], "objective.pin_id", self.line),
            text=_text(found["text"], "objective.text", self.bounds.objective * self.factor, lines=True),
            digest=_text(found["digest"], "objective.digest", self.line, empty=True),
            step=_number(found.get("step", 0), "objective.step"),
            source_span_id=_text(found.get("source_span_id", ""), "objective.source_span_id", self.line, empty=True),
        )

    def cursor(self, value: Value) -> Cursor:
        path = "progress_cursor"
        found = _object(value, path, ("start_sha", "held_region"), ("ledger_ref", "wip_tree", "session_image"))
        wip = found.get("wip_tree", "")
        ledger = _text(found.get("ledger_ref", ""), f"{path}.ledger_ref", self.line, empty=True)
        globs = _list(found["held_region"], f"{path}.held_region", self.bounds.held_region * self.factor)
        if not globs:
            raise Refused(f"{path}.held_region", recorded("it is empty: a relay that writes needs a region"))
        region: list[str] = []
        for index, glob in enumerate(globs):
            at = f"{path}.held_region[{index}]"
            region.append(_checked(_text(glob, at, self.line), at, lambda text: glob_problem(text, self.line)))
        return Cursor(
            start_sha=_sha(found["start_sha"], f"{path}.start_sha"),
            ledger_ref=ledger and self.ref(Kind.LEDGER, ledger, f"{path}.ledger_ref"),
            wip_tree="" if wip == "" else _sha(wip, f"{path}.wip_tree"),
            session_image=_text(found.get("session_image", ""), f"{path}.session_image", self.line, empty=True),
            held_region=tuple(region),
        )

    def tombstone(self, value: Value) -> TombstoneRecord:
        found = _object(value, "tombstone", ("reason", "at_sha"), ("note",))
        return TombstoneRecord(
            reason=_text(found["reason"], "tombstone.reason", self.line, empty=True),
            at_sha=_sha(found["at_sha"], "tombstone.at_sha"),
            note=_text(found.get("note", ""), "tombstone.note", self.line, empty=True),
        )

    def artifacts(self, value: Value) -> tuple[Artifact, ...]:
        made: list[Artifact] = []
        for index, item in enumerate(_list(value, "artifacts", self.bounds.artifacts * self.factor)):
            path = f"artifacts[{index}]"
            found = _object(item, path, ("kind", "ref"))
            kind = _text(found["kind"], f"{path}.kind", self.line, empty=True)
            if kind not in tuple(Kind):
                raise Refused(f"{path}.kind", recorded("not one of commit, issue, memory, ledger, file"))
            ref = _text(found["ref"], f"{path}.ref", self.line)
            made.append(Artifact(Kind(kind), self.ref(Kind(kind), ref, f"{path}.ref")))
        return tuple(made)

    def entries(self, value: Value, path: str, limit: int) -> tuple[str, ...]:
        made: list[str] = []
        for index, item in enumerate(_list(value, path, limit * self.factor)):
            at = f"{path}[{index}]"
            entry = _text(item, at, self.line)
            try:
                pointer, label = read_entry(entry, self.line)
            except PointerError as error:
                raise Refused(at, error.why) from None
            size = utf8_size(label)
            if pointer is not None and size is not None and size > self.bounds.label * self.factor:
                raise Refused(
                    at, recorded("its label is longer than %(factor)s bytes", factor=self.bounds.label * self.factor)
                )
            made.append(entry)
        return tuple(made)

    def ref(self, kind: Kind, ref: str, path: str) -> str:
        try:
            check_ref(kind, ref, self.line)
        except PointerError as error:
            raise Refused(path, error.why) from None
        return ref
