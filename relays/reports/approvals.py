"""Which approvals of a gate stand: those of its round that were given on what is shown now.

states.md, Gate episode: "`approved`: the Nth on the digest shown"; "new item (approvals lapse)".
"""

from collections.abc import Iterable

from relays.core.baton import read
from relays.models import Baton, Decision, GateEpisode


def standing(
    gate: GateEpisode, decisions: Iterable[Decision], *, seen: str, tip: str, baton: Baton | None
) -> dict[int, Decision]:
    """Actor key -> the approval that counts, for the digest `seen` of what is shown at branch tip `tip`.

    An approval counts on the digest it was given on. One that carried a change (its baton is the current one) counts
    on what its change made of that, as long as the branch has not moved.
    """
    found: dict[int, Decision] = {}
    for one in decisions:
        if one.act != "approve" or one.gate_id != gate.pk or one.detail.get("round", gate.round) != gate.round:
            continue
        if one.seen == seen or (one.detail.get("tip") == tip and _wrote(one, baton)):
            found[one.actor_id] = one
    return found


def _wrote(decision: Decision, baton: Baton | None) -> bool:
    """Whether the baton is the one that this decision wrote: its mirror row is the last artifact."""
    if baton is None or baton.why != "decision":
        return False
    carried = read(baton.text).baton
    return bool(carried and carried.artifacts and str(carried.artifacts[-1].ref).endswith(f".p{decision.seq}"))
