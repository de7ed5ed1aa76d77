"""The flat-context graph: no peak is lost on the way from the records to the figure."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.charts import flat as chart
from relays.models import Boundary, Leg
from relays.reports import flat
from relays.reports.flat import POINTS, Point, reduced, spread
from tests.report_builders import Story
from tests.web_builders import make_leg, make_relay

values = st.lists(st.integers(0, 250_000), max_size=400)


@given(values, st.integers(4, 60))
def test_reduction_keeps_every_buckets_minimum_and_maximum(numbers: list[int], limit: int) -> None:
    kept = reduced(list(enumerate(numbers)), numbers, limit)
    assert len(kept) <= max(limit, 0)
    assert kept == sorted(kept)  # in their order, none twice
    assert set(kept) <= set(enumerate(numbers))  # nothing is made up
    if len(numbers) > limit:
        buckets = (limit - 2) // 2
        for bucket in range(buckets):
            low, high = bucket * len(numbers) // buckets, (bucket + 1) * len(numbers) // buckets
            drawn = [value for index, value in kept if low <= index < high]
            assert min(drawn) == min(numbers[low:high])
            assert max(drawn) == max(numbers[low:high])
        assert {kept[0][0], kept[-1][0]} == {0, len(numbers) - 1}
    else:
        assert [value for _, value in kept] == numbers


@given(st.lists(values.filter(bool), min_size=1, max_size=12), st.integers(60, 300))
def test_spread_keeps_the_peak_of_every_leg_while_there_is_room(legs: list[list[int]], limit: int) -> None:
    lines, x = [], 0
    for numbers in legs:
        lines.append([Point(x + turn, turn, value) for turn, value in enumerate(numbers, start=1)])
        x += len(numbers)
    drawn = spread(lines, limit)
    assert sum(len(points) for points in drawn) <= max(limit, 0)
    everything = [value for numbers in legs for value in numbers]
    assert max(point.tokens for points in drawn for point in points) == max(everything)
    assert min(point.tokens for points in drawn for point in points) == min(everything)
    if len(legs) * 8 <= limit:
        for points, numbers in zip(drawn, legs, strict=True):
            assert max(point.tokens for point in points) == max(numbers)


@given(st.integers(600, 900))
def test_spread_of_more_legs_than_points_keeps_the_highest(legs: int) -> None:
    lines = [[Point(2 * n + 1, 1, 20_000), Point(2 * n + 2, 2, 100_000 + n * 7919 % 5000)] for n in range(legs)]
    drawn = spread(lines, 200)
    assert sum(len(points) for points in drawn) <= 200
    assert max(p.tokens for line in drawn for p in line) == max(p.tokens for line in lines for p in line)


@pytest.mark.django_db
def test_drawn_maximum_is_the_true_maximum_and_names_leg_and_turn() -> None:
    relay = make_relay()
    make_leg(relay, 0, resident=[20_000 + n % 97 for n in range(6_000)], reason="RELAY_ROTATED")
    resident = [30_000] * 3_000
    resident[1_777] = 178_613
    make_leg(relay, 1, resident=resident, reason="RELAY_PARKED_UNSAFE", peak_turn=1_778)
    data = flat.flat(relay.pk)
    assert (data.turns, data.read, data.from_rollups) == (9_000, 9_000, False)
    assert data.drawn <= POINTS
    assert data.peak is not None
    assert (data.peak.number, data.peak.peak) == (1, 178_613)

    figure = chart.figure(data).plain()
    best = max(
        (y, who)
        for trace in figure["data"]
        if trace.get("customdata")
        for y, who in zip(trace["y"], trace["customdata"], strict=True)
        if y is not None
    )
    assert best == (178_613, [1, 1_778, 0, 0, 0, ""])
    assert "178,613" in chart.alternative(data)


@pytest.mark.django_db
def test_a_relay_of_very_many_turns_is_drawn_from_roll_ups(
    monkeypatch: pytest.MonkeyPatch, django_assert_max_num_queries
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(flat, "READ", 20)
    relay = make_relay()
    for number in range(10):
        make_leg(relay, number, resident=[20_000, 110_000 + number, 60_000], reason="RELAY_ROTATED", peak_turn=2)
    with django_assert_max_num_queries(3):
        data = flat.flat(relay.pk)
    assert data.from_rollups
    assert [leg.peak for leg in data.legs] == [110_000 + number for number in range(10)]
    assert [[(point.turn, point.tokens) for point in leg.points] for leg in data.legs][0] == [(2, 110_000), (3, 60_000)]


@pytest.mark.django_db
def test_colours_are_names_of_the_stylesheet_and_legs_alternate(tmp_path: Path) -> None:
    story = Story(tmp_path / "repo", issues=4)
    story.leg(turns=4)
    story.leg(turns=4, holds=("RELAY_NOT_EXTERNALIZED",))
    story.leg(turns=4, peak=178_000, reason="RELAY_PARKED_UNSAFE", cause="ceiling", made=False)
    figure = json.loads(json.dumps(chart.figure(flat.flat(story.relay.pk)).plain()))
    css = (Path(__file__).parents[2] / "static/relays/app.css").read_text()

    def colours(value: object) -> set[str]:
        if isinstance(value, dict):
            return {text for inner in value.values() for text in colours(inner)}
        if isinstance(value, list):
            return {text for inner in value for text in colours(inner)}
        return {value} if isinstance(value, str) and ("var(" in value or value.startswith(("#", "rgb("))) else set()

    used = colours(figure)
    assert used
    assert all(colour.startswith("var(--rs-") and f"{colour[4:-1]}:" in css for colour in used)
    assert [trace["name"] for trace in figure["data"][:3]] == ["leg-a", "leg-b", "gate"]
    held = next(trace for trace in figure["data"] if trace.get("marker", {}).get("symbol") == "line-ns-open")
    assert held["text"] == ["leg 1 held: RELAY_NOT_EXTERNALIZED"]


@pytest.mark.django_db
def test_turns_csv_names_each_turns_hold() -> None:
    relay = make_relay()
    leg = make_leg(relay, 0, resident=[20_000, 21_000])
    Boundary.objects.create(
        leg=leg,
        number=0,
        seq=1,
        turn=2,
        at=relay.created_at,
        resident_tokens=21_000,
        hold="NO_NEXT_ACTION",
        answer="go",
    )
    rows = list(flat.turns_csv(relay.pk))
    assert rows[0][:3] == ("leg", "turn of leg", "resident tokens")
    assert [row[:3] + row[4:6] for row in rows[1:]] == [(0, 1, 20_000, "", ""), (0, 2, 21_000, "NO_NEXT_ACTION", "go")]


@pytest.mark.django_db
def test_an_empty_relay_draws_nothing_and_says_so() -> None:
    relay = make_relay()
    Leg.objects.create(relay=relay, number=0, trace="tr-empty")
    data = flat.flat(relay.pk)
    assert data.legs == ()
    assert chart.figure(data).plain()["data"] == []
    assert chart.alternative(data) == "No turn is recorded yet."
