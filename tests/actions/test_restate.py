"""What stays a person's without being asked: objective and limits, as decisions that legs get by pointer."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from relays.actions.base import NotLegalNow, NotPermitted, Refused, Usage
from relays.actions.restate import restate
from relays.models import Decision, GateEpisode, LedgerRow, Relay
from relays.reports import status
from tests.actions.acts import check_chain, everything
from tests.driver.conftest import course, meanwhile
from tests.driver.course import Course, boundary, commit, operator, player, reviewer, turn
from tests.reading import marked

__all__ = ["course", "meanwhile"]
pytestmark = [pytest.mark.slow, pytest.mark.postgres]
Start = Callable[..., Course]
WORKS = [*commit("work.txt"), *turn(), *boundary("Go on.", final=True)]


def test_a_new_objective_is_in_the_next_baton_and_verified(course: Start) -> None:
    relay = course(**player(WORKS), done="file:goal.txt", sets=["envelope.turns=9"])
    relay.step()
    restate(operator(), relay.pk, new_objective="Close those that matter.", comment="Less is enough.")
    assert relay.baton.objective.text == "Close those that matter."
    mirror = LedgerRow.objects.get(relay=relay.pk, by="person")
    assert mirror.pk in {one.ref for one in relay.baton.artifacts}
    relay.step()
    assert relay.reload.outcome == "fresh"
    assert relay.waiting == [], "a person said so: it is no drift"
    found = status.status(relay.pk)
    assert (found["readout"]["objective"], found["verdicts"]["objective"]) == ("preserved", "holds")
    assert [row.act for row in Decision.objects.filter(relay=relay.pk)] == ["start", "restate", "objective"]
    check_chain()


def test_a_leg_that_runs_hands_it_over(course: Start, meanwhile: Any) -> None:
    relay = course(**player(WORKS), done="file:goal.txt", sets=["envelope.turns=9"])
    meanwhile(
        1, lambda: restate(operator(), relay.pk, new_objective="Other.", sets=["envelope.turns=12"], comment="So.")
    )
    relay.step()
    assert relay.baton.objective.text == "Other."
    assert {one.ref for one in relay.baton.artifacts} >= set(
        LedgerRow.objects.filter(relay=relay.pk, by="person").values_list("pk", flat=True)
    )
    relay.step()
    assert relay.reload.outcome == "fresh"
    assert status.status(relay.pk)["readout"]["budget"].startswith("turns=10 "), "what was used stays used"


def test_while_a_gate_asks_about_it_that_gate_is_the_place(course: Start) -> None:
    relay = course(**player(WORKS), done="file:goal.txt", sets=["envelope.legs=1"])
    relay.drive()
    assert relay.waiting == ["BUDGET_EXHAUSTED"]
    before = everything()
    with pytest.raises(NotLegalNow, match="decide there"):
        restate(operator(), relay.pk, sets=["envelope.legs=9"], comment="More.")
    assert everything() == before
    restate(operator(), relay.pk, new_objective="Other.", comment="That is another matter.")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "say --objective"),
        ({"sets": ["leg.turns=3"]}, "only limits of the envelope"),
        ({"sets": ["approvals=0"]}, "only limits of the envelope"),
        ({"sets": ["envelope.nothing=3"]}, "envelope.nothing"),
        ({"sets": ["envelope.turns=many"]}, "envelope.turns"),
        ({"new_objective": "x" * 5000}, "longer than"),
        ({"new_objective": "Close every open issue."}, "already"),
        ({"new_objective": "Other.", "comment": " "}, "comment"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(course: Start, values: dict[str, Any], words: str) -> None:
    relay = course(**player(WORKS), done="file:goal.txt", sets=["envelope.turns=9"])
    before = everything()
    with pytest.raises(Refused, match=words):
        restate(operator(), relay.pk, **{"comment": "So.", **values})
    assert everything() == before


def test_a_watch_keeps_a_limit_and_only_an_operator_may(course: Start) -> None:
    relay = course(**player(WORKS), done="It reads well", sets=["envelope.turns=9"])
    with pytest.raises(Usage, match="at least one limit"):
        restate(operator(), relay.pk, sets=["envelope.turns=none"], comment="None.")
    with pytest.raises(NotPermitted):
        restate(reviewer(), relay.pk, sets=["envelope.turns=90"], comment="More.")


def test_the_relays_page_is_its_place(course: Start) -> None:
    relay = course(**player(WORKS), done="file:goal.txt", sets=["envelope.turns=9"])
    client = Client()
    client.force_login(operator().user)
    assert 'form="act-restate"' in marked(client.get(f"/relays/{relay.pk}/"))
    answer = client.post(
        f"/relays/{relay.pk}/restate/",
        {"objective": "Other.", "sets": "envelope.turns=20", "comment": "So."},
        follow=True,
    )
    assert "Recorded" in marked(answer)
    found = Relay.objects.get(pk=relay.pk)
    assert (found.objective, found.policy["envelope"]["turns"]) == ("Other.", 20)
    client.force_login(reviewer().user)
    assert client.post(f"/relays/{relay.pk}/restate/", {"objective": "x", "comment": "y"}).status_code == 403
    assert not GateEpisode.objects.filter(relay=relay.pk).exists()
