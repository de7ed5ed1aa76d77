"""What enforce would have done, in a leg that is only watched: recorded at the boundary, judged by what came later.

rules.md, Advisory before enforcement: "nothing is changed: the would-be arm, hold, gate, baton and verdict are recorded
and scored". No ledger row, no ref and no request is made for it; only the record of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction

from relays.core import baton as batons
from relays.core import fidelity
from relays.core import progress as core_progress
from relays.core.boundary import BoundaryDecision, Green
from relays.core.lifecycle import EndDecision, judge_end
from relays.core.lines import recorded
from relays.core.reload import pointers_of
from relays.core.vocabulary import Cause
from relays.driver import baton_maker, budgets, progress, successor
from relays.driver.changes import bump, topic
from relays.driver.claim import Claim
from relays.driver.ending import end_view
from relays.driver.measure import Measure, Measured
from relays.models import Boundary, Leg, Relay, WouldBe
from relays.stores.base import StoreUnavailable
from relays.stores.bundle import Stores

PER_LEG = 64  # ends that are kept of one leg: what comes after them says nothing new
ALIKE = ("end", "hold", "done")  # a safe leg that goes on to its ceiling would still have rotated once
PER_RELOAD = 256  # ends that one reload judges
REACH = 16  # legs back that a reload looks for them: what no store answered for since stays not yet


@dataclass(frozen=True, slots=True)
class WouldEnd:
    """One end that enforce would have judged. `text` "" = no baton could be made, `why_none` says why."""

    decision: EndDecision
    text: str = ""
    digest: str = ""
    moved: int = 0
    why_none: str = ""


def end_at(measure: Measure, decision: BoundaryDecision, measured: Measured) -> tuple[dict[str, Any], WouldEnd | None]:
    """What the boundary keeps of the would-be decision, and the end itself where it is the first of its kind.

    Boundary after boundary where enforce would have ended the leg alike are one end: in enforce there is no second.
    Takes no lock and writes nothing. ({}, None) where the decision was carried out.
    """
    would = dict(decision.would)
    if not would or not decision.would["end"]:
        return would, None
    would["done"] = str(measured.done.truth) if measured.done else ""
    before = _last(measure.leg)
    if before.get("kept") and all(before.get(key) == would[key] for key in ALIKE):
        return {**would, "kept": True}, None
    if _green_is_awaited(measure, decision, measured) or (WouldBe.objects.filter(leg=measure.leg).count() >= PER_LEG):
        return {**would, "kept": False}, None
    end = _judge(measure, decision, measured)
    return {**would, "kept": True, "reason": str(end.decision.reason), "moved": end.moved}, end


def keep(leg: Leg, boundary: Boundary, end: WouldEnd, now: datetime) -> None:
    """Write the end beside its boundary, inside the caller's transaction; a repeated boundary keeps its first one."""
    WouldBe.objects.get_or_create(
        boundary=boundary,
        defaults={
            "leg": leg,
            "reason": end.decision.reason,
            "cause": end.decision.cause,
            "hold": end.decision.hold,
            "text": end.text,
            "digest": end.digest,
            "why_none": end.why_none[:500],
            "at": now,
        },
    )


def judge(relay: Relay, stores: Stores | None, claim: Claim, now: datetime) -> int:
    """Judge the batons that earlier legs would have written, at the following leg's reload; how many were judged.

    One batch of questions for all of them, over ALL their pointers as for a real one. One with an unknown pointer is
    asked about again at the next reload. Raises LostClaim.
    """
    if stores is None:
        return 0
    since = (successor.last_number(relay.pk) or 0) - REACH
    waiting = WouldBe.objects.filter(leg__relay=relay, leg__number__gte=since, leg__state="ended").exclude(text="")
    rows = list(waiting.exclude(judged_at__isnull=False, unknown=0).order_by("-id")[:PER_RELOAD])
    bounds = budgets.policy_of(relay).baton
    read = {row.pk: baton for row in rows if (baton := batons.read(row.text, bounds).baton) is not None}
    places = {pk: [at.pointer for at in pointers_of(baton) if at.pointer is not None] for pk, baton in read.items()}
    if not places:
        return 0
    answers = stores.resolve(pointer for pointers in places.values() for pointer in pointers)
    with transaction.atomic():
        claim.hold(now)
        for pk, pointers in places.items():
            score = fidelity.score(str(answers[pointer].verdict) for pointer in pointers)
            WouldBe.objects.filter(pk=pk).update(
                verified=score.verified, dangling=score.dangling, unknown=score.unknown, judged_at=now
            )
        bump(topic(relay.pk))
    return len(places)


def _last(leg: Leg) -> Mapping[str, Any]:
    """What the boundary before this one kept of its would-be decision."""
    last = Boundary.objects.filter(leg=leg).order_by("-number").values_list("decision", flat=True).first()
    return (last or {}).get("would") or {}


def _green_is_awaited(measure: Measure, decision: BoundaryDecision, measured: Measured) -> bool:
    """At the ceiling enforce runs the green command for the tip; here it is started, and the end is judged later."""
    if decision.would["cause"] != Cause.CEILING or not (measured.safe.safe and measured.gate.admit):
        return False
    return measure.green(measured.tip) is Green.NOT_KNOWN


def _judge(measure: Measure, decision: BoundaryDecision, measured: Measured) -> WouldEnd:
    """The end as `enforce` judges it, and the baton that it would hand over."""
    made, why = None, recorded("the repository did not answer")
    if measured.stores is not None:
        try:
            made = progress.of_leg(measure.relay, measure.leg, measured.stores, measure.worktree)
        except StoreUnavailable as error:
            why = error.evidence
    run = core_progress.after_leg(measure.relay.empty_run, made.progress.total if made else None)
    cause = Cause(str(decision.would["cause"])) if decision.would["cause"] else None
    ended = judge_end(end_view(measure, measured, run, cause))
    if made is None:
        return WouldEnd(ended, why_none=why)
    try:
        parts = baton_maker.gather(measure.leg, measured, made)
        draft = baton_maker.draft(measure.relay, measure.leg, measured, parts, ended)
        return WouldEnd(ended, batons.canonical(draft.baton).decode(), batons.digest(draft.baton), draft.moved)
    except (StoreUnavailable, batons.BatonError) as error:
        return WouldEnd(ended, why_none=recorded("no baton could be made: %(error)s", error=error))
