"""The ways to carry a window over: rotate, compact, clear results, slide, or let it grow.

Cost: "relay(mark, baton tokens, orientation tokens) · compaction(trigger, residue, summary call, re-read) ·
context_editing(trigger, keep) · sliding_window(keep) and none (grows until the window is full, then the run fails
there)". A `Level` is a share (Decimal, 0 to 1) or a number of tokens (int).
"""

from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Context, Decimal
from typing import Final, NamedTuple, Protocol

from relays.core.sentences import RuleError, phrase

Level = Decimal | int

#: the window never reaches it
NEVER: Final = 1 << 62
#: never the caller's context: a share of a window must not be rounded to a few digits
_EXACT: Final = Context(prec=60)


def tokens_of(level: Level, whole: int) -> int:
    """A level in whole tokens: a share of `whole` is cut off, as the golden check's residue is."""
    return int(_EXACT.multiply(level, Decimal(whole))) if isinstance(level, Decimal) else level


def _reached(level: Level, whole: int) -> int:
    """The fewest tokens that are at or above a level."""
    if isinstance(level, int):
        return level
    return int(_EXACT.multiply(level, Decimal(whole)).to_integral_value(ROUND_CEILING, _EXACT))


@dataclass(slots=True)
class Window:
    """What a policy may look at: the base, what of it stays cached over a cut, the size, what the first call holds,

    and, where it asked for it, what each call added: (tokens that stay, tokens of results), the oldest first.
    """

    base: int
    kept: int
    size: int
    start: int
    keeps_steps: bool = False
    steps: list[tuple[int, int]] = field(default_factory=list)
    #: the call that was made last, from 1
    call: int = 0
    #: what a policy worked out once: the most that it keeps
    most: int = 0
    #: the first of `steps` that is still whole, and where in the window it begins
    first: int = 0
    first_at: int = 0

    def add(self, new: int, output: int) -> None:
        stays = min(new, output)
        self.steps.append((stays, new - stays))


class Cut(NamedTuple):
    """What an event leaves: `resident` tokens, `valid` of them still cached. Its own call, where it has one: the whole

    window is read (from the cache where `cached`) and `writes` tokens are produced; None = there is no such call.
    """

    resident: int
    valid: int
    writes: int | None = None
    cached: bool = True


class CarryOver(Protocol):
    """A carry-over policy: pure values, no state of their own."""

    @property
    def name(self) -> str: ...

    def first(self, window: Window) -> int:
        """Resident tokens of the first call; may ask the window to keep its steps."""
        ...

    def fires_at(self, window: Window) -> int:
        """The window is cut when it holds at least so many tokens."""
        ...

    def cut(self, window: Window, resident: int) -> Cut | None:
        """What is left of a window that holds `resident` tokens; None = nothing could be taken out."""
        ...


@dataclass(frozen=True, slots=True)
class Relay:
    """ "at the mark the window becomes base + baton + orientation (what a fresh leg re-reads)".

    `mark` of the window. `handover`: tokens that the winding down writes in a call of its own; None = not charged.
    """

    mark: Level
    baton: int
    orientation: int = 0
    handover: int | None = None

    def __post_init__(self) -> None:
        _share(self.mark, "the mark")
        _counts(baton=self.baton, orientation=self.orientation, handover=self.handover)

    @property
    def name(self) -> str:
        return "relay"

    def first(self, window: Window) -> int:
        return window.start + self.baton

    def fires_at(self, window: Window) -> int:
        return _reached(self.mark, window.size)

    def cut(self, window: Window, resident: int) -> Cut | None:
        return Cut(window.base + self.baton + self.orientation, window.kept, self.handover)


@dataclass(frozen=True, slots=True)
class RotatedAt:
    """A relay that really ran: it rotated after these calls, whatever its window held. A window is never too small for

    what was done in it.
    """

    calls: frozenset[int]
    baton: int
    orientation: int = 0
    handover: int | None = None

    def __post_init__(self) -> None:
        _counts(baton=self.baton, orientation=self.orientation, handover=self.handover)

    @property
    def name(self) -> str:
        return "relay"

    def first(self, window: Window) -> int:
        return window.start

    def fires_at(self, window: Window) -> int:
        return 0

    def cut(self, window: Window, resident: int) -> Cut | None:
        if window.call not in self.calls:
            return None
        return Cut(window.base + self.baton + self.orientation, window.kept, self.handover)


@dataclass(frozen=True, slots=True)
class Compaction:
    """ "at the trigger it pays the summary call (the whole window read, cached or not, plus summary output), then the

    window is base + residue + re-read (residue excludes base, tools and re-read)". `trigger` of the window; `residue`:
    of what is over the base. `summary`: tokens of the summary's output; None = the call is not charged. `cached`:
    whether the summary's call finds the window in the cache.
    """

    trigger: Level
    residue: Level
    reread: int = 0
    summary: int | None = None
    cached: bool = True

    def __post_init__(self) -> None:
        _share(self.trigger, "the trigger")
        _share(self.residue, "the residue")
        _counts(reread=self.reread, summary=self.summary)

    @property
    def name(self) -> str:
        return "compaction"

    def first(self, window: Window) -> int:
        return window.start

    def fires_at(self, window: Window) -> int:
        return _reached(self.trigger, window.size)

    def cut(self, window: Window, resident: int) -> Cut | None:
        above = max(resident - window.base, 0)
        # a summary is never longer than what it sums up
        left = min(tokens_of(self.residue, above), above)
        return Cut(window.base + left + self.reread, window.kept, self.summary, self.cached)


@dataclass(frozen=True, slots=True)
class ContextEditing:
    """ "tool results cleared in place; the prefix is invalid from the first cleared result".

    At the `trigger` all results but those of the last `keep` calls go; what a call itself wrote stays.
    """

    trigger: Level
    keep: int

    def __post_init__(self) -> None:
        _share(self.trigger, "the trigger")
        _counts(keep=self.keep)

    @property
    def name(self) -> str:
        return "context_editing"

    def first(self, window: Window) -> int:
        window.keeps_steps = True
        window.first_at = window.start
        return window.start

    def fires_at(self, window: Window) -> int:
        return _reached(self.trigger, window.size)

    def cut(self, window: Window, resident: int) -> Cut | None:
        upto = len(window.steps) - self.keep
        gone = 0
        valid = None
        at = window.first_at
        for number in range(window.first, upto):
            stays, results = window.steps[number]
            at += stays
            if results and valid is None:
                valid = at
            gone += results
        if upto > window.first:
            window.first, window.first_at = upto, at
        return None if valid is None else Cut(resident - gone, valid)


@dataclass(frozen=True, slots=True)
class SlidingWindow:
    """Only the newest tokens are carried: over `keep` of the window, the oldest calls go until it fits.

    The base stays; so does the newest call, however long it is.
    """

    keep: Level

    def __post_init__(self) -> None:
        _share(self.keep, "what is kept")

    @property
    def name(self) -> str:
        return "sliding_window"

    def first(self, window: Window) -> int:
        window.keeps_steps = True
        window.most = tokens_of(self.keep, window.size)
        return window.start

    def fires_at(self, window: Window) -> int:
        return tokens_of(self.keep, window.size) + 1

    def cut(self, window: Window, resident: int) -> Cut | None:
        left = resident
        most = window.most
        number = window.first
        steps = window.steps
        newest = len(steps) - 1
        while left > most and number < newest:
            stays, results = steps[number]
            left -= stays + results
            number += 1
        window.first = number
        return None if left == resident else Cut(left, window.base)


@dataclass(frozen=True, slots=True)
class Unbounded:
    """ "none (grows until the window is full, then the run fails there)"."""

    @property
    def name(self) -> str:
        return "none"

    def first(self, window: Window) -> int:
        return window.start

    def fires_at(self, window: Window) -> int:
        return NEVER

    def cut(self, window: Window, resident: int) -> Cut | None:
        return None


def _share(level: Level, what: str) -> None:
    if isinstance(level, Decimal):
        if not (level.is_finite() and 0 <= level <= 1):
            raise RuleError(
                phrase(
                    "%(what)s must be a share from 0 to 1, or a whole number of tokens: %(level)s",
                    what=what,
                    level=str(level),
                )
            )
    elif level < 0:
        raise RuleError(phrase("%(what)s is negative: %(level)s", what=what, level=level))


def _counts(**values: int | None) -> None:
    for name, value in values.items():
        if value is not None and value < 0:
            raise RuleError(phrase("%(name)s is negative: %(value)s", name=name, value=value))
