"""Park and stop: a person ends a relay's legs, at the next safe point or now."""

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions.base import Actor, NotLegalNow, Outcome, check_comment, lock, need, record, relay_or_refuse
from relays.core.lines import recorded
from relays.driver import finals, gates, successor
from relays.driver.changes import INBOX, RELAYS, bump, change_relay, ring, topic
from relays.models import LIVE_STATES, Leg, Relay, RelayStatus, Request

QUIET = (RelayStatus.READY, RelayStatus.WAITING, RelayStatus.IDLE)


def park(actor: Actor, relay_id: str, *, now: bool = False, comment: str = "", of: int | None = None) -> Outcome:
    """Park a relay: drain to the next safe point, or (`now`) end its leg at once. Asked twice, it is one decision.

    `of`: the number of the maintenance that it is part of; the decision says so.
    """
    return _end(actor, relay_id, "park", now, comment, of)


def stop(actor: Actor, relay_id: str, *, now: bool = False, comment: str = "") -> Outcome:
    """Stop a relay for good: no leg ever follows. Its branch, batons and records stay.

    A relay that is stopped already stays so: the same answer, nothing recorded.
    """
    return _end(actor, relay_id, "stop", now, comment)


def _end(actor: Actor, relay_id: str, act: str, immediate: bool, comment: str, of: int | None = None) -> Outcome:
    relay = relay_or_refuse(relay_id)
    need(actor, "operate", f"{_(act)} {relay_id}")
    check_comment(f"{_(act)} {relay_id}", comment)
    moment = timezone.now()
    request = Request.NOW if immediate else Request.DRAIN
    with transaction.atomic():
        # puts this act before or after a supervisor's start of a leg, never between
        lock(relay)
        if act == "stop" and relay.status == RelayStatus.STOPPED:
            return Outcome(relay_id, relay.status, successor.last_number(relay_id), "none")
        if relay.final:
            raise NotLegalNow(
                _("%(act)s %(relay_id)s: it is %(status)s; a %(status)s relay stays %(status)s")
                % {"act": _(act), "relay_id": relay_id, "status": _(relay.status)}
            )
        live = Leg.objects.filter(relay=relay, state__in=LIVE_STATES).first()
        if act == "park" and relay.status == RelayStatus.PARKED:
            return Outcome(relay_id, relay.status, successor.last_number(relay_id), "none")
        if live and getattr(relay, act) in (request, Request.NOW):
            # asked already: the same answer, and no second decision
            return Outcome(relay_id, relay.status, successor.last_number(relay_id), getattr(relay, act))
        record(
            actor,
            f"{act}_now" if immediate else act,
            now=moment,
            relay=relay,
            comment=comment,
            detail={
                "status": relay.status,
                "leg": live.number if live else None,
                **({"maintenance": of} if of else {}),
            },
        )
        if live:
            Relay.objects.filter(pk=relay_id).update(**{act: request})
            will = str(request)
        elif act == "park":
            change_relay(
                relay_id,
                RelayStatus.PARKED,
                frm=QUIET,
                now=moment,
                why=recorded("parked by %(name)s", name=actor.user.get_username()),
                next_at=None,
                park=Request.LEG if relay.park == Request.LEG else Request.NONE,
            )
            gates.withdraw_requested(relay_id, moment, by=actor.user)
            will = "none"
        else:
            finals.stopped(
                relay_id,
                frm=(*QUIET, RelayStatus.PARKED),
                now=moment,
                why=recorded("stopped by %(name)s", name=actor.user.get_username()),
            )
            will = "none"
        bump(topic(relay_id), RELAYS, INBOX)
        ring(relay_id)
    relay.refresh_from_db()
    return Outcome(relay_id, relay.status, successor.last_number(relay_id), will)
