"""What a watched relay was advised and how often that was right, so that a person can switch on enforcement.

rules.md, Advisory before enforcement: "The page shows, for shadow and advise, how often the decision would have been
right by later evidence …, so that a person can switch on enforcement with reason."
"""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet

from relays.core import advisory
from relays.core.advisory import Act, Outcome, Tally
from relays.core.vocabulary import Mode
from relays.models import LIVE_STATES, Boundary, Leg, Relay, WouldBe

SHOWN = 5


@dataclass(frozen=True, slots=True)
class WouldLine:
    """One recorded decision as the page shows it. `pointers` "" = its baton was not judged yet."""

    leg: int
    turn: int
    reason: str
    hold: str
    cause: str
    outcome: Outcome
    pointers: str
    digest: str
    text: str
    why_none: str

    @property
    def verdict(self) -> str:
        """The verdict whose mark the outcome carries."""
        return {Outcome.RIGHT: "holds", Outcome.WRONG: "violated"}.get(self.outcome, "not yet")


@dataclass(frozen=True, slots=True)
class Advice:
    """A relay's score. `score`: by act; `holds`: boundaries of watched, armed legs that each hold would have held.

    `armed`, `legs`: watched legs that armed, of how many. `told`: what the agent that runs was last told, in advise.
    """

    mode: str
    score: dict[Act, Tally]
    armed: int
    legs: int
    holds: tuple[tuple[str, int], ...]
    newest: tuple[WouldLine, ...]
    told: str

    @property
    def said(self) -> str:
        """`would have rotated 14 times: 12 right, 1 wrong, 1 not yet`, then what else it would have done."""
        lines = [f"would have {act} {found.text}" for act, found in self.score.items() if found.times]
        return "; ".join(lines) or "not yet"


def advice(relay: Relay) -> Advice | None:
    """None for a relay that is enforced and never was watched. At most five queries, whatever the number of legs."""
    watched = Q(advisory=True) | Q(would_be__isnull=False)
    if relay.mode != Mode.ENFORCE:
        watched |= Q(state__in=LIVE_STATES)
    numbers = ("pk", "number", "state", "reason", "advisory", "armed", "progress")
    verdicts = ("fidelity_verified", "fidelity_dangling", "fidelity_unknown")
    of_them = Leg.objects.filter(watched, relay=relay).distinct()
    legs: dict[int, dict[str, Any]] = {leg["pk"]: dict(leg) for leg in of_them.values(*numbers, *verdicts)}
    if relay.mode == Mode.ENFORCE and not legs:
        return None
    kept = WouldBe.objects.filter(leg__relay=relay).order_by("leg__number", "id")
    columns = ("pk", "leg", "boundary__turn", "reason", "cause", "hold", "verified", "dangling", "unknown")
    rows: list[dict[str, Any]] = [dict(row) for row in kept.values(*columns, "digest", "why_none")]
    outcomes = _outcomes(rows, legs)
    found: dict[Act, list[Outcome]] = {act: [] for act in Act}
    for row in rows:
        if act := advisory.act_of(row["reason"]):
            found[act].append(outcomes[row["pk"]])
    for leg in legs.values():
        # a leg that closed as advice would have had a successor, or ended the relay: scored by its own baton
        act = advisory.act_of(leg["reason"])
        if leg["advisory"] and act in (Act.ROTATED, Act.DONE):
            found[act].append(advisory.handed_over(*(leg[name] for name in verdicts)))
    return Advice(
        mode=relay.mode,
        score={act: advisory.tally(each) for act, each in found.items()},
        armed=sum(leg["armed"] for leg in legs.values()),
        legs=len(legs),
        holds=_holds(of_them),
        newest=_newest(rows[-SHOWN:], outcomes, legs),
        told=_told(relay),
    )


def as_mapping(found: Advice | None) -> dict[str, Any] | None:
    """The key `advisory` of `status`: null where nothing was ever only advised."""
    if found is None:
        return None
    return {
        "mode": found.mode,
        "said": found.said,
        "rotated": found.score[Act.ROTATED].as_mapping(),
        "done": found.score[Act.DONE].as_mapping(),
        "asked": found.score[Act.ASKED].as_mapping(),
        "legs": found.legs,
        "armed": found.armed,
        "holds": dict(found.holds),
    }


def _outcomes(rows: list[dict[str, Any]], legs: dict[int, dict[str, Any]]) -> dict[int, Outcome]:
    #: leg -> its last end that needed no person
    free = {row["leg"]: row["pk"] for row in rows if advisory.act_of(row["reason"]) is not Act.ASKED}
    outcomes: dict[int, Outcome] = {}
    for row in rows:
        leg = legs[row["leg"]]
        if advisory.act_of(row["reason"]) is Act.ASKED:
            outcomes[row["pk"]] = advisory.asked(
                row["reason"],
                ended=leg["reason"],
                came_free=free.get(row["leg"], 0) > row["pk"],
                progress=leg["progress"],
            )
        else:
            outcomes[row["pk"]] = advisory.handed_over(row["verified"], row["dangling"], row["unknown"])
    return outcomes


def _holds(legs: QuerySet[Leg]) -> tuple[tuple[str, int], ...]:
    rows = Boundary.objects.filter(leg__in=legs.values("pk"), armed=True).exclude(hold="").order_by()
    return tuple(rows.values_list("hold").annotate(n=Count("id")).order_by("-n", "hold"))


def _newest(
    rows: list[dict[str, Any]], outcomes: dict[int, Outcome], legs: dict[int, dict[str, Any]]
) -> tuple[WouldLine, ...]:
    texts = dict(WouldBe.objects.filter(pk__in=[row["pk"] for row in rows]).values_list("pk", "text"))
    lines = []
    for row in reversed(rows):
        judged = row["verified"] is not None
        lines.append(
            WouldLine(
                leg=legs[row["leg"]]["number"],
                turn=row["boundary__turn"],
                reason=row["reason"],
                hold=row["hold"],
                cause=row["cause"],
                outcome=outcomes[row["pk"]],
                pointers=f"{row['verified']}/{row['verified'] + row['dangling']}" if judged else "",
                digest=row["digest"],
                text=texts[row["pk"]],
                why_none=row["why_none"],
            )
        )
    return tuple(lines)


def _told(relay: Relay) -> str:
    """In advise, what the agent that runs was answered at its last boundary; "" where it may go on."""
    if relay.mode != Mode.ADVISE:
        return ""
    last = (
        Boundary.objects.filter(leg__relay=relay, leg__state__in=LIVE_STATES)
        .order_by("-leg__number", "-number")
        .values_list("answer", flat=True)
        .first()
    )
    return last if last and last != "go" else ""
