"""Issues as a durable store inside the repository: `.relay/issues.jsonl` at the branch tip.

Interface, The issue file: one object a line, `{"number": 1, "title": "…", "state": "open"|"closed"}`. Its rows come
from agents: a row that is malformed, or whose number stands twice, makes the file unable to deny anything.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from relays.core.donewhen import Truth
from relays.core.lines import recorded
from relays.core.pointers import Answer, Kind, PointerError, Verdict, check_ref
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore

PATH: Final = ".relay/issues.jsonl"
LINES_MAX: Final = 100_000
NUMBER_MAX: Final = 10**15  # no issue has more; a longer number fits no pointer
_HERE: Final = re.compile(r"#([0-9]+)")


@dataclass(slots=True)
class _Rows:
    """`states`: the rows that can be relied on. `problem`: one line, "" when every row is well-formed."""

    raw: bytes | None = None
    states: dict[int, str] = field(default_factory=dict)
    problem: str = ""


class IssueFile:
    """The issue file at one commit; read once. Methods raise StoreUnavailable when git cannot answer."""

    kind = Kind.ISSUE

    def __init__(self, git: GitStore, tip: str | None) -> None:
        self.git = git
        self.tip = tip
        self._kept: _Rows | None = None

    def _rows(self) -> _Rows:
        if self._kept is None:
            raw = self.git.read_file(self.tip, PATH) if self.tip is not None else None
            self._kept = _read(raw)
        return self._kept

    @property
    def exists(self) -> bool:
        return self._rows().raw is not None

    def states(self) -> dict[int, str]:
        """Number -> "open" or "closed", of the well-formed rows; empty where there is no file."""
        return dict(self._rows().states)

    def row(self, number: int) -> dict[str, object] | None:
        """All that the file says of one issue; None where it says nothing that can be relied on."""
        if number not in self._rows().states:
            return None
        for line in (self._rows().raw or b"").split(b"\n"):
            try:
                found = json.loads(line.decode()) if line.strip() else None
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict) and found.get("number") == number:
                return found
        return None

    def open_numbers(self) -> list[int]:
        """Numbers of the open issues, smallest first."""
        return sorted(number for number, state in self._rows().states.items() if state == "open")

    def none_open(self) -> tuple[Truth, str]:
        """The clause `issues:none open`: false where the file is missing."""
        rows = self._rows()
        if rows.raw is None:
            return Truth.FALSE, recorded("%(path)s is not in the tree", path=PATH)
        still = self.open_numbers()
        if still:
            named = ", ".join(f"#{number}" for number in still[:5])
            more = ", …" if len(still) > 5 else ""
            return Truth.FALSE, recorded("%(n)d open: %(named)s", n=len(still), named=f"{named}{more}")
        if rows.problem:
            return Truth.UNKNOWN, rows.problem
        return Truth.TRUE, recorded("none of %(n)d is open", n=len(rows.states))

    def digest(self) -> str:
        """SHA-256 of the file as it stands at the tip, "" where there is none: a watch looks again when it changes."""
        raw = self._rows().raw
        return "" if raw is None else hashlib.sha256(raw).hexdigest()

    def resolve(self, refs: Sequence[str]) -> dict[str, Answer]:
        """The verdict of each `#n`; evidence and `detail["state"]` say open or closed. One process at most."""
        return {ref: self._resolve(ref) for ref in dict.fromkeys(refs)}

    def _resolve(self, ref: str) -> Answer:
        try:
            check_ref(Kind.ISSUE, ref)
        except PointerError as refusal:
            return Answer(Verdict.DANGLING, f"refused: {refusal.why}")
        here = _HERE.fullmatch(ref)
        if here is None:
            return Answer(Verdict.UNKNOWN, recorded("no issue store for that repository is set up here"))
        rows = self._rows()
        if rows.raw is None:
            return Answer(Verdict.UNKNOWN, recorded("no issue store: %(path)s is not in the tree", path=PATH))
        state = rows.states.get(int(here[1]))
        if state is not None:
            return Answer(
                Verdict.VERIFIED, recorded("%(state_word)s in %(path)s", state_word=state, path=PATH), {"state": state}
            )
        if rows.problem:
            return Answer(Verdict.UNKNOWN, rows.problem)
        return Answer(Verdict.DANGLING, recorded("not in %(path)s", path=PATH))


def _read(raw: bytes | None) -> _Rows:
    rows = _Rows(raw)
    twice: set[int] = set()
    if raw is not None and raw.count(b"\n") > LINES_MAX:
        raise StoreUnavailable(recorded("%(path)s has more than %(lines_max)d lines", path=PATH, lines_max=LINES_MAX))
    for place, line in enumerate((raw or b"").split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode(), object_pairs_hook=_once)
        except (ValueError, RecursionError):
            row = None
        number = row.get("number") if isinstance(row, dict) else None
        state = row.get("state") if isinstance(row, dict) else None
        if type(number) is not int or not 0 < number <= NUMBER_MAX or state not in ("open", "closed"):
            rows.problem = rows.problem or recorded("%(path)s: line %(place)s is malformed", path=PATH, place=place)
        elif number in rows.states or number in twice:
            rows.problem = rows.problem or recorded("%(path)s: #%(number)d stands twice", path=PATH, number=number)
            twice.add(number)
            rows.states.pop(number, None)
        else:
            rows.states[number] = state
    return rows


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A row that says `state` twice says nothing."""
    row = dict(pairs)
    if len(row) != len(pairs):
        raise ValueError(recorded("a key stands twice"))
    return row
