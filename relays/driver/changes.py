"""Conditional changes of state, the change number and the doorbell: what every writer of relay state goes through."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.contrib.auth.models import User
from django.db.models import F

from relays.core import lifecycle
from relays.driver import travel
from relays.models import GateChange, GateEpisode, Leg, Notice, Relay, RelayStatus, owed
from relays.models.pulse import bump, fenced
from relaysite import bell

__all__ = [
    "INBOX",
    "RELAYS",
    "RESTS",
    "bump",
    "change_gate",
    "change_leg",
    "change_relay",
    "fenced",
    "keep_step",
    "lock",
    "ring",
    "topic",
]

#: where a relay stays until somebody or something comes
RESTS = frozenset({RelayStatus.PARKED, RelayStatus.IDLE, RelayStatus.DONE, RelayStatus.STOPPED})

INBOX = "inbox"
RELAYS = "relays"


def topic(relay_id: str) -> str:
    return f"relay:{relay_id}"


def ring(relay_id: str) -> None:
    """Ring for a relay after the commit. A lost bell costs time only: `reconcile` rings again."""
    bell.ring("relays.tasks.advance", relay_id)


def lock(relay_id: str) -> Relay:
    """The relay's row, locked until the commit on either database, and read after that: first in a transaction
    that must not fall between another's look at the relay and its change.
    """
    Relay.objects.filter(pk=relay_id).update(last_data_at=F("last_data_at"))
    return Relay.objects.select_related("owner").get(pk=relay_id)


def change_relay(relay_id: str, to: str, *, frm: Iterable[str], now: datetime, why: str = "", **fields: Any) -> bool:
    """Move a relay if it is in one of `frm`; False when somebody else moved it first. An illegal pair is a bug."""
    sources = list(frm)
    for source in sources:
        lifecycle.check_change(lifecycle.RELAY, source, to)
    moved = Relay.objects.filter(pk=relay_id, status__in=sources).update(
        status=to, status_why=why[:500], status_at=now, **fields
    )
    if moved and (to in RESTS or RelayStatus.PARKED in sources):
        travel.owe(relay_id, now)  # whoever takes it up elsewhere must see whether somebody here goes on
    if moved and to == RelayStatus.DONE:
        owed.owe(Notice.Event.RELAY_DONE, f"relay_done:{relay_id}", now, relay_id=relay_id, detail={"why": why[:500]})
    return bool(moved)


def change_leg(leg_pk: int, to: str, *, frm: Iterable[str], **fields: Any) -> bool:
    """Move a leg if it is in one of `frm`; False when somebody else moved it first."""
    sources = list(frm)
    for source in sources:
        lifecycle.check_change(lifecycle.LEG, source, to)
    return bool(Leg.objects.filter(pk=leg_pk, state__in=sources).update(state=to, **fields))


def change_gate(
    gate_pk: int, to: str, *, frm: Iterable[str], now: datetime, by: User | None = None, why: str = "", **fields: Any
) -> bool:
    """Move a gate episode if it is in one of `frm`; False when somebody else moved it first.

    `by`: the person whose act does it, none where the machine does. `why`: one line, where the state alone does not
    say it. Both are kept with the time (`GateChange`): the gate's page shows who brought it where.
    """
    sources = list(frm)
    for source in sources:
        lifecycle.check_change(lifecycle.GATE, source, to)
    moved = GateEpisode.objects.filter(pk=gate_pk, state__in=sources).update(state=to, state_at=now, **fields)
    if moved:
        keep_step(gate_pk, to, now=now, by=by, why=why)
        owed.gate_moved(gate_pk, to, sources, now)
    return bool(moved)


def keep_step(gate_pk: int, state: str, *, now: datetime, by: User | None = None, why: str = "") -> None:
    """Write down that the episode came into `state`: for whoever opens one, or opens one again."""
    GateChange.objects.create(gate_id=gate_pk, state=state, at=now, by=by, why=" ".join(why.split())[:500])
