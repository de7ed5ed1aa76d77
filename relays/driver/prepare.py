"""Before a leg's agent starts: reload and verify, done-check, region, worktree, parked work.

Mission: "Reload + re-verify. Start a fresh window seeded only by the baton" and "Done-check ... first".
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import NoReturn

from django.db import transaction
from django.utils import timezone

from relays.core import budget, fidelity, objective, rotation
from relays.core.donewhen import DoneVerdict, Truth
from relays.core.policy import Policy, window_for
from relays.core.vocabulary import Ask, Extra, Hold, Reason
from relays.driver import finals, gates, git, leases, rebaton, reload, successor, worktrees
from relays.driver.changes import INBOX, RELAYS, bump, change_leg, change_relay, lock, topic
from relays.driver.claim import Claim
from relays.driver.commands import Commands
from relays.driver.places import leg_folder
from relays.models import Baton, Leg, LegState, Relay, RelayStatus, ResetTransaction
from relays.stores.base import StoreUnavailable
from relays.stores.worktree import WorkTree

log = logging.getLogger(__name__)

FIRST_WAIT = timedelta(seconds=5)
LONGEST_WAIT = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Ready:
    """The leg may start: from this cursor, with this baton file ("" for leg 0) and next action."""

    cursor: str
    baton_path: str
    next_action: str


class NotNow(Exception):
    """The leg does not start now; the relay's status says why and until when."""


class Prepare:
    """Takes one pending leg to `starting`, or the relay to where it belongs instead (NotNow)."""

    def __init__(self, relay: Relay, leg: Leg, claim: Claim, policy: Policy, commands: Commands) -> None:
        self.relay, self.leg, self.claim, self.policy, self.commands = relay, leg, claim, policy, commands

    def run(self) -> Ready:
        """Raises NotNow. Done comes first: a relay that has reached its goal needs no budget."""
        row = Baton.objects.filter(relay=self.relay, current=True).select_related("leg").first()
        if row is None:
            self._worktree(self.relay.start_sha)
            self._judge_done_without_baton()
            self._may_start()
            cursor, next_action = self.relay.start_sha, ""
        else:
            row = self._climb(row)
            self._may_start()
            baton = rebaton.read(row)
            cursor, next_action = baton.cursor.start_sha, baton.next_action
            self._worktree(cursor)
        laid_back = self._lay_back(row)
        path = self._baton_file(row)
        self._to_starting(cursor, laid_back)
        return Ready(cursor, path, next_action)

    def _may_start(self) -> None:
        over = budget.forbids_leg(self.policy.envelope, self.relay.spent)
        if over:
            self._park(Ask.BUDGET_EXHAUSTED, [str(reason) for reason in over], "the envelope is spent")
        if ResetTransaction.objects.filter(new_leg=self.leg, old_leg__reason=Reason.ROTATED).exists():
            # "Resume restarts hysteresis and the empty run, not the cap"
            capped = successor.cap(self.relay, self.policy, timezone.now())
            if not capped.admit:
                why = f"{Hold.ROTATION_CAPPED}: {capped.used} of {capped.limit} rotations in the last hour"
                self._wait(why, unknown=False, until=capped.next_at)

    def _climb(self, row: Baton) -> Baton:
        """The ladder, then what its outcome asks for; returns the baton that the leg starts from."""
        now = timezone.now()
        try:
            stores = reload.stores_for(self.relay)
        except reload.BranchGone as error:
            reload.climb(self.relay, row, purpose="reload", leg=self.leg, now=now)
            self._page_fault(f"progress_cursor.start_sha: {error.evidence}")
        except StoreUnavailable:
            stores = None
        done: DoneVerdict | None = None
        if stores is not None:
            self.commands.settle(stores.tip, green=False)
            done = reload.judge_done(self.relay, stores)
        reloaded = reload.climb(self.relay, row, purpose="reload", leg=self.leg, now=now, done=done)
        self._judge_fidelity(row, reloaded)
        outcome = reloaded.ladder.outcome
        if outcome == "invalid":
            # written by us and unreadable now: nothing in it is taken over, and nobody guesses what it said
            self._page_fault(f"{reloaded.ladder.path or 'baton'}: {reloaded.ladder.evidence}")
        self._objective_stands(row)
        if outcome == "stale":
            try:
                fresh = reload.rebuild(self.relay, row, reloaded, now)
            except StoreUnavailable as error:
                self._unknown(f"the cursor cannot be rebuilt: {error.evidence}")
            if fresh is None:
                self._page_fault(f"{reloaded.ladder.path}: {reloaded.ladder.evidence}; no cursor verifies")
            self._done_or_unknown(done)
            self._held_by_another()
            return fresh
        if outcome == "done":
            self._done()
        if outcome == "unknown":
            self._unknown(f"{reloaded.ladder.path}: {reloaded.ladder.evidence}")
        self._held_by_another()
        return row

    def _objective_stands(self, row: Baton) -> None:
        """ "dropped, drifted and query_user open OBJECTIVE_DRIFT": only a recorded decision changes the pin."""
        found = objective.reconcile(rebaton.read(row).objective, self.relay.pin)
        if found.asks:
            line = f"objective {found}: the pin in the database is not the one that leg {row.leg.number} handed over"
            self._park(Ask.OBJECTIVE_DRIFT, [line], line)

    def _judge_done_without_baton(self) -> None:
        try:
            stores = reload.stores_for(self.relay)
        except StoreUnavailable as error:
            self._unknown(error.evidence)
        self.commands.settle(stores.tip, green=False)
        self._done_or_unknown(reload.judge_done(self.relay, stores))
        self._held_by_another()

    def _done_or_unknown(self, done: DoneVerdict | None) -> None:
        if done is None or done.truth is Truth.UNKNOWN:
            self._unknown(
                "done_when: " + "; ".join(e for _, t, e in done.clauses if t is Truth.UNKNOWN) if done else ""
            )
        elif done.truth is Truth.TRUE:
            self._done()

    def _judge_fidelity(self, row: Baton, reloaded: reload.Reloaded) -> None:
        """ "judged at the successor's reload", over ALL pointers; kept beside the leg that wrote the baton."""
        if Baton.objects.filter(leg=row.leg_id, why="stale").exists():
            return  # a baton that was rebuilt speaks for the store, not for the leg: its first verdict stands
        score = fidelity.score([check.verdict for check in reloaded.ladder.checks if check.pointer])
        Leg.objects.filter(pk=row.leg_id).update(
            fidelity_verified=score.verified, fidelity_dangling=score.dangling, fidelity_unknown=score.unknown
        )

    def _held_by_another(self) -> None:
        with transaction.atomic():
            holder = leases.acquire(self.relay, self.relay.region, timezone.now())
        if holder:
            self._wait(f"{Extra.COLLISION_RISK}: the region is held by {holder}", unknown=False)

    def _worktree(self, start: str) -> None:
        if self.policy.workspace == "in_place":
            return
        try:
            worktrees.ready(self.relay, self.leg, start)
        except StoreUnavailable as error:
            self._unknown(f"worktree {self.relay.worktree}: {error.evidence}")

    def _lay_back(self, row: Baton | None) -> str:
        """Lay parked work back; a tree that somebody left dirty is stored first, so that nothing is lost."""
        wip = rebaton.read(row).cursor.wip_tree if row else ""
        tree = WorkTree(Path(self.relay.worktree))
        try:
            state = tree.state(False)
            if state.dirty or state.operation:
                found = tree.store_wip(
                    f"refs/relay/wip/{self.relay.pk}/{self.leg.number}.found", f"Found before leg {self.leg.number}"
                )
                store = git.store(self.relay)
                if wip and found and store.tree(found) == store.tree(wip):
                    return "applied"
                if wip or self.policy.workspace == "worktree":
                    tree.clean_to_head()
                if not wip:
                    # a person's edits in the worktree: laid back as they were found
                    return str(tree.lay_back(found)) if found and self.policy.workspace == "worktree" else ""
            return str(tree.lay_back(wip)) if wip else ""
        except StoreUnavailable as error:
            self._unknown(f"worktree {self.relay.worktree}: {error.evidence}")

    def _baton_file(self, row: Baton | None) -> str:
        """The baton's canonical bytes as a file of this leg."""
        if row is None:
            return ""
        folder = leg_folder(self.relay.pk, self.leg.number)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "baton.json"
        path.write_bytes(row.text.encode())
        return str(path)

    def _to_starting(self, cursor: str, laid_back: str) -> None:
        window = window_for(self.policy, "")
        reflog_lines = len(WorkTree(Path(self.relay.worktree)).reflog())
        now = timezone.now()
        with transaction.atomic():
            self.claim.hold(now)
            # locked: a person's park or stop comes before this start or after it, never between
            relay = lock(self.relay.pk)
            if relay.status != RelayStatus.READY or relay.park or relay.stop:
                raise NotNow(f"{relay.pk} is {relay.status} now")
            moved = change_leg(
                self.leg.pk,
                LegState.STARTING,
                frm=[LegState.PENDING],
                cursor_sha=cursor,
                wip_laid_back=laid_back,
                window_tokens=window,
                mark_tokens=rotation.mark_tokens(self.policy, window),
                ceiling_tokens=rotation.ceiling_tokens(self.policy, window),
                reflog_lines=reflog_lines,
            )
            if not moved:
                raise NotNow(f"leg {self.leg.number} is not pending any more")
            gates.dispatch(relay.pk, now)
            bump(topic(relay.pk), RELAYS, INBOX)
        self.leg.refresh_from_db()

    # --- where the relay goes instead

    def _done(self) -> NoReturn:
        now = timezone.now()
        with transaction.atomic():
            self.claim.hold(now)
            finals.done(self.relay.pk, frm=[RelayStatus.READY], now=now)
            bump(topic(self.relay.pk), RELAYS, INBOX)
        raise NotNow("done")

    def _unknown(self, evidence: str) -> NoReturn:
        """ "no leg starts; retried with back-off; after `unknown_patience` an UNSERVED_PAGE_FAULT is asked"."""
        since = self.relay.unknown_since or timezone.now()
        if timezone.now() - since >= self.policy.unknown_patience:
            self._page_fault(evidence)
        self._wait(f"a store did not answer: {evidence}", unknown=True)

    def _wait(self, why: str, *, unknown: bool, until: datetime | None = None) -> NoReturn:
        now = timezone.now()
        delay = min(FIRST_WAIT * 2 ** min(self.relay.attempts, 10), LONGEST_WAIT)
        with transaction.atomic():
            self.claim.hold(now)
            change_relay(
                self.relay.pk,
                RelayStatus.WAITING,
                frm=[RelayStatus.READY],
                now=now,
                why=why,
                next_at=until or now + delay,
                attempts=self.relay.attempts + 1,
                unknown_since=(self.relay.unknown_since or now) if unknown else None,
            )
            bump(topic(self.relay.pk), RELAYS)
        raise NotNow(why)

    def _page_fault(self, evidence: str) -> NoReturn:
        self._park(Ask.UNSERVED_PAGE_FAULT, [evidence], "a needed record did not come back from its store")

    def _park(self, token: str, items: list[str], why: str) -> NoReturn:
        now: datetime = timezone.now()
        with transaction.atomic():
            self.claim.hold(now)
            moved = change_relay(
                self.relay.pk,
                RelayStatus.PARKED,
                frm=[RelayStatus.READY],
                now=now,
                why=f"{token}: {why}",
                next_at=None,
                unknown_since=None,
                attempts=0,
            )
            if moved:  # else a person parked or stopped it meanwhile: nobody is asked
                gates.supersede_requested(self.relay.pk, now)
                gates.open_episode(self.relay.pk, token, leg=self.leg, items=items, now=now)
            bump(topic(self.relay.pk), RELAYS, INBOX)
        raise NotNow(why)
