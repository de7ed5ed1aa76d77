"""rules.md, Computed verdicts, coverage: "of what the leg durably made …, the part that the successor reaches"."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.coverage import Coverage, judge, over_legs
from relays.core.pointers import Kind, Pointer

SHAS = [f"{n:x}" * 40 for n in range(1, 5)]


def commit(n):
    return Pointer(Kind.COMMIT, SHAS[n])


def ledger(name):
    return Pointer(Kind.LEDGER, name)


ISSUE, MEMORY = Pointer(Kind.ISSUE, "#1"), Pointer(Kind.MEMORY, "lessons")


def judged(made, pointed=(), below=(), rows=None):
    return judge(made, pointed=set(pointed), below=set(below), rows=rows or {})


def test_the_cursor_reaches_commits_and_nothing_else():
    made = [commit(0), commit(1), ISSUE, ledger("R.0.e1"), MEMORY]
    found = judged(made, below=SHAS)
    assert (found.made, found.reached, found.verdict) == (5, 2, "violated")
    assert found.missing == (ISSUE, ledger("R.0.e1"), MEMORY)
    assert judged(made, pointed=made[2:], below=SHAS) == Coverage(5, 5)


def test_a_commit_below_no_cursor_is_reached_by_its_own_pointer():
    found = judged([commit(0), commit(1)], pointed=[commit(1)])
    assert (found.text, found.missing) == ("1/2", (commit(0),))


def test_a_row_that_is_reached_carries_what_it_lists():
    rows = {
        "R.0.d1": ["ledger:R.0.d0", "issue:#1"],
        "R.0.d0": [f"commit:{SHAS[0]}", "nonsense"],
        "R.0.e9": ["issue:#2"],
    }
    made = [commit(0), ISSUE, ledger("R.0.d0")]
    assert judged(made, pointed=[ledger("R.0.d1")], rows=rows).score == 1.0
    assert judged(made, rows=rows).score == 0.0


def test_rows_that_point_at_each_other_end():
    rows = {"a": ["ledger:b"], "b": ["ledger:a"]}
    assert judged([ledger("b")], pointed=[ledger("a")], rows=rows).score == 1.0


def test_a_thing_that_is_named_twice_is_one():
    assert judged([commit(0), commit(0)], below=SHAS).text == "1/1"


def test_never_all_of_nothing():
    nothing = judged([])
    assert (nothing.score, nothing.verdict) == (None, "not yet")
    assert over_legs([]).verdict == over_legs([nothing]).verdict == "not yet"
    assert over_legs([]).numbers["score"] is None


@pytest.mark.parametrize(
    ("legs", "verdict"),
    [
        ([(3, 3)], "holds"),
        ([(3, 3), (0, 0), (1, 1)], "holds"),
        ([(3, 3), (5, 4)], "violated"),
        ([(1, 0)], "violated"),
        ([(0, 0)], "not yet"),
    ],
)
def test_it_holds_only_at_one(legs, verdict):
    line = over_legs([Coverage(made, reached) for made, reached in legs])
    assert line.verdict == verdict
    made, reached = sum(m for m, _ in legs), sum(r for _, r in legs)
    assert line.numbers["score"] == (reached / made if made else None)


things = st.lists(st.sampled_from([*(commit(n) for n in range(4)), ISSUE, MEMORY, ledger("a"), ledger("b")]))
links = st.dictionaries(
    st.sampled_from("abcd"), st.lists(st.sampled_from(["ledger:a", "ledger:b", "ledger:c", "issue:#1"]))
)


@given(things, things, st.sets(st.sampled_from(SHAS)), links)
def test_more_pointers_never_reach_less(made, pointed, below, rows):
    less = judged(made, pointed[1:], below, rows)
    more = judged(made, pointed, below, rows)
    assert 0 <= less.reached <= more.reached <= more.made == len(set(made))
    assert set(more.missing) <= set(less.missing) <= set(made)
    assert not set(more.missing) & set(pointed)
