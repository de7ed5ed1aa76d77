"""What a person may do with a relay now. An act that is not open stays visible and says why."""

from collections.abc import Collection
from dataclasses import dataclass

from relays.models import GateState, RelayStatus, Request
from relays.reports.relay import Head
from relays.reports.roles import OPERATE, ROLE_FOR

ENDING = "it is already ending"


@dataclass(frozen=True, slots=True)
class Act:
    """A button. `why` says why it is not open, "" where it is; `will` says what will happen when it is pressed."""

    name: str
    label: str
    icon: str
    why: str
    will: str

    @property
    def enabled(self) -> bool:
        return not self.why


def acts(here: Head, rights: Collection[str]) -> tuple[Act, ...]:
    """In the order of the page, destructive ones last. A relay that has ended offers none."""
    relay, live = here.relay, here.live
    if relay.final:
        return ()
    missing = "" if OPERATE in rights else f"needs the role {ROLE_FOR[OPERATE]}"
    leg = f"Leg {live.number}" if live else ""
    wip = f"Uncommitted work is stored under refs/relay/wip/{relay.pk}/{live.number}" if live else ""
    drains = f"{leg} ends at its next safe point" if live else ""
    ends = f"The agent of leg {live.number} is ended at once, without waiting for a safe point" if live else ""

    found: list[Act] = []
    parking = relay.park == Request.DRAIN and live is not None
    ending = Request.NOW in (relay.park, relay.stop) or (relay.stop == Request.DRAIN and live is not None)
    if relay.status == RelayStatus.PARKED:
        next_leg = here.latest.number + 1 if here.latest else 0
        start = f"It is checked first; leg {next_leg} starts from the current baton unless it is done or may rest."
        found.append(Act("resume", "Resume", "player-play", missing or _resume_blocked(here), start))
    else:
        if parking and not ending:
            found.append(Act("resume", "Withdraw park", "player-play", missing, f"{leg} works on; nothing is parked."))
        elif relay.park == Request.LEG and not ending:
            will = "It goes on behind this leg, as any relay does; it does not park."
            found.append(Act("resume", "Go on after this leg", "player-play", missing, will))
        why = missing or (ENDING if ending else "it parks at the next safe point" if parking else "")
        will = f"{drains} and writes its baton. No successor" if live else "No leg"
        found.append(Act("park", "Park", "player-pause", why, f"{will} starts until somebody resumes."))
        if live:
            why = missing or (ENDING if Request.NOW in (relay.park, relay.stop) else "")
            will = f"{ends}. {wip}; a reviewer decides on RELAY_PARKED_UNSAFE before the relay goes on."
            found.append(Act("park_now", "Park now", "hand-stop", why, will))
    gone = "is stopped for good: no leg ever follows, its region is released"
    keeps = f"Branch {relay.branch}, batons and records stay."
    immediate = ENDING if relay.stop == Request.NOW else ""
    why = missing or immediate or ("it stops at the next safe point" if relay.stop == Request.DRAIN and live else "")
    will = f"{drains}, then the relay {gone}. {keeps}" if live else f"The relay {gone}. {keeps}"
    found.append(Act("stop", "Stop…", "player-stop", why, will))
    if live:
        found.append(
            Act("stop_now", "Stop now…", "square", missing or immediate, f"{ends}, and the relay {gone}. {wip}.")
        )
    return tuple(found)


def _resume_blocked(here: Head) -> str:
    if here.loud:
        return f"gate {here.loud.gate.pk} needs a decision first"
    if here.closed:
        return f"gate {here.closed.pk} was {here.closed.state}; reopen it first, or stop the relay"
    gate = here.on_its_way
    if gate and gate.state != GateState.APPROVED:
        return f"gate {gate.pk} is {gate.state}: the next leg is on its way"
    return ""
