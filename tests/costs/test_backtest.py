"""Real sessions that compacted, predicted with what was learned without them; the error that it has is what is said."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from relays.core.baselines import defaults
from relays.costs import backtest, learned, measured, refresh, rollups, streams
from relays.models import BackTest, CostState, LearnedParameter, Session
from relays.sessions import run
from tests.session_builders import add_calls, add_compaction, make_session, make_source

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.postgres]
SAMPLES = Path(__file__).parents[1] / "samples"
#: session -> compactions that it really had
REAL = {"258c7280": 1, "aba9151e": 4, "019f2016": 3}


@pytest.fixture
def imported(db: Any) -> dict[str, Session]:
    """The samples with real compactions."""
    del db
    run.import_paths(
        [
            SAMPLES / "claude/with-children",
            SAMPLES / "claude/four-compactions-no-request-id.jsonl",
            SAMPLES / "codex/three-compactions.jsonl",
        ]
    )
    while keys := rollups.due_sessions(50):
        rollups.cut_sessions(keys)
    learned.bring_up()
    backtest.bring_up()
    return {session.sid[:8]: session for session in Session.objects.filter(compactions__gt=0)}


def test_the_samples_reach_the_goal_with_parameters_learned_without_them(imported: dict[str, Session]) -> None:
    found = backtest.summary()
    assert found["sessions"] == 3
    assert found["median_abs_error"] <= 0.05
    assert found["count_right"] == 1
    assert found["met"] is True
    assert {sid: row.backtest.observed_compactions for sid, row in imported.items()} == REAL
    for row in BackTest.objects.all():
        assert row.predicted_cost is not None
        assert row.observed_cost is not None
        assert row.error == pytest.approx(float((row.predicted_cost - row.observed_cost) / row.observed_cost))
        assert len(row.predicted_at) == row.predicted_compactions


def test_a_compactions_own_call_is_left_out_on_both_sides_where_its_file_lacks_it(imported: dict[str, Session]) -> None:
    assert {sid: row.backtest.left_out_calls for sid, row in imported.items()} == {
        "258c7280": 0, "aba9151e": 4, "019f2016": 3,
    }  # fmt: skip
    # with it, what was observed is the whole session's cost; without it, all the same, for it never was in the file
    for row in imported.values():
        assert row.backtest.observed_cost == row.cost
    assert backtest.summary()["left_out_calls"] == 7


def test_no_session_teaches_what_it_is_predicted_with(imported: dict[str, Session]) -> None:
    session = imported["aba9151e"]
    setting = defaults("claude-code", 200_000)
    mine = {(cut["before"], cut["after"]) for cut in measured.cuts_of(session)}
    assert (166_408, 64_513) in mine
    with_it = learned.apply(setting, "claude-code", session.version)
    without = learned.apply(setting, "claude-code", session.version, without=session.sid)
    assert "claude-code 2.1.226" in with_it.parameters["trigger"].source
    assert with_it.parameters["trigger"].value != without.parameters["trigger"].value
    # the same compactions as they were published elsewhere do not teach it either
    assert "2.1.226" not in without.parameters["trigger"].source


def test_predicting_again_gives_the_same_and_reads_no_call(
    imported: dict[str, Session], django_assert_max_num_queries: Any
) -> None:
    before = list(BackTest.objects.order_by("pk").values())
    with django_assert_max_num_queries(4):
        assert backtest.bring_up()
    assert list(BackTest.objects.order_by("pk").values()) == before
    row = BackTest.objects.get(session=imported["019f2016"])
    again = backtest.predict(imported["019f2016"])
    assert again["predicted_cost"] == row.predicted_cost


def test_what_was_learned_is_kept_with_its_n(imported: dict[str, Session]) -> None:
    found = {(row.agent, row.version, row.name): row for row in LearnedParameter.objects.all()}
    residue = found["codex", "0.142.5", "residue"]
    assert residue.n >= 3
    assert residue.low <= residue.value <= residue.high
    assert "measured compactions of codex" in residue.source
    assert CostState.objects.get(name="learned").value["cuts"] == 8


def test_a_new_session_has_all_predicted_anew(imported: dict[str, Session]) -> None:
    sign = learned.mark()
    session = make_session()
    source = make_source()
    add_calls(session, [30_000 + 4_000 * n for n in range(35)] + [70_000 + 3_000 * n for n in range(10)], source)
    add_compaction(session, source, 35)
    refresh.bring_up()
    assert learned.mark() != sign
    row = BackTest.objects.get(session=session)
    assert row.error is None
    assert row.why.startswith("no price is known")
    assert row.observed_compactions == row.predicted_compactions == 1
    assert backtest.summary()["sessions"] == 4


def test_what_a_person_compacted_is_shown_and_counts_for_nothing() -> None:
    session = make_session()
    source = make_source()
    add_calls(session, [30_000 + 2_000 * n for n in range(30)] + [50_000, 52_000], source)
    add_compaction(session, source, 30, trigger="manual")
    refresh.bring_up()
    row = BackTest.objects.get()
    assert row.counts is False
    assert row.why == "a person compacted it: nobody can predict when"
    assert backtest.summary()["median_abs_error"] is None


def test_a_compaction_after_the_last_call_is_one_too() -> None:
    session = make_session()
    source = make_source()
    add_calls(session, [34_000 + 4_000 * n for n in range(35)], source)
    add_compaction(session, source, 35)
    refresh.bring_up()
    row = BackTest.objects.get()
    assert (row.observed_at, row.observed_compactions, row.left_out_calls) == ([35], 1, 1)
    assert row.predicted_compactions == 1


def test_without_a_session_that_compacted_it_is_not_yet() -> None:
    refresh.bring_up()
    assert backtest.summary()["median_abs_error"] is None
    assert backtest.summary()["count_right"] is None


def test_the_stream_of_a_sample_has_its_money_and_its_calls(imported: dict[str, Session]) -> None:
    for session in imported.values():
        seen = streams.of_session(session)
        assert seen.counted == session.calls
        assert seen.cost == session.cost
        assert len(seen.calls) == session.main_calls
        assert seen.tokens.cache_read == session.cache_read
        parts = (leg.input + leg.cache_read + leg.cache_write + leg.output for leg in seen.legs)
        assert sum(parts, Decimal(0)) == session.cost
