"""Conditional changes of state, the change number and the doorbell: what every writer of relay state goes through."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F

from relays.core import lifecycle
from relays.driver import travel
from relays.models import GateEpisode, Leg, Relay, RelayStatus
from relays.models.live import raise_number

log = logging.getLogger(__name__)

#: where a relay stays until somebody or something comes
RESTS = frozenset({RelayStatus.PARKED, RelayStatus.IDLE, RelayStatus.DONE, RelayStatus.STOPPED})

INBOX = "inbox"
RELAYS = "relays"


_fence: ContextVar[Callable[[], object] | None] = ContextVar("fence", default=None)


@contextmanager
def fenced(hold: Callable[[], object]) -> Iterator[None]:
    """Inside, every visible write is a driver's: `hold` raises before its commit when its claim is lost."""
    token = _fence.set(hold)
    try:
        yield
    finally:
        _fence.reset(token)


def topic(relay_id: str) -> str:
    return f"relay:{relay_id}"


def bump(*topics: str) -> int:
    """Raise the change number and mark `topics` with it. Call it last in the transaction of a visible write.

    The single row is locked until the commit, so numbers become visible in their order and a page misses none.
    Under `fenced` nothing is committed with an old fence.
    """
    if (hold := _fence.get()) is not None:
        hold()
    return raise_number(topics)


def ring(relay_id: str) -> None:
    """Ring for a relay after the commit. A lost bell costs time only: `reconcile` rings again."""

    def send() -> None:
        # a second's worth of modules that most commands and every supervisor do without
        from kombu.exceptions import OperationalError as BrokerError

        from relaysite.celery import app

        try:
            app.send_task("relays.tasks.advance", args=[relay_id], ignore_result=True, retry=False)
        except (BrokerError, OSError) as error:
            log.warning("bell for %s not rung (%s); reconcile will find it", relay_id, error)

    transaction.on_commit(send)


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
    return bool(moved)


def change_leg(leg_pk: int, to: str, *, frm: Iterable[str], **fields: Any) -> bool:
    """Move a leg if it is in one of `frm`; False when somebody else moved it first."""
    sources = list(frm)
    for source in sources:
        lifecycle.check_change(lifecycle.LEG, source, to)
    return bool(Leg.objects.filter(pk=leg_pk, state__in=sources).update(state=to, **fields))


def change_gate(gate_pk: int, to: str, *, frm: Iterable[str], now: datetime, **fields: Any) -> bool:
    """Move a gate episode if it is in one of `frm`; False when somebody else moved it first."""
    sources = list(frm)
    for source in sources:
        lifecycle.check_change(lifecycle.GATE, source, to)
    return bool(GateEpisode.objects.filter(pk=gate_pk, state__in=sources).update(state=to, state_at=now, **fields))
