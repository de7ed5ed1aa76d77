"""Gate episodes as the driver sees them: opened by a stop, dispatched by a start, confirmed by a first event."""

import logging
from collections.abc import Sequence
from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F, QuerySet

from relays.core.limits import format_duration
from relays.core.lines import recorded
from relays.core.policy import PolicyError
from relays.driver import budgets
from relays.driver.changes import INBOX, RELAYS, bump, change_gate, keep_step, lock, topic
from relays.models import NEXT_LEG, OPEN_GATES, GateEpisode, GateState, Leg, Notice, owed

log = logging.getLogger(__name__)


def open_episode(
    relay_id: str, token: str, *, leg: Leg | None, items: Sequence[str], now: datetime, blocks: str = NEXT_LEG
) -> GateEpisode:
    """Open an episode, or add the items to the open one of the same token (its approvals lapse).

    Where one of its items keeps the next leg waiting, the episode does.
    """
    gate = GateEpisode.objects.filter(relay_id=relay_id, token=token, state__in=OPEN_GATES).first()
    if gate is not None and gate.state == GateState.REQUESTED:
        # no way leads back from there: a new stop of the same kind takes its place
        change_gate(
            gate.pk, GateState.SUPERSEDED, frm=[GateState.REQUESTED], now=now, why=recorded("a new stop took its place")
        )
        gate = None
    if gate is None:
        gate = GateEpisode.objects.create(
            relay_id=relay_id, leg=leg, token=token, items=list(items), opened_at=now, state_at=now, blocks=blocks
        )
        keep_step(gate.pk, GateState.WAITING, now=now)
        owed.gate_told(gate, Notice.Event.GATE_OPENED, GateState.WAITING, now)
        return gate
    fresh = [item for item in items if item not in gate.items]
    if fresh or gate.state != GateState.WAITING:
        GateEpisode.objects.filter(pk=gate.pk).update(
            state=GateState.WAITING,
            state_at=now,
            items=[*gate.items, *fresh],
            round=F("round") + 1,
            leg=leg or gate.leg,
            blocks=NEXT_LEG if blocks == NEXT_LEG else gate.blocks,
        )
        keep_step(
            gate.pk,
            GateState.WAITING,
            now=now,
            why=recorded("something new was asked: approvals of before have lapsed"),
        )
        gate.refresh_from_db()
        owed.gate_told(gate, Notice.Event.GATE_OPENED, GateState.WAITING, now)
    return gate


def shown_anew(pk: int) -> None:
    """Behind a line of a waiting episode stands something else now: who looked before looks again, approvals lapse."""
    GateEpisode.objects.filter(pk=pk, state=GateState.WAITING).update(round=F("round") + 1)


def undecided(relay_id: str) -> QuerySet[GateEpisode]:
    """The episodes that wait for a person and keep the next leg waiting; "each blocks the next leg, or the step that
    needs it", and one that blocks another step is that step's to look at."""
    return GateEpisode.objects.filter(relay_id=relay_id, state=GateState.WAITING, blocks=NEXT_LEG)


def dispatch(relay_id: str, now: datetime) -> None:
    """The claim is won and the ladder is fresh: what was requested is on its way."""
    for pk in _pks(relay_id, GateState.REQUESTED):
        change_gate(pk, GateState.DISPATCHED, frm=[GateState.REQUESTED], now=now)


def confirm(relay_id: str, now: datetime) -> None:
    """The new leg's first event was seen, or no leg is needed."""
    for pk in _pks(relay_id, GateState.REQUESTED, GateState.DISPATCHED):
        change_gate(pk, GateState.CONFIRMED, frm=[GateState.REQUESTED, GateState.DISPATCHED], now=now)


def start_failed(relay_id: str, error: str, now: datetime) -> bool:
    """A start from a gate failed: back to waiting with its error, approvals lapse. Whether there was such a gate."""
    found = False
    for pk in _pks(relay_id, GateState.DISPATCHED):
        found |= change_gate(
            pk,
            GateState.WAITING,
            frm=[GateState.DISPATCHED],
            now=now,
            why=recorded("the start failed: %(error)s", error=error),
            error=error[:2000],
            round=F("round") + 1,
        )
    return found


def withdraw_requested(relay_id: str, now: datetime, by: User | None = None) -> None:
    """A person parks a relay whose start was requested: the decision stands, the request does not."""
    for pk in _pks(relay_id, GateState.REQUESTED):
        change_gate(
            pk,
            GateState.APPROVED,
            frm=[GateState.REQUESTED],
            now=now,
            by=by,
            why=recorded("the relay was parked meanwhile"),
        )


def supersede_open(relay_id: str, now: datetime) -> None:
    """The relay ended: what still waits has lost its cause."""
    for gate in GateEpisode.objects.filter(relay_id=relay_id, state__in=OPEN_GATES).select_related("relay"):
        why = recorded(
            "the relay is %(status)s: %(status_why)s", status=gate.relay.status, status_why=gate.relay.status_why
        )
        change_gate(gate.pk, GateState.SUPERSEDED, frm=[gate.state], now=now, why=why)


def supersede(gate: GateEpisode, why: str, now: datetime) -> bool:
    """What a waiting episode asks about is gone, so that there is nothing to decide."""
    closed_why = recorded("cause gone: %(why)s", why=why)[:500]
    return change_gate(gate.pk, GateState.SUPERSEDED, frm=[GateState.WAITING], now=now, why=why, closed_why=closed_why)


def expire(now: datetime) -> int:
    """Close the episodes that waited longer than their relay's `gate_expiry`; how many. The relay stays parked.

    A relay whose policy does not read keeps its episode, and nobody else's.
    """
    closed = 0
    waiting = GateEpisode.objects.filter(state=GateState.WAITING).exclude(relay__policy__gate_expiry=None)
    for gate in waiting.select_related("relay"):
        try:
            limit = budgets.policy_of(gate.relay).gate_expiry
        except PolicyError as error:
            log.error("gate %s of %s cannot expire: %s", gate.pk, gate.relay_id, error)
            continue
        if limit is None or now - gate.state_at < limit:
            continue
        with transaction.atomic():
            # behind a decision that is being made, and judged anew: one that waits again has its whole time
            lock(gate.relay_id)
            if GateEpisode.objects.get(pk=gate.pk).state_at != gate.state_at:
                continue
            why = recorded("nobody decided within %(limit)s", limit=format_duration(limit))
            moved = change_gate(gate.pk, GateState.EXPIRED, frm=[GateState.WAITING], now=now, why=why)
            bump(topic(gate.relay_id), RELAYS, INBOX)
        closed += moved
    return closed


def _pks(relay_id: str, *states: str) -> list[int]:
    return list(GateEpisode.objects.filter(relay_id=relay_id, state__in=states).values_list("pk", flat=True))


def supersede_requested(relay_id: str, now: datetime) -> None:
    """A start that was requested parks on something else: the new episode takes its place."""
    for pk in _pks(relay_id, GateState.REQUESTED):
        change_gate(
            pk, GateState.SUPERSEDED, frm=[GateState.REQUESTED], now=now, why=recorded("it parked on something else")
        )
