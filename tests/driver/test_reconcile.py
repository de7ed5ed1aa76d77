"""The periodic look at everything: gates that waited too long, and relays that nobody beats for come first."""

from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from relays.driver import advance, gates, reconcile
from relays.models import DriverClaim, GateEpisode, GateState, Relay, RelayStatus
from relays.reports import approvals
from tests.report_builders import Story

pytestmark = pytest.mark.django_db


@pytest.fixture
def gate(tmp_path: Path) -> GateEpisode:
    """A relay is parked, and this waits."""
    story = Story(tmp_path / "repo")
    story.leg(turns=2, reason="RELAY_PARKED_UNSAFE", cause="ceiling", hold="TREE_DIRTY_UNPARKED")
    return story.park()


@pytest.mark.parametrize(
    ("limit", "waited", "state"),
    [
        (None, timedelta(days=400), GateState.WAITING),
        ("2d", timedelta(days=2) - timedelta(seconds=1), GateState.WAITING),
        ("2d", timedelta(days=2), GateState.EXPIRED),
    ],
)
def test_a_gate_expires_when_the_policy_says_so(
    gate: GateEpisode, limit: str | None, waited: timedelta, state: GateState
) -> None:
    Relay.objects.filter(pk=gate.relay_id).update(policy={"gate_expiry": limit})
    now = gate.state_at + waited
    assert gates.expire(now) == (state == GateState.EXPIRED)
    gate.refresh_from_db()
    assert gate.state == state
    assert gate.relay.status == RelayStatus.PARKED
    assert (approvals.standing_refusal(gate.relay_id) is None) == (state == GateState.WAITING), "it is reopened first"
    assert gates.expire(now) == 0


def test_a_policy_that_does_not_read_keeps_no_other_gate_open(gate: GateEpisode, tmp_path: Path) -> None:
    other = Story(tmp_path / "other")
    other.leg(turns=2, reason="RELAY_PARKED_UNSAFE", cause="ceiling")
    damaged = other.park()
    GateEpisode.objects.filter(pk=damaged.pk).update(opened_at=gate.opened_at - timedelta(days=1))
    Relay.objects.filter(pk=other.relay.pk).update(policy={"gate_expiry": "soon"})
    Relay.objects.filter(pk=gate.relay_id).update(policy={"gate_expiry": "2d"})
    assert gates.expire(gate.state_at + timedelta(days=2)) == 1
    assert [one.state for one in GateEpisode.objects.order_by("pk")] == [GateState.EXPIRED, GateState.WAITING]


def test_whoever_beat_least_lately_is_looked_at_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = timezone.now()
    beats = {"silent": now - timedelta(hours=1), "driven": now, "new": None}
    names = {}
    for name, beat in beats.items():
        relay = Story(tmp_path / name).relay
        Relay.objects.filter(pk=relay.pk).update(status=RelayStatus.RUNNING)
        if beat:
            DriverClaim.objects.create(relay=relay, holder="host:1", heartbeat=beat)
        names[relay.pk] = name
    seen: list[str] = []
    monkeypatch.setattr(advance, "advance", lambda relay_id: seen.append(names[relay_id]) or "driven")
    monkeypatch.setattr(reconcile, "BATCH", 2)
    assert reconcile.reconcile() == 0
    assert seen == ["new", "silent"]
