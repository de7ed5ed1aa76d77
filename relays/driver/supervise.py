"""Drive one leg to its end, under the relay's lock and claim: what a supervisor's process does from first to last."""

import logging

from django.db import DatabaseError, transaction

from relays.core.lines import recorded
from relays.driver import advance, budgets, memory_ops
from relays.driver.changes import RELAYS, bump, fenced, topic
from relays.driver.claim import AlreadyDriven, Claim, LostClaim, kernel_lock, take
from relays.driver.supervised import Host
from relays.driver.supervisor import Supervisor
from relays.models import Leg, Relay
from relays.stores.gitrun import plain

__all__ = ["Supervisor", "supervise"]

log = logging.getLogger(__name__)


def supervise(leg_pk: int, host: Host | None = None) -> str:
    """Drive one leg to its end, whatever state it is found in. Returns one line that says what happened.

    `host`: the process that drives this leg, where it may drive the successor too; else that gets one of its own.
    """
    leg = Leg.objects.select_related("relay").filter(pk=leg_pk).first()
    if leg is None:
        return f"leg {leg_pk} is not known"
    policy = budgets.policy_of(leg.relay)
    try:
        with kernel_lock(leg.relay_id):
            claim, well = take(leg.relay_id, policy.host_patience), False
            try:
                leg.refresh_from_db()
                supervisor = Supervisor(leg, claim, host)
                with fenced(claim.hold):
                    said = supervisor.run()
                    memory_ops.carry_out(Relay.objects.get(pk=leg.relay_id))
                well = True
            except (AlreadyDriven, LostClaim):
                raise
            except Exception as error:
                # it is tried again for as long as it takes; a person must see that, and why
                _say_why(
                    claim,
                    recorded(
                        "the supervisor failed and is started again: %(error)s",
                        error=f"{type(error).__name__}: {error}",
                    ),
                )
                raise
            finally:
                _release(claim, well)
        if not (supervisor.drain.shutdown or (host is not None and host.down)):
            # what a bell would lead to, without the way over the broker; reconcile finds it if we die before
            advance.advance(leg.relay_id, host.start if host is not None else None)
        return said
    except AlreadyDriven as error:
        return f"{error}: driven already"
    except LostClaim as error:
        return f"claim lost: {error}"
    except DatabaseError as error:
        # nothing is half: what was not committed was not done, and the next supervisor goes on from what was
        log.error("%s: the database refuses: %s; when it takes writes again the relay goes on", leg, error)
        raise


def _say_why(claim: Claim, why: str) -> None:
    """On the relay's page; where the database takes nothing (a full disk), in the log, and the first error stands."""
    try:
        with transaction.atomic():
            claim.hold()
            Relay.objects.filter(pk=claim.relay_id).update(status_why=plain(why)[:500])
            bump(topic(claim.relay_id), RELAYS)
    except (DatabaseError, LostClaim) as error:
        log.error("%s: %s (and it could not be written down: %s)", claim.relay_id, plain(why), error)


def _release(claim: Claim, well: bool) -> None:
    """A claim that cannot be given back is taken over all the same: its holder's process is gone then."""
    try:
        # after a failure the grace of a spawn stays: what fails at once is not tried in a hot loop
        claim.release(next_at_once=well)
    except DatabaseError as error:
        log.error("%s: the claim could not be given back: %s", claim.relay_id, error)
