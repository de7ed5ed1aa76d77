"""Mission, phase 0: the mark needs a window. rules.md, Policy is data: "`window_tokens` | by model, else 200000"."""

import pytest

from relays.core import windows
from relays.core.policy import DEFAULT_WINDOW
from relays.core.windows import known


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-opus-4-5-20251101", 200_000),
        ("claude-haiku-4-5-20251001", 200_000),
        ("claude-3-5-haiku-latest", 200_000),
        ("claude-sonnet-4-20250514", 200_000),
        ("claude-sonnet-4-5-20250929[1m]", 1_000_000),
        ("claude-opus-4-5[1m]", 200_000),
        ("claude-opus-5", 200_000),
        ("claude-opus-5[1m]", 1_000_000),
        ("anthropic/claude-opus-5", 200_000),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        ("claude-sonnet-4-5@20250929", 200_000),
        ("gemini-2.5-flash", 1_048_576),
        ("models/gemini-2.5-pro", 1_048_576),
    ],
)
def test_known_windows_in_the_forms_that_agents_write(model: str, tokens: int) -> None:
    found = known(model)
    assert found is not None and found.tokens == tokens and found.source


@pytest.mark.parametrize("model", ["", "<synthetic>", "claude-opus-99", "claude-opus-5x", "gpt-5.4", "glm-4.6"])
def test_an_unknown_model_has_no_window(model: str) -> None:
    assert known(model) is None


def test_where_a_model_has_two_windows_what_was_seen_decides() -> None:
    def tokens(**seen: object) -> int:
        found = known("claude-opus-5", **seen)  # type: ignore[arg-type]
        assert found is not None
        return found.tokens

    assert tokens(most=166_000) == 200_000
    assert tokens(most=333_253) == 1_000_000
    # measured: one call over the window and three compactions before it (sessions.md, session C)
    assert tokens(most=203_312, compacted_at=(203_312, 166_408, 162_768, 166_089)) == 200_000
    assert tokens(most=900_000, compacted_at=(800_000,)) == 1_000_000
    assert tokens(most=5_000_000) == 1_000_000


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("claude-sonnet-4-5-20250929", 200_000),
        ("claude-opus-4-8[1m]", 1_000_000),
        ("sonnet[1m]", 1_000_000),
        ("opus", 200_000),
        ("anthropic/claude-haiku-4-5", 200_000),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000),
        ("gpt-5", 258_400),
        ("gpt-5.1-codex-max", 258_400),
        ("openai/gpt-5-codex", 258_400),
        ("gemini-2.5-pro", 1_048_576),
        ("google/gemini-2.5-flash", 1_048_576),
        (" Gemini-2.5-Pro ", 1_048_576),
        ("gpt-4.1", None),
        ("my-claude-like", None),
        ("scripted", None),
        ("", None),
        ("a/" * 10_000, None),
    ],
)
def test_the_windows_of_known_models(model: str, tokens: int | None) -> None:
    assert windows.of(model) == tokens


def test_a_window_follows_the_first_answer_and_later_only_down() -> None:
    assert windows.follow(DEFAULT_WINDOW, "gemini-2.5-pro", first=True) == 1_048_576
    assert windows.follow(1_048_576, "gpt-5", first=False) == 258_400
    assert windows.follow(258_400, "gemini-2.5-pro", first=False) == 258_400
    assert windows.follow(123, "a model of nobody", first=True) == 123


def test_the_window_that_the_start_asked_for_stands_where_the_answer_names_no_suffix() -> None:
    assert windows.follow(1_000_000, "claude-opus-4-8", first=True, named="claude-opus-4-8[1m]") == 1_000_000
    assert windows.follow(1_000_000, "gpt-5", first=True, named="claude-opus-4-8[1m]") == 258_400
    assert windows.follow(DEFAULT_WINDOW, "gpt-5", first=True, named="a model of nobody") == 258_400
