"""Days, models and owners reconcile with the calls exactly, whatever the time zone; cutting twice changes nothing."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import F, Sum

from relays.core import pricing
from relays.core.usage import Buckets
from relays.costs import rollups
from relays.models import Call, CostDue, DayCost, Leg, OwnerMonth, Relay, SessionCall
from relays.stores.prices import PriceBook
from tests.cost_builders import make_budget
from tests.costs.relays import add_leg, winning_relay
from tests.report_builders import make_relay
from tests.session_builders import add_calls, make_session

pytestmark = pytest.mark.django_db
TOKENS = ("input_tokens", "cache_read", "cache_write_5m", "cache_write_1h", "output_tokens")


def add_leg_calls(leg: Leg, times: list[datetime], **values: Any) -> list[Call]:
    """Calls of a leg at these times, every third of a sub-agent, with the roll-ups that the driver keeps of them."""
    rows = [
        Call(
            **{
                "leg": leg, "key": f"{leg.trace}:{n}", "turn": n, "model": "claude-opus-4-5" if n % 2 else "gpt-5.5",
                "main": n % 3 != 0, "input_tokens": 7 * n, "cache_read": 1_000 * n, "cache_write_5m": 100 + n,
                "cache_write_1h": n % 5, "output_tokens": 40 + n, "at": at, "cost": Decimal(n) / Decimal(1_000_003),
                **values,
            }
        )
        for n, at in enumerate(times, start=1)
    ]  # fmt: skip
    for row in rows:
        row.cost = pricing.kept(row.cost) if row.cost is not None else None
    Call.objects.bulk_create(rows)
    Leg.objects.filter(pk=leg.pk).update(
        calls=len(rows), spend=sum((row.cost or 0 for row in rows), Decimal(0)), last_event_at=times[-1],
        unpriced_calls=sum(row.cost is None for row in rows),
        **{name: sum(getattr(row, name) for row in rows) for name in TOKENS},
    )  # fmt: skip
    return rows


def sums(**of: Any) -> dict[str, int]:
    found = DayCost.objects.filter(**of).aggregate(
        calls=Sum("calls"), unpriced=Sum("unpriced"), units=Sum("units"), **{name: Sum(name) for name in TOKENS}
    )
    return {name: int(value or 0) for name, value in found.items()}


def cut_all() -> None:
    while legs := rollups.due_legs(7):
        rollups.cut_legs(legs)
    while sessions := rollups.due_sessions(7):
        rollups.cut_sessions(sessions)


def every(minutes: int, first: datetime, last: datetime) -> list[datetime]:
    found = []
    while first < last:
        found.append(first)
        first += timedelta(minutes=minutes)
    return found


@pytest.fixture
def relay() -> Relay:
    made = make_relay()
    for number in range(3):
        Leg.objects.create(relay=made, number=number, trace=f"t{number}", state="ended", reason="RELAY_ROTATED",
                           ended_at=datetime(2026, 4, 1, tzinfo=UTC))  # fmt: skip
    return made


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Pacific/Apia"])
def test_the_days_of_any_zone_sum_to_the_calls(relay: Relay, settings: Any, zone: str) -> None:
    settings.TIME_ZONE = zone
    legs = list(relay.legs.order_by("number"))
    add_leg_calls(legs[0], every(37, datetime(2026, 3, 28, 20, tzinfo=UTC), datetime(2026, 3, 30, 3, tzinfo=UTC)))
    add_leg_calls(legs[1], every(53, datetime(2026, 10, 24, 20, tzinfo=UTC), datetime(2026, 10, 26, 8, tzinfo=UTC)))
    unpriced = every(300, datetime(2026, 3, 7, tzinfo=UTC), datetime(2026, 3, 9, tzinfo=UTC))
    add_leg_calls(legs[2], unpriced, cost=None, model="nobody-knows-1")
    cut_all()
    whole = sums(kind="relay")
    calls = list(Call.objects.all())
    assert whole["calls"] == len(calls)
    for name in TOKENS:
        assert whole[name] == sum(getattr(call, name) for call in calls), name
    # Σ calls = leg = relay = fleet, to the last of 1e-10 dollars
    assert rollups.dollars(whole["units"]) == sum((call.cost or 0 for call in calls), Decimal(0))
    assert rollups.dollars(whole["units"]) == sum((leg.spend for leg in Leg.objects.all()), Decimal(0))
    assert whole["unpriced"] == sum(leg.unpriced_calls for leg in Leg.objects.all()) > 0
    for leg in Leg.objects.all():
        assert rollups.dollars(sums(leg=leg)["units"]) == leg.spend


def test_the_day_that_lost_an_hour_has_23_and_the_one_that_won_one_has_25(relay: Relay, settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    spring, autumn, _ = relay.legs.order_by("number")
    add_leg_calls(spring, every(60, datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 3, 30, 12, tzinfo=UTC)))
    add_leg_calls(autumn, every(60, datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2026, 10, 26, 12, tzinfo=UTC)))
    cut_all()
    assert sums(day=date(2026, 3, 29))["calls"] == 23
    assert sums(day=date(2026, 10, 25))["calls"] == 25


def test_another_time_zone_cuts_all_days_anew(relay: Relay, settings: Any) -> None:
    leg = relay.legs.get(number=0)
    add_leg_calls(leg, [datetime(2026, 5, 1, 23, 30, tzinfo=UTC)])
    cut_all()
    assert DayCost.objects.get().day == date(2026, 5, 1)
    settings.TIME_ZONE = "Europe/Berlin"
    cut_all()
    assert DayCost.objects.get().day == date(2026, 5, 2)


def test_cutting_again_or_late_changes_nothing(relay: Relay) -> None:
    legs = [leg.pk for leg in relay.legs.all()]
    for leg in relay.legs.all():
        add_leg_calls(leg, every(90, datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 3, tzinfo=UTC)))
    cut_all()
    before = sums(kind="relay")
    assert rollups.due_legs(10) == []
    rollups.cut_legs(legs)
    rollups.cut_legs(legs[:1])
    assert sums(kind="relay") == before
    assert CostDue.objects.count() == 3


def test_a_leg_that_changes_while_its_calls_are_read_is_left_and_due_again(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    leg = relay.legs.get(number=0)
    add_leg_calls(leg, [datetime(2026, 5, 1, 10, tzinfo=UTC)])
    right = rollups._leg_rows

    def read(one: Leg, where: Any) -> Any:
        rows = right(one, where)
        Leg.objects.filter(pk=one.pk).update(calls=F("calls") + 1)
        return rows

    monkeypatch.setattr(rollups, "_leg_rows", read)
    rollups.cut_legs([leg.pk])
    assert not DayCost.objects.exists()
    monkeypatch.undo()
    assert rollups.due_legs(5) == [leg.pk]
    cut_all()
    assert sums(leg=leg)["calls"] == 1


def test_a_call_that_comes_later_is_in_the_next_cut(relay: Relay) -> None:
    leg = relay.legs.get(number=1)
    add_leg_calls(leg, [datetime(2026, 5, 1, 10, tzinfo=UTC)])
    cut_all()
    Call.objects.create(
        leg=leg, key="late", turn=2, model="gpt-5.5", cost=Decimal("0.5"), at=datetime(2026, 5, 2, tzinfo=UTC)
    )
    Leg.objects.filter(pk=leg.pk).update(last_event_at=datetime(2026, 5, 2, tzinfo=UTC), calls=2)
    assert rollups.due_legs(10) == [leg.pk]
    cut_all()
    assert sums(day=date(2026, 5, 2))["units"] == 5 * 10**9


def test_calls_without_a_price_add_a_count_and_no_money(relay: Relay) -> None:
    times = every(60, datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 1, 4, tzinfo=UTC))
    add_leg_calls(relay.legs.get(number=0), times, cost=None, model="nobody-knows-1")
    cut_all()
    found = sums(kind="relay")
    assert (found["calls"], found["unpriced"], found["units"]) == (4, 4, 0)


def test_an_ended_legs_calls_of_a_known_model_are_priced_by_the_list_and_all_sums_follow() -> None:
    relay = winning_relay(2)
    add_leg(relay, 2, [20_000, 24_000], model="nobody-knows-1")
    cut_all()
    for leg in relay.legs.all():
        spent = sum((call.cost or 0 for call in leg.call_rows.all()), Decimal(0))
        assert rollups.dollars(sums(leg=leg)["units"]) == leg.spend == spent
        assert leg.unpriced_calls == sum(call.cost is None for call in leg.call_rows.all()) == sums(leg=leg)["unpriced"]
    before = relay.spend_used
    relay.refresh_from_db()
    assert relay.spend_used - before == sum((leg.spend for leg in relay.legs.all()), Decimal(0)) > 1
    assert Call.objects.filter(model="nobody-knows-1", cost=None, listed=False).count() == 2
    # priced once: cutting again adds nothing
    rollups.cut_legs([leg.pk for leg in relay.legs.all()])
    again = Relay.objects.get(pk=relay.pk)
    assert again.spend_used == relay.spend_used


def test_what_the_agent_reports_stays_what_it_reports(relay: Relay) -> None:
    leg = relay.legs.get(number=0)
    rows = add_leg_calls(leg, every(60, datetime(2026, 5, 1, tzinfo=UTC), datetime(2026, 5, 1, 4, tzinfo=UTC)))
    cut_all()
    assert [call.cost for call in Call.objects.order_by("turn")] == [row.cost for row in rows]
    assert not Call.objects.filter(listed=True).exists()


def test_sessions_count_each_call_once_and_keep_those_without_a_time() -> None:
    session = make_session()
    rows = add_calls(session, [20_000 + 500 * n for n in range(40)])
    SessionCall.objects.filter(pk__in=[row.pk for row in SessionCall.objects.all()[:5]]).update(counts=False)
    SessionCall.objects.filter(key=rows[9].key).update(at=None)
    cut_all()
    found = sums(kind="session", session=session)
    assert found["calls"] == 35
    assert sums(day=None)["calls"] == 1
    assert rollups.dollars(found["units"]) == Decimal("0.35")


def test_a_price_that_changes_at_midnight_counts_from_midnight_on(settings: Any) -> None:
    from relays.core.pricefile import parse

    site = parse(
        '[[price]]\nmodel = "m"\ninput = "1"\noutput = "2"\n\n'
        '[[price]]\nmodel = "m"\nsince = 2026-05-02T00:00:00Z\ninput = "3"\noutput = "2"\n'
    )
    book = PriceBook(site)
    session = make_session(model_names=["m"])
    times = [datetime(2026, 5, 1, 23, 59, 59, tzinfo=UTC), datetime(2026, 5, 2, tzinfo=UTC)]
    rows = add_calls(session, [1_000_000, 1_000_000], model="m", input_tokens=1_000_000, cache_read=0,
                     cache_write_5m=0, output_tokens=0)  # fmt: skip
    for row, at in zip(rows, times, strict=True):
        priced = book.price("m", "claude-code", at, Buckets(input=1_000_000))
        assert priced is not None
        SessionCall.objects.filter(key=row.key).update(at=at, cost=priced[0], price=priced[1])
    cut_all()
    assert sums(day=date(2026, 5, 1))["units"] == 10**10
    assert sums(day=date(2026, 5, 2))["units"] == 3 * 10**10


def test_a_month_of_an_owner_warns_once_when_its_share_is_crossed(relay: Relay) -> None:
    leg = relay.legs.get(number=0)
    make_budget(relay.owner, "1.00", warn_at=0.8)
    add_leg_calls(leg, [datetime(2026, 5, 1, tzinfo=UTC)], cost=Decimal("0.5"))
    cut_all()
    month = OwnerMonth.objects.get(owner=relay.owner, month=date(2026, 5, 1))
    assert (month.state, month.warned_at) == ("fine", None)
    Call.objects.create(leg=leg, key="b", turn=2, cost=Decimal("0.3"), at=datetime(2026, 5, 31, 23, tzinfo=UTC))
    Call.objects.create(leg=leg, key="c", turn=3, cost=Decimal("9"), at=datetime(2026, 6, 1, tzinfo=UTC))
    rollups.cut_legs([leg.pk])
    month.refresh_from_db()
    assert month.state == "warned"
    first = month.warned_at
    assert first is not None
    rollups.cut_legs([leg.pk])
    month.refresh_from_db()
    assert month.warned_at == first
    assert OwnerMonth.objects.get(month=date(2026, 6, 1)).state == "over"


def test_the_months_own_budget_wins_over_the_one_for_each_month(relay: Relay) -> None:
    make_budget(relay.owner, "1")
    make_budget(relay.owner, "50", date(2026, 5, 1))
    found = rollups.budget_of(relay.owner_id, date(2026, 5, 1))
    assert found is not None
    assert found.limit == 50
    other = rollups.budget_of(relay.owner_id, date(2026, 6, 1))
    assert other is not None
    assert other.limit == 1
