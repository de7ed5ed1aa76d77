"""`adopt --repo DIR`: interface.md, Shapes: `{"relay", "leg", "outcome", "status"}`; exits. Its rules are tested at
tests/driver/test_adopt.py.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import call_command

from relays.driver import outbox
from tests.builders import git, make_repo
from tests.driver.course import Course
from tests.management.conftest import Cli
from tests.tamper import unguarded

pytestmark = pytest.mark.django_db
REFS = ("refs/notes/relay:refs/notes/relay", "refs/relay/*:refs/relay/*")


def test_shape_and_exits(cli: Cli, course: Callable[..., Course], tmp_path: Path, settings: Any) -> None:
    relay = course(issues=3)
    relay.step()
    cli("park", relay.pk)
    while outbox.carry_out():
        pass
    place = tmp_path / "clone"
    git(tmp_path, "clone", "-q", relay.relay.repo, str(place))
    absent = cli("adopt", "--repo", place)
    assert absent.code == 13 and "known here" in absent.line
    with unguarded():
        call_command("flush", interactive=False, verbosity=0)
    settings.RELAY_VAR = tmp_path / "another-var"

    missing = cli("adopt", "--repo", place)
    assert missing.code == 14 and "git fetch origin" in missing.line
    git(place, "fetch", "-q", "origin", *REFS)
    assert cli("adopt", "--repo", tmp_path / "nowhere").code == 2
    assert "--repo" in cli("adopt").line
    assert cli("adopt", "--repo", place, "--agent", "nobody").code == 2
    assert cli("adopt", "--repo", place, "--agent-arg", "items").code == 2
    assert cli("adopt", "--repo", place, "--policy", tmp_path / "none").code == 2
    (tmp_path / "other.toml").write_text("[relay]\n[other]\n")
    assert "outside the one table" in cli("adopt", "--repo", place, "--policy", tmp_path / "other.toml").line
    assert cli("adopt", "--repo", place, "--relay", "RLY-none").code == 14

    done = cli("adopt", "--repo", place, "--json")
    assert done.code == 0
    assert {key: done.json[key] for key in ("relay", "leg", "outcome", "status")} == {
        "relay": relay.pk,
        "leg": 0,
        "outcome": "fresh",
        "status": "parked",
    }
    assert done.err.startswith(f"adopt {relay.pk}: ") and "rotations_per_hour" in done.err
    again = cli("adopt", "--repo", place)
    assert again.code == 13 and "known here and parked" in again.line
    assert cli("resume", relay.pk, "--json").json["status"] == "ready"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_two_houses_that_share_nothing_but_a_clone(tmp_path: Path) -> None:
    """Started, parked, cloned and taken up by commands alone; the second house finishes what the first began."""
    manage = [sys.executable, str(Path(settings.BASE_DIR) / "manage.py"), "relay"]

    def env_of(name: str) -> dict[str, str]:
        ours = {key: value for key, value in os.environ.items() if key != "DATABASE_URL"}
        return {**ours, "RELAY_VAR": str(tmp_path / name), "LOG_LEVEL": "ERROR"}

    def house(name: str) -> Callable[..., tuple[int, Any]]:
        def relay(*arguments: str) -> tuple[int, Any]:
            done = subprocess.run([*manage, *arguments, "--json"], env=env_of(name), capture_output=True, text=True)
            assert done.stdout, f"{arguments}: {done.stderr}"
            return done.returncode, json.loads(done.stdout)

        return relay

    repo = make_repo(tmp_path / "repo", issues=4)
    here, there = house("here"), house("there")
    goal = [
        "--objective",
        "Close all.",
        "--done-when",
        "issues:none open",
        "--agent",
        "scripted",
        "--agent-arg",
        "items=1",
    ]
    code, started = here(
        "start", "--repo", str(repo), *goal, "--set", "envelope.legs=2", "rotations_per_hour=0", "--wait", "120"
    )
    assert (code, started["status"]) == (8, "parked")
    code, before = here("status", started["relay"])
    assert [gate["token"] for gate in before["gates"]] == ["BUDGET_EXHAUSTED"]
    assert git(repo, "for-each-ref", "refs/notes/relay", "refs/relay/state"), "written before the command ended"

    git(tmp_path, "clone", "-q", str(repo), str(tmp_path / "clone"))
    git(tmp_path / "clone", "fetch", "-q", "origin", *REFS)
    repo.rename(tmp_path / "sold")
    code, taken = there("adopt", "--repo", str(tmp_path / "clone"), "--set", "rotations_per_hour=0")
    assert (code, taken["relay"], taken["leg"], taken["outcome"], taken["status"]) == (
        0, started["relay"], 1, "fresh", "parked",
    )  # fmt: skip
    _, status = there("status", taken["relay"])
    (gate,) = [one for one in status["gates"] if one["state"] == "waiting"]
    assert gate["token"] == "BUDGET_EXHAUSTED"
    code, _ = there(
        "approve", str(gate["id"]), "--seen", gate["seen"], "--comment", "More.", "--set", "envelope.legs=9"
    )
    assert code == 0
    # no worker runs here: the leg's supervisor is started by hand, and starts the next one itself
    subprocess.run([*manage, "supervise", "3"], env=env_of("there"), capture_output=True, timeout=60)
    until = time.monotonic() + 60
    while (status := there("status", taken["relay"])[1])["status"] != "done" and time.monotonic() < until:
        time.sleep(1)
    assert status["status"] == "done"
    assert [leg["leg"] for leg in status["legs"]] == [0, 1, 2, 3]
    assert there("verify", taken["relay"])[0] == 5
    _, audit = there("audit", "verify")
    assert (audit["ok"], audit["first_bad"]) == (True, None)
