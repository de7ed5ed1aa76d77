"""All durable stores of one relay at one branch tip: any number of pointers, one batch for each kind.

Mission: "Everything the relay carries forward is a pointer into one of these, and each pointer resolves to something a
witness can check." A store that cannot answer gives `unknown` with its evidence, never an exception and never a guess.
"""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from relays.core.baton import Baton
from relays.core.donewhen import Clause, DoneWhen, Truth
from relays.core.lines import recorded
from relays.core.pointers import Answer, Kind, Pointer, Verdict
from relays.core.reload import Reread, pointers_of
from relays.models import LedgerRow, Relay
from relays.stores.base import StoreUnavailable
from relays.stores.files import FileStore
from relays.stores.git import GitStore, discover
from relays.stores.issues import IssueFile
from relays.stores.ledger import LedgerStore
from relays.stores.memory import MemoryStore

WIP = "refs/relay/wip"


class Stores:
    """What pointers are judged against.

    `tip`: SHA of the branch tip, None when the branch is gone. `memory_root`: absolute, or relative to the work tree.
    `work_tree`: by default the relay's own, where the relay is known here, else the one that `git` was opened in.
    `branch`: its name, for the evidence.
    """

    def __init__(
        self,
        git: GitStore,
        tip: str | None,
        memory_root: str | Path | None,
        relay_id: str,
        *,
        work_tree: Path | None = None,
        branch: str = "",
    ) -> None:
        self.git = git
        self.relay_id = relay_id
        self.branch = branch
        self._tip = tip
        self._memory_root = memory_root
        self._work_tree = work_tree
        self.issues = IssueFile(git, tip)

    @property
    def tip(self) -> str:
        """The branch tip. Raises StoreUnavailable when the branch is gone."""
        if self._tip is None:
            raise StoreUnavailable(recorded("the branch does not exist"))
        return self._tip

    @property
    def branch_gone(self) -> bool:
        """The repository answered that there is no such branch."""
        return self._tip is None

    # pointers -----------------------------------------------------------------------------------------------------

    def resolve(self, pointers: Iterable[Pointer]) -> dict[Pointer, Answer]:
        """The verdict of every pointer; never raises."""
        asked: dict[Kind, list[str]] = {}
        for pointer in dict.fromkeys(pointers):
            asked.setdefault(pointer.kind, []).append(pointer.ref)
        answers: dict[Pointer, Answer] = {}
        for kind, refs in asked.items():
            try:
                found = self._store(kind)(refs)
            except StoreUnavailable as error:
                found = dict.fromkeys(refs, Answer(Verdict.UNKNOWN, error.evidence))
            answers |= {Pointer(kind, ref): found[ref] for ref in refs}
        return answers

    def _store(self, kind: Kind) -> Callable[[Sequence[str]], dict[str, Answer]]:
        match kind:
            case Kind.COMMIT:
                return lambda refs: self.git.resolve_commits(refs, self._tip, self.branch)
            case Kind.ISSUE:
                return self.issues.resolve
            case Kind.MEMORY:
                return lambda refs: MemoryStore(self.memory_root(), self.memory_within()).resolve(refs)
            case Kind.LEDGER:
                return LedgerStore(self.git, self._tip).resolve
            case Kind.FILE:
                return FileStore(self.git, self._tip).resolve

    def memory_root(self) -> Path | None:
        """The folder of memory slugs, absolute; None where a relative one has no work tree to lie in.

        Raises StoreUnavailable where that work tree is gone.
        """
        if not self._memory_root:
            return None
        root = Path(self._memory_root)
        if root.is_absolute():
            return root
        base = self._work_tree or self._known_work_tree()
        if base is not None and not base.is_dir():
            # what lay in it may be tracked and come back with it: its absence denies nothing
            raise StoreUnavailable(recorded("the work tree is gone, and the memory folder with it"), where=str(base))
        return None if base is None else Path(os.path.normpath(base / root))

    def memory_within(self) -> Path | None:
        """The work tree that a relative memory folder must stay in, whatever links lie on the way."""
        relative = bool(self._memory_root) and not Path(self._memory_root or "").is_absolute()
        return (self._work_tree or self._known_work_tree()) if relative else None

    def _known_work_tree(self) -> Path | None:
        kept = Relay.objects.filter(pk=self.relay_id).values_list("worktree", flat=True).first()
        if kept:
            return Path(kept)
        if self.git.facts.inside_work_tree:
            return discover(self.git.path).top
        return self.git.git_dir.parent if self.git.git_dir.name == ".git" else None

    def wip(self, leg: int, sha: str) -> Answer:
        """`wip_tree` "verifies when it is the commit under `refs/relay/wip/<relay>/<leg>`"; never raises."""
        name = f"{WIP}/{self.relay_id}/{leg}"
        try:
            kept = self.git.ref(name)
            kind = self.git.types([sha])[sha] if kept == sha else None
        except StoreUnavailable as error:
            return Answer(Verdict.UNKNOWN, error.evidence)
        if kept is None:
            return Answer(Verdict.DANGLING, recorded("%(name)s does not exist", name=name))
        if kept != sha:
            return Answer(Verdict.DANGLING, recorded("%(name)s stands at %(kept)s", name=name, kept=kept[:12]))
        if kind is None:
            # no git takes an object away that a ref names: this store has lost it, and can deny nothing
            return Answer(
                Verdict.UNKNOWN, recorded("%(name)s names an object that this repository has lost", name=name)
            )
        if kind != "commit":
            return Answer(Verdict.DANGLING, recorded("%(name)s names a %(kind)s", name=name, kind=kind))
        return Answer(Verdict.VERIFIED, recorded("the commit under %(name)s", name=name))

    def answers(self, baton: Baton) -> dict[str, Answer]:
        """Path -> answer, for all that steps 6 and 7 of the ladder ask a store about; never raises."""
        places = pointers_of(baton)
        found = self.resolve(at.pointer for at in places if at.pointer is not None and at.special == "")
        answers: dict[str, Answer] = {}
        for at in places:
            if at.special == "wip_tree" and at.pointer is not None:
                answers[at.path] = self.wip(baton.leg, at.pointer.ref)
            elif at.pointer is not None:
                answers[at.path] = found[at.pointer]
        return answers

    # done_when ----------------------------------------------------------------------------------------------------

    def clause_answers(
        self, done: DoneWhen, cmd: Mapping[str, tuple[Truth, str]]
    ) -> Mapping[Clause, tuple[Truth, str]]:
        """The truth of each clause; `cmd`: command -> its kept answer, one without is left out. Never raises."""
        found = self.resolve(clause.pointer for clause in done.clauses if clause.pointer is not None)
        answers: dict[Clause, tuple[Truth, str]] = {}
        for clause in done.clauses:
            if clause.kind == "cmd":
                if clause.value in cmd:
                    answers[clause] = cmd[clause.value]
            elif clause.kind == "issues":
                answers[clause] = self._asked(self.issues.none_open)
            elif clause.pointer is not None:
                answers[clause] = _truth(clause, found[clause.pointer])
        return answers

    @staticmethod
    def _asked(question: Callable[[], tuple[Truth, str]]) -> tuple[Truth, str]:
        try:
            return question()
        except StoreUnavailable as error:
            return Truth.UNKNOWN, error.evidence

    # what a fresh leg reads anew ----------------------------------------------------------------------------------

    def issue_digest(self) -> str:
        """Changes when the issues do; "" where there is no issue file. Raises StoreUnavailable."""
        return self.issues.digest()

    def reread(self, cursor: str, tip: str, since_leg: int = 0) -> Reread:
        """What came after the cursor: commits oldest first, issues whose state changed, ledger rows of `since_leg` on.

        The same stores give the same answer. Raises StoreUnavailable.
        """
        before = IssueFile(self.git, cursor).states()
        now = IssueFile(self.git, tip).states()
        changed = sorted(number for number in before.keys() | now.keys() if before.get(number) != now.get(number))
        rows = LedgerRow.objects.filter(relay_id=self.relay_id).order_by("at", "pk")
        if since_leg:
            rows = rows.filter(leg__number__gte=since_leg)
        ids = tuple(rows.values_list("pk", flat=True))
        if not ids and not Relay.objects.filter(pk=self.relay_id).exists():
            travelled = (str(row["id"]) for row in self.git.read_ledger_ref(self.relay_id) or ())
            ids = tuple(row for row in travelled if _leg_of(row) >= since_leg)
        return Reread(self.git.shas_between(cursor, tip), tuple(f"#{number}" for number in changed), ids)


def _leg_of(row_id: str) -> int:
    """The leg of a ledger row, which its id tells; one that tells none is read anew each time."""
    number = row_id.split(".")[-2] if row_id.count(".") >= 2 else ""
    return int(number) if number.isdecimal() and number.isascii() and len(number) < 12 else sys.maxsize


def _truth(clause: Clause, answer: Answer) -> tuple[Truth, str]:
    if answer.verdict is Verdict.UNKNOWN:
        return Truth.UNKNOWN, answer.evidence
    there = answer.verdict is Verdict.VERIFIED
    if clause.kind == "issue":
        there = there and answer.detail.get("state") == "closed"
    if clause.kind == "no-file":
        there = not there
    return Truth.TRUE if there else Truth.FALSE, answer.evidence
