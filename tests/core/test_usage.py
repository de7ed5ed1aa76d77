import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.usage import ZERO, Buckets, add, corrected, merge_max, resident, total, warmth

tokens = st.integers(0, 500_000_000)
buckets = st.builds(Buckets, tokens, tokens, tokens, tokens, tokens)


def test_resident_is_what_was_read_never_output():
    call = Buckets(input=1, cache_read=20, cache_write_5m=300, cache_write_1h=4000, output=50_000)
    assert resident(call) == 4321
    assert total(call) == 54_321


def test_a_negative_bucket_is_refused():
    with pytest.raises(ValueError, match="cache_read"):
        Buckets(cache_read=-1)


def test_buckets_of_an_event_count_what_is_not_reported_as_zero():
    assert Buckets.of({"input": 5, "cache_read": None, "output": 7}) == Buckets(input=5, output=7)


@given(buckets, buckets, buckets)
def test_merging_rows_of_one_call_is_order_free_and_idempotent(a, b, c):
    assert merge_max(a, b) == merge_max(b, a)
    assert merge_max(a, merge_max(b, c)) == merge_max(merge_max(a, b), c)
    assert merge_max(a, a) == a
    assert corrected(add(a, c), a, merge_max(a, b)) == add(merge_max(a, b), c)


@given(tokens, tokens, tokens)
def test_a_cache_write_is_one_amount_whether_a_row_knows_its_split_or_not(short, hour, output):
    whole, split = Buckets(cache_write_5m=short + hour, output=output), Buckets(0, 0, short, hour, 0)
    assert merge_max(whole, split) == Buckets(0, 0, short, hour, output)
    # a remainder over what the split tells is billed as 5 minutes
    assert merge_max(Buckets(cache_write_5m=short + hour + 9), split) == Buckets(0, 0, short + 9, hour, 0)


@given(buckets, buckets)
def test_never_is_more_written_than_a_row_says(a, b):
    def written(one):
        return one.cache_write_5m + one.cache_write_1h

    assert written(merge_max(a, b)) == max(written(a), written(b))


@given(buckets, buckets)
def test_sums_of_different_calls(a, b):
    assert total(add(a, b)) == total(a) + total(b)
    assert add(a, ZERO) == a


@pytest.mark.parametrize(
    ("call", "reported", "state"),
    [
        (Buckets(input=50, cache_read=50), True, "warm"),
        (Buckets(input=51, cache_read=49), True, "cold"),
        (Buckets(input=50, cache_read=50), False, "unknown"),
        (Buckets(output=9), True, "unknown"),
        (None, True, "unknown"),
    ],
)
def test_the_cache_is_warm_from_half_of_the_resident_tokens_on(call, reported, state):
    assert warmth(call, reported=reported) == state
