"""Resume: an operator lets a parked relay go on."""

from django.db import transaction
from django.utils import timezone

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
    need(actor, "operate", f"resume {relay_id}")
    check_comment(f"resume {relay_id}", comment)
    moment = timezone.now()
    with transaction.atomic():
        lock(relay)
        if relay.final:
            raise NotLegalNow(f"resume {relay_id}: it is {relay.status}; start a new relay for more work")
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
                f"resume {relay_id}: gate {gate.pk} ({gate.token}) waits for a decision; "
                f"`relay approve {gate.pk}` or `relay refuse {gate.pk}` first"
            )
        closed = approvals.standing_refusal(relay_id)
        if closed is not None:
            lacks = ", then refuse it with --next-action, which says what is missing"
            raise NotLegalNow(
                f"resume {relay_id}: gate {closed.pk} ({closed.token}) is {closed.state}; "
                f"reopen it with `relay refuse {closed.pk} --reopen`"
                f"{lacks if closed.token == Ask.DONE_UNCONFIRMED else ''}, or stop the relay"
            )
        record(actor, "resume", now=moment, relay=relay, comment=comment, detail=part)
        approved = [gate for gate in waiting if gate.state == GateState.APPROVED]
        successor.request(relay, moment, gates_approved=approved, by=actor.user)
        bump(topic(relay_id), RELAYS, INBOX)
        ring(relay_id)
    relay.refresh_from_db()
    return Outcome(relay_id, relay.status, successor.last_number(relay_id), "start")
