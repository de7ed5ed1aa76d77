"""Figures out of JSON that a row keeps: what is not of the form is None or left out, never made up."""

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation


def mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}


def rows(value: object) -> Iterable[Mapping[str, object]]:
    return (one for one in value if isinstance(one, Mapping)) if isinstance(value, list | tuple) else ()


def count(value: object) -> int | None:
    return int(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None


def share(value: object) -> float | None:
    return float(value) if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None


def amount(value: object) -> Decimal | None:
    """A decimal string or a number; None for whatever else stands there, also for NaN and infinity."""
    if isinstance(value, bool) or value in (None, ""):
        return None
    try:
        found = Decimal(str(value))
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def pair(value: object) -> tuple[Decimal, Decimal] | None:
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = amount(value[0]), amount(value[1])
    return (min(low, high), max(low, high)) if low is not None and high is not None else None


def numbers(value: object) -> tuple[float, ...]:
    found = [amount(one) for one in value] if isinstance(value, list | tuple) else []
    return tuple(float(one) for one in found if one is not None)
