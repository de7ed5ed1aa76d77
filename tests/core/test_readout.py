from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.objective import Reconciliation
from relays.core.readout import (
    AssumptionCounts,
    BudgetLeft,
    MemoryCounts,
    ResetLine,
    ResidentCounts,
    as_mapping,
    build,
    duration,
    lines,
)

KEYS = ("objective", "budget", "resident_view", "assumptions", "reset", "memory", "cache")


def test_without_records_every_line_says_not_yet():
    assert lines(build()) == tuple(f"{key}: not yet" for key in KEYS)


def test_the_seven_lines():
    readout = build(
        objective=Reconciliation.PRESERVED,
        budget=BudgetLeft(turns=40, tokens=None, context=98_000, queries=0, time=timedelta(hours=2, minutes=5)),
        resident=ResidentCounts(selected=4, elided=31, served=2, refused=1),
        assumptions=AssumptionCounts(use=3, query=1, refresh=0),
        reset=ResetLine("t-6", "t-7", "a" * 64, 31),
        memory=MemoryCounts(promoted=1, refused_or_expired=2, ambiguous=0),
        cache="warm",
    )
    assert lines(readout) == (
        "objective: preserved",
        "budget: turns=40 tokens=none context=98000 queries=0 time=2h5m",
        "resident_view: selected=4 elided=31 page_faults=2/1",
        "assumptions: use=3 query=1 refresh=0",
        f"reset: old_trace=t-6 new_trace=t-7 seed_digest={'a' * 64} omitted=31",
        "memory: promoted=1 refused_or_expired=2 ambiguous=0",
        "cache: warm (cost only)",
    )
    assert tuple(as_mapping(readout)) == KEYS
    assert as_mapping(readout)["objective"] == "preserved"


@pytest.mark.parametrize("word", list(Reconciliation))
def test_every_reconciliation_is_a_word_of_the_line(word):
    assert lines(build(objective=word))[0] == f"objective: {word.value}"


def test_a_spent_budget_reads_zero_and_never_none():
    line = lines(build(budget=BudgetLeft(turns=0, tokens=-5, time=timedelta(seconds=-1))))[1]
    assert line == "budget: turns=0 tokens=0 context=none queries=none time=0s"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59.9, "59s"), (60, "1m"), (3600, "1h"), (5410, "1h30m10s"), (360_000, "100h")]
)
def test_durations(seconds, text):
    assert duration(timedelta(seconds=seconds)) == text


@given(st.text(), st.text(), st.text())
def test_no_text_can_forge_a_line_or_a_key(old, new, digest):
    found = lines(build(reset=ResetLine(old, new, digest, 1)))
    assert len(found) == 7
    assert found[4].isprintable()
    assert len(found[4].split(" ")) == 5
