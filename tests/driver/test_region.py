"""Regions: what overlaps is refused before anything is made, what is disjoint runs side by side."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relays.actions import park
from relays.actions.base import Held
from relays.models import Leg, RegionLease, Relay, RelayStatus
from tests.builders import git, make_repo
from tests.driver.course import boundary, commit, operator, player, turn

Start = Callable[..., Any]


def work(folder: str) -> dict[str, Any]:
    return player([*commit(f"{folder}/one.txt"), *turn(), *boundary("Go on.", final=True)])


@pytest.mark.parametrize(
    ("held", "asked"), [([], []), ([], ["docs/"]), (["src/**"], ["src/core/*.py"]), (["*.py"], ["src/**"])]
)
def test_a_region_that_could_meet_another_is_refused_and_nothing_is_made(
    course: Start, tmp_path: Path, held: list[str], asked: list[str]
) -> None:
    repo = make_repo(tmp_path / "one", issues=1)
    first = course(repo=repo, region=held)
    with pytest.raises(Held, match=f"COLLISION_RISK.*{first.pk}") as refused:
        course(repo=repo, region=asked)
    assert refused.value.exit_code == 6
    assert "\n" not in str(refused.value)
    assert (Relay.objects.count(), Leg.objects.count(), RegionLease.objects.count()) == (1, 1, 1)
    assert git(repo, "for-each-ref", "--format=%(refname)", "refs/heads/relay") == ""


def test_disjoint_regions_run_side_by_side_and_keep_to_their_branches(course: Start, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "one")
    left = course(repo=repo, region=["docs/**"], done="file:docs/one.txt", **work("docs"))
    right = course(repo=repo, region=["src/**"], done="file:src/one.txt", **work("src"))
    left.step()
    right.step()
    assert (left.relay.status, right.relay.status) == (RelayStatus.DONE, RelayStatus.DONE)
    assert left.legs[0].progress == right.legs[0].progress == 1
    assert left.baton.cursor.held_region == ("docs/**",)


def test_the_region_is_free_again_when_its_relay_is_done_or_stopped(course: Start, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "one")
    first = course(repo=repo, done="file:docs/one.txt", **work("docs"))
    first.step()
    assert first.relay.status == RelayStatus.DONE
    second = course(repo=repo)
    park.stop(operator(), second.pk)
    course(repo=repo)


def test_a_parked_relay_still_holds_its_region(course: Start, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "one")
    first = course(repo=repo)
    park.park(operator(), first.pk)
    with pytest.raises(Held):
        course(repo=repo)


def test_a_leg_whose_region_another_holds_waits_without_an_episode(course: Start, tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "one")
    first = course(repo=repo, region=["docs/**"], **work("docs"))
    first.step()
    RegionLease.objects.filter(relay=first.pk).update(held=False)  # released by an operator
    second = course(repo=repo, region=["docs/**"])
    first.step()
    found = first.relay
    assert found.status == RelayStatus.WAITING and found.status_why.startswith("COLLISION_RISK")
    assert second.pk in found.status_why and first.gates == []
    assert first.reload.outcome == "held"
    park.stop(operator(), second.pk)
    first.time_passes()
    first.step()
    assert len(first.legs) == 2
    assert RegionLease.objects.get(relay=first.pk).held, "taken again at the start of the leg"


@pytest.mark.slow
def test_a_released_region_is_taken_again_by_the_next_leg(course: Start) -> None:
    relay = course(**work("docs"))
    relay.step()
    RegionLease.objects.filter(relay=relay.pk).update(held=False)
    relay.step()
    assert RegionLease.objects.get(relay=relay.pk).held


def test_two_relays_of_different_repositories_never_meet(course: Start) -> None:
    assert course().pk != course().pk
