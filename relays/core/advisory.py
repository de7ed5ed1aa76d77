"""Advice and how often it was right: what `shadow` and `advise` only recorded, judged by what came later.

rules.md, Advisory before enforcement: "The page shows, for shadow and advise, how often the decision would have been
right by later evidence (baton fidelity at the following leg or session), so that a person can switch on enforcement
with reason."
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from relays.core import fidelity
from relays.core.vocabulary import Cause, Mode, Reason


class Outcome(StrEnum):
    """What later evidence says of one decision that was only recorded."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_YET = "not yet"


class Act(StrEnum):
    """What enforce would have done with the leg; each is scored by itself."""

    ROTATED = "rotated"  # handed over to a successor
    DONE = "ended as done"  # done_when held, or a watch could have gone idle
    ASKED = "asked a person"  # parked: no safe point, or too many empty legs


_ACTS: dict[str, Act] = {
    Reason.ROTATED: Act.ROTATED,
    Reason.GOAL_DONE: Act.DONE,
    Reason.IDLE_PARKED: Act.DONE,
    Reason.PARKED_UNSAFE: Act.ASKED,
    Reason.NO_PROGRESS: Act.ASKED,
}

#: ends that are carried out in every mode: a person asked for them, or two agents might live at once
_ALWAYS_ACTS = frozenset({Cause.PARK_NOW, Cause.STOP, Cause.ENVELOPE, Cause.HOST_LOST})


def closes_as_advice(mode: Mode, *, draining: str, cause: Cause | None) -> bool:
    """Whether a leg that ends closes "with enforce's reason marked advisory" and opens no episode.

    Never where "envelope, containment and a person's park and stop" ended it: they "always act".
    """
    return mode is not Mode.ENFORCE and not draining and cause not in _ALWAYS_ACTS


def act_of(reason: str) -> Act | None:
    """What a reason would have led to; None for a word that ends no leg."""
    return _ACTS.get(reason)


def handed_over(verified: int | None, dangling: int | None, unknown: int | None) -> Outcome:
    """A rotation, or an end as done, by its baton at the following leg's reload. None = not judged yet.

    Right when every pointer of it was verified, wrong when one dangled; an unknown one proves neither.
    """
    if verified is None:
        return Outcome.NOT_YET
    verdict = fidelity.score_of(verified, dangling or 0, unknown or 0).verdict
    return {"holds": Outcome.RIGHT, "violated": Outcome.WRONG}.get(verdict, Outcome.NOT_YET)


def asked(reason: str, *, ended: str, came_free: bool, progress: int | None) -> Outcome:
    """A person who would have been asked in the middle of a leg, by what became of that leg.

    No safe point (`RELAY_PARKED_UNSAFE`): right when the leg found none later, wrong when it did: `came_free`, or it
    `ended` (its reason, "" = it runs) otherwise. Empty legs (`RELAY_NO_PROGRESS`): right when the leg ended without
    verified `progress` (None = not counted), wrong when it made some.
    """
    if reason == Reason.NO_PROGRESS:
        if not ended or progress is None:
            return Outcome.NOT_YET
        return Outcome.WRONG if progress else Outcome.RIGHT
    if came_free or (ended and ended != Reason.PARKED_UNSAFE):
        return Outcome.WRONG
    return Outcome.RIGHT if ended else Outcome.NOT_YET


@dataclass(frozen=True, slots=True)
class Tally:
    """How often something would have been done, and how often that would have been right."""

    right: int = 0
    wrong: int = 0
    not_yet: int = 0

    @property
    def times(self) -> int:
        return self.right + self.wrong + self.not_yet

    @property
    def text(self) -> str:
        """`14 times: 12 right, 1 wrong, 1 not yet`; never a part of nothing."""
        if not self.times:
            return "not yet"
        times = "once" if self.times == 1 else f"{self.times:,} times"
        return f"{times}: {self.right:,} right, {self.wrong:,} wrong, {self.not_yet:,} not yet"

    def as_mapping(self) -> dict[str, int]:
        return {"times": self.times, "right": self.right, "wrong": self.wrong, "not_yet": self.not_yet}


def tally(outcomes: Iterable[Outcome]) -> Tally:
    found = Counter(outcomes)
    return Tally(found[Outcome.RIGHT], found[Outcome.WRONG], found[Outcome.NOT_YET])
