"""`relay backtest`: its shape, and `not yet` without a session that compacted."""

import pytest

from tests.management.conftest import Cli
from tests.session_builders import add_calls, add_compaction, make_session, make_source

pytestmark = pytest.mark.django_db


def test_without_a_session_that_compacted_it_is_not_yet(cli: Cli) -> None:
    assert "not yet" in cli("backtest").out.decode()
    found = cli("backtest", "--json").json
    assert (found["sessions"], found["median_abs_error"], found["count_right"]) == ([], None, None)


def test_the_shape(cli: Cli) -> None:
    session = make_session()
    source = make_source()
    add_calls(session, [30_000 + 4_000 * n for n in range(35)] + [70_000 + 3_000 * n for n in range(10)], source)
    add_compaction(session, source, 35)
    found = cli("backtest", "--json").json
    assert set(found) >= {"sessions", "median_abs_error", "count_right"}
    [one] = found["sessions"]
    assert set(one) >= {
        "session", "observed_cost", "predicted_cost", "error", "observed_compactions", "predicted_compactions",
    }  # fmt: skip
    assert one["session"] == session.sid
    assert one["observed_compactions"] == one["predicted_compactions"] == 1
    assert found["count_right"] == 1
    text = cli("backtest").out.decode()
    assert "learned without it" in text
    assert "left out on both sides" in text
