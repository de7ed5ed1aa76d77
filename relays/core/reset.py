"""The seed of a fresh leg, and the record of what crossed a rotation and what did not.

Mission: "a relay rotation carries only the baton and the ability to query durable evidence. Model-written recaps are
not a third state." The seed is made of a constant preamble, the pin, the baton and pointers; anything else is refused.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from relays.core import baton as batons
from relays.core.lines import recorded
from relays.core.objective import Pin, verifies
from relays.core.pointers import PointerError, parse_pointer

#: the only prose in a seed; the same bytes for every leg of every relay, so that the prefix stays cacheable
PREAMBLE: Final = (
    "You are one leg of a relay. The goal and the baton below are all that was handed to you; there is no transcript "
    "and no summary. Check every pointer against the durable store before you rely on it: the query tool has orient "
    "and recall for that, and fact, decision, next_action and externalized to declare with. It is the MCP server "
    "named relay; without it, the command line in RELAY_TOOL with a verb behind it. Do the baton's next action; "
    "without a baton, ask orient first. Put everything that the next leg needs into a commit, an issue, a ledger row, "
    "a memory file or a tracked file, and declare it. Told RELAY_ARMED, begin nothing new: finish, commit, name "
    "exactly one next_action, and say externalized last, because every later tool call takes it back.\n"
)

#: of a whole seed, in bytes; what is larger would be no small baton any more
SEED_BYTES: Final = 128 * 1024
FACTS_MAX: Final = 64


class SeedError(ValueError):
    """Something other than preamble, pin, baton and pointers was offered; `contributor` names it."""

    def __init__(self, contributor: str, why: str) -> None:
        super().__init__(f"{contributor}: {why}")
        self.contributor = contributor
        self.why = why


@dataclass(frozen=True, slots=True)
class Contributor:
    """One part of a seed: preamble, objective_pin, baton or user_fact, with the sha256 of its bytes and its share of
    the seed's bytes."""

    kind: str
    digest: str
    pointer: str = ""  # of a user fact
    size: int = 0

    def as_mapping(self) -> dict[str, object]:
        pointer = {"pointer": self.pointer} if self.pointer else {}
        return {"kind": self.kind, "digest": self.digest, "bytes": self.size} | pointer


@dataclass(frozen=True, slots=True)
class Seed:
    """The bytes that a fresh leg begins with, their sha256, and what they are made of."""

    bytes: bytes
    digest: str
    contributors: tuple[Contributor, ...]


def seed(preamble: str, pin: Pin, baton: bytes, user_facts: Sequence[str] = (), **other: object) -> Seed:
    """Make a leg's seed. `baton`: canonical bytes, b"" for leg 0. `user_facts`: bare pointers `kind:ref`.

    Raises SeedError for a preamble that is not PREAMBLE, a pin that does not verify, bytes that are not a canonical
    baton with that pin, a fact that is not a bare pointer, more than SEED_BYTES in all, and for any other part that is
    offered by name. The preamble and the pin come first: the same bytes for every leg of a relay, so that they cache.
    """
    for name in other:
        raise SeedError(name[:80], "a seed has no such part")
    if preamble != PREAMBLE:
        raise SeedError("preamble", "it is not the constant one")
    if not isinstance(pin, Pin) or not verifies(pin):
        raise SeedError("objective_pin", "its digest does not verify")
    _check_baton(baton, pin)
    facts = _pointers(user_facts)
    parts = [
        ("preamble", PREAMBLE.encode(), ""),
        ("objective_pin", f"objective {pin.pin_id} {pin.digest}\n{pin.text}\n".encode(), ""),
        *([("baton", baton + b"\n", "")] if baton else []),
        *(("user_fact", f"{fact}\n".encode(), fact) for fact in facts),
    ]
    whole = b"\n".join(part for _, part, _ in parts)
    if len(whole) > SEED_BYTES:
        raise SeedError("seed", f"{len(whole)} bytes, more than {SEED_BYTES}")
    return Seed(
        whole,
        sha256(whole).hexdigest(),
        tuple(
            Contributor(
                kind, sha256(baton if kind == "baton" else part).hexdigest(), pointer, len(part) + (place < len(parts))
            )
            for place, (kind, part, pointer) in enumerate(parts, start=1)
        ),
    )


def recorded_size(contributors: Iterable[Mapping[str, object]]) -> int | None:
    """The bytes of a seed by the record of its parts; None where the record does not say."""
    sizes = [part.get("bytes") for part in contributors]
    counts = [size for size in sizes if isinstance(size, int) and size > 0]
    return sum(counts) if sizes and len(counts) == len(sizes) else None


def _check_baton(baton: bytes, pin: Pin) -> None:
    if not baton:
        return
    reading = batons.read(baton)
    if reading.baton is None:
        refusal = reading.refusal
        raise SeedError("baton", f"{refusal.path}: {refusal.evidence}" if refusal else "it cannot be read")
    if batons.canonical(reading.baton) != baton:
        raise SeedError("baton", "its bytes are not canonical")
    if (reading.baton.objective.pin_id, reading.baton.objective.digest) != (pin.pin_id, pin.digest):
        raise SeedError("baton", "its objective is not the pin")


def _pointers(user_facts: Iterable[str]) -> tuple[str, ...]:
    facts: dict[str, None] = {}
    for fact in user_facts:
        if not isinstance(fact, str) or any(letter.isspace() for letter in fact):
            raise SeedError("user_fact", "not a bare pointer")
        try:
            facts[str(parse_pointer(fact))] = None
        except PointerError as error:
            raise SeedError("user_fact", error.why) from error
        if len(facts) > FACTS_MAX:
            raise SeedError("user_fact", f"more than {FACTS_MAX}")
    return tuple(facts)


_DIGEST = re.compile(r"[0-9a-f]{64}")

#: of the closing leg's turns that many are listed one by one, the rest as one count and digest
SPANS_LISTED: Final = 200


@dataclass(frozen=True, slots=True)
class OmittedSpan:
    """What a rotation left behind: a turn (`index` from 1), or the `count` turns from there on, by their sha256."""

    index: int
    digest: str
    count: int = 1
    role: str = "turn"
    reason: str = recorded("a transcript is never carried")

    def as_mapping(self) -> dict[str, object]:
        return {
            "index": self.index,
            "role": self.role,
            "count": self.count,
            "digest": self.digest,
            "reason": self.reason,
        }


def omitted_spans(turns: Sequence[str], *, listed: int = SPANS_LISTED) -> tuple[OmittedSpan, ...]:
    """The closing leg's turns, of which `turns` has the sha256 of each in order, "as counts with digests".

    Raises SeedError for a turn without a digest: it could not be told apart from a lost one.
    """
    for number, digest in enumerate(turns, start=1):
        if not _DIGEST.fullmatch(digest):
            raise SeedError("omitted", f"turn {number}: no digest")
    spans = [OmittedSpan(number, digest) for number, digest in enumerate(turns[:listed], start=1)]
    rest = turns[listed:]
    if rest:
        spans.append(OmittedSpan(listed + 1, sha256("".join(rest).encode()).hexdigest(), len(rest)))
    return tuple(spans)


def whole_digest(turns: Sequence[str]) -> str:
    """By what a closed leg's turns are known together: the sha256 over theirs, "" where it had none."""
    return sha256("".join(turns).encode()).hexdigest() if turns else ""


def omitted_total(spans: Iterable[Mapping[str, object]]) -> int:
    """The readout's `omitted=<n>`: how many turns the recorded spans stand for."""
    counts = (span.get("count", 1) for span in spans)
    return sum(count for count in counts if isinstance(count, int))
