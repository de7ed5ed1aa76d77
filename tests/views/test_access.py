"""Authorise and load: rights of the roles, and objects that are not there."""

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest
from django.test import RequestFactory

from relays import access
from relays.models import GateEpisode, Relay
from relays.reports.roles import RIGHTS, ROLE_FOR, ROLES, rights_of
from tests.web_builders import make_gate, make_relay, make_user

pytestmark = pytest.mark.django_db

EXPECTED = {
    "operator": {"operate", "read"},
    "reviewer": {"review", "read"},
    "manager": {"read"},
    "admin": {"operate", "review", "read", "administer"},
}


def request_of(user: User | AnonymousUser) -> HttpRequest:
    request = RequestFactory().get("/")
    request.user = user
    return request


def test_the_migration_made_the_four_groups() -> None:
    assert set(Group.objects.values_list("name", flat=True)) >= set(ROLES) == set(EXPECTED)


@pytest.mark.parametrize("role", ROLES)
def test_each_role_has_its_rights_and_no_more(role: str) -> None:
    user = make_user("", role)
    assert {right for right in RIGHTS if access.may(user, right)} == EXPECTED[role]


def test_roles_add_up_and_a_superuser_may_all() -> None:
    assert rights_of(make_user("", "operator", "reviewer")) == {"operate", "review", "read"}
    assert rights_of(User.objects.create_superuser("root")) == RIGHTS


def test_nobody_anonymous_inactive_or_without_a_role_may_anything() -> None:
    user = make_user("", "admin")
    user.is_active = False
    for one in (AnonymousUser(), user, make_user()):
        assert rights_of(one) == frozenset()


def test_a_word_that_is_no_right_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no right"):
        access.may(make_user("", "admin"), "fly")


@pytest.mark.parametrize("right", sorted(RIGHTS))
def test_a_refusal_names_the_missing_role(right: str) -> None:
    with pytest.raises(PermissionDenied) as refused:
        access.require(request_of(make_user("jonas")), right)
    assert ROLE_FOR[right] in str(refused.value) and "jonas has no role" in str(refused.value)
    access.require(request_of(make_user("", "admin")), right)


def test_loading_takes_one_query(django_assert_num_queries: object) -> None:
    relay = make_relay()
    gate = make_gate(relay)
    request = request_of(make_user("", "manager"))
    access.require(request, "read")  # the roles are asked once per request
    with django_assert_num_queries(2):  # type: ignore[operator]
        assert access.load_relay(request, relay.pk).owner.username
        assert access.load_gate(request, gate.pk).relay.owner.username


@pytest.mark.parametrize("relay_id", ["RLY-1", "", "x" * 5000, "a\0b", "../../etc/passwd", "' OR 1=1 --"])
def test_a_relay_that_is_not_there(relay_id: str) -> None:
    make_relay()
    with pytest.raises(Http404, match="There is no relay"):
        access.load_relay(request_of(make_user("", "manager")), relay_id)


@pytest.mark.parametrize("pk", [0, -1, 999_999, 2**63, 10**40])
def test_a_gate_that_is_not_there(pk: int) -> None:
    with pytest.raises(Http404, match="There is no gate"):
        access.load_gate(request_of(make_user("", "manager")), pk)


def test_who_may_not_read_learns_nothing_about_what_is_there() -> None:
    relay = make_relay()
    request = request_of(make_user())
    for relay_id in (relay.pk, "RLY-none"):
        with pytest.raises(PermissionDenied):
            access.load_relay(request, relay_id)
    with pytest.raises(PermissionDenied):
        access.load_gate(request, make_gate(relay).pk)


def test_what_is_deleted_meanwhile_is_not_found() -> None:
    relay = make_relay()
    gate = make_gate(relay)
    request = request_of(make_user("", "manager"))
    access.load_gate(request, gate.pk)
    GateEpisode.objects.all().delete()
    Relay.objects.all().delete()
    with pytest.raises(Http404):
        access.load_gate(request, gate.pk)
    with pytest.raises(Http404):
        access.load_relay(request, relay.pk)
