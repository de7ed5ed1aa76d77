"""The figure of a session's window: observed apart from simulated, measured apart from declared, copies lighter."""

import json
from typing import Any

import pytest

from relays.charts import session as chart
from relays.models import Session, SessionBoundary
from relays.reports.as_relay import as_relay
from relays.reports.session import Graph, Point

STORED = {
    "mark": 120_000,
    "rotations": 1,
    "legs": 2,
    "peak": 121_000,
    "points": [[1, 24_000, 0], [4, 42_000, 0]],
    "why": "",
}


def graph(points: list[Point], *boundaries: SessionBoundary, window: int | None = 200_000, **values: Any) -> Graph:
    made: dict[str, Any] = {
        "calls": len(points),
        "points": tuple(points),
        "would": as_relay(Session(shadow=STORED)),
        "simulated": ((1, 24_000), (4, 42_000)),
        "boundaries": boundaries,
        "window": window,
        "rotate_at": (2,),
        **values,
    }
    return Graph(**made)


def boundary(**values: Any) -> SessionBoundary:
    made = {"after_call": 3, "trigger": "auto", "declared_pre": 167_009, "declared_post": 17_692, **values}
    return SessionBoundary(**made)


MEASURED = boundary(measured_before=166_408, measured_after=64_513)
LINE = [Point(1, 24_000, True), Point(2, 90_000, True), Point(3, 166_408), Point(4, 64_513)]


def drawn(data: Graph) -> dict[str, dict[str, Any]]:
    figure = json.loads(chart.figure(data).to_json(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    return {trace["name"]: trace for trace in figure["data"]} | {"layout": figure["layout"]}


def test_what_the_page_gets_is_the_figure_that_the_library_checked() -> None:
    for data in (graph(LINE, MEASURED), graph([]), graph(LINE, window=None, simulated=(), rotate_at=())):
        checked = json.loads(chart.figure(data).to_json())
        assert checked["layout"].pop("template", {}) is not None
        assert json.loads(json.dumps(chart.drawn(data))) == checked


def test_copied_calls_are_a_lighter_line_that_joins_the_own_one() -> None:
    traces = drawn(graph(LINE))
    assert traces["copied"]["x"] == [1, 2] and traces["copied"]["opacity"] < 1
    assert traces["observed"]["x"] == [None, 2, 3, 4] and traces["observed"]["y"][1:] == [90_000, 166_408, 64_513]


def test_the_simulated_line_is_dashed_and_behind() -> None:
    figure = chart.figure(graph(LINE))
    assert figure.data[0].name == "as a relay" and figure.data[0].line.dash
    assert "as a relay" not in drawn(graph(LINE, simulated=()))


def test_declared_and_measured_figures_are_never_one_mark() -> None:
    traces = drawn(graph(LINE, MEASURED))
    assert traces["measured"]["x"] == [3.5, 3.5, None] and traces["measured"]["y"] == [166_408, 64_513, None]
    assert traces["declared"]["y"] == [167_009, 17_692] and traces["declared"]["marker"]["symbol"] == "diamond-open"
    only = drawn(graph(LINE, boundary(declared_post=None, trigger="unknown")))
    assert "measured" not in only and only["declared"]["y"] == [167_009]
    assert only["declared"]["text"] == ["compaction after call 3: 167,009 before"]
    assert "declared" not in drawn(graph(LINE, boundary(declared_pre=None, declared_post=None)))


def test_window_mark_and_would_be_rotations_are_drawn_where_they_are_known() -> None:
    traces = drawn(graph(LINE))
    assert traces["window"]["y"] == [200_000, 200_000] and traces["mark"]["y"] == [120_000, 120_000]
    assert traces["would rotate"]["x"] == [2] and traces["would rotate"]["y"][0] < 0
    blind = drawn(graph(LINE, window=None, would=as_relay(Session()), rotate_at=(), simulated=()))
    assert not {"window", "mark", "would rotate", "as a relay"} & set(blind)


def test_a_peak_over_the_window_and_an_empty_session_are_drawn_too() -> None:
    assert drawn(graph([Point(1, 231_000)]))["layout"]["yaxis"]["range"][1] > 231_000
    empty = graph([], window=None, would=as_relay(Session()), simulated=(), rotate_at=())
    assert drawn(empty) and chart.alternative(empty) == "No main call was read yet."


def test_it_is_told_in_a_sentence() -> None:
    words = chart.alternative(graph(LINE, MEASURED))
    assert "highest is 166,408 of an assumed window of 200,000, at call 3; 1 compaction; as a relay 1 rotation" in words


@pytest.mark.parametrize("top", [1, 7, 999, 64_000, 200_000, 258_400, 1_048_576, 136_700_000])
def test_ticks_are_round_and_end_under_the_top(top: int) -> None:
    ticks = chart.ticks(top)
    assert 1 <= len(ticks) <= 5 and ticks[-1] <= top and ticks[0] in {n * 10**p for p in range(10) for n in (1, 2, 5)}
