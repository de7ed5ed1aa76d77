"""Assumptions: scored before use.

Mission: "Low-confidence, stale, inferred, or unknown assumptions turn into a query or refresh action before they can
support an effectful step."
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from relays.core.lines import recorded
from relays.core.vocabulary import Ask

INFERRED_FLOOR = 0.80
FLOOR = 0.65


class Source(StrEnum):
    USER_STATED = "user_stated"
    WITNESSED = "witnessed"
    INFERRED = "inferred"
    STALE = "stale"
    UNKNOWN = "unknown"


class Action(StrEnum):
    """What may be done with an assumption."""

    USE = "use"
    QUERY = "query"
    REFRESH = "refresh"


#: where the agent gave no confidence
MISSING: Mapping[Source, float] = {
    Source.USER_STATED: 1.0,
    Source.WITNESSED: 1.0,
    Source.INFERRED: 0.5,
    Source.STALE: 0.2,
    Source.UNKNOWN: 0.0,
}


@dataclass(frozen=True, slots=True)
class Assessment:
    """The action for one assumption with the figures that it rests on."""

    action: Action
    source: Source
    confidence: float
    reason: str

    def __str__(self) -> str:
        return str(self.action)


def assess(
    source: str, confidence: float | None = None, *, floor: float = FLOOR, inferred: float = INFERRED_FLOOR
) -> Assessment:
    """stale → refresh; unknown → query; inferred below `inferred` → query; others below `floor` → query; else use.

    A source that is no word of `Source` is unknown; a confidence that is no number from 0 to 1 counts as 0.
    """
    known = Source(source) if source in set(Source) else Source.UNKNOWN
    given = MISSING[known] if confidence is None else confidence
    if math.isnan(given) or not 0 <= given <= 1:
        given = 0.0
    if known is Source.STALE:
        return Assessment(Action.REFRESH, known, given, recorded("stale: read it again"))
    if known is Source.UNKNOWN:
        return Assessment(Action.QUERY, known, given, recorded("its source is unknown"))
    needed = inferred if known is Source.INFERRED else floor
    if given < needed:
        return Assessment(
            Action.QUERY,
            known,
            given,
            recorded(
                "confidence %(given)s is below %(needed)s (%(known)s)",
                given=f"{given:g}",
                needed=f"{needed:g}",
                known=known,
            ),
        )
    return Assessment(
        Action.USE,
        known,
        given,
        recorded(
            "confidence %(given)s clears %(needed)s (%(known)s)", given=f"{given:g}", needed=f"{needed:g}", known=known
        ),
    )


@dataclass(frozen=True, slots=True)
class EffectVerdict:
    """May an effectful step lean on what it cites? `blocking`: (key, action, reason) of each that must not be used."""

    admit: bool
    blocking: tuple[tuple[str, Action, str], ...]
    ask: Ask | None


def effect(cited: Iterable[str], assessed: Mapping[str, Assessment]) -> EffectVerdict:
    """ "An effectful step needs all `use`, else the ask opens." A cited key that was never assessed is a query."""
    blocking: list[tuple[str, Action, str]] = []
    for key in dict.fromkeys(cited):
        found = assessed.get(key)
        if found is None:
            blocking.append((key, Action.QUERY, recorded("not recorded as an assumption")))
        elif found.action is not Action.USE:
            blocking.append((key, found.action, found.reason))
    return EffectVerdict(not blocking, tuple(blocking), Ask.LOW_CONFIDENCE_ASSUMPTION if blocking else None)


def listed(name: str, tools: Sequence[str]) -> bool:
    """Whether a tool is on a policy's list: by its name as its program says it, or by one with `*` for any letters."""
    return any(re.fullmatch(".*".join(map(re.escape, one.split("*"))), name, re.DOTALL) for one in tools)


def tool(name: str, tools: Sequence[str], assessed: Mapping[str, Assessment]) -> EffectVerdict:
    """May this tool run? One on the policy's list is an effectful step; a call cites nothing, so it leans on all."""
    return effect(assessed if listed(name, tools) else (), assessed)
