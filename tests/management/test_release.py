"""`release ID`: rules.md, Region lease and driver claim: "an operator may release it by a decision"."""

from collections.abc import Callable
from pathlib import Path

import pytest

from relays.actions import start
from relays.actions.base import Held
from relays.models import Decision, Leg, LegState, RegionLease, Relay, RelayStatus
from tests.builders import make_repo
from tests.driver.course import Course, operator, player, start_relay
from tests.driver.course import boundary as at_boundary
from tests.management.conftest import Cli
from tests.report_builders import Story
from tests.web_builders import make_leg, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def parked(tmp_path: Path) -> Relay:
    told = Story(tmp_path / "repo", issues=3)
    told.leg(turns=2)
    told.park()
    return told.relay


def test_a_parked_relay_lets_go_by_a_recorded_decision(cli: Cli, parked: Relay) -> None:
    done = cli("release", parked.pk, "--comment", "the other one is urgent", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.json == {"relay": parked.pk, "status": "parked", "leg": 0, "will": "none", "released": ["**"]}
    assert not RegionLease.objects.get(relay=parked).held
    row = Decision.objects.get()
    assert (row.act, row.relay_id, row.comment) == ("release", parked.pk, "the other one is urgent")
    assert (row.detail, row.actor.get_username()) == ({"region": ["**"], "status": "parked"}, "local")


def test_twice_is_one_decision(cli: Cli, parked: Relay) -> None:
    cli("release", parked.pk)
    again = cli("release", parked.pk, "--json")
    assert (again.code, again.json["released"], Decision.objects.count()) == (0, [], 1)
    assert "holds no region" in cli("release", parked.pk).out.decode()


@pytest.mark.parametrize("state", [LegState.STARTING, LegState.RUNNING, LegState.DRAINING, LegState.ENDING])
def test_not_while_a_leg_lives(cli: Cli, parked: Relay, state: str) -> None:
    make_leg(parked, 1, state=state)
    done = cli("release", parked.pk)
    assert done.code == 13
    assert "leg 1" in done.line and f"relay park {parked.pk}" in done.line
    assert RegionLease.objects.get(relay=parked).held and not Decision.objects.exists()


@pytest.mark.parametrize("status", [RelayStatus.READY, RelayStatus.RUNNING])
def test_not_while_the_next_leg_is_about_to_start(cli: Cli, parked: Relay, status: str) -> None:
    Relay.objects.filter(pk=parked.pk).update(status=status)
    assert cli("release", parked.pk).code == 13
    assert RegionLease.objects.get(relay=parked).held


@pytest.mark.parametrize("status", [RelayStatus.WAITING, RelayStatus.IDLE])
def test_a_relay_that_rests_may_let_go(cli: Cli, parked: Relay, status: str) -> None:
    Relay.objects.filter(pk=parked.pk).update(status=status)
    assert cli("release", parked.pk).code == 0
    assert not RegionLease.objects.get(relay=parked).held


def test_who_may(cli: Cli, parked: Relay) -> None:
    make_user("rae", "reviewer")
    done = cli("release", parked.pk, "--as", "rae")
    assert done.code == 12 and "operator" in done.line
    assert RegionLease.objects.get(relay=parked).held
    assert cli("release", "RLY-none").code == 14
    assert cli("release", parked.pk, "--comment", "a\x1b[31m").code == 2


def test_another_relay_gets_the_region_and_the_first_one_waits_for_it(
    cli: Cli, course: Callable[..., Course], tmp_path: Path
) -> None:
    """`COLLISION_RISK`: "later the relay is `waiting`, no episode"; when the holder is gone, it goes on."""
    repo = make_repo(tmp_path / "shared", issues=2)
    first = course(repo=repo, **player([{"kind": "externalized"}, *at_boundary("Go on.", final=True)]))
    assert cli("park", first.pk).code == 0
    with pytest.raises(Held):
        start_relay(repo)
    assert cli("release", first.pk).code == 0
    second = start_relay(repo)
    assert cli("resume", first.pk, "--json").json["status"] == "ready"
    first.step()
    assert first.relay.status == RelayStatus.WAITING
    assert "COLLISION_RISK" in first.relay.status_why and second.pk in first.relay.status_why
    assert first.gates == [] and not Leg.objects.filter(relay=first.pk, started_at__isnull=False).exists()
    assert cli("stop", second.pk).code == 0
    first.time_passes()
    first.step()
    assert RegionLease.objects.get(relay=first.pk).held
    assert first.legs, first.relay.status_why
    with pytest.raises(Held):
        start.start(operator(), start.StartRequest(str(repo), "More", "issues:none open", "scripted"))
