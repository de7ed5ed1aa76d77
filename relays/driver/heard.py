"""What of an agent's stream could not be taken as it came: lines that cannot be read, gaps, forks, jumps.

Interface: "a replay … changes nothing; a gap or a fork is reported, not swallowed". Counted, with the first of each
kind as the example; a flood of them costs no more than one line.
"""

import json
import logging
from collections import OrderedDict
from hashlib import sha256
from typing import Final

from relays.core.events import TOLD, Event
from relays.core.lines import recorded
from relays.core.sequence import Seen

log = logging.getLogger(__name__)

COMPARED: Final = 4096  # events whose content is remembered, so that a replay can be told from a fork
LOGGED: Final = 20  # malformed lines of one leg that the log names


class Heard:
    """The reports about one leg's stream."""

    def __init__(self, leg: int) -> None:
        self.leg = leg
        self.prefix = f"{recorded('leg %(leg)d events', leg=leg)}: "
        self.malformed = self.forks = self.far = 0
        self._first: dict[str, str] = {}
        self._digests: OrderedDict[int, bytes] = OrderedDict()
        self._told: list[str] = []

    def taken(self, event: Event) -> None:
        if event.seq >= TOLD:
            return
        self._digests[event.seq] = _digest(event)
        if len(self._digests) > COMPARED:
            self._digests.popitem(last=False)

    def not_taken(self, event: Event, seen: Seen) -> bool:
        """An event whose number was seen, or lies too far ahead. Whether it said something that is not known here."""
        if seen.judge(event.seq) == "far":
            self.far += 1
            self._first.setdefault("far", f"{event.seq} after {seen.last}")
            return True
        known = self._digests.get(event.seq)
        if known is None or known == _digest(event):
            return False
        self.forks += 1
        self._first.setdefault("fork", f"{event.seq} ({event.kind})")
        return True

    def unreadable(self, problem: str) -> None:
        self.malformed += 1
        self._first.setdefault("malformed", problem)
        if self.malformed <= LOGGED:
            log.warning("leg %s: malformed line: %s", self.leg, problem)
        if self.malformed == LOGGED:
            log.warning("leg %s: further malformed lines are counted, not named", self.leg)

    def lines(self, seen: Seen) -> list[str]:
        """What there is to report, one line each; [] where every line was taken."""
        found: list[str] = []
        missing, run = seen.missing
        if run is not None:
            numbers = f"{run[0]}" if run[0] == run[1] else f"{run[0]} to {run[1]}"
            found.append(
                recorded(
                    "%(number)s missing, first %(numbers)s: what they said is not known",
                    number=_count(missing, "number"),
                    numbers=numbers,
                )
            )
        if self.forks:
            first = self._first["fork"]
            found.append(
                recorded(
                    "%(event)s came again with other content and not taken, first %(first)s",
                    event=_count(self.forks, "event"),
                    first=first,
                )
            )
        if self.far:
            first = self._first["far"]
            found.append(
                recorded(
                    "%(event)s numbered too far ahead and not taken, first %(first)s",
                    event=_count(self.far, "event"),
                    first=first,
                )
            )
        if self.malformed:
            first = self._first["malformed"]
            found.append(
                recorded(
                    "%(line)s that cannot be read, first: %(first)s", line=_count(self.malformed, "line"), first=first
                )
            )
        return found

    def news(self, seen: Seen, last: bool = False) -> list[str] | None:
        """The lines where they are others than were told before, else None. A flood is told at each doubling.

        `last`: tell what was left out between, too.
        """
        found = self.lines(seen)
        flood = len(found) == len(self._told) and not _power_of_two(self.malformed + self.forks + self.far)
        if found == self._told or (flood and not last):
            return None
        self._told = found
        return found


def _digest(event: Event) -> bytes:
    text = json.dumps([event.kind, event.payload], sort_keys=True, default=str)
    return sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _power_of_two(number: int) -> bool:
    return number & (number - 1) == 0
