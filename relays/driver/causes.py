"""Whether what a gate waits for has vanished by itself: then nobody needs to decide on it.

states.md, Gate episode: "waiting | … `superseded`: relay ended, cause gone". A relay is not resumed by that: "a relay
parked by a gate, an ask or a person never resumes by itself"; an operator does.
"""

import logging
import time
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from relays.core import baton as batons
from relays.core import budget, objective, reload
from relays.core.lines import recorded
from relays.core.policy import PolicyError
from relays.core.vocabulary import Ask
from relays.driver import budgets, gates, git, pending, successor
from relays.driver import reload as reloading
from relays.driver.changes import INBOX, RELAYS, bump, lock, ring, topic
from relays.models import NEXT_LEG, Baton, Decision, GateEpisode, GateState, Relay, RelayStatus
from relays.stores.base import StoreUnavailable

log = logging.getLogger(__name__)

#: asks whose cause is a state of the world, which may change again; a stop that happened stays so
MAY_VANISH = (Ask.BUDGET_EXHAUSTED, Ask.OBJECTIVE_DRIFT, Ask.UNSERVED_PAGE_FAULT)
LOOK_AGAIN = timedelta(seconds=30)  # no gate is looked at more often
LOOKS = 20  # gates of one pass; a page fault costs a few git processes


def look(now: datetime, until: float) -> int:
    """One pass over gates that wait on such an ask, the one that was not looked at for longest first; how many went.

    `until`: the monotonic time after which no further gate is begun.
    """
    waiting = GateEpisode.objects.filter(state=GateState.WAITING, token__in=MAY_VANISH)
    due = waiting.exclude(looked_at__gt=now - LOOK_AGAIN).order_by(F("looked_at").asc(nulls_first=True), "pk")
    chosen = list(due.values_list("pk", flat=True)[:LOOKS])
    GateEpisode.objects.filter(pk__in=chosen).update(looked_at=now)
    closed = 0
    for gate in GateEpisode.objects.filter(pk__in=chosen).select_related("relay").order_by("pk"):
        if time.monotonic() > until:
            break
        try:
            closed += bool(gone := _gone(gate)) and _supersede(gate, gone, now)
        except PolicyError as error:
            log.error("gate %s of %s cannot be looked at: %s", gate.pk, gate.relay_id, error)
    return closed


def settle(relay: Relay, now: datetime, *, but: int) -> None:
    """After a decision on gate `but`: what that took the cause of, by our own records; in the caller's transaction."""
    for gate in gates.undecided(relay.pk).filter(token__in=MAY_VANISH).exclude(pk=but):
        if gate.token != Ask.UNSERVED_PAGE_FAULT and not _being_decided(gate) and (gone := _recorded(gate, relay)):
            gates.supersede(gate, gone, now)


def _gone(gate: GateEpisode) -> str:
    """In one line why its cause is gone; "" while it stands, or where that cannot be told."""
    if gate.token == Ask.UNSERVED_PAGE_FAULT:
        try:
            return _served(gate.relay)
        except StoreUnavailable:
            return ""
    return _recorded(gate, gate.relay)


def _recorded(gate: GateEpisode, relay: Relay) -> str:
    """What our own records tell: no process is run."""
    if gate.token == Ask.BUDGET_EXHAUSTED:
        envelope, spent = budgets.policy_of(relay).envelope, relay.spent
        over = set(budget.exhausted(envelope, spent))
        named = over.intersection(gate.items) if over.union(budget.STOP_REASONS.values()) & set(gate.items) else over
        unpriced = any(item.startswith("spend unknown") for item in gate.items)
        if named or (unpriced and budget.spend_unknown(envelope, spent)):
            return ""
        return recorded("every limit that was spent leaves something again")
    carried = _carried(relay)
    if carried is None or objective.reconcile(carried.objective, relay.pin).asks:
        return ""
    return recorded("the objective that was handed over is the relay's own again")


def _served(relay: Relay) -> str:
    """The needed record is there again: every pointer of the baton resolves, and its leg could work where it works.

    Reads only. Raises StoreUnavailable.
    """
    stores = reloading.stores_for(relay)
    tree = git.tree(relay)
    if not tree.state(False).known:
        return ""
    if budgets.policy_of(relay).workspace == "in_place" and tree.branch() != relay.branch:
        return ""
    done = pending.verdict(relay, stores, reloading.judge_done(relay, stores))
    row = Baton.objects.filter(relay=relay, current=True).first()
    if row is None:
        return "" if done.truth == "unknown" else recorded("the branch answers at %(tip)s", tip=stores.tip[:12])
    reading = batons.read(row.text, budgets.policy_of(relay).baton)
    if reading.baton is None:
        return ""
    expected = reload.Expected(relay.pin, relay.done_when, tuple(relay.region))
    climbed = reload.climb(reading, answers=stores.answers(reading.baton), expected=expected, done=done, holder=None)
    if climbed.outcome not in ("fresh", "done"):
        return ""
    return recorded("everything that the baton points at resolves at %(tip)s", tip=stores.tip[:12])


def _carried(relay: Relay) -> batons.Baton | None:
    text = Baton.objects.filter(relay=relay, current=True).values_list("text", flat=True).first()
    return batons.read(text, budgets.policy_of(relay).baton).baton if text else None


def _supersede(gate: GateEpisode, why: str, now: datetime) -> bool:
    """Close it, unless people have begun to decide on it, and say on the relay what is left to do."""
    with transaction.atomic():
        relay = lock(gate.relay_id)
        fresh = GateEpisode.objects.get(pk=gate.pk)
        if fresh.round != gate.round or fresh.items != gate.items or _being_decided(fresh):
            return False
        if gate.token != Ask.UNSERVED_PAGE_FAULT and not _recorded(fresh, relay):
            return False
        if not gates.supersede(fresh, why, now):
            return False
        if relay.status == RelayStatus.PARKED and fresh.blocks == NEXT_LEG and not gates.undecided(relay.pk).exists():
            _last(relay, fresh, why, now)
        bump(topic(relay.pk), RELAYS, INBOX)
    return True


def _being_decided(gate: GateEpisode) -> bool:
    """With more than one approval wanted, the first must not take the others' say: its change alone ended the cause."""
    return Decision.objects.filter(gate=gate, act="approve").exists()


def _last(relay: Relay, gate: GateEpisode, why: str, now: datetime) -> None:
    """No other episode waits: what people approved meanwhile is requested; else an operator resumes."""
    approved = list(GateEpisode.objects.filter(relay=relay, state=GateState.APPROVED, blocks=NEXT_LEG))
    refused = GateEpisode.objects.filter(relay=relay, state__in=[GateState.REFUSED, GateState.EXPIRED])
    if approved and budgets.policy_of(relay).resume == "on_approve" and not refused.exists():
        successor.request(relay, now, gates_approved=approved)
        ring(relay.pk)
        return
    Relay.objects.filter(pk=relay.pk).update(
        status_why=recorded(
            "%(token)s: cause gone: %(why)s; an operator resumes the relay, or stops it", token=gate.token, why=why
        )[:500]
    )
