"""cost.md, Prices: per model, per request, with prompt-length tiers; unknown is unpriced, never 0; money is Decimal."""

from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relays.core import pricing
from relays.core.pricing import Rate, Rates, RatesError
from relays.core.usage import Buckets

D = Decimal
SONNET = Rates(
    Rate(D(3), ((200_000, D(6)),)),
    Rate(D("0.3"), ((200_000, D("0.6")),)),
    Rate(D("3.75"), ((200_000, D("7.5")),)),
    Rate(D(6), ((200_000, D(12)),)),
    Rate(D(15), ((200_000, D("22.5")),)),
)


def test_a_call_is_priced_by_hand() -> None:
    """stack.md 2.1: 10 + 50,000 read + 1,500 (5 m) + 500 (1 h) + 300 out on Sonnet 4.5 = $0.028155."""
    assert pricing.cost(SONNET, Buckets(10, 50_000, 1_500, 500, 300)) == D("0.028155")


def test_t4_an_hour_of_cache_is_priced_apart_from_five_minutes() -> None:
    """T4 (ccusage#899): "1 h cache writes priced as 5 m -> price by ephemeral split"."""
    assert pricing.cost(SONNET, Buckets(cache_write_5m=100_000)) == D("0.375")
    assert pricing.cost(SONNET, Buckets(cache_write_1h=100_000)) == D("0.6")
    split = pricing.cost(SONNET, Buckets(cache_write_5m=60_000, cache_write_1h=40_000))
    assert split == D("0.465")


def test_a_tier_holds_for_the_whole_request_and_begins_above_its_length() -> None:
    at, above = (
        Buckets(input=50_000, cache_read=150_000, output=10),
        Buckets(input=50_001, cache_read=150_000, output=10),
    )
    assert pricing.cost(SONNET, at) == D("0.15") + D("0.045") + D("0.00015")
    assert pricing.cost(SONNET, above) == D("0.300006") + D("0.09") + D("0.000225")


def test_the_input_side_alone_chooses_the_tier() -> None:
    """Output is not part of the prompt's length."""
    assert pricing.cost(SONNET, Buckets(input=1, output=500_000)) == D("0.000003") + D("7.5")


def test_tokens_without_a_rate_are_unpriced_and_named() -> None:
    rates = Rates(input=Rate(D(2)), output=Rate(D(8)))
    assert pricing.cost(rates, Buckets(input=10, cache_read=1)) is None
    assert pricing.unpriced(rates, Buckets(input=10, cache_read=1)) == ("cache_read",)
    assert pricing.cost(rates, Buckets(input=10)) == D("0.00002")
    assert pricing.cost(Rates(), Buckets(output=1)) is None
    assert pricing.cost(Rates(), Buckets()) == 0, "a call that used nothing costs nothing whatever the price"
    assert pricing.unpriced(Rates(), Buckets(1, 1, 1, 1, 1)) == (
        "input",
        "cache_read",
        "cache_write_5m",
        "cache_write_1h",
        "output",
    )


def test_cache_writes_fall_back_as_providers_bill_them() -> None:
    plain = Rates(input=Rate(D(2)))
    assert pricing.cost(plain, Buckets(cache_write_5m=500_000, cache_write_1h=500_000)) == 2, "both as input"
    priced = Rates(input=Rate(D(2), ((10, D(3)),)), cache_write_5m=Rate(D("2.5")))
    assert pricing.cost(priced, Buckets(cache_write_1h=1_000_000)) == 6, "an hour: twice the input, tiers too"
    assert pricing.cost(Rates(cache_write_5m=Rate(D(1))), Buckets(cache_write_1h=1)) is None


@given(st.lists(st.integers(0, 10**12), min_size=5, max_size=5), st.integers(0, 200_000))
def test_cost_is_exact_whatever_the_context(tokens: list[int], cents: int) -> None:
    price = D(cents) / 100
    rates = Rates(*(Rate(price) for _ in range(5)))
    with localcontext() as context:
        context.prec = 3
        found = pricing.cost(rates, Buckets(*tokens))
    assert found is not None
    assert found * 100_000_000 == sum(tokens) * cents


def test_what_is_kept_of_a_call_has_ten_decimals() -> None:
    assert pricing.kept(D("0.12345678905")) == D("0.1234567890"), "half goes to the even neighbour"
    assert pricing.kept(D("0.12345678915")) == D("0.1234567892")
    assert str(pricing.kept(D(3))) == "3.0000000000"


def test_rates_go_through_json_unchanged() -> None:
    assert pricing.from_json(pricing.as_json(SONNET)) == SONNET
    assert pricing.as_json(Rates(input=Rate(D("5.00")), output=Rate(D(10)))) == {"input": "5", "output": "10"}
    assert pricing.as_json(Rates(input=Rate(D("3.0"), ((200_000, D("6.50")),)))) == {"input": ["3", [[200_000, "6.5"]]]}
    assert pricing.plain(D("1E+2")) == "100"
    assert pricing.plain(D("0.000")) == "0"


@pytest.mark.parametrize(
    "value",
    [
        {"inputs": "5"},
        {"input": "free"},
        {"input": -1},
        {"input": True},
        {"input": 2.5},
        {"input": "NaN"},
        {"input": "1e-31"},
        {"input": "1000001"},
        {"input": None},
        {"input": ["3", [[0, "6"]]]},
        {"input": ["3", [[True, "6"]]]},
        {"input": ["3", [[5]]]},
        {"input": ["3", ["56"]]},
        {"input": ["3", [[5, "6"], [5, "7"]]]},
        {"input": ["3", "tiers"]},
    ],
)
def test_damaged_rates_are_refused(value: dict[str, object]) -> None:
    with pytest.raises(RatesError):
        pricing.from_json(value)


def test_tiers_may_stand_in_any_order() -> None:
    rate = pricing.make_rate("input", 1, [(500, 3), (100, 2)])
    assert [rate.at(side) for side in (0, 100, 101, 500, 501)] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize(
    ("model", "agent", "first"),
    [
        ("claude-opus-4-5-20251101", "claude-code", ("anthropic", "claude-opus-4-5-20251101")),
        ("claude-sonnet-4-5[1m]", "claude-code", ("anthropic", "claude-sonnet-4-5")),
        ("Claude-Opus-5[1M]", "claude-code", ("anthropic", "claude-opus-5")),
        ("anthropic/claude-sonnet-4-5", "opencode", ("anthropic", "claude-sonnet-4-5")),
        ("openrouter/anthropic/claude-sonnet-4.5", "", ("openrouter", "anthropic/claude-sonnet-4.5")),
        ("us.anthropic.claude-opus-5-v1:0", "claude-code", ("aws", "us.anthropic.claude-opus-5-v1:0")),
        ("anthropic.claude-3-haiku-20240307-v1:0", "", ("aws", "anthropic.claude-3-haiku-20240307-v1:0")),
        ("claude-sonnet-4-5@20250929", "claude-code", ("google", "claude-sonnet-4-5@20250929")),
        ("gpt-5.4", "codex", ("openai", "gpt-5.4")),
        ("models/gemini-2.5-pro", "gemini-cli", ("google", "gemini-2.5-pro")),
        ("vertex_ai/gemini-2.5-pro", "", ("google", "gemini-2.5-pro")),
        ("glm-4.6", "relay", (None, "glm-4.6")),
    ],
)  # fmt: skip
def test_names_of_models_in_the_forms_that_agents_write(model: str, agent: str, first: tuple[str | None, str]) -> None:
    assert pricing.candidates(model, agent)[0] == first


def test_an_agents_own_provider_comes_before_whoever_has_the_model() -> None:
    assert pricing.candidates("kimi-k2", "claude-code") == (("anthropic", "kimi-k2"), (None, "kimi-k2"))
    assert pricing.candidates("x/", "") == (), "no name behind the provider"


@pytest.mark.parametrize("model", ["", "  ", "<synthetic>", "<SYNTHETIC>"])
def test_what_is_no_model_call_is_never_priced(model: str) -> None:
    assert pricing.candidates(model, "claude-code") == ()


_PRICES = st.decimals(0, 1_000_000, allow_nan=False, allow_infinity=False).filter(
    lambda price: -30 <= int(price.as_tuple().exponent)
) | st.sampled_from([D("0.3"), D("3.75"), D("0.00025"), D("0.000005"), D("1E+2"), D(0), D("1.00000000000000005")])
_RATE = st.none() | st.builds(
    lambda base, tiers: Rate(base, tuple(sorted(tiers.items()))),
    _PRICES,
    st.dictionaries(st.integers(1, 1_000), _PRICES, max_size=2),
)
_TOKENS = st.integers(0, 2_000) | st.integers(0, 10**12)


@given(st.builds(Rates, _RATE, _RATE, _RATE, _RATE, _RATE), st.builds(Buckets, *[_TOKENS] * 5))
def test_whole_units_are_the_decimal_cost_to_the_last_digit(rates: Rates, buckets: Buckets) -> None:
    exact = pricing.cost(rates, buckets)
    units = pricing.per_call(rates)(*buckets.as_mapping().values())
    if exact is None:
        assert units is None
    else:
        assert units is not None
        assert str(pricing.dollars(units)) == str(pricing.kept(exact))
