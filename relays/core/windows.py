"""How many tokens the window of a model holds, where the agent itself does not say so. No guess: unknown is None.

Mission, phase 0: "Instrument context growth per leg": a mark needs a window. A figure that the agent declares goes
before this table; a model that is not in it has no known window.
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
