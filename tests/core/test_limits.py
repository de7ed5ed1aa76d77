"""Durations, as texts and as numbers; the other values of a policy are tested where they are used, in test_policy."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.limits import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15 min", 900),
        ("10m", 600),
        ("2h", 7200),
        ("90s", 90),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("30 days", 30 * 86400),
        ("1 day", 86400),
        ("2 hours", 7200),
        ("5 Minutes", 300),
        ("45", 45),
        ("0.5s", 0.5),
        ("1.5h", 5400),
        (45, 45),
        (0.25, 0.25),
    ],
)
def test_durations(text: object, seconds: float) -> None:
    assert parse_duration(text).total_seconds() == seconds


@given(st.timedeltas(timedelta(0), timedelta(days=3660)))
def test_a_duration_survives_its_text(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(st.text(max_size=30))
def test_a_duration_is_read_or_refused_in_one_line(text: str) -> None:
    try:
        assert timedelta(0) <= parse_duration(text) <= timedelta(days=3660)
    except ValueError as problem:
        assert "\n" not in str(problem)
