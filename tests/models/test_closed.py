"""states.md: "enforced by conditional updates and check constraints": the database itself refuses what is in no table.

rules.md, Reason tokens: "closed"; rules.md, The driver: "a unique (relay, leg)"; rules.md, Reason tokens: "One open
episode per relay and kind".
"""

from typing import Any

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from relays.models import OPEN_GATES, GateEpisode, Leg, Relay, RelayStatus
from tests.web_builders import make_leg, make_relay

pytestmark = pytest.mark.django_db

NOW = timezone.now()


def gate(relay: Relay, **values: Any) -> GateEpisode:
    return GateEpisode.objects.create(
        relay=relay, opened_at=NOW, state_at=NOW, **{"token": "RELAY_PARKED_UNSAFE", **values}
    )


@pytest.mark.parametrize(
    "values",
    [{"state": "resting"}, {"cause": "bad luck"}, {"hold": "HOUSE_IS_COLD"}, {"reason": "RELAY_MADE_UP"}]
    + [{"state": "ended", "ended_at": NOW}, {"state": "ended", "reason": "RELAY_ROTATED"}],
    ids=lambda values: "-".join(values),
)
def test_a_leg_has_only_words_of_the_closed_sets(values: dict[str, Any]) -> None:
    leg = make_leg(make_relay())
    with pytest.raises(IntegrityError), transaction.atomic():
        Leg.objects.filter(pk=leg.pk).update(**values)
    Leg.objects.filter(pk=leg.pk).update(state="ended", reason="RELAY_ROTATED", ended_at=NOW)


@pytest.mark.parametrize(
    "values",
    [{"status": "resting"}, {"status": "done"}, {"status": "stopped"}, {"ended_at": NOW}],
    ids=lambda values: "-".join(map(str, values.values()))[:12],
)
def test_a_relay_is_in_one_of_the_closed_statuses_and_ended_where_it_is_final(values: dict[str, Any]) -> None:
    relay = make_relay(status=RelayStatus.RUNNING)
    with pytest.raises(IntegrityError), transaction.atomic():
        Relay.objects.filter(pk=relay.pk).update(**values)
    Relay.objects.filter(pk=relay.pk).update(status="done", ended_at=NOW)


def test_a_relay_has_each_leg_once_and_one_open_leg() -> None:
    relay = make_relay()
    make_leg(relay, 0, reason="RELAY_ROTATED")
    make_leg(relay, 1)
    for number, values in ((0, {"reason": "RELAY_ROTATED"}), (2, {}), (2, {"state": "pending"})):
        with pytest.raises(IntegrityError), transaction.atomic():
            make_leg(relay, number, **values)
    make_leg(make_relay(), 0)


@pytest.mark.parametrize("values", [{"state": "asleep"}, {"token": "HOUSE_IS_COLD"}, {"token": "RELAY_ROTATED"}])
def test_an_episode_has_only_words_of_the_closed_sets(values: dict[str, str]) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        gate(make_relay(), **values)


@pytest.mark.parametrize("state", OPEN_GATES)
def test_one_episode_of_a_kind_is_open(state: str) -> None:
    relay = make_relay()
    gate(relay, state="refused")
    gate(relay, state=state)
    with pytest.raises(IntegrityError), transaction.atomic():
        gate(relay)
    gate(relay, token="BUDGET_EXHAUSTED")
    gate(make_relay())
