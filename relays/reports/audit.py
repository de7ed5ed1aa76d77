"""The audit of decisions: every row recomputed, every gap and every row that must be there looked for.

Interface, Pages: "Decisions (the audit: append-only, hash-chained, exportable, verifiable by a command)". The chain
holds no secret: whoever may write the whole table can write a whole new chain. Keep `head` elsewhere to see that too.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef

from relays.core.lines import recorded
from relays.models import Baton, Decision, GateEpisode, GateState, Relay, append_only

GENESIS = "0" * 64
#: acts that bring a relay into the house: each relay has one
BEGINNINGS = ("start", "adopt")
#: an episode in one of these was decided by somebody
_DECIDED = (
    GateState.APPROVED,
    GateState.REQUESTED,
    GateState.DISPATCHED,
    GateState.CONFIRMED,
    GateState.REFUSED,
)
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class Audit:
    """`rows` decisions were read. `first_bad`: the number of the first decision that is wrong or missing, else None.

    `head`: the digest that the chain ends with. `why`: one line a finding, the first decision's first. `open_tables`:
    triggers that the database lacks, so that rows could have been changed without a trace of it here.
    """

    rows: int
    first_bad: int | None
    head: str
    why: tuple[str, ...]
    open_tables: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return self.first_bad is None and not self.why


@dataclass(frozen=True, slots=True)
class Place:
    """How far a verification is: it goes on from here, in this process or another.

    `phase`: decisions, then batons, then "" when all was read. `at`: number of the last decision that was read, or key
    of the last baton. `done`: rows of either that were read. The rest is what was found so far, as in `Audit`.
    """

    phase: str = "decisions"
    at: int = 0
    done: int = 0
    rows: int = 0
    head: str = GENESIS
    first_bad: int | None = None
    why: tuple[str, ...] = ()
    open_tables: tuple[str, ...] = ()


def content_of(row: Decision) -> dict[str, Any]:
    """All that the row's digest is made of, by name: whoever has an export can make it again."""
    return {
        "seq": row.seq,
        "relay": row.relay_id,
        "gate": row.gate_id,
        "act": row.act,
        "actor": row.actor_id,
        "os_user": row.os_user,
        "comment": row.comment,
        "seen": row.seen,
        "detail": row.detail,
        "previous": row.previous,
        "at": row.at.astimezone(UTC).isoformat(timespec="microseconds"),
    }


def chain_digest(row: Decision) -> str:
    """sha256 over the row's content (JSON, keys in order) and the digest before it."""
    return hashlib.sha256(json.dumps(content_of(row), sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def verify() -> Audit:
    """Read the whole chain once, in its order. Nothing is written."""
    place = go_on(Place(), lambda place: False)
    return Audit(place.rows, place.first_bad, place.head, place.why, place.open_tables)


def size() -> int:
    """How many rows a verification reads. Two queries."""
    return Decision.objects.count() + Baton.objects.count()


def go_on(place: Place, enough: Callable[[Place], bool]) -> Place:
    """Read on from `place` until all is read (`phase` is "") or `enough` says so, which is asked after each chunk.

    Nothing is written. Decisions that are added meanwhile are read too; a chain that only grows stays one that holds.
    """
    with _text_of_any_bytes():
        while place.phase:
            place = _decisions(place) if place.phase == "decisions" else _batons(place)
            if place.phase and enough(place):
                break
    return place


@contextmanager
def _text_of_any_bytes() -> Iterator[None]:
    """SQLite takes any bytes for text. Those that are no UTF-8 are read as what they are: a change, and no failure."""
    if connection.vendor != "sqlite":
        yield
        return
    connection.ensure_connection()
    link = connection.connection
    strict = link.text_factory
    link.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    try:
        yield
    finally:
        link.text_factory = strict


def _decisions(place: Place) -> Place:
    """The next chunk of the chain; behind its last row what must be there, and a row that is wrong ends the chain."""
    rows, head, done, read = place.rows, place.head, place.done, 0
    for row in Decision.objects.filter(seq__gt=place.at).order_by("seq")[:_CHUNK]:
        rows, read = rows + 1, read + 1
        if wrong := _wrong(row, rows, head):
            count = Decision.objects.count()
            last = Decision.objects.order_by("-seq").values_list("digest", flat=True).first() or GENESIS
            return Place("batons", 0, done + read, count, last, rows, (wrong,))
        head = row.digest
    if read == _CHUNK:
        return replace(place, at=rows, done=done + read, rows=rows, head=head)
    cut = _without_decision()
    why = (recorded("decision %(number)d is missing at the end: %(cut)s", number=rows + 1, cut=cut),) if cut else ()
    return Place("batons", 0, done + read, rows, head, rows + 1 if cut else None, why)


def _batons(place: Place) -> Place:
    """The next chunk of batons, up to one whose text is not the one that its digest was made of; then the triggers."""
    found = Baton.objects.filter(pk__gt=place.at).order_by("pk")
    columns = found.values_list("pk", "relay_id", "leg__number", "text", "digest")
    read, at, why = 0, place.at, place.why
    for pk, relay, leg, text, digest in columns[:_CHUNK]:
        read, at = read + 1, pk
        content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""
        if hashlib.sha256(content).hexdigest() != digest:
            why = (
                *why,
                recorded(
                    "baton %(baton)s of %(relay)s leg %(leg)s was changed: its text has another digest",
                    baton=pk,
                    relay=relay,
                    leg=leg,
                ),
            )
            break
    else:
        if read == _CHUNK:
            return replace(place, at=at, done=place.done + read)
    guards = append_only.missing(connection)
    if guards:
        said = recorded(
            "the database does not refuse changes: %(guards)s missing; run migrate, or restore them",
            guards=", ".join(guards),
        )
        why = (*why, said)
    return replace(place, phase="", at=at, done=place.done + read, why=why, open_tables=guards)


def _wrong(row: Decision, number: int, previous: str) -> str:
    """What is wrong with the row that stands at place `number`, one line; "" when nothing is."""
    if row.seq != number:
        return recorded("decision %(number)d is missing: %(seq)d stands in its place", number=number, seq=row.seq)
    if row.previous != previous:
        return recorded("decision %(number)d does not follow the one before it: it names another digest", number=number)
    try:
        digest = chain_digest(row)
    except (AttributeError, TypeError, ValueError):
        return recorded(
            "decision %(number)d was changed: it holds a value that no decision is written with", number=number
        )
    if row.digest != digest:
        return recorded(
            "decision %(number)d was changed: its content has another digest than the one that it was written with",
            number=number,
        )
    return ""


def _without_decision() -> str:
    """A record that only a decision can bring about and that has none, one line: the chain's end was cut off."""
    begun = Decision.objects.filter(relay=OuterRef("pk"), act__in=BEGINNINGS)
    relay = Relay.objects.filter(~Exists(begun)).order_by("created_at", "pk").values_list("pk", flat=True).first()
    if relay:
        return recorded("nobody started %(relay)s", relay=relay)
    decided = Decision.objects.filter(gate=OuterRef("pk"))
    gates = GateEpisode.objects.filter(~Exists(decided), state__in=_DECIDED).order_by("pk")
    gate = gates.values_list("pk", "state").first()
    return (
        recorded("gate %(gate)s is %(state_word)s, and nobody decided it", gate=gate[0], state_word=gate[1])
        if gate
        else ""
    )
