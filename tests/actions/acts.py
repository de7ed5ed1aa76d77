"""What tests of acts share: people, the digest that a page shows, and all that an act may have changed."""

from dataclasses import dataclass
from typing import Any

from relays.actions import base, decide
from relays.actions.base import Actor
from relays.core import baton as batons
from relays.models import (
    Baton,
    Decision,
    GateEpisode,
    LedgerRow,
    Leg,
    RegionLease,
    Relay,
    Repository,
    ResetTransaction,
    Topic,
)
from relays.reports import gate as gate_report
from tests.web_builders import make_user


@dataclass(frozen=True)
class People:
    operator: Actor
    reviewer: Actor
    second: Actor
    manager: Actor
    outsider: Actor

    @classmethod
    def made(cls) -> "People":
        return cls(
            Actor(make_user("pat", "operator"), "unix-pat"),
            Actor(make_user("rae", "reviewer"), "unix-rae"),
            Actor(make_user("sam", "reviewer"), "unix-sam"),
            Actor(make_user("max", "manager"), "unix-max"),
            Actor(make_user("out"), "unix-out"),
        )


def seen(gate: GateEpisode) -> str:
    """What the gate's page shows now."""
    gate = GateEpisode.objects.select_related("relay").get(pk=gate.pk)
    return gate_report.seen_digest(gate, gate_report.branch_tip(gate.relay)[0])


def approve(actor: Actor, gate: GateEpisode, **values: Any) -> decide.GateOutcome:
    return decide.approve(actor, gate.pk, **({"seen": seen(gate), "comment": "Looked at it."} | values))


def refuse(actor: Actor, gate: GateEpisode, **values: Any) -> decide.GateOutcome:
    return decide.refuse(actor, gate.pk, **({"seen": seen(gate), "comment": "Not so."} | values))


#: rows that an act may write; Pulse and Topic say that a page has something to show
_TABLES = (Relay, Leg, GateEpisode, Decision, Baton, LedgerRow, RegionLease, Repository, ResetTransaction, Topic)


def everything() -> dict[str, list[dict[str, Any]]]:
    """All rows that acts write, for "nothing was changed"."""
    return {table.__name__: list(table.objects.order_by("pk").values()) for table in _TABLES}


def current(relay: Relay) -> batons.Baton:
    baton = batons.read(Baton.objects.get(relay=relay, current=True).text).baton
    assert baton is not None
    return baton


def check_chain() -> int:
    """Each digest recomputes from the row as the database gives it back, and names the one before. How many rows."""
    previous, rows = base.GENESIS, list(Decision.objects.order_by("seq"))
    for number, row in enumerate(rows, start=1):
        assert (row.seq, row.previous) == (number, previous)
        assert base.chain_digest(row) == row.digest
        previous = row.digest
    return len(rows)
