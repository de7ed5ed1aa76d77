"""`relay resume ID`: the answer and the exit codes."""

import pytest

from relays.models import Decision
from tests.management.conftest import Cli
from tests.web_builders import make_gate, make_leg, make_relay, make_user

pytestmark = pytest.mark.django_db


def test_a_persons_park_goes_on(cli: Cli) -> None:
    relay = make_relay(status="ready")
    make_leg(relay, 0, state="pending")
    assert cli("park", relay.pk).code == 0
    done = cli("resume", relay.pk, "--comment", "back", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json == {"relay": relay.pk, "status": "ready", "leg": 0, "will": "start"}
    assert Decision.objects.get(act="resume").comment == "back"
    assert cli("park", relay.pk).code == 0
    words = cli("resume", relay.pk).out.decode()
    assert words == f"{relay.pk} ready: it is checked first; a leg starts unless it is done or may rest\n"
    again = cli("resume", relay.pk)
    assert (again.code, again.out.decode()) == (0, f"{relay.pk} ready: nothing more happens\n")
    assert Decision.objects.count() == 4


def test_a_gate_comes_first(cli: Cli) -> None:
    relay = make_relay(status="parked")
    gate = make_gate(relay)
    done = cli("resume", relay.pk)
    assert done.code == 13
    assert f"gate {gate.pk} (RELAY_PARKED_UNSAFE) waits for a decision; `relay approve {gate.pk}`" in done.line


def test_a_refused_gate_is_reopened_first(cli: Cli) -> None:
    relay = make_relay(status="parked")
    gate = make_gate(relay, state="refused")
    done = cli("resume", relay.pk)
    assert (done.code, f"`relay refuse {gate.pk} --reopen`" in done.line) == (13, True)


def test_not_permitted_and_not_legal(cli: Cli) -> None:
    make_user("rae", "reviewer")
    assert cli("resume", make_relay(status="parked").pk, "--as", "rae").code == 12
    done = cli("resume", make_relay(status="stopped").pk)
    assert (done.code, "start a new relay" in done.line) == (13, True)
    assert not Decision.objects.exists()
