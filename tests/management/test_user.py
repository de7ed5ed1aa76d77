"""`user add`: people with roles, and one-time links."""

import pytest
from django.contrib.auth.models import User

from tests.management.conftest import Cli

pytestmark = pytest.mark.django_db


def test_add_and_add_a_second_role(cli: Cli) -> None:
    assert cli("user", "add", "ann", "--role", "operator", "--json").json == {"user": "ann", "roles": ["operator"]}
    assert cli("user", "add", "ann", "--role", "reviewer", "--json").json["roles"] == ["operator", "reviewer"]
    assert User.objects.filter(username="ann").count() == 1
    assert not User.objects.get(username="ann").has_usable_password()


@pytest.mark.parametrize(
    ("name", "role"), [("ann", "king"), ("", "operator"), ("a b", "operator"), ("x" * 151, "admin")]
)
def test_refusals(cli: Cli, name: str, role: str) -> None:
    done = cli("user", "add", name, "--role", role)
    assert done.code == 2
    assert done.line
    assert User.objects.filter(username=name).count() == 0


def test_the_link_signs_in_once(cli: Cli, client) -> None:
    link = cli("user", "add", "bob", "--role", "manager", "--link", "--json").json["link"]
    path = link.removeprefix("http://127.0.0.1:8000")
    assert path.startswith("/sign-in/")
    assert client.get(path).status_code == 200
    assert client.post(path).status_code == 302
    assert client.session["_auth_user_id"] == str(User.objects.get(username="bob").pk)
    client.logout()
    client.post(path)
    assert "_auth_user_id" not in client.session
