"""rules.md, Words: `waiting`, "cap, back-off, overload, held region; with `next_at`"; states.md, Leg, `backoff`."""

from datetime import UTC, datetime, timedelta

import pytest

from relays.core import backoff
from relays.core.backoff import Trouble

NOW = datetime(2026, 7, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@pytest.mark.parametrize("trouble", Trouble)
def test_every_trouble_has_its_plain_words(trouble: Trouble) -> None:
    assert backoff.WORDS[trouble].isprintable() and str(trouble) not in backoff.WORDS[trouble].split()
    assert backoff.WORDS[trouble] in backoff.why(trouble, 3) and "tries: 3" in backoff.why(trouble, 3)


def test_overload_and_network_may_pass_and_a_lost_sign_in_does_not() -> None:
    assert [one for one in Trouble if backoff.passes(one)] == [Trouble.OVERLOAD, Trouble.NETWORK]
    assert not backoff.passes("") and not backoff.passes("elsewhere")


def test_where_the_agent_does_not_say_it_is_5_seconds_doubling_to_5_minutes() -> None:
    seconds = [backoff.step(tries, None).total_seconds() for tries in (0, 1, 2, 3, 6, 7, 8, 10_000)]
    assert seconds == [5, 5, 10, 20, 160, 300, 300, 300]
    assert backoff.step(9, timedelta(hours=3)) == timedelta(hours=3)


def test_it_is_looked_at_again_at_the_agents_next_try_and_at_least_every_5_minutes() -> None:
    assert backoff.look_at(NOW, NOW + MINUTE) == NOW + MINUTE
    assert backoff.look_at(NOW, NOW + timedelta(hours=8)) == NOW + 5 * MINUTE
    for past in (NOW, NOW - MINUTE):  # it should have tried by now
        assert backoff.look_at(NOW, past) == NOW + timedelta(seconds=5)


def test_retries_are_over_with_the_patience() -> None:
    assert not backoff.retries_over(29 * MINUTE, 30 * MINUTE)
    assert backoff.retries_over(30 * MINUTE, 30 * MINUTE)
    assert backoff.retries_over(timedelta(0), timedelta(0))
