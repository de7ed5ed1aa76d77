"""Mission, phase 0: "emit a shadow 'would rotate here at soft mark X' signal and a would-be baton"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core import policy
from relays.core.shadow import (
    MOST_POINTERS,
    NEEDS_COMMIT,
    Done,
    Figure,
    LegCut,
    MainCall,
    Provenance,
    Shadow,
    reduced,
    would,
    would_be_baton,
)

POLICY = policy.build({}, None, {})
WINDOW = Figure(200_000, Provenance.OBSERVED, "declared by the agent")


def calls(*residents: int, boundaries: tuple[int, ...] = ()) -> list[MainCall]:
    """`boundaries`: numbers of calls, from 1, with a compaction before them."""
    return [MainCall(one, number in boundaries) for number, one in enumerate(residents, 1)]


def cuts(shadow: Shadow) -> list[tuple[int, int, str]]:
    return [(leg.first_call, leg.last_call, leg.ended) for leg in shadow.legs]


def test_a_session_below_the_mark_is_one_leg() -> None:
    shadow = would(calls(10_000, 50_000, 119_999), WINDOW, POLICY)
    assert cuts(shadow) == [(1, 3, "end")]
    assert (shadow.simulated, shadow.rotations, shadow.peak, shadow.mark) == (
        (10_000, 50_000, 119_999),
        (),
        119_999,
        120_000,
    )


def test_at_the_mark_it_would_rotate_and_begins_with_base_baton_and_orientation() -> None:
    shadow = would(calls(10_000, 120_000, 130_000, 140_000), WINDOW, POLICY)
    fresh = 10_000 + 2_000 + 20_000
    assert shadow.rotations == (2,)
    assert shadow.simulated == (10_000, 120_000, fresh, fresh + 10_000)
    assert cuts(shadow) == [(1, 2, "would_rotate"), (3, 4, "end")]
    assert [leg.simulated_peak for leg in shadow.legs] == [120_000, fresh + 10_000]
    assert [leg.peak for leg in shadow.legs] == [120_000, 140_000], "the observed window of the same calls"


def test_an_observed_compaction_shrinks_only_the_observed_window() -> None:
    shadow = would(calls(20_000, 100_000, 40_000, 60_000, boundaries=(3,)), WINDOW, POLICY)
    assert shadow.simulated == (20_000, 100_000, 100_000, 120_000)
    assert cuts(shadow) == [(1, 2, "compaction"), (3, 4, "end")]


def test_a_growth_over_a_compaction_is_not_counted_and_a_drop_without_one_neither() -> None:
    shadow = would(calls(20_000, 30_000, 50_000, 10_000, 15_000, boundaries=(3,)), WINDOW, POLICY)
    assert shadow.simulated == (20_000, 30_000, 30_000, 30_000, 35_000)
    assert shadow.parameters["growth"].value == 15_000


def test_a_cut_that_is_both_is_a_rotations() -> None:
    shadow = would(calls(20_000, 150_000, 40_000, boundaries=(3,)), WINDOW, POLICY)
    assert cuts(shadow) == [(1, 2, "would_rotate"), (3, 3, "end")]


def test_nothing_rotates_after_the_last_call() -> None:
    assert would(calls(20_000, 150_000), WINDOW, POLICY).rotations == ()


def test_a_steady_growth_rotates_in_equal_cycles_and_stays_flat() -> None:
    """Mission: "flat context": 80 calls that add 6,000 tokens each never hold more than the mark."""
    steady = calls(*(6_000 + 6_000 * turn for turn in range(80)))
    none = Figure(0, Provenance.ASSUMED, "not charged")
    shadow = would(steady, WINDOW, POLICY, orientation=none, baton=Figure(0, Provenance.ASSUMED, "in the base"))
    assert shadow.rotations == (20, 40, 60)
    assert shadow.peak == 120_000
    assert shadow.simulated[19] == 120_000 and shadow.simulated[20] == 6_000


def test_the_orientation_is_what_grew_before_the_first_durable_act() -> None:
    shadow = would(calls(10_000, 25_000, 40_000, 130_000, 131_000), WINDOW, POLICY, effect=3)
    assert shadow.parameters["orientation"] == Figure(
        30_000, Provenance.OBSERVED, "what the window grew before the first durable act, at call 3"
    )
    assert shadow.simulated[-1] == 10_000 + 2_000 + 30_000
    at_once = would(calls(10_000, 25_000), WINDOW, POLICY, effect=1)
    assert at_once.parameters["orientation"].value == 0
    none = would(calls(10_000, 25_000), WINDOW, POLICY)
    assert none.parameters["orientation"].provenance is Provenance.ASSUMED


def test_without_a_window_nothing_is_simulated_and_the_legs_end_at_compactions() -> None:
    shadow = would(calls(20_000, 150_000, 40_000, boundaries=(3,)), None, POLICY, model="glm-4.6")
    assert shadow.why == "not yet: the window of glm-4.6 is not known"
    assert cuts(shadow) == [(1, 2, "compaction"), (3, 3, "end")]
    assert [leg.simulated_peak for leg in shadow.legs] == [None, None]
    summary = shadow.summary()
    assert (summary["window"], summary["mark"], summary["peak"], summary["points"]) == (None, None, None, [])
    assert summary["why"] == shadow.why
    zero = would(calls(1), Figure(0, Provenance.OBSERVED, "declared"), POLICY)
    assert zero.why == "not yet: the window of this model is not known"


def test_a_fresh_leg_that_would_begin_over_the_mark_is_said() -> None:
    """A session that was resumed full tells nothing of what a fresh leg needs."""
    shadow = would(calls(150_000, 160_000), WINDOW, POLICY)
    assert shadow.why == "no relay fits: a fresh leg would begin with 172,000 tokens, and the mark is at 120,000"
    assert (shadow.rotations, shadow.simulated, shadow.mark) == ((), (), 120_000)


def test_a_session_without_main_calls_has_no_legs() -> None:
    shadow = would([], WINDOW, POLICY)
    assert (shadow.legs, shadow.peak, shadow.why) == ((), None, "not yet: no call of the main chain")
    assert shadow.summary()["orientation"] is None


def test_every_parameter_names_its_provenance_and_source() -> None:
    shadow = would(
        calls(10_000, 130_000, 131_000), WINDOW, policy.build({"mark": {"context_tokens": 50_000}}, None, {})
    )
    assert shadow.mark == 50_000
    summary = shadow.summary()
    parameters = summary["parameters"]
    assert isinstance(parameters, dict)
    assert list(parameters) == ["window", "mark", "base", "growth", "baton", "orientation"]
    assert {name: one[1] for name, one in parameters.items()} == {
        "window": "OBSERVED",
        "mark": "ASSUMED",
        "base": "OBSERVED",
        "growth": "OBSERVED",
        "baton": "ASSUMED",
        "orientation": "ASSUMED",
    }
    assert parameters["mark"][0] == 0.25 and "mark.context_tokens" in parameters["mark"][2]
    assert all(source for _, _, source in parameters.values())
    assert summary["orientation"] == parameters["orientation"]
    assert (summary["legs"], summary["rotations"]) == (2, 1)


residents = st.lists(st.tuples(st.integers(0, 400_000), st.booleans()), min_size=1, max_size=60)


@given(residents, st.sampled_from([None, 1, 50_000, 200_000, 1_000_000]), st.integers(1, 60) | st.none())
def test_legs_cover_all_calls_without_gap_or_overlap(
    seen: list[tuple[int, bool]], window: int | None, effect: int | None
) -> None:
    found = [MainCall(resident, boundary) for resident, boundary in seen]
    size = None if window is None else Figure(window, Provenance.ASSUMED, "x")
    shadow = would(found, size, POLICY, effect=effect)
    covered = [call for leg in shadow.legs for call in range(leg.first_call, leg.last_call + 1)]
    assert covered == list(range(1, len(found) + 1))
    assert [leg.number for leg in shadow.legs] == list(range(len(shadow.legs)))
    assert [leg.last_call for leg in shadow.legs if leg.ended == "would_rotate"] == list(shadow.rotations)
    assert [leg.ended for leg in shadow.legs].count("end") == 1 and shadow.legs[-1].ended == "end"
    assert max(leg.peak for leg in shadow.legs) == max(call.resident for call in found)
    if shadow.simulated:
        assert shadow.mark is not None and len(shadow.simulated) == len(found)
        for call, value in enumerate(shadow.simulated[:-1], 1):
            assert (value >= shadow.mark) == (call in shadow.rotations)
    compacted = {at for at, call in enumerate(found) if call.boundary and at}
    assert {leg.last_call for leg in shadow.legs[:-1]} == compacted | set(shadow.rotations)


@given(st.lists(st.integers(0, 10**6), max_size=400), st.integers(4, 60))
def test_reduced_points_keep_the_ends_and_every_extreme(values: list[int], most: int) -> None:
    points = reduced(values, (1, 3), most)
    assert len(points) <= most
    assert [call for call, _, _ in points] == sorted({call for call, _, _ in points})
    assert all(values[call - 1] == value and flag == (call in (1, 3)) for call, value, flag in points)
    if values:
        kept = [value for _, value, _ in points]
        assert (points[0][0], points[-1][0]) == (1, len(values))
        assert (min(kept), max(kept)) == (min(values), max(values))


def test_a_summary_has_at_most_a_thousand_points() -> None:
    shadow = would(calls(*range(1_000, 31_000)), WINDOW, POLICY)
    points = shadow.summary()["points"]
    assert isinstance(points, list) and 900 < len(points) <= 1_000


LEG = LegCut(2, 1, 9, "would_rotate", 100, 100)
SHA = "a" * 40


def test_a_would_be_baton_points_at_what_was_done_and_names_what_cannot_be_known() -> None:
    acts = [Done("file", "a.py"), Done("commit", SHA), Done("issue", "#3"), Done("commit", "b" * 40, "repository")]
    baton = would_be_baton(LEG, "session-1", acts, SHA)
    assert baton["pointers"] == ["file:a.py", f"commit:{SHA}", "issue:#3", "commit:" + "b" * 40]
    assert baton["seen"] == ["commit:" + "b" * 40]
    assert (baton["leg"], baton["parent_trace"], baton["start_sha"], baton["reason"]) == (
        3,
        "session-1",
        SHA,
        "RELAY_ROTATED",
    )
    assert baton["missing"] == [
        "do_not_rederive",
        "done_when",
        "next_action",
        "objective",
        "open_questions",
        "progress_cursor.held_region",
        "progress_cursor.ledger_ref",
    ]
    assert baton["dropped"] == 0


@pytest.mark.parametrize("ended", ["compaction", "end"])
def test_a_leg_that_no_relay_ended_has_no_reason_and_one_without_commit_no_cursor(ended: str) -> None:
    leg = LegCut(0, 1, 9, ended, 100, None)  # type: ignore[arg-type]
    baton = would_be_baton(leg, "s", [], None)
    missing = baton["missing"]
    assert isinstance(missing, list) and baton["reason"] is None and baton["start_sha"] is None
    assert {"tombstone.reason", *NEEDS_COMMIT} <= set(missing)


def test_a_baton_stays_bounded_and_drops_the_oldest() -> None:
    acts = [Done("file", f"f{number}") for number in range(MOST_POINTERS + 5)]
    baton = would_be_baton(LEG, "s", acts, None)
    pointers = baton["pointers"]
    assert isinstance(pointers, list)
    assert (len(pointers), pointers[0], baton["dropped"]) == (MOST_POINTERS, "file:f5", 5)
