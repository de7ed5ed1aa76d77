"""What every durable store promises: it answers in batches, and says plainly when it cannot answer.

Baton contract: "Verdict of one pointer: three values, never two." A store answers `verified` or `dangling`; where it
cannot answer it raises, and whoever asked records `unknown` with the evidence that the error carries.
"""

from collections.abc import Sequence
from typing import Protocol

from relays.core.pointers import Answer, Kind


class StoreUnavailable(Exception):
    """A store could not answer.

    `evidence`: one line without machine paths or times, fit for a check record and a reload plan.
    `where`, `fix`: for people; `str()` is "where: evidence; fix".
    """

    def __init__(self, evidence: str, *, where: str = "", fix: str = "") -> None:
        self.evidence = evidence
        self.where = where
        self.fix = fix
        super().__init__(f"{where + ': ' if where else ''}{evidence}{'; ' + fix if fix else ''}")


class BadName(StoreUnavailable):
    """A ref, branch, SHA or path that is refused before it reaches a process or a file name."""


class Store(Protocol):
    """One kind of durable store."""

    kind: Kind

    def resolve(self, refs: Sequence[str]) -> dict[str, Answer]:
        """The verdict of each reference, whatever their number, in a constant number of look-ups.

        Raises StoreUnavailable where the whole store cannot answer; single references may be `unknown`.
        """
        ...
