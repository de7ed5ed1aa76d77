"""Who acts on the command line, and making users."""

import os
import pwd

import pytest
from django.contrib.auth.models import User

from relays.actions import people
from relays.actions.base import Actor, NotFound, NotLegalNow, Usage
from relays.reports import roles
from tests.web_builders import make_user

pytestmark = pytest.mark.django_db


def test_without_a_name_it_is_local_with_every_role_made_once() -> None:
    assert people.actor().user == people.actor().user
    local = User.objects.get(username="local")
    assert all(roles.may(local, right) for right in roles.RIGHTS)
    assert not local.has_usable_password()


def test_a_local_that_somebody_made_keeps_its_roles() -> None:
    make_user("local", "manager")
    assert not roles.may(people.actor().user, "operate")


def test_the_operating_systems_user_is_the_processes_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert people.actor().os_user == pwd.getpwuid(os.getuid()).pw_name


@pytest.mark.parametrize("name", ["nobody", "../x", "a b", "\ud800", "a\0"])
def test_an_unknown_user_is_not_found_and_not_made(name: str) -> None:
    with pytest.raises(NotFound, match="no such user"):
        people.actor(name)
    assert not User.objects.exists()


def test_who_may_approve_is_counted_as_people() -> None:
    assert len(people.approvers()) == 0
    make_user("a", "reviewer", "admin")
    make_user("b", "operator", "manager")
    make_user("tour", "reviewer")
    gone = make_user("c", "reviewer")
    User.objects.filter(pk=gone.pk).update(is_active=False)
    assert len(people.approvers()) == 1
    User.objects.create_superuser("root")
    assert len(people.approvers()) == 2


def test_add_makes_a_user_with_a_role_and_adds_roles() -> None:
    people.add("ann", "reviewer")
    again = people.add("ann", "operator")
    assert roles.roles_of(User.objects.get(pk=again.pk)) == ("operator", "reviewer")
    for name, role in [("ann", "king"), ("", "operator"), ("a b", "operator"), ("-x", "operator"), ("a\n", "operator")]:
        with pytest.raises(Usage):
            people.add(name, role)
    assert User.objects.count() == 1


def test_the_admin_of_the_first_start_counts_as_one() -> None:
    root, ann = User.objects.create_superuser("root"), make_user("ann", "admin")
    who = Actor(root)
    people.take(who, ann.pk, "admin")
    assert not roles.may(User.objects.get(pk=ann.pk), roles.ADMINISTER)
    people.give(who, ann.pk, "admin")
    people.deactivate(Actor(User.objects.get(pk=ann.pk)), root.pk)
    with pytest.raises(NotLegalNow, match="last admin"):
        people.take(Actor(User.objects.get(pk=ann.pk)), ann.pk, "admin")
