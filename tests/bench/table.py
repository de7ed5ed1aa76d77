"""One line of the table for each measurement, the same values as JSON, and the honest word for a goal."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

HEADS = ("what", "ours", "peer or limit", "ratio", "goal", "met")


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement. `ours` and `peer` are in `unit`; `peer` None: there is nothing to put beside it.

    `goal` is the highest ratio to the peer (`of_ratio`) or the highest value of ours that is wanted, the lowest where
    `more_is_better`; None for no goal.
    """

    what: str
    ours: float
    unit: str
    peer: float | None = None
    peer_name: str = ""
    goal: float | None = None
    of_ratio: bool = False
    more_is_better: bool = False
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float | None:
        return None if self.peer is None or self.peer <= 0 else self.ours / self.peer

    @property
    def met(self) -> bool | None:
        """None where there is no goal."""
        if self.goal is None:
            return None
        judged = self.ratio if self.of_ratio else self.ours
        return judged is not None and (judged >= self.goal if self.more_is_better else judged <= self.goal)

    def as_mapping(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "met": self.met}

    def cells(self) -> tuple[str, ...]:
        peer = "" if self.peer is None else f"{shown(self.peer, self.unit)} {self.peer_name}".rstrip()
        sign = ">=" if self.more_is_better else "<="
        of = "x" if self.of_ratio else self.unit
        goal = "" if self.goal is None else f"{sign} {self.goal:g} {of}"
        met = {None: "", True: "yes", False: "NO"}[self.met]
        ratio = "" if self.ratio is None else f"{self.ratio:.2f} x"
        return self.what, shown(self.ours, self.unit), peer, ratio, goal, met


def shown(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 3
    return f"{value:,.{digits}f} {unit}"


def text(rows: Sequence[Row]) -> str:
    """The table for people."""
    cells = [HEADS, *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in cells]
    return "\n".join([lines[0], "  ".join("-" * width for width in widths), *lines[1:]])


def as_json(rows: Sequence[Row], machine: dict[str, Any]) -> str:
    return json.dumps({"machine": machine, "rows": [row.as_mapping() for row in rows]}, indent=1) + "\n"


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least `part` of all values do not exceed (nearest rank). ValueError for no values."""
    if not values:
        raise ValueError("nothing was measured")
    return sorted(values)[max(math.ceil(part * len(values)), 1) - 1]


def median(values: Sequence[float]) -> float:
    return percentile(values, 0.5)
