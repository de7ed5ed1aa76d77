"""Resume: an operator lets a parked relay go on."""

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions.base import Actor, NotLegalNow, Outcome, check_comment, lock, need, record, relay_or_refuse
from relays.core.vocabulary import Ask
from relays.driver import gates, successor
from relays.driver.changes import INBOX, RELAYS, bump, ring, topic
from relays.models import OPEN_GATES, GateEpisode, GateState, Relay, RelayStatus, Request
from relays.reports import approvals


def resume(actor: Actor, relay_id: str, comment: str = "", *, of: int | None = None) -> Outcome:
    """Resume a relay that a person parked, or one whose gate is approved (`resume = by_operator`).

    rules.md: "Resume restarts hysteresis and the empty run, not the cap". A relay that is being parked goes on
    without a new leg. `of`: the number of the maintenance that it is part of; the decision says so.
    """
    part = {"maintenance": of} if of else {}
    relay = relay_or_refuse(relay_id)
    need(actor, "operate", _("resume %(relay)s") % {"relay": relay_id})
    check_comment(_("resume %(relay)s") % {"relay": relay_id}, comment)
    moment = timezone.now()
    with transaction.atomic():
        lock(relay)
        if relay.final:
            raise NotLegalNow(
                _("resume %(relay_id)s: it is %(status)s; start a new relay for more work")
                % {"relay_id": relay_id, "status": _(relay.status)}
            )
        waiting = list(GateEpisode.objects.filter(relay=relay, state__in=OPEN_GATES))
        if relay.status != RelayStatus.PARKED:
            if relay.park in (Request.DRAIN, Request.LEG):
                record(actor, "resume", now=moment, relay=relay, comment=comment, detail={"withdrew": "park", **part})
                Relay.objects.filter(pk=relay_id).update(park=Request.NONE)
                bump(topic(relay_id), RELAYS)
                ring(relay_id)
            return Outcome(relay_id, relay.status, successor.last_number(relay_id), "none")
        gate = gates.undecided(relay_id).first()
        if gate is not None:
            raise NotLegalNow(
                _(
                    "resume %(relay_id)s: gate %(gate)s (%(token)s) waits for a decision; `relay approve %(gate)s` "
                    "or `relay refuse %(gate)s` first"
                )
                % {"relay_id": relay_id, "gate": gate.pk, "token": gate.token}
            )
        closed = approvals.standing_refusal(relay_id)
        if closed is not None:
            lacks = _(", then refuse it with --next-action, which says what is missing")
            raise NotLegalNow(
                _(
                    "resume %(relay_id)s: gate %(closed)s (%(token)s) is %(state)s; reopen it with `relay refuse "
                    "%(closed)s --reopen`%(lacks)s, or stop the relay"
                )
                % {
                    "relay_id": relay_id,
                    "closed": closed.pk,
                    "token": closed.token,
                    "state": _(closed.state),
                    "lacks": lacks if closed.token == Ask.DONE_UNCONFIRMED else "",
                }
            )
        record(actor, "resume", now=moment, relay=relay, comment=comment, detail=part)
        approved = [gate for gate in waiting if gate.state == GateState.APPROVED]
        successor.request(relay, moment, gates_approved=approved, by=actor.user)
        bump(topic(relay_id), RELAYS, INBOX)
        ring(relay_id)
    relay.refresh_from_db()
    return Outcome(relay_id, relay.status, successor.last_number(relay_id), "start")
