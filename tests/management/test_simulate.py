"""`relay simulate`: the golden table, the sensitivity of the published comparison, and what is refused."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from relays.management.cli import Exit
from tests.management.conftest import Cli
from tests.vectors.load import exact, vector, vectors

ROOT = Path(__file__).parents[2]
AREA = "cost_vs_compaction"
KEYS = ("billed", "peak_tokens", "events", "cache_bust_tokens", "hit_rate", "window_exceeded_at")


def played(cli: Cli, policy: str, turns: int, *given: str):
    done = cli("simulate", "--policy", policy, "--turns", turns, "--json", *(["--set", *given] if given else []))
    assert done.code == Exit.FINE, done.err
    assert done.err == ""
    return done.json


def saving(cli: Cli, turns: int, *given: str) -> float:
    relay = played(cli, "relay", turns, "published", *given)
    return 1 - relay["billed"] / played(cli, "compaction", turns, "published", *given)["billed"]


#: cost.md, "Golden check": turns -> billed, peak, events, bust of relay and of compaction
GOLDEN = {
    40: ((505_800, 120_000, 2, 12_000), (702_390, 190_000, 1, 59_800)),
    80: ((1_014_000, 120_000, 4, 24_000), (1_605_897, 192_340, 3, 180_642)),
    160: ((2_037_600, 120_000, 8, 48_000), (3_342_921, 192_565, 6, 362_326)),
    320: ((4_113_600, 120_000, 16, 96_000), (6_926_106, 192_571, 14, 846_893)),
}


@pytest.mark.parametrize("turns", sorted(GOLDEN))
def test_the_golden_table_is_exact(cli, turns):
    for policy, expected in zip(("relay", "compaction"), GOLDEN[turns], strict=True):
        found = played(cli, policy, turns, "published")
        assert tuple(found[key] for key in KEYS[:4]) == expected
        assert found["window_exceeded_at"] is None


@pytest.mark.parametrize("row", [row for row in exact(AREA) if "params" in row["input"]], ids=lambda row: row["id"])
def test_the_reference_is_met(cli, row):
    parameters = row["input"]["params"]
    given = [
        f"{ours}={parameters[theirs]}"
        for ours, theirs in {
            "window": "window", "base": "system", "growth": "growth", "baton": "baton", "trigger": "compact_at",
            "residue": "compact_keep", "mark": "relay_at", "read_price": "cache_read", "write_price": "cache_write",
        }.items()
    ]  # fmt: skip
    billed = {}
    for policy in ("relay", "compaction"):
        found = played(cli, policy, row["input"]["turns"], "published", *given)
        expected = row["expected"][policy]
        names = {
            "billed": "billed", "hit_rate": "hit_rate", "events": "rotations", "cache_bust_tokens": "bust",
            "peak_tokens": "peak",
        }  # fmt: skip
        assert {ours: found[ours] for ours in names} == {ours: expected[theirs] for ours, theirs in names.items()}
        billed[policy] = found["billed"]
    assert round(1 - billed["relay"] / billed["compaction"], 4) == row["expected"]["billed_saving"]


def test_the_sensitivity_of_the_published_setting(cli):
    """Most of its saving comes from where the two are armed and from what a compaction is said to keep."""
    expected = vector("cost-sensitivity")["expected"]["relay_saving"]
    cases = ([], ["residue=.11"], ["trigger=.60"], ["residue=.11", "trigger=.60"])
    assert [round(saving(cli, 300, *case), 4) for case in cases] == expected
    assert [round(100 * share, 1) for share in expected] == [40.5, 28.2, 25.7, 10.2]


def test_what_a_fresh_leg_reads_again_decides(cli):
    """`cost-sensitivity-rederive`: orientation is charged at each rotation; the first leg has nothing to read again."""
    row = vector("cost-sensitivity-rederive")
    tokens = row["input"]["rederive_tokens_per_rotation"]
    found = [saving(cli, 300, "residue=.11", f"orientation={one}") for one in tokens]
    assert [round(one, 4) for one in found[:2]] == row["expected"]["relay_saving"][:2]
    assert round(100 * found[1], 1) == 14.7
    assert abs(found[2]) < 0.005  # "about 0 (break-even)"


def test_the_published_target_is_missed(cli):
    """`cost-gate-50`, for information: the published comparison misses its own target of 50 %, and we say the same."""
    row = vector("cost-gate-50")
    found = [round(saving(cli, turns), 4) for turns in row["input"]["horizons"]]
    assert found == row["expected"]["savings"]
    assert not any(one >= row["input"]["target_saving"] for one in found)


def test_every_exact_vector_of_the_area_has_its_test():
    tested = {"cost-sensitivity", "cost-sensitivity-rederive", "cost-40", "cost-200", "cost-320"}
    assert {row["id"] for row in exact(AREA)} == tested
    assert {row["use"].split(":")[0] for row in vectors(AREA)} == {"exact", "information", "spec wins"}


def test_none_fails_where_its_window_is_full(cli):
    found = played(cli, "none", 300, "published")
    assert (found["window_exceeded_at"], found["played"], found["events"]) == (33, 33, 0)
    assert played(cli, "none", 32, "published")["window_exceeded_at"] is None


def test_the_honest_defaults_save_less_and_say_where_they_come_from(cli):
    relay, compaction = (played(cli, policy, 300) for policy in ("relay", "compaction"))
    assert 1 - relay["billed"] / compaction["billed"] < saving(cli, 300)
    assert relay["setting"] == "claude-code"
    for one in relay["parameters"].values():
        assert one["provenance"] == "ASSUMED"
        assert one["source"]
    assert relay["parameters"]["orientation"]["value"] == compaction["parameters"]["reread"]["value"] == 20_000
    assert relay["parameters"]["trigger"]["value"] == 167_000


def test_a_key_means_what_its_policy_means_by_it(cli):
    cleared = played(cli, "context_editing", 300, "published", "trigger=.25", "keep=1")
    assert (cleared["peak_tokens"], cleared["parameters"]["clear_at"]["value"]) == (52_000, 0.25)
    slid = played(cli, "sliding_window", 300, "published", "keep=50_000")
    assert slid["parameters"]["slide"]["value"] == 50_000
    assert slid["peak_tokens"] == 52_000  # 46,000 and 6,000 that came in before the oldest could go
    assert played(cli, "relay", 40, "growth=10000", "published")["parameters"]["growth"]["value"] == 10_000


def test_a_person_reads_the_figures_with_their_units(cli):
    done = cli("simulate", "--policy", "none", "--turns", 40, "--set", "published")
    text = done.out.decode()
    assert "SIMULATED: none, 40 turns, setting published" in text
    assert "555,400" in text
    assert "the turn at which the run failed" in text
    assert "ASSUMED" in text


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--turns", "4"), "the following arguments are required: --policy"),
        (("--policy", "relay"), "the following arguments are required: --turns"),
        (("--policy", "magic", "--turns", "4"), "invalid choice: 'magic'"),
        (("--policy", "relay", "--turns", "0"), "name how many turns to play, 1 to 1000000"),
        (("--policy", "relay", "--turns", "1000001"), "name how many turns to play"),
        (("--policy", "relay", "--turns", "-3"), "argument"),
        (("--policy", "relay", "--turns", "4", "--set", "markk=.5"), "did you mean mark?"),
        (("--policy", "relay", "--turns", "4", "--set", "facts=3"), "take one of window, base"),
        (("--policy", "relay", "--turns", "4", "--set", "mark"), "is neither published nor KEY=VALUE"),
        (("--policy", "relay", "--turns", "4", "--set", "mark=half"), "mark=half is no number such as 2000 or 0.6"),
        (("--policy", "relay", "--turns", "4", "--set", "mark=-1"), "is no number"),
        (("--policy", "relay", "--turns", "4", "--set", "mark=nan"), "is no number"),
        (("--policy", "relay", "--turns", "4", "--set", "mark=1e3"), "is no number"),
        (("--policy", "relay", "--turns", "4", "--set", "mark=\u0663"), "is no number"),
        (("--policy", "relay", "--turns", "4", "--set", "mark="), "is no number"),
        (("--policy", "relay", "--turns", "4", "--set", "mark=1.5"), "a share up to 1, or a whole number of tokens"),
        (("--policy", "relay", "--turns", "4", "--set", "mark=0"), "name a share above 0"),
        (("--policy", "relay", "--turns", "4", "--set", "baton=.5"), "baton is a whole number of tokens"),
        (("--policy", "relay", "--turns", "4", "--set", "baton=1000000001"), "at most 1000000000"),
        (("--policy", "relay", "--turns", "4", "--set", "window=0"), "a window holds at least 1 token"),
        (("--policy", "relay", "--turns", "4", "--set", "read_price=1000001"), "a price is a multiple of input's"),
        (("--policy", "relay", "--turns", "4", "--set", "mark=.5", "mark=.6"), "gives mark twice"),
        (("--policy", "relay", "--turns", "4", "--set", "base=10", "kept=11"), "must be 0 to 10"),
        (("--policy", "relay", "--turns", "4", "--agent", "me"), "invalid choice: 'me'"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(cli, arguments, line):
    done = cli("simulate", *arguments)
    assert done.code == Exit.USAGE
    assert line in done.line


def test_it_needs_no_database(tmp_path):
    """The published figures come out on a machine where nothing was set up."""
    done = subprocess.run(
        [sys.executable, "manage.py", "relay", "simulate", "--policy", "relay", "--turns", "40", "--set", "published",
         "--json"],
        cwd=ROOT, capture_output=True, text=True, env={**os.environ, "RELAY_VAR": str(tmp_path)},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["billed"] == 505_800
    assert not list(tmp_path.glob("*.sqlite3"))
