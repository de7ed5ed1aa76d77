import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.progress import ISSUE_FILE, CommitFact, after_leg, count


def commit(sha, patch=None, paths=("work/1.md",), *, here=True, parents=1, tree="t"):
    return CommitFact(sha, f"patch-{sha}" if patch is None else patch, tuple(paths), here, tree, parents)


def counted(*commits, **change):
    given_ = {
        "region": ("**",),
        "tip_tree": "tip",
        "cursor_trees": {"start"},
        "prior_patch_ids": (),
        "prior_shas": (),
        "issues_closed": (),
        "ledger_rows": (),
        "prior_refs": (),
    }
    return count(commits, **{**given_, **change})


def test_nothing_is_no_progress():
    assert counted().total == 0


def test_each_commit_counts_once_per_patch_id():
    found = counted(commit("a"), commit("b"), commit("c", patch="patch-a"))
    assert (found.commits, found.repeated, found.total) == (("a", "b"), ("c",), 2)
    assert found.patch_ids == ("patch-a", "patch-b")


def test_what_an_earlier_leg_made_never_counts_again():
    found = counted(commit("a"), commit("b", patch="old"), prior_shas=("a",), prior_patch_ids=("old",))
    assert (found.total, found.repeated) == (0, ("a", "b"))


def test_an_earlier_legs_commit_is_not_called_foreign():
    assert counted(commit("a", here=False), prior_shas=("a",)).foreign == ()


def test_commits_of_others_are_foreign():
    found = counted(commit("a", here=False), commit("b"))
    assert (found.foreign, found.commits) == (("a",), ("b",))


def test_one_path_outside_the_region_is_a_finding():
    found = counted(
        commit("a", paths=("docs/a.md", "src/b.py")), commit("b", paths=("docs/c.md",)), region=("docs/**",)
    )
    assert (found.outside, found.commits, found.total) == (("a",), ("b",), 1)


def test_a_merge_counts_nothing_by_itself_but_may_be_a_finding():
    found = counted(commit("m", parents=2), commit("n", parents=2, paths=("x",)), region=("work/**",))
    assert (found.total, found.merges, found.outside) == (0, ("m",), ("n",))


@pytest.mark.parametrize("one", [commit("a", paths=()), commit("a", patch="")])
def test_an_empty_commit_is_none(one):
    assert (counted(one).total, counted(one).empty) == (0, ("a",))


def test_doing_and_undoing_is_none():
    found = counted(commit("a", paths=(ISSUE_FILE,)), commit("b"), tip_tree="start", issues_closed=("issue:#1",))
    assert (found.total, found.commits, found.undone, found.issues) == (0, (), ("a", "b"), ())
    assert found.patch_ids == ("patch-a", "patch-b")


def test_the_tip_is_compared_with_every_earlier_cursor():
    assert counted(commit("a"), tip_tree="older", cursor_trees={"start", "older"}).total == 0


def test_an_issue_counts_with_the_counted_commit_that_changed_the_issue_file():
    closing = commit("a", paths=("work/1.md", ISSUE_FILE))
    assert counted(closing, issues_closed=("issue:#1", "issue:#1")).issues == ("issue:#1",)
    assert counted(closing, issues_closed=("issue:#1",)).total == 2
    for one in (commit("a"), commit("a", here=False, paths=(ISSUE_FILE,)), commit("a", parents=2, paths=(ISSUE_FILE,))):
        assert counted(one, issues_closed=("issue:#1",)).issues == ()


def test_an_issue_closed_by_a_commit_outside_the_region_does_not_count_with_another_commit():
    found = counted(commit("a"), commit("b", paths=(ISSUE_FILE,)), region=("work/**",), issues_closed=("issue:#1",))
    assert (found.commits, found.outside, found.issues) == (("a",), ("b",), ())


def test_an_issue_closed_by_a_recorded_act_counts_by_itself():
    found = counted(issues_by_act=("issue:#2",), issues_closed=("issue:#1",))
    assert (found.issues, found.total) == (("issue:#2",), 1)


def test_a_ledger_row_counts_when_it_resolves_and_brings_a_new_reference():
    rows = [
        ("r1", ("commit:a", "file:x"), True),
        ("r2", ("commit:a",), True),
        ("r3", ("file:y",), False),
        ("r4", ("file:y", "commit:a"), True),
        ("r5", (), True),
        ("r6", ("file:old",), True),
    ]
    found = counted(ledger_rows=rows, prior_refs={"file:old"})
    assert (found.ledger, found.total) == (("r1", "r4"), 2)
    assert found.refs == ("commit:a", "file:x", "file:y")


@pytest.mark.parametrize(("run", "progress", "after"), [(2, 0, 3), (2, 1, 0), (2, None, 3), (0, 7, 0)])
def test_the_run_of_empty_legs(run, progress, after):
    assert after_leg(run, progress) == after


facts = st.builds(
    CommitFact,
    st.sampled_from("abcdef"),
    st.sampled_from(["", "p", "q", "r"]),
    st.lists(st.sampled_from(["docs/a", "src/b", ISSUE_FILE]), max_size=2).map(tuple),
    st.booleans(),
    st.just("t"),
    st.integers(1, 2),
)
histories = st.lists(facts, max_size=10, unique_by=lambda fact: fact.sha)
few = st.sets(st.sampled_from(["a", "b", "p", "q"]))


@given(histories, few, few, st.booleans())
def test_every_commit_has_one_place_and_only_sound_ones_count(commits, shas, patches, undone):
    found = counted(
        *commits,
        region=("docs/**", ".relay/**"),
        tip_tree="start" if undone else "tip",
        prior_shas=shas,
        prior_patch_ids=patches,
    )
    places = [
        *found.commits,
        *found.foreign,
        *found.outside,
        *found.empty,
        *found.repeated,
        *found.merges,
        *found.undone,
    ]
    assert sorted(places) == sorted(one.sha for one in commits)
    by_sha = {one.sha: one for one in commits}
    good = [by_sha[sha] for sha in found.commits]
    assert len({one.patch_id for one in good}) == len(good)
    for one in good:
        assert one.created_here
        assert one.parents == 1
        assert one.patch_id not in patches | {""}
        assert one.sha not in shas
        assert "src/b" not in one.paths
    assert not (undone and good)


@given(histories)
def test_the_same_history_counts_nothing_in_the_next_leg(commits):
    first = counted(*commits)
    again = counted(*commits, prior_shas=first.commits, prior_patch_ids=first.patch_ids)
    assert again.commits == ()
