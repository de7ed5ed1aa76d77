"""What the next leg's first call will cost: its whole prefix is read with nothing of it in a cache.

Interface: "hours parked and what a cold prefix will cost on resume". Mission: "Cache state is never authority … A cold
cache is a pricing event": the figure informs a person, no decision reads it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import OuterRef, Subquery

from relays.core import pricing
from relays.core.usage import Buckets
from relays.models import Call, Leg, Relay
from relays.stores import prices


@dataclass(frozen=True, slots=True)
class ColdPrefix:
    """`tokens`: the prefix of the newest leg that called its model, as its first call had it resident. `cost`: those

    tokens at today's price of a first write to the cache (of input, where the program wrote none); None = no price is
    known for `model`, which then is no figure, never 0. `scripted`: the tokens are made up.
    """

    tokens: int
    cost: Decimal | None
    leg: int
    model: str
    scripted: bool


def cold_prefixes(relays: Iterable[Relay], now: datetime) -> dict[str, ColdPrefix]:
    """Relay key -> its cold prefix; a relay whose legs called no model yet has none. Two queries for any number."""
    wanted = {relay.pk: relay for relay in relays}
    if not wanted:
        return {}
    newest = Leg.objects.filter(relay=OuterRef("pk"), calls__gt=0).order_by("-number").values("pk")[:1]
    found = Relay.objects.filter(pk__in=wanted).annotate(newest=Subquery(newest)).values_list("newest", flat=True)
    legs = [pk for pk in found if pk is not None]
    rows: dict[str, ColdPrefix] = {}
    calls = Call.objects.filter(leg__in=legs, main=True, turn=1).select_related("leg").order_by("leg_id", "pk")
    for call in calls:
        relay = wanted[call.leg.relay_id]
        if relay.pk not in rows and (tokens := call.resident_tokens):
            cost = None if call.scripted else _cost(call, relay.agent, now)
            rows[relay.pk] = ColdPrefix(tokens, cost, call.leg.number, call.model or call.leg.model, call.scripted)
    return rows


def _cost(call: Call, agent: str, now: datetime) -> Decimal | None:
    """What was read from a cache then is written to it now, for as long as the program had it kept."""
    hour = call.cache_write_1h > call.cache_write_5m
    moved = call.cache_read
    cold = Buckets(
        input=call.input_tokens,
        cache_write_5m=call.cache_write_5m + (0 if hour else moved),
        cache_write_1h=call.cache_write_1h + (moved if hour else 0),
    )
    price = prices.book().find(call.model or call.leg.model, agent, now)
    amount = pricing.cost(price.rates, cold) if price is not None else None
    return pricing.kept(amount) if amount is not None else None
