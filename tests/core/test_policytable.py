"""One table of a policy: as people write it, over another, against another, and where each value came from."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relays.core import policy, policyfile, policytable
from relays.core.policytable import GROUPS, Change

VALUES = st.fixed_dictionaries(
    {},
    optional={
        "ceiling": st.sampled_from([0.5, 0.75, 0.9, 1, ".4"]),
        "green": st.text(string.printable.replace("\n", "").replace("\r", "").replace("\t", "")[:-2], max_size=40),
        "leg.wall": st.sampled_from(["15 min", 90, "1h30m", "none"]),
        "envelope.spend": st.decimals(0, 10**6, places=2).map(str),
        "effectful_tools": st.lists(st.sampled_from(["Bash", "mcp__*", "Write"]), max_size=3),
        "four_eyes": st.booleans(),
        "baseline.compaction.trigger": st.sampled_from([0.8, 1, "measured"]),
    },
)


def test_every_key_stands_under_one_heading_with_what_it_means() -> None:
    named = [key for keys in GROUPS.values() for key in keys]
    assert sorted(named) == sorted(key for key in policy.KEYS if key != "baseline")
    assert all(meaning for keys in GROUPS.values() for meaning in keys.values())


def test_a_key_with_choices_takes_each_and_no_other() -> None:
    for key, words in policytable.CHOICES.items():
        assert policytable.problems(dict.fromkeys([key], "other")).keys() == {key}
        for word in words:
            assert policytable.canonical({key: word})[key] in (word, word == "true")


@given(VALUES)
@settings(max_examples=40)
def test_what_is_written_reads_as_the_same_table(table: dict[str, object]) -> None:
    found = policytable.canonical(table)
    read = policyfile.parse_toml_relay_table(policytable.write(table), alone=True)
    assert policytable.canonical(read) == found
    assert policy.build({}, None, read) == policy.build({}, None, table)
    assert policytable.changes(table, read) == ()


@given(VALUES)
@settings(max_examples=40)
def test_a_value_as_a_word_sets_it_again(table: dict[str, object]) -> None:
    sets = [f"{key}={policytable.word(value)}" for key, value in policytable.canonical(table).items()]
    assert policy.build({}, None, {}, sets) == policy.build({}, None, table)


def test_changes_name_what_differs_and_not_what_is_said_in_other_words() -> None:
    before = {"ceiling": 0.9, "leg": {"wall": "90s", "turns": 4}, "green": "make"}
    after = {"ceiling": "0.90", "leg.wall": "1m30s", "leg": {"turns": "none"}, "mode": "shadow"}
    assert policytable.changes(before, after) == (
        Change("leg.turns", "4", "none"), Change("green", "make", None), Change("mode", None, "shadow"),
    )  # fmt: skip


def test_every_problem_is_told_and_not_the_first_alone() -> None:
    found = policytable.problems({"ceiling": 7, "leg": {"turns": "many"}, "ceilin": 1, "mode": "loud", "green": "ok"})
    assert set(found) == {"ceiling", "leg.turns", "ceilin", "mode"}
    assert found["ceilin"] == "unknown key, did you mean ceiling?"
    assert found["mode"] == "must be one of shadow, advise, enforce"


def test_the_last_layer_that_says_a_key_is_its_source() -> None:
    layers = [("site", {"ceiling": 0.8, "mode": "shadow"}), ("repository", {"ceiling": 0.7}), ("start", {})]
    assert policytable.sources(layers) == {"ceiling": "repository", "mode": "site"}
    assert policytable.merged({"leg": {"turns": 4}}, {"leg.turns": 5}) == {"leg.turns": 5}
    with pytest.raises(policy.PolicyError, match="ceilin"):
        policytable.sources([("start", {"ceilin": 1})])
