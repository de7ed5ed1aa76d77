"""Which decisions on a gate stand: approvals of its round given on what is shown now, and refusals not taken back.

states.md, Gate episode: "`approved`: the Nth on the digest shown"; "new item (approvals lapse)".
"""

from collections.abc import Iterable, Mapping
from typing import Any

from django.db.models import Exists, OuterRef, Q

from relays.core.baton import read
from relays.core.vocabulary import Ask
from relays.models import NEXT_LEG, Baton, Decision, GateEpisode, GateState, Leg


def standing(
    gate: GateEpisode, decisions: Iterable[Decision], *, seen: str, tip: str, baton: Baton | None
) -> dict[int, Decision]:
    """Actor key -> the approval that counts, for the digest `seen` of what is shown at branch tip `tip`.

    An approval counts on the digest it was given on. One that carried a change (its baton is the current one; where no
    leg has left a baton, nothing was changed since) counts on what its change made of that, as long as the branch has
    not moved.
    """
    found: dict[int, Decision] = {}
    rows = list(decisions)
    carriers = {row.seq: row.detail.get("of") for row in rows if row.act != "approve"}
    for one in rows:
        if one.act != "approve" or one.gate_id != gate.pk or one.detail.get("round", gate.round) != gate.round:
            continue
        if one.seen == seen or (one.detail.get("tip") == tip and _wrote(one, carriers, baton)):
            found[one.actor_id] = one
    return found


def _wrote(decision: Decision, carriers: Mapping[int, Any], baton: Baton | None) -> bool:
    """Whether the baton is the one that this decision wrote: its last artifact mirrors a change that it carried."""
    if baton is None:
        newest = Decision.objects.filter(relay=decision.relay_id, detail__of__isnull=False).order_by("-seq").first()
        return newest is not None and newest.detail["of"] == decision.seq
    if baton.why != "decision":
        return False
    carried = read(baton.text).baton
    if carried is None or not carried.artifacts:
        return False
    last = str(carried.artifacts[-1].ref).rpartition(".p")[2]
    return last.isdecimal() and carriers.get(int(last)) == decision.seq


def standing_refusal(relay_id: str) -> GateEpisode | None:
    """An episode that was refused or expired: while it stands, the relay stays parked.

    "Refuse leaves it parked with stop / new objective / reopen": it stands until it is reopened, or where the refusal
    stated a new objective, or said with a next action what a goal in prose still lacks. One that kept another step
    waiting keeps only that, and one that was closed while a leg ran, or before one ran, leaves nothing parked: the
    relay went on. At most three queries.
    """
    ran_on = Leg.objects.filter(
        Q(ended_at__isnull=True) | Q(ended_at__gt=OuterRef("state_at")), relay=relay_id, started_at__isnull=False
    )
    mine = GateEpisode.objects.filter(relay_id=relay_id, blocks=NEXT_LEG).exclude(Exists(ran_on))
    reopened = mine.filter(reopened_from__isnull=False).values("reopened_from")
    closed = list(
        mine.filter(state__in=[GateState.REFUSED, GateState.EXPIRED])
        .exclude(pk__in=reopened)
        .order_by("-opened_at", "-pk")
    )
    if not closed:
        return None
    rows = Decision.objects.filter(gate__in=closed, act__in=("refuse", "objective", "next_action")).order_by("seq")
    prose = {gate.pk for gate in closed if gate.token == Ask.DONE_UNCONFIRMED}
    refusals: dict[int, int] = {}
    further: set[int] = set()
    for gate_id, act, seq, detail in rows.values_list("gate_id", "act", "seq", "detail"):
        if act == "refuse":
            refusals[seq] = gate_id
        elif refusals.get(detail.get("of")) == gate_id and (act == "objective" or gate_id in prose):
            further.add(gate_id)
    return next((gate for gate in closed if gate.pk not in further), None)
