"""What a person pins and states for every leg to come: explicit facts and pinned pointers, added and removed.

Mission: "What remains user-controlled is the actual objective, explicit facts, budget limits, pins". rules.md,
Objective: "recorded decisions that the next leg gets by pointer". A fact is a ledger row with the person's words; a
pin is a pointer into a durable store. Neither enters a seed as text.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from relays.core.pointers import Kind, Pointer, PointerError, parse_pointer
from relays.core.reset import FACTS_MAX

FactKind = Literal["fact", "pin"]

#: acts of decisions that change what stands; a relay that is taken up brings what stood where it came from
ACTS: Final = ("fact_add", "fact_remove", "pin_add", "pin_remove", "adopt")
MOST: Final = FACTS_MAX


@dataclass(frozen=True, slots=True)
class UserFact:
    """One that stands. `pointer` is what a leg is given; `text`: a fact's words, "" of a pin and where not known."""

    kind: FactKind
    pointer: str
    text: str = ""


def standing(decisions: Iterable[tuple[str, Mapping[str, Any], int]]) -> tuple[UserFact, ...]:
    """What stands after these decisions: (act, detail, number) in their order. One that was added last comes last.

    The row that mirrors a fact's decision is named by it: `row` in its detail, and then its number.
    """
    found: dict[str, UserFact] = {}
    for act, detail, number in decisions:
        if act == "fact_add":
            pointer = str(Pointer(Kind.LEDGER, f"{detail['row']}{number}"))
            found[pointer] = UserFact("fact", pointer, str(detail["fact"]))
        elif act == "pin_add":
            found[str(detail["pin"])] = UserFact("pin", str(detail["pin"]))
        elif act in ("fact_remove", "pin_remove"):
            found.pop(str(detail["removed"]), None)
        elif act == "adopt":
            found |= {one.pointer: one for one in taken_over(detail.get("user_facts") or ())}
    return tuple(found.values())


def taken_over(pointers: Iterable[object]) -> tuple[UserFact, ...]:
    """Those of a record from elsewhere that are pointers, as many as a seed holds: a ledger row is a fact's."""
    found: dict[str, UserFact] = {}
    for text in pointers:
        try:
            pointer = parse_pointer(str(text))
        except PointerError:
            continue
        kind: FactKind = "fact" if pointer.kind is Kind.LEDGER and ".p" in pointer.ref else "pin"
        found[str(pointer)] = UserFact(kind, str(pointer))
        if len(found) == MOST:
            break
    return tuple(found.values())
