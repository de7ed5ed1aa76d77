"""`relay park ID [--now]`: the answer and the exit codes."""

import pytest

from relays.models import Decision, Relay
from tests.management.conftest import Cli
from tests.web_builders import make_leg, make_relay, make_user

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(("flags", "will"), [([], "drain"), (["--now"], "now")])
def test_with_a_live_leg(cli: Cli, flags: list[str], will: str) -> None:
    relay = make_relay()
    make_leg(relay, 3)
    done = cli("park", relay.pk, *flags, "--comment", "lunch", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json == {"relay": relay.pk, "status": "running", "leg": 3, "will": will}
    assert Decision.objects.get().comment == "lunch"
    again = cli("park", relay.pk, *flags, "--json")
    assert (again.code, again.json) == (0, done.json)
    assert Decision.objects.count() == 1


def test_without_one(cli: Cli) -> None:
    relay = make_relay(status="waiting")
    make_leg(relay, 0, state="pending")
    done = cli("park", relay.pk, "--json")
    assert done.json == {"relay": relay.pk, "status": "parked", "leg": 0, "will": "none"}
    assert cli("park", relay.pk).out.decode() == f"{relay.pk} parked: nothing more happens\n"


def test_not_permitted(cli: Cli) -> None:
    make_user("rae", "reviewer")
    relay = make_relay()
    done = cli("park", relay.pk, "--as", "rae")
    assert (done.code, "ask an admin for the role operator" in done.line) == (12, True)
    assert not Decision.objects.exists()


def test_not_legal_now(cli: Cli) -> None:
    relay = make_relay(status="done")
    done = cli("park", relay.pk)
    assert (done.code, done.line) == (13, f"park {relay.pk}: it is done; a done relay stays done")
    assert Relay.objects.get().status == "done"


def test_a_comment_with_escapes_is_refused(cli: Cli) -> None:
    relay = make_relay()
    make_leg(relay, 0)
    done = cli("park", relay.pk, "--comment", "\x1b[31m")
    assert (done.code, "control character" in done.line) == (2, True)
    assert cli("park", relay.pk, "--comment", "a\udcff").code == 2
    assert not Decision.objects.exists()
