"""rules.md, Region lease: "one in-place relay per working tree"; the tree is a person's own, who may switch it."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from relays.models import RelayStatus
from tests.builders import git
from tests.driver.course import Course

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("elsewhere", [("-c", "mine"), ("--detach",)], ids=["branch", "detached"])
def test_no_leg_starts_on_another_branch_than_the_relays(
    course: Callable[..., Course], elsewhere: tuple[str, ...]
) -> None:
    """The agent's commits would land on a person's branch, and count for nothing. It waits until the tree is back."""
    relay = course(issues=2, sets=["workspace=in_place", "leg.turns=4"])
    repo = Path(relay.relay.repo)
    relay.step()
    own = relay.relay.branch
    assert [leg.reason for leg in relay.legs] == ["RELAY_ROTATED"]

    git(repo, "switch", "-q", *elsewhere)
    stood = git(repo, "rev-parse", "HEAD")
    relay.step()
    assert relay.relay.status == RelayStatus.WAITING and relay.relay.next_at is not None
    assert f"the relay works on {own}; switch to it" in relay.relay.status_why
    assert (len(relay.legs), git(repo, "rev-parse", "HEAD")) == (1, stood)

    git(repo, "switch", "-q", own)
    relay.time_passes(timedelta(minutes=1))
    assert relay.drive().status == RelayStatus.DONE
