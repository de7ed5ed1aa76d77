"""Days, models, owners: what each leg and each session cost, cut into days of the fleet's one time zone.

cost.md: "Roll-ups (leg, relay, fleet, day, model) are derived from calls and reconcile to the sum exactly; days are cut
in ONE configured fleet time zone (23- and 25-hour days included)." Each leg and each session is cut as a whole, so that
cutting it twice, late or not at all in one pass changes nothing in the end: its old rows go when the new ones come.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F, Q, Sum
from django.db.models.functions import Greatest
from django.utils import timezone

from relays.core import pricing
from relays.core.usage import Buckets
from relays.costs import measured
from relays.models import (
    Boundary,
    Call,
    CostDue,
    CostState,
    DayCost,
    Event,
    Leg,
    LegState,
    Notice,
    OwnerBudget,
    OwnerMonth,
    Relay,
    Session,
    SessionCall,
    owed,
)
from relays.models.pulse import bump
from relays.sessions.rows import write
from relays.stores.prices import book

#: PostgreSQL's advisory lock of everything that writes costs
LOCK: Final = 7_315_002
#: a leg that runs is cut again when its days are so much older than its last event
RUNNING_LAGS: Final = timedelta(seconds=15)
#: how often every leg of the site is looked at, whatever came of it
WHOLE_AFTER: Final = timedelta(hours=1)
LOOKED: Final = "legs"
COST: Final = "cost"  # the topic that pages of the fleet's cost follow
_UNIT: Final = Decimal(10) ** 10
#: events that a durable effect leaves
EFFECTS: Final = ("artifact", "file_written", "ledger", "promotion")


@contextmanager
def serialised() -> Iterator[None]:
    """A transaction that no other writer of costs runs beside: the same task twice at once makes no row twice."""
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        yield


def units(amount: Decimal) -> int:
    """Dollars as a whole number of 1e-10 dollars: what a call's cost is kept to."""
    return int((pricing.kept(amount) * _UNIT).to_integral_value())


def dollars(whole: int) -> Decimal:
    """The other way."""
    return Decimal(whole).scaleb(-10)


def zone() -> ZoneInfo:
    """The fleet's time zone."""
    return ZoneInfo(settings.TIME_ZONE)


def day_of(at: datetime | None, where: ZoneInfo) -> date | None:
    """The day of the fleet on which a moment lies; None for no moment."""
    return at.astimezone(where).date() if at is not None else None


@dataclass(slots=True)
class _Sums:
    calls: int = 0
    unpriced: int = 0
    tokens: list[int] = field(default_factory=lambda: [0] * 5)
    units: int = 0

    def add(self, tokens: Sequence[int], cost: Decimal | None) -> None:
        self.calls += 1
        self.tokens = [a + int(b) for a, b in zip(self.tokens, tokens, strict=True)]
        if cost is None:
            self.unpriced += 1
        else:
            self.units += units(Decimal(str(cost)))

    def row(self, **values: Any) -> DayCost:
        names = ("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens")
        tokens = dict(zip(names, self.tokens, strict=True))
        return DayCost(calls=self.calls, unpriced=self.unpriced, units=self.units, **tokens, **values)


# --- what is due


def due_legs(limit: int) -> list[int]:
    """Legs whose calls are newer than their days, the longest waiting first: their keys.

    Only relays that something came of since all were up to date are looked at, and all of them once an hour: what a
    lost worker left behind is found, and a site of many legs is not read through at each look.
    """
    now = timezone.now()
    kept = CostState.objects.filter(name=LOOKED).first()
    value = kept.value if kept is not None else {}
    newer = Q(cost_due__seen__lt=F("last_event_at"))
    ended = Q(state__in=(LegState.ENDED, LegState.VOID)) | Q(cost_due__seen__lt=now - RUNNING_LAGS)
    legs = Leg.objects.filter(calls__gt=0, last_event_at__isnull=False).filter(
        Q(cost_due__isnull=True) | (newer & ended) | ~Q(cost_due__zone=settings.TIME_ZONE)
    )
    whole = now - datetime.fromisoformat(value["whole"]) if value.get("whole") else WHOLE_AFTER
    wholly = whole >= WHOLE_AFTER or value.get("zone") != settings.TIME_ZONE
    if not wholly:
        since = datetime.fromisoformat(value["until"])
        legs = legs.filter(relay__in=Relay.objects.filter(last_data_at__gte=since).values("pk"))
    found = list(legs.order_by("last_event_at").values_list("pk", flat=True)[:limit])
    if not found:
        until = (now - 4 * RUNNING_LAGS).isoformat()
        looked = {"until": until, "whole": now.isoformat() if wholly else value["whole"], "zone": settings.TIME_ZONE}
        CostState.objects.update_or_create(name=LOOKED, defaults={"value": looked, "at": now})
    return found


def due_legs_of(relay: str) -> list[int]:
    """Legs of one relay whose days are older than their calls."""
    newer = Q(cost_due__isnull=True) | Q(cost_due__seen__lt=F("last_event_at")) | ~Q(cost_due__zone=settings.TIME_ZONE)
    return list(Leg.objects.filter(newer, relay=relay, calls__gt=0).order_by("number").values_list("pk", flat=True))


def due_sessions(limit: int) -> list[int]:
    """Sessions whose figures are newer than their days: their keys."""
    name = settings.TIME_ZONE
    sessions = Session.objects.filter(projected_at__isnull=False).filter(
        Q(cost_due__isnull=True) | Q(cost_due__seen__lt=F("projected_at")) | ~Q(cost_due__zone=name)
    )
    return list(sessions.order_by("projected_at").values_list("pk", flat=True)[:limit])


# --- cutting


#: what of a leg must stand as it was while its calls were read: else it is due again
_STANDS: Final = ("calls", "spend", "unpriced_calls", "last_event_at")


def cut_legs(keys: Iterable[int]) -> None:
    """Cut these legs into days anew, with the first durable effect of each.

    Calls are read before the transaction, so that no driver waits for that; a leg that changed meanwhile, or that
    another one cut, is left as it is: it is due again.
    """
    where = zone()
    legs = list(Leg.objects.filter(pk__in=list(keys)).select_related("relay").order_by("pk"))
    unpriced = [leg for leg in legs if leg.unpriced_calls and leg.state in (LegState.ENDED, LegState.VOID)]
    if unpriced:
        with serialised():
            for leg in Leg.objects.filter(pk__in=[one.pk for one in unpriced]).select_related("relay").order_by("pk"):
                _price(leg)
        legs = list(Leg.objects.filter(pk__in=[leg.pk for leg in legs]).select_related("relay").order_by("pk"))
    read = [(leg, _leg_rows(leg, where), _effect(leg)) for leg in legs]
    with serialised():
        now = {row["pk"]: row for row in Leg.objects.filter(pk__in=[leg.pk for leg in legs]).values("pk", *_STANDS)}
        owners: set[tuple[int, date]] = set()
        for leg, rows, (turn, grown) in read:
            if any(getattr(leg, name) != now.get(leg.pk, {}).get(name) for name in _STANDS):
                continue
            before = list(DayCost.objects.filter(leg=leg).values_list("day", flat=True))
            DayCost.objects.filter(leg=leg).delete()
            DayCost.objects.bulk_create(rows, batch_size=500)
            seen = leg.last_event_at or timezone.now()
            values = {"seen": seen, "zone": where.key, "effect_turn": turn, "orientation": grown}
            CostDue.objects.update_or_create(leg=leg, defaults=values)
            days = {day for day in (*before, *(row.day for row in rows)) if day is not None}
            owners |= {(leg.relay.owner_id, day.replace(day=1)) for day in days}
        sum_months(owners)
        bump(COST)


def cut_sessions(keys: Iterable[int]) -> None:
    """The same of sessions, with what each compaction of theirs shows."""
    where = zone()
    read = [
        (session, _session_rows(session, where), measured.cuts_of(session) if session.compactions else [])
        for session in Session.objects.filter(pk__in=list(keys), projected_at__isnull=False).order_by("pk")
    ]
    with serialised():
        now = dict(Session.objects.filter(pk__in=[one.pk for one, _, _ in read]).values_list("pk", "projected_at"))
        for session, rows, cuts in read:
            if now.get(session.pk) != session.projected_at:
                continue
            DayCost.objects.filter(session=session).delete()
            DayCost.objects.bulk_create(rows, batch_size=500)
            values = {"seen": session.projected_at, "zone": where.key, "cuts": cuts, "compactions": len(cuts)}
            CostDue.objects.update_or_create(session=session, defaults=values)
        bump(COST)


def _price(leg: Leg) -> None:
    """Price the calls of an ended leg whose agent reported no cost, where the list knows their model.

    cost.md: "An unknown model is `unpriced`, never 0": a known one is not. What is added to the calls is added to the
    leg and its relay in the same transaction, so that they reconcile. A running leg's calls may still grow.
    """
    if not leg.unpriced_calls or leg.state not in (LegState.ENDED, LegState.VOID):
        return
    priced: list[Call] = []
    for call in Call.objects.filter(leg=leg, cost__isnull=True, scripted=False).iterator(chunk_size=5_000):
        found = book().find(call.model, leg.relay.agent, call.at)
        buckets = Buckets(
            call.input_tokens, call.cache_read, call.cache_write_5m, call.cache_write_1h, call.output_tokens
        )
        cost = pricing.cost(found.rates, buckets) if found is not None else None
        if cost is not None:
            call.cost, call.listed = pricing.kept(cost), True
            priced.append(call)
    if not priced:
        return
    write(priced, ("cost", "listed"))
    more = sum((call.cost or Decimal(0) for call in priced), Decimal(0))
    Leg.objects.filter(pk=leg.pk).update(spend=F("spend") + more, unpriced_calls=F("unpriced_calls") - len(priced))
    Relay.objects.filter(pk=leg.relay_id).update(
        spend_used=F("spend_used") + more,
        unpriced_calls=Greatest(F("unpriced_calls") - len(priced), 0),
    )


_TOKENS: Final = ("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens")


def _leg_rows(leg: Leg, where: ZoneInfo) -> list[DayCost]:
    found: dict[tuple[date | None, str, bool], _Sums] = {}
    calls = Call.objects.filter(leg=leg).values_list("at", "model", "scripted", "cost", *_TOKENS)
    for at, model, scripted, cost, *tokens in calls.iterator(chunk_size=5_000):
        found.setdefault((day_of(at, where), model, scripted), _Sums()).add(tokens, cost)
    relay = leg.relay
    return [
        sums.row(
            day=day, kind="relay", relay=relay, leg=leg, model=model, scripted=scripted, agent=relay.agent,
            repository=relay.repo, owner_id=relay.owner_id,
        )
        for (day, model, scripted), sums in found.items()
    ]  # fmt: skip


def _session_rows(session: Session, where: ZoneInfo) -> list[DayCost]:
    found: dict[tuple[date | None, str], _Sums] = {}
    calls = SessionCall.objects.filter(session=session, counts=True).values_list("at", "model", "cost", *_TOKENS)
    for at, model, cost, *tokens in calls.iterator(chunk_size=5_000):
        found.setdefault((day_of(at, where), model), _Sums()).add(tokens, cost)
    return [
        sums.row(day=day, kind="session", session=session, model=model, agent=session.agent, repository=session.cwd)
        for (day, model), sums in found.items()
    ]


def _effect(leg: Leg) -> tuple[int | None, int | None]:
    """(turn of the leg's first durable effect, what its window had grown by then); None where none is recorded.

    cost.md: "orientation tokens (… measured from real legs: all input growth before its first durable effect)". An
    agent that only commits says nothing of it: there the branch that moved between two boundaries shows it.
    """
    turns = [turn for turn in (_told(leg), _moved(leg)) if turn is not None]
    if not turns:
        return None, None
    main = Call.objects.filter(leg=leg, main=True).order_by("turn", "id")
    begun = main.values_list("resident_tokens", flat=True).first()
    then = main.filter(turn__lte=min(turns)).values_list("resident_tokens", flat=True).last()
    if begun is None or then is None:
        return None, None
    return min(turns), max(0, then - begun)


def _told(leg: Leg) -> int | None:
    """The turn of the first event that a durable effect leaves."""
    first = Event.objects.filter(leg=leg, kind__in=EFFECTS, known=True).order_by("seq").values_list("seq", flat=True)
    seq = first.first()
    if seq is None:
        return None
    after = Boundary.objects.filter(leg=leg, seq__gt=seq).order_by("seq").values_list("turn", flat=True).first()
    return after if after is not None else leg.turns


def _moved(leg: Leg) -> int | None:
    """The turn after which the branch first stood elsewhere than where the leg began."""
    start = leg.cursor_sha
    seen = Boundary.objects.filter(leg=leg).order_by("number").values_list("turn", "decision__tip")
    for turn, tip in seen.iterator(chunk_size=100):
        if tip and start and tip != start:
            return int(turn)
        start = start or tip
    end = (leg.end_decision or {}).get("tip")
    return leg.turns if end and start and end != start else None


# --- owners and months


def sum_months(wanted: Iterable[tuple[int, date]]) -> None:
    """Bring these months of owners up to date and judge their budgets; inside the caller's transaction."""
    for owner, month in sorted(set(wanted)):
        rows = DayCost.objects.filter(owner=owner, day__gte=month, day__lt=_next(month), scripted=False)
        sums = rows.aggregate(units=Sum("units"), unpriced=Sum("unpriced"), calls=Sum("calls"))
        values = {name: int(value or 0) for name, value in sums.items()}
        row, _ = OwnerMonth.objects.update_or_create(owner_id=owner, month=month, defaults=values)
        judge_month(row)


def judge_month(row: OwnerMonth) -> None:
    """Set what a budget says of a month; the first time it warns is kept and told, the first time it is over too."""
    before = row.state
    budget = budget_of(row.owner_id, row.month)
    row.limit = budget.limit if budget else None
    spent = dollars(row.units)
    if budget is None:
        row.state, row.warned_at = "none", None
    else:
        warns = spent >= budget.limit * Decimal(str(budget.warn_at))
        row.state = "over" if spent >= budget.limit else "warned" if warns else "fine"
        if row.state == "fine":
            row.warned_at = None
        elif row.warned_at is None:
            row.warned_at = timezone.now()
    row.save(update_fields=["limit", "state", "warned_at"])
    if row.state in ("warned", "over") and row.state != before and budget is not None:
        key = f"month:{row.owner_id}:{row.month}:{row.state}:{budget.limit}"
        detail = {
            "month": f"{row.month:%Y-%m}", "state": row.state, "limit": f"{budget.limit:.2f}", "spent": f"{spent:.2f}",
        }  # fmt: skip
        owed.owe(Notice.Event.BUDGET_WARNING, key, timezone.now(), owner_id=row.owner_id, detail=detail)


def budget_of(owner: int, month: date) -> OwnerBudget | None:
    """The budget that holds for an owner in a month: the month's own, else the one for each month."""
    found = list(OwnerBudget.objects.filter(owner=owner).filter(Q(month=month) | Q(month__isnull=True)))
    return next((one for one in found if one.month), next(iter(found), None))


def _next(month: date) -> date:
    return date(month.year + month.month // 12, month.month % 12 + 1, 1)
