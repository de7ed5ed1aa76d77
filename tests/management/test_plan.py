"""`plan FILE --repo DIR`: rules.md, Reload, stale, re-derivation; baton.md: "Same store + same baton → byte-identical
plan (no times, no machine paths in it)".
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from relays.core import baton as batons
from relays.core.pointers import Kind
from relays.core.reload import REDERIVE
from relays.models import Baton, LedgerRow, RegionLease, Relay, Verification
from tests import builders
from tests.actions.acts import current
from tests.management.batonfiles import baton as facts
from tests.management.batonfiles import write
from tests.management.conftest import Cli
from tests.report_builders import Story

pytestmark = pytest.mark.django_db
Git = Callable[..., str]
KEYS = ["outcome", "baton_digest", "branch", "tip", "checks", "cursor", "reread", "next_action"]
ROOT = Path(settings.BASE_DIR)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    told = Story(tmp_path / "told", issues=9)
    for _ in range(3):
        told.leg(turns=2)
    return told


def file_of(story: Story, folder: Path, baton: batons.Baton | None = None) -> Path:
    path = folder / "baton.json"
    path.write_bytes(batons.canonical(baton or current(story.relay)))
    return path


def untouched(story: Story) -> tuple[object, ...]:
    return (
        list(Verification.objects.values()),
        list(Baton.objects.values()),
        list(RegionLease.objects.values()),
        list(LedgerRow.objects.values()),
        builders.git(story.repo, "for-each-ref"),
        builders.git(story.repo, "status", "--porcelain"),
    )


def test_a_fresh_baton_of_a_known_relay(cli: Cli, story: Story, tmp_path: Path) -> None:
    states = builders.issue_lines({n: "closed" if n < 5 else "open" for n in range(1, 10)})
    later = builders.commit(story.repo, {".relay/issues.jsonl": states, "later.txt": "x\n"}, "After the cursor")
    before = untouched(story)
    done = cli("plan", file_of(story, tmp_path), "--repo", story.repo, "--json")
    assert (done.code, done.err) == (0, "")
    assert list(done.json) == KEYS
    plan = done.json
    assert (plan["outcome"], plan["branch"], plan["tip"]) == ("fresh", story.relay.branch, later)
    assert plan["baton_digest"] == batons.digest(current(story.relay))
    assert plan["cursor"] == {"sha": story.cursor, "rebuilt": False}
    assert plan["reread"]["commits"] == [later]
    assert plan["reread"]["issues"] == ["#4"]
    assert plan["reread"]["ledger"] == [], "the rows of closed legs are known"
    assert plan["next_action"] == "Close issue 4."
    assert list(plan["checks"][0]) == ["step", "path", "verdict", "evidence"]
    assert untouched(story) == before


def test_stale_by_an_amended_tip_is_rebuilt_at_the_merge_base(cli: Cli, story: Story, tmp_path: Path) -> None:
    base = story.legs[1].end_sha
    builders.git(story.repo, "commit", "-q", "--amend", "-m", "Said otherwise")
    tip = builders.head(story.repo)
    before = untouched(story)
    done = cli("plan", file_of(story, tmp_path), "--repo", story.repo, "--json")
    assert (done.code, done.json["outcome"]) == (3, "stale")
    assert done.json["cursor"] == {"sha": base, "rebuilt": True}
    assert done.json["reread"]["commits"] == [tip]
    assert done.json["reread"]["issues"] == ["#3"]
    assert done.json["reread"]["ledger"] == [f"{story.relay.pk}.2.e9"]
    assert done.json["next_action"] == REDERIVE
    assert untouched(story) == before, "a plan rebuilds nothing"


def test_a_cursor_that_is_gone_falls_back_to_the_newest_earlier_one(cli: Cli, story: Story, tmp_path: Path) -> None:
    gone = replace(
        current(story.relay),
        cursor=replace(current(story.relay).cursor, start_sha="e" * 40),
        tombstone=replace(current(story.relay).tombstone, at_sha="f" * 40),
    )
    done = cli("plan", file_of(story, tmp_path, gone), "--repo", story.repo, "--json")
    assert (done.code, done.json["outcome"]) == (3, "stale")
    assert done.json["cursor"]["rebuilt"] is True
    assert done.json["cursor"]["sha"] in {leg.end_sha for leg in story.legs}
    assert done.json["next_action"] == REDERIVE


def test_a_relay_that_is_not_known_here_has_its_merge_base_alone(
    cli: Cli, tmp_path: Path, repo: Path, git: Git
) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "commit", "-q", "--allow-empty", "-m", "Second")
    second = git(repo, "rev-parse", "HEAD")
    git(repo, "commit", "-q", "--amend", "--allow-empty", "-m", "Second again")
    tip = git(repo, "rev-parse", "HEAD")
    text = facts(sha=second, leg=3)
    done = cli("plan", write(tmp_path, text), "--repo", repo, "--json")
    assert (done.code, done.json["outcome"], done.json["branch"]) == (3, "stale", "main")
    assert done.json["cursor"] == {"sha": first, "rebuilt": True}
    assert done.json["reread"] == {"commits": [tip], "issues": [], "ledger": []}
    nowhere = cli("plan", write(tmp_path, facts(sha="c" * 40)), "--repo", repo, "--json")
    assert (nowhere.code, nowhere.json["cursor"]) == (3, {"sha": None, "rebuilt": False})
    assert nowhere.json["next_action"] == ""


def test_its_ledger_travels_with_the_repository(cli: Cli, tmp_path: Path, repo: Path, git: Git, settings: Any) -> None:
    settings.RELAY_VAR = tmp_path / "var"
    relay_id, sha = facts()["relay_id"], git(repo, "rev-parse", "HEAD")
    from relays.driver import places
    from relays.stores.git import GitStore

    rows = [{"id": f"{relay_id}.{leg}.e1", "refs": [], "note": "", "by": "agent", "at": ""} for leg in (0, 1)]
    GitStore(repo, places.shield()).write_ledger_ref(relay_id, rows)
    text = facts(sha=sha, artifacts=[{"kind": "ledger", "ref": f"{relay_id}.0.e1"}])
    done = cli("plan", write(tmp_path, text), "--repo", repo, "--json")
    assert (done.code, done.json["outcome"]) == (0, "fresh")
    assert done.json["reread"]["ledger"] == [f"{relay_id}.1.e1"]


def test_done_held_invalid_unknown_and_a_branch_that_is_gone(
    cli: Cli, story: Story, tmp_path: Path, repo: Path, git: Git
) -> None:
    """No plan starts a leg that the rules would not start, and none reads a store that does not answer."""
    sha = git(repo, "rev-parse", "HEAD")
    nothing = {"commits": [], "issues": [], "ledger": []}
    reached = cli("plan", write(tmp_path, facts(sha=sha, done_when="file:README.md")), "--repo", repo, "--json")
    assert (reached.code, reached.json["outcome"], reached.json["next_action"]) == (5, "done", "")
    assert (reached.json["cursor"]["sha"], reached.json["reread"]) == (None, nothing)

    bad = facts(sha=sha)
    bad["claimed"] = True
    invalid = cli("plan", write(tmp_path, bad), "--repo", repo, "--json")
    assert (invalid.code, invalid.json["outcome"], invalid.json["baton_digest"]) == (4, "invalid", "")
    assert (invalid.json["cursor"], invalid.json["reread"]) == ({"sha": None, "rebuilt": False}, nothing)

    silent = cli("plan", write(tmp_path, facts(sha=sha)), "--repo", tmp_path / "nowhere", "--json")
    assert (silent.code, silent.json["outcome"], silent.json["cursor"]["sha"]) == (7, "unknown", None)
    assert str(tmp_path) not in silent.out.decode() and "no such folder" in silent.err

    held = facts("RLY-20261130-7777", sha=story.cursor)
    taken = cli("plan", write(tmp_path, held), "--repo", story.repo, "--branch", story.relay.branch, "--json")
    assert (taken.code, taken.json["outcome"]) == (6, "held")
    assert taken.json["cursor"] == {"sha": story.cursor, "rebuilt": False}

    absent = cli("plan", write(tmp_path, facts(sha=sha)), "--repo", repo, "--branch", "nope")
    assert absent.code == 14 and "nope" in absent.line


def test_a_command_inside_a_baton_never_runs(cli: Cli, tmp_path: Path, repo: Path, git: Git) -> None:
    """baton.md: "Checking a baton from outside (`check-baton`, `plan`, …) never runs a `cmd` clause (`left_out`)"."""
    canary = tmp_path / "canary"
    text = facts(sha=git(repo, "rev-parse", "HEAD"), done_when=f'cmd:"touch {canary}"')
    done = cli("plan", write(tmp_path, text), "--repo", repo, "--json")
    assert done.json["outcome"] == "fresh"
    assert [check["verdict"] for check in done.json["checks"] if check["step"] == 8] == ["left_out"]
    assert not canary.exists()


def test_usage(cli: Cli, tmp_path: Path) -> None:
    assert "--repo" in cli("plan", write(tmp_path, facts())).line
    assert cli("plan", tmp_path / "none", "--repo", tmp_path).code == 2


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_byte_for_byte_the_same_in_other_processes_places_and_packings(
    tmp_path: Path, process_env: dict[str, str]
) -> None:
    """Mission: "Same durable store + same baton -> same reload plan." """
    told = Story(tmp_path / "told", issues=9)
    for _ in range(3):
        told.leg(turns=2)
    rich = replace(
        current(told.relay),
        artifacts=(
            *current(told.relay).artifacts,
            *(batons.Artifact(Kind.FILE, f"work/{n}.md") for n in (1, 2, 3)),
            batons.Artifact(Kind.LEDGER, f"{told.relay.pk}.1.e9"),
        ),
        do_not_rederive=("#1 closed", "#2 closed", "file:README.md begun"),
    )
    path = file_of(told, tmp_path, rich)
    builders.git(told.repo, "commit", "-q", "--amend", "-m", "Said otherwise")
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()

    def plan(cwd: Path, repo: Path, **env: str) -> bytes:
        done = subprocess.run(
            [sys.executable, str(ROOT / "manage.py"), "relay", "plan", str(path), "--repo", str(repo), "--json"],
            cwd=cwd,
            env={**process_env, "RELAY_VAR": os.environ["RELAY_VAR"], **env},
            capture_output=True,
        )
        assert done.returncode == 3, done.stderr
        assert done.stderr == b""
        return done.stdout

    first = plan(ROOT, told.repo, PYTHONHASHSEED="1", TZ="UTC", LC_ALL="C")
    builders.git(told.repo, "pack-refs", "--all")
    builders.git(told.repo, "repack", "-adq")
    second = plan(elsewhere, told.repo, PYTHONHASHSEED="77", TZ="Pacific/Kiritimati", LC_ALL="C.UTF-8")
    assert first == second
    assert str(tmp_path).encode() not in first

    # the same refs and objects at another place
    moved = tmp_path / "moved"
    told.repo.rename(moved)
    Relay.objects.filter(pk=told.relay.pk).update(repo=str(moved), git_dir=str(moved / ".git"), worktree=str(moved))
    assert plan(elsewhere, moved, PYTHONHASHSEED="5") == first
