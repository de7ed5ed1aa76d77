"""`ledger add` and `ledger list`: append-only rows of references, judged when they are written."""

from collections.abc import Callable
from pathlib import Path

import pytest

from relays.models import LedgerRow, Outbox, Relay, RelayStatus
from tests.management.conftest import Cli
from tests.management.test_check_baton import relay_for
from tests.web_builders import make_leg, make_relay, make_user

pytestmark = pytest.mark.django_db
Git = Callable[..., str]


@pytest.fixture
def relay(repo: Path, git: Git) -> Relay:
    sha = git(repo, "rev-parse", "HEAD")
    made = relay_for(repo, sha)
    git(repo, "branch", made.branch, sha)
    make_leg(made, 2)
    return made


def test_add_and_list(cli: Cli, relay: Relay) -> None:
    sha = relay.start_sha
    done = cli(
        *["ledger", "add", relay.pk, "--ref", f"commit:{sha}", "--ref", "file:nope", "--ref", "#7"],
        *["--note", "looked\nat it", "--json"],
    )
    assert (done.code, done.err) == (0, "")
    assert done.json["id"] == f"{relay.pk}.2.c1"
    assert (done.json["relay"], done.json["leg"]) == (relay.pk, 2)
    assert done.json["refs"] == [
        {"ref": f"commit:{sha}", "verdict": "verified"},
        {"ref": "file:nope", "verdict": "dangling"},
        {"ref": "issue:#7", "verdict": done.json["refs"][2]["verdict"]},
    ]
    assert done.json["refs"][2]["verdict"] != "verified"
    assert cli("ledger", "add", relay.pk, "--ref", "file:README.md", "--json").json["id"] == f"{relay.pk}.2.c2"
    rows = cli("ledger", "list", relay.pk, "--json").json["rows"]
    assert [row["id"] for row in rows] == [f"{relay.pk}.2.c1", f"{relay.pk}.2.c2"]
    assert rows[0]["note"] == "looked at it"
    assert rows[0]["by"] == "person"
    assert Outbox.objects.filter(kind="ledger_ref").count() == 2  # the rows travel with the repository
    words = cli("ledger", "list", relay.pk)
    assert f"{relay.pk}.2.c1" in words.out.decode()


def test_an_empty_ledger_says_so(cli: Cli, relay: Relay) -> None:
    assert cli("ledger", "list", relay.pk).out.decode() == f"{relay.pk} has no ledger rows yet\n"


@pytest.mark.parametrize("ref", ["nope", "commit:HEAD", "file:/etc/passwd", "file:../x", "issue:7", "file:-x", ""])
def test_a_reference_that_is_no_pointer_is_refused(cli: Cli, relay: Relay, ref: str) -> None:
    done = cli("ledger", "add", relay.pk, f"--ref={ref}")
    assert done.code == 2
    assert "kind:ref" in done.line
    assert not LedgerRow.objects.exists()


def test_who_may(cli: Cli, relay: Relay) -> None:
    make_user("mia", "manager")
    done = cli("ledger", "add", relay.pk, "--ref", "file:README.md", "--as", "mia")
    assert done.code == 12
    assert "mia" in done.line
    make_user("olga", "operator")
    assert cli("ledger", "add", relay.pk, "--ref", "file:README.md", "--as", "olga").code == 0
    assert cli("ledger", "add", relay.pk, "--ref", "file:README.md", "--as", "nobody").code == 14


def test_a_relay_that_is_unknown_or_has_ended(cli: Cli) -> None:
    assert cli("ledger", "list", "RLY-none").code == 14
    assert cli("ledger", "add", "RLY-none", "--ref", "file:x").code == 14
    ended = make_relay(status=RelayStatus.DONE)
    done = cli("ledger", "add", ended.pk, "--ref", "file:x")
    assert done.code == 13
    assert "done" in done.line


def test_a_repository_that_is_gone_makes_every_reference_unknown(cli: Cli) -> None:
    relay = make_relay(git_dir="/nowhere/at/all")
    done = cli("ledger", "add", relay.pk, "--ref", "file:README.md", "--json")
    assert done.json["refs"] == [{"ref": "file:README.md", "verdict": "unknown"}]
