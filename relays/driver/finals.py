"""The two ends of a relay, `done` and `stopped`: whoever brings one about, the same things happen."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from relays.core.vocabulary import Reason, StopReason
from relays.driver import gates, leases
from relays.driver.changes import change_leg, change_relay
from relays.models import Leg, LegState, RelayStatus, Request


def done(relay_id: str, *, frm: Iterable[str], now: datetime, **fields: Any) -> bool:
    """`done_when` holds in the durable store: no leg follows, gates lose their cause, the region is free.

    Inside the caller's transaction. False, and nothing changes, when the relay is in none of `frm` any more.
    """
    moved = change_relay(
        relay_id,
        RelayStatus.DONE,
        frm=frm,
        now=now,
        why="done_when holds in the durable store",
        ended_reason=Reason.GOAL_DONE,
        ended_at=now,
        **_cleared(fields),
    )
    if moved:
        gates.confirm(relay_id, now)
        _let_go(relay_id, now)
    return moved


def stopped(relay_id: str, *, frm: Iterable[str], now: datetime, why: str, **fields: Any) -> bool:
    """A person stopped it for good. Inside the caller's transaction; False when the relay is in none of `frm`."""
    moved = change_relay(
        relay_id,
        RelayStatus.STOPPED,
        frm=frm,
        now=now,
        why=why,
        ended_reason=StopReason.STOPPED,
        ended_at=now,
        **_cleared(fields),
    )
    if moved:
        _let_go(relay_id, now)
    return moved


def _cleared(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "park": Request.NONE, "stop": Request.NONE, "next_at": None}


def _let_go(relay_id: str, now: datetime) -> None:
    for pk in Leg.objects.filter(relay_id=relay_id, state=LegState.PENDING).values_list("pk", flat=True):
        change_leg(pk, LegState.VOID, frm=[LegState.PENDING])
    gates.supersede_open(relay_id, now)
    leases.release(relay_id)
