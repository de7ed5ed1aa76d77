"""`fact ID` and `pin ID`: what a person states for every leg, from the command line."""

from pathlib import Path

import pytest

from relays.models import Decision, Relay
from tests.management.conftest import Cli
from tests.report_builders import Story

pytestmark = pytest.mark.django_db


@pytest.fixture
def relay(tmp_path: Path) -> Relay:
    told = Story(tmp_path / "repo", issues=3)
    told.leg(turns=2)
    return told.relay


def test_a_fact_is_added_listed_and_removed(cli: Cli, relay: Relay) -> None:
    assert cli("fact", relay.pk, "--json").json == {"relay": relay.pk, "decision": None, "facts": []}
    added = cli("fact", relay.pk, "--add", "The port is 8001.", "--comment", "told", "--json")
    row = Decision.objects.get()
    one = {"kind": "fact", "pointer": f"ledger:{relay.pk}.0.p{row.seq}", "text": "The port is 8001."}
    assert (added.code, added.json) == (0, {"relay": relay.pk, "decision": row.seq, "facts": [one]})
    assert cli("status", relay.pk, "--json").json["facts"] == [one]
    assert f"fact {one['pointer']} The port is 8001." in cli("fact", relay.pk).out.decode()
    again = cli("fact", relay.pk, "--add", "The port is 8001.")
    assert again.code == 0 and "nothing changed" in again.out.decode()
    gone = cli("fact", relay.pk, "--remove", "The port is 8001.", "--json")
    assert (gone.json["facts"], Decision.objects.count()) == ([], 2)


def test_a_pin_is_a_pointer(cli: Cli, relay: Relay) -> None:
    added = cli("pin", relay.pk, "--add", "#1", "--json")
    assert added.json["facts"] == [{"kind": "pin", "pointer": "issue:#1", "text": None}]
    gone = cli("pin", relay.pk, "--remove", "issue:#1")
    assert gone.code == 0 and "no pin and no fact stands" in gone.out.decode()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["pin", "{}", "--add", "free text"], 2),
        (["pin", "{}", "--remove", "#1"], 2),
        (["fact", "{}", "--add", "a", "--remove", "b"], 2),
        (["fact", "{}", "--add", "a", "--as", "nobody"], 14),
        (["fact", "RLY-20200101-0001"], 14),
        (["pin", "RLY-20200101-0001", "--add", "#1"], 14),
    ],
)
def test_what_is_refused_is_one_line_with_its_exit_code(
    cli: Cli, relay: Relay, arguments: list[str], code: int
) -> None:
    done = cli(*(argument.format(relay.pk) for argument in arguments))
    assert (done.code, Decision.objects.count()) == (code, 0)
    assert done.line
