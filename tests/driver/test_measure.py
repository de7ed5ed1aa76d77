"""What a boundary writes beside the facts of its leg."""

import pytest
from django.utils import timezone

from relays.core.externalize import GateVerdict, LoadBearing
from relays.core.pointers import Verdict
from relays.driver.measure import DETECTED_KEPT, keep_verdicts
from relays.models import Fact, Leg
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


def detected(*labels: str, kind: str = "dirty") -> GateVerdict:
    return GateVerdict(
        False, (), tuple((LoadBearing(label, kind, source="detected"), None, "no pointer") for label in labels)
    )


def stored(leg: Leg) -> list[tuple[int, str]]:
    return list(Fact.objects.filter(leg=leg, kind="detected").order_by("seq").values_list("seq", "label"))


def test_what_was_detected_is_replaced_when_it_is_judged_again(django_assert_num_queries: object) -> None:
    """rules.md, Externalize gate: "what the detector finds by itself" stands beside what the leg declared."""
    leg = make_leg(make_relay())
    Fact.objects.create(leg=leg, seq=0, kind="fact", label="a.py", durability="durable", at=timezone.now())
    keep_verdicts(leg, detected("a.py", "b.py"))
    assert stored(leg) == [(0, "a.py"), (1, "b.py")]
    with django_assert_num_queries(1):  # type: ignore[operator]
        keep_verdicts(leg, detected("a.py", "b.py"))
    keep_verdicts(leg, detected("b.py"))
    assert stored(leg) == [(0, "b.py")]
    keep_verdicts(leg, detected())
    assert stored(leg) == []
    assert Fact.objects.get(leg=leg).verdict == "", "a declared fact of the same name is another one"


def test_of_very_many_findings_some_are_named_and_all_are_counted() -> None:
    leg = make_leg(make_relay())
    keep_verdicts(leg, detected(*(f"file {n}" for n in range(1500)), "bad \udcff name"))
    rows = stored(leg)
    assert len(rows) == DETECTED_KEPT
    assert rows[-1] == (DETECTED_KEPT - 1, "1,302 more findings of the detector")


def test_a_name_that_no_database_holds_is_kept_as_text() -> None:
    leg = make_leg(make_relay())
    keep_verdicts(leg, detected("bad \udcff name\n", "x" * 900))
    assert [len(label) for _, label in stored(leg)] == [len("bad ? name?"), 500]


@pytest.mark.parametrize("kind", ["decision", "open_question", "dead_end"])
def test_a_declared_thing_without_a_pointer_is_no_second_row(kind: str) -> None:
    leg = make_leg(make_relay())
    Fact.objects.create(leg=leg, seq=4, kind=kind, label="use v2", durability="durable", at=timezone.now())
    keep_verdicts(leg, detected("use v2", kind=kind))
    (fact,) = Fact.objects.filter(leg=leg)
    assert (fact.kind, fact.verdict, fact.evidence) == (kind, "", "no pointer")
