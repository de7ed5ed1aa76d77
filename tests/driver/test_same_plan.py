"""baton.md, The reader's ladder: "Same store + same baton → byte-identical plan (no times, no machine paths in it)"."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from relays.core.baton import Artifact
from relays.core.pointers import Kind
from relays.driver import rebaton
from relays.driver.prepare import Ready
from tests.builders import commit, git, issue_lines
from tests.driver.world import World, make_world

ROOT = Path(__file__).parents[2]
#: what differs between two processes and must not show: where they stand, their language, clock zone and hash seed
HERE = {"LC_ALL": "C", "TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "1", "COLUMNS": "40"}
THERE = {"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de", "TZ": "America/St_Johns", "PYTHONHASHSEED": "2", "HOME": "/nowhere"}


def changed(world: World) -> Path:
    """A world with something of everything to read anew, and the current baton as a file."""
    row = world.row
    artifacts = (*world.baton.artifacts, Artifact(Kind.COMMIT, "0" * 39 + "1"), Artifact(Kind.FILE, "no/such"))
    rebaton.store(row.relay, row.leg, replace(world.baton, artifacts=artifacts), "rotation", row.at)
    git(world.worktree, "reset", "-q", "--hard", world.cursors[0])
    left = commit(world.worktree, {"a.txt": "a\n"}, "A")
    git(world.worktree, "reset", "-q", "--hard", world.cursors[0])
    for number in range(3):
        commit(
            world.worktree, {f"b{number}.txt": "b\n", ".relay/issues.jsonl": issue_lines({1: "closed", 3: "open"})}, "B"
        )
    git(world.worktree, "merge", "-q", "-m", "Both", left)
    file = world.repo.parent / "baton.json"
    file.write_text(world.row.text)
    return file


def plan_of(world: World, file: Path, env: dict[str, str], cwd: Path, repo: str) -> bytes:
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "relay", "plan", str(file), "--repo", repo, "--json"],
        env=env,
        cwd=cwd,
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, b""), done.stderr.decode()
    return done.stdout


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_the_plan_is_the_same_in_every_process_and_however_the_store_is_packed(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch, process_env: dict[str, str]
) -> None:
    settings.RELAY_VAR = tmp_path / "var"
    monkeypatch.setattr("relaysite.celery.app.send_task", lambda *_, **__: None)
    world = make_world(tmp_path)
    file = changed(world)
    env = {**process_env, "RELAY_VAR": str(tmp_path / "var")}
    loose = plan_of(world, file, env | HERE, Path("/"), str(world.repo))
    git(world.repo, "pack-refs", "--all")
    git(world.repo, "repack", "-q", "-a", "-d")
    git(world.repo, "commit-graph", "write", "--reachable")
    packed = plan_of(world, file, env | THERE, world.worktree, os.path.relpath(world.repo, world.worktree))
    assert loose == packed
    assert str(tmp_path).encode() not in loose

    plan = json.loads(loose)
    assert (plan["outcome"], plan["cursor"]) == ("stale", {"sha": world.cursors[0], "rebuilt": True})
    assert (
        plan["reread"]["commits"]
        == git(
            world.repo, "rev-list", "--reverse", "--topo-order", f"{world.cursors[0]}..refs/heads/{world.branch}"
        ).split()
    )
    assert plan["reread"]["issues"] == ["#1", "#2", "#3"] and plan["reread"]["ledger"] == [f"{world.pk}.1.c1"]

    assert isinstance(world.reload(), Ready)
    kept = {name: value for name, value in world.climb.plan.items() if name not in ("source", "fresh_baton")}
    # as values: a database may keep the keys of a JSON column in an order of its own
    assert kept == plan, "what the driver kept is the plan that anybody can make"
