"""The operator readout: seven lines, from stored records only.

Mission: "If it cannot be produced from witnessed records, the system should say not yet rather than claim continuity."
Keys, their order and the form of each line are fixed (rules.md, Operator readout).
"""

from dataclasses import dataclass, fields
from datetime import timedelta

from relays.core.objective import Reconciliation
from relays.core.usage import Warmth

NOT_YET = "not yet"


@dataclass(frozen=True, slots=True)
class Readout:
    """The value text after each key, in the order of the lines."""

    objective: str
    budget: str
    resident_view: str
    assumptions: str
    reset: str
    memory: str
    cache: str


@dataclass(frozen=True, slots=True)
class BudgetLeft:
    """What remains; None = no limit. `context`: tokens under this leg's ceiling; the rest is the relay's remainder."""

    turns: int | None = None
    tokens: int | None = None
    context: int | None = None
    queries: int | None = None
    time: timedelta | None = None


@dataclass(frozen=True, slots=True)
class ResidentCounts:
    selected: int
    elided: int
    served: int
    refused: int


@dataclass(frozen=True, slots=True)
class AssumptionCounts:
    use: int
    query: int
    refresh: int


@dataclass(frozen=True, slots=True)
class ResetLine:
    """The last reset transaction; `omitted` is the number of spans that it left out."""

    old_trace: str
    new_trace: str
    seed_digest: str
    omitted: int


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    promoted: int
    refused_or_expired: int
    ambiguous: int


def build(
    *,
    objective: Reconciliation | None = None,
    budget: BudgetLeft | None = None,
    resident: ResidentCounts | None = None,
    assumptions: AssumptionCounts | None = None,
    reset: ResetLine | None = None,
    memory: MemoryCounts | None = None,
    cache: Warmth | None = None,
) -> Readout:
    """The readout of these records; None = there is no record, and the line says `not yet`."""
    return Readout(
        objective=str(objective) if objective is not None else NOT_YET,
        budget=_budget(budget),
        resident_view=(
            f"selected={resident.selected} elided={resident.elided} page_faults={resident.served}/{resident.refused}"
            if resident is not None
            else NOT_YET
        ),
        assumptions=(
            f"use={assumptions.use} query={assumptions.query} refresh={assumptions.refresh}"
            if assumptions is not None
            else NOT_YET
        ),
        reset=(
            f"old_trace={_word(reset.old_trace)} new_trace={_word(reset.new_trace)} "
            f"seed_digest={_word(reset.seed_digest)} omitted={reset.omitted}"
            if reset is not None
            else NOT_YET
        ),
        memory=(
            f"promoted={memory.promoted} refused_or_expired={memory.refused_or_expired} ambiguous={memory.ambiguous}"
            if memory is not None
            else NOT_YET
        ),
        cache=f"{cache} (cost only)" if cache is not None else NOT_YET,
    )


def lines(readout: Readout) -> tuple[str, ...]:
    """The seven lines, `key: value`, without line ends."""
    return tuple(f"{key}: {value}" for key, value in as_mapping(readout).items())


def as_mapping(readout: Readout) -> dict[str, str]:
    """Key to value text, in the order of the lines."""
    return {one.name: getattr(readout, one.name) for one in fields(readout)}


def duration(time: timedelta) -> str:
    """Whole seconds in the form that policy values take too: `2h5m`, `1h30m10s`, `45s`, `0s`; what is over is `0s`."""
    seconds = max(0, int(time.total_seconds()))
    hours, rest = divmod(seconds, 3600)
    minutes, rest = divmod(rest, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else "", f"{rest}s" if rest else ""]
    return "".join(parts) or "0s"


def _budget(left: BudgetLeft | None) -> str:
    if left is None:
        return NOT_YET
    time = "none" if left.time is None else duration(left.time)
    return (
        f"turns={_number(left.turns)} tokens={_number(left.tokens)} context={_number(left.context)} "
        f"queries={_number(left.queries)} time={time}"
    )


def _number(value: int | None) -> str:
    """0 left is never "no budget"; below 0 is spent, and nothing more."""
    return "none" if value is None else str(max(0, value))


def _word(text: str) -> str:
    """One word of a line: a blank or a line end in it would forge the keys after it."""
    return "".join(letter if letter.isprintable() and not letter.isspace() else "_" for letter in text) or "none"
