"""Project the closing leg's records into a baton: pointers that resolve, nothing that anybody wrote as prose.

Mission: "Carryover is not model-sampled at rotation time; it is a projection of records the model already committed
through the normal, witnessed work path."
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from relays.core import baton as batons
from relays.core import overflow, pointers, safepoint
from relays.core.baton import Artifact, Cursor, TombstoneRecord
from relays.core.lifecycle import EndDecision
from relays.core.lines import recorded
from relays.core.pointers import Answer, Kind, Pointer, Verdict
from relays.core.vocabulary import Reason
from relays.driver import budgets, rebaton
from relays.driver.measure import Measured
from relays.driver.progress import Made
from relays.models import Baton, Decision, Fact, LedgerRow, Leg, Promotion, Relay


@dataclass(frozen=True, slots=True)
class Parts:
    """What of a leg resolves now; asked of the stores before the transaction."""

    artifacts: tuple[Artifact, ...]
    questions: tuple[str, ...]
    dead_ends: tuple[str, ...]
    judged: tuple[tuple[str, str, str], ...]  # of each declared artifact: backing, verdict, evidence
    answered: frozenset[str] = frozenset()  # carried questions whose issue is closed at the tip: they leave
    gone: tuple[str, ...] = ()  # carried entries whose pointer does not resolve any more: they would make it stale


@dataclass(frozen=True, slots=True)
class Draft:
    """A baton that was only thought of: nothing is written for it. `moved`: entries that a ledger row would list."""

    baton: batons.Baton
    moved: int


def gather(leg: Leg, measured: Measured, made: Made | None) -> Parts:
    """Resolve everything that the leg made and declared; what does not resolve stays a fact of the leg."""
    entries = _entries(leg, measured)
    previous = _previous(leg.relay)
    carried = (*previous.open_questions, *previous.do_not_rederive) if previous else ()
    answers = _answers((*carried, *entries["open_question"]), measured)
    told = _told(leg)
    closed = {entry for entry, answer in answers.items() if _closed(entry, answer)}
    closed |= {entry for entry in entries["open_question"] if str(pointers.parse_entry(entry)[0]) in told}
    return Parts(
        _artifacts(leg, measured, made),
        tuple(entry for entry in entries["open_question"] if entry not in closed),
        entries["dead_end"],
        _judged(leg, measured),
        answered=frozenset(closed.intersection(previous.open_questions if previous else ())),
        gone=tuple(entry for entry in carried if entry in answers and answers[entry].verdict is Verdict.DANGLING),
    )


def make(
    relay: Relay, leg: Leg, measured: Measured, parts: Parts, decision: EndDecision, wip: str, now: datetime
) -> batons.Baton:
    """The baton of a closing leg, inside the caller's transaction: it writes the ledger row of what has no room."""
    baton, carried = _compose(relay, leg, measured, parts, decision, wip)
    bounds = budgets.policy_of(relay).baton
    baton = rebaton.fit(relay, leg, baton, bounds, now, carried=carried)
    batons.check_new(baton, bounds)
    return baton


def draft(relay: Relay, leg: Leg, measured: Measured, parts: Parts, decision: EndDecision) -> Draft:
    """The baton that `make` would write here, without its ledger row and without storing any work."""
    baton, carried = _compose(relay, leg, measured, parts, decision, "")
    bounds = budgets.policy_of(relay).baton
    fitted = overflow.fit(baton, bounds, head=rebaton.overflow_row(relay, leg), carried=carried)
    batons.check_new(fitted.baton, bounds)
    return Draft(fitted.baton, len(fitted.moved))


def _compose(
    relay: Relay, leg: Leg, measured: Measured, parts: Parts, decision: EndDecision, wip: str
) -> tuple[batons.Baton, frozenset[str]]:
    """The whole baton, whatever its size, and the entries in it that earlier legs handed over.

    `start_sha` = the branch tip when the leg ended. Questions and dead ends are carried over; one that the leg stated
    again is as young as the leg.
    """
    tip = measured.tip or leg.cursor_sha or relay.start_sha
    previous = _previous(relay)
    leaves = {*parts.answered, *parts.gone}
    questions, dead_ends = (
        tuple(entry for entry in was if entry not in leaves and entry not in own)
        for was, own in (
            (previous.open_questions if previous else (), parts.questions),
            (previous.do_not_rederive if previous else (), parts.dead_ends),
        )
    )
    baton = batons.Baton(
        relay_id=relay.pk,
        leg=leg.number,
        parent_trace=leg.trace,
        objective=relay.pin,
        done_when=relay.done_when,
        cursor=Cursor(
            start_sha=tip,
            ledger_ref=_last_row(relay, previous),
            wip_tree=wip,
            held_region=tuple(relay.region),
        ),
        next_action=safepoint.choose_next_action(measured.candidates).text or "",
        open_questions=batons.unique((*questions, *parts.questions)),
        artifacts=(*rebaton.mirrors_owed(relay, leg, previous), *parts.artifacts),
        do_not_rederive=batons.unique((*dead_ends, *parts.dead_ends)),
        tombstone=TombstoneRecord(decision.reason, tip, note(leg, decision)),
    )
    return baton, frozenset((*questions, *dead_ends))


def _previous(relay: Relay) -> batons.Baton | None:
    """The relay's current baton, or None before the first."""
    row = Baton.objects.filter(relay=relay, current=True).first()
    return rebaton.read(row) if row else None


def note(leg: Leg, decision: EndDecision) -> str:
    """A template filled from records; agent text never enters it."""
    of = {"leg": leg.number, "turns": leg.turns}
    if decision.reason is Reason.PARKED_UNSAFE:
        why = {**of, "cause_word": decision.cause, "hold": decision.hold}
        if decision.hold:
            return recorded(
                "leg %(leg)d ended after %(turns)d turns without a safe point: %(cause_word)s; held by %(hold)s", **why
            )
        return recorded("leg %(leg)d ended after %(turns)d turns without a safe point: %(cause_word)s", **why)
    words = {
        Reason.ROTATED: recorded("leg %(leg)d rotated at a safe point after %(turns)d turns", **of),
        Reason.GOAL_DONE: recorded("leg %(leg)d ended with done_when true after %(turns)d turns", **of),
        Reason.NO_PROGRESS: recorded(
            "leg %(leg)d ended without verified progress once too often after %(turns)d turns", **of
        ),
        Reason.IDLE_PARKED: recorded("leg %(leg)d ended with the invariant true after %(turns)d turns", **of),
    }
    return words.get(decision.reason) or recorded("leg %(leg)d ended after %(turns)d turns", **of)


def assessment(
    leg: Leg, made: Made | None, parts: Parts, decision: EndDecision, wip: str, wip_error: str
) -> dict[str, Any]:
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
        "gone": [str(pointers.parse_entry(entry)[0]) for entry in parts.gone[:50]],
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
    promoted = Promotion.objects.filter(leg=leg, outcome="promoted").order_by("seq").values_list("slug", flat=True)
    declared = Fact.objects.filter(leg=leg, kind__in=["artifact", "fact", "decision"]).values_list("backing", flat=True)
    for backing in (*(f"{Kind.MEMORY}:{slug}" for slug in promoted), *declared):
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


def _answers(entries: tuple[str, ...], measured: Measured) -> dict[str, Answer]:
    """What the stores say of each entry's pointer; nothing where they do not answer, or an entry names none."""
    named = {entry: pointer for entry in entries if (pointer := pointers.parse_entry(entry)[0]) is not None}
    if measured.stores is None or not named:
        return {}
    answers = measured.stores.resolve(named.values())
    return {entry: answers[pointer] for entry, pointer in named.items()}


def _closed(entry: str, answer: Answer) -> bool:
    """A question that is filed as an issue which is closed at the tip: answered, by the store's own word."""
    pointer, _ = pointers.parse_entry(entry)
    filed = pointer is not None and pointer.kind is Kind.ISSUE
    return filed and answer.verdict is Verdict.VERIFIED and answer.detail.get("state") == "closed"


def _told(leg: Leg) -> frozenset[str]:
    """Pointers of questions that a person answered while the leg ran: the decision's mirror crosses in their place."""
    said = Decision.objects.filter(relay=leg.relay_id, act="answer", at__gte=leg.started_at or leg.relay.created_at)
    return frozenset(str(detail.get("question")) for detail in said.values_list("detail", flat=True))


def _last_row(relay: Relay, previous: batons.Baton | None) -> str:
    """The newest row of the relay's ledger; "" where it has none.

    It is the one that the baton before points at, or of a leg since the one that wrote it; older rows are not read.
    """
    rows = LedgerRow.objects.order_by("-at", "-id").values_list("at", "id")
    if previous is None:
        found = [rows.filter(relay=relay).first()]
    else:
        since = rows.filter(leg__relay=relay, leg__number__gte=previous.leg)
        found = [since.first(), rows.filter(pk=previous.cursor.ledger_ref).first()]
    return max((row for row in found if row), default=(None, ""))[1]
