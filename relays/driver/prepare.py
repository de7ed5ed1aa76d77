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

from relays.core import budget, fidelity, objective, rotation, watch
from relays.core.donewhen import DoneVerdict, Truth
from relays.core.lines import recorded
from relays.core.policy import Policy, window_for
from relays.core.vocabulary import Ask, Extra, Hold, Reason
from relays.driver import (
    coverage,
    finals,
    findings,
    gates,
    git,
    leases,
    memory_ops,
    pending,
    rebaton,
    reload,
    successor,
    worktrees,
    would,
)
from relays.driver.changes import INBOX, RELAYS, bump, change_leg, change_relay, lock, topic
from relays.driver.claim import Claim
from relays.driver.commands import Commands
from relays.driver.places import leg_folder
from relays.models import Baton, Leg, LegState, Relay, RelayStatus, ResetTransaction
from relays.stores import ownconfig
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.git import GitStore
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

    def __init__(
        self,
        relay: Relay,
        leg: Leg,
        claim: Claim,
        policy: Policy,
        commands: Commands,
        store: GitStore | None = None,
        tree: WorkTree | None = None,
    ) -> None:
        self.relay, self.leg, self.claim, self.policy, self.commands = relay, leg, claim, policy, commands
        # those that the leg is measured with, where it has some: what they know is not asked twice
        self.git, self.tree = store or git.store(relay), tree or git.tree(relay)
        self.done: DoneVerdict | None = None  # step 8 of the ladder; for a watch, whether it may rest

    def run(self) -> Ready:
        """Raises NotNow. Done comes first: a relay that has reached its goal needs no budget."""
        row = Baton.objects.filter(relay=self.relay, current=True).select_related("leg").first()
        if row is None:
            self._worktree(self.relay.start_sha)
            self._judge_done_without_baton()
            self._may_start()
            cursor, next_action = self.relay.start_sha, self._watch_action()
        else:
            row = self._climb(row)
            self._may_start()
            row = self._woken(row)
            baton = rebaton.read(row)
            cursor, next_action = baton.cursor.start_sha, baton.next_action
            self._worktree(cursor)
        self._on_its_branch()
        memory_ops.carry_out(self.relay)  # what people allowed while a leg ran; no leg's work yet
        laid_back = self._lay_back(row)
        path = self._baton_file(row)
        self._to_starting(cursor, laid_back)
        return Ready(cursor, path, next_action)

    def _may_start(self) -> None:
        over = budget.forbids_leg(self.policy.envelope, self.relay.spent)
        if over:
            self._park(Ask.BUDGET_EXHAUSTED, [str(reason) for reason in over], recorded("the envelope is spent"))
        if ResetTransaction.objects.filter(new_leg=self.leg, old_leg__reason=Reason.ROTATED).exists():
            # "Resume restarts hysteresis and the empty run, not the cap"
            capped = successor.cap(self.relay, self.policy, timezone.now())
            if not capped.admit:
                why = recorded(
                    "%(rotation_capped)s: %(used)s of %(limit)s rotations in the last hour",
                    rotation_capped=Hold.ROTATION_CAPPED,
                    used=capped.used,
                    limit=capped.limit,
                )
                self._wait(why, unknown=False, until=capped.next_at)

    def _climb(self, row: Baton) -> Baton:
        """The ladder, then what its outcome asks for; returns the baton that the leg starts from."""
        now = timezone.now()
        try:
            stores = reload.stores_for(self.relay, self.git)
        except StoreUnavailable:
            stores = None  # the climb says why
        if stores is not None:
            if not Path(self.relay.worktree).is_dir():
                self._worktree(stores.tip)  # memory slugs lie in it: what the branch tracks comes back first
            self._judge_done(stores)
        reloaded = reload.climb(self.relay, row, purpose="reload", leg=self.leg, now=now, stores=stores, done=self.done)
        stores = stores or reloaded.stores
        self._judge_fidelity(row, reloaded)
        would.judge(self.relay, reloaded.stores, self.claim, now)
        outcome = reloaded.ladder.outcome
        if outcome == "invalid":
            # written by us and unreadable now: nothing in it is taken over, and nobody guesses what it said
            self._page_fault(f"{reloaded.ladder.path or 'baton'}: {reloaded.ladder.evidence}")
        self._objective_stands(row)
        if outcome == "stale":
            try:
                fresh = reload.rebuild(self.relay, row, reloaded, now)
            except StoreUnavailable as error:
                self._unknown(recorded("the cursor cannot be rebuilt: %(evidence)s", evidence=error.evidence))
            if fresh is None:
                self._page_fault(
                    recorded(
                        "%(path)s: %(evidence)s; no cursor verifies",
                        path=reloaded.ladder.path,
                        evidence=reloaded.ladder.evidence,
                    )
                )
            self._done_or_unknown(stores)
            self._held_by_another()
            return fresh
        if outcome == "done":
            self._done(stores)
        if outcome == "unknown":
            self._unknown(f"{reloaded.ladder.path}: {reloaded.ladder.evidence}")
        self._held_by_another()
        return row

    def _objective_stands(self, row: Baton) -> None:
        """ "dropped, drifted and query_user open OBJECTIVE_DRIFT": only a recorded decision changes the pin."""
        found = objective.reconcile(rebaton.read(row).objective, self.relay.pin)
        if found.asks:
            line = recorded(
                "objective %(found)s: the pin in the database is not the one that leg %(number)d handed over",
                found=found,
                number=row.leg.number,
            )
            self._park(Ask.OBJECTIVE_DRIFT, [line], line)

    def _judge_done_without_baton(self) -> None:
        try:
            stores = reload.stores_for(self.relay, self.git)
        except reload.BranchGone as error:
            self._page_fault(error.evidence)
        except StoreUnavailable as error:
            self._unknown(error.evidence)
        self._judge_done(stores)
        self._done_or_unknown(stores)
        self._held_by_another()

    def _judge_done(self, stores: Stores) -> None:
        """At the present tip, with its commands run; a watch is done (it may rest) only with nothing pending."""
        self.commands.settle(stores.tip, green=False)
        self.done = pending.verdict(self.relay, stores, reload.judge_done(self.relay, stores))

    def _done_or_unknown(self, stores: Stores | None) -> None:
        if self.done is None or self.done.truth is Truth.UNKNOWN:
            self._unknown(f"done_when: {watch.why(self.done, Truth.UNKNOWN)}" if self.done else "")
        elif self.done.truth is Truth.TRUE:
            self._done(stores)

    def _watch_action(self) -> str:
        """What a watch's leg does that no baton tells: restore the invariant, or settle what is pending."""
        return watch.next_action(self.done) if self.relay.watch and self.done else ""

    def _woken(self, row: Baton) -> Baton:
        """The baton of a watch that rested since it was written says what woke it; one that was rebuilt, or in which
        a person chose the next action, stands as it is."""
        action = self._watch_action()
        if not action or not self.relay.idle_tip or row.why == "stale":
            return row
        now = timezone.now()
        with transaction.atomic():
            self.claim.hold(now)
            return rebaton.after_idle(self.relay, row, action, now)

    def _judge_fidelity(self, row: Baton, reloaded: reload.Reloaded) -> None:
        """ "judged at the successor's reload", over ALL pointers; kept beside the leg that wrote the baton."""
        if Baton.objects.filter(leg=row.leg_id, why="stale").exists():
            return  # a baton that was rebuilt speaks for the store, not for the leg: its first verdict stands
        score = fidelity.score([check.verdict for check in reloaded.ladder.checks if check.pointer])
        fidelities = {
            "fidelity_verified": score.verified,
            "fidelity_dangling": score.dangling,
            "fidelity_unknown": score.unknown,
        }
        coverage.keep(row, reloaded, self.claim, fidelities)

    def _held_by_another(self) -> None:
        with transaction.atomic():
            self.claim.hold()
            holder = leases.acquire(self.relay, self.relay.region, timezone.now())
        if holder:
            self._wait(
                recorded(
                    "%(collision_risk)s: the region is held by %(holder)s",
                    collision_risk=Extra.COLLISION_RISK,
                    holder=holder,
                ),
                unknown=False,
            )

    def _worktree(self, start: str) -> None:
        if self.policy.workspace == "in_place":
            return
        try:
            said = worktrees.ready(self.relay, self.leg, start, self.git, self.tree)
        except StoreUnavailable as error:
            self._unknown(
                recorded("worktree %(worktree)s: %(evidence)s", worktree=self.relay.worktree, evidence=error.evidence)
            )
        self._say(recorded("worktree before leg %(leg)d", leg=self.leg.number), said)

    def _on_its_branch(self) -> None:
        """A person's own work tree is never switched, and on another branch the agent's commits would be that one's."""
        if self.policy.workspace != "in_place":
            return
        try:
            found = self.tree.branch()
        except StoreUnavailable as error:
            self._unknown(
                recorded("worktree %(worktree)s: %(evidence)s", worktree=self.relay.worktree, evidence=error.evidence)
            )
        if found != self.relay.branch:
            where = {"worktree": self.relay.worktree, "found": found, "branch": self.relay.branch}
            self._unknown(
                recorded("%(worktree)s stands on %(found)s, the relay works on %(branch)s; switch to it", **where)
                if found
                else recorded("%(worktree)s stands on no branch, the relay works on %(branch)s; switch to it", **where)
            )

    def _say(self, where: str, lines: list[str]) -> None:
        """Findings of this leg's start; another attempt that finds nothing leaves those of the one before."""
        if lines:
            with transaction.atomic():
                self.claim.hold()
                findings.put(
                    self.relay.pk,
                    f"{where}: ",
                    lines,
                )

    def _lay_back(self, row: Baton | None) -> str:
        """Lay parked work back; a tree that somebody left dirty is stored first, so that nothing is lost."""
        wip = rebaton.read(row).cursor.wip_tree if row else ""
        tree = self.tree
        try:
            state = tree.state(False)
            if state.dirty or state.operation:
                found = worktrees.store_found(self.relay, self.leg, tree)
                store = self.git
                if wip and found and store.tree(found) == store.tree(wip):
                    return "applied"
                if wip and found:
                    kept = worktrees.found_name(self.relay, self.leg)
                    self._say(
                        recorded("work found before leg %(leg)d", leg=self.leg.number),
                        [recorded("it is not the parked work, and is kept under %(kept)s", kept=kept)],
                    )
                if wip or self.policy.workspace == "worktree":
                    tree.clean_to_head()
                if not wip:
                    # a person's edits in the worktree: laid back as they were found
                    return str(tree.lay_back(found)) if found and self.policy.workspace == "worktree" else ""
            return str(tree.lay_back(wip)) if wip else ""
        except StoreUnavailable as error:
            self._unknown(
                recorded("worktree %(worktree)s: %(evidence)s", worktree=self.relay.worktree, evidence=error.evidence)
            )

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
        # a model that the start named; else the leg's first call names it
        window = window_for(self.policy, str(self.relay.agent_args.get("model", "")))
        try:
            reflog_lines = len(self.tree.reflog())
        except StoreUnavailable as error:
            self._unknown(
                recorded("worktree %(worktree)s: %(evidence)s", worktree=self.relay.worktree, evidence=error.evidence)
            )
        lint = ownconfig.lint(Path(self.relay.git_dir))  # an agent before this one may have written to it
        if self.leg.cursor_sha:
            # it was started before: a commit that its agent made before the start failed is still this leg's own
            reflog_lines = min(reflog_lines, self.leg.reflog_lines)
        now = timezone.now()
        with transaction.atomic():
            self.claim.hold(now)
            # locked: a person's park or stop comes before this start or after it, never between
            relay = lock(self.relay.pk)
            if relay.status != RelayStatus.READY or relay.parks_now or relay.stop:
                raise NotNow(f"{relay.pk} is {relay.status} now")
            findings.put(relay.pk, ownconfig.FINDING, lint)
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
            # an unbroken run of unknown ladders ends here, though the start may fail; so does the back-off of its wait
            Relay.objects.filter(pk=relay.pk).update(unknown_since=None, attempts=0)
            gates.dispatch(relay.pk, now)
            # a watch that starts a leg does not rest any more: later legs do what the baton before them says
            Relay.objects.filter(pk=relay.pk).update(idle_tip="", idle_issues="")
            bump(topic(relay.pk), RELAYS, INBOX)
        self.leg.refresh_from_db()

    # --- where the relay goes instead

    def _done(self, stores: Stores | None) -> NoReturn:
        """The goal is reached, or a watch holds with nothing pending: it rests, and this leg stays pending."""
        now = timezone.now()
        try:
            issues = stores.issue_digest() if stores is not None and self.relay.watch else ""
        except StoreUnavailable as error:
            self._unknown(error.evidence)
        with transaction.atomic():
            self.claim.hold(now)
            if self.relay.watch:
                finals.idle(
                    self.relay.pk, frm=[RelayStatus.READY], now=now, tip=stores.tip if stores else "", issues=issues
                )
            else:
                finals.done(self.relay.pk, frm=[RelayStatus.READY], now=now)
            bump(topic(self.relay.pk), RELAYS, INBOX)
        raise NotNow("idle" if self.relay.watch else "done")

    def _unknown(self, evidence: str) -> NoReturn:
        """ "no leg starts; retried with back-off; after `unknown_patience` an UNSERVED_PAGE_FAULT is asked"."""
        since = self.relay.unknown_since or timezone.now()
        if timezone.now() - since >= self.policy.unknown_patience:
            self._page_fault(evidence)
        self._wait(recorded("a store did not answer: %(evidence)s", evidence=evidence), unknown=True)

    def _wait(self, why: str, *, unknown: bool, until: datetime | None = None) -> NoReturn:
        now = timezone.now()
        same = unknown == (self.relay.unknown_since is not None)
        attempts = self.relay.attempts if same else 0  # another kind of wait doubles from its own beginning
        delay = min(FIRST_WAIT * 2 ** min(attempts, 10), LONGEST_WAIT)
        with transaction.atomic():
            self.claim.hold(now)
            change_relay(
                self.relay.pk,
                RelayStatus.WAITING,
                frm=[RelayStatus.READY],
                now=now,
                why=why,
                next_at=until or now + delay,
                attempts=attempts + 1,
                unknown_since=(self.relay.unknown_since or now) if unknown else None,
            )
            bump(topic(self.relay.pk), RELAYS)
        raise NotNow(why)

    def _page_fault(self, evidence: str) -> NoReturn:
        self._park(Ask.UNSERVED_PAGE_FAULT, [evidence], recorded("a needed record did not come back from its store"))

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
