"""The resident view of a relay: which spans are in the window of its newest leg, which are not, why, and the way back.

Mission: "The resident view is a bounded working set over a lossless store. A span that leaves the current view is cold,
not forgotten." Rules: "Spans: seed parts, recalled records, the leg's turns. A leg's own spans are selected until it
closes, then elided with digest and reason". Counts come from roll-ups; spans are listed from stored records.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet

from relays.core import readout, residency
from relays.core.lines import recorded
from relays.models import LIVE_STATES, Baton, Leg, PageFault, Relay, ResetTransaction
from relays.reports import userfacts

SHOWN = 50


@dataclass(frozen=True, slots=True)
class Selected:
    """A span that is resident: a part of the seed, a recalled record, or the turns so far of a leg that is open."""

    role: str
    what: str
    digest: str
    leg: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class Elided:
    """Turns of a closed leg. `handle` names them in the records; `digest` is "" where none was ever recorded."""

    leg: int
    index: int
    count: int
    digest: str
    reason: str
    handle: str


@dataclass(frozen=True, slots=True)
class View:
    """What the newest started leg has in its window, and one page of what it has not."""

    selected: tuple[Selected, ...]
    elided: tuple[Elided, ...]
    older: str


def newest_leg(relay: Relay) -> Leg | None:
    return Leg.objects.filter(relay=relay, started_at__isnull=False).order_by("-number").first()


def counts(relay: Relay, newest: Leg | None) -> readout.ResidentCounts | None:
    """The figures of the readout's line. At most five queries.

    None before a leg has started, and where a closed leg's turns have no digest: a plan that elides what could not be
    found again is refused, so nothing is claimed.
    """
    if newest is None or _closed(relay).filter(turns_digest="", reset_out=None).exists():
        return None
    found = PageFault.objects.filter(leg__relay=relay).order_by().values_list("leg", "outcome").annotate(n=Count("id"))
    faults = residency.tally_faults((outcome, n) for _, outcome, n in found)
    recalled = residency.tally_faults((outcome, n) for leg, outcome, n in found if leg == newest.pk).served
    own = newest.turns if newest.state in LIVE_STATES else 0
    return readout.ResidentCounts(
        selected=len(_seed_parts(relay, newest)) + recalled + own,
        elided=relay.turns_used - own,
        served=faults.served,
        refused=faults.refused,
    )


def view(relay: Relay, before: int | None = None) -> View | None:
    """The spans behind the figures, elided ones newest leg first, those of legs before `before` where it is given."""
    newest = newest_leg(relay)
    if newest is None:
        return None
    selected = [
        Selected("seed", str(part.get("pointer") or part.get("kind", "")), str(part.get("digest", "")), newest.number)
        for part in _seed_parts(relay, newest)
    ]
    served = PageFault.objects.filter(leg=newest, outcome=residency.FaultOutcome.PAGE_IN).order_by("seq")
    selected += [Selected("recalled", f"{row.kind}:{row.ref}", "", newest.number) for row in served[:SHOWN]]
    if newest.state in LIVE_STATES and newest.turns:
        selected.append(Selected("turn", f"turns 1 to {newest.turns}", "", newest.number, newest.turns))
    closed = _closed(relay).order_by("-number")
    if before is not None:
        closed = closed.filter(number__lt=before)
    legs = list(closed[: SHOWN + 1])
    shown = legs[:SHOWN]
    rotations = {row.old_leg_id: row for row in ResetTransaction.objects.filter(old_leg__in=shown)}
    elided = [span for leg in shown for span in _spans(leg, rotations.get(leg.pk))]
    return View(tuple(selected), tuple(elided), str(shown[-1].number) if len(legs) > SHOWN else "")


def _closed(relay: Relay) -> QuerySet[Leg]:
    return Leg.objects.filter(relay=relay, turns__gt=0).exclude(state__in=LIVE_STATES)


def _spans(leg: Leg, rotation: ResetTransaction | None) -> list[Elided]:
    """The turns of one closed leg: as its rotation recorded them, the first few one by one."""
    omitted = list(rotation.omitted or ()) if rotation else []
    if not omitted:
        return _planned(leg)
    listed = omitted if len(omitted) <= 4 else omitted[:3]
    spans = [
        Elided(leg.number, span["index"], span.get("count", 1), span["digest"], span["reason"],
               f"{leg.trace}/{span['index']}")
        for span in listed
    ]  # fmt: skip
    rest = omitted[len(listed) :]
    if rest:
        count = sum(span.get("count", 1) for span in rest)
        first = rest[0]
        more = recorded("%(why)s; %(n)d digests, the first one shown", why=first["reason"], n=len(rest))
        spans.append(Elided(leg.number, first["index"], count, first["digest"], more, f"{leg.trace}/{first['index']}"))
    return spans


def _planned(leg: Leg) -> list[Elided]:
    """The turns of a leg that handed over nothing yet, by the one digest that was kept when it closed."""
    span = residency.Span(f"{leg.trace}/1", leg.number, "turn", leg.turns_digest)
    try:
        (elided,) = residency.plan([span], open_leg=None).elided
    except residency.PlanRefused as refused:
        return [Elided(leg.number, 1, leg.turns, "", recorded("not yet: %(why)s", why=refused), span.id)]
    return [Elided(leg.number, 1, leg.turns, elided.digest, elided.reason, elided.id)]


def _seed_parts(relay: Relay, leg: Leg) -> list[Mapping[str, Any]]:
    """What the leg began with: as its rotation recorded it, else what the rules have such a leg begin with."""
    rotation = ResetTransaction.objects.filter(new_leg=leg).first()
    if rotation is not None:
        return [part for part in rotation.contributors or () if isinstance(part, dict)]
    parts: list[Mapping[str, Any]] = [
        {"kind": "preamble"},
        {"kind": "objective_pin", "digest": relay.objective_digest},
    ]
    handed = Baton.objects.filter(relay=relay, leg__number__lt=leg.number, at__lte=leg.started_at).order_by("-pk")
    digest = handed.values_list("digest", flat=True).first()
    if digest:
        parts.append({"kind": "baton", "digest": digest})
    parts += [{"kind": "user_fact", "pointer": one.pointer} for one in userfacts.standing(relay.pk, leg.started_at)]
    return parts
