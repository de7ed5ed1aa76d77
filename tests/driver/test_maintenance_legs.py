"""Maintenance of relays that really run, and a clean-up of what one really left behind."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from relays.actions import maintenance
from relays.actions.base import Actor, NotLegalNow
from relays.models import Decision, Maintenance, MaintenanceItem, RelayStatus
from tests.web_builders import make_user

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


@pytest.fixture
def ann(transactional_db: None) -> Actor:
    return Actor(make_user("ann", "operator"))


def run(act: Maintenance) -> str:
    for _ in range(10):
        word = maintenance.step(act.pk)
        if word not in ("running", "looking"):
            return word
    raise AssertionError("it does not end")


def test_clean_lists_first_and_removes_what_was_listed(course: Callable[..., Any], ann: Actor) -> None:
    done = course(issues=1)
    assert done.drive().status == RelayStatus.DONE
    act = maintenance.look(ann, comment="spring")
    assert run(act) == "listed"
    worktree = act.items.get(path=str(done.worktree))
    assert worktree.state == "planned" and done.worktree.is_dir(), "nothing goes before it is confirmed"
    kept = {item.path: item.why for item in act.items.filter(state="kept")}
    assert any("git merge" in why for why in kept.values())
    (Path(done.worktree) / "late.txt").write_text("made after the list\n")
    planned = set(act.items.filter(state="planned").values_list("path", flat=True))
    maintenance.confirm(ann, act.pk)
    assert run(act) == "done"
    worktree.refresh_from_db()
    assert worktree.state == "kept" and "uncommitted work" in worktree.why, "judged anew when it would go"
    row = Decision.objects.get(act="clean")
    assert set(row.detail["remove"]) == planned and row.detail["maintenance"] == act.pk
    (Path(done.worktree) / "late.txt").unlink()
    again = maintenance.look(ann)
    run(again)
    maintenance.confirm(ann, again.pk)
    assert run(again) == "done" and not Path(done.worktree).exists()
    with pytest.raises(NotLegalNow):
        maintenance.confirm(ann, again.pk)


def test_real_legs_drain_and_go_on(course: Callable[..., Any], meanwhile: Callable[..., None], ann: Actor) -> None:
    relay = course(issues=3, args={"items": "3"})
    acts: list[Maintenance] = []

    def parks() -> None:
        acts.append(maintenance.park_all(ann))
        run(acts[0])

    meanwhile(2, parks)
    relay.step()
    assert relay.relay.status == RelayStatus.PARKED and relay.gates == []
    assert MaintenanceItem.objects.get(act=acts[0]).state == "done"
    assert run(maintenance.resume_all(ann)) == "done"
    assert relay.drive().status == RelayStatus.DONE
