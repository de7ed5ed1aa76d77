"""Measure what a boundary is judged by: tree, pointers, axes, cap, done. The rules in core do the judging."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from relays.core import externalize, pointers, rotation, safepoint
from relays.core.boundary import BoundaryView, Green
from relays.core.donewhen import DoneVerdict
from relays.core.externalize import GateVerdict, LoadBearing
from relays.core.legview import LegView
from relays.core.lines import recorded
from relays.core.pointers import Answer, Verdict
from relays.core.policy import Policy
from relays.core.safepoint import SafePoint, TreeState
from relays.core.vocabulary import Mode
from relays.driver import git, pending, progress, reload, successor
from relays.driver.commands import Commands
from relays.models import Boundary, Fact, Leg, Relay
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores
from relays.stores.gitrun import plain


@dataclass(frozen=True, slots=True)
class Measured:
    """One look at the world. `stores` None: the repository did not answer, so every pointer is unknown.

    `watch_quiet`: whether a watch whose invariant holds has nothing pending; None where that is not asked.
    """

    tip: str
    tree: TreeState
    stores: Stores | None
    safe: SafePoint
    gate: GateVerdict
    done: DoneVerdict | None
    candidates: tuple[str, ...]
    in_flight: frozenset[str]
    watch_quiet: bool | None = None


class Measure:
    """Looks at one leg's worktree, stores and records."""

    def __init__(self, relay: Relay, leg: Leg, policy: Policy, view: LegView, commands: Commands) -> None:
        self.relay, self.leg, self.policy, self.view, self.commands = relay, leg, policy, view, commands
        self.worktree = git.tree(relay)
        self.git = git.store(relay)
        self._counted: tuple[tuple[str, int], progress.Made] | None = None
        self.lost_host = ""  # set when the leg ran on a host that fell silent: its tree cannot be seen from here
        self._starts: list[datetime] | None = None  # of the last hour: none is added while this leg runs
        self._lost: tuple[str, bool] | None = None  # (tip, whether earlier work is gone from it): asked once for a tip

    def warm(self) -> None:
        """Ask now, while the agent works, what is asked once a leg; what fails is asked again where it counts."""
        with contextlib.suppress(StoreUnavailable):
            self.git.reached(reload.stores_for(self.relay, self.git).tip, ())
            self.worktree.entries()
        self.cap(timezone.now())

    def look(self, *, statement_required: bool, candidates: tuple[str, ...] | None = None) -> Measured:
        """Tree as the agent left it, every backing pointer, done_when at the tip."""
        view = self.view
        stores: Stores | None = None
        why = ""
        self.worktree.foresee()  # git looks at the tree while the stores are opened, where it does not do so already
        try:
            stores = reload.stores_for(self.relay, self.git)
        except StoreUnavailable as error:
            why = error.evidence
        done = reload.judge_done(self.relay, stores) if stores is not None else None
        tree = self.worktree.state(view.tree_parked)
        if self.lost_host:
            # "its leg closes at the last recorded tip, tree unknown": what lies here is not what the agent left there
            tree = TreeState(
                dirty=(recorded("the tree on %(lost_host)s cannot be seen from here", lost_host=self.lost_host),),
                known=False,
            )
        named = view.next_actions if candidates is None else candidates
        in_flight = frozenset(view.in_flight)
        running = [safepoint.running(tool, name) for tool, name in sorted(view.in_flight.items())]
        safe = safepoint.judge(running, tree, safepoint.choose_next_action(named))
        facts = self._facts(tree, stores)
        answers = self._answers(facts, stores, why)
        gate = externalize.gate(
            facts, answers, statement_required=statement_required, statement_holds=view.externalized
        )
        tip = stores.tip if stores is not None else self.leg.end_sha
        if self.lost_host:
            tip = self._recorded_tip() or tip
        # a question without a pointer refuses the gate; one with a pointer goes into the baton and is open there
        quiet = pending.quiet(self.relay, stores, done, [record.label for record in view.questions])
        return Measured(tip, tree, stores, safe, gate, done, named, in_flight, quiet)

    def boundary_view(
        self, measured: Measured, *, draining: str, drain_over: bool, now: datetime, ceiling: bool
    ) -> BoundaryView:
        """The values of one boundary. Progress is counted only where an axis is crossed: it costs a few processes."""
        crossed = rotation.crossed(self.axes(now))
        may_arm = True
        if crossed is not None and not self.leg.armed:
            since = self.verified_total(measured) - self.relay.progress_at_arm
            may_arm = rotation.may_arm(self.relay.armed_legs, since, self.policy.min_progress)
        return BoundaryView(
            mode=Mode(self.relay.mode),
            armed=self.leg.armed,
            crossed=crossed,
            may_arm=may_arm,
            in_flight=measured.in_flight,
            tree=measured.tree,
            safe=measured.safe,
            gate=measured.gate,
            done=measured.done,
            # a watch of which it was not asked does not hold, so it is not done either
            watch_quiet=bool(measured.watch_quiet) if self.relay.watch else None,
            ceiling=ceiling,
            draining=draining,
            drain_over=drain_over,
            cap=self.cap(now),
            green=self.green(measured.tip),
            final=self.view.final,
            told=bool(self.leg.told_hold),
        )

    def _recorded_tip(self) -> str:
        """The branch tip that the leg's last boundary saw, else the one that it started from."""
        last = Boundary.objects.filter(leg=self.leg).order_by("-number").values_list("decision", flat=True).first()
        return str((last or {}).get("tip") or self.leg.cursor_sha)

    def axes(self, now: datetime) -> tuple[rotation.AxisUse, ...]:
        """Per-leg use of each axis, counted from the leg's start."""
        wall = now - self.leg.started_at if self.leg.started_at else timedelta(0)
        return rotation.axis_uses(
            self.policy,
            self.leg.window_tokens,
            self.view.resident,
            self.view.turns,
            wall,
            self.view.spend,
            self.view.total.output,
        )

    def cap(self, now: datetime) -> rotation.CapVerdict:
        if self._starts is None or not self.leg.started_at:
            self._starts = successor.starts(self.relay, now)
        return rotation.cap(self._starts, now, self.policy.rotations_per_hour)

    def green(self, tip: str) -> Green:
        if not self.policy.green:
            return Green.NONE
        result = self.commands.green_result(tip)
        if result is None:
            return Green.NOT_KNOWN
        return Green.PASSED if result.passed else Green.FAILED

    def ceiling(self) -> bool:
        view = self.view
        return rotation.ceiling_hit(
            view.resident, view.last_growth, view.output, view.new_results, self.leg.ceiling_tokens
        )

    def verified_total(self, measured: Measured) -> int:
        """The relay's verified progress with what this leg made until now."""
        made = self.made(measured)
        return rotation.verified_total(self.relay.progress_total, made.progress.total if made else None)

    def made(self, measured: Measured) -> progress.Made | None:
        """Verified progress of this leg; None where the stores do not answer.

        Counted once for one tip and the same events: arming asks for it twice, and an end is judged twice.
        """
        if measured.stores is None:
            return None
        known = (measured.tip, self.view.last_seq)
        if self._counted is None or self._counted[0] != known:
            try:
                self._counted = known, progress.of_leg(self.relay, self.leg, measured.stores, self.worktree)
            except StoreUnavailable:
                return None
        return self._counted[1]

    def _facts(self, tree: TreeState, stores: Stores | None) -> tuple[LoadBearing, ...]:
        view = self.view
        declared = [
            LoadBearing(record.label, record.kind, record.durability, record.backing, "declared")
            for record in view.facts
        ]
        spoken = [
            LoadBearing(record.label, record.kind, "", record.backing, "declared")
            for record in (*view.decisions, *view.questions, *view.dead_ends)
        ]
        try:
            stashes = self.worktree.stash_count()
            off_branch = (
                self.worktree.off_branch(stores.git, stores.tip, self.leg.reflog_lines) if stores is not None else []
            )
            outside = self.worktree.files_outside(view.files_written)
            lost = self._cursor_lost(stores)
        except StoreUnavailable as error:
            # what could not be looked for is not proven absent: one entry that refuses
            stashes, off_branch, outside, lost = 0, [], [], ""
            spoken.append(
                LoadBearing(
                    recorded("traces that could not be looked for: %(evidence)s", evidence=error.evidence),
                    source="detected",
                )
            )
        detected = externalize.detect(
            tree=tree,
            stashes=stashes,
            open_todos=tuple(view.todos_open.values()),
            files_outside=tuple(outside),
            commits_off_branch=tuple(off_branch),
            declared=spoken,
            cursor_lost=lost,
        )
        return (*declared, *detected)

    def _cursor_lost(self, stores: Stores | None) -> str:
        """The commit that the leg started from, where the branch lost work up to it; else "". Raises StoreUnavailable.

        A branch that is set back below the cursor while the leg runs takes verified work of earlier legs away.
        """
        if stores is None:
            return ""
        cursor = self.leg.cursor_sha or self.relay.start_sha
        if self._lost is None or self._lost[0] != stores.tip:
            self._lost = stores.tip, bool(progress.rewritten(stores.git, cursor, stores.tip).lost)
        return cursor if self._lost[1] else ""

    def _answers(self, facts: tuple[LoadBearing, ...], stores: Stores | None, why: str) -> dict[str, Answer]:
        wanted: dict[str, pointers.Pointer] = {}
        answers: dict[str, Answer] = {}
        for fact in facts:
            if not fact.backing or fact.backing in wanted:
                continue
            try:
                wanted[fact.backing] = pointers.parse_pointer(fact.backing)
            except pointers.PointerError as error:
                answers[fact.backing] = Answer(Verdict.DANGLING, f"not a pointer: {error}")
        if stores is None:
            return answers | {backing: Answer(Verdict.UNKNOWN, why) for backing in wanted}
        resolved = stores.resolve(list(wanted.values()))
        return answers | {backing: resolved[pointer] for backing, pointer in wanted.items()}


#: what the detector finds about a thing that the agent declared: it has a row of its own already
SPOKEN = frozenset({Fact.Kind.DECISION, Fact.Kind.OPEN_QUESTION, Fact.Kind.DEAD_END})
DETECTED_KEPT = 200  # rows of a leg; the last one says how many more there are


def keep_verdicts(leg: Leg, gate: GateVerdict) -> None:
    """Write what was judged, for the pages: each declared fact's verdict beside it, and what the detector found.

    Few statements, whatever the number of facts. Detected facts are the present ones: judged again, they are replaced.
    """
    judged = {
        (fact.label, fact.backing): (str(verdict or ""), evidence[:2000])
        for fact, verdict, evidence in gate.facts
        if fact.source == "declared" or fact.kind in SPOKEN
    }
    changed: dict[tuple[str, str], list[int]] = {}
    stored: dict[int, tuple[str, ...]] = {}
    columns = ("pk", "kind", "seq", "label", "durability", "backing", "verdict", "evidence")
    for pk, kind, seq, *rest in Fact.objects.filter(leg=leg).values_list(*columns).iterator(chunk_size=2000):
        if kind == Fact.Kind.DETECTED:
            stored[seq] = tuple(rest)
            continue
        label, _, backing, verdict, evidence = rest
        found = judged.get((label, backing))
        if found is not None and found != (verdict, evidence):
            changed.setdefault(found, []).append(pk)
    for (verdict, evidence), pks in changed.items():
        for start in range(0, len(pks), 500):
            Fact.objects.filter(pk__in=pks[start : start + 500]).update(verdict=verdict, evidence=evidence)
    _keep_detected(leg, gate, stored)


def _keep_detected(leg: Leg, gate: GateVerdict, stored: Mapping[int, tuple[str, ...]]) -> None:
    """One row for each thing that the detector found: its kind stands where a declared fact has its class."""
    found = [
        (plain(fact.label)[:500], fact.kind, fact.backing, str(verdict or ""), evidence[:2000])
        for fact, verdict, evidence in gate.facts
        if fact.source == "detected" and fact.kind not in SPOKEN
    ]
    if len(found) > DETECTED_KEPT:
        more = len(found) - DETECTED_KEPT + 1
        found = [
            *found[: DETECTED_KEPT - 1],
            (recorded("%(more)s more findings of the detector", more=f"{more:,}"), "fact", "", "", ""),
        ]
    if found == [stored[seq] for seq in sorted(stored)]:
        return
    now = timezone.now()
    Fact.objects.filter(leg=leg, kind=Fact.Kind.DETECTED).delete()
    Fact.objects.bulk_create(
        Fact(
            leg=leg, seq=seq, kind=Fact.Kind.DETECTED, label=label, durability=kind, backing=backing, verdict=verdict,
            evidence=evidence, at=now,
        )
        for seq, (label, kind, backing, verdict, evidence) in enumerate(found)
    )  # fmt: skip
