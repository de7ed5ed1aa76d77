import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.fidelity import over_legs, score, score_of

words = st.lists(st.sampled_from(["verified", "dangling", "unknown"]), max_size=20)


@pytest.mark.parametrize(
    ("verdicts", "number", "word"),
    [
        ([], None, "not yet"),
        (["unknown"], None, "not yet"),
        (["verified"], 1.0, "holds"),
        (["verified", "unknown"], 1.0, "not yet"),
        (["verified", "dangling"], 0.5, "violated"),
        (["dangling", "unknown"], 0.0, "violated"),
        (["verified", "no such word"], 1.0, "not yet"),
    ],
)
def test_one_baton(verdicts, number, word):
    found = score(verdicts)
    assert (found.score, found.verdict) == (number, word)
    assert found.total == len(verdicts)


def test_over_legs_is_never_all_of_nothing():
    assert over_legs([]).verdict == "not yet"
    assert over_legs([score([])]).verdict == "not yet"
    assert over_legs([score(["verified"]), score([])]).verdict == "not yet"
    assert over_legs([score(["verified"]), score(["unknown"])]).verdict == "not yet"


def test_over_legs_sums_its_numbers():
    line = over_legs([score_of(3, 0, 0), score_of(2, 0, 0)])
    assert line.verdict == "holds"
    assert line.numbers == {"batons": 2, "verified": 5, "dangling": 0, "unknown": 0, "score": 1.0}


@given(st.lists(words, max_size=8))
def test_one_dangling_pointer_violates_and_nothing_else_does(batons):
    line = over_legs([score(verdicts) for verdicts in batons])
    every = [verdict for verdicts in batons for verdict in verdicts]
    assert (line.verdict == "violated") == ("dangling" in every)
    if line.verdict == "holds":
        assert every
        assert set(every) == {"verified"}


@given(words)
def test_unknown_pointers_move_the_score_nowhere(verdicts):
    assert score(verdicts).score == score([verdict for verdict in verdicts if verdict != "unknown"]).score


def test_the_score_in_words_leaves_out_what_no_store_answered_for():
    """rules.md, Computed verdicts: "verified / (verified + dangling) over ALL pointers, unknown shown beside it"."""
    assert score(["verified"] * 9 + ["dangling"] * 5 + ["unknown"] * 3).text == "9/14"
