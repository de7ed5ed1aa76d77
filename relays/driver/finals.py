"""The two ends of a relay, `done` and `stopped`, and a watch's rest, `idle`: whoever brings one about, the same things
happen."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import F

from relays.core.lines import recorded
from relays.core.vocabulary import Reason, StopReason
from relays.driver import budgets, gates, leases, progress
from relays.driver.changes import change_leg, change_relay
from relays.models import Leg, LegState, Relay, RelayStatus, Request

HOLDS = recorded("done_when holds in the durable store")


def done(relay_id: str, *, frm: Iterable[str], now: datetime, why: str = HOLDS, **fields: Any) -> bool:
    """The goal is reached: no leg follows, gates lose their cause, the region is free.

    `why`: done_when holds, or who confirmed a goal in prose. Inside the caller's transaction. False, and nothing
    changes, when the relay is in none of `frm` any more.
    """
    moved = change_relay(
        relay_id,
        RelayStatus.DONE,
        frm=frm,
        now=now,
        why=why,
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


def idle(relay_id: str, *, frm: Iterable[str], now: datetime, tip: str, issues: str, **fields: Any) -> bool:
    """A watch holds and nothing is pending: it rests until what it watches changes, and keeps its region.

    `tip`, `issues`: the branch tip and the digest of the issue store that it was judged at. A leg that is pending
    stays so and is the next to start. Inside the caller's transaction; False when the relay is in none of `frm`.
    """
    relay = Relay.objects.get(pk=relay_id)
    every = budgets.policy_of(relay).every
    rest = {
        "next_at": now + every if every else None,
        "attempts": 0,
        "unknown_since": None,
        "idle_tip": tip,
        "idle_issues": issues,
        "idle_looks": 0,
        "idle_looked_at": now,
    }
    moved = change_relay(
        relay_id,
        RelayStatus.IDLE,
        frm=frm,
        now=now,
        why=recorded("%(holds)s, and nothing is pending", holds=HOLDS),
        **(fields | rest),
    )
    if moved:
        gates.confirm(relay_id, now)
        # what it may have made in a start that failed was judged with everything else: nothing is its own any more
        for leg in Leg.objects.filter(relay_id=relay_id, state=LegState.PENDING):
            _keep_unseen(leg, now)
        Leg.objects.filter(relay_id=relay_id, state=LegState.PENDING).update(cursor_sha="", progress=None)
    return moved


def _cleared(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "park": Request.NONE, "stop": Request.NONE, "next_at": None}


def _let_go(relay_id: str, now: datetime) -> None:
    for leg in Leg.objects.filter(relay_id=relay_id, state=LegState.PENDING):
        if change_leg(leg.pk, LegState.VOID, frm=[LegState.PENDING]):
            _keep_unseen(leg, now)
    gates.supersede_open(relay_id, now)
    leases.release(relay_id)


def _keep_unseen(leg: Leg, now: datetime) -> None:
    """What a leg made in a start that failed is its own, though none of it follows: "one commit, one leg"."""
    if leg.progress:
        progress.keep(leg, leg.progress_detail)
        Relay.objects.filter(pk=leg.relay_id).update(progress_total=F("progress_total") + leg.progress, progress_at=now)
