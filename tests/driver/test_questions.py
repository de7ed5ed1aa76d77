"""rules.md, Budgets never reset by accident: clarification queries are an axis of the envelope, and
"`BUDGET_QUERIES_EXHAUSTED` (refuses the question and asks)". Asks: "each blocks the next leg, or the step that needs
it, and says which"."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from relays.actions.base import Usage
from relays.driver import questions
from relays.models import GateState, LedgerRow, Leg, LegState, Relay, RelayStatus
from tests.driver.course import Course, Step, boundary, commit, player, turn
from tests.web_builders import make_leg, make_relay

Start = Callable[..., Course]
At = Callable[[int, Callable[[], object]], None]

NOW = timezone.now()
END = boundary("Go on.", final=True)


def asks(question: str, **more: Any) -> Step:
    return {"kind": "ask", "question": question, **more}


def works(*asked: Step) -> list[Step]:
    return [*commit("w-$LEG.txt"), *turn(), *asked, *END]


def running(**values: Any) -> Leg:
    return make_leg(make_relay(**values), state=LegState.RUNNING)


def ask(leg: Leg, number: int, question: str, about: str = "assumption", step: str = "") -> questions.Asked:
    return questions.ask(leg, number, question, about=about, step=step, now=NOW)


def used(leg: Leg) -> int:
    return Relay.objects.get(pk=leg.relay_id).queries_used


def test_a_question_is_debited_asked_answered_and_crosses_by_pointer(course: Start) -> None:
    relay = course(**player({"*": works(asks("Which port?")), "1": works()}), sets=["envelope.queries=2"])
    relay.step()
    (leg,) = relay.legs
    assert (leg.reason, leg.progress) == ("RELAY_ROTATED", 1), "asking is no progress, and holds no rotation"
    assert relay.relay.queries_used == 1
    assert relay.waiting == ["LOW_CONFIDENCE_ASSUMPTION"] and relay.gates[0].items == ["Which port?"]
    assert relay.relay.status == RelayStatus.PARKED and relay.open_leg is None, "it blocks the next leg"
    row = LedgerRow.objects.get(pk=f"{relay.pk}.0.q{leg.events.get(kind='ask').seq}")
    assert relay.baton.open_questions == (f"ledger:{row.pk} Which port?",)
    assert relay.approve("LOW_CONFIDENCE_ASSUMPTION", answers={f"ledger:{row.pk}": "8001"}).state == "requested"
    assert relay.baton.open_questions == ()
    mirror = LedgerRow.objects.get(pk=relay.baton.artifacts[-1].ref)
    assert "8001" in mirror.note and mirror.refs == [f"ledger:{row.pk}"]
    relay.step()
    assert relay.legs[1].reason == "RELAY_ROTATED" and relay.relay.queries_used == 1


@pytest.mark.slow
def test_a_question_that_is_answered_while_its_leg_runs_keeps_nothing_waiting(course: Start, meanwhile: At) -> None:
    course_of = {"*": [*commit("w.txt"), *turn(), asks("Which port?"), *boundary("Go on."), *turn(), *END]}
    relay: Course

    def answer() -> None:
        row = LedgerRow.objects.get(relay=relay.pk, id__contains=".q")
        relay.approve("LOW_CONFIDENCE_ASSUMPTION", answers={f"ledger:{row.pk}": "8001"})

    meanwhile(2, answer)
    relay = course(**player(course_of), done="file:goal.txt")
    relay.step()
    assert [gate.state for gate in relay.gates] == [GateState.CONFIRMED]
    assert relay.relay.status == RelayStatus.READY and relay.open_leg is not None
    assert relay.baton.open_questions == (), "it was answered"
    mirror = LedgerRow.objects.get(pk=relay.baton.artifacts[0].ref)
    assert (mirror.by, "8001" in mirror.note) == ("person", True)


@pytest.mark.slow
def test_a_spent_query_budget_refuses_the_question_and_stops_no_leg(course: Start) -> None:
    named = [asks("Which port?", step="the release"), asks("Which host?"), asks("Which user?")]
    relay = course(**player({"0": works(*named), "*": works()}), sets=["envelope.queries=1"], done="file:goal.txt")
    relay.step()
    assert relay.relay.queries_used == 1
    assert {gate.token: (gate.items, gate.blocks) for gate in relay.gates} == {
        "LOW_CONFIDENCE_ASSUMPTION": (["Which port?"], "the release"),
        "BUDGET_EXHAUSTED": (
            ["BUDGET_QUERIES_EXHAUSTED", "refused question: Which host?", "refused question: Which user?"],
            "further questions",
        ),
    }
    assert len(relay.baton.open_questions) == 1, "what was refused was not asked"
    assert relay.relay.status == RelayStatus.READY and relay.open_leg is not None, "a spent query keeps no leg"
    with pytest.raises(Usage, match="BUDGET_QUERIES_EXHAUSTED still holds"):
        relay.approve("BUDGET_EXHAUSTED", sets=["envelope.legs=40"])
    assert relay.approve("BUDGET_EXHAUSTED", sets=["envelope.queries=5"]).state == "confirmed"
    assert relay.relay.queries_used == 1, "a new limit gives nothing back"


@pytest.mark.django_db
@pytest.mark.parametrize("limit", [None, 0, 1, 3])
def test_the_budget_is_the_relays_over_all_legs(limit: int | None) -> None:
    first = running(policy={"envelope": {"queries": limit}})
    Leg.objects.filter(pk=first.pk).update(state=LegState.ENDED, ended_at=NOW, reason="RELAY_ROTATED")
    second = make_leg(first.relay, state=LegState.RUNNING, number=1)
    admitted = [ask(leg, n, f"Q{leg.number}.{n}?").admitted for leg in (first, second) for n in (1, 2)]
    assert admitted == [limit is None or n < limit for n in range(4)]
    assert used(second) == sum(admitted)


@pytest.mark.django_db
def test_a_question_said_again_under_its_number_is_asked_once() -> None:
    leg = running(policy={"envelope": {"queries": 1}})
    once, again = ask(leg, 7, "Which port?"), ask(leg, 7, "Which port?")
    assert once == again and once.admitted and used(leg) == 1
    assert LedgerRow.objects.count() == 1 and leg.facts.count() == 1


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("about", "token"),
    [
        ("assumption", "LOW_CONFIDENCE_ASSUMPTION"),
        ("promotion", "AMBIGUOUS_MEMORY_PROMOTION"),
        ("memory", "DESTRUCTIVE_MEMORY_OPERATION"),
    ],
)
def test_what_it_is_about_says_which_ask_it_opens_and_what_waits(about: str, token: str) -> None:
    leg = running()
    ask(leg, 1, "May I?", about, step="the\x1b wipe")
    (gate,) = leg.relay.gates.all()
    assert (gate.token, gate.blocks) == (token, "the  wipe")
    ask(leg, 2, "And now?", about)
    gate.refresh_from_db()
    assert (gate.items, gate.blocks) == (["May I?", "And now?"], "next leg"), "one item that blocks it blocks the leg"
    ask(leg, 3, "And then?", about, step="the wipe")
    gate.refresh_from_db()
    assert gate.blocks == "next leg"


@pytest.mark.django_db
def test_an_episode_stays_small_however_much_is_asked() -> None:
    leg = running()
    for number in range(80):
        ask(leg, number, f"Question {number}?" + " and more" * 200)
    (gate,) = leg.relay.gates.all()
    assert len(gate.items) == 65 and gate.items[-1].startswith("more questions were asked")
    assert all(len(item) <= 500 for item in gate.items)
    assert used(leg) == LedgerRow.objects.count() == 80
