"""`relay token add|list|revoke`."""

import pytest

from tests.management.conftest import Cli
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db


def test_add_list_revoke(cli: Cli) -> None:
    made = cli("token", "add", "nightly", "--role", "operator", "--days", "7", "--json").json
    assert made["secret"].startswith("rly_")
    assert (made["state"], made["owner"], made["role"]) == ("stands", "local", "operator")
    listed = cli("token", "list", "--json")
    assert [one["token"] for one in listed.json["tokens"]] == [made["token"]]
    assert made["secret"].encode() not in listed.out
    assert cli("token", "revoke", made["token"], "--json").json["state"] == "revoked"
    assert cli("token", "revoke", made["token"]).code == 13
    words = cli("token", "add", "other", "--role", "sender").out.decode()
    assert "shown this once" in words


def test_refusals_are_one_line(cli: Cli) -> None:
    make_user("pat", "manager")
    assert cli("token", "add", "x", "--role", "tsar").code == 2
    assert cli("token", "add", "x", "--role", "operator", "--as", "pat").code == 12
    assert cli("token", "add", "x", "--role", "manager", "--for", "local", "--as", "pat").code == 12
    assert cli("token", "revoke", "77").code == 14
    assert cli("token", "add", "x", "--role", "manager", "--days", "0").code == 2
    assert "make one" not in cli("token", "list", "--as", "pat").err
