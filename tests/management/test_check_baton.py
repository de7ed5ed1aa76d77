"""`check-baton`: the ladder from outside, in the shape and with the exits that scripts rely on."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.utils import timezone

from relays.models import RegionLease, Relay, Repository
from relays.stores.place import discover
from tests.management.batonfiles import baton, write
from tests.management.conftest import Cli
from tests.web_builders import make_relay

Git = Callable[..., str]


def relay_for(repo: Path, sha: str, **values: object) -> Relay:
    text = baton()
    return make_relay(
        id=text["relay_id"],
        repo=str(repo),
        git_dir=str(discover(repo).git_dir),
        branch=f"relay/{text['relay_id']}",
        worktree=str(repo),
        start_sha=sha,
        pin_id=text["objective"]["pin_id"],
        objective=text["objective"]["text"],
        objective_digest=text["objective"]["digest"],
        **{"done_when": text["done_when"], "region": ["**"], **values},
    )


def test_without_a_repository_steps_1_to_5(cli: Cli, tmp_path: Path) -> None:
    done = cli("check-baton", write(tmp_path, baton()), "--json")
    assert (done.code, done.err) == (7, "")
    assert list(done.json) == ["outcome", "step", "path", "checks"]
    assert (done.json["outcome"], done.json["step"], done.json["path"]) == ("unknown", None, None)
    by_step = {check["step"]: check["verdict"] for check in done.json["checks"]}
    assert by_step == {1: "passed", 2: "passed", 3: "passed", 4: "passed", 5: "passed"} | {
        6: "left_out",
        8: "left_out",
        9: "left_out",
    }
    for check in done.json["checks"]:
        assert list(check) == ["step", "path", "verdict", "evidence"]


def test_invalid_names_step_and_path(cli: Cli, tmp_path: Path) -> None:
    text = baton()
    text["progress_cursor"]["start_sha"] = "HEAD"
    done = cli("check-baton", write(tmp_path, text), "--json", "--repo", tmp_path)
    assert done.code == 4
    assert (done.json["outcome"], done.json["step"], done.json["path"]) == ("invalid", 1, "progress_cursor.start_sha")
    words = cli("check-baton", write(tmp_path, text))
    assert words.code == 4
    assert words.out.startswith(b"invalid at step 1, progress_cursor.start_sha")


@pytest.mark.django_db
def test_fresh_stale_and_done(cli: Cli, tmp_path: Path, repo: Path, git: Git) -> None:
    sha = git(repo, "rev-parse", "HEAD")
    fresh = cli("check-baton", write(tmp_path, baton(sha=sha)), "--repo", repo, "--json")
    assert (fresh.code, fresh.json["outcome"], fresh.err) == (0, "fresh", "")
    assert {check["verdict"] for check in fresh.json["checks"] if check["step"] == 6} == {"verified"}

    stale = cli("check-baton", write(tmp_path, baton(sha="b" * 40)), "--repo", repo, "--json")
    assert (stale.code, stale.json["outcome"], stale.json["step"]) == (3, "stale", 6)
    assert stale.json["path"] == "progress_cursor.start_sha"

    reached = cli("check-baton", write(tmp_path, baton(sha=sha, done_when="file:README.md")), "--repo", repo, "--json")
    assert (reached.code, reached.json["outcome"], reached.json["step"]) == (5, "done", 8)


@pytest.mark.django_db
def test_the_branch_is_the_relays_own_or_head_or_the_named_one(cli: Cli, tmp_path: Path, repo: Path, git: Git) -> None:
    first = git(repo, "rev-parse", "HEAD")
    git(repo, "switch", "-q", "-c", "relay/RLY-20261130-0001")
    git(repo, "commit", "-q", "--allow-empty", "-m", "Second")
    second = git(repo, "rev-parse", "HEAD")
    git(repo, "switch", "-q", "main")
    file = write(tmp_path, baton(sha=second))
    assert cli("check-baton", file, "--repo", repo).code == 0  # on relay/<id>, though HEAD is main
    assert cli("check-baton", file, "--repo", repo, "--branch", "main").code == 3
    assert cli("check-baton", write(tmp_path, baton("RLY-other", first)), "--repo", repo).code == 0
    git(repo, "checkout", "-q", "--detach", second)
    assert cli("check-baton", write(tmp_path, baton("RLY-other", second)), "--repo", repo).code == 0
    missing = cli("check-baton", file, "--repo", repo, "--branch", "nope")
    assert missing.code == 14
    assert "nope" in missing.line
    for hostile in ("--upload-pack=x", "../x", "a b", "x~1"):
        assert cli("check-baton", file, "--repo", repo, f"--branch={hostile}").code in {7, 14}


@pytest.mark.django_db
def test_a_repository_that_does_not_answer_is_unknown(cli: Cli, tmp_path: Path) -> None:
    for place in (tmp_path / "none", tmp_path):
        done = cli("check-baton", write(tmp_path, baton()), "--repo", place, "--json")
        assert done.code == 7
        assert done.json["outcome"] == "unknown"
        assert {check["verdict"] for check in done.json["checks"] if check["step"] == 6} == {"unknown"}
        assert done.err.count("\n") == 1
        assert str(place) in done.err


@pytest.mark.django_db
def test_a_hostile_relay_id_is_only_text(cli: Cli, tmp_path: Path, repo: Path, git: Git) -> None:
    sha = git(repo, "rev-parse", "HEAD")
    for name in ("../../x", "-x", "a..b", "x.lock", "🙂"):
        done = cli("check-baton", write(tmp_path, baton(name, sha)), "--repo", repo, "--json")
        assert done.code in {0, 4}
        assert b"Traceback" not in done.out


@pytest.mark.django_db
def test_a_relay_that_is_known_here_is_compared_with_its_own_values(
    cli: Cli, tmp_path: Path, repo: Path, git: Git
) -> None:
    sha = git(repo, "rev-parse", "HEAD")
    relay = relay_for(repo, sha)
    file = write(tmp_path, baton(sha=sha))
    assert cli("check-baton", file, "--repo", repo).code == 0
    Relay.objects.filter(pk=relay.pk).update(done_when="file:other")
    done = cli("check-baton", file, "--repo", repo, "--json")
    assert (done.code, done.json["step"], done.json["path"]) == (3, 7, "done_when")


@pytest.mark.django_db
def test_a_command_clause_is_left_out_and_never_run(cli: Cli, tmp_path: Path, repo: Path, git: Git) -> None:
    sha = git(repo, "rev-parse", "HEAD")
    trace = tmp_path / "ran"
    line = f'cmd:"touch {trace}"'
    relay_for(repo, sha, done_when=line)
    done = cli("check-baton", write(tmp_path, baton(sha=sha, done_when=line)), "--repo", repo, "--json")
    assert done.json["outcome"] in {"fresh", "unknown"}
    assert [check["verdict"] for check in done.json["checks"] if check["step"] == 8] == ["left_out"]
    assert not trace.exists()


@pytest.mark.django_db
def test_a_region_that_another_relay_holds(cli: Cli, tmp_path: Path, repo: Path, git: Git) -> None:
    sha = git(repo, "rev-parse", "HEAD")
    other = make_relay(id="RLY-holder")
    place = Repository.objects.create(git_dir=str(discover(repo).git_dir))
    RegionLease.objects.create(relay=other, repository=place, region=["**"], held=True, since=timezone.now())
    done = cli("check-baton", write(tmp_path, baton(sha=sha)), "--repo", repo, "--json")
    assert (done.code, done.json["outcome"], done.json["step"]) == (6, "held", 9)
    assert "RLY-holder" in done.json["checks"][-1]["evidence"]
    assert RegionLease.objects.count() == 1  # looking takes nothing


def test_a_branch_needs_a_repository(cli: Cli, tmp_path: Path) -> None:
    assert cli("check-baton", write(tmp_path, baton()), "--branch", "main").code == 2


def test_from_standard_input(cli: Cli) -> None:
    assert cli("check-baton", "-", stdin=json.dumps(baton()).encode()).code == 7
