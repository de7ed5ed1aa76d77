"""Two admins who remove each other at once: one does, the other is refused in words, and the site keeps an admin."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from relays.actions import people
from relays.actions.base import Actor, NotPermitted, Refused
from relays.models import Decision
from relays.reports import roles
from tests.actions.acts import check_chain
from tests.actions.test_races import at_once
from tests.web_builders import make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow, pytest.mark.postgres]
ROUNDS = 5


def admins() -> list[User]:
    return [user for user in User.objects.all() if roles.may(user, roles.ADMINISTER)]


def remove(actor: User, other: User, how: str) -> User:
    who = Actor(User.objects.get(pk=actor.pk))
    return people.take(who, other.pk, "admin") if how == "take" else people.deactivate(who, other.pk)


@pytest.mark.parametrize("how", [("take", "take"), ("deactivate", "deactivate"), ("take", "deactivate")])
def test_of_two_who_remove_each_other_one_stays(how: tuple[str, str]) -> None:
    for number in range(ROUNDS):
        ann, ben = make_user(f"ann{number}", "admin"), make_user(f"ben{number}", "admin")
        found = at_once(lambda a=ann, b=ben: remove(a, b, how[0]), lambda a=ann, b=ben: remove(b, a, how[1]))
        refused = [outcome for outcome in found if isinstance(outcome, Refused)]
        assert len(refused) == 1 and isinstance(refused[0], NotPermitted) and "ask an admin" in str(refused[0])
        assert len(admins()) == 1
        User.objects.filter(pk__in=[ann.pk, ben.pk]).update(is_active=False)
    assert Decision.objects.count() == ROUNDS and check_chain() == ROUNDS


def test_of_two_who_leave_at_once_one_stays() -> None:
    for number in range(ROUNDS):
        pair = [make_user(f"ann{number}", "admin"), make_user(f"ben{number}", "admin")]
        found = at_once(*[lambda one=one: remove(one, one, "take") for one in pair])
        assert ["last admin" in str(outcome) for outcome in found if isinstance(outcome, Refused)] == [True]
        assert len(admins()) == 1
        User.objects.filter(pk__in=[one.pk for one in pair]).update(is_active=False)


def test_the_pages_answer_in_words_and_never_with_an_error() -> None:
    for number in range(ROUNDS):
        pair = [make_user(f"ann{number}", "admin"), make_user(f"ben{number}", "admin")]
        browsers = [Client(), Client()]
        for browser, user in zip(browsers, pair, strict=True):
            browser.force_login(user)

        def press(browser: Client, other: User) -> Any:
            return browser.post(f"/users/{other.pk}/deactivate/")

        answers = at_once(
            lambda b=browsers[0], o=pair[1], press=press: press(b, o),
            lambda b=browsers[1], o=pair[0], press=press: press(b, o),
        )
        # who is refused has lost the right, or is signed out already
        assert sorted(answer.status_code for answer in answers) in ([303, 403], [302, 303])
        assert len(admins()) == 1
        User.objects.filter(pk__in=[one.pk for one in pair]).update(is_active=False)
