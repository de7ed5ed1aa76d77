"""`relay supervise LEG`: what workers start; a wrong key is a refusal, not a crash."""

import pytest

from tests.management.conftest import Cli
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("key", ["999999", "-1", str(10**30)])
def test_an_unknown_leg_is_exit_14(cli: Cli, key: str) -> None:
    done = cli("supervise", "--", key)
    assert (done.code, "no leg has the key" in done.line) == (14, True)


def test_no_number_is_usage(cli: Cli) -> None:
    assert cli("supervise", "abc").code == 2


def test_a_leg_that_has_ended_is_left_alone(cli: Cli) -> None:
    leg = make_leg(make_relay(status="done"), 0, reason="RELAY_GOAL_DONE")
    done = cli("supervise", leg.pk, "--json")
    assert (done.code, done.json["leg"]) == (0, leg.pk)
    assert "ended already" in done.json["said"]
