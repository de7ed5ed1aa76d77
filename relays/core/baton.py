"""The baton `fak.relay.baton.v1`: the strict reader's first five steps, the canonical bytes and the maker's duty.

Mission: "The baton is data, not prose, and it is the least trusted signal in the system, so its progress half is never
a claim -- it is a cursor the next leg re-verifies." Its shape is in `batonform`; steps 6 to 9, which need stores, in
`reload`.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from relays.core.batonform import Artifact, Baton, Bounds, Cursor, Refused, Shape, TombstoneRecord
from relays.core.lines import recorded
from relays.core.objective import pin_digest, trim, verifies
from relays.core.pointers import read_entry
from relays.core.sentences import RuleError, phrase, quoted
from relays.core.strictjson import Members, TextFault, Value, find_key, parse, write
from relays.core.vocabulary import TOMBSTONE_REASONS

__all__ = [
    "SCHEMA",
    "Artifact",
    "Baton",
    "BatonError",
    "Bounds",
    "Cursor",
    "Reading",
    "Step",
    "TombstoneRecord",
    "as_mapping",
    "canonical",
    "check_new",
    "digest",
    "read",
    "unique",
]

SCHEMA = "fak.relay.baton.v1"
FORBIDDEN = "claimed"

_Entry = TypeVar("_Entry")


class BatonError(RuleError):
    """A new baton that may not be written: `path` of the field ("" = the whole) and `why` in one line."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(phrase("%(path)s: %(why)s", path=path or phrase("the baton"), why=quoted(why)))
        self.path = path
        self.why = why


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the ladder, kept with its evidence; `path` is the offending key, "" the whole text."""

    step: int
    path: str
    verdict: Literal["passed", "refused"]
    evidence: str


@dataclass(frozen=True, slots=True)
class Reading:
    """What the strict reader made of a text: the baton only when all five steps passed, and the steps in order."""

    baton: Baton | None
    steps: tuple[Step, ...]

    @property
    def refusal(self) -> Step | None:
        return next((step for step in self.steps if step.verdict == "refused"), None)


def unique(entries: Iterable[_Entry]) -> tuple[_Entry, ...]:
    """The entries in their order without repeats and without empty ones."""
    return tuple(entry for entry in dict.fromkeys(entries) if entry)


def _without_empty(**fields: object) -> dict[str, object]:
    return {key: value for key, value in fields.items() if value not in (0, "")}


def as_mapping(baton: Baton) -> dict[str, object]:
    """The baton as plain data in canonical key order, optional keys left out when empty, lists without repeats."""
    pin, cursor, tombstone = baton.objective, baton.cursor, baton.tombstone
    return {
        "schema": SCHEMA,
        "relay_id": baton.relay_id,
        "leg": baton.leg,
        "parent_trace": baton.parent_trace,
        "objective": {
            "pin_id": pin.pin_id,
            "text": pin.text,
            "digest": pin.digest,
            **_without_empty(step=pin.step, source_span_id=pin.source_span_id),
        },
        "done_when": baton.done_when,
        "progress_cursor": {
            "start_sha": cursor.start_sha,
            **_without_empty(
                ledger_ref=cursor.ledger_ref, wip_tree=cursor.wip_tree, session_image=cursor.session_image
            ),
            "held_region": list(unique(cursor.held_region)),
        },
        "next_action": baton.next_action,
        "open_questions": list(unique(baton.open_questions)),
        "artifacts": [{"kind": str(one.kind), "ref": one.ref} for one in unique(baton.artifacts)],
        "do_not_rederive": list(unique(baton.do_not_rederive)),
        "tombstone": {
            "reason": tombstone.reason,
            "at_sha": tombstone.at_sha,
            **_without_empty(note=tombstone.note),
        },
    }


def canonical(baton: Baton) -> bytes:
    """The one spelling of a baton: compact HTML-safe JSON in key order, UTF-8, no newline. Checks no bounds.

    Raises BatonError for a lone surrogate, which has no UTF-8 form.
    """
    try:
        return write(as_mapping(baton)).encode()
    except UnicodeEncodeError:
        raise BatonError("", recorded("a lone surrogate has no UTF-8 form")) from None


def digest(baton: Baton) -> str:
    """Lower-case hex sha256 over the canonical bytes."""
    return hashlib.sha256(canonical(baton)).hexdigest()


def check_new(baton: Baton, bounds: Bounds | None = None) -> None:
    """The maker's duty for a new baton; raises BatonError with the path of the first field that breaks it.

    It must pass the reader at the plain bounds, state a done_when, carry a trimmed objective, and each of its questions
    and dead ends must begin with a pointer. Paths count within the lists as they are written, without repeats.
    """
    limits = replace(bounds or Bounds(), factor=1)
    refusal = read(canonical(baton), limits).refusal
    if refusal is not None:
        raise BatonError(refusal.path, refusal.evidence)
    pin = baton.objective
    if (pin.pin_id, pin.text) != (trim(pin.pin_id), trim(pin.text)):
        raise BatonError("objective", recorded("it is not trimmed, as a pin is when it is made"))
    if not baton.done_when.strip():
        raise BatonError("done_when", recorded("it is empty"))
    for name, entries in (("open_questions", baton.open_questions), ("do_not_rederive", baton.do_not_rederive)):
        for index, entry in enumerate(unique(entries)):
            if read_entry(entry, limits.line)[0] is None:
                raise BatonError(f"{name}[{index}]", recorded("it has no pointer: 'kind:ref' or '#n', then a label"))


def _without(value: Value, key: str) -> Value:
    """The same tree without any member of that name."""
    if isinstance(value, Members):
        return Members(tuple((name, _without(item, key)) for name, item in value.items if name != key))
    if isinstance(value, list):
        return [_without(item, key) for item in value]
    return value


def _written_too_large(text: str | bytes, baton: Baton, limit: int) -> str:
    """Why a baton may not be taken whose canonical form no reader would take; "" when it may.

    One byte of a text is at most six in it (an escape), so that a small text needs no second look.
    """
    if len(text) * 6 <= limit:
        return ""
    size = len(canonical(baton))
    return (
        recorded("%(size)d bytes in its canonical form, more than %(limit)d", size=size, limit=limit)
        if size > limit
        else ""
    )


def read(text: str | bytes, bounds: Bounds | None = None) -> Reading:
    """Steps 1 to 5 of the ladder over hostile text: each kept with its evidence, stopping at the first refusal.

    Never raises. A field named `claimed` is always reported as step 2, whatever else is wrong with a text that parses.
    """
    bounds = bounds or Bounds()
    steps: list[Step] = []

    def passed(step: int, path: str, evidence: str) -> None:
        steps.append(Step(step, path, "passed", evidence))

    def refused(step: int, path: str, evidence: str) -> Reading:
        steps.append(Step(step, path, "refused", evidence))
        return Reading(None, tuple(steps))

    try:
        value = parse(text, bounds.total * bounds.factor)
    except TextFault as fault:
        return refused(1, "", fault.why)
    claimed = find_key(value, FORBIDDEN)
    try:
        schema, baton = Shape(bounds).baton(value if claimed is None else _without(value, FORBIDDEN))
    except Refused as fault:
        if claimed is None:
            return refused(1, fault.path, fault.why)
        return refused(
            2,
            claimed,
            recorded("a field named 'claimed' (and step 1: %(path)s: %(why)s)", path=fault.path, why=fault.why),
        )
    if claimed is None and (why := _written_too_large(text, baton, bounds.total * bounds.factor)):
        return refused(1, "", why)
    passed(1, "", recorded("exact keys, types, forms and bounds"))
    if claimed is not None:
        return refused(2, claimed, recorded("a field named 'claimed': a baton carries no claim"))
    passed(2, "", "no field named 'claimed'")
    if schema != SCHEMA:
        return refused(3, "schema", f"not {SCHEMA!r}")
    passed(3, "schema", SCHEMA)
    pin = baton.objective
    if not verifies(pin):
        wanted = pin_digest(pin.pin_id, pin.text)
        return refused(
            4, "objective.digest", recorded("the text's digest is %(wanted)s; the baton states another", wanted=wanted)
        )
    passed(4, "objective.digest", recorded("%(digest)s is the digest of the text as it stands", digest=pin.digest))
    if baton.tombstone.reason not in TOMBSTONE_REASONS:
        return refused(5, "tombstone.reason", recorded("unknown token: not in the vocabulary"))
    passed(5, "tombstone.reason", baton.tombstone.reason)
    return Reading(baton, tuple(steps))
