"""The back-test: the samples that really compacted, predicted with what was learned without them, beside the goal."""

import time
from pathlib import Path

from tests.bench.table import Row

SAMPLES = Path(__file__).parents[1] / "samples"
#: cost.md, Back-test: "Goal: ≤ 5 % median on cost, compaction count right in ≥ 90 % of sessions"
ERROR, COUNT = 5.0, 90.0
#: seconds for importing the samples, learning from them and predicting them, in the background
LIMIT = 20.0


def rows() -> list[Row]:
    """In the database of the bench: the samples are imported into it."""
    from relays.costs import backtest, learned, rollups
    from relays.sessions import run

    begun = time.perf_counter()
    run.import_paths([SAMPLES])
    while keys := rollups.due_sessions(50):
        rollups.cut_sessions(keys)
    learned.bring_up()
    backtest.bring_up()
    took = time.perf_counter() - begun
    found = backtest.summary()
    error, count = found["median_abs_error"], found["count_right"]
    if error is None or count is None:
        raise RuntimeError("no sample was predicted, so there is nothing to measure")
    said = {"sessions": found["sessions"], "compactions without a call of their own": found["left_out_calls"]}
    return [
        Row("back-test, median absolute error of cost", error * 100, "%", goal=ERROR, detail=said),
        Row("back-test, right number of compactions", count * 100, "%", goal=COUNT, more_is_better=True),
        Row("back-test, import, learn and predict", took, "s", LIMIT, "limit", 1.0, of_ratio=True),
    ]
