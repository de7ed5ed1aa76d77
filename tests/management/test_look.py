"""`relay look ID`: what workers start for a watch whose done_when runs commands (rules.md, No progress and watch)."""

import pytest

from relays.driver import spawn
from tests.management.conftest import Cli
from tests.web_builders import make_leg, make_relay


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["RLY-20200101-0001", "", "a\x1b[31m"])
def test_an_unknown_relay_is_exit_14(cli: Cli, name: str) -> None:
    done = cli("look", name)
    assert (done.code, "is not known here" in done.line) == (14, True)


@pytest.mark.django_db(transaction=True)
def test_a_relay_that_does_not_idle_is_left_alone(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spawn, "supervisor", lambda relay_id, leg_pk: pytest.fail("it has ended"))
    relay = make_relay(status="done")
    make_leg(relay, 0, reason="RELAY_GOAL_DONE")
    done = cli("look", relay.pk, "--json")
    assert (done.code, done.json) == (0, {"relay": relay.pk, "said": f"{relay.pk}: nothing to do"})
