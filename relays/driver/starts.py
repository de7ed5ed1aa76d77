"""How a leg's start is written down: it runs, it goes back to pending, or it failed once too often."""

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import timezone

from relays.core.lines import recorded
from relays.core.vocabulary import Cause, Reason
from relays.driver import asked, gates
from relays.driver.changes import INBOX, RELAYS, bump, change_leg, change_relay, topic
from relays.driver.claim import Claim
from relays.driver.progress import Made
from relays.models import Leg, LegState, Relay, RelayStatus

STARTS = 3  # failed starts before a person is asked
FIRST_WAIT = timedelta(seconds=5)  # after the first failed start; doubles


def running(leg: Leg, claim: Claim, now: datetime) -> None:
    """The leg's first event was seen: leg and relay run, the leg counts, gates on their way are confirmed."""
    with transaction.atomic():
        claim.hold(now)
        change_leg(leg.pk, LegState.RUNNING, frm=[LegState.STARTING], started_at=now, charged_until=now, start_error="")
        relay = Relay.objects.get(pk=leg.relay_id)
        change_relay(
            relay.pk,
            RelayStatus.RUNNING,
            frm=[RelayStatus.READY],
            now=now,
            next_at=None,
            attempts=0,
            unknown_since=None,
            legs_used=relay.legs_used + 1,
        )
        gates.confirm(relay.pk, now)
        bump(topic(relay.pk), RELAYS, INBOX)
    leg.refresh_from_db()


def runs_again(relay_id: str, leg_pk: int, now: datetime) -> None:
    """The leg's back-off is over, because its agent is back or because it ends; in the caller's transaction.

    The relay runs again, and its running time counts from now on.
    """
    if change_relay(relay_id, RelayStatus.RUNNING, frm=[RelayStatus.WAITING], now=now, next_at=None):
        Leg.objects.filter(pk=leg_pk).update(charged_until=now)


def back_to_pending(leg: Leg, claim: Claim, error: str, made: Made | None = None) -> None:
    """No first event came: the leg may be started again.

    `made`: what its agent did all the same, between its cursor and the tip. It stands beside the leg, so that it is
    the leg's own also when none is started any more, because the goal is reached or a person stopped the relay.
    """
    fields = {"progress": made.progress.total, "progress_detail": made.detail} if made and made.commits else {}
    with transaction.atomic():
        claim.hold()
        change_leg(
            leg.pk,
            LegState.PENDING,
            frm=[LegState.STARTING],
            attempts=leg.attempts + 1,
            start_error=error,
            agent_pid=0,
            **fields,
        )
        bump(topic(leg.relay_id))
    leg.refresh_from_db()


def failed(leg: Leg, claim: Claim, error: str) -> str:
    """Where the relay goes after a failed start; what a person asked for meanwhile comes first.

    states.md: "`waiting`: … start failed (1st, 2nd) · `parked`: … third failed start (the first, when it starts from
    a gate)". Returns the relay's status where a person's wish decided it, else "".
    """
    now = timezone.now()
    with transaction.atomic():
        claim.hold(now)
        if done := asked.carry_out(leg.relay_id, now, error):
            return done
        from_gate = gates.start_failed(leg.relay_id, error, now)
        if from_gate or leg.attempts >= STARTS:
            why = recorded("start failed: %(error)s", error=error)
            change_relay(leg.relay_id, RelayStatus.PARKED, frm=[RelayStatus.READY], now=now, why=why, next_at=None)
            if not from_gate:
                items = [f"cause: {Cause.START_FAILED}", error]
                gates.open_episode(leg.relay_id, Reason.PARKED_UNSAFE, leg=leg, items=items, now=now)
        else:
            change_relay(
                leg.relay_id,
                RelayStatus.WAITING,
                frm=[RelayStatus.READY],
                now=now,
                why=recorded(
                    "start %(attempts)s of %(starts)s failed: %(error)s",
                    attempts=leg.attempts,
                    starts=STARTS,
                    error=error,
                ),
                next_at=now + FIRST_WAIT * 2 ** (leg.attempts - 1),
            )
        bump(topic(leg.relay_id), RELAYS, INBOX)
    return ""
