"""`/maintenance/`: what would happen to how many relays, what is under way, and what came of earlier acts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Case, Count, F, OuterRef, QuerySet, Subquery, When
from django.utils import timezone

from relays.models import (
    FINAL_STATUSES,
    OPEN_GATES,
    Decision,
    GateEpisode,
    Maintenance,
    MaintenanceItem,
    Relay,
    RelayStatus,
    Request,
)

TOPIC = "maintenance"
ACTS = 20
NAMED = 12  # relays that the page names of those that an act would touch
ITEMS = 25  # of an act that the page of all names
MOST = 1000  # of an act that its own page names
OPEN = (Maintenance.Status.LOOKING, Maintenance.Status.LISTED, Maintenance.Status.RUNNING)
#: decisions that park a relay or let it go on: the newest says whose parking stands
_PARKING = ("park", "park_now", "resume", "stop", "stop_now", "start")


@dataclass(frozen=True, slots=True)
class Plan:
    """What would happen now. `running`: legs that drain to their next safe point; `resting`: parked at once.

    `held`: parked by maintenance and resumable; `gated`: parked by it, and a gate waits since. `parking` and `holding`
    name the first NAMED of those to park, the running ones first, and of those to resume.
    """

    running: int
    resting: int
    parked: int
    living: int
    held: int
    gated: int
    ended: int
    parking: tuple[str, ...]
    holding: tuple[str, ...]

    @property
    def to_park(self) -> int:
        return self.running + self.resting

    @property
    def parking_more(self) -> int:
        return self.to_park - len(self.parking)

    @property
    def holding_more(self) -> int:
        return self.held - len(self.holding)


@dataclass(frozen=True, slots=True)
class Act:
    """One act with its items. `draining`: relays that were asked to park and whose leg has not ended yet."""

    row: Maintenance
    by: str
    planned: int
    done: int
    kept: int
    draining: int
    items: tuple[MaintenanceItem, ...]

    @property
    def open(self) -> bool:
        return self.row.status in OPEN

    @property
    def total(self) -> int:
        return self.planned + self.done + self.kept

    @property
    def percent(self) -> int:
        return 100 * (self.done + self.kept) // self.total if self.total else 0

    @property
    def left_out(self) -> int:
        return max(0, self.total - len(self.items))

    @property
    def going(self) -> tuple[MaintenanceItem, ...]:
        return tuple(one for one in self.items if one.state == MaintenanceItem.State.PLANNED)

    @property
    def staying(self) -> tuple[MaintenanceItem, ...]:
        return tuple(one for one in self.items if one.state == MaintenanceItem.State.KEPT)

    @property
    def gone(self) -> tuple[MaintenanceItem, ...]:
        return tuple(one for one in self.items if one.state == MaintenanceItem.State.DONE)


@dataclass(frozen=True, slots=True)
class Page:
    plan: Plan
    open: tuple[Act, ...]
    ended: tuple[Act, ...]

    def busy(self, kind: str) -> bool:
        return any(one.row.kind == kind for one in self.open)

    @property
    def unconfirmed(self) -> Act | None:
        """The clean-up whose list is made and that nobody has confirmed or cancelled yet."""
        waiting = (one for one in self.open if one.row.status == Maintenance.Status.LISTED and not one.row.cancel)
        return next(waiting, None)

    @property
    def busy_kinds(self) -> tuple[str, ...]:
        return tuple(one.row.kind for one in self.open)


def parkable() -> QuerySet[Relay]:
    """Relays that go on and that nobody has asked to park or stop yet."""
    going = Relay.objects.exclude(status__in=[*FINAL_STATUSES, RelayStatus.PARKED])
    return going.exclude(park__in=[Request.DRAIN, Request.NOW]).exclude(stop__in=[Request.DRAIN, Request.NOW])


def living() -> QuerySet[Relay]:
    """Relays that have not ended."""
    return Relay.objects.exclude(status__in=FINAL_STATUSES)


def held() -> QuerySet[Relay]:
    """Relays whose newest parking decision is one of a maintenance, parked or on their way there."""
    ours = MaintenanceItem.objects.filter(act__kind=Maintenance.Kind.PARK_ALL, decision__isnull=False)
    asked = Relay.objects.exclude(status__in=FINAL_STATUSES).filter(pk__in=ours.values("relay"))
    found = asked.annotate(newest=newest_parking("seq")).filter(newest__in=ours.values("decision"))
    parked = found.filter(status=RelayStatus.PARKED)
    return parked | found.filter(park=Request.DRAIN)


def newest_parking(field: str) -> Subquery:
    """This field of a relay's newest decision that parks it or lets it go on: whose word stands."""
    rows = Decision.objects.filter(relay=OuterRef("pk"), act__in=_PARKING).order_by("-seq")
    return Subquery(rows.values(field)[:1])


def gated(relays: QuerySet[Relay]) -> QuerySet[Relay]:
    """Of these the ones that a gate keeps."""
    return relays.filter(pk__in=GateEpisode.objects.filter(state__in=OPEN_GATES).values("relay"))


def plan() -> Plan:
    """Six queries."""
    every = _by_status(Relay.objects.all())
    going = _by_status(parkable())
    mine = held()
    stay = gated(mine)
    with_gate = stay.count()
    first = Case(When(status=RelayStatus.RUNNING, then=0), default=1)
    return Plan(
        running=going[RelayStatus.RUNNING],
        resting=going.total() - going[RelayStatus.RUNNING],
        parked=every[RelayStatus.PARKED],
        living=every.total() - sum(every[status] for status in FINAL_STATUSES),
        held=mine.count() - with_gate,
        gated=with_gate,
        ended=sum(every[status] for status in FINAL_STATUSES),
        parking=tuple(parkable().order_by(first, "pk").values_list("pk", flat=True)[:NAMED]),
        holding=tuple(mine.exclude(pk__in=stay.values("pk")).order_by("pk").values_list("pk", flat=True)[:NAMED]),
    )


def _by_status(relays: QuerySet[Relay]) -> Counter[str]:
    return Counter(dict(relays.order_by().values_list("status").annotate(n=Count("pk"))))


def page() -> Page:
    """A constant number of queries for each act that is open; earlier ones show their counts only."""
    rows = Maintenance.objects.select_related("asked_by")
    live = [_act(row, ITEMS) for row in rows.filter(status__in=OPEN)]
    ended = [_act(row, 0) for row in rows.exclude(status__in=OPEN)[:ACTS]]
    return Page(plan(), tuple(live), tuple(ended))


def one(row: Maintenance) -> Act:
    """One act with its items, also one that has ended."""
    return _act(row, MOST)


def _act(row: Maintenance, items: int) -> Act:
    counts = Counter(dict(row.items.order_by().values_list("state").annotate(n=Count("pk"))))
    draining = 0
    if row.kind == Maintenance.Kind.PARK_ALL and items:
        asked = row.items.filter(state=MaintenanceItem.State.DONE, relay__park=Request.DRAIN)
        draining = asked.exclude(relay__status__in=[*FINAL_STATUSES, RelayStatus.PARKED]).count()
    shown: Sequence[MaintenanceItem] = ()
    if items:
        # what would go comes before what stays; of relays, what happened last comes first
        order = ("-state", "pk") if row.kind == Maintenance.Kind.CLEAN else (F("at").desc(nulls_last=True), "pk")
        shown = list(row.items.select_related("relay").order_by(*order)[:items])
    return Act(
        row=row,
        by=row.asked_by.get_username(),
        planned=counts[MaintenanceItem.State.PLANNED],
        done=counts[MaintenanceItem.State.DONE],
        kept=counts[MaintenanceItem.State.KEPT],
        draining=draining,
        items=tuple(shown),
    )


def quiet(row: Maintenance) -> bool:
    """Whether nobody has worked on an open act for long: a worker takes it up again, or none runs."""
    return row.beat_at is not None and (timezone.now() - row.beat_at).total_seconds() > 60
