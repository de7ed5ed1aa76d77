"""Project the closing leg's records into a baton: pointers that resolve, nothing that anybody wrote as prose.

Mission: "Carryover is not model-sampled at rotation time; it is a projection of records the model already committed
through the normal, witnessed work path."
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from relays.core import baton as batons
from relays.core import pointers, safepoint
from relays.core.baton import Artifact, Cursor, TombstoneRecord
from relays.core.lifecycle import EndDecision
from relays.core.pointers import Kind, Pointer, Verdict
from relays.core.vocabulary import Reason
from relays.driver import budgets, rebaton
from relays.driver.measure import Measured
from relays.driver.progress import Made
from relays.models import Baton, Fact, LedgerRow, Leg, Relay


@dataclass(frozen=True, slots=True)
class Parts:
    """What of a leg resolves now; asked of the stores before the transaction."""

    artifacts: tuple[Artifact, ...]
    questions: tuple[str, ...]
    dead_ends: tuple[str, ...]
    judged: tuple[tuple[str, str, str], ...]  # of each declared artifact: backing, verdict, evidence


def gather(leg: Leg, measured: Measured, made: Made | None) -> Parts:
    """Resolve everything that the leg made and declared; what does not resolve stays a fact of the leg."""
    entries = _entries(leg, measured)
    return Parts(_artifacts(leg, measured, made), entries["open_question"], entries["dead_end"], _judged(leg, measured))


def make(
    relay: Relay, leg: Leg, measured: Measured, parts: Parts, decision: EndDecision, wip: str, now: datetime
) -> batons.Baton:
    """The baton of a closing leg. `start_sha` = the branch tip when the leg ended."""
    tip = measured.tip or leg.cursor_sha or relay.start_sha
    previous = Baton.objects.filter(relay=relay, current=True).first()
    carried = rebaton.read(previous) if previous else None
    chosen = safepoint.choose_next_action(measured.candidates)
    baton = batons.Baton(
        relay_id=relay.pk,
        leg=leg.number,
        parent_trace=leg.trace,
        objective=relay.pin,
        done_when=relay.done_when,
        cursor=Cursor(
            start_sha=tip,
            ledger_ref=_last_row(relay),
            wip_tree=wip,
            held_region=tuple(relay.region),
        ),
        next_action=chosen.text or "",
        open_questions=_unique((*(carried.open_questions if carried else ()), *parts.questions)),
        artifacts=parts.artifacts,
        do_not_rederive=_unique((*(carried.do_not_rederive if carried else ()), *parts.dead_ends)),
        tombstone=TombstoneRecord(decision.reason, tip, note(leg, decision)),
    )
    bounds = budgets.policy_of(relay).baton
    baton = rebaton.fit(relay, leg, baton, bounds, now)
    batons.check_new(baton, bounds)
    return baton


def note(leg: Leg, decision: EndDecision) -> str:
    """A template filled from records; agent text never enters it."""
    if decision.reason is Reason.PARKED_UNSAFE:
        held = f"; held by {decision.hold}" if decision.hold else ""
        return f"leg {leg.number} ended after {leg.turns} turns without a safe point: {decision.cause}{held}"
    words = {
        Reason.ROTATED: "rotated at a safe point",
        Reason.GOAL_DONE: "ended with done_when true",
        Reason.NO_PROGRESS: "ended without verified progress once too often",
        Reason.IDLE_PARKED: "ended with the invariant true",
    }
    return f"leg {leg.number} {words.get(decision.reason, 'ended')} after {leg.turns} turns"


def assessment(leg: Leg, made: Made | None, decision: EndDecision, wip: str, wip_error: str) -> dict[str, Any]:
    """The tombstone's self-assessment: figures from records, `not yet` (null) where none could be read."""
    return {
        "turns": leg.turns,
        "peak_tokens": leg.peak_tokens,
        "ceiling_tokens": leg.ceiling_tokens,
        "commits": len(made.progress.commits) if made else None,
        "issues": len(made.progress.issues) if made else None,
        "ledger_rows": len(made.progress.ledger) if made else None,
        "foreign": len(made.progress.foreign) if made else None,
        "outside_region": len(made.progress.outside) if made else None,
        "detail": list(decision.detail)[:50],
        "wip": wip,
        "wip_error": wip_error,
    }


def _artifacts(leg: Leg, measured: Measured, made: Made | None) -> tuple[Artifact, ...]:
    """What the leg made and what it declared, as far as it resolves now."""
    wanted: list[Pointer] = []
    if made is not None:
        wanted += [Pointer(Kind.COMMIT, sha) for sha in made.commits]
        wanted += [pointers.parse_pointer(issue) for issue in made.issues]
        wanted += [Pointer(Kind.LEDGER, row) for row in made.rows]
    for backing in Fact.objects.filter(leg=leg, kind__in=["artifact", "fact", "decision"]).values_list(
        "backing", flat=True
    ):
        try:
            wanted.append(pointers.parse_pointer(backing))
        except pointers.PointerError:
            continue
    return tuple(Artifact(p.kind, p.ref) for p in _verified(tuple(dict.fromkeys(wanted)), measured))


def _judged(leg: Leg, measured: Measured) -> tuple[tuple[str, str, str], ...]:
    """The verdict of every declared artifact, for the page: an artifact that does not resolve is in no baton."""
    backings = Fact.objects.filter(leg=leg, kind=Fact.Kind.ARTIFACT).values_list("backing", flat=True)
    if measured.stores is None:
        return ()
    asked = {}
    for backing in backings:
        try:
            asked[backing] = pointers.parse_pointer(backing)
        except pointers.PointerError:
            continue
    answers = measured.stores.resolve(asked.values())
    return tuple((backing, str(answers[p].verdict), answers[p].evidence) for backing, p in asked.items())


def keep_verdicts(leg: Leg, parts: Parts) -> None:
    """Write what was judged beside the artifacts, inside the caller's transaction."""
    for backing, verdict, evidence in parts.judged:
        Fact.objects.filter(leg=leg, kind=Fact.Kind.ARTIFACT, backing=backing).update(
            verdict=verdict, evidence=evidence[:2000]
        )


def _entries(leg: Leg, measured: Measured) -> dict[str, tuple[str, ...]]:
    """Questions and dead ends with a pointer that resolves; the others stay as facts on the leg and the gate."""
    found: dict[str, tuple[str, ...]] = {"open_question": (), "dead_end": ()}
    for kind in found:
        pairs: list[tuple[Pointer, str]] = []
        for label, backing in Fact.objects.filter(leg=leg, kind=kind).order_by("seq").values_list("label", "backing"):
            try:
                pairs.append((pointers.parse_pointer(backing), label))
            except pointers.PointerError:
                continue
        good = set(_verified(tuple(pointer for pointer, _ in pairs), measured))
        found[kind] = tuple(pointers.format_entry(pointer, label) for pointer, label in pairs if pointer in good)
    return found


def _verified(wanted: tuple[Pointer, ...], measured: Measured) -> tuple[Pointer, ...]:
    if measured.stores is None or not wanted:
        return ()
    answers = measured.stores.resolve(wanted)
    return tuple(pointer for pointer in wanted if answers[pointer].verdict is Verdict.VERIFIED)


def _last_row(relay: Relay) -> str:
    return LedgerRow.objects.filter(relay=relay).order_by("-at", "-id").values_list("id", flat=True).first() or ""


def _unique(entries: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(entries))
