import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core import baton as batons
from relays.core import reset
from relays.core.objective import make_pin
from relays.core.reset import PREAMBLE, SeedError, omitted_spans, omitted_total, recorded_size, seed
from tests.core.batons import plain, text_of

PIN = make_pin("pin-1", "Drain it.")
BATON = batons.canonical(batons.read(text_of(plain())).baton)
D = "d" * 64


def test_a_seed_is_preamble_pin_baton_and_pointers():
    made = seed(PREAMBLE, PIN, BATON, ["ledger:r1", "issue:#4"])
    assert made.digest == hashlib.sha256(made.bytes).hexdigest()
    assert [one.kind for one in made.contributors] == ["preamble", "objective_pin", "baton", "user_fact", "user_fact"]
    assert made.contributors[2].digest == hashlib.sha256(BATON).hexdigest()
    assert [one.pointer for one in made.contributors[3:]] == ["ledger:r1", "issue:#4"]
    assert made.contributors[3].as_mapping() == {
        "kind": "user_fact",
        "digest": hashlib.sha256(b"ledger:r1\n").hexdigest(),
        "bytes": len(b"ledger:r1\n\n"),
        "pointer": "ledger:r1",
    }
    assert recorded_size([one.as_mapping() for one in made.contributors]) == len(made.bytes)
    rest = made.bytes.decode()
    for part in (PREAMBLE, PIN.text, PIN.digest, BATON.decode(), "ledger:r1", "issue:#4"):
        assert part in rest
        rest = rest.replace(part, "", 1)
    assert rest.split() == ["objective", "pin-1"]


def test_the_same_parts_give_the_same_bytes():
    assert seed(PREAMBLE, PIN, BATON, ["ledger:r1"]) == seed(PREAMBLE, PIN, BATON, ["ledger:r1", "ledger:r1"])


def test_the_size_of_a_seed_that_no_record_says_is_not_known():
    assert recorded_size([]) is None
    assert recorded_size([{"kind": "preamble"}, {"kind": "baton", "bytes": 3}]) is None


def test_a_seed_is_bounded(monkeypatch):
    size = len(seed(PREAMBLE, PIN, BATON).bytes)
    monkeypatch.setattr(reset, "SEED_BYTES", size)
    assert len(seed(PREAMBLE, PIN, BATON).bytes) == size
    with pytest.raises(SeedError, match=f"{size + 11} bytes, more than {size}"):
        seed(PREAMBLE, PIN, BATON, ["ledger:r1"])


def test_every_leg_of_a_relay_begins_with_the_same_bytes():
    """So that the prefix caches: preamble and pin stand first, and nothing of a leg is in them."""
    first = seed(PREAMBLE, PIN, b"").bytes
    assert seed(PREAMBLE, PIN, BATON, ["ledger:r1"]).bytes.startswith(first)


def test_leg_zero_has_no_baton():
    assert [one.kind for one in seed(PREAMBLE, PIN, b"").contributors] == ["preamble", "objective_pin"]


RECAP = "So far we fixed the parser and then agreed to leave the cache alone."


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("preamble", {"preamble": PREAMBLE + RECAP}),
        ("preamble", {"preamble": ""}),
        ("objective_pin", {"pin": replace(PIN, text=f"{PIN.text} {RECAP}")}),
        ("baton", {"baton": BATON + b"\n" + RECAP.encode()}),
        ("baton", {"baton": RECAP.encode()}),
        ("baton", {"baton": json.dumps(plain(recap=RECAP)).encode()}),
        ("baton", {"baton": b" " + BATON}),
        ("baton", {"baton": b"\xff"}),
        ("user_fact", {"user_facts": [RECAP]}),
        ("user_fact", {"user_facts": [f"ledger:r1 {RECAP}"]}),
        ("user_fact", {"user_facts": [f"file:{RECAP}"]}),
        ("user_fact", {"user_facts": ["ledger:r1\nrecap"]}),
        ("user_fact", {"user_facts": ["file:../../etc/passwd"]}),
        ("user_fact", {"user_facts": [{"text": RECAP}]}),
        ("user_fact", {"user_facts": [f"ledger:r{number}" for number in range(65)]}),
        ("recap", {"recap": RECAP}),
        ("verbatim_tail", {"verbatim_tail": [RECAP]}),
    ],
)
def test_a_planted_recap_is_refused(part, change):
    parts = {"preamble": PREAMBLE, "pin": PIN, "baton": BATON, "user_facts": ["ledger:r1"]}
    seed(**parts)
    with pytest.raises(SeedError) as refused:
        seed(**{**parts, **change})
    assert refused.value.contributor == part
    assert RECAP not in str(refused.value)


def test_a_baton_of_another_objective_is_refused():
    with pytest.raises(SeedError, match="objective is not the pin"):
        seed(PREAMBLE, make_pin("pin-1", "Another goal."), BATON)


@given(st.text(min_size=1, max_size=30))
def test_any_text_behind_a_canonical_baton_is_refused(tail):
    with pytest.raises(SeedError):
        seed(PREAMBLE, PIN, BATON + tail.encode("utf-8", "replace"))


def test_what_was_left_behind_is_counted_with_digests():
    turns = [f"{number:064x}" for number in range(5)]
    spans = [one.as_mapping() for one in omitted_spans(turns, listed=3)]
    assert [(one["index"], one["role"], one["count"], one["digest"]) for one in spans[:3]] == [
        (1, "turn", 1, turns[0]),
        (2, "turn", 1, turns[1]),
        (3, "turn", 1, turns[2]),
    ]
    rest = spans[3]
    assert (rest["index"], rest["count"]) == (4, 2)
    assert rest["digest"] == hashlib.sha256((turns[3] + turns[4]).encode()).hexdigest()
    assert {one["reason"] for one in spans} == {"a transcript is never carried"}


@given(st.integers(0, 30), st.integers(1, 10))
def test_omitted_counts_every_turn_however_many_are_listed(turns, listed):
    spans = omitted_spans([D] * turns, listed=listed)
    assert len(spans) <= listed + 1
    assert omitted_total([one.as_mapping() for one in spans]) == turns


@pytest.mark.parametrize("digest", ["", "D" * 64, D + "\n", "so far we"])
def test_a_turn_that_could_not_be_named_again_is_refused(digest):
    with pytest.raises(SeedError, match="turn 2"):
        omitted_spans([D, digest])
