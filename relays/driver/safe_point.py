"""A look at a relay from outside its supervisor: may its leg stop here, and if not, why.

Interface: "`safe_point` (may I stop here, and if not, why)". Judged from what is recorded and from the tree and the
stores as they stand; no claim is taken, nothing is written, no command runs and the leg is not asked.
"""

from dataclasses import dataclass

from relays.core import baton as batons
from relays.core.boundary import owes_statement
from relays.core.donewhen import Truth
from relays.core.events import Event as CoreEvent
from relays.core.externalize import FIXES, STATEMENT, GateVerdict
from relays.core.legview import LegView
from relays.core.safepoint import TreeState
from relays.core.vocabulary import Hold, Mode, strongest
from relays.driver import budgets, commands
from relays.driver.measure import Measure, Measured
from relays.models import LIVE_STATES, Baton, CommandResult, Event, Leg, LegState, Relay


@dataclass(frozen=True, slots=True)
class FactSeen:
    """One load-bearing fact: `verdict` None where there is no pointer to judge; `fix` is "" where it passes."""

    label: str
    backing: str
    verdict: str | None
    fix: str


@dataclass(frozen=True, slots=True)
class Look:
    """Whether the leg may stop here. `hold`: the strongest reason why not, the gate's refusal included.

    `live`: the leg runs; else it has ended, and what is shown is how it was left. `done` None: a store did not answer.
    """

    relay: str
    leg: int
    live: bool
    safe: bool
    hold: Hold | None
    armed: bool
    in_flight: tuple[str, ...]
    tree: TreeState
    next_actions: tuple[str, ...]
    admit: bool
    facts: tuple[FactSeen, ...]
    done: bool | None

    @property
    def may_stop(self) -> bool:
        """Safe point and gate."""
        return self.safe and self.admit


def look(relay: Relay) -> Look | None:
    """Look at the relay's running leg, else at the one that ended last; None where no leg has run yet.

    Raises StoreUnavailable where the repository itself is not there.
    """
    legs = Leg.objects.filter(relay=relay).order_by("-number")
    leg = legs.filter(state__in=LIVE_STATES).first() or legs.filter(state=LegState.ENDED).first()
    if leg is None:
        return None
    live = leg.state in LIVE_STATES
    view = _view(leg)
    candidates = view.next_actions
    if not live:
        view.in_flight.clear()  # whatever ran has ended with its leg
        candidates = _handed_over(relay) or candidates
    policy = budgets.policy_of(relay)
    measure = Measure(relay, leg, policy, view, commands.Commands(relay, policy))
    required = live and owes_statement(Mode(relay.mode), armed=leg.armed, draining=leg.drain_reason)
    measured = measure.look(statement_required=required, candidates=candidates)
    holds = set(measured.safe.holds)
    if policy.green and green_failed(relay, policy.green, measured.tip):
        holds.add(Hold.NOT_AT_SAFE_POINT)
    safe = not holds
    if not measured.gate.admit:
        holds.add(Hold.NOT_EXTERNALIZED)
    return Look(
        relay=relay.pk,
        leg=leg.number,
        live=live,
        safe=safe,
        hold=strongest(frozenset(holds)),
        armed=leg.armed,
        in_flight=tuple(sorted(measured.in_flight)),
        tree=measured.tree,
        next_actions=tuple(measured.candidates),
        admit=measured.gate.admit,
        facts=_facts(measured.gate),
        done=_done(relay, measured),
    )


def _done(relay: Relay, measured: Measured) -> bool | None:
    """Whether the goal holds at the tip; a watch is done, for this leg, only with nothing pending."""
    done = measured.done
    if done is None or done.truth is Truth.UNKNOWN:
        return None
    return done.truth is Truth.TRUE and (bool(measured.watch_quiet) or not relay.watch)


def _view(leg: Leg) -> LegView:
    """The leg's records folded as its supervisor folded them."""
    view = LegView()
    for row in Event.objects.filter(leg=leg).order_by("pk").iterator(chunk_size=500):
        view.apply(CoreEvent(kind=row.kind, seq=row.seq, at=row.at, payload=row.payload, known=row.known))
    return view


def _handed_over(relay: Relay) -> tuple[str, ...]:
    """The next action of the current baton: after a leg's end it stands there, perhaps chosen by a person."""
    text = Baton.objects.filter(relay=relay, current=True).values_list("text", flat=True).first()
    baton = batons.read(text, budgets.policy_of(relay).baton).baton if text else None
    return (baton.next_action,) if baton is not None and baton.next_action else ()


def green_failed(relay: Relay, command: str, tip: str) -> bool:
    """Whether the kept answer of the green command for this tip is no; without one nothing is held against it."""
    kept = CommandResult.objects.filter(relay=relay, command=command, tip=tip).order_by("-at", "-pk").first()
    return kept is not None and not kept.passed


def _facts(gate: GateVerdict) -> tuple[FactSeen, ...]:
    fixes = {(one.label, one.backing): one.fix for one in gate.culprits}
    found = [
        FactSeen(
            fact.label,
            fact.backing,
            None if verdict is None else str(verdict),
            fixes.get((fact.label, fact.backing), ""),
        )
        for fact, verdict, _ in gate.facts
    ]
    owed = [one for one in gate.culprits if one.label == STATEMENT and one.fix == FIXES["statement"]]
    return (*found, *(FactSeen(one.label, one.backing, None, one.fix) for one in owed))
