"""Several approvals wanted: each stands only on what its person saw, whoever changes what meanwhile."""

from datetime import timedelta

import pytest

from relays.actions import decide, policies
from relays.actions.base import ChangedSinceSeen, NotPermitted, Usage
from relays.driver import gates
from relays.models import Decision, GateEpisode, GateState, Notice, Relay
from relays.reports import gate as gate_report
from tests.actions.acts import People, approve, check_chain, seen
from tests.report_builders import Story
from tests.web_builders import make_gate, make_relay

pytestmark = pytest.mark.django_db


def wanted(gate: GateEpisode, approvals: int, **policy: object) -> GateEpisode:
    Relay.objects.filter(pk=gate.relay_id).update(policy={"approvals": approvals, **policy})
    return GateEpisode.objects.select_related("relay", "leg").get(pk=gate.pk)


def shown(gate: GateEpisode) -> gate_report.GatePage:
    gate = GateEpisode.objects.select_related("relay", "leg").get(pk=gate.pk)
    return gate_report.gate_page(gate, gate.opened_at, *gate_report.branch_tip(gate.relay))


@pytest.fixture
def early(people: People) -> GateEpisode:
    """Of a relay that no leg has left a baton of: three starts failed."""
    relay = make_relay(owner=people.operator.user, status="parked")
    return wanted(make_gate(relay), 2)


def test_two_different_changes_are_not_one_decision(people: People, gate: GateEpisode) -> None:
    """The second reviewer's limit is not what the first approved: it lapses, and the first is told and looks again."""
    wanted(gate, 2)
    approve(people.reviewer, gate, sets=["envelope.turns=400"])
    Notice.objects.all().delete()
    second = approve(people.second, gate, sets=["envelope.turns=90000"])
    assert (second.state, second.have) == ("waiting", 1) and "rae" in second.note
    assert Decision.objects.get(seq=second.decision).detail["lapsed"] == ["rae"]
    assert Notice.objects.get().event == "gate_opened"
    assert shown(gate).have == 1
    last = approve(people.reviewer, gate)
    assert (last.state, last.have) == ("requested", 2)
    assert Relay.objects.get().policy["envelope"]["turns"] == 90000
    assert check_chain() == 5


def test_to_carry_the_same_again_is_to_agree(people: People, gate: GateEpisode) -> None:
    wanted(gate, 2)
    same = {"sets": ["envelope.turns=400"], "next_action": "Look at the stub."}
    approve(people.reviewer, gate, **same)
    batons = gate.relay.batons.count()
    assert approve(people.second, gate, **same).state == "requested"
    assert Decision.objects.filter(act="limit").count() == 1 and gate.relay.batons.count() == batons


def test_a_spent_budget_gets_one_limit_from_two_people(people: People, story: Story) -> None:
    gate = wanted(story.park("BUDGET_EXHAUSTED", items=["BUDGET_TURNS_EXHAUSTED"]), 2, envelope={"turns": 3})
    assert shown(gate).needs_limit
    with pytest.raises(Usage, match="needs a new limit"):
        approve(people.reviewer, gate)
    assert approve(people.reviewer, gate, sets=["envelope.turns=400"]).state == "waiting"
    assert not shown(gate).needs_limit
    assert approve(people.second, gate).state == "requested"


def test_before_any_baton_a_limit_that_one_sets_is_seen_by_the_other(people: People, early: GateEpisode) -> None:
    looked = seen(early)
    assert approve(people.reviewer, early, seen=looked, sets=["envelope.spend=1000"]).have == 1
    assert shown(early).have == 1, "it stands on what it made of it"
    with pytest.raises(ChangedSinceSeen):
        approve(people.second, early, seen=looked)
    assert approve(people.second, early).state == "requested"


def test_a_policy_that_changes_meanwhile_lapses_what_was_approved(people: People, early: GateEpisode) -> None:
    looked = seen(early)
    approve(people.reviewer, early, seen=looked)
    policies.change(people.operator, early.relay_id, sets=["ceiling=0.5"], comment="smaller")
    assert shown(early).have == 0
    with pytest.raises(ChangedSinceSeen):
        approve(people.second, early, seen=looked)
    assert approve(people.second, early).have == 1
    assert approve(people.reviewer, early).state == "requested"


@pytest.mark.parametrize("how", ["role", "account"])
def test_who_loses_the_right_while_the_branch_is_read_decides_nothing(
    how: str, people: People, gate: GateEpisode, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked, tip = seen(gate), decide._tip

    def slow(relay: Relay) -> str:
        user = people.reviewer.user
        if how == "role":
            user.groups.clear()
        else:
            type(user).objects.filter(pk=user.pk).update(is_active=False)
        return tip(relay)

    monkeypatch.setattr(decide, "_tip", slow)
    with pytest.raises(NotPermitted):
        approve(people.reviewer, gate, seen=looked)
    assert not Decision.objects.exists()


def test_a_gate_that_waits_again_has_its_whole_time(
    people: People, gate: GateEpisode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass found it over its time; before its turn came the start that was approved has failed, and it waits anew."""
    wanted(gate, 1, gate_expiry="1h")
    GateEpisode.objects.update(state_at=gate.state_at - timedelta(hours=2))
    read = gates.budgets.policy_of

    def meanwhile(relay: Relay) -> object:
        GateEpisode.objects.update(state_at=gate.state_at)
        return read(relay)

    monkeypatch.setattr(gates.budgets, "policy_of", meanwhile)
    gates.expire(gate.state_at)
    gate.refresh_from_db()
    assert gate.state == GateState.WAITING
