"""The change number: what pages ask for, raised in the transaction of every visible write."""

import pytest
from django.db import transaction

from relays.driver.changes import INBOX, RELAYS, bump, topic
from relays.models import Pulse, Topic

pytestmark = pytest.mark.django_db


def numbers() -> dict[str, int]:
    return dict(Topic.objects.values_list("name", "number"))


def test_each_topic_is_marked_with_the_newest_number_and_others_keep_theirs() -> None:
    first = bump(RELAYS, topic("RLY-1"))
    assert numbers() == {RELAYS: first, topic("RLY-1"): first}
    second = bump(RELAYS, INBOX, RELAYS)
    assert second > first
    assert numbers() == {RELAYS: second, INBOX: second, topic("RLY-1"): first}
    assert bump() > second
    assert Pulse.objects.count() == 1


def test_it_costs_the_same_few_statements_for_any_number_of_topics(django_assert_num_queries) -> None:
    bump(RELAYS)
    with transaction.atomic(), django_assert_num_queries(3):
        bump(RELAYS, INBOX, *(topic(f"RLY-{number}") for number in range(20)))
