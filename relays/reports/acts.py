"""What a person may do with a relay now. An act that is not open stays visible and says why."""

from collections.abc import Collection
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from relays.models import GateState, RelayStatus, Request
from relays.reports.legs import next_number
from relays.reports.relay import Head
from relays.reports.roles import OPERATE, ROLE_FOR

ENDING = gettext_noop("it is already ending")


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
    missing = "" if OPERATE in rights else _("needs the role %(ROLE_FOR)s") % {"ROLE_FOR": _(ROLE_FOR[OPERATE])}
    leg = _("Leg %(number)s") % {"number": live.number} if live else ""
    wip = (
        _("Uncommitted work is stored under refs/relay/wip/%(pk)s/%(number)s") % {"pk": relay.pk, "number": live.number}
        if live
        else ""
    )
    drains = _("%(leg)s ends at its next safe point") % {"leg": leg} if live else ""
    ends = (
        _("The agent of leg %(number)s is ended at once, without waiting for a safe point") % {"number": live.number}
        if live
        else ""
    )

    found: list[Act] = []
    parking = relay.park == Request.DRAIN and live is not None
    ending = Request.NOW in (relay.park, relay.stop) or (relay.stop == Request.DRAIN and live is not None)
    if relay.status == RelayStatus.PARKED:
        next_leg = next_number(here.latest)
        start = _(
            "It is checked first; leg %(next_leg)s starts from the current baton unless it is done or may rest."
        ) % {"next_leg": next_leg}
        found.append(Act("resume", _("Resume"), "player-play", missing or _resume_blocked(here), start))
    else:
        if parking and not ending:
            found.append(
                Act(
                    "resume",
                    _("Withdraw park"),
                    "player-play",
                    missing,
                    _("%(leg)s works on; nothing is parked.") % {"leg": leg},
                )
            )
        elif relay.park == Request.LEG and not ending:
            will = _("It goes on behind this leg, as any relay does; it does not park.")
            found.append(Act("resume", _("Go on after this leg"), "player-play", missing, will))
        why = missing or (_(ENDING) if ending else _("it parks at the next safe point") if parking else "")
        will = _("%(drains)s and writes its baton. No successor") % {"drains": drains} if live else _("No leg")
        found.append(
            Act("park", _("Park"), "player-pause", why, _("%(will)s starts until somebody resumes.") % {"will": will})
        )
        if live:
            why = missing or (_(ENDING) if Request.NOW in (relay.park, relay.stop) else "")
            will = _("%(ends)s. %(wip)s; a reviewer decides on RELAY_PARKED_UNSAFE before the relay goes on.") % {
                "ends": ends,
                "wip": wip,
            }
            found.append(Act("park_now", _("Park now"), "hand-stop", why, will))
    gone = _("is stopped for good: no leg ever follows, its region is released")
    keeps = _("Branch %(branch)s, batons and records stay.") % {"branch": relay.branch}
    immediate = _(ENDING) if relay.stop == Request.NOW else ""
    why = missing or immediate or (_("it stops at the next safe point") if relay.stop == Request.DRAIN and live else "")
    will = (
        _("%(drains)s, then the relay %(gone)s. %(keeps)s") % {"drains": drains, "gone": gone, "keeps": keeps}
        if live
        else _("The relay %(gone)s. %(keeps)s") % {"gone": gone, "keeps": keeps}
    )
    found.append(Act("stop", _("Stop…"), "player-stop", why, will))
    if live:
        found.append(
            Act(
                "stop_now",
                _("Stop now…"),
                "square",
                missing or immediate,
                _("%(ends)s, and the relay %(gone)s. %(wip)s.") % {"ends": ends, "gone": gone, "wip": wip},
            )
        )
    return tuple(found)


def _resume_blocked(here: Head) -> str:
    if here.loud:
        return _("gate %(pk)s needs a decision first") % {"pk": here.loud.gate.pk}
    if here.closed:
        return _("gate %(pk)s was %(state)s; reopen it first, or stop the relay") % {
            "pk": here.closed.pk,
            "state": here.closed.state,
        }
    gate = here.on_its_way
    if gate and gate.state != GateState.APPROVED:
        return _("gate %(pk)s is %(state)s: the next leg is on its way") % {"pk": gate.pk, "state": gate.state}
    return ""
