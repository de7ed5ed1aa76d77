"""The bench measures what it says, and calls a goal met only where it is."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench.legs import Ran
from tests.bench.table import Row, as_json, median, percentile, text

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("a", 12.0, "ms", 10.0, "git", 1.3, of_ratio=True), True),
        (Row("a", 13.1, "ms", 10.0, "git", 1.3, of_ratio=True), False),
        (Row("a", 0.5, "s", goal=0.5), True),
        (Row("a", 0.51, "s", goal=0.5), False),
        (Row("a", 1.0, "ms", 0.0, "git", 1.3, of_ratio=True), False),  # what took no time is no measure
        (Row("a", 5000.0, "/s", 100.0, "json"), None),
    ],
)
def test_a_goal_is_met_or_not_or_there_is_none(row, met):
    assert row.met is met
    assert row.cells()[-1] == {True: "yes", False: "NO", None: ""}[met]


def test_the_table_and_the_json_say_the_same():
    rows = [Row("pointers", 12.34, "ms", 10.0, "git", 1.3, of_ratio=True), Row("batons", 4321.0, "/s")]
    lines = text(rows).splitlines()
    assert lines[0].split() == ["what", "ours", "peer", "or", "limit", "ratio", "goal", "met"]
    assert lines[2].split() == ["pointers", "12.3", "ms", "10.0", "ms", "git", "1.23", "x", "<=", "1.3", "x", "yes"]
    assert lines[3].split() == ["batons", "4,321", "/s"]
    kept = json.loads(as_json(rows, {"cpus": 2}))
    assert kept["machine"] == {"cpus": 2}
    assert [(row["what"], row["ratio"], row["met"]) for row in kept["rows"]] == [
        ("pointers", pytest.approx(1.234), True),
        ("batons", None, None),
    ]


def test_percentiles_are_of_measured_values():
    values = [float(number) for number in range(1, 101)]
    assert (percentile(values, 0.95), percentile(values, 1.0), median(values)) == (95.0, 100.0, 50.0)
    assert percentile([7.0], 0.95) == 7.0
    with pytest.raises(ValueError, match="nothing was measured"):
        percentile([], 0.95)


def test_what_an_agent_waits_for_is_not_its_own_time():
    ran = Ran(began=10.0, ended=20.0, asked=[11.0, 15.0], answered=[12.0, 18.0])
    assert ran.waits == [1.0, 3.0]
    assert ran.busy == 6.0


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_command_measures_everything(tmp_path):
    out = tmp_path / "bench.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", "--quick", "--json", str(out)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    kept = json.loads(out.read_text())
    assert [row["what"].split(",")[0] for row in kept["rows"]] == [
        "pointer check",
        "pointer check",
        "pointer check",
        "pointer check",
        "parse and steps 1 to 5",
        "parse and steps 1 to 5",
        *["cost engine"] * 5,
        "comparison with band and break-even",
        *["back-test"] * 3,
        "driver's time a leg",
        "driver's time a leg",
        "a supervisor's process",
        "boundary decision",
        "boundary decision",
        *["20 pages"] * 2,
        "commit to the pixel of a real browser among them",
        *["20 pages"] * 2,
        "15 dropped connections",
        *["sessions"] * 6,
        "page of a session with 300 calls",
    ]
    assert all(row["ours"] > 0 for row in kept["rows"] if row["goal"] != 0.0)
    peer = kept["rows"][-7]["peer"]  # none where the peer cannot be had
    cold = 1.5 if peer else None
    goals = [1.3] * 4 + [None] * 2 + [1.0] * 6 + [5.0, 90.0, 1.0] + [0.5] * 2 + [None, None, 20.0]
    goals += [None, 1.0, 1.0, 0.0, 25.0, 0.0]
    goals += [cold, cold, None, None, 0.05, 200.0, 1.3]
    assert [row["goal"] for row in kept["rows"]] == goals
    for row in kept["rows"]:
        assert row["what"] in done.stdout


def test_what_cannot_be_measured_is_said_and_is_exit_1(tmp_path, monkeypatch, capsys):
    """The rest is measured all the same, and a goal that is missed is no failure."""

    def broken(*_):
        raise RuntimeError("the two ways do not agree")

    monkeypatch.setattr(bench, "house", lambda: contextlib.nullcontext(tmp_path))
    monkeypatch.setattr("logging.disable", lambda level: None)
    monkeypatch.setattr("tests.bench.pointers.rows", broken)
    monkeypatch.setattr("tests.bench.batons.rows", lambda *_: [Row("batons", 9.0, "s", goal=0.5)])
    monkeypatch.setattr("tests.bench.carryover.rows", lambda *_: [])
    monkeypatch.setattr("tests.bench.backtest.rows", lambda *_: [])
    monkeypatch.setattr("tests.bench.legs.rows", lambda *_: [])
    monkeypatch.setattr("tests.bench.sessions.rows", lambda *_: [])
    monkeypatch.setattr("tests.bench.live.rows", lambda *_: [])
    out = tmp_path / "bench.json"
    assert bench.main(["--json", str(out)]) == 1
    printed = capsys.readouterr()
    assert "pointers could not be measured: RuntimeError: the two ways do not agree" in printed.err
    assert "batons" in printed.out
    assert [row["met"] for row in json.loads(out.read_text())["rows"]] == [False]
    monkeypatch.setattr("tests.bench.pointers.rows", lambda *_: [])
    assert bench.main(["--json", str(out)]) == 0


@pytest.mark.slow
def test_one_command_says_where_the_time_of_an_import_goes():
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.session_split", "2"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for part in ("wall of the import", "projecting", "storing", "lines into JSON objects"):
        assert part in done.stdout
