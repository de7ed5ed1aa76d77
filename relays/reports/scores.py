"""Fidelity and coverage of each leg: how much of what its baton said was true, and how much of its work it reaches.

Mission: "re-verified before trusting". Both are judged at the successor's reload and kept with the leg; nothing here
looks at a pointer. Where there are more legs than can be drawn, the worst of each stretch stay.
"""

from dataclasses import dataclass

from relays.models import Leg
from relays.reports.flat import reduced

DRAWN = 400  # legs
ROWS = 50


@dataclass(frozen=True, slots=True)
class Score:
    """One leg that was judged. `made` None: its coverage was not; 0: it made nothing durable."""

    leg: int
    verified: int
    dangling: int
    unknown: int
    made: int | None
    reached: int | None

    @property
    def fidelity(self) -> float | None:
        """In percent; None where no pointer had an answer."""
        judged = self.verified + self.dangling
        return 100 * self.verified / judged if judged else None

    @property
    def coverage(self) -> float | None:
        """In percent; None where nothing was made, or nothing judged."""
        return 100 * self.reached / self.made if self.made and self.reached is not None else None


@dataclass(frozen=True, slots=True)
class Scores:
    """`drawn`: at most `DRAWN` legs in order, the worst among them; `rows`: the newest, newest first."""

    drawn: tuple[Score, ...]
    rows: tuple[Score, ...]
    judged: int


def scores(relay_id: str) -> Scores:
    """One query."""
    found = [
        Score(number, verified or 0, dangling or 0, unknown or 0, made, reached)
        for number, verified, dangling, unknown, made, reached in Leg.objects.filter(
            relay_id=relay_id, fidelity_verified__isnull=False
        )
        .order_by("number")
        .values_list(
            "number", "fidelity_verified", "fidelity_dangling", "fidelity_unknown", "coverage_made", "coverage_reached"
        )
    ]
    worst = [int(10 * min(one.fidelity or 0, 100 if one.coverage is None else one.coverage)) for one in found]
    return Scores(tuple(reduced(found, worst, DRAWN)), tuple(found[::-1][:ROWS]), len(found))
