"""The graph's zoom, its tail for live pages, what its marks lead to, and the baseline's window over the same work."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from relays.charts import flat as chart
from relays.charts import scores as scores_chart
from relays.models import Boundary, Call, Comparison, GateState, Relay
from relays.reports import flat, scores, timeline
from tests.reading import marked
from tests.web_builders import make_gate, make_leg, make_relay

pytestmark = pytest.mark.django_db
ClientOf = Callable[..., Client]


def two_legs() -> Relay:
    relay = make_relay()
    first = make_leg(relay, 0, resident=[20_000, 70_000, 121_000], reason="RELAY_ROTATED", peak_turn=3)
    Boundary.objects.create(
        leg=first, number=0, seq=1, turn=2, at=relay.created_at, resident_tokens=70_000, hold="NO_NEXT_ACTION",
        answer="go",
    )  # fmt: skip
    Call.objects.filter(leg=first, turn=2).update(
        input_tokens=12, cache_read=60_000, cache_write_5m=9_000, cache_write_1h=988
    )
    make_leg(relay, 1, resident=[21_000, 60_000])
    return relay


def test_a_turn_tells_its_tokens_by_bucket_and_what_held_it() -> None:
    figure = chart.figure(flat.flat(two_legs().pk)).plain()
    line = next(trace for trace in figure["data"] if trace["name"] == "leg-a")
    assert line["customdata"][1] == [0, 2, 12, 60_000, 9_988, "<br>held: NO_NEXT_ACTION"]
    assert "%{customdata[3]:,}" in line["hovertemplate"]


def test_a_zoom_shows_one_leg_at_its_place_with_its_neighbours() -> None:
    relay = two_legs()
    whole, zoomed = flat.flat(relay.pk), flat.flat(relay.pk, 1)
    assert (whole.focus, zoomed.focus, zoomed.previous, zoomed.next) == (None, 1, 0, None)
    assert [point.x for point in zoomed.legs[0].points] == [4, 5]
    low, high = chart.figure(zoomed).plain()["layout"]["xaxis"]["range"]
    assert 2 < low < 4 < 5 < high
    assert flat.flat(relay.pk, 77) == whole, "a leg that is not there is the whole goal"


def test_a_long_goal_shows_every_turn_of_the_leg_that_is_zoomed_into(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat, "READ", 4)
    relay = two_legs()
    assert flat.flat(relay.pk).from_rollups
    zoomed = flat.flat(relay.pk, 0)
    assert not zoomed.from_rollups
    assert [point.tokens for point in zoomed.legs[0].points] == [20_000, 70_000, 121_000]


def test_the_tail_keeps_its_key_until_more_than_the_newest_line_changes() -> None:
    relay = two_legs()
    data, tail = flat.flat(relay.pk), flat.tail(relay.pk)
    assert (tail.key, tail.turns, tail.leg, tail.odd) == (data.key, 5, 1, True)
    assert [(point.x, point.turn, point.tokens) for point in tail.points] == [(4, 1, 21_000), (5, 2, 60_000)]
    leg = relay.legs.get(number=1)
    Call.objects.create(leg=leg, key="one more", turn=3, resident_tokens=80_000, at=timezone.now())
    relay.legs.filter(number=1).update(turns=3, resident_tokens=80_000, peak_tokens=80_000)
    grown = flat.tail(relay.pk)
    assert (grown.key, grown.turns, grown.points[-1].x) == (tail.key, 6, 6)
    make_gate(relay, "OBJECTIVE_DRIFT", leg=leg)
    assert flat.tail(relay.pk).key != tail.key == data.key


def test_marks_lead_to_gate_baton_and_turn() -> None:
    relay = two_legs()
    now = timezone.now()
    leg = relay.legs.get(number=0)
    Call.objects.filter(leg=leg, turn=3).update(at=now + timedelta(hours=1))
    ask = make_gate(relay, "OBJECTIVE_DRIFT", leg=leg, opened_at=now + timedelta(minutes=1))
    parked = make_leg(make_relay(), 0, resident=[1, 2], reason="RELAY_PARKED_UNSAFE")
    old = make_gate(parked.relay, leg=parked, state=GateState.CONFIRMED)
    leads = {
        text: who
        for pk in (relay.pk, parked.relay_id)
        for trace in chart.figure(flat.flat(pk)).plain()["data"]
        if trace["mode"] == "markers"
        for text, who in zip(trace["text"], trace["customdata"], strict=True)
    }
    assert leads == {
        "leg 0 ended: RELAY_ROTATED": ["baton", 0],
        "leg 0 held: NO_NEXT_ACTION": ["leg", 0, 2],
        "leg 0: OBJECTIVE_DRIFT waits for a person": ["gate", ask.pk],
        "leg 0: RELAY_PARKED_UNSAFE, confirmed": ["gate", old.pk],
    }
    (asked,) = [mark for mark in flat.flat(relay.pk).marks if mark.gate == ask.pk]
    assert asked.x == 2, "at the turn that was the last one when it was asked"


def test_the_baselines_window_is_laid_over_the_same_work() -> None:
    relay = two_legs()
    assert flat.flat(relay.pk).base is None
    Comparison.objects.create(
        relay=relay,
        residency={
            "policy": "compaction", "calls": 4, "before": 1, "turns": 5, "peak": 160_000, "events": [2],
            "points": [[1, 20_000], [2, 160_000], [3, 40_000], [4, 60_000]],
        },
    )  # fmt: skip
    base = flat.flat(relay.pk).base
    assert base is not None
    assert base.points == ((2.0, 20_000), (3.0, 160_000), (4.0, 40_000), (5.0, 60_000))
    cut = flat.flat(relay.pk, 1).base
    assert cut is not None and cut.points == ((3.0, 160_000), (4.0, 40_000), (5.0, 60_000))
    drawn = chart.figure(flat.flat(relay.pk)).plain()["data"][0]
    assert (drawn["name"], drawn["visible"]) == ("baseline", False), "a viewer asks for it"


def test_scores_keep_the_worst_leg_and_tell_it_by_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "DRAWN", 6)
    relay = make_relay()
    for number in range(20):
        make_leg(
            relay, number, reason="RELAY_ROTATED", fidelity_verified=9 - (number == 7), fidelity_dangling=number == 7,
            fidelity_unknown=0, coverage_made=4, coverage_reached=4 - (number == 13),
        )  # fmt: skip
    found = scores.scores(relay.pk)
    assert found.judged == 20 and len(found.drawn) <= 6
    assert {7, 13} <= {one.leg for one in found.drawn}
    fidelity, coverage = scores_chart.figure(found).plain()["data"]
    assert fidelity["marker"]["symbol"][fidelity["x"].index(7)] == "x"
    assert coverage["marker"]["symbol"][coverage["x"].index(13)] == "diamond"
    assert "Below 100 %: leg 7, 13." in scores_chart.alternative(found)


def test_the_page_and_its_parts_hold_the_zoom_of_the_address(client_of: ClientOf) -> None:
    relay = two_legs()
    client = client_of("manager")
    page = marked(client.get(f"/relays/{relay.pk}/?leg=1"))
    assert "Leg 1 alone" in page and "part=series&amp;leg=1" in page
    assert client.get(f"/relays/{relay.pk}/?part=chart&leg=1").json()["figure"]["layout"]["meta"]["live"]["focus"] == 1
    tail = client.get(f"/relays/{relay.pk}/?part=tail")
    assert tail["Content-Type"] == "application/json" and tail.json()["x"] == [4, 5]
    again = client.get(f"/relays/{relay.pk}/?part=tail", headers={"If-None-Match": tail["ETag"]})
    assert again.status_code == 304


def test_of_very_many_rotations_some_are_marked_and_every_other_end_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat, "HOLD_MARKS", 5)
    relay = make_relay()
    for number in range(30):
        reason = "RELAY_PARKED_UNSAFE" if number in (7, 21) else "RELAY_ROTATED"
        make_leg(relay, number, resident=[20_000], reason=reason)
    marks = flat.flat(relay.pk).marks
    assert [mark.leg for mark in marks if mark.token == "RELAY_PARKED_UNSAFE"] == [7, 21]
    assert 0 < sum(mark.token == "RELAY_ROTATED" for mark in marks) <= 5


def test_the_log_tab_tells_what_happened_newest_first_and_in_pages(
    client_of: ClientOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeline, "SHOWN", 2)
    relay = two_legs()
    gate = make_gate(relay, "OBJECTIVE_DRIFT", leg=relay.legs.get(number=1))
    client = client_of("manager")
    here = f"/relays/{relay.pk}/?tab=log"
    page = marked(client.get(here))
    assert "gate opened" in page and f"/gates/{gate.pk}/" in page and f"/relays/{relay.pk}/legs/1/log/" in page
    seen: list[timeline.Line] = []
    before = None
    while True:
        found = timeline.timeline(relay, before)
        seen += found.lines
        if not found.older:
            break
        before = int(found.older)
    assert [line.at for line in seen] == sorted((line.at for line in seen), reverse=True)
    assert [line.what for line in seen] == ["gate opened", "leg started", "leg started"]
    assert client.get(f"/relays/{relay.pk}/?tab=cost")["Location"] == f"/relays/{relay.pk}/cost/"
