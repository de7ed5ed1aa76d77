"""Promotion of an observation to durable memory: it must be earned.

Mission: "Durable promotion requires its own evidence; an unclassified observation defaults to expiring, not
persisting." All outcomes are kept, so that they can be counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from relays.core.lines import recorded
from relays.core.vocabulary import Ask


class Outcome(StrEnum):
    PROMOTED = "promoted"
    REFUSED = "refused"
    EXPIRED = "expired"
    AMBIGUOUS = "ambiguous"


#: classes that may become memory
LASTING = frozenset({"bounded", "durable"})


@dataclass(frozen=True, slots=True)
class PromotionVerdict:
    """What becomes of one observation, and the ask that it opens where a person must say."""

    outcome: Outcome
    reason: str
    ask: Ask | None = None


def judge(durability: str, evidence: str | None, consent: bool | None = None) -> PromotionVerdict:
    """Judge one observation.

    `durability`: its declared class. `evidence`: the verdict of its evidence pointer (verified, dangling, unknown),
    None where it names none. `consent`: what a PERSON's recorded decision said, None where there is none; the word of
    the agent that wants the promotion is no consent.
    """
    if durability == "turn":
        return PromotionVerdict(Outcome.REFUSED, recorded("class turn never becomes memory"))
    if durability not in LASTING:
        return PromotionVerdict(Outcome.EXPIRED, recorded("unclassified: it expires with its leg"))
    if consent is False:
        return PromotionVerdict(Outcome.REFUSED, recorded("a person refused it"))
    if consent:
        return PromotionVerdict(Outcome.PROMOTED, recorded("a person consented"))
    if evidence == "verified":
        return PromotionVerdict(Outcome.PROMOTED, recorded("its evidence resolves"))
    if evidence == "dangling":
        return PromotionVerdict(Outcome.REFUSED, recorded("its evidence does not resolve"))
    why = recorded("names no evidence") if evidence is None else recorded("its evidence could not be checked")
    return PromotionVerdict(Outcome.AMBIGUOUS, why, Ask.AMBIGUOUS_MEMORY_PROMOTION)


def outcome_of(payload: Mapping[str, Any], evidence: str = "unknown", consent: bool | None = None) -> Outcome:
    """The outcome for a `promotion` event. `evidence`: the verdict of the pointer that it names.

    The event's own `consent` is the agent's word and is not read.
    """
    named = payload.get("evidence")
    return judge(str(payload.get("class") or ""), evidence if named else None, consent).outcome
