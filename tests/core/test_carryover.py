"""The carry-over engine: the golden table, a plain reading of the specification beside it, what must always hold."""

from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.carryover import ALL, Carried, Step, Work, play
from relays.core.carryover_policies import (
    CarryOver,
    Compaction,
    ContextEditing,
    Relay,
    RotatedAt,
    SlidingWindow,
    Unbounded,
    Window,
    tokens_of,
)
from relays.core.carryover_prices import PUBLISHED, Prices
from relays.core.pricing import Rate, Rates, cost
from relays.core.usage import Buckets

GOLDEN = {
    40: ((505_800, 120_000, 2, 12_000), (702_390, 190_000, 1, 59_800)),
    80: ((1_014_000, 120_000, 4, 24_000), (1_605_897, 192_340, 3, 180_642)),
    160: ((2_037_600, 120_000, 8, 48_000), (3_342_921, 192_565, 6, 362_326)),
    320: ((4_113_600, 120_000, 16, 96_000), (6_926_106, 192_571, 14, 846_893)),
}
D = Decimal
PUBLISHED_RELAY = Relay(D("0.6"), 2_000)
PUBLISHED_COMPACTION = Compaction(D("0.95"), D("0.3"))


def even(turns: int, growth: int = 6_000, output: int = 0, base: int = 4_000, window: int = 200_000) -> Work:
    return Work(base, window, (Step(growth, output),) * turns)


@pytest.mark.parametrize("turns", sorted(GOLDEN))
def test_the_golden_table_is_exact(turns):
    for policy, expected in zip((PUBLISHED_RELAY, PUBLISHED_COMPACTION), GOLDEN[turns], strict=True):
        found = play(even(turns), policy, PUBLISHED)
        assert (int(found.money), found.peak, len(found.events), found.bust) == expected


# --- the specification, read once more, slowly: `events` of relay, compaction and none


def slowly(work: Work, policy: Relay | Compaction | Unbounded, rates: Rates) -> dict[str, object]:
    """cost.md, call by call, each priced by itself by `relays.core.pricing`."""
    resident = work.base + work.first + (policy.baton if isinstance(policy, Relay) else 0)
    valid, pending, peak, bust = work.warm, 0, 0, 0
    calls: list[Buckets] = []
    events: list[int] = []
    failed = None
    for number, step in enumerate(work.steps, 1):
        if step.cold:
            valid = 0
        cached = min(valid, resident)
        calls.append(Buckets(0, cached, resident - cached, 0, step.output))
        bust += min(pending, resident - cached)
        pending, valid = 0, resident
        resident += step.new
        peak = max(peak, resident)
        if isinstance(policy, Relay) and Fraction(resident) >= share(policy.mark, work.window):
            events.append(number)
            if policy.handover is not None:
                calls.append(own_call(resident, valid, work.window, policy.handover))
            pending, resident = resident, work.base + policy.baton + policy.orientation
            valid = min(valid, work.kept)
        elif isinstance(policy, Compaction) and Fraction(resident) >= share(policy.trigger, work.window):
            events.append(number)
            if policy.summary is not None:
                calls.append(own_call(resident, valid if policy.cached else 0, work.window, policy.summary))
            over = resident - work.base
            left = min(int(share(policy.residue, over)), over)
            pending, resident = resident, work.base + left + policy.reread
            valid = min(valid, work.kept)
        peak = max(peak, resident)
        if resident > work.window:
            failed = number
            break
    return {
        "money": sum((cost(rates, one) for one in calls), D(0)),
        "peak": peak,
        "events": tuple(events),
        "bust": bust,
        "exceeded_at": failed,
        "read": sum(one.cache_read for one in calls),
        "written": sum(one.cache_write_5m for one in calls),
        "output": sum(one.output for one in calls),
    }


def share(level: Decimal | int, whole: int) -> Fraction:
    return Fraction(level) * whole if isinstance(level, Decimal) else Fraction(level)


def own_call(resident: int, valid: int, window: int, output: int) -> Buckets:
    whole = min(resident, window)
    cached = min(valid, whole)
    return Buckets(0, cached, whole - cached, 0, output)


shares = st.integers(1, 100).map(lambda part: D(part) / 100)
levels = st.one_of(shares, st.integers(1, 3_000))
steps = st.builds(
    Step, new=st.integers(0, 400), output=st.integers(0, 200), cold=st.sampled_from([False, False, False, True])
)


@st.composite
def works(draw, window: int | None = None) -> Work:
    base = draw(st.integers(0, 300))
    return Work(
        base, window or draw(st.integers(400, 2_000)), tuple(draw(st.lists(steps, max_size=60))),
        kept=draw(st.integers(0, base)), first=draw(st.integers(0, 100)), warm=draw(st.integers(0, 300)),
    )  # fmt: skip


extras = st.one_of(st.none(), st.integers(0, 100))
relays = st.builds(Relay, levels, st.integers(0, 100), st.integers(0, 200), extras)
compactions = st.builds(
    Compaction,
    levels,
    st.one_of(shares, st.integers(0, 500), st.just(D(0))),
    st.integers(0, 200),
    extras,
    st.booleans(),
)
editings = st.builds(ContextEditing, levels, st.integers(0, 5))
slidings = st.builds(SlidingWindow, levels)
policies = st.one_of(relays, compactions, editings, slidings, st.just(Unbounded()))
money = st.decimals(0, 100, places=3)


@st.composite
def rates(draw) -> Rates:
    def rate() -> Rate:
        starts = draw(st.lists(st.integers(1, 1_500), unique=True, max_size=2))
        return Rate(draw(money), tuple((start, draw(money)) for start in sorted(starts)))

    return Rates(input=rate(), cache_read=rate(), cache_write_5m=rate(), output=rate())


@given(works(), st.one_of(relays, compactions, st.just(Unbounded())), rates())
def test_it_is_the_specification_call_by_call(work, policy, priced):
    """Prompt-length tiers included: each call, and each summary's own call, is priced by its own length."""
    found = play(work, policy, Prices.of(priced))
    assert {
        "money": found.money, "peak": found.peak, "events": found.events, "bust": found.bust,
        "exceeded_at": found.exceeded_at, "read": found.billed.cache_read, "written": found.billed.cache_write_5m,
        "output": found.billed.output,
    } == slowly(work, policy, priced)  # fmt: skip


def flat(read: str = "0.1", write: str = "1.25", output: str = "5") -> Prices:
    return Prices.multiples(D(read), D(write), D(output))


@given(works(), policies, money, money, money)
def test_money_is_the_sum_of_buckets_times_prices(work, policy, read, write, output):
    found = play(work, policy, Prices.multiples(read, write, output))
    billed = found.billed
    assert found.money == read * billed.cache_read + write * billed.cache_write_5m + output * billed.output


@given(works(), policies)
def test_what_always_holds(work, policy):
    found = play(work, policy, flat())
    assert found.played <= len(work.steps)
    assert found.played == len(found.money_at)
    assert found.events == tuple(sorted(set(found.events)))
    assert all(1 <= event <= found.played for event in found.events)
    assert len(found.busts) == len(found.events)
    assert all(bust >= 0 for bust in found.busts)
    assert found.peak >= max(found.residents, default=0)
    assert all(early <= late for early, late in zip(found.money_at, found.money_at[1:], strict=False))
    assert found.money == (found.money_at[-1] if found.money_at else 0)
    assert found.money_after(0) == 0
    assert [found.money_after(call) for call in range(1, found.played + 1)] == list(found.money_at)
    assert found.hit_rate is None or 0 <= found.hit_rate <= 1
    assert (found.hit_rate is None) == (sum(found.residents) == 0 and not found.billed.cache_read)
    assert found.exceeded_at is None or found.exceeded_at == found.played
    assert 0 <= found.extra <= found.money


@given(works(window=1_000_000), policies)
def test_nothing_gets_fuller_than_a_window_that_only_grows(work, policy):
    """But for what a carrier adds of its own: a baton, what is read again."""
    most = play(work, Unbounded(), flat()).peak
    added = {
        Relay: lambda: policy.baton + policy.orientation,
        Compaction: lambda: policy.reread,
    }.get(type(policy), lambda: 0)()
    assert play(work, policy, flat()).peak <= most + added * max(1, len(work.steps))


@given(works(window=1_000_000))
def test_a_relay_that_never_rotates_is_a_window_that_only_grows(work):
    assert play(work, Relay(D(1), 0), flat()) == play(work, Unbounded(), flat())
    assert play(work, Compaction(D(1), D("0.3")), flat()) == play(work, Unbounded(), flat())
    assert play(work, ContextEditing(D(1), 0), flat()) == play(work, Unbounded(), flat())
    assert play(work, SlidingWindow(D(1)), flat()) == play(work, Unbounded(), flat())


@given(works(window=1_000_000), st.data())
def test_a_window_that_only_grows_costs_more_the_more_comes_in(work, data):
    at = data.draw(st.integers(0, max(0, len(work.steps) - 1)))
    more = data.draw(st.integers(0, 500))
    grown = tuple(
        Step(step.new + (more if place == at else 0), step.output, step.cold) for place, step in enumerate(work.steps)
    )
    larger = Work(work.base, work.window, grown, work.kept, work.first, work.warm)
    before, after = play(work, Unbounded(), flat()), play(larger, Unbounded(), flat())
    assert after.money >= before.money
    assert after.peak >= before.peak


@given(works(), policies, st.data())
def test_a_gap_never_makes_it_cheaper(work, policy, data):
    """A prefix that is cold is written again: where writing costs more than reading, that is dearer."""
    if not work.steps:
        return
    at = data.draw(st.integers(0, len(work.steps) - 1))
    gap = tuple(Step(s.new, s.output, s.cold or place == at) for place, s in enumerate(work.steps))
    warm, cold = (
        play(Work(work.base, work.window, one, work.kept, work.first, work.warm), policy, flat())
        for one in (work.steps, gap)
    )
    assert cold.money >= warm.money
    assert (cold.events, cold.residents, cold.peak) == (warm.events, warm.residents, warm.peak)
    assert cold.money - cold.cold * D("1.15") <= warm.money


@given(works(), policies, st.integers(1, 9))
def test_prices_as_many_times_as_high_cost_as_many_times_as_much(work, policy, factor):
    once = play(work, policy, flat())
    assert play(work, policy, flat(str(D("0.1") * factor), str(D("1.25") * factor), str(5 * factor))).money == (
        once.money * factor
    )


@given(works(), policies, rates())
def test_the_callers_decimal_context_changes_nothing(work, policy, priced):
    exact_money = play(work, policy, Prices.of(priced)).money_at
    with localcontext() as context:
        context.prec = 3
        assert play(work, policy, Prices.of(priced)).money_at == exact_money


@given(works(), policies, st.integers(0, 60))
def test_what_is_to_come_does_not_change_what_was(work, policy, cut):
    """A prefix of the work is played as the beginning of the whole: nothing looks ahead."""
    part = play(Work(work.base, work.window, work.steps[:cut], work.kept, work.first, work.warm), policy, flat())
    whole = play(work, policy, flat())
    shorter = min(part.played, whole.played)
    assert part.residents[:shorter] == whole.residents[:shorter]
    assert part.money_at == whole.money_at[: part.played]
    assert part.events == tuple(event for event in whole.events if event <= part.played)


# --- single policies


def played(policy: CarryOver, *news: int | tuple[int, int], base: int = 100, window: int = 1_000, **more) -> Carried:
    made = tuple(Step(*one) if isinstance(one, tuple) else Step(one) for one in news)
    return play(Work(base, window, made, **more), policy, flat())


def test_a_rotation_leaves_base_baton_and_what_is_read_again():
    found = played(Relay(500, 20, 30, handover=7), 200, 200, 50, 10, kept=60)
    assert found.residents == (120, 320, 150, 200)
    assert found.events == (2,)
    # the handing over reads the whole window once more: 320 of it cached, 200 that came in, 7 written
    assert found.extra == D("0.1") * 320 + D("1.25") * 200 + 5 * 7
    assert found.busts == (90,)  # 150 in the window, 60 of the base still cached


def test_a_relay_that_ran_rotated_where_it_did():
    found = played(RotatedAt(frozenset({1, 3}), 20, 30), 200, 100, 900, 0)
    assert found.residents == (100, 150, 250, 150)
    assert found.events == (1, 3)
    assert found.exceeded_at is None


def test_a_summary_that_does_not_find_the_cache_reads_everything_anew():
    warm, cold = (played(Compaction(500, D("0.5"), summary=7, cached=one), 200, 300, 0) for one in (True, False))
    assert warm.extra == D("0.1") * 300 + D("1.25") * 300 + 5 * 7
    assert cold.extra == D("1.25") * 600 + 5 * 7
    assert warm.residents == cold.residents == (100, 300, 350)


def test_a_summary_is_never_longer_than_what_it_sums_up():
    assert played(Compaction(500, 450, reread=10), 500, 0).residents == (100, 560)
    assert played(Compaction(500, 9_999, reread=10), 500, 0, window=2_000).residents == (100, 610)


def test_results_are_cleared_in_place_and_what_was_written_stays():
    # each call writes 10 and gets 90 of results; at 400 all results but those of the last call go
    found = played(ContextEditing(400, keep=1), (100, 10), (100, 10), (100, 10), (100, 10), base=100)
    assert found.residents == (100, 200, 300, 220)
    assert found.events == (3,)
    # valid up to the first cleared result: base and the 10 before it; the rest of 220 is written again
    assert found.busts == (110,)


def test_results_that_are_gone_are_not_cleared_twice():
    found = played(ContextEditing(200, keep=0), (50, 50), (50, 50), (50, 50), (60, 50), (0, 0))
    assert found.events == (4,)  # nothing but one call's 10 tokens of results could go
    assert found.residents == (100, 150, 200, 250, 300)


def test_a_sliding_window_drops_the_oldest_calls_and_keeps_the_newest():
    found = played(SlidingWindow(300), 100, 100, 50, 200, 700, 0, base=100, window=2_000)
    assert found.residents == (100, 200, 300, 250, 300, 800)
    assert found.events == (3, 4, 5, 6)
    assert found.busts == (150, 200, 700, 0)  # all behind the base is written again


def test_a_window_that_only_grows_fails_where_it_is_full():
    found = played(Unbounded(), 400, 500, 1, 10)
    assert (found.exceeded_at, found.played, found.peak) == (3, 3, 1_001)
    assert played(Unbounded(), 400, 500).exceeded_at is None


def test_a_window_that_only_grows_is_never_cut():
    assert Unbounded().cut(Window(1, 0, 10, 1), 10) is None


def test_a_fresh_leg_that_does_not_fit_fails_too():
    found = played(Relay(500, 20, 2_000), 400, 0)
    assert (found.exceeded_at, found.events) == (1, (1,))


def test_a_first_call_may_hold_an_inherited_conversation():
    found = played(Compaction(500, D(0)), 100, 0, first=300, warm=380)
    assert found.residents == (400, 100)
    assert found.billed.cache_read == 380


def test_a_part_of_a_prefix_may_be_lost():
    """What a call's own record shows: that share of the prefix had to be written again."""
    found = play(Work(100, 1_000, (Step(100), Step(100, lost=ALL // 4), Step(0))), Unbounded(), flat())
    assert found.cold == 25
    assert found.billed.cache_read == 75 + 200


def test_no_work_costs_nothing():
    found = played(PUBLISHED_RELAY)
    assert (found.money, found.played, found.events, found.hit_rate, found.bust) == (0, 0, (), None, 0)


# --- prices


def test_calls_of_several_models_are_priced_each_by_its_own():
    dear, cheap = (
        Prices.of(Rates(Rate(D(price)), Rate(D(price) / 10), None, None, Rate(D(price) * 5))) for price in (10, 1)
    )
    work = Work(100, 1_000, (Step(100, 10), Step(0, 10, price=1)))
    found = play(work, Unbounded(), [dear, cheap])
    assert found.money == (D(10) * 100 + 50 * 10 + D("0.1") * 100 + 1 * 100 + 5 * 10) / 1_000_000
    assert found.billed == Buckets(input=200, cache_read=100, output=20)
    with pytest.raises(IndexError):
        play(work, Unbounded(), dear)


def test_prices_of_one_stream_have_one_measure():
    dollars = Prices.of(Rates(Rate(D(1)), Rate(D(1)), None, None, Rate(D(1))))
    with pytest.raises(ValueError, match="one measure"):
        play(even(1), Unbounded(), [flat(), dollars])
    with pytest.raises(ValueError, match="one measure"):
        play(even(1), Unbounded(), [])


@pytest.mark.parametrize(
    ("given", "lifetime", "rest", "write"),
    [
        (Rates(Rate(D(3)), Rate(D(1)), Rate(D(4)), Rate(D(6)), Rate(D(15))), "5m", "cache_write_5m", D(4)),
        (Rates(Rate(D(3)), Rate(D(1)), Rate(D(4)), Rate(D(6)), Rate(D(15))), "1h", "cache_write_1h", D(6)),
        (Rates(Rate(D(3)), Rate(D(1)), Rate(D(4)), None, Rate(D(15))), "1h", "cache_write_1h", D(6)),
        (Rates(Rate(D(3)), Rate(D(1)), None, None, Rate(D(15))), "5m", "input", D(3)),
    ],
)
def test_a_model_s_rates(given, lifetime, rest, write):
    made = Prices.of(given, lifetime)
    assert (made.rest, made.write.base, made.read.base, made.output.base) == (rest, write, D(1), D(15))
    found = play(Work(7, 100, (Step(0, 3),)), Unbounded(), made)
    assert getattr(found.billed, rest) == 7
    assert found.money == cost(given, found.billed)


def test_what_has_no_price_has_no_money():
    one = Rate(D(1))
    assert Prices.of(Rates(input=one, cache_read=one, output=one)) is not None
    assert Prices.of(Rates(input=one, cache_read=one)) is None
    assert Prices.of(Rates(cache_read=one, output=one)) is None
    assert Prices.of(Rates(input=one, output=one)) is None  # what is read again has no price: it is not guessed


def test_a_price_that_is_no_number_is_refused():
    with pytest.raises(ValueError, match="must be a number"):
        play(even(1), Unbounded(), Prices.multiples(D("NaN"), D(1), D(1)))


# --- what cannot be


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Work(-1, 10, ()), "base"),
        (lambda: Work(1, 0, ()), "window"),
        (lambda: Work(1, 10, (), kept=2), "0 to 1"),
        (lambda: Work(1, 10, (), first=-1), "base"),
        (lambda: Work(1, 10, (Step(1), Step(-1))), "call 2"),
        (lambda: Work(1, 10, (Step(1, -1),)), "call 1"),
        (lambda: Work(1, 10, (Step(1, lost=ALL + 1),)), "call 1 lost 1000001 millionths"),
        (lambda: Relay(D("1.01"), 0), "share from 0 to 1"),
        (lambda: Relay(D("NaN"), 0), "share from 0 to 1"),
        (lambda: Relay(-1, 0), "negative"),
        (lambda: Relay(D(1), -1), "baton is negative"),
        (lambda: RotatedAt(frozenset(), -1), "baton is negative"),
        (lambda: Compaction(D(1), D(2)), "the residue"),
        (lambda: Compaction(D(1), D(1), -1), "reread is negative"),
        (lambda: ContextEditing(D(1), -1), "keep is negative"),
        (lambda: SlidingWindow(D(-1)), "what is kept"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@given(shares, st.integers(0, 10_000))
def test_a_share_is_cut_off_and_a_number_is_itself(level, whole):
    assert tokens_of(level, whole) == int(Fraction(level) * whole)
    assert tokens_of(whole, 5) == whole


def names(policies: Sequence[CarryOver]) -> list[str]:
    return [policy.name for policy in policies]


def test_the_policies_are_named_as_the_command_names_them():
    assert names([PUBLISHED_RELAY, PUBLISHED_COMPACTION, ContextEditing(1, 1), SlidingWindow(1), Unbounded()]) == [
        "relay", "compaction", "context_editing", "sliding_window", "none",
    ]  # fmt: skip
