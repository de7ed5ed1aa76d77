"""What a leg began with: the seed of the baton that it started from, which may be newer than its rotation's.

Mission: "If it cannot be produced from witnessed records, the system should say not yet rather than claim continuity."
A decision, a rebuilt cursor or a watch that wakes can write another baton between a rotation and the next leg's start.
"""

from dataclasses import dataclass

from relays.core import baton as batons
from relays.core import reset
from relays.models import Baton, ResetTransaction
from relays.reports import userfacts

#: why a baton was written -> what wrote it, in words
WRITTEN_BY = {"decision": "a decision", "stale": "a rebuilt cursor", "wake": "a watch that woke"}


@dataclass(frozen=True, slots=True)
class Seeded:
    """The sha256 of a leg's seed. `why`: what wrote its baton after the rotation, "" where that one was handed over.

    `size`: its bytes, None where no record says.
    """

    digest: str
    why: str = ""
    size: int | None = None


def of(record: ResetTransaction) -> Seeded | None:
    """The seed of the leg behind a rotation; of one that has not started, as it stands. None where no record says.

    One query beside the new leg, and one for the facts where its baton is another than the rotation's. The seed is made
    of nothing but constants, its baton, and the pointers of decisions, so that these prove it.
    """
    leg = record.new_leg
    handed = Baton.objects.filter(leg=record.old_leg_id)
    if leg.started_at is not None:
        handed = handed.filter(at__lte=leg.started_at)
    row = handed.order_by("-pk").first()
    parts = [part for part in record.contributors or () if isinstance(part, dict)]
    recorded = next((part.get("digest") for part in parts if part.get("kind") == "baton"), None)
    if row is None or recorded is None or recorded == row.digest:
        return Seeded(record.seed_digest, size=reset.recorded_size(parts))
    baton = batons.read(row.text).baton
    if baton is None:
        return None
    # a decision on them writes a baton too, so that those of the rotation may not be the leg's own any more
    facts = [one.pointer for one in userfacts.standing(leg.relay_id, leg.started_at)]
    try:
        seed = reset.seed(reset.PREAMBLE, baton.objective, row.text.encode(), facts)
    except reset.SeedError:
        return None
    return Seeded(seed.digest, WRITTEN_BY.get(row.why, row.why), len(seed.bytes))
