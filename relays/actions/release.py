"""Release: an operator lets go of the region that a relay holds while none of its legs runs.

rules.md, Region lease: "no expiry; […] an operator may release it by a decision".
"""

from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions.base import Actor, NotLegalNow, check_comment, lock, need, record, relay_or_refuse
from relays.driver import leases, successor
from relays.driver.changes import INBOX, RELAYS, bump, topic
from relays.models import LIVE_STATES, Leg, RegionLease, RelayStatus

#: a relay that is in one of these starts no leg before it has taken its region again
QUIET = (RelayStatus.PARKED, RelayStatus.WAITING, RelayStatus.IDLE)


@dataclass(frozen=True, slots=True)
class Released:
    """What was let go. `region` is empty when the relay held none: then nothing was recorded."""

    relay: str
    status: str
    leg: int | None
    region: tuple[str, ...]


def release(actor: Actor, relay_id: str, comment: str = "") -> Released:
    """Let go of a relay's region by a recorded decision. Its next leg takes it again, or waits for whoever has it.

    Refused while a leg lives or is about to start: it writes where nobody else may.
    """
    relay = relay_or_refuse(relay_id)
    need(actor, "operate", _("release %(relay)s") % {"relay": relay_id})
    check_comment(_("release %(relay)s") % {"relay": relay_id}, comment)
    moment = timezone.now()
    with transaction.atomic():
        lock(relay)
        lease = RegionLease.objects.filter(relay=relay, held=True).first()
        if lease is None:
            return Released(relay_id, relay.status, successor.last_number(relay_id), ())
        live = Leg.objects.filter(relay=relay, state__in=LIVE_STATES).first()
        if live is not None:
            raise NotLegalNow(
                _(
                    "release %(relay_id)s: leg %(live_number)s is %(state)s and works in that region; `relay park "
                    "%(relay_id)s` first"
                )
                % {"relay_id": relay_id, "live_number": live.number, "state": _(live.state)}
            )
        if relay.status not in QUIET:
            raise NotLegalNow(
                _(
                    "release %(relay_id)s: it is %(status)s, its next leg is about to start; `relay park "
                    "%(relay_id)s` first"
                )
                % {"relay_id": relay_id, "status": _(relay.status)}
            )
        record(
            actor,
            "release",
            now=moment,
            relay=relay,
            comment=comment,
            detail={"region": list(lease.region), "status": relay.status},
        )
        leases.release(relay_id)
        bump(topic(relay_id), RELAYS, INBOX)
    return Released(relay_id, relay.status, successor.last_number(relay_id), tuple(lease.region))
