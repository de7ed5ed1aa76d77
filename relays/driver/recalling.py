"""A record that is needed and not resident: judged against the durable stores, served or refused, and recorded so.

Mission: "the page-in path produces a typed page-fault outcome rather than silently pretending the span was never
needed." Rules: "`recall` serves records of the durable stores, never transcript bytes (recorded as `deny`)".
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.utils import timezone

from relays.core import memory
from relays.core.lines import recorded
from relays.core.pointers import Answer, Kind, Pointer, PointerError, Verdict, check_ref
from relays.core.residency import RECALLABLE, Fault, FaultOutcome, FaultVerdict, judge_fault, state_of
from relays.driver import reload
from relays.models import Baton, LedgerRow, Promotion, Relay, ResetTransaction
from relays.stores import records
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import GitStore

DIGEST: Final = "digest"
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
RESETS: Final = 64  # the newest reset transactions whose omitted spans a digest is looked for in
TRANSCRIPT: Final = recorded("a turn of an earlier leg: transcript bytes are never served to a leg, only to people")


@dataclass(frozen=True, slots=True)
class Judged:
    """One page fault with its outcome. `what`, `raw`: what a `page_in` serves, "" and b"" else."""

    fault: FaultVerdict
    verdict: str
    evidence: str
    what: str = ""
    raw: bytes = b""

    @property
    def line(self) -> str:
        return f"{self.fault.outcome}: {self.fault.reason}"


def of_event(relay: Relay, store: GitStore, payload: Mapping[str, Any]) -> Judged:
    """A `page_fault` event; never raises, asks git: not inside a transaction."""
    kind, ref = str(payload["kind"]), str(payload["ref"])
    return judge(relay, store, kind, ref, required=payload["required"] is True, durability=str(payload["durability"]))


def judge(relay: Relay, store: GitStore, kind: str, ref: str, *, required: bool, durability: str) -> Judged:
    """Judge one fault and, where it is a `page_in`, read its record. Never raises for what a store or a ref is."""
    if kind == DIGEST:
        return _by_digest(relay, store, ref, required, durability)
    if kind not in RECALLABLE:
        return Judged(
            judge_fault(Fault("unknown", required, kind=kind)),
            "unknown",
            recorded("no durable store has a %(kind)s", kind=repr(kind[:40])),
        )
    try:
        check_ref(Kind(kind), ref)
    except PointerError as error:
        answer = Answer(Verdict.DANGLING, f"refused: {error.why}")
        return Judged(_fault(kind, answer, required, durability), str(answer.verdict), answer.evidence)
    return _by_pointer(relay, store, Pointer(Kind(kind), ref), required, durability)


def _by_pointer(relay: Relay, store: GitStore, pointer: Pointer, required: bool, durability: str) -> Judged:
    stores: Stores | None = None
    try:
        stores = reload.stores_for(relay, store)
        answer = _scoped(relay, pointer) or stores.resolve([pointer])[pointer]
    except StoreUnavailable as error:
        answer = Answer(Verdict.UNKNOWN, error.evidence)
    dead = _tombstoned(relay, pointer)
    if dead:
        fault = judge_fault(Fault("tombstoned", required, durability=durability, kind=pointer.kind))
        return Judged(fault, str(answer.verdict), dead)
    fault = _fault(pointer.kind, answer, required, durability)
    if fault.outcome is not FaultOutcome.PAGE_IN or stores is None:
        return Judged(fault, str(answer.verdict), answer.evidence)
    try:
        what, raw = records.read(stores, pointer)
    except StoreUnavailable as error:
        # it is there and does not come back cheaply: a person says
        return Judged(judge_fault(Fault("live", required, kind=pointer.kind)), str(answer.verdict), error.evidence)
    return Judged(fault, str(answer.verdict), answer.evidence, what, raw)


def _fault(kind: str, answer: Answer, required: bool, durability: str) -> FaultVerdict:
    state = state_of(answer.verdict)
    return judge_fault(Fault(state, required, rebuildable=state == "live", durability=durability, kind=str(kind)))


def _scoped(relay: Relay, pointer: Pointer) -> Answer | None:
    """A leg's token reaches its own repository: a row of a relay on another one is not known to it."""
    if pointer.kind is not Kind.LEDGER or "#L" in pointer.ref:
        return None
    owner = LedgerRow.objects.filter(pk=pointer.ref).values_list("relay__git_dir", flat=True).first()
    if owner is None or owner == relay.git_dir:
        return None
    return Answer(Verdict.UNKNOWN, recorded("a row of a relay that is not known here"))


def _tombstoned(relay: Relay, pointer: Pointer) -> str:
    """Of a memory that has expired, whether asked for by its slug or as its file: why; "" of everything else."""
    slug = pointer.ref if pointer.kind is Kind.MEMORY else ""
    if pointer.kind is Kind.FILE and not relay.memory_root.startswith("/"):
        slug = memory.slug_of(pointer.ref, relay.memory_root.strip("/"))
    row = standing(relay, slug) if slug else None
    if row is None or row.expires_at is None or row.expires_at > timezone.now():
        return ""
    return recorded("expired at %(expires_at)s", expires_at=_utc(row.expires_at))


def standing(relay: Relay, slug: str) -> Promotion | None:
    """The promotion by which a memory of the relay's repository stands, whichever relay there made it; None: none."""
    rows = Promotion.objects.filter(leg__relay__git_dir=relay.git_dir, slug=slug, outcome="promoted")
    return rows.filter(superseded_at=None).exclude(digest="").order_by("-at", "-pk").first()


def _by_digest(relay: Relay, store: GitStore, digest: str, required: bool, durability: str) -> Judged:
    """By the sha256 that a baton, a reset transaction or a memory's history names."""
    gone = judge_fault(Fault("gone", required, durability=durability))
    if not _SHA256.fullmatch(digest):
        return Judged(gone, str(Verdict.DANGLING), recorded("refused: a digest is 64 lower-case hex digits"))
    live = judge_fault(Fault("live", required, rebuildable=True, durability=durability))
    baton = Baton.objects.filter(relay=relay, digest=digest).values_list("text", flat=True).first()
    if baton is not None:
        return Judged(live, str(Verdict.VERIFIED), recorded("a baton of this relay"), "baton", baton.encode())
    if digest == relay.objective_digest:
        return Judged(live, str(Verdict.VERIFIED), "the objective", "objective", relay.objective.encode())
    slug = (
        Promotion.objects.filter(leg__relay__git_dir=relay.git_dir, digest=digest, outcome="promoted")
        .values_list("slug", flat=True)
        .first()
    )
    if slug is not None:
        found = _by_pointer(relay, store, Pointer(Kind.MEMORY, slug), required, durability)
        if found.raw and hashlib.sha256(found.raw).hexdigest() != digest:
            return Judged(
                gone, str(Verdict.DANGLING), recorded("a memory %(slug)s that was written over since", slug=slug)
            )
        return found
    newest = ResetTransaction.objects.filter(old_leg__relay=relay).order_by("-pk").values_list("omitted", flat=True)
    if any(span.get("digest") == digest for omitted in newest[:RESETS] for span in omitted or ()):
        return Judged(
            FaultVerdict(FaultOutcome.DENY, TRANSCRIPT), str(Verdict.VERIFIED), recorded("an omitted span of a reset")
        )
    return Judged(gone, str(Verdict.DANGLING), recorded("no record of this relay has that digest"))


def _utc(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M UTC")
