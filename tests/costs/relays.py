"""Relays with legs and calls whose figures a test knows, made straight through the models as the driver keeps them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from relays.models import Boundary, Call, Event, Leg, Relay
from tests.report_builders import make_relay

BEGUN = datetime(2026, 5, 4, 9, tzinfo=UTC)
WINDOW = 200_000


def add_leg(
    relay: Relay, number: int, residents: Sequence[int], *, effect: int | None = None, model: str = "claude-opus-4-5",
    output: int = 400, **values: Any,
) -> Leg:  # fmt: skip
    """An ended leg with these resident tokens, all but what is new read from the cache; `effect`: the turn of its

    first durable effect. Costs are left to the price list.
    """
    begun = BEGUN + timedelta(hours=number)
    last = begun + timedelta(seconds=20 * len(residents))
    leg = Leg.objects.create(
        relay=relay, number=number, trace=f"{relay.pk}-{number}", state="ended", reason="RELAY_ROTATED",
        started_at=begun, ended_at=last, last_event_at=last, window_tokens=WINDOW, mark_tokens=120_000,
        ceiling_tokens=180_000, turns=len(residents), calls=len(residents), peak_tokens=max(residents), model=model,
    )  # fmt: skip
    calls = []
    before = 0
    for turn, tokens in enumerate(residents, 1):
        read = min(before, tokens)
        calls.append(
            Call(
                **{
                    "leg": leg, "key": f"{leg.trace}:{turn}", "turn": turn, "model": model, "main": True,
                    "cache_read": read, "cache_write_5m": tokens - read, "output_tokens": output,
                    "resident_tokens": tokens, "at": begun + timedelta(seconds=20 * turn), **values,
                }
            )
        )  # fmt: skip
        Boundary.objects.create(
            leg=leg, number=turn - 1, seq=turn * 10, turn=turn, at=begun, resident_tokens=tokens, answer="go"
        )
        before = tokens
    Call.objects.bulk_create(calls)
    if effect is not None:
        Event.objects.create(leg=leg, seq=effect * 10 - 5, kind="artifact", payload={}, at=begun)
    Leg.objects.filter(pk=leg.pk).update(
        cache_read=sum(call.cache_read for call in calls), output_tokens=output * len(calls),
        cache_write_5m=sum(call.cache_write_5m for call in calls), unpriced_calls=sum(c.cost is None for c in calls),
        spend=sum((call.cost or Decimal(0) for call in calls), Decimal(0)),
    )  # fmt: skip
    Relay.objects.filter(pk=relay.pk).update(last_data_at=last, turns_used=relay.turns_used + len(residents))
    relay.refresh_from_db()
    return leg


def losing_relay(legs: int = 8) -> Relay:
    """Each leg reads 70,000 tokens again before it does anything, works for four calls and is rotated."""
    relay = make_relay()
    for number in range(legs):
        first = 20_000 if number == 0 else 22_000
        again = 0 if number == 0 else 70_000
        residents = [first, *(first + again + 1_500 * step for step in range(1, 6))]
        add_leg(relay, number, residents, effect=2)
    return relay


def winning_relay(legs: int = 8) -> Relay:
    """Each leg begins with hardly more than its baton and works up to the mark; a window of its work would overflow."""
    relay = make_relay()
    for number in range(legs):
        residents = [20_000 + 2_000 * (number > 0) + 4_000 * step for step in range(26)]
        add_leg(relay, number, residents, effect=2)
    return relay
