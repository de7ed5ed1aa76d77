"""How many tokens the window of a model holds, where neither a policy nor the agent itself says so.

Mission, phase 0: "Instrument context growth per leg": a mark needs a window. What was observed is judged by `known`
alone: a model that is not in its table has no known window, and no guess is made. A leg that is driven needs a mark
before its model has said anything: `of` also takes what a maker's models have in common ("`window_tokens` | by model,
else 200000 | the window"); whoever runs a model with another window says so in the policy.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Final

from relays.core.pricing import bare

ANTHROPIC: Final = "Anthropic, models overview"
CLAUDE_CODE: Final = "Claude Code: 200,000, and 1,000,000 where the longer window is chosen"
GOOGLE: Final = "Google, Gemini API models, input token limit"


@dataclass(frozen=True, slots=True)
class Window:
    """`tokens` of window, and where the figure stands."""

    tokens: int
    source: str


_SHORT: Final = (Window(200_000, ANTHROPIC),)
_BOTH: Final = (Window(200_000, CLAUDE_CODE), Window(1_000_000, CLAUDE_CODE))
_GEMINI: Final = (Window(1_048_576, GOOGLE),)
#: names without date and window marker -> the windows that the model can be used with, the usual one first
_KNOWN: Final[Mapping[str, tuple[Window, ...]]] = {
    **dict.fromkeys(("claude-3-opus", "claude-3-sonnet", "claude-3-haiku", "claude-3-5-sonnet"), _SHORT),
    **dict.fromkeys(("claude-3-5-haiku", "claude-3-7-sonnet", "claude-haiku-4-5"), _SHORT),
    **dict.fromkeys(("claude-opus-4", "claude-opus-4-0", "claude-opus-4-1", "claude-opus-4-5"), _SHORT),
    **dict.fromkeys(("claude-sonnet-4", "claude-sonnet-4-0", "claude-sonnet-4-5", "claude-sonnet-4-6"), _BOTH),
    **dict.fromkeys(("claude-opus-4-6", "claude-opus-4-7", "claude-opus-4-8"), _BOTH),
    **dict.fromkeys(("claude-opus-5", "claude-sonnet-5"), _BOTH),
    **dict.fromkeys(("gemini-2.0-flash", "gemini-2.5-flash", "gemini-2.5-flash-lite", "gemini-2.5-pro"), _GEMINI),
}
_DECORATION: Final = re.compile(r"\A(?:models/)?(?:[a-z0-9_-]+/)?(?:(?:[a-z]{2,8}\.)?anthropic\.)?")
_DATED: Final = re.compile(r"(?:[-@]20[0-9]{6}|-latest)?(?:-v[0-9]+(?::[0-9]+)?)?\Z")


def known(model: str, *, most: int = 0, compacted_at: Sequence[int] = ()) -> Window | None:
    """The window of a model, None where it is not known.

    Where a model has two and its name does not say which (`[1m]`), what was seen decides: the smallest one that holds
    the middle of `compacted_at` (resident tokens before each automatic compaction), else the smallest that holds
    `most` (the most resident tokens of the session). What is over the largest is no reason for a larger one.
    """
    name = _DATED.sub("", _DECORATION.sub("", bare(model)))
    windows = _KNOWN.get(name)
    if windows is None:
        return None
    if model.strip().lower().endswith("[1m]"):
        return next((window for window in windows if window.tokens >= 1_000_000), windows[-1])
    seen = median_low(compacted_at) if compacted_at else most
    return next((window for window in windows if window.tokens >= seen), windows[-1])


#: a model's own name -> who makes it, and the window of its kind; the names of a provider may stand before it
_FAMILIES: Final[tuple[tuple[re.Pattern[str], str, int], ...]] = (
    (re.compile(r"(?:claude-.*|sonnet|opus|haiku)\[1m\]"), "claude", 1_000_000),  # the suffix asks for the long one
    (re.compile(r"claude-.*|sonnet|opus|haiku"), "claude", 200_000),
    (re.compile(r"gpt-5.*"), "gpt", 258_400),  # as its program reports it, whatever the model itself could take
    (re.compile(r"gemini-.*"), "gemini", 1_048_576),
)
_PROVIDERS: Final = 4  # names that may stand before, each ended by `/` or `.`


def _row(model: str) -> tuple[str, int] | None:
    name = model.strip().lower()
    for _ in range(_PROVIDERS + 1):
        for pattern, maker, tokens in _FAMILIES:
            if pattern.fullmatch(name):
                return maker, tokens
        before = re.search(r"[/.]", name)
        name = name[before.end() :] if before else ""
    return None


def of(model: str) -> int | None:
    """The window that a leg of this model starts with; None where neither the model nor its family is known."""
    row = _row(model)
    if row is None:
        return None
    exact = known(model)
    return exact.tokens if exact else row[1]


def follow(window: int, model: str, *, first: bool, named: str = "") -> int:
    """The window of a leg whose call was answered by `model`. `first`: no call of it was answered before.

    Where the start named a model (`named`) of the same maker, its window stands: an answer names no suffix. A later
    call by a model with a smaller window lowers it; none raises it: "never blow the window to keep going".
    """
    row, said = _row(model), _row(named)
    if row is None or (said is not None and said[0] == row[0]):
        return window
    return row[1] if first else min(window, row[1])
