"""Over the whole fleet: how far envelopes still go, and what other ways to carry the same work would have cost.

Interface, page 7: "fleet and per relay, … forecast to the envelope, … against baselines". Both are read from the
stored comparisons; nothing is computed that is not there.
"""

from dataclasses import dataclass
from decimal import Decimal

from relays.models import FINAL_STATUSES, Comparison
from relays.reports import compared as stored
from relays.reports.cost import policy_name
from relays.reports.fleet_query import Query, matching
from relays.reports.forecast import ForecastRow, nearest
from relays.reports.stored_json import rows as objects

MOST = 1_000  # stored comparisons that one page reads, the newest
TOP = 10  # relays that the page names


@dataclass(frozen=True, slots=True)
class EnvelopeRow:
    """A relay that has not ended, with the axis of its envelope that is spent first as it has gone so far."""

    relay: str
    objective: str
    axis: ForecastRow


@dataclass(frozen=True, slots=True)
class Envelopes:
    """Nearest to its end first. `open`: relays of which nothing can be said yet, or whose envelope has no limit."""

    rows: tuple[EnvelopeRow, ...]
    open: int

    @property
    def top(self) -> tuple[EnvelopeRow, ...]:
        return self.rows[:TOP]


@dataclass(frozen=True, slots=True)
class OtherWay:
    """One other policy over the relays of this time of which both sides have a price, each as a whole.

    `cost`: what it would have cost (SIMULATED); `own`: what those relays did cost (OBSERVED); `unfinished`: relays
    whose work it could not have carried to the end, which are in neither sum.
    """

    policy: str
    name: str
    relays: int
    unfinished: int
    cost: Decimal
    own: Decimal

    @property
    def saved(self) -> Decimal:
        """By the relays; below 0: they were the dearer way."""
        return self.cost - self.own


def envelopes(query: Query) -> Envelopes:
    """One query."""
    found = Comparison.objects.filter(relay__isnull=False, scripted=query.scripted).exclude(
        relay__status__in=FINAL_STATUSES
    )
    for field, value in (
        ("relay__agent", query.agent), ("relay__repo", query.repo), ("relay__owner__username", query.owner),
    ):  # fmt: skip
        if value:
            found = found.filter(**{field: value})
    if query.kind == "session":
        found = found.none()
    told: list[EnvelopeRow] = []
    open_ones = 0
    for relay, objective, forecast in found.order_by("-computed_at", "pk").values_list(
        "relay_id", "relay__objective", "forecast"
    )[:MOST]:
        axis = nearest(stored.axes(forecast))
        if axis is None:
            open_ones += 1
        else:
            told.append(EnvelopeRow(relay, objective, axis))
    told.sort(key=lambda row: (row.axis.legs_left or 0, row.relay))
    return Envelopes(tuple(told), open_ones)


def other_ways(query: Query) -> tuple[OtherWay, ...]:
    """Each policy once, in the order in which comparisons have them. One query."""
    if query.kind == "session":
        return ()
    keys = matching(query).filter(kind="relay").order_by().values("relay_id").distinct()
    found = Comparison.objects.filter(relay__in=keys, computed_at__isnull=False).order_by("-computed_at", "pk")
    sums: dict[str, _Sums] = {}
    for observed, baselines in found.values_list("observed", "baselines")[:MOST]:
        own = stored.observed(observed)
        if own.cost is None or own.unpriced:
            continue
        for one in map(stored.baseline, objects(baselines)):
            row = sums.setdefault(one.policy, _Sums())
            if not one.finishes:
                row.unfinished += 1
            elif one.cost is not None:
                row.relays, row.cost, row.own = row.relays + 1, row.cost + one.cost, row.own + own.cost
    return tuple(
        OtherWay(policy, policy_name(policy), one.relays, one.unfinished, one.cost, one.own)
        for policy, one in sums.items()
    )


@dataclass(slots=True)
class _Sums:
    relays: int = 0
    unfinished: int = 0
    cost: Decimal = Decimal(0)
    own: Decimal = Decimal(0)
