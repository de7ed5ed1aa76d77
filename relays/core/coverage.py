"""Baton coverage: how much of what a leg durably made its successor reaches from the baton.

rules.md, Computed verdicts: "of what the leg durably made (commits, closed issues, ledger rows, memories), the part
that the successor reaches from the baton (the cursor reaches commits); a number per leg, and holds only at 1."
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from relays.core.pointers import Kind, Pointer, PointerError, parse_pointer
from relays.core.sentences import phrase
from relays.core.verdicts import Judgement, VerdictLine


@dataclass(frozen=True, slots=True)
class Coverage:
    """One leg: how many things it durably made and how many are reached. `score` None: it made none."""

    made: int
    reached: int
    missing: tuple[Pointer, ...] = ()

    @property
    def score(self) -> float | None:
        return self.reached / self.made if self.made else None

    @property
    def verdict(self) -> Judgement:
        """Never 100 % of nothing: a leg that made nothing proves nothing."""
        if not self.made:
            return "not yet"
        return "holds" if self.reached == self.made else "violated"

    @property
    def text(self) -> str:
        """`9/14`: reached of made."""
        return f"{self.reached}/{self.made}"


def judge(
    made: Sequence[Pointer],
    *,
    pointed: Collection[Pointer],
    below: Collection[str],
    rows: Mapping[str, Sequence[str]],
) -> Coverage:
    """Judge one leg.

    `pointed`: the baton's pointers that verified. `below`: SHAs that its verified cursor reaches. `rows`: the leg's own
    ledger rows, id -> references as text; a row that is reached carries what it refers to, rows among them.
    """
    reached = set(pointed)
    open_rows = [pointer.ref for pointer in reached if pointer.kind is Kind.LEDGER]
    while open_rows:
        for text in rows.get(open_rows.pop(), ()):
            try:
                pointer = parse_pointer(text)
            except PointerError:
                continue  # a reference that names nothing leads nowhere
            if pointer not in reached:
                reached.add(pointer)
                if pointer.kind is Kind.LEDGER:
                    open_rows.append(pointer.ref)
    things = tuple(dict.fromkeys(made))
    missing = tuple(
        thing for thing in things if thing not in reached and not (thing.kind is Kind.COMMIT and thing.ref in below)
    )
    return Coverage(len(things), len(things) - len(missing), missing)


def over_legs(legs: Sequence[Coverage]) -> VerdictLine:
    """The relay's verdict over its judged legs; one that a successor has not read yet is left out."""
    proving = [leg for leg in legs if leg.made]
    whole = Coverage(sum(leg.made for leg in proving), sum(leg.reached for leg in proving))
    short = [leg for leg in proving if leg.verdict == "violated"]
    numbers: dict[str, object] = {
        "legs": len(proving),
        "made": whole.made,
        "reached": whole.reached,
        "score": whole.score,
        "legs_short": len(short),
    }
    if not proving:
        nothing = phrase("no leg that a successor took up has made anything durable")
        why = nothing if legs else phrase("nothing judged")
        return VerdictLine("not yet", why, numbers)
    if short:
        left = whole.made - whole.reached
        why = phrase("%(left)s of %(made)s durable things are not reached from a baton", left=left, made=whole.made)
        return VerdictLine("violated", why, numbers)
    why = phrase("all that was durably made is reached: %(made)s, legs: %(legs)s", made=whole.made, legs=len(proving))
    return VerdictLine("holds", why, numbers)
