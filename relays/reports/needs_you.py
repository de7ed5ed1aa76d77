"""What the start page reads: the gate episodes that wait, oldest first, and what runs by itself.

Interface, page 1: "gate episodes that wait, oldest first, with reason token, fix, relay, age, hours parked and what a
cold prefix will cost on resume; count in the title of every page. Below it running relays with a sparkline each."
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePath

from django.db.models import Exists, OuterRef

from relays.core.vocabulary import token
from relays.models import OPEN_GATES, Decision, GateEpisode, GateState, Relay, RelayStatus
from relays.reports.cold import ColdPrefix, cold_prefixes
from relays.reports.gate_words import cause_of, said_beside
from relays.reports.parked_times import parked_times
from relays.reports.relays import RelayRow, relay_rows, with_token

MOST_GATES = 100
MOST_RUNNING = 50
MOST_ITEMS = 3
#: relays that go on without anybody
BY_THEMSELVES = (RelayStatus.RUNNING, RelayStatus.READY, RelayStatus.WAITING, RelayStatus.IDLE)
_ORDER = {status: place for place, status in enumerate(BY_THEMSELVES)}


@dataclass(frozen=True, slots=True)
class GateRow:
    """One stop that waits. `waits`: since it was opened. `parked`: all the time this relay has waited for people."""

    pk: int
    token: str
    fix: str
    state: str
    relay_id: str
    objective: str
    repo_name: str
    leg: int | None
    cause: str
    hold: str
    items: tuple[str, ...]
    more_items: int
    error: str  # of a start that failed after an approval
    blocks: str
    opened_at: datetime
    waits: timedelta
    parked: timedelta
    progress: int
    cold: ColdPrefix | None  # what its next leg's first call has to send anew; None = no leg called a model yet
    again: bool  # reopened after a refusal or an expiry


@dataclass(frozen=True, slots=True)
class LastDecision:
    at: datetime
    actor: str
    act: str


@dataclass(frozen=True, slots=True)
class NeedsYou:
    at: datetime
    waiting: tuple[GateRow, ...]  # oldest first
    waiting_total: int
    approved: tuple[GateRow, ...]  # decided, but somebody or something else must still let it go on
    parked: timedelta  # of the relays that wait, in all
    resumable: int  # parked with no gate open: by a person, in an advisory mode, or after a refusal
    running: tuple[RelayRow, ...]
    running_total: int
    any_relay: bool
    last_decision: LastDecision | None
    marks: tuple[int, int] | None  # mark and ceiling, when all running legs share them


def waiting_count() -> int:
    """Gate episodes that wait for a person: the count in the title of every page. One query."""
    return GateEpisode.objects.filter(state=GateState.WAITING).count()


def needs_you(now: datetime) -> NeedsYou:
    """The whole page at one moment, with the same number of queries for one relay and for many."""
    open_gates = (GateState.WAITING, GateState.APPROVED)
    gates = list(
        GateEpisode.objects.filter(state__in=open_gates)
        .select_related("relay", "leg")
        .order_by("opened_at", "id")[: MOST_GATES * 2]
    )
    parked = parked_times({gate.relay_id: gate.relay for gate in gates}, now)
    cold = cold_prefixes({gate.relay_id: gate.relay for gate in gates}.values(), now)
    rows = [_gate_row(gate, parked[gate.relay_id], cold.get(gate.relay_id), now) for gate in gates]
    waiting = tuple(row for row in rows if row.state == GateState.WAITING)[:MOST_GATES]
    by_themselves = Relay.objects.filter(status__in=BY_THEMSELVES)
    running = list(with_token(by_themselves.select_related("owner")).order_by("-status_at", "id")[:MOST_RUNNING])
    running.sort(key=lambda relay: (_ORDER[RelayStatus(relay.status)], -relay.created_at.timestamp(), relay.pk))
    running_rows = relay_rows(running)
    marks = {(row.context.mark, row.context.ceiling) for row in running_rows if row.context}
    gated = GateEpisode.objects.filter(relay=OuterRef("pk"), state__in=OPEN_GATES)
    last = Decision.objects.filter(act__in=("approve", "refuse")).select_related("actor").order_by("-seq").first()
    return NeedsYou(
        at=now,
        waiting=waiting,
        waiting_total=waiting_count(),
        approved=tuple(row for row in rows if row.state == GateState.APPROVED),
        parked=sum((parked[relay_id] for relay_id in {row.relay_id for row in waiting}), timedelta(0)),
        resumable=Relay.objects.filter(~Exists(gated), status=RelayStatus.PARKED).count(),
        running=running_rows,
        running_total=by_themselves.count(),
        any_relay=Relay.objects.exists(),
        last_decision=LastDecision(last.at, last.actor.get_username(), last.act) if last else None,
        marks=next(iter(marks)) if len(marks) == 1 else None,
    )


def _gate_row(gate: GateEpisode, parked: timedelta, cold: ColdPrefix | None, now: datetime) -> GateRow:
    leg = gate.leg
    hold = leg.hold if leg else ""
    items = said_beside(gate, leg)
    return GateRow(
        pk=gate.pk,
        token=gate.token,
        fix=token(gate.token).fix,
        state=gate.state,
        relay_id=gate.relay_id,
        objective=gate.relay.objective,
        repo_name=PurePath(gate.relay.repo).name or gate.relay.repo,
        leg=leg.number if leg else None,
        cause=cause_of(gate, leg),
        hold=hold,
        items=items[:MOST_ITEMS],
        more_items=max(len(items) - MOST_ITEMS, 0),
        error=gate.error,
        blocks=gate.blocks,
        opened_at=gate.opened_at,
        waits=max(now - gate.opened_at, timedelta(0)),
        parked=parked,
        progress=gate.relay.progress_total,
        cold=cold,
        again=gate.reopened_from_id is not None,
    )
