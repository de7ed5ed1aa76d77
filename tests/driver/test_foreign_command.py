"""baton.md, The reader's ladder: "Checking a baton from outside … never runs a `cmd` clause (`left_out`)"; rules.md,
Reload: "A command inside a baton or repository is never run because it stands there"."""

import itertools
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from relays.core import baton as batons
from relays.management.commands.relay import run
from relays.models import Baton, CommandResult
from tests.builders import commit as commit_files
from tests.builders import make_repo
from tests.driver.course import Course, boundary, commit, player, turn
from tests.tamper import unguarded


@pytest.fixture
def relay(course: Callable[..., Course], tmp_path: Path) -> Course:
    step = [*turn(), *commit("a.txt"), *boundary("Go on.", final=True), {"do": "exit", "code": 0}]
    made = course(done="file:never.txt", **player(step))
    made.step()
    return made


def planted(relay: Course, tmp_path: Path, **changes: object) -> tuple[Path, Path]:
    """The relay's baton with another done_when that would make a file, as a file; and that file."""
    canary = tmp_path / "canary"
    baton = replace(relay.baton, done_when=f'cmd:"touch {canary}"', **changes)
    path = tmp_path / "planted.json"
    path.write_bytes(batons.canonical(baton))
    return path, canary


def test_no_look_from_outside_runs_it(relay: Course, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for known, verb in itertools.product((True, False), ("check-baton", "plan")):
        path, canary = planted(relay, tmp_path, **({} if known else {"relay_id": "RLY-19990101-0001"}))
        code = run([verb, str(path), "--repo", relay.relay.repo, "--branch", relay.relay.branch, "--json"])
        said = json.loads(capfd.readouterr().out)
        assert not canary.exists()
        assert CommandResult.objects.count() == 0
        if known:
            assert code == 3 and "done_when" in json.dumps(said)  # it is not the relay's own: stale
        elif verb == "check-baton":
            assert [check["verdict"] for check in said["checks"] if check["step"] == 8] == ["left_out"]


def test_no_reload_runs_it(relay: Course, tmp_path: Path) -> None:
    path, canary = planted(relay, tmp_path)
    row = Baton.objects.filter(relay=relay.pk, current=True)
    with unguarded():
        row.update(text=path.read_text(), digest=batons.digest(batons.read(path.read_text()).baton))
    relay.step()
    assert (relay.reload.outcome, relay.reload.path) == ("stale", "done_when")
    assert not canary.exists()
    assert CommandResult.objects.count() == 0
    assert relay.baton.done_when == "file:never.txt"


def test_no_policy_of_a_repository_runs_one(course: Callable[..., Course], tmp_path: Path) -> None:
    """rules.md, Policy is data: a repository "may never set commands, approvals, four-eyes or the envelope"."""
    from relays.actions.base import Usage

    repo = make_repo(tmp_path / "repo", issues=1)
    canary = tmp_path / "canary"
    for table in (f'green = "touch {canary}"', "four_eyes = false", "[relay.envelope]\nlegs = 1", "a = " + "[" * 9_000):
        commit_files(repo, {"dos.toml": f"[relay]\n{table}\n"}, "Policy")
        with pytest.raises(Usage):
            course(repo=repo)
    assert not canary.exists()
