"""A comparison that can lose: the word, the band, what each parameter does, and where the relay begins to lose."""

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core.baselines import POLICIES, Parameter, Setting, defaults, published
from relays.core.carryover import Step, Work, play
from relays.core.carryover_prices import PUBLISHED, Prices
from relays.core.sensitivity import Bench, Observed, band, break_even, compare
from relays.core.shadow import Provenance

D = Decimal


def even(turns: int, growth: int = 6_000, output: int = 0, base: int = 4_000, window: int = 200_000) -> Work:
    return Work(base, window, (Step(growth, output),) * turns)


def uncertain(setting: Setting, name: str, low: object, high: object) -> Setting:
    return setting.put(name, Parameter(setting[name], Provenance.ASSUMED, "a guess", low, high))


def test_the_published_comparison_is_cheaper():
    found = compare(even(300), published(), PUBLISHED)
    assert (found.verdict, found.why) == ("cheaper", "the relay saves 40.5 % against compaction")
    assert found.saving == found.saving_low == found.saving_high == D("0.404619")
    assert found.rows == ()  # nothing of that setting is said to be uncertain
    assert found.band == (found.baseline.money, found.baseline.money)


def test_a_relay_that_reads_too_much_again_is_dearer():
    setting = published().given("residue", D("0.11")).given("orientation", 60_000)
    found = compare(even(300), setting, PUBLISHED)
    assert found.verdict == "dearer"
    assert found.why.startswith("the relay lost: it costs ")
    assert found.saving < 0


def test_what_turns_within_the_range_of_a_parameter_is_not_known_yet():
    setting = uncertain(published().given("residue", D("0.11")), "orientation", 0, 60_000)
    found = compare(even(300), setting, PUBLISHED)
    assert found.verdict == "not yet"
    assert "it depends on what is not known" in found.why
    (row,) = found.rows
    assert row.name == "orientation"
    assert row.saving_low == D("0.281673")
    assert row.saving_high < 0
    assert (found.saving_low, found.saving_high) == (row.saving_high, row.saving_low)
    at, after = (compare(even(300), setting.given("orientation", row.breaks + more), PUBLISHED) for more in (0, 1))
    assert at.saving > 0 >= after.saving


def test_a_share_that_turns_the_verdict_is_found_too():
    setting = uncertain(published().given("orientation", 45_000), "residue", D("0.02"), D("0.40"))
    (row,) = compare(even(300), setting, PUBLISHED).rows
    assert row.saving_low < 0 < row.saving_high
    assert D("0.02") < row.breaks < D("0.40")
    assert compare(even(300), setting.given("residue", row.breaks), PUBLISHED).saving <= 0


def test_the_honest_defaults_vary_what_is_not_known():
    setting = defaults("claude-code")
    work = Work(29_760, 200_000, (Step(1_300, 630),) * 500, kept=29_760)
    found = compare(work, setting, setting.prices())
    assert {row.name for row in found.rows} == {
        "mark", "baton", "orientation", "handover", "kept", "trigger", "residue", "reread", "summary_call",
    }  # fmt: skip
    assert found.saving_low < found.saving < found.saving_high
    assert found.band[0] < found.baseline.money < found.band[1]
    low, high = found.envelope([1, 250, 500])
    for at, below, above in zip((1, 250, 500), low, high, strict=True):
        assert below <= found.baseline.money_after(at) <= above
    assert (low[-1], high[-1]) == found.band


def test_what_a_policy_decides_is_shown_and_is_no_doubt():
    """Another mark would cost something else; but the mark is known, so that no band has it."""
    setting = uncertain(published(), "mark", D("0.10"), D("0.94"))
    found = compare(even(300), setting, PUBLISHED)
    (row,) = found.rows
    assert (row.name, row.saving_low != found.saving, row.saving_high != found.saving) == ("mark", True, True)
    assert found.saving_low == found.saving_high == found.saving
    assert found.band == (found.baseline.money, found.baseline.money)


def test_a_comparison_names_one_break_even():
    setting = uncertain(published().given("residue", D("0.11")), "orientation", 0, 60_000)
    found = compare(even(300), setting, PUBLISHED)
    assert found.rows[0].breaks == found.break_even.tokens


def test_an_observed_relay_is_what_was_paid():
    """Its own parameters are not varied: what was paid was paid."""
    setting = defaults("claude-code")
    work = Work(29_760, 200_000, (Step(1_300, 630),) * 500, kept=29_760)
    found = compare(work, setting, setting.prices(), observed=Observed("relay", D(1_000_000)))
    assert found.relay_money == 1_000_000
    assert found.simulated is found.baseline
    assert {row.name for row in found.rows} == {"trigger", "residue", "reread", "summary_call", "kept"}
    assert found.saving == (1 - D(1_000_000) / found.baseline.money).quantize(D("0.000001"))
    dearer = compare(work, setting, setting.prices(), observed=Observed("relay", 2 * found.band[1]))
    assert (dearer.verdict, dearer.break_even.tokens) == ("dearer", None)


def test_an_observed_session_is_what_was_paid():
    setting = defaults("claude-code")
    work = Work(29_760, 200_000, (Step(1_300, 630),) * 500, kept=29_760)
    found = compare(work, setting, setting.prices(), observed=Observed("baseline", D(9_000_000)))
    assert found.baseline_money == 9_000_000
    assert found.simulated is found.relay
    assert {row.name for row in found.rows} == {"mark", "baton", "orientation", "handover", "kept"}
    assert found.band[0] <= found.relay.money <= found.band[1]
    low, high = found.envelope([500])
    assert low[0] <= found.relay_money <= high[0]


def test_break_even_moves_with_what_was_paid():
    """An observed relay that cost more than the engine says loses earlier."""
    work, setting = even(300), published()
    as_said = compare(work, setting, PUBLISHED)
    paid_more = compare(work, setting, PUBLISHED, observed=Observed("relay", as_said.relay.money + 500_000))
    assert paid_more.break_even.tokens < as_said.break_even.tokens


@pytest.mark.parametrize(
    ("work", "change", "words"),
    [
        (even(3), {}, "too short"),
        (Work(4_000, 200_000, ()), {}, "nothing was paid yet"),
        (even(300), {"orientation": 199_000}, "as a relay the window would be full after call 19"),
        (even(300), {"reread": 199_000}, "with compaction the run fails after call 31"),
    ],
)
def test_where_nothing_can_be_compared_it_says_why(work, change, words):
    setting = published()
    for name, value in change.items():
        setting = setting.given(name, value)
    found = compare(work, setting, PUBLISHED)
    assert found.verdict == "not yet"
    assert words in found.why


def test_each_policy_has_a_band_of_its_own():
    setting = defaults("claude-code")
    work = Work(29_760, 200_000, (Step(1_300, 630),) * 500, kept=29_760)
    found = compare(work, setting, setting.prices())
    assert band(work, setting, setting.prices(), "compaction") == found.band
    for name in POLICIES:
        low, high = band(work, setting, setting.prices(), name)
        assert low <= play(work, setting.policy(name), setting.prices()).money <= high
    sure = published()
    assert band(even(300), sure, PUBLISHED, "compaction") == (found := compare(even(300), sure, PUBLISHED)).band
    assert found.band[0] == found.band[1]


def test_other_baselines_are_compared_alike():
    setting = published().given("output", 600)
    for against in ("context_editing", "sliding_window"):
        found = compare(even(300, output=600), setting, PUBLISHED, against=against)
        assert found.against == against
        assert found.baseline.events
    none = compare(even(300), setting, PUBLISHED, against="none")
    assert none.why == "with a window that only grows the run fails after call 33: nothing to compare"
    with pytest.raises(ValueError, match="not compared with itself"):
        compare(even(3), setting, PUBLISHED, against="relay")


def test_the_two_sides_may_have_streams_of_their_own():
    """What a relay's legs read again is no work of a session that compacts."""
    found = compare(even(300), published(), PUBLISHED, relay_work=even(300, growth=6_500))
    assert found.relay == play(even(300, growth=6_500), published().policy("relay"), PUBLISHED)
    assert found.baseline == play(even(300), published().policy("compaction"), PUBLISHED)


# --- break-even


def test_the_published_break_even_is_at_about_55_000_tokens():
    found = compare(even(300), published(), PUBLISHED).break_even
    assert abs(found.tokens - 55_000) < 3_000
    assert found.why == f"the relay loses when a fresh leg re-reads more than {found.tokens:,} tokens"


def test_with_the_measured_residue_it_is_about_38_000():
    found = compare(even(300), published().given("residue", D("0.11")), PUBLISHED).break_even
    assert abs(found.tokens - 38_000) < 1_500


def test_a_relay_that_does_not_fit_has_no_break_even():
    found = compare(even(300), published().given("mark", 6_000), PUBLISHED).break_even
    assert (found.tokens, found.line) == (None, ())
    assert "no relay fits" in found.why


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"reread": 150_000}, "the other side fails after call 31: nothing to compare"),
        ({"reread": 120_000, "mark": D("0.10")}, "does not lose, whatever a fresh leg re-reads"),
        ({"trigger": D("0.10"), "residue": D(0)}, "loses even where a fresh leg re-reads nothing"),
    ],
)
def test_where_there_is_no_break_even_it_says_why(given, words):
    setting = published()
    for name, value in given.items():
        setting = setting.given(name, value)
    found = compare(even(300), setting, PUBLISHED).break_even
    assert found.tokens is None
    assert words in found.why


def test_what_never_rotates_reads_nothing_again():
    found = compare(even(12), published().given("trigger", D("0.10")), PUBLISHED).break_even
    assert (found.tokens, found.why) == (None, "the relay does not rotate in this work: nothing is read again")


def test_an_observed_relay_breaks_even_by_the_rotations_that_it_made():
    """It rotated for another reason than its mark, at which the engine would not have rotated it at all."""
    work, setting = even(40, growth=500), published()
    base = compare(work, setting, PUBLISHED)
    assert base.break_even.why == "the relay does not rotate in this work: nothing is read again"
    rotated = tuple(range(4, 40, 4))
    paid = Observed("relay", base.baseline.money + 100_000)
    found = compare(work, setting.given("orientation", 20_000), PUBLISHED, observed=paid, rotated=rotated)
    assert found.relay.events == rotated
    assert found.relay_money == paid.money
    assert 0 < found.break_even.tokens < 20_000
    # the less it paid, the more it could have read again
    less = compare(
        work, setting.given("orientation", 20_000), PUBLISHED, observed=Observed("relay", D(1)), rotated=rotated
    )
    assert less.break_even.tokens > 20_000
    assert {tokens for tokens, _ in found.break_even.line} >= {0, 200_000 - 4_000 - 2_000 - 1}


def test_the_rotations_of_a_relay_that_nobody_observed_are_those_of_its_mark():
    found = compare(even(300), published(), PUBLISHED, rotated=(3, 5))
    assert found.relay.events[:2] == (19, 38)


works = st.builds(
    lambda growths, kept: Work(200, 2_000, tuple(Step(growth) for growth in growths), kept=kept),
    st.lists(st.integers(0, 300), min_size=1, max_size=80),
    st.integers(0, 200),
)
settings = st.builds(
    lambda mark, trigger, residue, reread, baton: (
        published().given("mark", mark).given("trigger", trigger).given("residue", residue).given("reread", reread)
        .given("baton", baton).given("kept", 0)
    ),
    st.integers(20, 100).map(lambda part: D(part) / 100),
    st.integers(30, 100).map(lambda part: D(part) / 100),
    st.integers(0, 60).map(lambda part: D(part) / 100),
    st.integers(0, 300),
    st.integers(0, 100),
)  # fmt: skip


@given(works, settings)
def test_at_the_break_even_it_does_not_lose_and_one_token_above_it_does(work, setting):
    baseline = play(work, setting.policy("compaction"), PUBLISHED)
    bench = Bench(work, work, PUBLISHED, "compaction")
    found = break_even(bench, setting, baseline)

    def loses(tokens: int) -> bool:
        return bench.relay(setting.given("orientation", tokens)).money > baseline.money

    if found.tokens is not None:
        assert not loses(found.tokens)
        assert loses(found.tokens + 1)
        assert all(loses(tokens) for tokens, _ in found.line if tokens > found.tokens)
    elif found.line:
        assert not loses(found.line[-1][0]) or loses(0) or not bench.relay(setting.given("orientation", 0)).events
    assert [tokens for tokens, _ in found.line] == sorted({tokens for tokens, _ in found.line})
    for (tokens, saving), (_, after) in pairwise(found.line):
        assert (saving is None) == (after is None)
        assert saving is None or (saving < 0) <= loses(tokens)


@given(works, settings, st.sampled_from(["orientation", "residue", "reread", "mark", "trigger"]), st.data())
def test_a_band_holds_its_point_and_only_a_whole_band_has_a_word(work, setting, name, data):
    if isinstance(setting[name], Decimal):
        parts = st.integers(10, 100).map(lambda part: D(part) / 100)
        low, high = sorted((data.draw(parts), data.draw(parts)))
    else:
        low, high = sorted((data.draw(st.integers(0, 900)), data.draw(st.integers(0, 900))))
    found = compare(work, uncertain(setting, name, low, high), PUBLISHED)
    if found.saving is None:
        assert found.verdict == "not yet"
        return
    assert found.saving_low <= found.saving <= found.saving_high
    assert found.band[0] <= found.baseline_money <= found.band[1]
    if found.verdict == "cheaper":
        assert found.saving_low > 0
    if found.verdict == "dearer":
        assert found.saving_high < 0
    for row in found.rows:
        assert (row.breaks is not None) == ((row.saving_low > 0) != (row.saving_high > 0))
        assert row.breaks is None or low <= row.breaks <= high


def test_money_in_dollars_is_compared_as_well():
    from relays.core.pricing import Rate, Rates

    prices = Prices.of(Rates(Rate(D(5)), Rate(D("0.5")), Rate(D("6.25")), Rate(D(10)), Rate(D(25))))
    found = compare(even(300, output=500), published(), prices)
    assert D(10) < found.relay_money < found.baseline_money < D(60)
