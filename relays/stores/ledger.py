"""The intent ledger as a durable store: rows by id from our tables, or a line of a tracked file.

Baton contract: "the row id exists (rows travel under `refs/relay/ledger/<relay>`; a row of a relay not known here is
`unknown`), or `path#Lnn` (repository-relative) names an existing, well-formed row".
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Final

from relays.core.lines import recorded
from relays.core.pointers import Answer, Kind, PointerError, Verdict, check_ref, first_known
from relays.models import LedgerRow, Relay
from relays.stores.base import StoreUnavailable
from relays.stores.git import GitStore

_LINE: Final = re.compile(r"(.+)#L([1-9][0-9]*)")


class LedgerStore:
    """Rows of every relay that this site knows, of relays whose rows travelled here, and lines at the branch tip."""

    kind = Kind.LEDGER

    def __init__(self, git: GitStore | None, tip: str | None) -> None:
        self.git = git
        self.tip = tip

    def resolve(self, refs: Sequence[str]) -> dict[str, Answer]:
        """The verdict of each row: two queries, and one process for all lines, whatever the number."""
        answers: dict[str, Answer] = {}
        ids: list[str] = []
        lines: dict[str, tuple[str, int]] = {}
        for ref in dict.fromkeys(refs):
            line = _LINE.fullmatch(ref)
            try:
                check_ref(Kind.LEDGER, ref)
            except PointerError as refusal:
                answers[ref] = Answer(Verdict.DANGLING, f"refused: {refusal.why}")
            else:
                if line is None:
                    ids.append(ref)
                else:
                    lines[ref] = (line[1], int(line[2]))
        if ids:
            answers |= self._by_id(ids)
        if lines:
            answers |= self._by_line(lines)
        return answers

    def _by_id(self, ids: Sequence[str]) -> dict[str, Answer]:
        here = set(LedgerRow.objects.filter(pk__in=ids).values_list("pk", flat=True))
        owners = {row: row.rsplit(".", 2)[0] if row.count(".") >= 2 else "" for row in ids if row not in here}
        known = set(Relay.objects.filter(pk__in=set(owners.values())).values_list("pk", flat=True))
        travelled: dict[str, set[str] | None] = {}

        def asked(row: str) -> Iterator[Answer]:
            """Our own tables, then the ledger that travels with the repository."""
            if row in here:
                yield Answer(Verdict.VERIFIED, recorded("a ledger row"))
            elif owners[row] in known:
                yield Answer(Verdict.DANGLING, recorded("no such ledger row"))
            owner = owners[row]
            if owner not in travelled:
                travelled[owner] = self._travelled(owner)
            if row in (travelled[owner] or ()):
                yield Answer(Verdict.VERIFIED, recorded("a row of the ledger that travels with the repository"))
            yield Answer(Verdict.UNKNOWN, recorded("a row of a relay that is not known here"))

        return {row: first_known(asked(row)) for row in ids}

    def _travelled(self, relay_id: str) -> set[str] | None:
        if self.git is None or not relay_id:
            return None
        try:
            rows = self.git.read_ledger_ref(relay_id)
        except StoreUnavailable:
            return None  # the row stays unknown
        return None if rows is None else {str(row["id"]) for row in rows}

    def _by_line(self, lines: dict[str, tuple[str, int]]) -> dict[str, Answer]:
        if self.git is None:
            return dict.fromkeys(lines, Answer(Verdict.UNKNOWN, recorded("no repository to read the line from")))
        if self.tip is None:
            return dict.fromkeys(lines, Answer(Verdict.DANGLING, recorded("the branch does not exist")))
        answers: dict[str, Answer] = {}
        try:
            files = self.git.read_files(self.tip, [path for path, _ in lines.values()])
        except StoreUnavailable as error:
            return dict.fromkeys(lines, Answer(Verdict.UNKNOWN, error.evidence))
        split = {path: None if raw is None else raw.split(b"\n") for path, raw in files.items()}
        for ref, (path, number) in lines.items():
            rows = split[path]
            if rows is None:
                answers[ref] = Answer(Verdict.DANGLING, recorded("no such file at the tip"))
            elif number > len(rows) or not rows[number - 1].strip():
                answers[ref] = Answer(Verdict.DANGLING, recorded("the file has no such row"))
            elif not _well_formed(rows[number - 1]):
                answers[ref] = Answer(Verdict.DANGLING, recorded("the row is not well-formed"))
            else:
                answers[ref] = Answer(Verdict.VERIFIED, recorded("a well-formed row at the tip"))
        return answers


def _well_formed(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line.decode()), dict)
    except (ValueError, RecursionError):
        return False
