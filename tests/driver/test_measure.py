"""What a boundary writes beside the facts of its leg."""

import pytest
from django.utils import timezone

from relays.core.externalize import GateVerdict, LoadBearing
from relays.core.pointers import Verdict
from relays.driver.measure import keep_verdicts
from relays.models import Fact
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db


def test_verdicts_of_any_number_of_facts_cost_few_statements(django_assert_max_num_queries: object) -> None:
    leg = make_leg(make_relay())
    now = timezone.now()
    Fact.objects.bulk_create(
        Fact(leg=leg, seq=n, kind="fact", label=f"fact {n}", durability="durable", backing="issue:#1", at=now)
        for n in range(1200)
    )
    judged = [(LoadBearing(f"fact {n}", backing="issue:#1"), Verdict.VERIFIED, "open") for n in range(1199)]
    gate = GateVerdict(True, (), tuple(judged))
    with django_assert_max_num_queries(5):  # type: ignore[operator]
        keep_verdicts(leg, gate)
    assert Fact.objects.filter(leg=leg, verdict="verified", evidence="open").count() == 1199
    assert Fact.objects.get(leg=leg, seq=1199).verdict == "", "it was not judged"
    with django_assert_max_num_queries(1):  # type: ignore[operator]
        keep_verdicts(leg, gate)
