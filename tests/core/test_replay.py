"""Where a Codex child's own calls begin, and what the turns of a headless thread added."""

from hypothesis import given
from hypothesis import strategies as st

from relays.core.replay import Row, Split, split, turns, vector
from relays.core.usage import Buckets, add


def rows(*vectors: str, turn: str = "", copied: str = "") -> list[Row]:
    return [Row(one, turn, copied) for one in vectors]  # type: ignore[arg-type]


def test_a_common_beginning_is_the_parents() -> None:
    parent = rows("1/0/1/0", "2/0/2/0", "3/0/3/0")
    child = rows("1/0/1/0", "2/0/2/0", copied="estimated") + rows("9/0/9/0")
    assert split(child, parent) == Split(2, "parent's totals")


def test_the_parents_file_outranks_what_the_child_estimates() -> None:
    parent = rows("1/0/1/0", "2/0/2/0")
    child = rows("1/0/1/0", "8/0/8/0", "9/0/9/0", copied="estimated")
    assert split(child, parent) == Split(1, "parent's totals")


def test_a_parent_that_may_not_be_read_to_its_end_leaves_the_rest_estimated() -> None:
    child = rows("1/0/1/0", "2/0/2/0", "3/0/3/0", copied="estimated") + rows("4/0/4/0")
    assert split(child, rows("1/0/1/0")) == Split(3, "estimated")


def test_a_line_that_one_file_lost_does_not_end_the_repetition_of_known_turns() -> None:
    parent = rows("1/0/1/0", turn="a") + rows("3/0/3/0", turn="b")
    child = rows("1/0/1/0", turn="a") + rows("2/0/2/0", "3/0/3/0", turn="b") + rows("4/0/4/0", turn="own")
    assert split(child, parent) == Split(3, "parent's turns")


def test_without_the_parent_the_childs_file_says_it() -> None:
    assert split(rows("1/0/1/0", copied="replay") + rows("2/0/2/0"), None) == Split(1, "own times")
    assert split(rows("1/0/1/0", copied="estimated") + rows("2/0/2/0"), None) == Split(1, "estimated")
    assert split(rows("1/0/1/0"), None) == Split(0, "")


def test_a_child_that_repeats_nothing_is_all_its_own() -> None:
    assert split(rows("1/0/1/0", turn="own"), rows("5/0/5/0", turn="a")) == Split(0, "")
    assert split([], rows("5/0/5/0")) == Split(0, "")


def test_rows_without_a_total_are_never_taken_for_the_same() -> None:
    assert split(rows("", ""), rows("", "")) == Split(0, "")


def test_turns_are_differences_of_running_totals() -> None:
    assert turns(["300/100/30/0", "100/0/10/0", "nonsense", "300/100/30/0", "1/2/3", "a/b/c/d"]) == {
        "100/0/10/0": Buckets(input=100, output=10),
        "300/100/30/0": Buckets(input=100, cache_read=100, output=20),
    }


@given(
    st.lists(st.tuples(st.integers(1, 999), st.integers(0, 999), st.integers(1, 99)), min_size=1, max_size=8),
    st.randoms(use_true_random=False),
)
def test_turns_add_up_in_any_order_and_any_number_of_copies(steps: list[tuple[int, int, int]], random: object) -> None:
    total, seen = [0, 0, 0], []
    for plain, cached, output in steps:
        total = [total[0] + plain + cached, total[1] + cached, total[2] + output]
        seen.append(vector(total[0], total[1], total[2], 0))
    copies = seen + seen[::2]
    random.shuffle(copies)  # type: ignore[attr-defined]
    summed = Buckets()
    for one in turns(copies).values():
        summed = add(summed, one)
    assert summed == Buckets(
        input=sum(s[0] for s in steps), cache_read=sum(s[1] for s in steps), output=sum(s[2] for s in steps)
    )


@given(
    st.lists(st.integers(1, 99), unique=True, max_size=12),
    st.integers(0, 12),
    st.lists(st.integers(100, 199), max_size=6),
)
def test_a_child_of_any_parent_splits_where_it_was_forked(parent: list[int], at: int, own: list[int]) -> None:
    history = [Row(vector(n, 0, n, 0), f"turn{n}") for n in parent]
    inherited = history[: min(at, len(history))]
    child = inherited + [Row(vector(n, 0, n, 0), f"own{n}") for n in own]
    assert split(child, history).rows == len(inherited)
