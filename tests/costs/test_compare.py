"""A relay may win and may lose, and says so in words; the same figures twice are the same."""

from decimal import Decimal

import pytest

from relays.costs import refresh, rollups, streams
from relays.models import Boundary, Comparison, Leg, PriceRow, Relay, StoredWork
from relays.reports import status
from tests.costs.relays import add_leg, losing_relay, winning_relay
from tests.report_builders import make_relay
from tests.session_builders import add_calls, make_session, make_story

pytestmark = pytest.mark.django_db


def compared(relay: Relay) -> Comparison:
    rollups.cut_legs(rollups.due_legs_of(relay.pk))
    return refresh.compute_relay(relay)


def test_a_relay_that_reads_everything_again_has_lost() -> None:
    relay = losing_relay()
    row = compared(relay)
    assert row.verdict == "dearer"
    assert row.saving is not None
    assert row.saving < 0
    assert row.saving_high is not None
    assert row.saving_high < 0
    assert "the relay lost" in row.verdict_why
    line = status.verdict_lines(relay)["cheaper"]
    assert line.verdict == "violated"
    assert "lost" in line.what
    assert status.status(relay.pk)["verdicts"]["cheaper"] == "violated"


def test_a_relay_that_begins_light_is_cheaper() -> None:
    relay = winning_relay()
    row = compared(relay)
    assert row.verdict == "cheaper", row.verdict_why
    assert row.saving_low is not None
    assert row.saving_low > 0
    assert status.verdict_lines(relay)["cheaper"].verdict == "holds"
    assert row.baselines[0]["policy"] == "compaction"
    assert row.baselines[0]["events"] > 0
    low, high = (Decimal(edge) for edge in row.baselines[0]["band"])
    assert low <= Decimal(row.baselines[0]["cost"]) <= high


def test_orientation_is_measured_from_the_legs() -> None:
    row = compared(losing_relay(4))
    assert row.orientation == {"n": 3, "median": 71_500, "values": [[1, 71_500], [2, 71_500], [3, 71_500]]}
    parameters = row.baselines[0]["parameters"]
    # what a compaction would make it read again was not measured: "20,000 tokens where nothing is measured"
    assert parameters["reread"]["value"] == 20_000
    assert parameters["reread"]["provenance"] == "ASSUMED"


def test_an_agent_that_only_commits_is_measured_by_its_branch() -> None:
    """It says nothing of its durable effects: the branch that stands elsewhere at a boundary shows the first one."""
    relay = make_relay()
    for number in range(3):
        leg = add_leg(relay, number, [20_000, 60_000, 61_000, 62_000])
        Leg.objects.filter(pk=leg.pk).update(cursor_sha="a" * 40)
        for turn in range(1, 5):
            tip = ("a" if turn < 3 else "b") * 40
            Boundary.objects.filter(leg=leg, turn=turn).update(decision={"tip": tip})
    assert compared(relay).orientation == {"n": 2, "median": 41_000, "values": [[1, 41_000], [2, 41_000]]}


def test_a_relay_that_did_nothing_durable_is_not_called_cheap() -> None:
    """cost.md: "cheap and idle is not cheap"."""
    relay = make_relay()
    for number in range(4):
        add_leg(relay, number, [20_000, 90_000, 125_000])
    row = compared(relay)
    assert row.verdict == "not yet"
    assert row.verdict_why == "no leg did anything durable that is recorded: there is no work to compare"


def test_a_commit_that_no_boundary_saw_counts_at_the_end() -> None:
    relay = make_relay()
    for number in range(2):
        leg = add_leg(relay, number, [20_000, 60_000])
        Boundary.objects.filter(leg=leg).update(decision={"tip": "a" * 40})
        Leg.objects.filter(pk=leg.pk).update(end_decision={"tip": "b" * 40} if number else None)
    assert compared(relay).orientation == {"n": 1, "median": 40_000, "values": [[1, 40_000]]}


def test_what_the_legs_read_again_is_no_work_of_a_compacting_session() -> None:
    relay = losing_relay(3)
    rollups.cut_legs(rollups.due_legs_of(relay.pk))
    stream = streams.of_relay(relay).stream
    assert stream is not None
    assert stream.cuts == (6, 12)
    assert stream.reread == (71_500, 71_500)
    grown = sum(step.new for step in stream.work.steps)
    bare = sum(step.new for step in stream.without_reread().work.steps)
    assert grown - bare == 2 * 71_500


def test_the_money_of_the_legs_by_bucket_is_the_observed_cost() -> None:
    row = compared(winning_relay(3))
    parts = sum(Decimal(leg[name]) for leg in row.legs for name in ("input", "cache_read", "cache_write", "output"))
    assert parts == Decimal(row.observed["cost"])
    assert sum(leg["calls"] for leg in row.legs) == row.observed["calls"] == 78
    assert Decimal(row.series["observed"][-1]) == Decimal(row.observed["cost"])


def test_a_boundary_is_placed_at_the_leg_that_it_ended() -> None:
    relay = make_relay()
    for number, residents in enumerate(([24_000, 60_000, 121_000], [24_000, 50_000], [24_000])):
        add_leg(relay, number, residents)
    found = compared(relay)
    assert [(one["leg"], one["turn"]) for one in found.busts] == [(0, 3), (1, 2)]


def test_sub_agents_cost_the_same_on_both_sides() -> None:
    relay = winning_relay(4)
    before = compared(relay)
    leg = relay.legs.get(number=2)
    leg.call_rows.create(
        key="sub", turn=3, model="claude-opus-4-5", main=False, cache_write_5m=100_000, output_tokens=5_000,
        at=leg.started_at,
    )  # fmt: skip
    after = compared(relay)
    more = Decimal(after.observed["cost"]) - Decimal(before.observed["cost"])
    assert more > 0
    assert Decimal(after.baselines[0]["cost"]) - Decimal(before.baselines[0]["cost"]) == more
    assert (after.saving, after.verdict) == (before.saving, before.verdict)
    assert after.observed["peak_tokens"] == before.observed["peak_tokens"]


def test_calls_of_several_models_are_priced_each_by_its_own() -> None:
    relay = make_relay()
    add_leg(relay, 0, [20_000, 24_000, 28_000], effect=2)
    add_leg(relay, 1, [21_000, 25_000, 29_000], effect=2, model="claude-haiku-4-5")
    row = compared(relay)
    assert row.prices["models"] == 2
    opus, haiku = (sum(Decimal(leg[name]) for name in ("cache_read", "cache_write", "output")) for leg in row.legs)
    assert opus > 3 * haiku > 0


def test_a_model_without_a_price_is_unpriced_and_never_0() -> None:
    relay = winning_relay(2)
    add_leg(relay, 2, [20_000, 24_000], effect=2, model="nobody-knows-1")
    row = compared(relay)
    assert row.verdict == "not yet"
    assert "nobody-knows-1" in row.verdict_why
    assert row.observed["unpriced"] == 2
    assert row.baselines[0]["cost"] is None
    assert row.saving is None


def test_sub_agents_without_a_price_make_the_total_partial_and_keep_the_verdict() -> None:
    relay = winning_relay(4)
    leg = relay.legs.get(number=2)
    leg.call_rows.create(key="sub", turn=3, model="nobody-knows-1", main=False, output_tokens=5, at=leg.started_at)
    row = compared(relay)
    assert row.observed["unpriced"] == 1
    assert row.observed["unpriced_models"] == ["nobody-knows-1"]
    assert row.verdict == "cheaper"


def test_the_scripted_workers_figures_say_nothing_of_money() -> None:
    relay = make_relay()
    for number in range(3):
        add_leg(relay, number, [20_000, 70_000, 120_000], effect=2, model="scripted", scripted=True)
    row = compared(relay)
    assert row.scripted
    assert row.verdict == "not yet"
    assert row.observed["cost"] is None


def test_one_leg_says_nothing_yet() -> None:
    relay = make_relay()
    add_leg(relay, 0, [20_000, 30_000, 40_000], effect=2)
    row = compared(relay)
    assert (row.verdict, row.verdict_why) == ("not yet", "no leg was followed by another one yet")


def test_computing_twice_changes_nothing_but_the_time() -> None:
    relay = winning_relay(3)
    first = compared(relay)
    again = compared(relay)
    assert first.pk == again.pk
    for field in Comparison._meta.concrete_fields:
        if field.name not in ("computed_at", "took_ms"):
            assert getattr(first, field.name) == getattr(again, field.name), field.name
    assert StoredWork.objects.count() == 1
    assert len(StoredWork.objects.get().steps) == 78


def test_a_session_is_compared_with_a_relay() -> None:
    session, _ = make_story()
    row = refresh.compute_session(session)
    assert [one["policy"] for one in row.baselines][:2] == ["relay", "compaction"]
    assert row.observed["events"] == 1
    assert row.progress == {}


def test_where_the_file_lacks_the_compactions_own_call_the_verdict_says_so() -> None:
    session, _ = make_story()
    price = PriceRow.objects.create(
        digest="d", model="m", provider="p", source="site",
        rates={"input": "5", "cache_read": "0.5", "cache_write_5m": "6.25", "output": "25"},
    )  # fmt: skip
    session.call_rows.update(price=price)
    row = refresh.compute_session(session)
    assert row.baselines[0]["cost"] is not None
    assert row.verdict_why.endswith("its file lacks 1 of the compactions' own calls: they are left out")


def test_a_window_that_shrank_for_no_recorded_reason_has_no_verdict() -> None:
    session = make_session()
    add_calls(session, [*range(20_000, 80_000, 2_000), *range(30_000, 70_000, 2_000)])
    price = PriceRow.objects.create(
        digest="d", model="m", provider="p", source="site",
        rates={"input": "5", "cache_read": "0.5", "cache_write_5m": "6.25", "output": "25"},
    )  # fmt: skip
    session.call_rows.update(price=price)
    row = refresh.compute_session(session)
    assert row.verdict == "not yet"
    assert row.verdict_why.startswith("its window shrank once without a record of why")


def test_a_session_whose_window_is_not_known_says_so() -> None:
    session, _ = make_story()
    session.window_tokens = None
    session.save()
    row = refresh.compute_session(session)
    assert (row.verdict, row.why) == ("not yet", "the window of its model is not known")
    assert row.observed["calls"] == 60


def test_what_a_leg_does_only_to_hand_over_is_no_work_of_a_compacting_session() -> None:
    """A summary's call is charged to compaction; the call that winds a leg down is charged to the relay alone."""

    def made(*, hands_over: bool) -> Comparison:
        relay = make_relay()
        for number in range(4):
            residents = [20_000, *(60_000 + 4_000 * step for step in range(12))]
            more = [residents[-1] + 400] if hands_over else []
            leg = add_leg(relay, number, [*residents, *more], effect=2)
            if hands_over:
                asked = Boundary.objects.filter(leg=leg, turn=len(residents))
                asked.update(answer="wind_down RELAY_NOT_EXTERNALIZED")
        return compared(relay)

    without, handed = made(hands_over=False), made(hands_over=True)
    more = Decimal(handed.observed["cost"]) - Decimal(without.observed["cost"])
    assert more > Decimal("0.2")
    assert handed.observed["carrying_calls"] == 4
    assert handed.observed["peak_tokens"] == 104_400
    assert handed.baselines[0]["cost"] == without.baselines[0]["cost"]
    assert without.saving is not None
    assert handed.saving == without.saving - more
    # what is drawn ends at what was paid
    assert Decimal(handed.series["observed"][-1]) == Decimal(handed.observed["cost"])
