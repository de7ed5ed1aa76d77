"""Observed calls as a work stream: what is the work's stays, what the carrier did to its window is taken out."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.carryover import ALL, Step, Work, play
from relays.core.carryover_policies import Compaction, Unbounded
from relays.core.carryover_prices import Prices
from relays.core.usage import Buckets
from relays.core.workstream import SLACK, SOON, MainCall, of, orientation

PRICES = Prices.multiples(Decimal("0.1"), Decimal("1.25"), Decimal(5))
T = datetime(2026, 7, 1, tzinfo=UTC)


def call(resident: int, read: int = 0, output: int = 10, **more) -> MainCall:
    return MainCall(Buckets(cache_read=read, cache_write_5m=resident - read, output=output), **more)


def growing(*residents: int, **more) -> list[MainCall]:
    """Calls that find all that there was before in the cache."""
    before = [0, *residents]
    return [call(now, min(then, now), **more) for then, now in zip(before, residents, strict=False)]


def test_what_came_in_is_the_growth_from_call_to_call():
    stream = of(growing(1_000, 1_500, 1_700), 200_000)
    assert [step.new for step in stream.work.steps] == [500, 200, 10]  # of the last call only its output is known
    assert [step.output for step in stream.work.steps] == [10, 10, 10]
    assert (stream.work.base, stream.work.first, stream.work.window, stream.peak) == (1_000, 0, 200_000, 1_700)
    assert (stream.cuts, stream.reread, stream.lost) == ((), (), 0)


def test_a_cut_is_taken_out_and_what_it_did_is_kept_beside():
    calls = [
        *growing(5_000, 90_000, 160_000),
        call(30_000, read=4_000, fresh=True),
        call(33_000, read=30_000, effect=True),
        call(40_000, read=33_000),
    ]
    stream = of(calls, 200_000)
    assert stream.cuts == (3,)
    assert stream.after == ((160_000, 30_000),)
    assert stream.busts == (26_000,)
    assert stream.reread == (3_000,)
    # over the cut nobody can tell what came in: the output at least
    assert [step.new for step in stream.work.steps] == [85_000, 70_000, 10, 3_000, 7_000, 10]
    assert (stream.work.base, stream.work.first, stream.work.kept) == (5_000, 0, 4_000)


def test_what_the_carrier_made_it_read_again_is_no_work_of_another_one():
    calls = [
        *growing(5_000, 90_000),
        call(30_000, fresh=True),
        call(33_000, read=30_000),
        call(37_000, read=33_000, effect=True),
        call(38_000, read=37_000),
    ]
    stream = of(calls, 200_000)
    assert stream.reread == (7_000,)
    assert [step.new for step in stream.without_reread().work.steps] == [85_000, 10, 0, 0, 1_000, 10]
    assert stream.without_reread().cuts == stream.cuts
    # without a durable effect nothing is known to be re-reading, and everything stays
    plain = of([*calls[:3], call(33_000, read=30_000)], 200_000)
    assert plain.reread == (None,)
    assert plain.without_reread() == plain


def test_re_reading_counts_up_to_the_next_cut_and_not_too_late():
    calls = [call(50_000), call(20_000, fresh=True), call(25_000), call(20_000, fresh=True), call(21_000, effect=True)]
    assert of(calls, 200_000, soon=SOON).reread == (None, 1_000)
    late = [call(50_000), call(20_000, fresh=True), *[call(20_100)] * SOON, call(30_000, effect=True)]
    assert of(late, 200_000).reread == (10_000,)
    assert of(late, 200_000, soon=SOON).reread == (None,)


def test_a_leg_that_did_nothing_durable_read_again_all_that_it_read():
    """Cheap and idle is not cheap: what it read is no work that a compacting session would have had to do."""
    calls = [
        call(20_000, effect=True), call(21_000),
        call(22_000, fresh=True), call(92_000), call(95_000),
        call(22_000, fresh=True), call(90_000),
    ]  # fmt: skip
    stream = of(calls, 200_000)
    assert stream.reread == (73_000, None)  # the last one may still do something
    assert [step.new for step in stream.without_reread().work.steps] == [1_000, 10, 0, 0, 10, 68_000, 10]


def test_an_inherited_conversation_is_over_the_base():
    """A resumed or forked session begins with a full window; the smallest one shows what every window begins with."""
    calls = [call(104_000, read=100_000), call(150_000, read=104_000), call(60_000, read=21_000, fresh=True)]
    stream = of(calls, 200_000)
    assert (stream.work.base, stream.work.first, stream.work.warm, stream.work.kept) == (
        60_000, 44_000, 100_000, 21_000,
    )  # fmt: skip


def test_without_a_cut_the_first_call_shows_what_stays_cached():
    assert of(growing(1_000, 2_000), 200_000).work.kept == 0
    assert of([call(1_000, read=700)], 200_000).work.kept == 700
    # the middle of what calls after cuts read; a call of an agent that does not report it says nothing
    calls = [
        call(1_000), call(900, read=100, fresh=True), call(900, read=500, fresh=True), call(900, read=300, fresh=True),
        call(900, read=0, fresh=True, told=False),
    ]  # fmt: skip
    assert of(calls, 200_000).work.kept == 300


def test_a_prefix_that_the_record_shows_as_lost_is_lost_for_every_carrier():
    stream = of([call(100_000), call(100_000, read=25_000)], 200_000)
    assert stream.work.steps[1].lost == ALL * 3 // 4
    assert stream.lost == 75_000
    # caches keep whole blocks: a little less is nothing lost
    assert of([call(100_000), call(100_000, read=100_000 - SLACK)], 200_000).work.steps[1].lost == 0
    # what a cut made cold is the carrier's doing
    assert of([call(100_000), call(100_000, fresh=True)], 200_000).lost == 0


@pytest.mark.parametrize(
    ("pause", "hour", "cold"),
    [
        (timedelta(minutes=5), False, False),
        (timedelta(minutes=5, seconds=1), False, True),
        (timedelta(minutes=59), True, False),
        (timedelta(minutes=61), True, True),
    ],
)
def test_where_the_agent_does_not_say_what_was_cached_a_gap_makes_it_cold(pause, hour, cold):
    written = Buckets(cache_write_1h=9_000) if hour else Buckets(input=9_000)
    calls = [MainCall(written, T, told=False), MainCall(Buckets(input=9_500), T + pause, told=False)]
    assert of(calls, 200_000).work.steps[1].cold is cold


def test_a_time_that_is_not_known_is_no_gap():
    calls = [MainCall(Buckets(input=9_000), T, told=False), MainCall(Buckets(input=9_500), None, told=False)]
    assert not of(calls, 200_000).work.steps[1].cold
    assert not of(list(reversed(calls)), 200_000).work.steps[1].cold


def test_effects_and_prices_go_with_their_calls():
    steps = of([call(10, effect=True), call(20, price=1)], 100).work.steps
    assert [(step.effect, step.price) for step in steps] == [(True, 0), (False, 1)]


def test_a_session_that_never_cut_shows_what_it_read_first():
    calls = growing(1_000, 8_000, 21_000)
    assert orientation(of(calls, 100), calls) is None
    calls[2] = call(21_000, read=8_000, effect=True)
    assert orientation(of(calls, 100), calls) == 20_000
    cut = [call(1_000), call(500, fresh=True), call(900, effect=True)]
    assert orientation(of(cut, 100), cut) is None  # the effect came after the cut: that is re-reading


def test_no_call_is_no_stream():
    with pytest.raises(ValueError, match="no call"):
        of([], 200_000)


growths = st.lists(
    st.tuples(st.integers(0, 30_000), st.integers(0, 2_000), st.booleans()), min_size=1, max_size=40
)  # fmt: skip


@given(st.integers(SLACK + 1, 40_000), growths)
def test_what_a_window_that_only_grew_cost_comes_out_of_its_stream(base, growth):
    """Observed calls, turned into a stream and played the way they were carried, cost what they cost."""
    steps = tuple(Step(max(new, output), output, cold) for new, output, cold in growth)
    work = Work(base, 10_000_000, steps)
    real = play(work, Unbounded(), PRICES)
    calls = []
    for at, (resident, step) in enumerate(zip(real.residents, steps, strict=True)):
        read = 0 if at == 0 or step.cold else real.residents[at - 1]
        calls.append(call(resident, read, step.output))
    stream = of(calls, 10_000_000)
    again = play(stream.work, Unbounded(), PRICES)
    assert again.money == real.money
    assert again.residents == real.residents
    assert stream.lost == real.cold


@given(st.integers(SLACK + 1, 20_000), growths, st.integers(0, 20_000))
def test_what_a_compacting_session_cost_comes_out_of_its_stream(base, growth, residue):
    """Played with its own trigger and residue, each stretch between its compactions is what it was."""
    policy = Compaction(100_000, residue)
    steps = tuple(Step(max(new, output), output) for new, output, _ in growth)
    real = play(Work(base, 1_000_000, steps), policy, PRICES)
    calls = []
    for at, (resident, step) in enumerate(zip(real.residents, steps, strict=True)):
        fresh = at in real.events
        read = 0 if at == 0 or fresh else real.residents[at - 1]
        calls.append(call(resident, read, step.output, fresh=fresh))
    stream = of(calls, 1_000_000)
    assert stream.cuts == tuple(event for event in real.events if event < len(steps))
    assert [before for before, _ in stream.after] == [real.residents[cut - 1] for cut in stream.cuts]
    # what came in just before a compaction is not in the record: of it only the output is known
    known = tuple(
        Step(step.new if number not in (*real.events, len(steps)) else step.output, step.output)
        for number, step in enumerate(steps, 1)
    )
    assert tuple(Step(step.new, step.output) for step in stream.work.steps) == known
    assert stream.work.base + stream.work.first == base
