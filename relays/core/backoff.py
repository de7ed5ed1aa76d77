"""A leg in back-off: its agent met overload or network loss, and tries again by itself; or its sign-in was lost.

rules.md, Words: `waiting` is "a time or a store must come: cap, back-off, overload, held region; with `next_at`".
states.md, Leg: "backoff | `running`: agent back in the same leg · `ending`: retries over, stop, park now".
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from relays.core.lines import recorded

#: where the agent does not say when it tries again: "5 s doubling to 5 min"
FIRST: Final = timedelta(seconds=5)
#: a wait is looked at again at least so often, however far off the agent's next try is
LONGEST: Final = timedelta(minutes=5)


class Trouble(StrEnum):
    """What an agent met instead of its model's answer: the causes of the event `retry`."""

    OVERLOAD = "overload"
    NETWORK = "network"
    SIGN_IN = "sign_in"  # no further try helps: a person must come


#: in plain words, for whoever reads why a relay waits or was parked
WORDS: Final[dict[str, str]] = {
    Trouble.OVERLOAD: recorded("the model's service is overloaded"),
    Trouble.NETWORK: recorded("the model's service cannot be reached"),
    Trouble.SIGN_IN: recorded("the agent's sign-in has expired or was lost: sign the agent in again, then approve"),
}


def passes(trouble: str) -> bool:
    """Whether it may pass by itself, so that the leg backs off and comes back; a lost sign-in ends the leg."""
    return trouble in (Trouble.OVERLOAD, Trouble.NETWORK)


def why(trouble: str, tries: int) -> str:
    """The line that a waiting relay shows."""
    return recorded("the leg in back-off: %(trouble)s; tries: %(tries)s", trouble=WORDS[trouble], tries=tries)


def step(tries: int, said: timedelta | None) -> timedelta:
    """How long until the agent's next try, of which it has made `tries`: what it said, else 5 s doubling to 5 min."""
    return min(FIRST * 2 ** min(max(tries - 1, 0), 10), LONGEST) if said is None else said


def look_at(now: datetime, due: datetime) -> datetime:
    """When a relay whose leg is in back-off is looked at again: at the agent's next try, and at least every 5 min."""
    return min(due, now + LONGEST) if due > now else now + FIRST


def retries_over(unanswered: timedelta, patience: timedelta) -> bool:
    """The patience with what does not answer is over: `unknown_patience`, as for a store."""
    return unanswered >= patience
