"""Values of tables that records fill: of evidence on a relay's page, and of what a gate asks about."""

from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of a row. `kind`: text (data), word or told (a word or a line of ours, in the reader's language), mono,

    num, sha, ver, clock, or leg (a number that links to the leg)."""

    label: str
    value: Any
    kind: str = "text"
    wide: bool = False


def amount_of(value: object, axis: str) -> str:
    """An amount of an axis as `AxisLeft.plain` has it; `none` where there is no limit."""
    if value is None:
        return _("none")
    return f"{value} s" if axis == "wall" else str(value)
