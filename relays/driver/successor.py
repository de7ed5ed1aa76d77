"""The next leg's row: made once, with its lineage and its reset transaction."""

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.contrib.auth.models import User

from relays.core import reset, rotation
from relays.core.baton import read
from relays.core.events import Event as CoreEvent
from relays.core.legview import LegView
from relays.core.policy import Policy
from relays.core.vocabulary import Reason
from relays.driver import budgets, userfacts
from relays.driver.changes import change_gate, change_relay
from relays.models import (
    OPEN_STATES,
    Baton,
    Event,
    GateEpisode,
    GateState,
    Leg,
    LegState,
    Relay,
    RelayStatus,
    Request,
    ResetTransaction,
)


@dataclass(frozen=True, slots=True)
class Turns:
    """The sha256 of each turn of leg `leg`, of its events up to the row `last` (0: it has none)."""

    leg: int
    last: int
    digests: tuple[str, ...]

    def hold_for(self, leg: Leg) -> bool:
        """Whether these are all turns of that leg: no event of it was recorded since."""
        return self.leg == leg.pk and not Event.objects.filter(leg=leg, pk__gt=self.last).exists()


def new_trace() -> str:
    return f"tr-{secrets.token_hex(12)}"


def starts(relay: Relay, now: datetime) -> list[datetime]:
    """When successors were started after RELAY_ROTATED in the last hour; no further one while a leg of theirs runs."""
    found = Leg.objects.filter(
        relay=relay,
        started_at__gt=now - rotation.CAP_WINDOW,
        reset_in__old_leg__reason=Reason.ROTATED,
    ).values_list("started_at", flat=True)
    return [start for start in found if start]


def cap(relay: Relay, policy: Policy, now: datetime) -> rotation.CapVerdict:
    """The rotation cap: entries are the starts of successors after RELAY_ROTATED in the last hour."""
    return rotation.cap(starts(relay, now), now, policy.rotations_per_hour)


def last_number(relay_id: str) -> int | None:
    return Leg.objects.filter(relay_id=relay_id).order_by("-number").values_list("number", flat=True).first()


def first(relay: Relay) -> Leg:
    """Leg 0: no baton, no parent."""
    return Leg.objects.create(relay=relay, number=0, trace=new_trace())


def make(
    relay: Relay,
    old: Leg,
    baton: Baton,
    now: datetime,
    *,
    gate: GateEpisode | None = None,
    turns: Turns | None = None,
) -> Leg:
    """The successor of an ended leg, inside the caller's transaction; (relay, number) is unique, so never two.

    `turns`: those of the old leg, read before the transaction; where they are not given, or no longer all, they are
    read here.
    """
    if turns is None or not turns.hold_for(old):
        turns = turns_of(old)
    leg = Leg.objects.create(
        relay=relay, number=(last_number(relay.pk) or 0) + 1, trace=new_trace(), parent_trace=old.trace, from_gate=gate
    )
    carried = read(baton.text).baton
    seed = reset.seed(
        preamble=reset.PREAMBLE,
        # what is handed over; whether it still is the relay's own objective the reload judges, and asks
        pin=carried.objective if carried else relay.pin,
        baton=baton.text.encode(),
        user_facts=userfacts.pointers(relay.pk),
    )
    ResetTransaction.objects.create(
        old_leg=old,
        new_leg=leg,
        old_trace=old.trace,
        new_trace=leg.trace,
        seed_digest=seed.digest,
        contributors=[part.as_mapping() for part in seed.contributors],
        omitted=[span.as_mapping() for span in reset.omitted_spans(turns.digests)],
        rearm=budgets.rearm(relay),
        at=now,
    )
    return leg


def request(relay: Relay, now: datetime, *, gates_approved: Sequence[GateEpisode] = (), by: User | None = None) -> None:
    """A parked relay goes on: status ready, hysteresis and the empty run anew, a pending leg, gates requested."""
    for gate in gates_approved:
        change_gate(gate.pk, GateState.REQUESTED, frm=[GateState.APPROVED], now=now, by=by)
    change_relay(
        relay.pk,
        RelayStatus.READY,
        frm=[RelayStatus.PARKED],
        now=now,
        next_at=None,
        # one leg was to run and none has: that stays asked
        park=Request.LEG if relay.park == Request.LEG and not relay.legs_used else Request.NONE,
        attempts=0,
        unknown_since=None,
        armed_legs=0,
        empty_run=0,
    )
    open_leg = pending(relay, now, gate=gates_approved[0] if gates_approved else None)
    Leg.objects.filter(pk=open_leg.pk, state=LegState.PENDING).update(attempts=0, start_error="")


def pending(relay: Relay, now: datetime, *, gate: GateEpisode | None = None) -> Leg:
    """The relay's open leg, or a new one behind its last: what a resume and a watch that wakes start. Inside the
    caller's transaction, with the relay locked."""
    standing = Leg.objects.filter(relay=relay, state__in=OPEN_STATES).first()
    if standing is not None:
        return standing
    old = Leg.objects.filter(relay=relay, state=LegState.ENDED).order_by("-number").first()
    baton = Baton.objects.filter(relay=relay, current=True).first()
    if old is None or baton is None:
        before = last_number(relay.pk)
        return Leg.objects.create(relay=relay, number=0 if before is None else before + 1, trace=new_trace())
    return make(relay, old, baton, now, gate=gate)


def turns_of(leg: Leg) -> Turns:
    """The turns of the leg as its events were recorded; what came before the first belongs to it.

    It reads all events of the leg: time in their number, so a leg that closes does it before its transaction.
    """
    view = LegView()
    last = 0
    digests: list[str] = []
    hasher = hashlib.sha256()
    for row in Event.objects.filter(leg=leg).order_by("pk").iterator(chunk_size=500):
        last = row.pk
        before = view.turns
        view.apply(CoreEvent(kind=row.kind, seq=row.seq, at=row.at, payload=row.payload, known=row.known))
        if before and view.turns > before:
            digests.append(hasher.hexdigest())
            hasher = hashlib.sha256()
        hasher.update(f"{row.seq}\0{row.kind}\0{json.dumps(row.payload, sort_keys=True)}\0".encode())
    return Turns(leg.pk, last, (*digests, hasher.hexdigest()) if view.turns else ())
