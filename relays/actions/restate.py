"""A person states a new objective, or other budget limits, without being asked: what is theirs has a verb and a place.

Mission: "What remains user-controlled is the actual objective, explicit facts, budget limits, pins …". Rules,
Objective: "A person may set a new objective […]: recorded decisions that the next leg gets by pointer."
"""

from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions import carried
from relays.actions.base import (
    Actor,
    NotLegalNow,
    Outcome,
    Usage,
    check_comment,
    lock,
    need,
    record,
    relay_or_refuse,
)
from relays.core import baton, objective, policy
from relays.core.vocabulary import Ask
from relays.driver import budgets, causes
from relays.driver.changes import INBOX, RELAYS, bump, topic
from relays.models import LIVE_STATES, GateEpisode, GateState, Leg, Relay
from relays.reports.sentences import refused

LIMITS = "envelope."


def restate(actor: Actor, relay_id: str, *, new_objective: str = "", sets: Sequence[str] = (), comment: str) -> Outcome:
    """Set the objective, or limits of the relay's envelope (`envelope.turns=400`), by a recorded decision.

    What was used stays used: a limit counts from the relay's start. The next leg starts from it by pointer; a leg that
    runs hands it over. Raises Refused, and then nothing was changed; while a gate waits that asks about it, that gate
    is where it is decided.
    """
    relay = relay_or_refuse(relay_id)
    need(actor, "operate", _("restate %(relay)s") % {"relay": relay_id})
    if not comment.strip():
        raise Usage(_("restate %(relay_id)s: a comment is required; say why in --comment") % {"relay_id": relay_id})
    check_comment(_("restate %(relay)s") % {"relay": relay_id}, comment)
    moment = timezone.now()
    with transaction.atomic():
        lock(relay)
        if relay.final:
            raise NotLegalNow(
                _("restate %(relay_id)s: it is %(status)s; start a new relay for more work")
                % {"relay_id": relay_id, "status": _(relay.status)}
            )
        changes = _changes(relay, new_objective.strip(), sets)
        asks = [
            ask for ask, wanted in ((Ask.OBJECTIVE_DRIFT, changes.objective), (Ask.BUDGET_EXHAUSTED, sets)) if wanted
        ]
        waiting = GateEpisode.objects.filter(relay=relay, token__in=asks, state=GateState.WAITING).first()
        if waiting is not None:
            raise NotLegalNow(
                _("restate %(relay_id)s: gate %(waiting)s asks about it (%(token)s); decide there")
                % {"relay_id": relay_id, "waiting": waiting.pk, "token": waiting.token}
            )
        decision = record(
            actor, "restate", now=moment, relay=relay, comment=comment, detail={"carries": list(changes.acts)}
        )
        carried.apply(actor, None, relay, changes, decision, moment)
        causes.settle(relay, moment, but=0)
        bump(topic(relay.pk), RELAYS, INBOX)
    relay.refresh_from_db()
    live = Leg.objects.filter(relay=relay, state__in=LIVE_STATES).values_list("number", flat=True).first()
    return Outcome(relay.pk, relay.status, live, "none")


def _changes(relay: Relay, stated: str, sets: Sequence[str]) -> carried.Changes:
    if not stated and not sets:
        raise Usage(
            _("restate %(relay)s: say --objective, or --set %(limits)s…=…") % {"relay": relay.pk, "limits": LIMITS}
        )
    for text in sets:
        if not text.strip().startswith(LIMITS):
            raise Usage(
                _("restate %(relay)s: --set %(text)s: only limits of the envelope, such as envelope.turns=400")
                % {"relay": relay.pk, "text": repr(text[:80])}
            )
    try:
        pin = objective.make_pin(carried.pin_id(relay), stated) if stated else None
        limits = policy.with_sets(budgets.policy_of(relay), sets) if sets else None
        carried.check_fit(relay, limits, pin)
    except (policy.PolicyError, objective.ObjectiveError, baton.BatonError) as error:
        raise Usage(_("restate %(relay)s: %(error)s") % {"relay": relay.pk, "error": refused(error)}) from error
    if pin and pin.digest == relay.objective_digest and pin.pin_id == relay.pin_id:
        raise NotLegalNow(
            _("restate %(relay)s: that is its objective already; nothing was changed") % {"relay": relay.pk}
        )
    if not carried.can_carry(relay):
        raise NotLegalNow(
            _("restate %(relay)s: its stored baton does not read, so it can carry nothing; or stop it")
            % {"relay": relay.pk}
        )
    return carried.Changes("", {}, (), limits, tuple(sets), pin)
