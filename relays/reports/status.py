"""One relay as a program reads it: the JSON of `status`, with its verdicts and the operator readout.

Mission: "If it cannot be produced from witnessed records, the system should say not yet rather than claim continuity."
The pages take their verdicts and readout from here too, so that page, command line and API cannot differ.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Count, OuterRef, Q, Subquery

from relays.core import budget, coverage, faithful, fidelity, flatness, policy, readout, reset, verdicts
from relays.core.baton import read
from relays.core.objective import Reconciliation, reconcile
from relays.core.sentences import phrase
from relays.core.usage import Buckets, Warmth, warmth
from relays.core.verdicts import Judgement, VerdictLine
from relays.models import (
    OPEN_GATES,
    Assumption,
    Baton,
    Call,
    Comparison,
    Counted,
    Decision,
    GateEpisode,
    Leg,
    LegState,
    Promotion,
    Relay,
    RelayStatus,
    ResetTransaction,
)
from relays.reports import advisory, resident, seed, userfacts
from relays.reports.gate import branch_tip, seen_digests
from relays.reports.legs import Held, holds_by_leg
from relays.reports.relay import warned

CURRENCY = "USD"
NOT_COMPARED = VerdictLine("not yet", phrase("its cost was not compared yet"), {})
#: what a comparison says of a relay -> its verdict `cheaper`: the relay may have lost
CHEAPER: Mapping[str, Judgement] = {"cheaper": "holds", "dearer": "violated"}
JUDGED: Mapping[object, Judgement] = {"holds": "holds", "violated": "violated"}
LIMIT = 200


def moment(at: datetime | None) -> str | None:
    """ISO 8601 in UTC, with Z; None stays None."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z") if at else None


def amount(money: Decimal) -> str:
    """A decimal string without an exponent and without zeros that say nothing."""
    text = format(money, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


# ---- verdicts -----------------------------------------------------------------------------------------------------

#: what the verdicts read of a leg: its roll-ups only
_OF_A_LEG = (
    "number", "state", "peak_tokens", "ceiling_tokens", "window_tokens", "largest_result", "armed", "progress",
    "fidelity_verified", "fidelity_dangling", "fidelity_unknown", "coverage_made", "coverage_reached", "tool_calls",
    "tool_errors", "fullness",
)  # fmt: skip
LISTED = 100  # foreign commits, and commits of two legs, that a verdict names; their numbers are exact


def verdict_lines(relay: Relay, legs: Iterable[Mapping[str, Any]] | None = None) -> dict[str, VerdictLine]:
    """The computed verdicts in their order, each with its numbers. At most eight queries."""
    rows = (
        list(legs) if legs is not None else list(Leg.objects.filter(relay=relay).order_by("number").values(*_OF_A_LEG))
    )
    run = [row for row in rows if row["peak_tokens"]]
    judged = [
        fidelity.score_of(row["fidelity_verified"], row["fidelity_dangling"] or 0, row["fidelity_unknown"] or 0)
        for row in rows
        if row["fidelity_verified"] is not None
    ]
    covered = [
        coverage.Coverage(row["coverage_made"], row["coverage_reached"] or 0)
        for row in rows
        if row["coverage_made"] is not None
    ]
    peaks = [
        flatness.LegPeak(
            number=row["number"], peak=row["peak_tokens"], ceiling=row["ceiling_tokens"], window=row["window_tokens"],
            largest_result=row["largest_result"], armed=row["armed"],
        )
        for row in run
    ]  # fmt: skip
    return {
        "flat": flatness.flat(peaks),
        "fidelity": fidelity.over_legs(judged),
        "coverage": coverage.over_legs(covered),
        "attribution": _attribution(relay, sum(row["progress"] is not None for row in rows)),
        "objective": _objective(relay),
        "rot": verdicts.rot(
            [
                verdicts.LegErrors(row["number"], row["tool_calls"], row["tool_errors"], _tenths(row["fullness"]))
                for row in run
            ]
        ),
        **_compared(relay),
    }


def _compared(relay: Relay) -> dict[str, VerdictLine]:
    """`faithful` and `cheaper`, from the stored comparison alone: "they may say that the relay lost"."""
    columns = ("verdict", "verdict_why", "why", "saving", "saving_low", "saving_high", "break_even", "faithful")
    row = Comparison.objects.filter(relay=relay, computed_at__isnull=False).values(*columns).first()
    if row is None:
        return {"faithful": NOT_COMPARED, "cheaper": NOT_COMPARED}
    kept = row["faithful"] if isinstance(row["faithful"], dict) else {}
    numbers = kept.get("numbers")
    money = {name: amount(row[name]) for name in ("saving", "saving_low", "saving_high") if row[name] is not None}
    return {
        "faithful": VerdictLine(
            JUDGED.get(kept.get("verdict"), "not yet"),
            faithful.stored(kept) or phrase("nothing was measured yet"),
            numbers if isinstance(numbers, dict) else {},
        ),
        "cheaper": VerdictLine(
            CHEAPER.get(row["verdict"], "not yet"),
            row["why"] or row["verdict_why"],
            {**money, "break_even_orientation_tokens": row["break_even"]},
        ),
    }


def _tenths(stored: Mapping[str, Sequence[int]]) -> dict[int, tuple[int, int]]:
    return {int(tenth): (counts[0], counts[1]) for tenth, counts in stored.items()}


def _attribution(relay: Relay, legs: int) -> VerdictLine:
    """From the rows that each leg left, whatever their number: no leg's own record is read."""
    mine = Counted.objects.filter(relay=relay)
    asked = mine.filter(kind__in=(Counted.Kind.COMMIT, Counted.Kind.FOREIGN))
    of_kind = dict(asked.order_by().values_list("kind").annotate(n=Count("value", distinct=True)))
    twice = list(mine.filter(shared=True).values_list("value", flat=True)[:LISTED])
    shared: dict[str, list[int]] = {}
    for sha, number in mine.filter(kind=Counted.Kind.COMMIT, value__in=twice).values_list("value", "leg__number"):
        shared.setdefault(sha, []).append(number)
    foreign = mine.filter(kind=Counted.Kind.FOREIGN).order_by("-id").values_list("value", flat=True)[:LISTED]
    return verdicts.attribution(
        legs,
        of_kind.get(Counted.Kind.COMMIT, 0),
        shared,
        list(foreign),
        of_kind.get(Counted.Kind.FOREIGN, 0),
    )


def _objective(relay: Relay) -> VerdictLine:
    batons = list(Baton.objects.filter(relay=relay).order_by("id").values_list("pin_digest", "at"))
    digests = [digest for digest, _ in batons]
    stated = [
        at
        for at, detail in Decision.objects.filter(relay=relay, act__in=("approve", "refuse", "objective")).values_list(
            "at", "detail"
        )
        if isinstance(detail, dict) and detail.get("objective_digest")
    ]
    changed = {sum(1 for _, at in batons if at < decided) for decided in stated}
    return verdicts.objective_line(digests, changed)


# ---- readout ------------------------------------------------------------------------------------------------------


def operator_readout(relay: Relay) -> readout.Readout:
    """The seven lines, each from records of its own kind; a line without a record reads `not yet`.

    At most thirteen queries.
    """
    newest = resident.newest_leg(relay)
    current = Baton.objects.filter(relay=relay, current=True).first()
    last = ResetTransaction.objects.filter(old_leg__relay=relay).select_related("new_leg").order_by("-id").first()
    seeded = seed.of(last) if last else None
    return readout.build(
        objective=_reconciled(relay, current),
        budget=_left(relay, newest),
        resident=resident.counts(relay, newest),
        assumptions=_assumptions(relay),
        reset=readout.ResetLine(last.old_trace, last.new_trace, seeded.digest, reset.omitted_total(last.omitted or ()))
        if last and seeded
        else None,
        memory=_memory(relay),
        cache=_cache(relay),
    )


def _reconciled(relay: Relay, current: Baton | None) -> Reconciliation | None:
    """The stated objective against the one that the current baton carries; before the first baton it is established.

    None where neither is recorded.
    """
    if current is None:
        return None if relay.pin.unset else reconcile(None, relay.pin)
    carried = read(current.text).baton
    return reconcile(relay.pin, carried.objective if carried else None)


def _left(relay: Relay, newest: Leg | None) -> readout.BudgetLeft | None:
    """None where the policy that the relay started with does not read: its limits are not known then."""
    try:
        envelope = policy.from_snapshot(relay.policy).envelope
    except policy.PolicyError:
        return None
    axes = {axis.axis: axis.left for axis in budget.left(envelope, relay.spent)}
    room = newest.ceiling_tokens - newest.resident_tokens if newest and newest.ceiling_tokens else None
    turns, tokens, queries, wall = axes["turns"], axes["output_tokens"], axes["queries"], axes["wall"]
    return readout.BudgetLeft(
        turns=turns if isinstance(turns, int) else None,
        tokens=tokens if isinstance(tokens, int) else None,
        context=room,
        queries=queries if isinstance(queries, int) else None,
        time=wall if isinstance(wall, timedelta) else None,
    )


def _assumptions(relay: Relay) -> readout.AssumptionCounts | None:
    found = dict(Assumption.objects.filter(leg__relay=relay).order_by().values_list("action").annotate(n=Count("id")))
    if not found:
        return None
    return readout.AssumptionCounts(found.get("use", 0), found.get("query", 0), found.get("refresh", 0))


def _memory(relay: Relay) -> readout.MemoryCounts | None:
    found = dict(Promotion.objects.filter(leg__relay=relay).order_by().values_list("outcome").annotate(n=Count("id")))
    if not found:
        return None
    return readout.MemoryCounts(
        found.get("promoted", 0), found.get("refused", 0) + found.get("expired", 0), found.get("ambiguous", 0)
    )


def _cache(relay: Relay) -> Warmth | None:
    """Of the last call of the newest leg that made one."""
    leg = Leg.objects.filter(relay=relay, calls__gt=0).order_by("-number").first()
    call = Call.objects.filter(leg=leg, main=True).order_by("-turn", "-id").first() if leg else None
    if call is None:
        return None
    return warmth(
        Buckets(call.input_tokens, call.cache_read, call.cache_write_5m, call.cache_write_1h, call.output_tokens),
        reported=call.cache_reported,
    )


# ---- the JSON of `status` and `list` -------------------------------------------------------------------------------


def status(relay_id: str) -> dict[str, Any]:
    """The whole of a relay in the shape of interface.md; Relay.DoesNotExist where there is none by that name.

    Money is a decimal string, times are ISO 8601 UTC; `null` = no record yet. `warnings`: axes of the envelope under a
    fifth; `left` null = unknown, `wall` in seconds. A constant number of queries; the branch tip is read where a gate
    is open, because the digest of what is shown needs it.
    """
    relay = Relay.objects.get(pk=relay_id)
    legs = list(Leg.objects.filter(relay=relay).select_related("tombstone").order_by("number"))
    held = holds_by_leg(Leg.objects.filter(relay=relay))
    gates = list(GateEpisode.objects.filter(relay=relay).select_related("leg").order_by("opened_at", "id"))
    lines = verdict_lines(relay, [{name: getattr(leg, name) for name in _OF_A_LEG} for leg in legs])
    return {
        "relay": relay.pk,
        "status": relay.status,
        "ended": {"reason": relay.ended_reason, "at": moment(relay.ended_at)} if relay.ended_at else None,
        "objective": {"pin_id": relay.pin_id, "text": relay.objective, "digest": relay.objective_digest},
        "legs": [_leg(leg, held.get(leg.pk, ())) for leg in legs],
        "gates": _gates(relay, gates),
        "verdicts": {name: line.verdict for name, line in lines.items()},
        "readout": readout.as_mapping(operator_readout(relay)),
        "why": relay.status_why,
        "watch": relay.watch,
        "idle_looks": relay.idle_looks if relay.status == RelayStatus.IDLE else None,
        "next_at": moment(relay.next_at),
        "progress": relay.progress_total,
        "warnings": [{"axis": low.axis.axis, **low.axis.plain} for low in warned(relay)],
        "findings": list(relay.findings),
        "facts": userfacts.as_mapping(userfacts.standing(relay.pk)),
        "advisory": advisory.as_mapping(advisory.advice(relay)),
        "verdict_details": {name: {"what": line.what, "numbers": line.numbers} for name, line in lines.items()},
    }


def _leg(leg: Leg, held: Sequence[Held]) -> dict[str, Any]:
    ended = leg.state == LegState.ENDED
    tombstone = getattr(leg, "tombstone", None)
    judged = leg.fidelity_verified is not None
    score = fidelity.score_of(leg.fidelity_verified or 0, leg.fidelity_dangling or 0, leg.fidelity_unknown or 0)
    return {
        "leg": leg.number,
        "state": leg.state,
        "armed": leg.armed,
        "cause": leg.cause or None,
        "hold": leg.hold or None,
        "trace": leg.trace,
        "parent_trace": leg.parent_trace or None,
        "reason": leg.reason or None,
        "at_sha": (tombstone.at_sha if tombstone else leg.end_sha) or None if ended else None,
        "started": moment(leg.started_at),
        "ended": moment(leg.ended_at),
        "turns": leg.turns,
        "peak_tokens": leg.peak_tokens,
        "ceiling_tokens": leg.ceiling_tokens,
        "fidelity": {
            "verified": score.verified,
            "dangling": score.dangling,
            "unknown": score.unknown,
            "score": score.score if judged else None,
        },
        "progress": leg.progress,
        "holds": [one.token for one in held],
        "cost": {"total": amount(leg.spend), "currency": CURRENCY, "unpriced_calls": leg.unpriced_calls},
        "coverage": _coverage(leg),
        "advisory": leg.advisory,
        "scripted": leg.scripted,
        "start_error": leg.start_error or None,
    }


def _coverage(leg: Leg) -> dict[str, Any]:
    """All `null` before the successor has read the baton; `score` is `null` too where the leg made nothing."""
    if leg.coverage_made is None or leg.coverage_reached is None:
        return {"made": None, "reached": None, "score": None}
    found = coverage.Coverage(leg.coverage_made, leg.coverage_reached)
    return {"made": found.made, "reached": found.reached, "score": found.score}


def _gates(relay: Relay, gates: Sequence[GateEpisode]) -> list[dict[str, Any]]:
    standing = [gate for gate in gates if gate.state in OPEN_GATES]
    seen = seen_digests(standing, branch_tip(relay)[0]) if standing else {}
    return [
        {
            "id": gate.pk,
            "token": gate.token,
            "state": gate.state,
            "seen": seen.get(gate.pk),
            "blocks": gate.blocks,
            "leg": gate.leg.number if gate.leg else None,
            "items": gate.items,
            "error": gate.error or None,
        }
        for gate in gates
    ]


@dataclass(frozen=True, slots=True)
class _At:
    """Where a listing goes on: behind this relay."""

    created: datetime
    pk: str


def listing(cursor: str = "", limit: int = 50, filters: Mapping[str, str] | None = None) -> dict[str, Any]:
    """A page of relays, newest first, in the shape of `list`: two queries.

    `filters`: any of status, owner, repo (a part of its path), agent; others are ignored. `cursor` is `next` of the
    page before; one that does not read starts anew.
    """
    limit = min(max(1, limit), LIMIT)
    rows = Relay.objects.select_related("owner").order_by("-created_at", "-id")
    at = _read_cursor(cursor)
    if at is not None:
        rows = rows.filter(Q(created_at__lt=at.created) | Q(created_at=at.created, pk__lt=at.pk))
    names = {"status": "status", "owner": "owner__username", "repo": "repo__contains", "agent": "agent"}
    for name, lookup in names.items():
        if (filters or {}).get(name):
            rows = rows.filter(**{lookup: (filters or {})[name]})
    newest = Leg.objects.filter(relay=OuterRef("pk")).exclude(state="void").order_by("-number")
    found = list(rows.annotate(newest_leg=Subquery(newest.values("pk")[:1]))[: limit + 1])
    shown = found[:limit]
    legs = Leg.objects.in_bulk([relay.newest_leg for relay in shown if relay.newest_leg])
    return {
        "relays": [_line(relay, legs.get(relay.newest_leg)) for relay in shown],
        "next": f"{moment(shown[-1].created_at)}~{shown[-1].pk}" if len(found) > limit else None,
    }


def is_cursor(text: str) -> bool:
    """Whether the text is a `next` that `listing` gave."""
    return _read_cursor(text) is not None


def _read_cursor(cursor: str) -> _At | None:
    text, _, pk = cursor.partition("~")
    try:
        created = datetime.fromisoformat(text)
    except ValueError:
        return None
    return _At(created, pk) if pk and created.tzinfo else None


def _line(relay: Relay, leg: Leg | None) -> dict[str, Any]:
    context = {"now": leg.resident_tokens, "mark": leg.mark_tokens, "ceiling": leg.ceiling_tokens} if leg else None
    return {
        "relay": relay.pk,
        "status": relay.status,
        "leg": leg.number if leg else None,
        "repo": relay.repo,
        "owner": relay.owner.get_username(),
        "next_at": moment(relay.next_at),
        "context": context or {"now": None, "mark": None, "ceiling": None},
        "objective": relay.objective,
    }
