"""rules.md, Verified progress: what a leg made is counted from git itself, whatever the agent does to its branch.

Empty commits, and doing and undoing within a leg, stand in test_limits.py.
"""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from relays.core.pointers import Answer, Pointer
from relays.driver import progress, reload
from relays.models import Counted, Fact, LedgerRow, Leg, RelayStatus
from relays.reports import made as made_report
from relays.reports import status
from relays.stores.git import GitStore
from tests.builders import commit as by_hand
from tests.builders import git, head, make_repo
from tests.driver.course import Course, boundary, commit, player, turn

Start = Callable[..., Any]
Meanwhile = Callable[..., None]

END = [*turn(), *boundary("Go on.", final=True)]
FIRST = [*commit("one.txt"), *END]


def run(*args: str) -> dict[str, Any]:
    return {"do": "git", "args": list(args)}


def driven(course: Start, script: Any, legs: int = 1, **values: Any) -> Course:
    relay: Course = course(**player(script), **{"sets": ["no_progress_legs=0"], **values})
    for _ in range(legs):
        relay.step()
    return relay


def groups(leg: Leg) -> dict[str, list[str]]:
    """Kind of commit -> SHAs, of those kinds that have any."""
    names = ("foreign", "outside", "empty", "repeated", "merges", "undone", "lost", "copied")
    found = {name: leg.progress_detail[name] for name in names if leg.progress_detail[name]}
    counted = [one["sha"] for one in leg.progress_detail["commits"]]
    return {**found, "commits": counted} if counted else found


@pytest.mark.slow
def test_a_revert_of_an_earlier_leg_and_of_that_revert_count_once_at_most(course: Start) -> None:
    back = [run("revert", "--no-edit", "HEAD"), *END]
    relay = driven(course, {"0": FIRST, "1": back, "2": back}, legs=3)
    assert relay.legs[0].progress == 1
    assert relay.legs[1].progress == 0, "the tree is that of the start again"
    assert list(groups(relay.legs[1])) == ["undone"]
    assert relay.legs[2].progress == 0, "the tree is that of leg 0's end again"


@pytest.mark.slow
def test_a_rebased_copy_of_an_earlier_leg_is_seen_before(course: Start) -> None:
    again = [run("revert", "--no-edit", "HEAD"), *commit("two.txt"), run("cherry-pick", "HEAD~2"), *END]
    relay = driven(course, {"0": FIRST, "1": again}, legs=2)
    first, second = relay.legs
    found = groups(second)
    assert found["repeated"] == [second.end_sha], "one per patch-id, over all legs"
    assert second.end_sha != first.end_sha
    assert second.progress == 2, "the revert and the new file"


def test_a_commit_of_others_that_is_fast_forwarded_in_is_foreign(course: Start, meanwhile: Meanwhile) -> None:
    script = [*turn(), *boundary("Go on."), run("merge", "-q", "--ff-only", "main"), *END]
    relay: Course = course(**player(script), sets=["no_progress_legs=0"])
    theirs: list[str] = []
    meanwhile(1, lambda: theirs.append(by_hand(Path(relay.relay.repo), {"theirs.txt": "by hand\n"}, "By hand")))
    relay.step()
    (leg,) = relay.legs
    assert (leg.progress, groups(leg), leg.end_sha) == (0, {"foreign": theirs}, theirs[0])


@pytest.mark.slow
def test_a_merge_of_others_counts_nothing_by_itself(course: Start, meanwhile: Meanwhile) -> None:
    relay: Course = course(
        **player([*commit("one.txt"), *turn(), *boundary("Go on."), run("merge", "-q", "--no-edit", "main"), *END]),
        sets=["no_progress_legs=0"],
    )
    theirs: list[str] = []
    repo = Path(relay.relay.repo)
    meanwhile(1, lambda: theirs.append(by_hand(repo, {"theirs.txt": "by hand\n"}, "By hand")))
    relay.step()
    (leg,) = relay.legs
    found = groups(leg)
    assert (found["foreign"], found["merges"], len(found["commits"])) == (theirs, [leg.end_sha], 1)
    assert leg.progress == 1


@pytest.mark.slow
def test_a_cherry_picked_commit_of_others_is_made_here_once_and_its_original_is_foreign(
    course: Start, meanwhile: Meanwhile
) -> None:
    """ "created by its HEAD reflog during the leg … one per patch-id": the copy is a commit of this worktree."""
    script = {
        "0": [*commit("one.txt"), *turn(), *boundary("Go on."), run("cherry-pick", "main"), *END],
        "1": [run("merge", "-q", "--no-edit", "main"), *END],
    }
    relay: Course = course(**player(script), sets=["no_progress_legs=0"])
    theirs: list[str] = []
    repo = Path(relay.relay.repo)
    meanwhile(1, lambda: theirs.append(by_hand(repo, {"theirs.txt": "by hand\n"}, "By hand")))
    relay.step()
    relay.step()
    first, second = relay.legs
    assert (first.progress, "foreign" in groups(first)) == (2, False)
    assert second.progress == 0
    assert (groups(second)["foreign"], groups(second)["merges"]) == (theirs, [second.end_sha])


@pytest.mark.slow
def test_a_commit_by_others_in_the_main_work_tree_is_nothing_of_the_relay(course: Start, meanwhile: Meanwhile) -> None:
    relay: Course = course(**player([*turn(), *boundary("Go on."), *END]), sets=["no_progress_legs=0"])
    meanwhile(1, lambda: by_hand(Path(relay.relay.repo), {"main.txt": "by hand\n"}, "By hand"))
    relay.step()
    (leg,) = relay.legs
    assert (leg.progress, groups(leg)) == (0, {}), "the branch of the relay does not have it"


@pytest.mark.slow
def test_a_commit_by_others_on_the_branch_while_the_leg_runs_is_foreign(course: Start, meanwhile: Meanwhile) -> None:
    relay: Course = course(**player([*commit("one.txt"), *turn(), *boundary("Go on."), *END]))

    def push() -> None:
        """Somebody moves the branch from the main work tree, and the agent's worktree follows."""
        repo, branch = Path(relay.relay.repo), relay.relay.branch
        git(repo, "checkout", "-q", "--detach", branch)
        theirs.append(by_hand(repo, {"theirs.txt": "by hand\n"}, "By hand"))
        git(relay.worktree, "merge", "-q", "--ff-only", theirs[0])

    theirs: list[str] = []
    meanwhile(1, push)
    relay.step()
    (leg,) = relay.legs
    assert groups(leg)["foreign"] == theirs
    assert leg.progress == 1
    said = {one.kind: one for one in made_report.progress_groups(leg.progress_detail)}
    assert said["foreign"] == made_report.ProgressGroup(
        "foreign", 1, "foreign commit, by others: a finding, not progress", True, ((theirs[0], ""),)
    )


def test_a_commit_outside_the_region_is_a_finding(course: Start) -> None:
    relay = driven(course, [*commit("work/in.txt"), *commit("elsewhere.txt"), *END], region=["work/**"])
    (leg,) = relay.legs
    assert groups(leg)["outside"] == [leg.end_sha]
    assert (leg.progress, len(groups(leg)["commits"])) == (1, 1)
    said = {one.kind: one for one in made_report.progress_groups(leg.progress_detail)}
    assert said["outside"] == made_report.ProgressGroup(
        "outside", 1, "commit outside the region: a finding, not progress", True, ((leg.end_sha, ""),)
    )


# --- the branch loses what earlier legs did


def test_a_branch_that_is_set_back_below_the_cursor_is_never_a_clean_rotation(course: Start) -> None:
    """rules.md, Externalize gate: the detector finds "commits not on the branch"; the leg is refused, not laundered."""
    script = {"0": FIRST, "1": [run("reset", "-q", "--hard", "HEAD~1"), *commit("two.txt"), *END]}
    relay = driven(course, script, legs=2)
    first, second = relay.legs
    assert (second.reason, second.hold) == ("RELAY_PARKED_UNSAFE", "RELAY_NOT_EXTERNALIZED")
    assert groups(second)["lost"] == [first.end_sha]
    (fact,) = Fact.objects.filter(leg=second, kind="detected")
    assert (fact.durability, fact.backing, fact.verdict) == ("cursor_lost", f"commit:{first.end_sha}", "dangling")
    assert relay.relay.status == RelayStatus.PARKED and relay.waiting == ["RELAY_PARKED_UNSAFE"]
    assert any("that the branch lost" in item for item in relay.gates[0].items)


@pytest.mark.slow
def test_work_that_is_brought_back_is_not_lost(course: Start) -> None:
    script = {
        "0": FIRST,
        "1": [
            run("reset", "-q", "--hard", "HEAD~1"),
            *commit("two.txt"),
            *turn(),
            *boundary("Go on."),
            run("cherry-pick", "ORIG_HEAD"),
            *END,
        ],
    }
    relay = driven(course, script, legs=2)
    first, second = relay.legs
    assert second.reason == "RELAY_ROTATED"
    assert groups(second)["copied"] == [first.end_sha]
    assert groups(second)["repeated"] == [second.end_sha], "and it does not count again"
    assert second.progress == 1
    assert not Fact.objects.filter(leg=second, kind="detected").exists(), "judged again, the finding is gone"


def test_what_a_branch_lost_is_told_from_what_it_holds_as_a_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = make_repo(tmp_path / "repo")
    start = head(repo)
    one, two = by_hand(repo, {"one.txt": "1\n"}, "One"), by_hand(repo, {"two.txt": "2\n"}, "Two")
    empty = by_hand(repo, {}, "Nothing")
    git(repo, "reset", "-q", "--hard", start)
    by_hand(repo, {"three.txt": "3\n"}, "Three")
    git(repo, "cherry-pick", one)
    tip, store = head(repo), GitStore(repo, tmp_path / "shield")
    assert progress.rewritten(store, empty, tip) == progress.Rewritten(lost=(two,), copied=(one,))
    assert progress.rewritten(store, start, tip) == progress.Rewritten(), "the branch holds it"
    assert progress.rewritten(store, tip, tip) == progress.Rewritten()
    assert progress.rewritten(store, "f" * 40, tip) == progress.Rewritten(("f" * 40,)), "no such commit any more"
    monkeypatch.setattr(progress, "COMPARED", 1)
    assert progress.rewritten(store, empty, tip) == progress.Rewritten((one, two, empty)), "too much to compare"


# --- what is kept of a leg


def test_each_leg_leaves_one_row_for_each_thing(course: Start) -> None:
    relay = driven(course, {"0": FIRST, "1": [*commit("two.txt"), {"do": "commit"}, *END]}, legs=2)
    first, second = relay.legs
    rows = Counted.objects.filter(leg=second, kind="commit").values_list("value", "counts", "shared")
    assert sorted(counts for _, counts, _ in rows) == [False, True], "the empty commit was made, and does not count"
    assert not any(shared for *_, shared in rows)
    assert Counted.objects.get(leg=first, kind="tree").value == git(relay.worktree, "rev-parse", "HEAD~3^{tree}")
    assert status.status(relay.pk)["verdict_details"]["attribution"]["numbers"]["commits"] == 3


def test_counting_reads_no_history(course: Start) -> None:
    """architecture.md, Sizes to hold: a leg costs the same after 10,000 legs; it asks for its own candidates only."""
    legs = 40
    relay = driven(course, {"0": FIRST, "1": [*commit("two.txt"), *END]}, legs=2)
    last = relay.legs[-1]
    Counted.objects.filter(leg=last).delete()
    Leg.objects.filter(relay=relay.pk, number=2).update(number=legs + 1)
    Leg.objects.filter(relay=relay.pk, number=1).update(number=legs)
    Leg.objects.bulk_create(
        Leg(
            relay=relay.relay, number=number, trace=f"{relay.pk}-{number}", state="ended", reason="RELAY_ROTATED",
            ended_at=last.ended_at, progress=1, progress_detail={"commits": [{"sha": f"{number:040x}"}]},
        )
        for number in range(1, legs)
    )  # fmt: skip
    leg = Leg.objects.get(pk=last.pk)
    stores = reload.stores_for(relay.relay)
    with CaptureQueriesContext(connection) as asked:
        made = progress.of_leg(relay.relay, leg, stores)
    assert made.progress.total == 1
    assert not [query["sql"] for query in asked if "progress_detail" in query["sql"]]
    assert len(asked) <= 6


def test_references_of_all_rows_are_asked_in_one_batch(course: Start) -> None:
    """ "ledger rows whose references resolve"; stores are asked in batches, however many rows a leg wrote."""
    relay = driven(course, FIRST)
    (leg,) = relay.legs
    refs = {"a": ["file:one.txt"], "b": ["file:one.txt", "file:none.txt"], "c": ["no pointer"], "d": ["issue:#99999"]}
    LedgerRow.objects.bulk_create(
        LedgerRow(id=f"{relay.pk}.0.{name}", relay=relay.relay, leg=leg, refs=each, by="agent", at=leg.ended_at)
        for name, each in refs.items()
    )
    stores = reload.stores_for(relay.relay)
    asked: list[int] = []
    resolve = stores.resolve

    def counted(pointers: Iterable[Pointer]) -> dict[Pointer, Answer]:
        answers = resolve(pointers)
        asked.append(len(answers))
        return answers

    stores.resolve = counted  # type: ignore[method-assign]
    made = progress.of_leg(relay.relay, leg, stores)
    assert made.progress.ledger == (f"{relay.pk}.0.a",)
    assert made.rows == tuple(f"{relay.pk}.0.{name}" for name in refs)
    assert asked == [3]
