"""Telling people: the one way to write a notice, in the transaction of what happened.

Drivers, costs and people's acts write notices the same way, so it lies where all of them may import it, as the change
number does.
"""

from datetime import datetime
from typing import Any

from relays.models.gate import GateEpisode, GateState
from relays.models.notice import Notice
from relaysite import bell

TASK = "relays.tasks.notices"


def owe(event: str, key: str, now: datetime, **values: Any) -> None:
    """Write one notice, once by its key, and ring for the workers after the commit."""
    # a second one of the same key is no error: the first stands
    Notice.objects.bulk_create([Notice(event=event, key=key[:120], at=now, **values)], ignore_conflicts=True)
    bell.ring(TASK, "")


def gate_moved(pk: int, to: str, sources: list[str], now: datetime) -> None:
    """A gate episode came to another state: decided, confirmed, back to waiting because its start failed, or closed
    while people were asked, who need not come any more."""
    event = {
        GateState.APPROVED: Notice.Event.GATE_DECIDED,
        GateState.REFUSED: Notice.Event.GATE_DECIDED,
        GateState.EXPIRED: Notice.Event.GATE_DECIDED,
        GateState.SUPERSEDED: Notice.Event.GATE_DECIDED,
        GateState.CONFIRMED: Notice.Event.GATE_CONFIRMED,
        GateState.WAITING: Notice.Event.GATE_OPENED,
    }.get(GateState(to))
    if event is None or (to in (GateState.APPROVED, GateState.SUPERSEDED) and GateState.WAITING not in sources):
        return
    gate = GateEpisode.objects.only("relay_id", "round", "token").get(pk=pk)
    gate_told(gate, event, str(to), now)


def gate_told(gate: GateEpisode, event: str, state: str, now: datetime) -> None:
    """One notice about a gate, once per round and state of it."""
    key = f"gate:{gate.pk}:{gate.round}:{state}"
    owe(event, key, now, relay_id=gate.relay_id, gate_id=gate.pk, detail={"state": state, "token": gate.token})


def gate_waits_again(gate: GateEpisode, decision: int, now: datetime) -> None:
    """A decision changed what is shown: whoever approved before it is asked again, once for each such decision."""
    key, detail = f"gate:{gate.pk}:again:{decision}", {"state": str(GateState.WAITING), "token": gate.token}
    owe(Notice.Event.GATE_OPENED, key, now, relay_id=gate.relay_id, gate_id=gate.pk, detail=detail)
