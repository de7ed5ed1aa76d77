"""rules.md, Policy is data: "validated"; a value that a key does not take is an error that names the key."""

from datetime import timedelta
from decimal import Decimal

import pytest

from relays.core.lifecycle import EndDecision
from relays.core.limits import parse_duration
from relays.core.policy import PolicyError, build
from relays.core.policyfile import parse_toml_relay_table
from relays.core.vocabulary import Reason


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("baseline", "cheap"),
        ("baseline", {"no name": 1}),
        ("baseline", {"x" * 101: 1}),
        ("baseline", {"price": True}),
        ("baseline", {"price": float("nan")}),
        ("baseline", {"price": 10**16}),
        ("baseline", {"price": "two\nlines"}),
        ("baton", "small"),
        ("baton", {"colour": 1}),
        ("envelope.spend", "1e3"),
        ("envelope.wall", "a while"),
        ("leg.spend", "0"),
        ("leg.wall", 0),
        ("leg.wall", float("inf")),
        ("leg.wall", -1),
        ("leg.wall", True),
    ],
)
def test_a_value_that_no_key_takes_names_its_key(key, value):
    with pytest.raises(PolicyError) as refused:
        build({}, None, {key: value})
    assert refused.value.key.startswith(key)
    assert "\n" not in str(refused.value)


def test_a_baseline_holds_numbers_and_words():
    made = build({}, None, {"baseline": {"price.in": "3", "price.out": "15.5", "model": "plain", "factor": 0.25}})
    assert dict(made.baseline) == {"price.in": 3, "price.out": 15.5, "model": "plain", "factor": 0.25}


def test_a_limit_of_each_kind_is_compared_as_what_it_is():
    """A repository tightens counts, money and durations alike."""
    site = {"leg.turns": 10, "leg.spend": "5", "leg.wall": "1h"}
    made = build(site, {"leg.turns": 9, "leg.spend": "4.99", "leg.wall": "59m"}, {})
    assert (made.leg.turns, made.leg.spend, made.leg.wall) == (9, Decimal("4.99"), timedelta(minutes=59))
    for key, looser in (("leg.turns", 11), ("leg.spend", "5.01"), ("leg.wall", "61m")):
        with pytest.raises(PolicyError, match=key):
            build(site, {key: looser}, {})


def test_a_file_that_is_nested_without_end_is_refused_in_one_line():
    with pytest.raises(PolicyError) as refused:
        parse_toml_relay_table("x = " + "\n[" * 30_000)
    assert "\n" not in str(refused.value)


def test_a_duration_of_another_kind_is_refused():
    assert parse_duration(timedelta(days=3660)) == timedelta(days=3660)
    for value in (timedelta(days=3661), timedelta(seconds=-1), None, []):
        with pytest.raises(ValueError, match="duration|between"):
            parse_duration(value)


def test_the_record_of_an_end_reads_only_what_was_written():
    """states.md, How a leg ends: "A recorded end decision is finished"."""
    whole = EndDecision(Reason.ROTATED, detail=("it was safe",)).as_mapping()
    assert EndDecision.from_mapping(whole).detail == ("it was safe",)
    for damage in ({"detail": "it was safe"}, {"reason": "RELAY_RESTED"}):
        with pytest.raises(ValueError, match="detail|RELAY_RESTED"):
            EndDecision.from_mapping(whole | damage)
    with pytest.raises(KeyError):
        EndDecision.from_mapping({})
