"""A watch that rests: the look at what it watches, and its waking.

rules.md, No progress and watch: "It wakes when the branch tip or the issue digest changes, or `every` so often; a
broken invariant starts a leg". A quiet look writes no row, starts no leg and asks nobody.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from relays.agents import process
from relays.core import donewhen, watch
from relays.core.donewhen import DoneVerdict, Truth
from relays.core.lines import recorded
from relays.driver import budgets, commands, git, pending, rebaton, reload, spawn, successor
from relays.driver.changes import INBOX, RELAYS, bump, change_relay, lock, ring, topic
from relays.driver.claim import AlreadyDriven, Claim, LostClaim, kernel_lock, take
from relays.models import Baton, Relay, RelayStatus
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores

FIRST_WAIT = timedelta(seconds=5)
QUIET, WOKEN, WAITS, LOOKING, LEFT = "idle", "woken", "waits", "looking", "nothing to do"


class NotIdle(Exception):
    """A person parked or stopped the relay while it was looked at: the look ends and changes nothing."""


def look(relay_id: str, now: datetime) -> str:
    """Look at one idle watch: one git process where nothing changed. Safe to repeat, and outside any transaction.

    A done_when with a `cmd` is judged by a process of its own, since no task runs longer than a minute. Returns what
    came of it in a word: idle, woken, waits, looking, or nothing to do.
    """
    relay = Relay.objects.filter(pk=relay_id, status=RelayStatus.IDLE).first()
    if relay is None:
        return LEFT
    try:
        tip = git.store(relay).tip(relay.branch) or ""
        # the issue file lies in the branch: the same tip has the same issues
        if tip == relay.idle_tip and not _over(relay, now):
            return _quiet(relay, relay.idle_tip, relay.idle_issues, now, whole=False)
        if any(clause.kind == "cmd" for clause in donewhen.parse(relay.done_when).clauses):
            return LOOKING if spawn.looker(relay.pk) else LEFT
        return _judge(relay, now)
    except StoreUnavailable as error:
        return _cannot_tell(relay, error.evidence, now)


def look_with_commands(relay_id: str) -> str:
    """The same look with its `cmd` clauses run anew at the tip, contained; in a process that holds the claim."""
    relay = Relay.objects.filter(pk=relay_id, status=RelayStatus.IDLE).first()
    if relay is None:
        return f"{relay_id}: {LEFT}"
    policy = budgets.policy_of(relay)
    try:
        with kernel_lock(relay_id):
            claim = take(relay_id, policy.host_patience)
            running = commands.Commands(relay, policy, claim)
            try:
                process.kill_by_marker(commands.marker_of(relay_id))
                commands.forget_checkouts(relay_id)
                running.beat = _Beat(claim)
                try:
                    running.again(reload.stores_for(relay).tip)
                    said = _judge(relay, timezone.now())
                except StoreUnavailable as error:
                    said = _cannot_tell(relay, error.evidence, timezone.now())
            finally:
                running.close()
                claim.release()
            spawn.forget_spawn(relay_id)
    except (AlreadyDriven, LostClaim, NotIdle) as error:
        return f"{relay_id}: left alone: {error}"
    return f"{relay_id}: {said}"


class _Beat:
    """The sign of life of a look while a command runs; a person's park or stop ends it within seconds."""

    EVERY = timedelta(seconds=2)

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.last = timezone.now()

    def __call__(self) -> None:
        now = timezone.now()
        if now - self.last < self.EVERY:
            return
        self.last = now
        with transaction.atomic():
            self.claim.hold(now)
        if not Relay.objects.filter(pk=self.claim.relay_id, status=RelayStatus.IDLE).exists():
            raise NotIdle("it does not idle any more")


def _over(relay: Relay, now: datetime) -> bool:
    return relay.next_at is not None and relay.next_at <= now


def _judge(relay: Relay, now: datetime) -> str:
    """Judge the invariant and what is pending at the tip as it stands now. Raises StoreUnavailable."""
    stores = reload.stores_for(relay)
    judged = pending.verdict(relay, stores, reload.judge_done(relay, stores))
    if judged.truth is Truth.TRUE:
        return _quiet(relay, stores.tip, stores.issue_digest(), now, whole=True)
    if judged.truth is Truth.FALSE:
        return _wake(relay, stores, judged, now)
    return _cannot_tell(relay, watch.why(judged, Truth.UNKNOWN), now)


def _quiet(relay: Relay, tip: str, issues: str, now: datetime, *, whole: bool) -> str:
    """It stays idle: counted, no row made, nobody told. `whole`: it was judged, so `every` begins anew."""
    seen: dict[str, object] = {"idle_tip": tip, "idle_issues": issues, "idle_looked_at": now}
    if whole:
        every = budgets.policy_of(relay).every
        seen["next_at"] = now + every if every else None
    stays = Relay.objects.filter(pk=relay.pk, status=RelayStatus.IDLE).update(idle_looks=F("idle_looks") + 1, **seen)
    return QUIET if stays else LEFT


def _wake(relay: Relay, stores: Stores, judged: DoneVerdict, now: datetime) -> str:
    """The invariant is broken or something is pending: ready, with a leg that is told which."""
    action = watch.next_action(judged)
    found = recorded("the invariant is broken") if action == watch.RESTORE else recorded("something is pending")
    why = f"{found}: {watch.why(judged, Truth.FALSE)}"
    return _leave(relay, RelayStatus.READY, WOKEN, now, why, {"next_at": None}, action)


def _cannot_tell(relay: Relay, evidence: str, now: datetime) -> str:
    """ "unknown is not idle": it waits, and is asked again with back-off as before any leg."""
    why = recorded("a store did not answer: %(evidence)s", evidence=evidence)
    wait = {"next_at": now + FIRST_WAIT, "attempts": 1, "unknown_since": now}
    return _leave(relay, RelayStatus.WAITING, WAITS, now, why, wait)


def _leave(
    relay: Relay, to: RelayStatus, said: str, now: datetime, why: str, wait: Mapping[str, Any], action: str = ""
) -> str:
    """It rests no longer: a leg is pending, told of `action` where it is known. Returns `said`, or that it was left."""
    fields = {"attempts": 0, "unknown_since": None, **wait}
    with transaction.atomic():
        fresh = lock(relay.pk)
        if not change_relay(relay.pk, to, frm=[RelayStatus.IDLE], now=now, why=why, **fields):
            return LEFT
        current = Baton.objects.filter(relay=fresh, current=True).select_related("leg", "relay").first()
        if current is not None and action and fresh.idle_tip:
            rebaton.after_idle(fresh, current, action, now)
        successor.pending(fresh, now)
        bump(topic(relay.pk), RELAYS, INBOX)
        ring(relay.pk)
    return said
