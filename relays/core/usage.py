"""Five disjoint token buckets of one model call, and what of them is resident.

Rules: "Resident tokens of a turn = uncached input + cache read + cache writes of THAT turn, main chain only (never a
sum over turns, never output)." Cost: "One API call counts once … field-wise maximum over its rows."
All numbers are tokens, integers, never negative.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Warmth = Literal["warm", "cold", "unknown"]


@dataclass(frozen=True, slots=True)
class Buckets:
    """What one call (or a sum of calls) used; reasoning tokens are part of `output`."""

    input: int = 0  # uncached
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0

    def __post_init__(self) -> None:
        # one is made for each call of a session that is read: the names are only asked for where one is wrong
        if min(self.input, self.cache_read, self.cache_write_5m, self.cache_write_1h, self.output) < 0:
            for name, value in self.as_mapping().items():
                if value < 0:
                    raise ValueError(f"{name} is negative: {value}")

    @classmethod
    def of(cls, payload: Mapping[str, object]) -> "Buckets":
        """From the fields of a `usage` event; a bucket that is null or left out was not reported and counts 0."""

        def tokens(name: str) -> int:
            value = payload.get(name)
            return value if isinstance(value, int) else 0

        return cls(
            tokens("input"), tokens("cache_read"), tokens("cache_write_5m"), tokens("cache_write_1h"), tokens("output")
        )

    def as_mapping(self) -> dict[str, int]:
        return {
            "input": self.input,
            "cache_read": self.cache_read,
            "cache_write_5m": self.cache_write_5m,
            "cache_write_1h": self.cache_write_1h,
            "output": self.output,
        }


ZERO = Buckets()


def resident(buckets: Buckets) -> int:
    """Tokens that one call had in its window: everything it read, nothing that it wrote."""
    return buckets.input + buckets.cache_read + buckets.cache_write_5m + buckets.cache_write_1h


def total(buckets: Buckets) -> int:
    """All tokens of the five buckets."""
    return resident(buckets) + buckets.output


def merge_max(a: Buckets, b: Buckets) -> Buckets:
    """Two rows of the SAME call: the field-wise maximum, so that a row seen twice changes nothing.

    What was written to the cache is ONE amount, of which a row may name the split or not; where it does not, all of it
    stands under 5 minutes (the edge's rule). The maximum of both fields apart would count such an amount twice beside
    a row that puts it under an hour. So it is taken of the whole amount and of the hour's part, and 5 minutes have the
    rest: a row with a split wins over one without, and never is more written than a row says.
    """
    hour = max(a.cache_write_1h, b.cache_write_1h)
    written = max(a.cache_write_5m + a.cache_write_1h, b.cache_write_5m + b.cache_write_1h)
    return Buckets(
        max(a.input, b.input), max(a.cache_read, b.cache_read), written - hour, hour, max(a.output, b.output)
    )


def add(a: Buckets, b: Buckets) -> Buckets:
    """Two DIFFERENT calls: the sum."""
    return Buckets(
        a.input + b.input,
        a.cache_read + b.cache_read,
        a.cache_write_5m + b.cache_write_5m,
        a.cache_write_1h + b.cache_write_1h,
        a.output + b.output,
    )


def corrected(total: Buckets, before: Buckets, after: Buckets) -> Buckets:
    """A sum of calls in which one was counted as `before` and is now known as `after`.

    One bucket of a call may fall: see `merge_max`, where an amount without its split moves to the hour.
    """
    return Buckets(
        total.input - before.input + after.input,
        total.cache_read - before.cache_read + after.cache_read,
        total.cache_write_5m - before.cache_write_5m + after.cache_write_5m,
        total.cache_write_1h - before.cache_write_1h + after.cache_write_1h,
        total.output - before.output + after.output,
    )


def warmth(last: Buckets | None, *, reported: bool = True) -> Warmth:
    """Cache state of the last call: warm from half of its resident tokens on. "Cost only: no decision reads it." """
    if last is None or not reported or resident(last) == 0:
        return "unknown"
    return "warm" if 2 * last.cache_read >= resident(last) else "cold"
