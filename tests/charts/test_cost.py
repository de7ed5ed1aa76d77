"""The figures of cost: what they draw of wins, losses and extremes, and that nothing is made prettier."""

import json
from decimal import Decimal
from typing import Any

import pytest

from relays.charts import cost, fleet_cost
from relays.reports.compared import Bust, Faithful, LegMoney, Sensitive, Series
from relays.reports.fleet_cost import DayRow, Sums


def leg(n: int, money: str = "1", peak: int | None = 100_000) -> LegMoney:
    return LegMoney(n, None, 10, Decimal(0), Decimal(money), Decimal("0.1"), Decimal("0.2"), 0, peak)


def sensitive(name: str, low: str, high: str) -> Sensitive:
    return Sensitive(name, "tokens", 1, 2, Decimal(low), Decimal(high), None)


def texts(figure: dict[str, Any], name: str = "wide") -> list[str]:
    return [one["text"] for one in figure["layout"]["annotations"] if one["name"] == name]


def test_every_figure_is_json_with_colours_of_the_sheet_alone() -> None:
    series = Series((1, 5), (0.1, 2.0), (0.1, 3.0), (0.1, 2.5), (0.1, 4.0))
    drawn = [
        cost.cumulative(series, "compaction", "relay", "call"),
        cost.cumulative(Series(), "compaction", "relay", "call"),
        cost.tornado([sensitive("a", "-1", "2")], Decimal(1), {"a": "words"}),
        cost.break_even([(0, Decimal(4)), (80_000, Decimal(-4))], 20_000, 40_000),
        cost.per_leg([leg(0)]), cost.busts([Bust(1, 4, 5_000)], "rotation"), cost.peaks([leg(0)], 5, "leg", "x"),
        cost.faithful(Faithful("not yet", "", (("what", None, 0), ("other", 0.5, 6)))),
    ]  # fmt: skip
    for figure in drawn:
        text = json.dumps(figure.plain(), allow_nan=False)
        assert "#" not in text and "null" not in json.dumps(figure.plain()["layout"])


def test_the_side_where_the_relay_loses_is_drawn_like_the_other() -> None:
    figure = cost.tornado([sensitive("a", "-9", "2"), sensitive("b", "0.5", "1")], Decimal(1), {"a": "A", "b": "B"})
    plain = figure.plain()
    low, high = plain["layout"]["xaxis"]["range"]
    assert low < -9 and high > 2
    assert "−$9.00" in texts(plain) and "$2.00" in texts(plain)
    assert [line["x0"] for line in plain["layout"]["shapes"]] == [0.0, 1.0], "zero, and where it stands now"


def test_the_break_even_is_marked_only_where_it_is() -> None:
    line = [(0, Decimal(4)), (40_000, Decimal(0)), (80_000, Decimal(-4))]
    assert texts(cost.break_even(line, 20_000, 40_000).plain()) == ["now 20k", "break-even 40k"]
    assert texts(cost.break_even(line, None, None).plain()) == []
    assert texts(cost.break_even(line, 900_000, 40_000).plain()) == ["break-even 40k"], "what is outside has no mark"


@pytest.mark.parametrize("end", ["-250", "-9"])
def test_a_leg_that_begins_at_its_mark_does_not_flatten_the_rest(end: str) -> None:
    figure = cost.break_even([(0, Decimal(8)), (90_000, Decimal(0)), (130_000, Decimal(end))], None, 90_000).plain()
    assert ("range" in figure["layout"]["yaxis"]) == (end == "-250")
    assert figure["data"][0]["y"][-1] == float(end), "the point itself is kept"


def test_at_most_4000_points_whatever_the_number_of_legs() -> None:
    legs = [leg(n) for n in range(cost.MOST_BARS)]
    assert sum(len(trace["x"]) for trace in cost.per_leg(legs).data) <= 4_000
    assert len(cost.peaks(legs, None, "leg", "x").data[0]["x"]) <= 4_000


def test_a_leg_that_stands_for_many_says_so() -> None:
    many = LegMoney(4, 7, 10, Decimal(0), Decimal(1), Decimal(0), Decimal(0), 0, 9)
    assert cost.per_leg([many]).data[0]["customdata"] == ["4 to 7"]


def test_small_money_does_not_read_as_none() -> None:
    assert [cost.dollars(value) for value in (0, 0.004, -0.05, 12.345)] == ["$0.00", "$0.0040", "−$0.050", "$12.35"]


def test_days_stack_the_dearest_models_and_name_the_rest_as_one() -> None:
    from datetime import date

    models = {f"m{n}": (n + 1) * 10**10 for n in range(8)}
    row = DayRow(date(2026, 3, 1), Sums(8, 0, sum(models.values())), Sums(), models)
    assert [name for name, _ in fleet_cost.models_of([row])] == ["m7", "m6", "m5", "m4", "m3", ""]
    figure = fleet_cost.figure([row])
    assert sum(trace["y"][0] for trace in figure.data) == pytest.approx(36)
    assert "2026-03-01 with $36.00" in fleet_cost.alternative([row])
    first, last = figure.layout["xaxis"]["range"]
    assert first < "2026-02-24" and last.startswith("2026-03-01"), "one day is a bar and no wall"
