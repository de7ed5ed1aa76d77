"""The honest defaults: each with its source, both sides alike; and the published setting by its name."""

from decimal import Decimal

import pytest

from relays.core.baselines import AGENTS, NAMES, POLICIES, PUBLISHED_VALUES, Parameter, defaults, published
from relays.core.carryover_policies import Compaction, ContextEditing, Relay, SlidingWindow, Unbounded
from relays.core.carryover_prices import PUBLISHED
from relays.core.shadow import Provenance

D = Decimal
EVERY = [*AGENTS, "an agent that nobody measured"]


@pytest.mark.parametrize("agent", EVERY)
@pytest.mark.parametrize("window", [None, 200_000, 258_400, 1_000_000, 40_000, 1])
def test_every_default_is_assumed_and_has_its_source(agent, window):
    setting = defaults(agent, window)
    assert tuple(setting.parameters) == NAMES
    assert setting.name == agent
    for one in setting.parameters.values():
        assert one.provenance is Provenance.ASSUMED
        assert one.source
        assert (one.low is None) == (one.high is None)
        assert one.low is None or one.low <= one.high
        assert one.figure().value == pytest.approx(float(one.value))
    for name in POLICIES:
        assert setting.policy(name).name == name
    assert setting.prices().measure == "input tokens"


@pytest.mark.parametrize("agent", EVERY)
def test_both_sides_are_treated_alike(agent):
    """ "both sides 20,000 tokens where nothing is measured", "equal treatment of base and tools"."""
    setting = defaults(agent)
    assert setting["orientation"] == setting["reread"] == 20_000
    assert setting["kept"] == setting["base"]
    assert setting.tokens("summary_call") > 0
    assert setting.tokens("handover") > 0


def test_what_the_specification_says_of_each_agent():
    claude, codex = defaults("claude-code"), defaults("codex")
    assert claude["trigger"] == 167_000  # "window − 33k, so 0.835 of 200k"
    assert D(claude["trigger"]) / claude["window"] == D("0.835")
    assert (codex["trigger"], codex["residue"], codex["window"]) == (D("0.93"), D("0.11"), 258_400)
    assert "1,304 compactions" in codex.parameters["residue"].source
    assert defaults("claude-code", 1_000_000)["trigger"] == 967_000
    assert defaults("claude-code", 40_000)["trigger"] == 20_000  # a tiny window must be able to work


def test_who_was_not_measured_is_treated_as_claude_code_and_says_so():
    setting = defaults("somebody else")
    assert setting["trigger"] == 167_000
    assert setting.parameters["trigger"].source.startswith("as Claude Code: ")


def test_the_published_setting():
    setting = published()
    assert {name: one.value for name, one in setting.parameters.items()} == PUBLISHED_VALUES
    assert set(PUBLISHED_VALUES) == set(NAMES)
    assert setting.policy("relay") == Relay(D("0.6"), 2_000, 0, None)
    assert setting.policy("compaction") == Compaction(D("0.95"), D("0.3"), 0, None)
    assert setting.policy("context_editing") == ContextEditing(100_000, 3)
    assert setting.policy("sliding_window") == SlidingWindow(D("0.6"))
    assert setting.policy("none") == Unbounded()
    assert setting.prices() == PUBLISHED


def test_a_parameter_is_replaced_and_a_name_that_is_none_refused():
    setting = published().given("mark", D("0.5"))
    assert setting["mark"] == D("0.5")
    assert setting.parameters["mark"] == Parameter(D("0.5"), Provenance.ASSUMED, "chosen")
    assert published()["mark"] == D("0.6")
    with pytest.raises(KeyError):
        setting.given("facts", 3)
