"""The facts file of `handoff`: baton keys, with `next_actions` and `facts`; read as strictly as a baton is.

Mission: "Carryover is not model-sampled at rotation time; it is a projection of records [...] already committed".
Digest and note are ours: a digest that is given must be the right one, a note that is given is left out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from relays.core import objective
from relays.core.externalize import LoadBearing
from relays.core.pointers import Kind
from relays.core.strictjson import Members, OddNumber, TextFault, Value, join, parse, shown
from relays.core.vocabulary import TOMBSTONE_REASONS, Reason

#: a facts file may say more than a baton holds; the gate and the bounds judge it afterwards
MAX_BYTES = 1024 * 1024

_KEYS = frozenset(
    "schema relay_id leg parent_trace objective done_when progress_cursor next_action next_actions open_questions "
    "artifacts do_not_rederive tombstone facts".split()
)


class FactsError(ValueError):
    """One line: the path in the file, what is wrong and what is wanted."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the file states; `start_sha` and `at_sha` are "" where they are left to us."""

    relay_id: str
    leg: int
    parent_trace: str
    pin_id: str
    objective: str
    digest: str
    step: int
    source_span_id: str
    done_when: str
    start_sha: str
    at_sha: str
    ledger_ref: str
    wip_tree: str
    session_image: str
    region: tuple[str, ...]
    next_actions: tuple[str, ...]
    open_questions: tuple[str, ...]
    do_not_rederive: tuple[str, ...]
    artifacts: tuple[tuple[Kind, str], ...]
    facts: tuple[LoadBearing, ...]
    reason: str
    note: str


class _Reader:
    """One object of the file: each key is taken once, and what nobody took is refused by name."""

    def __init__(self, value: Value, path: str) -> None:
        if not isinstance(value, Members):
            raise FactsError(f"{path or 'the whole file'}: an object is wanted")
        self.path = path
        self.values: dict[str, Value] = {}
        for key, item in value.items:
            if key in self.values:
                raise FactsError(f"{join(path, key)}: the key stands twice")
            self.values[key] = item

    def only(self, keys: frozenset[str] | set[str]) -> None:
        for key in self.values:
            if key not in keys:
                raise FactsError(f"{join(self.path, key)}: an unknown key; known are {', '.join(sorted(keys))}")

    def text(self, key: str, default: str | None = None) -> str:
        if key not in self.values:
            if default is None:
                raise FactsError(f"{join(self.path, key)}: the key is missing")
            return default
        value = self.values[key]
        if not isinstance(value, str):
            raise FactsError(f"{join(self.path, key)}: text is wanted")
        return value

    def number(self, key: str, default: int | None = None) -> int:
        if key not in self.values and default is not None:
            return default
        value = self.values.get(key)
        if isinstance(value, bool | OddNumber) or not isinstance(value, int) or value < 0:
            raise FactsError(f"{join(self.path, key)}: a whole number of at least 0 is wanted")
        return value

    def member(self, key: str) -> "_Reader":
        return _Reader(self.values.get(key, Members(())), join(self.path, key))

    def sequence(self, key: str) -> list[Value]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise FactsError(f"{join(self.path, key)}: a list is wanted")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        found: list[str] = []
        for index, item in enumerate(self.sequence(key)):
            if not isinstance(item, str):
                raise FactsError(f"{join(self.path, key)}[{index}]: text is wanted")
            found.append(item)
        return tuple(found)

    def objects(self, key: str) -> "list[_Reader]":
        return [_Reader(item, f"{join(self.path, key)}[{index}]") for index, item in enumerate(self.sequence(key))]


def read(content: bytes, own: Callable[[str], Mapping[str, Any]]) -> Facts:
    """The facts of a file. `own(relay_id)`: what our tables say of a relay that is known here, {} of any other.

    Keys that our tables hold (objective, pin_id, done_when, region) may be left out. Raises FactsError.
    """
    try:
        whole = _Reader(parse(content, MAX_BYTES), "")
    except TextFault as fault:
        raise FactsError(fault.why) from None
    whole.only(_KEYS)
    relay_id = whole.text("relay_id")
    known = own(relay_id)
    pin, cursor, tombstone = whole.member("objective"), whole.member("progress_cursor"), whole.member("tombstone")
    pin.only({"pin_id", "text", "digest", "step", "source_span_id"})
    cursor.only({"start_sha", "ledger_ref", "wip_tree", "session_image", "held_region"})
    tombstone.only({"reason", "at_sha", "note"})
    reason = tombstone.text("reason", Reason.ROTATED)
    if reason not in TOMBSTONE_REASONS:
        raise FactsError(f"tombstone.reason: {shown(reason)!r} is no token; take one of {', '.join(Reason)}")
    next_actions = whole.texts("next_actions")
    if "next_action" in whole.values:
        next_actions = (*next_actions, whole.text("next_action"))
    return Facts(
        relay_id=relay_id,
        leg=whole.number("leg"),
        parent_trace=whole.text("parent_trace"),
        pin_id=pin.text("pin_id", known.get("pin_id", "")) or f"pin-{relay_id.lower()}",
        objective=pin.text("text", known.get("objective")),
        digest=pin.text("digest", ""),
        step=pin.number("step", 0),
        source_span_id=pin.text("source_span_id", ""),
        done_when=whole.text("done_when", known.get("done_when")),
        start_sha=cursor.text("start_sha", ""),
        at_sha=tombstone.text("at_sha", ""),
        ledger_ref=cursor.text("ledger_ref", ""),
        wip_tree=cursor.text("wip_tree", ""),
        session_image=cursor.text("session_image", ""),
        region=cursor.texts("held_region") or tuple(known.get("region", ())) or ("**",),
        next_actions=next_actions,
        open_questions=whole.texts("open_questions"),
        do_not_rederive=whole.texts("do_not_rederive"),
        artifacts=tuple(_artifact(one) for one in whole.objects("artifacts")),
        facts=tuple(_fact(one) for one in whole.objects("facts")),
        reason=reason,
        note=tombstone.text("note", ""),
    )


def _artifact(one: _Reader) -> tuple[Kind, str]:
    one.only({"kind", "ref"})
    kind = one.text("kind")
    if kind not in tuple(Kind):
        raise FactsError(f"{one.path}.kind: {shown(kind)!r} is none of {', '.join(Kind)}")
    return Kind(kind), one.text("ref")


def _fact(one: _Reader) -> LoadBearing:
    one.only({"label", "class", "backing", "kind"})
    backing = one.values.get("backing")
    return LoadBearing(
        label=one.text("label"),
        kind=one.text("kind", "fact"),
        durability=one.text("class", ""),
        backing="" if backing is None else one.text("backing"),
    )


def pin(facts: Facts) -> objective.Pin:
    """The pin with our digest. Raises FactsError where it cannot be one, or a stated digest is another."""
    try:
        made = objective.make_pin(facts.pin_id, facts.objective)
    except objective.ObjectiveError as error:
        raise FactsError(f"objective: {error.why}") from None
    if facts.digest and facts.digest != made.digest:
        raise FactsError(f"objective.digest: not the digest of the text, which is {made.digest}; leave it out")
    return objective.Pin(made.pin_id, made.text, made.digest, facts.step, facts.source_span_id)
