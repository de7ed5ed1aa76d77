"""baton.md, "A watched repository's own config must never run a program": a whole relay on such a repository.

Start, two legs with parked work between them, the ladder, every verb that looks and every page. What the agent's own
git runs is told apart by the marker in its environment.
"""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client

from relays.actions.base import Usage
from relays.management.commands.relay import run
from relays.models import Baton
from tests.builders import git, make_repo
from tests.driver.course import Course, boundary, commit, player, turn, user
from tests.reading import marked
from tests.trap import Trap

PAGES = ("/", "/relays/", "/relays/{id}/", "/relays/{id}/legs/0/", "/relays/{id}/legs/1/", "/relays/{id}/batons/0/")


@pytest.mark.parametrize("workspace", ["worktree", pytest.param("in_place", marks=pytest.mark.slow)])
def test_nothing_of_it_is_run(
    course: Callable[..., Course], tmp_path: Path, capfd: pytest.CaptureFixture[str], client: Client, workspace: str
) -> None:
    trap = Trap(tmp_path)
    parks = [*turn(), {"do": "write", "path": "a.txt", "text": "mine\n"}, {"kind": "park_tree"}]
    script = {
        "0": [*parks, *boundary("Commit it.", final=True), {"do": "exit", "code": 0}],
        "*": [*turn(), *commit("c.txt"), *boundary("Go on.", final=True), {"do": "exit", "code": 0}],
    }
    relay = course(repo=trap.repo, done="file:never.txt", sets=[f"workspace={workspace}"], **player(script))
    assert [line for line in relay.relay.findings if line.startswith("config: core.fsmonitor")]
    relay.step()
    assert relay.legs[0].wip_sha
    relay.step()
    assert relay.legs[1].wip_laid_back == "applied"
    assert relay.legs[1].progress == 1

    baton = tmp_path / "baton.json"
    baton.write_text(Baton.objects.get(relay=relay.pk, current=True).text)
    for arguments in (
        ["verify", relay.pk],
        ["status", relay.pk],
        ["readout", relay.pk],
        ["check-baton", str(baton), "--repo", str(trap.repo)],
        ["check-baton", str(baton), "--repo", str(relay.worktree)],
        ["plan", str(baton), "--repo", str(trap.repo)],
        ["safe-point", relay.pk],
        ["ledger", "list", relay.pk],
    ):
        run([*arguments, "--json"])
        out = capfd.readouterr().out
        assert out == "" or json.loads(out.splitlines()[-1]) is not None
    client.force_login(user("pat", "operator"))
    for page in PAGES:
        assert client.get(page.format(id=relay.pk)).status_code == 200, page
    assert "config: core.fsmonitor can run a program" in marked(client.get(f"/relays/{relay.pk}/"))
    assert trap.sprung() == ""
    assert Path(f"{trap.log}.agent").exists()  # the agent's own git did obey it: the trap was armed all the time


def test_a_bare_repository_inside_a_tree_is_no_place_to_start(course: Callable[..., Course], tmp_path: Path) -> None:
    """Its config travels with the files of the repository that it lies in."""
    outer = make_repo(tmp_path / "outer")
    canary = tmp_path / "canary"
    inner = outer / "inner"
    git(outer, "init", "-q", "--bare", str(inner))
    git(inner, "config", "core.fsmonitor", f"touch {canary}")
    git(inner, "config", "core.worktree", "..")
    git(inner, "config", "core.bare", "false")
    with pytest.raises(Usage):
        course(repo=inner)
    assert not canary.exists()
