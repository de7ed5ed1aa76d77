"""The windows of known models, in tokens: what `window_tokens` is "by model" where no policy says it.

rules.md, Policy is data: "`window_tokens` | by model, else 200000 | the window". A name that is not known here has the
default; whoever runs a model with another window says so in the policy.
"""

import re
from typing import Final

#: a model's own name -> who makes it, and its window; the names of a provider may stand before it
KNOWN: Final[tuple[tuple[re.Pattern[str], str, int], ...]] = (
    (re.compile(r"(?:claude-.*|sonnet|opus|haiku)\[1m\]"), "claude", 1_000_000),  # the suffix asks for the long one
    (re.compile(r"claude-.*|sonnet|opus|haiku"), "claude", 200_000),
    (re.compile(r"gpt-5.*"), "gpt", 258_400),  # as its program reports it, whatever the model itself could take
    (re.compile(r"gemini-.*"), "gemini", 1_048_576),
)
_PROVIDERS: Final = 4  # names that may stand before, each ended by `/` or `.`


def _row(model: str) -> tuple[str, int] | None:
    name = model.strip().lower()
    for _ in range(_PROVIDERS + 1):
        for pattern, maker, tokens in KNOWN:
            if pattern.fullmatch(name):
                return maker, tokens
        before = re.search(r"[/.]", name)
        name = name[before.end() :] if before else ""
    return None


def of(model: str) -> int | None:
    """The window of a model by its name, as its program reports it; None where it is not known."""
    row = _row(model)
    return row[1] if row else None


def follow(window: int, model: str, *, first: bool, named: str = "") -> int:
    """The window of a leg whose call was answered by `model`. `first`: no call of it was answered before.

    Where the start named a model (`named`) of the same maker, its window stands: an answer names no suffix. A later
    call by a model with a smaller window lowers it; none raises it: "never blow the window to keep going".
    """
    row, said = _row(model), _row(named)
    if row is None or (said is not None and said[0] == row[0]):
        return window
    return row[1] if first else min(window, row[1])
