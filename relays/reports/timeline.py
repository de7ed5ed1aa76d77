"""What happened to a relay, newest first: legs that started and ended, gates, decisions, pushes; one line each.

Interface, Pages, Relay: "tabs: […] decisions, log". Every line is a record that has its own page; nothing is told twice
in other words.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from relays.models import Decision, GateEpisode, Leg, Push, Relay, Tombstone

SHOWN = 50
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that happened. `token`: its word, where it has one; `leg`, `gate`: what it leads to."""

    at: datetime
    what: str
    token: str = ""
    leg: int | None = None
    gate: int | None = None
    by: str = ""
    more: str = ""


@dataclass(frozen=True, slots=True)
class Timeline:
    """`older`: what `before` asks for next, microseconds since 1970; "" = that was the first."""

    lines: tuple[Line, ...]
    older: str


def timeline(relay: Relay, before: int | None = None) -> Timeline:
    """Five queries, whatever the relay went through."""
    until = _EPOCH + timedelta(microseconds=before) if before is not None else None
    lines = sorted(_lines(relay, until), key=lambda line: line.at, reverse=True)
    shown = lines[:SHOWN]
    older = str((shown[-1].at - _EPOCH) // timedelta(microseconds=1)) if len(lines) > SHOWN else ""
    return Timeline(tuple(shown), older)


def _lines(relay: Relay, until: datetime | None) -> Iterator[Line]:
    for leg in _newest(Leg.objects.filter(relay=relay, started_at__isnull=False), "started_at", until):
        yield Line(leg.started_at or _EPOCH, _("leg started"), leg=leg.number, more=leg.model)
    for stone in _newest(Tombstone.objects.filter(leg__relay=relay).select_related("leg"), "at", until):
        yield Line(stone.at, _("leg ended"), token=stone.reason, leg=stone.leg.number, more=stone.cause)
    for gate in _newest(GateEpisode.objects.filter(relay=relay).select_related("leg"), "opened_at", until):
        number = gate.leg.number if gate.leg else None
        yield Line(gate.opened_at, _("gate opened"), token=gate.token, leg=number, gate=gate.pk, more=gate.state)
    for row in _newest(Decision.objects.filter(relay=relay).select_related("actor"), "at", until):
        yield Line(row.at, row.act.replace("_", " "), gate=row.gate_id, by=row.actor.get_username(), more=row.comment)
    for push in _newest(Push.objects.filter(~Q(done_at=None), relay=relay), "done_at", until):
        said = _("pushed") if push.state == "done" else _("not pushed")
        yield Line(push.done_at or _EPOCH, said, more=f"{push.where}: {push.result}")


def _newest(rows: QuerySet, field: str, until: datetime | None) -> QuerySet:  # type: ignore[type-arg]
    if until is not None:
        rows = rows.filter(**{f"{field}__lt": until})
    return rows.order_by(f"-{field}")[: SHOWN + 1]
