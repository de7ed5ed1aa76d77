"""The legs of a relay as rows, and one leg whole: its turns, boundaries, facts, progress and tombstone.

Mission: "every leg ends with a typed tombstone". All counts are the roll-ups that the leg keeps; no page counts calls.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Count, Max, Min, Q, QuerySet, Sum

from relays.core import externalize
from relays.core.coverage import Coverage
from relays.core.lines import recorded
from relays.core.vocabulary import Category, Token, token
from relays.models import LIVE_STATES, Boundary, Call, Fact, Leg, LegState, Relay, ResetTransaction, Tombstone
from relays.reports import seed
from relays.reports.figures import whole
from relays.reports.made import FACTS, ProgressGroup, progress_groups, words
from relays.reports.sentences import told

SHOWN = 50
TURNS = 50
#: of what held at a boundary, in its row
DETAIL_CHARS = 200


def next_number(newest: Leg | None) -> int:
    """The number of the leg that a resume starts: one that was made and never ran keeps its own."""
    if newest is None:
        return 0
    return newest.number if newest.state == LegState.PENDING else newest.number + 1


@dataclass(frozen=True, slots=True)
class Held:
    """One hold reason with how often it held, and the first and last turn of the leg at which it did."""

    token: str
    count: int
    first_turn: int
    last_turn: int


@dataclass(frozen=True, slots=True)
class LegRow:
    """One line of the legs table. `None` = no record yet, 0 = counted and none. `seconds`: from the first event."""

    pk: int
    number: int
    state: str
    reason: str
    cause: str
    hold: str
    holds: tuple[Held, ...]
    armed: bool
    armed_axis: str
    advisory: bool
    drain_reason: str
    peak: int
    peak_turn: int
    resident: int
    mark: int
    ceiling: int
    window: int
    started_at: datetime | None
    ended_at: datetime | None
    seconds: float | None
    turns: int
    verified: int | None
    dangling: int | None
    unknown: int | None
    made: int | None
    reached: int | None
    progress: int | None
    issues: int | None
    commits: int | None
    spend: Decimal
    unpriced: int
    calls: int
    scripted: bool
    start_error: str

    @property
    def live(self) -> bool:
        return self.state in LIVE_STATES

    @property
    def word(self) -> Token | None:
        return token(self.reason) if self.reason else None

    @property
    def parked(self) -> bool:
        """A person is needed because of how this leg ended."""
        return self.word is not None and self.word.category is Category.OPERATOR_GATE

    @property
    def pointers(self) -> int | None:
        """Pointers with an answer (verified or dangling), as fidelity counts them; None before the next reload."""
        return None if self.verified is None or self.dangling is None else self.verified + self.dangling

    @property
    def fidelity_text(self) -> str:
        """`9/14`: verified of those with an answer."""
        return "" if self.pointers is None else f"{self.verified}/{self.pointers}"

    @property
    def coverage(self) -> Coverage | None:
        """What of the leg its successor reaches; None before the next reload."""
        return None if self.made is None or self.reached is None else Coverage(self.made, self.reached)

    @property
    def hold_count(self) -> int:
        return sum(held.count for held in self.holds)

    @property
    def priced(self) -> bool:
        """Money is known; a leg of unpriced calls has no figure, never 0."""
        return self.spend > 0 or (self.calls > 0 and not self.unpriced)

    @property
    def meter(self) -> dict[str, str]:
        """Widths and places of the peak meter in hundredths of the window (or of the peak, where that is larger)."""
        scale = max(self.window, self.peak, self.ceiling) or 1
        cut = {"fill": self.peak, "mark": self.mark, "ceiling": self.ceiling}
        return {name: f"{100 * value / scale:.1f}" for name, value in cut.items() if value}


@dataclass(frozen=True, slots=True)
class Totals:
    """Over all legs of the relay, from the roll-ups."""

    legs: int
    seconds: float
    turns: int
    verified: int
    dangling: int
    unknown: int
    judged: int
    made: int
    reached: int
    progress: int
    spend: Decimal
    unpriced: int
    calls: int
    peak: int

    @property
    def pointers(self) -> int:
        return self.verified + self.dangling

    @property
    def priced(self) -> bool:
        return self.spend > 0 or (self.calls > 0 and not self.unpriced)


@dataclass(frozen=True, slots=True)
class LegsTable:
    """Newest first; `older` is the number to ask for as `before` to see more, `newer` says that newer ones exist."""

    rows: tuple[LegRow, ...]
    totals: Totals
    older: int | None
    newer: bool

    @property
    def scripted(self) -> bool:
        return any(row.scripted for row in self.rows)


def holds_by_leg(legs: Iterable[int] | QuerySet[Leg]) -> dict[int, tuple[Held, ...]]:
    """Hold reasons of each leg (by its key) in order of first appearance: one query."""
    found: dict[int, list[tuple[int, Held]]] = {}
    rows = (
        Boundary.objects.filter(leg__in=legs)
        .exclude(hold="")
        .order_by()
        .values("leg_id", "hold")
        .annotate(n=Count("id"), first=Min("number"), low=Min("turn"), high=Max("turn"))
    )
    for row in rows:
        held = Held(row["hold"], row["n"], row["low"], row["high"])
        found.setdefault(row["leg_id"], []).append((row["first"], held))
    return {leg: tuple(held for _, held in sorted(items, key=lambda item: item[0])) for leg, items in found.items()}


def _many(detail: Mapping[str, Any], key: str, judged: bool) -> int | None:
    return len(detail.get(key) or ()) if judged else None


def row(leg: Leg, holds: tuple[Held, ...], now: datetime) -> LegRow:
    """The row of a leg that was read whole."""
    until = leg.ended_at or (now if leg.started_at and leg.state in LIVE_STATES else None)
    judged = leg.progress is not None
    detail = leg.progress_detail or {}
    return LegRow(
        pk=leg.pk, number=leg.number, state=leg.state, reason=leg.reason, cause=leg.cause, hold=leg.hold, holds=holds,
        armed=leg.armed, armed_axis=leg.armed_axis, advisory=leg.advisory, drain_reason=leg.drain_reason,
        peak=leg.peak_tokens, peak_turn=leg.peak_turn, resident=leg.resident_tokens, mark=leg.mark_tokens,
        ceiling=leg.ceiling_tokens, window=leg.window_tokens, started_at=leg.started_at, ended_at=leg.ended_at,
        seconds=max(0.0, (until - leg.started_at).total_seconds()) if leg.started_at and until else None,
        turns=leg.turns,
        verified=leg.fidelity_verified, dangling=leg.fidelity_dangling, unknown=leg.fidelity_unknown,
        made=leg.coverage_made, reached=leg.coverage_reached, progress=leg.progress,
        issues=_many(detail, "issues", judged), commits=_many(detail, "commits", judged),
        spend=leg.spend, unpriced=leg.unpriced_calls, calls=leg.calls, scripted=leg.scripted,
        start_error=leg.start_error,
    )  # fmt: skip


def totals(relay: Relay) -> Totals:
    """One aggregate over the legs' roll-ups; running time is the relay's own account."""
    found = Leg.objects.filter(relay=relay).aggregate(
        legs=Count("id", filter=~Q(state="void") & Q(started_at__isnull=False)),
        turns=Sum("turns"), verified=Sum("fidelity_verified"), dangling=Sum("fidelity_dangling"),
        unknown=Sum("fidelity_unknown"), judged=Count("fidelity_verified"), made=Sum("coverage_made"),
        reached=Sum("coverage_reached"), progress=Sum("progress"),
        spend=Sum("spend"), unpriced=Sum("unpriced_calls"), calls=Sum("calls"), peak=Max("peak_tokens"),
    )  # fmt: skip
    numbers = {key: value or 0 for key, value in found.items() if key != "spend"}
    wall = relay.wall_used.total_seconds() if relay.wall_used else 0.0
    return Totals(seconds=wall, spend=found["spend"] or Decimal(0), **numbers)


def legs(relay: Relay, now: datetime, *, before: int | None = None, limit: int = SHOWN) -> LegsTable:
    """The newest legs, or those before leg `before`: three queries whatever the number of legs."""
    wanted = Leg.objects.filter(relay=relay)
    if before is not None:
        wanted = wanted.filter(number__lt=before)
    found = list(wanted.order_by("-number")[: limit + 1])
    shown = found[:limit]
    held = holds_by_leg([leg.pk for leg in shown])
    return LegsTable(
        rows=tuple(row(leg, held.get(leg.pk, ()), now) for leg in shown),
        totals=totals(relay),
        older=shown[-1].number if len(found) > limit else None,
        newer=before is not None,
    )


def table_csv(relay: Relay, now: datetime) -> Iterable[tuple[object, ...]]:
    """One row per leg, oldest first; the first row names the columns."""
    yield (
        "leg", "state", "tombstone", "cause", "hold", "holds", "started", "ended", "turns", "peak tokens",
        "mark tokens", "ceiling tokens", "verified", "dangling", "unknown", "progress", "issues", "commits", "money",
        "unpriced calls", "made", "reached",
    )  # fmt: skip
    held = holds_by_leg(Leg.objects.filter(relay=relay))
    for leg in Leg.objects.filter(relay=relay).order_by("number").iterator():
        line = row(leg, held.get(leg.pk, ()), now)
        yield (
            line.number, line.state, line.reason, line.cause, line.hold,
            " ".join(f"{held.token}x{held.count}" for held in line.holds), line.started_at, line.ended_at, line.turns,
            line.peak, line.mark, line.ceiling, line.verified, line.dangling, line.unknown, line.progress, line.issues,
            line.commits, line.spend if line.priced else None, line.unpriced, line.made, line.reached,
        )  # fmt: skip


# ---- one leg ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Turn:
    """A model call of the main chain with the boundary that followed it, or a side call of the same turn."""

    call: Call
    growth: int | None
    boundary: Boundary | None
    detail: str = ""  # what held, in the reader's words, where it is not what held at the boundary before

    @property
    def short(self) -> str:
        """As much of what held as a row shows: whole words, and "…" where there is more."""
        if len(self.detail) <= DETAIL_CHARS:
            return self.detail
        head = self.detail[:DETAIL_CHARS]
        # a path may be longer than that and hold no blank
        return f"{(head.rpartition(' ')[0] or head).rstrip(' ;')} …"

    @property
    def answer(self) -> str:
        """The answer's word; the hold that it repeats stands beside it."""
        return self.boundary.answer.partition(" ")[0] if self.boundary else ""

    @property
    def cache_write(self) -> int:
        return self.call.cache_write_5m + self.call.cache_write_1h


@dataclass(frozen=True, slots=True)
class FactLine:
    """A fact as the page shows it; `named` is the class of a declared one, what was seen of a detected one."""

    fact: Fact
    named: str


def _fact_line(fact: Fact) -> FactLine:
    if fact.kind == Fact.Kind.DETECTED:
        return FactLine(fact, externalize.DETECTED.get(fact.durability, recorded("a trace that could not be read")))
    return FactLine(fact, fact.durability)


@dataclass(frozen=True, slots=True)
class LegPage:
    """Everything of one leg. `page` counts from 1."""

    relay: Relay
    leg: Leg
    row: LegRow
    previous: int | None
    next: int | None
    turns: tuple[Turn, ...]
    lone: tuple[Boundary, ...]
    page: int
    pages: int
    facts: tuple[FactLine, ...]
    facts_cut: bool
    tombstone: Tombstone | None
    assessment: tuple[tuple[str, str], ...]
    reset: ResetTransaction | None
    seed: seed.Seeded | None
    progress: tuple[ProgressGroup, ...]
    has_baton: bool


def leg_page(relay: Relay, number: int, now: datetime, page: int = 1) -> LegPage | None:
    """The leg, or None where the relay has no leg of that number. Nine queries whatever its size."""
    leg = Leg.objects.filter(relay=relay, number=number).select_related("tombstone").first()
    if leg is None:
        return None
    pages = max(1, -(-leg.turns // TURNS))
    page = min(max(1, page), pages)
    low, high = (page - 1) * TURNS, page * TURNS if page < pages else 2_147_483_647
    facts = list(Fact.objects.filter(leg=leg).order_by("seq")[: FACTS + 1])
    tombstone: Tombstone | None = getattr(leg, "tombstone", None)
    around = Leg.objects.filter(relay=relay, number__in=(number - 1, number + 1)).values_list("number", flat=True)
    near = set(around)
    turns, lone = _turns(leg, low, high)
    rotation = ResetTransaction.objects.filter(new_leg=leg).select_related("old_leg", "new_leg").first()
    return LegPage(
        relay=relay, leg=leg, row=row(leg, holds_by_leg([leg.pk]).get(leg.pk, ()), now),
        previous=number - 1 if number - 1 in near else None, next=number + 1 if number + 1 in near else None,
        turns=turns, lone=lone, page=page, pages=pages, facts=tuple(map(_fact_line, facts[:FACTS])),
        facts_cut=len(facts) > FACTS,
        tombstone=tombstone, assessment=_assessment(tombstone),
        reset=rotation, seed=seed.of(rotation) if rotation else None,
        progress=progress_groups(leg.progress_detail or {}), has_baton=leg.batons.exists(),
    )  # fmt: skip


def _turns(leg: Leg, low: int, high: int) -> tuple[tuple[Turn, ...], tuple[Boundary, ...]]:
    """Turns in (low, high] with their boundaries; boundaries of turns without a call come apart."""
    calls = list(Call.objects.filter(leg=leg, turn__gt=low - 1, turn__lte=high).order_by("turn", "id")[: TURNS * 20])
    boundaries: dict[int, list[Boundary]] = {}
    answered = Boundary.objects.filter(leg=leg, turn__gt=low - (low == 0), turn__lte=high).order_by("number")
    for one in answered[: TURNS * 4]:
        boundaries.setdefault(one.turn, []).append(one)
    turns: list[Turn] = []
    before: int | None = None
    said = ""
    for call in calls:
        if call.turn > low or low == 0:
            found = boundaries.get(call.turn, []) if call.main else []
            boundary = found.pop(0) if found else None
            detail = "; ".join(told(str(line)) for line in boundary.hold_detail) if boundary else ""
            growth = call.resident_tokens - before if call.main and before is not None else None
            turns.append(Turn(call, growth, boundary, detail if detail != said else ""))
            said = detail if boundary else said
        if call.main:
            before = call.resident_tokens
    return tuple(turns), tuple(boundary for rest in boundaries.values() for boundary in rest)


def _assessment(tombstone: Tombstone | None) -> tuple[tuple[str, str], ...]:
    if tombstone is None or not isinstance(tombstone.assessment, Mapping):
        return ()
    return tuple(
        (str(key).replace("_", " "), _plain(value)) for key, value in tombstone.assessment.items() if value != ""
    )


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value is None:
        return "not yet"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_plain(part)}" for key, part in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return words(list(value)) or "none"
    return whole(value) if isinstance(value, int) else str(value)
