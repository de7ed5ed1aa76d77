"""What the stored projection says a relay would have done with a session: read tolerantly, never made up.

Every figure of it is SIMULATED, every parameter carries its own provenance. Where nothing is stored it is "not yet".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from django.utils.translation import gettext as _

from relays.models import Session


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the simulation: `provenance` OBSERVED, SIMULATED or ASSUMED; `source` in words."""

    name: str
    value: object  # tokens, but for the mark: a part of the window
    provenance: str
    source: str


@dataclass(frozen=True, slots=True)
class AsRelay:
    """`known` False: nothing is stored, and `why_not` says what is missing. Tokens throughout."""

    known: bool
    why_not: str
    mark: int | None
    peak: int | None
    rotations: int
    legs: int
    cost: Decimal | None
    parameters: tuple[Parameter, ...]

    @property
    def window_declared(self) -> bool:
        """Whether the agent itself says how large its window is; else what is known of its window is ASSUMED."""
        return any(one.name == "window" and one.provenance == "OBSERVED" for one in self.parameters)


def as_relay(session: Session) -> AsRelay:
    """No query."""
    stored = session.shadow if isinstance(session.shadow, dict) else {}
    why = str(stored.get("why") or "").removeprefix("not yet: ")
    known = _count(stored.get("mark")) is not None and not why
    return AsRelay(
        known=known,
        why_not="" if known else why or _why_not(session),
        mark=_count(stored.get("mark")),
        peak=_count(stored.get("peak")),
        rotations=_count(stored.get("rotations")) or 0,
        legs=_count(stored.get("legs")) or 0,
        cost=_money(stored.get("cost")),
        parameters=_parameters(stored.get("parameters")),
    )


def simulated(session: Session) -> tuple[tuple[int, int], ...]:
    """The simulated window as (main call, tokens), reduced; apart, as only the graph needs it. No query."""
    stored = session.shadow if isinstance(session.shadow, dict) else {}
    points = stored.get("points")
    return tuple(
        (one[0], one[1])
        for one in (points if isinstance(points, list) else ())
        if isinstance(one, list) and len(one) > 1 and isinstance(one[0], int) and isinstance(one[1], int)
    )


def _why_not(session: Session) -> str:
    if not session.main_calls:
        return _("it has no main call of its own")
    if not session.window_tokens:
        return _("the window of its model is not known")
    return _("it has not been projected yet")


def _count(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _money(value: object) -> Decimal | None:
    try:
        return Decimal(str(value)) if value not in (None, "") else None
    except InvalidOperation:
        return None


def _parameters(value: object) -> tuple[Parameter, ...]:
    rows = value.items() if isinstance(value, Mapping) else ()
    return tuple(
        Parameter(str(name).replace("_", " "), row[0], str(row[1]).upper(), str(row[2]))
        for name, row in rows
        if isinstance(row, list) and len(row) == 3
    )
