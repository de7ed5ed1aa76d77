"""The way of a gate episode: each state that it came into, when, and who brought it there.

Interface: "States shown: waiting → approved → requested → dispatched → confirmed (the new leg was seen), or expired,
refused, superseded. A failed start returns to waiting with its error."
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext_lazy

from relays.models import Baton, Decision, GateChange, GateEpisode, GateState
from relays.reports.approvals import standing

STEPS = (GateState.WAITING, GateState.APPROVED, GateState.REQUESTED, GateState.DISPATCHED, GateState.CONFIRMED)
#: the words of states, of what a gate keeps waiting and of axes, for translators: pages show them by their value
WORDS = (
    gettext_lazy("waiting"), gettext_lazy("approved"), gettext_lazy("requested"), gettext_lazy("dispatched"),
    gettext_lazy("confirmed"), gettext_lazy("refused"), gettext_lazy("expired"), gettext_lazy("superseded"),
    gettext_lazy("next leg"), gettext_lazy("context"), gettext_lazy("turns"), gettext_lazy("wall"),
    gettext_lazy("spend"), gettext_lazy("output_tokens"),
)  # fmt: skip
#: changes that are shown; an episode that went back and forth more often than that shows the newest
CHANGES = 60


@dataclass(frozen=True, slots=True)
class Step:
    """One state on the way. `place` is was, now or "" (ahead). `by`: "" where the machine brought it there.

    `at` is None ahead, and for a step that was taken before times of steps were kept.
    """

    state: str
    place: str
    at: datetime | None
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval that counts: given in this round, on what is shown now."""

    name: str
    at: datetime
    seq: int


@dataclass(frozen=True, slots=True)
class Way:
    """`steps`: from waiting to confirmed. `ended`: how it left that way (refused, expired, superseded), else None.

    `before`: what happened before the present way began (approvals that lapsed, starts that failed), oldest first.
    """

    steps: tuple[Step, ...]
    ended: Step | None
    before: tuple[Step, ...]


def way(gate: GateEpisode) -> Way:
    """One query."""
    rows = list(GateChange.objects.filter(gate=gate).select_related("by").order_by("-id")[:CHANGES])[::-1]
    begun = max((n for n, row in enumerate(rows) if row.state == GateState.WAITING), default=0)
    present = {row.state: row for row in rows[begun:]}
    taken = [row for row in rows[begun:] if row.state in STEPS]
    if gate.state in STEPS:
        at = STEPS.index(GateState(gate.state))
        places = ["now" if n == at else "was" if n < at else "" for n in range(len(STEPS))]
        ended = None
    else:
        reached = max((STEPS.index(GateState(row.state)) for row in taken), default=0)
        places = ["was" if n <= reached else "" for n in range(len(STEPS))]
        ended = _step(gate.state, "now", present, gate.state_at, gate.closed_why)
    steps = []
    for state, place in zip(STEPS, places, strict=True):
        known = gate.state_at if place == "now" else gate.opened_at if state == GateState.WAITING else None
        steps.append(_step(state, place, present, known) if place else Step(state, "", None, "", ""))
    before = tuple(_of(row, "was") for row in rows[:begun])
    return Way(tuple(steps), ended, before)


def _step(state: str, place: str, present: Mapping[str, GateChange], known: datetime | None, why: str = "") -> Step:
    row = present.get(state)
    return _of(row, place, why) if row is not None else Step(state, place, known, "", why)


def _of(row: GateChange, place: str, why: str = "") -> Step:
    return Step(row.state, place, row.at, row.by.get_username() if row.by else "", why or row.why)


def approvals_of(
    gate: GateEpisode, decisions: Sequence[Decision], *, digest: str, tip: str, baton: Baton | None
) -> tuple[Approval, ...]:
    """Different people whose approval stands for what is shown; once decided, those of the round that decided."""
    if gate.state == GateState.WAITING:
        found = standing(gate, decisions, seen=digest, tip=tip, baton=baton)
    else:
        found = {
            one.actor_id: one for one in decisions if one.act == "approve" and one.detail.get("round") == gate.round
        }
    return tuple(
        Approval(one.actor.get_username(), one.at, one.seq) for one in sorted(found.values(), key=lambda row: row.seq)
    )
