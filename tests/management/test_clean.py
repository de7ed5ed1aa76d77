"""`clean [--dry-run]`: interface.md, Pages 10: "clean up worktrees and refs of ended relays"; rules.md, Policy:
`retention`. What is the only place of some work stays, and says so.
"""

import shutil
import socket
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db.models import F

from relays.actions import park
from relays.driver import places
from relays.driver.claim import kernel_lock
from relays.models import Decision, Leg, Relay, RelayStatus
from tests.builders import commit as commit_in
from tests.builders import git
from tests.driver.course import Course, operator
from tests.management.conftest import Cli, Result
from tests.web_builders import make_user

pytestmark = [pytest.mark.django_db, pytest.mark.slow, pytest.mark.postgres]


class Cleaned:
    def __init__(self, result: Result) -> None:
        assert (result.code, result.err) == (0, "")
        assert {"removed", "kept"} <= set(result.json)
        self.removed: list[str] = result.json["removed"]
        self.kept: dict[str, str] = {one["path"]: one["why"] for one in result.json["kept"]}
        assert all(set(one) == {"path", "why"} and one["why"] for one in result.json["kept"])


@pytest.fixture
def done(course: Callable[..., Course]) -> Course:
    """A relay that reached its goal in one leg; its branch is not merged."""
    relay = course(issues=1)
    assert relay.drive().status == RelayStatus.DONE
    return relay


@pytest.fixture
def clean(cli: Cli) -> Callable[..., Cleaned]:
    return lambda *arguments: Cleaned(cli("clean", *arguments, "--json"))


def paths(relay: Course) -> tuple[str, str, str]:
    """Worktree, folder of leg 0, branch as it is named."""
    return (
        str(relay.worktree),
        str(places.leg_folder(relay.pk, 0)),
        f"{relay.relay.repo}:refs/heads/{relay.relay.branch}",
    )


def long_ago(relay: Course) -> None:
    Leg.objects.filter(relay=relay.pk).update(ended_at=F("ended_at") - timedelta(days=31))
    Relay.objects.filter(pk=relay.pk).update(ended_at=F("ended_at") - timedelta(days=31))


def test_the_worktree_goes_and_what_would_be_lost_stays(done: Course, clean: Callable[..., Cleaned]) -> None:
    worktree, leg, branch = paths(done)
    dry = clean("--dry-run")
    assert worktree in dry.removed and Path(worktree).is_dir(), "a dry run removes nothing"
    assert not Decision.objects.filter(act="clean").exists()

    first = clean("--comment", "spring")
    assert first.removed == dry.removed and worktree in first.removed
    assert not Path(worktree).exists()
    assert git(Path(done.relay.repo), "worktree", "list", "--porcelain").count("worktree ") == 1
    assert "git merge" in first.kept[branch] and git(Path(done.relay.repo), "rev-parse", done.relay.branch)
    assert first.kept[leg].startswith("logs are kept until ") and (Path(leg) / "stream.ndjson").exists()
    row = Decision.objects.get(act="clean")
    assert (row.comment, row.relay, row.detail["remove"]) == ("spring", None, first.removed)

    again = clean()
    assert again.removed == [] and Decision.objects.filter(act="clean").count() == 1, "nothing to do is no decision"


def test_a_merged_branch_and_old_logs_go_too(done: Course, clean: Callable[..., Cleaned]) -> None:
    worktree, leg, branch = paths(done)
    repo = Path(done.relay.repo)
    git(repo, "merge", "-q", "--ff-only", done.relay.branch)
    long_ago(done)
    found = clean()
    assert {worktree, leg, branch, str(places.relay_folder(done.pk))} <= set(found.removed)
    assert git(repo, "for-each-ref", "refs/heads/relay") == ""
    assert not places.relay_folder(done.pk).exists()
    assert git(repo, "cat-file", "-t", done.legs[0].end_sha) == "commit"
    assert all("looked up" in why for why in found.kept.values()), found.kept
    assert clean().removed == []


def test_two_branches_that_hold_each_others_work_do_not_go_together(
    done: Course, course: Callable[..., Course], clean: Callable[..., Cleaned]
) -> None:
    """A relay that was started where another one had ended, and had nothing to do: one of the two branches stays."""
    repo = Path(done.relay.repo)
    git(repo, "checkout", "--quiet", "--detach", done.relay.branch)
    other = course(repo=repo)
    assert other.drive().status == RelayStatus.DONE
    tip = git(repo, "rev-parse", done.relay.branch)
    dry = clean("--dry-run")
    first = clean()
    assert first.removed == dry.removed
    assert paths(done)[2] in first.removed and "git merge" in first.kept[paths(other)[2]]
    assert git(repo, "for-each-ref", "--contains", tip, "--format=%(refname)", "refs/heads") == (
        f"refs/heads/{other.relay.branch}"
    )


def test_uncommitted_work_an_operation_a_stray_head_or_an_ignored_memory_keeps_the_worktree(
    done: Course, clean: Callable[..., Cleaned]
) -> None:
    worktree, _, branch = paths(done)
    tree = Path(worktree)
    git(Path(done.relay.repo), "merge", "-q", "--ff-only", done.relay.branch)

    (tree / "half.txt").write_text("x")
    found = clean()
    assert found.kept[worktree] == "uncommitted work: half.txt"
    assert found.kept[branch] == "its worktree stays"
    assert (tree / "half.txt").exists()
    (tree / "half.txt").unlink()

    git(tree, "bisect", "start")
    assert "bisect" in clean().kept[worktree]
    git(tree, "bisect", "reset")

    git(tree, "switch", "-q", "--detach")
    commit_in(tree, {"stray.txt": "x"}, "Stray")
    stray = git(tree, "rev-parse", "HEAD")
    assert "its HEAD" in clean().kept[worktree]
    git(tree, "switch", "-q", done.relay.branch)
    assert clean().kept[worktree] == f"commit {stray[:12]} was made in it and is on no branch"
    git(tree, "branch", "kept", stray)

    git(tree, "update-ref", "refs/worktree/own", git(tree, "commit-tree", "HEAD^{tree}", "-m", "Own"))
    assert "was made in it and is on no branch" in clean().kept[worktree]
    git(tree, "update-ref", "-d", "refs/worktree/own")

    exclude = Path(git(tree, "rev-parse", "--path-format=absolute", "--git-common-dir")) / "info" / "exclude"
    exclude.parent.mkdir(exist_ok=True)
    exclude.write_text(".relay/memory\n")
    (tree / ".relay" / "memory").mkdir(parents=True)
    (tree / ".relay" / "memory" / "port.md").write_text("8080")
    assert clean().kept[worktree] == "memory files that git ignores: .relay/memory/port.md"
    shutil.rmtree(tree / ".relay" / "memory")

    exclude.write_text("deps/\n")
    (tree / "deps" / "lib").mkdir(parents=True)
    git(tree / "deps" / "lib", "init", "-q")
    assert clean().kept[worktree] == "a repository that git ignores: deps/lib"
    shutil.rmtree(tree / "deps" / "lib" / ".git")
    assert worktree in clean().removed


def test_a_branch_never_goes_before_its_worktree(done: Course, clean: Callable[..., Cleaned]) -> None:
    worktree, _, branch = paths(done)
    repo = Path(done.relay.repo)
    git(repo, "merge", "-q", "--ff-only", done.relay.branch)
    git(repo, "worktree", "lock", worktree)
    found = clean()
    assert "locked" in found.kept[worktree] and found.kept[branch] == "its worktree stays"
    assert git(repo, "rev-parse", done.relay.branch)
    git(repo, "worktree", "unlock", worktree)
    git(repo, "branch", "main-too")
    git(repo, "switch", "-q", "--ignore-other-worktrees", done.relay.branch)
    assert clean().kept[branch] == f"it is checked out in {repo.resolve()}", "a person stands on it"
    git(repo, "switch", "-q", "main-too")
    assert branch in clean().removed and not Path(worktree).exists()


@pytest.mark.slow
def test_what_changes_between_look_and_removal_stays(
    done: Course, clean: Callable[..., Cleaned], monkeypatch: pytest.MonkeyPatch
) -> None:
    from relays.driver import cleaning

    worktree, _, _ = paths(done)
    look = cleaning.look

    def then_somebody_works(now: Any) -> Any:
        yield from look(now)
        (Path(worktree) / "new.txt").write_text("x")

    monkeypatch.setattr(cleaning, "look", then_somebody_works)
    found = clean()
    assert found.kept[worktree] == "uncommitted work: new.txt" and (Path(worktree) / "new.txt").exists()


@pytest.mark.slow
def test_parked_work_goes_only_when_every_bit_of_it_is_on_a_branch(
    course: Callable[..., Course], clean: Callable[..., Cleaned]
) -> None:
    relay = course(issues=2, args={"items": "1", "dirty": "1"})
    relay.drive()
    park.stop(operator(), relay.pk)
    repo, tree = Path(relay.relay.repo), relay.worktree
    name = f"refs/relay/wip/{relay.pk}/0"
    found = clean()
    assert "1 files of it are in no commit of a branch" in found.kept[f"{repo}:{name}"]
    assert git(repo, "rev-parse", name)
    commit_in(tree, {}, "What was left over")
    assert f"{repo}:{name}" in clean().removed
    assert git(repo, "for-each-ref", "refs/relay/wip") == ""


def test_each_ref_that_travels_stays_for_a_reason_of_its_own(done: Course, clean: Callable[..., Cleaned]) -> None:
    refs = [f"refs/relay/{kind}/{done.pk}" for kind in ("ledger", "state")]
    for name in refs:
        git(Path(done.relay.repo), "update-ref", name, "HEAD")
    kept = clean("--dry-run").kept
    ledger, state = (kept[f"{done.relay.repo}:{name}"] for name in refs)
    assert "batons" in ledger and "limits" not in ledger
    assert "limits" in state and "spent" in state and "batons" not in state


def test_a_relay_that_goes_on_keeps_everything(course: Callable[..., Course], clean: Callable[..., Cleaned]) -> None:
    relay = course(issues=3)
    relay.step()
    places.checkouts(relay.pk).mkdir()
    worktree, leg, branch = paths(relay)
    found = clean()
    assert found.removed == []
    assert found.kept[worktree] == f"relay {relay.pk} is ready"
    assert found.kept[str(places.checkouts(relay.pk))] == f"relay {relay.pk} is ready"
    assert found.kept[leg].startswith("logs are kept until")
    assert branch not in found.kept, "nothing of it is looked for"
    Leg.objects.filter(relay=relay.pk, number=0).update(ended_at=F("ended_at") - timedelta(days=31))
    assert clean().removed == [leg], "logs of legs that ended long ago"
    relay.step()
    assert relay.legs[-1].number == 1, "it goes on"


def test_sockets_go_at_once_and_checkouts_with_their_relay(done: Course, clean: Callable[..., Cleaned]) -> None:
    _, leg, _ = paths(done)
    path = str(Path(leg) / "s")
    with socket.socket(socket.AF_UNIX) as line:
        line.bind(path)
    places.checkouts(done.pk).mkdir()
    found = clean()
    assert path in found.removed and not Path(path).exists()
    assert str(places.checkouts(done.pk)) in found.removed
    assert (Path(leg) / "stream.ndjson").exists()


def test_what_is_not_ours_or_does_not_answer_stays(done: Course, clean: Callable[..., Cleaned], settings: Any) -> None:
    var = Path(settings.RELAY_VAR)
    (var / "worktrees" / "RLY-other").mkdir()
    (var / "legs" / "RLY-other").mkdir()
    (var / "legs" / done.pk / "77").mkdir()
    outside = var / "precious"
    outside.mkdir()
    (var / "worktrees" / "link").symlink_to(outside)
    repo = Path(done.relay.repo)
    repo.rename(repo.with_name("away"))
    found = clean()
    assert found.removed == []
    assert found.kept[str(var / "worktrees" / "RLY-other")] == "no relay of this house has that name"
    assert found.kept[str(var / "legs" / "RLY-other")] == "no relay of this house has that name"
    assert "no leg of that number" in found.kept[str(var / "legs" / done.pk / "77")]
    assert "cannot be read" in found.kept[str(done.worktree)]
    assert "does not answer" in found.kept[f"{repo}:refs of {done.pk}"]
    assert outside.is_dir()


def test_a_relay_that_is_being_driven_is_left_alone(done: Course, clean: Callable[..., Cleaned]) -> None:
    worktree, _, _ = paths(done)
    with kernel_lock(done.pk):
        assert clean().kept[worktree] == "a driver is at work on it"
    assert Path(worktree).is_dir()


@pytest.mark.slow
def test_a_persons_own_work_tree_is_never_touched(course: Callable[..., Course], clean: Callable[..., Cleaned]) -> None:
    relay = course(issues=1, sets=["workspace=in_place"])
    assert relay.drive().status == RelayStatus.DONE
    long_ago(relay)
    found = clean()
    assert str(relay.worktree) not in (*found.removed, *found.kept)
    assert relay.relay.branch == "main" and git(Path(relay.relay.repo), "rev-parse", "main")
    assert not any("refs/heads" in path for path in (*found.removed, *found.kept))


def test_who_may_and_an_empty_house(cli: Cli, settings: Any, tmp_path: Path) -> None:
    settings.RELAY_VAR = tmp_path / "var"
    assert cli("clean").out.decode() == "nothing is left behind\n"
    make_user("rae", "reviewer")
    refused = cli("clean", "--as", "rae")
    assert refused.code == 12 and "operator" in refused.line
