"""The relay's page, region by region, so that a live page asks only for what it shows again.

Mission: "an operator can see, per relay: the flat-context graph …, the tombstone of every leg …, and what it costs".
Each function is a constant number of queries; counts come from roll-ups.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.db.models import Count, Q
from django.utils.translation import gettext_noop

from relays.core import budget, readout
from relays.core.baton import read
from relays.core.remote import pull_request
from relays.core.userfacts import UserFact
from relays.core.vocabulary import Token, token
from relays.models import (
    LIVE_STATES,
    OPEN_GATES,
    Baton,
    Boundary,
    Counted,
    Decision,
    GateEpisode,
    GateState,
    LedgerRow,
    Leg,
    Push,
    PushState,
    RegionLease,
    Relay,
    RelayStatus,
    Verification,
)
from relays.reports import approvals, userfacts
from relays.reports import decisions as decided
from relays.reports.gate import branch_tip, store
from relays.reports.gate_words import cause_of, headline, said_beside
from relays.reports.legs import totals
from relays.reports.reviewers import Deciders, deciders
from relays.reports.rules import AXES, rules_of
from relays.stores.base import StoreUnavailable
from relays.stores.place import discover

SHOWN = 50
TABS = ("batons", "boundaries", "evidence", "ledger", "decisions")


@dataclass(frozen=True, slots=True)
class Low:
    """An axis of the envelope of which less than a fifth is left."""

    axis: budget.AxisLeft
    words: str


def warned(relay: Relay) -> tuple[Low, ...]:
    """ "One warning when an axis first falls under a fifth": those that were warned of and are low still. No query."""
    if not relay.warned_axes or relay.final:
        return ()
    axes = budget.left(rules_of(relay).envelope, relay.spent)
    return tuple(Low(axis, AXES[axis.axis]) for axis in axes if axis.low and axis.axis in relay.warned_axes)


# ---- head ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Loud:
    """The gate that waits: the one loud thing of the page."""

    gate: GateEpisode
    word: Token
    cause: str
    hold: str
    headline: str
    why: str
    others: int


@dataclass(frozen=True, slots=True)
class Finished:
    """A relay that is done: what it made and how it gets into the main line.

    `commits`: that its legs made, `idle` of them no verified progress (outside the region, empty, merges, seen before).
    `merge` "": it worked in the repository's own tree, so its branch is the one that people work on; `merged`: the
    branch checked out there that has the tip already, "" where none is known to. `tip` "":
    `problem` says why it is not known. `push_to` "": its policy allows no push; `push`: the newest one that was asked
    for, `pushed` whether it brought this tip there. `pull_request`: the page that opens one, else `request` is a
    command that writes its text; both "" where the policy offers none or nothing was pushed.
    """

    branch: str
    commits: int
    idle: int
    merge: str
    merged: str
    tip: str
    problem: str
    push_to: str
    push: Push | None
    pull_request: str
    request: str

    @property
    def pushed(self) -> bool:
        push = self.push
        return push is not None and push.state == PushState.DONE and (push.tip, push.where) == (self.tip, self.push_to)


@dataclass(frozen=True, slots=True)
class Head:
    """Title, state and the gate that waits."""

    relay: Relay
    loud: Loud | None
    on_its_way: GateEpisode | None
    closed: GateEpisode | None
    live: Leg | None
    latest: Leg | None
    baton_leg: int | None
    finished: Finished | None
    warnings: tuple[Low, ...] = ()


def head(relay: Relay) -> Head:
    """Four queries; two more and a look at its repository when the relay is done, one when parked with no open gate."""
    gates = list(
        GateEpisode.objects.filter(relay=relay, state__in=OPEN_GATES).select_related("leg").order_by("opened_at", "id")
    )
    waiting = [gate for gate in gates if gate.state == GateState.WAITING]
    latest = Leg.objects.filter(relay=relay).exclude(state="void").order_by("-number").first()
    return Head(
        relay=relay,
        loud=_loud(relay, waiting[0], len(waiting) - 1) if waiting else None,
        on_its_way=next((gate for gate in gates if gate.state != GateState.WAITING), None),
        closed=approvals.standing_refusal(relay.pk) if relay.status == RelayStatus.PARKED and not gates else None,
        live=latest if latest and latest.state in LIVE_STATES else None,
        latest=latest,
        baton_leg=current_baton_leg(relay),
        finished=_finished(relay) if relay.status == RelayStatus.DONE else None,
        warnings=warned(relay),
    )


def current_baton_leg(relay: Relay) -> int | None:
    """The closing leg of the current baton, or None."""
    return Baton.objects.filter(relay=relay, current=True).values_list("leg__number", flat=True).first()


def _loud(relay: Relay, gate: GateEpisode, others: int) -> Loud:
    gate.relay = relay
    leg = gate.leg
    hold = leg.hold if leg else ""
    why = gate.error or "; ".join(said_beside(gate, leg)[:3]) or token(gate.token).fix
    return Loud(gate, token(gate.token), cause_of(gate, leg), hold, headline(gate, leg), why, others)


def _finished(relay: Relay) -> Finished:
    made = Counted.objects.filter(relay=relay, kind=Counted.Kind.COMMIT, shared=False).aggregate(
        all=Count("pk"), counts=Count("pk", filter=Q(counts=True))
    )
    tip, problem = branch_tip(relay)
    rules = rules_of(relay)
    push = Push.objects.filter(relay=relay).select_related("decision__actor").first()
    offered = rules.pull_request and push is not None and push.state == PushState.DONE
    page = pull_request(rules.push_to, relay.branch) if offered else ""
    merge = ["git", "-C", relay.repo, "merge", "--no-ff", relay.branch]
    command = shlex.join(["git", "-C", relay.repo, "request-pull", relay.start_sha, rules.push_to, relay.branch])
    return Finished(
        branch=relay.branch,
        commits=made["all"],
        idle=made["all"] - made["counts"],
        merge="" if rules.workspace == "in_place" else shlex.join(merge),
        merged=_merged(relay, tip),
        tip=tip,
        problem=problem,
        push_to=rules.push_to,
        push=push,
        pull_request=page,
        request=command if offered and not page else "",
    )


def _merged(relay: Relay, tip: str) -> str:
    try:
        here = discover(Path(relay.repo))
        if not tip or not here.head_sha or not here.head_branch or here.head_branch == relay.branch:
            return ""
        return here.head_branch if tip in store(relay).merge_bases(tip, here.head_sha) else ""
    except StoreUnavailable:
        return ""  # that a store does not answer says nothing of a merge


# ---- numbers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Kpis:
    """The five numbers. `None` = no record yet. `room` = tokens under the ceiling of the leg that is shown."""

    progress: int
    progress_at: datetime | None
    issues: tuple[int, int] | None
    context: int | None
    context_leg: int | None
    ceiling: int
    room: int | None
    running: bool
    legs: int
    legs_limit: int | None
    turns: int
    turns_limit: int | None
    spend: Decimal
    priced: bool
    unpriced: int
    spend_limit: Decimal | None
    scripted: bool
    verified: int
    pointers: int
    unknown: int
    judged: int

    @property
    def fidelity(self) -> float | None:
        return self.verified / self.pointers if self.pointers else None


def kpis(relay: Relay) -> Kpis:
    """Two queries."""
    leg = Leg.objects.filter(relay=relay, started_at__isnull=False).order_by("-number").first()
    sums = totals(relay)
    limits = rules_of(relay).envelope
    return Kpis(
        progress=relay.progress_total, progress_at=relay.progress_at, issues=None,
        context=leg.resident_tokens if leg else None, context_leg=leg.number if leg else None,
        ceiling=leg.ceiling_tokens if leg else 0,
        room=leg.ceiling_tokens - leg.resident_tokens if leg and leg.ceiling_tokens else None,
        running=bool(leg and leg.state in LIVE_STATES), legs=sums.legs, legs_limit=limits.legs, turns=sums.turns,
        turns_limit=limits.turns, spend=relay.spend_used, priced=sums.priced, unpriced=relay.unpriced_calls,
        spend_limit=limits.spend, scripted=bool(leg and leg.scripted), verified=sums.verified, pointers=sums.pointers,
        unknown=sums.unknown, judged=sums.judged,
    )  # fmt: skip


# ---- side ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Side:
    """Pin, region, what people gave every leg and who decides on the gates, beside the verdicts. `lease` None = no

    region is held.
    """

    lease: RegionLease | None
    axes: tuple[budget.AxisLeft, ...]
    facts: tuple[UserFact, ...]
    deciders: Deciders


def side(relay: Relay) -> Side:
    """Five queries at most."""
    lease, rules = RegionLease.objects.filter(relay=relay).first(), rules_of(relay)
    left = budget.left(rules.envelope, relay.spent)
    return Side(lease, left, userfacts.standing(relay.pk), deciders(relay, rules.four_eyes))


Pair = tuple[str, str]


def readout_rows(values: readout.Readout) -> tuple[tuple[str, tuple[Pair, ...], str], ...]:
    """Each line as (key, its name=value pairs, its text): the pairs are empty where the text has none."""
    rows = []
    for key, text in readout.as_mapping(values).items():
        words = [word.partition("=") for word in text.split(" ")]
        pairs = tuple((name, value) for name, _, value in words) if all(sign for _, sign, _ in words) else ()
        rows.append((key, pairs, text))
    return tuple(rows)


# ---- records ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatonLine:
    """A baton with the outcome of its successor's reload and its pointers as judged there."""

    baton: Baton
    leg: int
    outcome: str
    verified: int | None
    pointers: int | None
    next_action: str


@dataclass(frozen=True, slots=True)
class Records:
    """One tab of records, newest first. `older` is what `before` asks for next."""

    tab: str
    counts: tuple[tuple[str, str, int | None], ...]
    batons: tuple[BatonLine, ...]
    boundaries: tuple[Boundary, ...]
    ledger: tuple[LedgerRow, ...]
    decisions: tuple[decided.Row, ...]
    held_only: bool
    older: str


def records(relay: Relay, tab: str = "batons", *, before: str = "", held_only: bool = False) -> Records:
    """The asked tab (of `evidence` nothing); an unknown name is the first one.

    Three counts and at most three queries for the rows."""
    tab = tab if tab in TABS else TABS[0]
    number = int(before) if before.isascii() and before.isdecimal() and len(before) < 18 else None
    counts = (
        ("batons", gettext_noop("Batons"), Baton.objects.filter(relay=relay).count()),
        ("boundaries", gettext_noop("Boundaries and holds"), None),
        ("evidence", gettext_noop("Evidence"), None),
        ("ledger", gettext_noop("Ledger"), LedgerRow.objects.filter(relay=relay).count()),
        ("decisions", gettext_noop("Decisions"), Decision.objects.filter(relay=relay).count()),
    )
    batons: list[Baton] = []
    boundaries: list[Boundary] = []
    ledger: list[LedgerRow] = []
    decisions: list[Decision] = []
    older = ""
    if tab == "batons":
        batons, older = _page(Baton.objects.filter(relay=relay).select_related("leg").order_by("-id"), "pk", number)
    elif tab == "boundaries":
        keys = Boundary.objects.filter(leg__relay=relay)
        keys = keys.exclude(hold="") if held_only else keys
        boundaries, older = _page(keys.select_related("leg").order_by("-id"), "pk", number)
    elif tab == "ledger":
        skip = number or 0
        rows = list(
            LedgerRow.objects.filter(relay=relay).select_related("leg").order_by("-at", "-id")[skip : skip + SHOWN + 1]
        )
        ledger, older = rows[:SHOWN], str(skip + SHOWN) if len(rows) > SHOWN else ""
    elif tab == "decisions":
        decisions, older = _page(
            Decision.objects.filter(relay=relay).select_related("actor").order_by("-seq"), "seq", number
        )
    return Records(
        tab,
        counts,
        _baton_lines(batons),
        tuple(boundaries),
        tuple(ledger),
        tuple(map(decided.row_of, decisions)),
        held_only,
        older,
    )


def _page(rows: Any, key: str, before: int | None) -> tuple[list[Any], str]:
    if before is not None:
        rows = rows.filter(**{f"{key}__lt": before})
    found = list(rows[: SHOWN + 1])
    return found[:SHOWN], str(getattr(found[SHOWN - 1], key)) if len(found) > SHOWN else ""


def _baton_lines(batons: Sequence[Baton]) -> tuple[BatonLine, ...]:
    reloads = dict(
        Verification.objects.filter(baton__in=batons, purpose="reload")
        .order_by("id")
        .values_list("baton_id", "outcome")
    )
    lines = []
    for baton in batons:
        leg = baton.leg
        known = leg.fidelity_verified is not None and leg.fidelity_dangling is not None
        lines.append(BatonLine(
            baton, leg.number, reloads.get(baton.pk, ""), leg.fidelity_verified,
            (leg.fidelity_verified or 0) + (leg.fidelity_dangling or 0) if known else None, _next_action(baton.text),
        ))  # fmt: skip
    return tuple(lines)


def _next_action(text: str) -> str:
    baton = read(text).baton
    return baton.next_action if baton else ""
