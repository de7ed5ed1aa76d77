"""The audit of decisions: every row recomputed, every gap and every row that must be there looked for.

Interface, Pages: "Decisions (the audit: append-only, hash-chained, exportable, verifiable by a command)". The chain
holds no secret: whoever may write the whole table can write a whole new chain. Keep `head` elsewhere to see that too.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC

from django.db import connection
from django.db.models import Exists, OuterRef

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


def chain_digest(row: Decision) -> str:
    """sha256 over the row's content and the digest before it."""
    content = {
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
    return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def verify() -> Audit:
    """Read the whole chain once, in its order. Nothing is written."""
    with _text_of_any_bytes():
        return _read_all()


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


def _read_all() -> Audit:
    rows, head, first_bad = 0, GENESIS, None
    why: list[str] = []
    for row in Decision.objects.order_by("seq").iterator(chunk_size=_CHUNK):
        rows += 1
        wrong = _wrong(row, rows, head)
        head = row.digest
        if wrong:
            first_bad = rows
            why.append(wrong)
            break
    if first_bad is None:
        cut = _without_decision()
        if cut:
            first_bad = rows + 1
            why.append(f"decision {rows + 1} is missing at the end: {cut}")
    else:
        rows = Decision.objects.count()
        head = Decision.objects.order_by("-seq").values_list("digest", flat=True).first() or GENESIS
    why += _changed_batons()
    guards = append_only.missing(connection)
    if guards:
        why.append(f"the database does not refuse changes: {', '.join(guards)} missing; run migrate, or restore them")
    return Audit(rows, first_bad, head, tuple(why), guards)


def _wrong(row: Decision, number: int, previous: str) -> str:
    """What is wrong with the row that stands at place `number`, one line; "" when nothing is."""
    if row.seq != number:
        return f"decision {number} is missing: {row.seq} stands in its place"
    if row.previous != previous:
        return f"decision {number} does not follow the one before it: it names another digest"
    try:
        digest = chain_digest(row)
    except (AttributeError, TypeError, ValueError):
        return f"decision {number} was changed: it holds a value that no decision is written with"
    if row.digest != digest:
        return f"decision {number} was changed: its content has another digest than the one that it was written with"
    return ""


def _without_decision() -> str:
    """A record that only a decision can bring about and that has none, one line: the chain's end was cut off."""
    begun = Decision.objects.filter(relay=OuterRef("pk"), act__in=BEGINNINGS)
    relay = Relay.objects.filter(~Exists(begun)).order_by("created_at", "pk").values_list("pk", flat=True).first()
    if relay:
        return f"nobody started {relay}"
    decided = Decision.objects.filter(gate=OuterRef("pk"))
    gates = GateEpisode.objects.filter(~Exists(decided), state__in=_DECIDED).order_by("pk")
    gate = gates.values_list("pk", "state").first()
    return f"gate {gate[0]} is {gate[1]}, and nobody decided it" if gate else ""


def _changed_batons() -> Iterator[str]:
    """A baton whose text is not the one that its digest was made of."""
    for pk, relay, leg, text, digest in (
        Baton.objects.order_by("pk")
        .values_list("pk", "relay_id", "leg__number", "text", "digest")
        .iterator(chunk_size=_CHUNK)
    ):
        content = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""
        if hashlib.sha256(content).hexdigest() != digest:
            yield f"baton {pk} of {relay} leg {leg} was changed: its text has another digest"
            return
