"""Vectors of the public reference: the cost of a relay beside compaction.

Every `exact` vector gives its outcome; of the reference's verdicts, ours stand beside them.
"""

from decimal import Decimal
from typing import Any

import pytest

from relays.core.baselines import Setting, published
from relays.core.carryover import Carried, Step, Work, play
from relays.core.sensitivity import compare
from tests.vectors.load import exact, vector

AREA = "cost_vs_compaction"
#: our name of a parameter -> the reference's
NAMES = {
    "window": "window", "base": "system", "growth": "growth", "baton": "baton", "trigger": "compact_at",
    "residue": "compact_keep", "mark": "relay_at", "read_price": "cache_read", "write_price": "cache_write",
}  # fmt: skip


def setting_of(parameters: dict[str, Any]) -> Setting:
    setting = published()
    for ours, theirs in NAMES.items():
        value = parameters[theirs]
        setting = setting.given(ours, value if isinstance(value, int) else Decimal(str(value)))
    return setting


def both(setting: Setting, turns: int) -> tuple[Carried, Carried]:
    work = Work(setting.tokens("base"), setting.tokens("window"), (Step(setting.tokens("growth")),) * turns)
    prices = setting.prices()
    return play(work, setting.policy("relay"), prices), play(work, setting.policy("compaction"), prices)


def saving(setting: Setting, turns: int) -> float:
    """As the reference counts it: of whole billed tokens."""
    relay, compaction = both(setting, turns)
    return 1 - int(relay.money) / int(compaction.money)


@pytest.mark.parametrize("row", [row for row in exact(AREA) if "params" in row["input"]], ids=lambda row: row["id"])
def test_a_goal_of_so_many_turns_costs_what_the_reference_says(row):
    setting, turns = setting_of(row["input"]["params"]), row["input"]["turns"]
    for name, found in zip(("relay", "compaction"), both(setting, turns), strict=True):
        expected = row["expected"][name]
        assert int(found.money) == expected["billed"]
        assert round(found.hit_rate, 4) == expected["hit_rate"]
        assert len(found.events) == expected["rotations"]
        assert found.bust == expected["bust"]
        assert found.peak == expected["peak"]
    assert round(saving(setting, turns), 4) == row["expected"]["billed_saving"]


def test_most_of_the_saving_comes_from_two_parameters():
    row = vector("cost-sensitivity")
    cases = [("0.95", "0.30"), ("0.95", "0.11"), ("0.60", "0.30"), ("0.60", "0.11")]
    found = [
        saving(published().given("trigger", Decimal(trigger)).given("residue", Decimal(residue)), row["input"]["turns"])
        for trigger, residue in cases
    ]
    assert [round(one, 4) for one in found] == row["expected"]["relay_saving"]


def test_what_a_fresh_leg_reads_again_eats_the_rest():
    row = vector("cost-sensitivity-rederive")
    setting = published().given("residue", Decimal(str(row["input"]["keep"])))
    tokens = row["input"]["rederive_tokens_per_rotation"]
    found = [saving(setting.given("orientation", one), row["input"]["turns"]) for one in tokens]
    assert [round(one, 4) for one in found[:2]] == row["expected"]["relay_saving"][:2]
    assert abs(found[2]) < 0.005  # "about 0 (break-even)"


def test_its_verdicts_are_ours_in_three_words():
    """Spec wins: "the verdict is cheaper, dearer or not yet"; the reference has a win and everything else."""
    row = vector("cost-verdict")
    assert row["use"].startswith("spec wins")
    work = Work(4_000, 200_000, (Step(6_000),) * 300)

    def verdict(setting: Setting, turns: int = 300) -> str:
        return compare(Work(4_000, 200_000, work.steps[:turns]), setting, setting.prices()).verdict

    assert verdict(published()) == "cheaper"
    assert verdict(published().given("orientation", 60_000)) == "dearer"
    assert verdict(published(), turns=3) == "not yet"


def test_its_own_target_is_missed_and_it_breaks_even_where_it_says():
    """For information: `cost-gate-50` and `cost-breakeven-rederive`."""
    gate = vector("cost-gate-50")
    found = [round(saving(published(), turns), 4) for turns in gate["input"]["horizons"]]
    assert found == gate["expected"]["savings"]
    even = vector("cost-breakeven-rederive")
    for turns, tokens in zip(
        even["input"]["turns"], even["expected"]["R_at_which_relay_stops_being_cheaper"], strict=True
    ):
        work = Work(4_000, 200_000, (Step(6_000),) * turns)
        assert abs(compare(work, published(), published().prices()).break_even.tokens - tokens) < 3_000
