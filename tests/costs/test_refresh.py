"""The background step: what is due is made, twice or late is the same, one that fails keeps nobody waiting."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import Sum
from django.utils import timezone

from relays import tasks
from relays.costs import compare, refresh, rollups
from relays.models import Comparison, CostDue, CostState, DayCost, Leg, LegState, Relay, Topic
from tests.costs.relays import add_leg, losing_relay, winning_relay
from tests.report_builders import make_relay
from tests.session_builders import make_session, make_story

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.postgres]


def everything() -> list[Any]:
    """All that is stored of costs, but for times."""
    times = {"computed_at", "took_ms", "at", "id", "seen"}
    found: list[Any] = []
    for model in (Comparison, DayCost):
        names = [field.attname for field in model._meta.concrete_fields if field.name not in times]
        order = [name for name in ("relay_id", "leg_id", "session_id", "day", "model") if name in names]
        found.append(list(model._default_manager.order_by(*order).values_list(*names)))
    return found


def test_the_task_makes_all_that_is_due_and_then_nothing_more(django_assert_max_num_queries: Any) -> None:
    relay, (session, _) = winning_relay(3), make_story()
    tasks.costs()
    assert Comparison.objects.get(relay=relay).verdict == "cheaper"
    assert Comparison.objects.get(session=session).computed_at is not None
    assert DayCost.objects.filter(relay=relay).exists()
    assert Topic.objects.filter(name="cost").exists()
    with django_assert_max_num_queries(20):
        assert refresh.step() == "done"


def test_twice_or_late_comes_to_the_same() -> None:
    losing_relay(3)
    make_story()
    refresh.step()
    before = everything()
    Comparison.objects.update(wanted_at=timezone.now())
    DayCost.objects.all().delete()
    CostDue.objects.all().delete()
    CostState.objects.filter(name="legs").update(value={})  # as it stands after an hour
    refresh.step()
    refresh.step()
    assert everything() == before


def test_two_at_once_do_the_work_once() -> None:
    CostState.objects.create(name="step", at=timezone.now() + timedelta(seconds=60))
    winning_relay(2)
    assert refresh.step() == "busy"
    assert not Comparison.objects.exists()
    # one that died is taken over
    CostState.objects.filter(name="step").update(at=timezone.now() - timedelta(seconds=1))
    assert refresh.step() == "done"
    assert Comparison.objects.count() == 1


def test_a_step_without_time_leaves_the_rest_for_the_next_one() -> None:
    winning_relay(2)
    assert refresh.step(seconds=-1) == "more"
    assert not DayCost.objects.exists()
    assert refresh.step() == "done"


def test_one_that_fails_keeps_nobody_else_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = losing_relay(2), winning_relay(2)
    right = compare.figures

    def figures(of: Any) -> Any:
        if of == bad:
            raise RuntimeError("no")
        return right(of)

    monkeypatch.setattr(compare, "figures", figures)
    assert refresh.step() == "more"
    assert Comparison.objects.get(relay=good).computed_at is not None
    # not at once again, and not for ever: a broken one must not fill the log
    assert refresh.due_relays(5) == []
    monkeypatch.undo()
    Comparison.objects.filter(relay=bad).update(wanted_at=timezone.now())
    assert refresh.step() == "done"
    assert Comparison.objects.get(relay=bad).computed_at is not None


def test_a_page_asks_and_the_next_step_answers() -> None:
    relay = make_relay()
    row = refresh.want(relay)
    assert (row.computed_at, row.wanted_at is not None) == (None, True)
    refresh.step()
    row.refresh_from_db()
    assert row.wanted_at is None
    assert row.why == "no call of the main chain is stored yet"
    assert refresh.due_relays(5) == []


def test_new_data_makes_a_comparison_due_again() -> None:
    relay = winning_relay(2)
    refresh.step()
    assert refresh.due_relays(5) == []
    add_leg(relay, 2, [22_000, 30_000], effect=2)
    Comparison.objects.update(computed_at=timezone.now() - timedelta(minutes=1))
    Relay.objects.filter(pk=relay.pk).update(last_data_at=timezone.now())
    assert refresh.due_relays(5) == [relay.pk]
    refresh.step()
    assert Comparison.objects.get().observed["events"] == 2


def test_what_took_long_is_not_made_anew_at_once() -> None:
    relay = winning_relay(2)
    refresh.step()
    Comparison.objects.update(computed_at=timezone.now() - timedelta(minutes=1), took_ms=5_000)
    Relay.objects.filter(pk=relay.pk).update(last_data_at=timezone.now())
    assert refresh.due_relays(5) == []
    Comparison.objects.update(computed_at=timezone.now() - timedelta(minutes=3))
    assert refresh.due_relays(5) == [relay.pk]


def test_a_running_leg_is_cut_now_and_then_and_priced_when_it_ended() -> None:
    relay = make_relay()
    leg = add_leg(relay, 0, [20_000, 24_000], effect=2)
    Leg.objects.filter(pk=leg.pk).update(state=LegState.RUNNING, reason="", ended_at=None, last_event_at=timezone.now())
    rollups.cut_legs(rollups.due_legs(5))
    assert DayCost.objects.get().unpriced == 2
    Leg.objects.filter(pk=leg.pk).update(last_event_at=timezone.now())
    assert rollups.due_legs(5) == []
    now = timezone.now()
    Relay.objects.filter(pk=relay.pk).update(last_data_at=now)
    Leg.objects.filter(pk=leg.pk).update(state=LegState.ENDED, reason="RELAY_ROTATED", ended_at=now, last_event_at=now)
    assert rollups.due_legs(5) == [leg.pk]
    rollups.cut_legs([leg.pk])
    assert DayCost.objects.get().unpriced == 0


def test_a_site_of_many_legs_is_looked_through_once_an_hour() -> None:
    old, new = winning_relay(2), winning_relay(2)
    refresh.step()
    # nothing came of the old relay, so that what it lacks is found by the whole look alone
    CostDue.objects.all().delete()
    Relay.objects.filter(pk=new.pk).update(last_data_at=timezone.now())
    assert set(rollups.due_legs(9)) == set(new.legs.values_list("pk", flat=True))
    row = CostState.objects.get(name="legs")
    row.value = {**row.value, "whole": (timezone.now() - timedelta(hours=2)).isoformat()}
    row.save()
    assert set(rollups.due_legs(9)) == {leg.pk for one in (old, new) for leg in one.legs.all()}


def test_the_money_per_unit_of_verified_progress_and_the_forecast() -> None:
    relay = winning_relay(4)
    policy = {**relay.policy, "envelope": {**relay.policy.get("envelope", {}), "spend": "40", "legs": 10}}
    Relay.objects.filter(pk=relay.pk).update(progress_total=8, policy=policy, legs_used=4)
    refresh.step()
    row = Comparison.objects.get()
    relay.refresh_from_db()
    assert row.progress["units"] == 8
    assert row.money_per_unit is not None
    assert row.money_per_unit * 8 == pytest.approx(relay.spend_used, abs=Decimal("1e-9"))
    assert row.tokens_per_unit == sum(row.observed["tokens"].values()) // 8
    axes = {one["axis"]: one for one in row.forecast}
    assert axes["legs"]["legs_left"] == 6
    assert axes["spend"]["legs_left"] == int((40 - relay.spend_used) / (relay.spend_used / 4))
    assert axes["legs"]["progress_left"] == 12


def test_without_verified_progress_or_limits_nothing_is_said() -> None:
    winning_relay(2)
    refresh.step()
    row = Comparison.objects.get()
    assert (row.money_per_unit, row.tokens_per_unit, row.forecast) == (None, None, [])
    assert row.forecast_why


def test_of_a_very_long_relay_the_newest_calls_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    from relays.costs import streams

    monkeypatch.setattr(streams, "MOST_CALLS", 60)
    relay = winning_relay(5)
    refresh.step()
    row = Comparison.objects.get(relay=relay)
    assert row.observed["left_out"] == 3 * 26
    assert row.observed["calls"] == 5 * 26
    assert row.observed["events"] == 1
    assert len(row.legs) == 5


def test_the_number_of_queries_does_not_grow_with_the_legs() -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    counts = []
    for legs in (2, 6):
        relay = winning_relay(legs)
        rollups.cut_legs(rollups.due_legs_of(relay.pk))
        with CaptureQueriesContext(
            connection,
        ) as seen:
            refresh.compute_relay(relay)
        counts.append(len(seen))
    assert counts[0] == counts[1]


def test_a_session_without_calls_is_never_due() -> None:
    make_session(first_at=datetime(2026, 5, 1, tzinfo=UTC))
    assert refresh.due_sessions(5) == []


def test_legs_of_a_site_that_was_never_looked_at_are_cut_together(django_assert_max_num_queries: Any) -> None:
    relay = make_relay()
    for number in range(20):
        add_leg(relay, number, [20_000, 30_000], effect=1)
    with django_assert_max_num_queries(600):  # one by one: more than 700
        assert refresh.bring_up()
    assert DayCost.objects.filter(relay=relay).aggregate(n=Sum("calls"))["n"] == 40
