"""What filled a window: whole tokens by kind of record, which add up to what it grew."""

from hypothesis import given
from hypothesis import strategies as st

from relays.sessions.series import UNKNOWN, Window, shared_out

FILL = st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 10_000), max_size=6)


@given(st.integers(1, 10**6), FILL)
def test_shares_add_up_and_none_is_a_token_off(tokens: int, fill: dict[str, int]) -> None:
    shares = dict(shared_out(tokens, fill))
    total = sum(fill.values())
    assert sum(shares.values()) == tokens
    if not total:
        assert shares == {UNKNOWN: tokens}
        return
    assert all(abs(share * total - tokens * fill[kind]) < total for kind, share in shares.items())
    assert dict(shared_out(tokens, dict(reversed(fill.items())))) == shares, "whatever stood first"


@given(st.lists(st.tuples(st.integers(0, 200_000), FILL, st.booleans()), max_size=20))
def test_what_filled_a_window_is_all_that_it_grew(calls: list[tuple[int, dict[str, int], bool]]) -> None:
    window = Window()
    grown = since = 0
    before: int | None = None
    for resident, fill, boundary in calls:
        if boundary:
            window.boundary()
        window.call(resident, False, fill)
        if before is not None and not boundary and resident >= before:
            grown, since = grown + resident - before, since + resident - before
        elif before is not None:
            since = 0
        before = resident
    told = window.fill()
    assert sum(told["total"].values()) == grown
    assert sum(told["now"].values()) == since
    if calls:
        assert told["now_base"] + since == told["resident"] == calls[-1][0]
