"""The figure of the flat-context graph: which leg has which colour, what is on the event lane, where the limits are."""

import json
from dataclasses import replace
from typing import Any

import pytest

from relays.charts import flat as chart
from relays.reports.flat import Flat, LegLine, Mark, Point

WINDOW, CEILING, MARK = 200_000, 180_000, 120_000


def leg(number: int, start: int, tokens: list[int], reason: str = "RELAY_ROTATED", ceiling: int = CEILING) -> LegLine:
    points = tuple(Point(start + turn, turn, value) for turn, value in enumerate(tokens, start=1))
    peak = max(tokens)
    return LegLine(
        number=number,
        start=start,
        turns=len(tokens),
        first=tokens[0],
        peak=peak,
        peak_turn=tokens.index(peak) + 1,
        mark=MARK,
        ceiling=ceiling,
        window=WINDOW,
        reason=reason,
        parked=reason == "RELAY_PARKED_UNSAFE",
        points=points,
        odd=bool(number % 2),
    )


def flat(*legs: LegLine, marks: tuple[Mark, ...] = ()) -> Flat:
    points = sum(len(one.points) for one in legs)
    return Flat(legs, marks, sum(one.turns for one in legs), points, points, from_rollups=False, scripted=True)


MARKS = (
    Mark(3, 0, "RELAY_ROTATED", "drain", "disc", held=False),
    Mark(5, 1, "RELAY_ROTATED", "drain", "disc", held=False),
    Mark(8, 2, "RELAY_PARKED_UNSAFE", "gate", "octagon", held=False),
    Mark(7, 2, "TREE_DIRTY_UNPARKED", "stale", "diamond", held=True),
)
#: two legs that rotated, then one that parked
THREE = flat(
    leg(0, 0, [20_000, 70_000, 121_000]),
    leg(1, 3, [21_000, 125_000]),
    leg(2, 5, [22_000, 90_000, 178_613], "RELAY_PARKED_UNSAFE"),
    marks=MARKS,
)


def no_number(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


def drawn(data: Flat) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(chart.figure(data).plain()), parse_constant=no_number)
    return found


def traces(figure: dict[str, Any], *names: str) -> list[dict[str, Any]]:
    return [trace for trace in figure["data"] if trace["name"] in names]


def texts(figure: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
    return {one["text"]: one for one in figure["layout"]["annotations"] if one["name"] == name}


def test_legs_alternate_in_colour_and_a_parked_one_has_the_gates() -> None:
    first, second, parked = traces(drawn(THREE), "leg-a", "leg-b", "gate")[:3]
    assert [one["line"]["color"] for one in (first, second, parked)] == [
        "var(--rs-leg-a)",
        "var(--rs-leg-b)",
        "var(--rs-gate)",
    ]
    assert (first["x"], first["y"]) == ([1, 2, 3], [20_000, 70_000, 121_000])
    assert (second["x"], second["y"]) == ([4, 5], [21_000, 125_000])
    assert (parked["x"], parked["y"]) == ([6, 7, 8], [22_000, 90_000, 178_613])
    assert parked["customdata"] == [[2, 1, ""], [2, 2, ""], [2, 3, ""]]


def test_a_goal_without_a_turn_says_so_instead_of_drawing_an_axis_of_nothing() -> None:
    figure = drawn(flat())
    assert list(texts(figure, "instead")) == ["No turn is recorded yet; the graph grows with the first leg."]
    assert figure["layout"]["yaxis"]["tickvals"] == [] and not figure["layout"]["xaxis"]["showticklabels"]
    assert not texts(drawn(THREE), "instead") and drawn(THREE)["layout"]["xaxis"]["showticklabels"]


def test_two_legs_of_one_colour_are_not_joined() -> None:
    four = flat(*(leg(number, 2 * number, [20_000, 30_000 + number]) for number in range(4)))
    first, second = traces(drawn(four), "leg-a", "leg-b")
    assert (first["x"], first["y"]) == ([1, 2, None, 5, 6], [20_000, 30_000, None, 20_000, 30_002])
    assert second["customdata"] == [[1, 1, ""], [1, 2, ""], None, [3, 1, ""], [3, 2, ""]]
    assert first["mode"] == "lines"


def test_a_live_page_knows_up_to_which_turn_the_line_is_drawn() -> None:
    assert drawn(THREE)["layout"]["meta"]["live"]["x"] == 8
    begun = replace(leg(0, 0, [20_000, 70_000]), reason="", turns=3)  # the third turn has no call yet
    assert drawn(flat(begun))["layout"]["meta"]["live"]["x"] == 2
    nothing = replace(begun, number=1, start=1, points=())
    assert drawn(flat(leg(0, 0, [20_000]), nothing))["layout"]["meta"]["live"]["x"] == 1
    assert drawn(flat())["layout"]["meta"]["live"]["x"] == 0


def test_a_leg_of_one_turn_is_a_point() -> None:
    (only,) = traces(drawn(flat(leg(0, 0, [20_000]))), "leg-a")
    assert (only["x"], only["mode"]) == ([1], "lines+markers")


def test_ends_and_holds_lie_on_one_lane_under_the_axis() -> None:
    figure = drawn(THREE)
    lane = [trace for trace in figure["data"] if trace["mode"] == "markers"]
    (height,) = {y for trace in lane for y in trace["y"]}
    low, _ = figure["layout"]["yaxis"]["range"]
    assert low < height < 0
    assert texts(figure, "wide")["0"]["y"] > height, "leg numbers stand above the events"
    assert [(trace["marker"]["symbol"], trace["x"], trace["text"]) for trace in lane] == [
        ("line-ns-open", [7], ["leg 2 held: TREE_DIRTY_UNPARKED"]),  # first: an end is drawn over a hold
        ("circle", [3, 5], ["leg 0 ended: RELAY_ROTATED", "leg 1 ended: RELAY_ROTATED"]),
        ("octagon", [8], ["leg 2 ended: RELAY_PARKED_UNSAFE"]),
    ]
    assert [trace["marker"]["color"] for trace in lane] == ["var(--rs-ink-2)", "var(--rs-drain)", "var(--rs-gate)"]


def test_the_legend_explains_each_kind_of_mark_once() -> None:
    named = chart.events_named(THREE)
    assert len(named) == len({(tone, shape) for tone, shape, _ in named}) == 3
    assert ("hold", "bar", "held boundary") in named
    assert [words for tone, _, words in named if tone == "gate"] == ["parked, or a person asked"]


def test_window_ceiling_and_mark_are_lines_with_their_figures() -> None:
    figure = drawn(THREE)
    levels = {trace["name"]: trace for trace in traces(figure, "window", "ceiling", "mark")}
    assert {name: set(trace["y"]) for name, trace in levels.items()} == {
        "window": {WINDOW},
        "ceiling": {CEILING},
        "mark": {MARK},
    }
    assert all(trace["x"][0] == 0 and trace["x"][-1] > THREE.turns for trace in levels.values())
    assert levels["mark"]["line"]["dash"] == "dash"
    labels = texts(figure, "wide")
    assert {text: labels[text]["y"] for text in labels if labels[text]["y"] in (WINDOW, CEILING, MARK)} == {
        "window 200k": WINDOW,
        "ceiling 180k · 90 %": CEILING,
        "soft mark 120k · 60 %": MARK,
    }
    assert "leg 2 parked, peak 178,613" in labels


def test_a_limit_steps_where_a_leg_had_another_one() -> None:
    (ceiling,) = traces(drawn(flat(leg(0, 0, [1, 2]), leg(1, 2, [1, 2], ceiling=150_000))), "ceiling")
    assert ceiling["x"][:3] == [0, 2.5, 2.5]
    assert ceiling["y"] == [CEILING, CEILING, 150_000, 150_000]


def test_a_peak_over_the_window_stays_in_the_figure() -> None:
    low, high = drawn(flat(leg(0, 0, [20_000, 260_000])))["layout"]["yaxis"]["range"]
    assert low < 0 and high > 260_000


def test_a_short_axis_has_no_half_turns() -> None:
    assert drawn(THREE)["layout"]["xaxis"]["dtick"] == 1
    assert drawn(flat(leg(0, 0, [20_000] * 40)))["layout"]["xaxis"].get("dtick") is None


@pytest.mark.parametrize("data", [THREE, flat()], ids=["three legs", "nothing"])
def test_it_is_strict_json(data: Flat) -> None:
    assert set(drawn(data)) >= {"data", "layout"}


def test_the_sentence_names_the_highest_peak_and_the_parked_leg() -> None:
    said = chart.alternative(THREE)
    assert "over 3 legs and 8 turns" in said
    assert "178,613 of a ceiling of 180,000, in leg 2 at its turn 3. Parked: leg 2." in said
