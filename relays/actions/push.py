"""Push: a person sends the branch of a finished relay to the address that its policy names.

Interface: "when done: … push or pull request where policy allows". Recorded first, carried out by a background task.
"""

from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions.base import (
    Actor,
    ChangedSinceSeen,
    NotLegalNow,
    check_comment,
    lock,
    need,
    record,
    relay_or_refuse,
)
from relays.core.policy import from_snapshot
from relays.driver.changes import bump, topic
from relays.models import Push, PushState, RelayStatus
from relays.reports.gate import branch_tip
from relays.reports.sentences import told


@dataclass(frozen=True, slots=True)
class Asked:
    """The push that is on its way; `new` False: it was asked for before, and nothing was recorded."""

    relay: str
    where: str
    branch: str
    tip: str
    state: str
    new: bool


def push(actor: Actor, relay_id: str, *, seen: str, comment: str = "") -> Asked:
    """Have the branch pushed as it was seen (`seen`: its tip). Never by force, never while the relay goes on."""
    relay = relay_or_refuse(relay_id)
    need(actor, "operate", _("push %(relay)s") % {"relay": relay_id})
    check_comment(_("push %(relay)s") % {"relay": relay_id}, comment)
    tip, problem = branch_tip(relay)
    moment = timezone.now()
    with transaction.atomic():
        lock(relay)
        if relay.status != RelayStatus.DONE:
            raise NotLegalNow(_("push %(relay)s: it is %(status)s; only a relay that is done is pushed")
                              % {"relay": relay_id, "status": _(relay.status)})  # fmt: skip
        where = from_snapshot(relay.policy).push_to
        if not where:
            raise NotLegalNow(_("push %s: its policy names no address (push_to); push it yourself") % relay_id)
        if not tip:
            raise NotLegalNow(_("push %(relay)s: %(why)s") % {"relay": relay_id, "why": told(problem)})
        if seen != tip:
            raise ChangedSinceSeen(
                _("push %(relay)s: the branch is at %(tip)s now; look again") % {"relay": relay_id, "tip": tip[:12]}
            )
        there = Push.objects.filter(relay=relay).first()
        same = there is not None and (there.tip, there.where) == (tip, where)
        if there is not None and (there.state == PushState.WAITING or (same and there.state == PushState.DONE)):
            return Asked(relay_id, there.where, there.branch, there.tip, there.state, new=False)
        decision = record(
            actor, "push", now=moment, relay=relay, comment=comment, seen=tip,
            detail={"where": where, "branch": relay.branch, "tip": tip},
        )  # fmt: skip
        made = Push.objects.create(
            relay=relay, decision=decision, where=where, branch=relay.branch, tip=tip, not_before=moment, at=moment
        )
        bump(topic(relay_id))
    return Asked(relay_id, where, relay.branch, tip, made.state, new=True)
