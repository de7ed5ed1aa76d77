"""A watch: `done_when` as an invariant that is kept, with no end of its own.

Mission: "A 'keep X green' watch has no terminal done_when. [...] how is RELAY_NO_PROGRESS distinguished from 'correctly
idle, nothing to do'?" A watch is idle when its invariant holds and nothing is pending: no open issue in scope, no open
question. Unknown is not idle. While it is idle the run of empty legs neither grows nor resets.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relays.core import progress
from relays.core.donewhen import Clause, DoneVerdict, DoneWhen, Truth
from relays.core.lines import recorded
from relays.core.vocabulary import Reason

#: the next action of a leg that a broken invariant starts
RESTORE = "Restore the invariant in done_when."
#: the next action of a leg that starts although the invariant holds
SETTLE = "Settle what is pending: the open issues in scope and the open questions."

#: the entry of a watch's verdict that stands for all that is pending
NOTHING_PENDING = Clause("pending", "none", "nothing pending")
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Pending:
    """What keeps a watch from being idle though its invariant holds: `items`, one line each; `unknown`: why it cannot
    be told, "" when it can."""

    items: tuple[str, ...] = ()
    unknown: str = ""

    @property
    def quiet(self) -> bool:
        """Nothing is pending, for certain."""
        return not self.items and not self.unknown

    @property
    def evidence(self) -> str:
        """One line."""
        return "; ".join(self.items) or self.unknown or recorded("no open issue in scope, no open question")


def scope(done: DoneWhen) -> frozenset[str] | None:
    """The issues that a watch answers for: those that its done_when names, else (None) every issue of its store.

    An issue that done_when names is closed whenever done_when holds, so that the issues in scope say something of
    their own only where it names none: there the whole store is in scope.
    """
    named = frozenset(clause.value for clause in done.clauses if clause.kind == "issue")
    every = any(clause.kind == "issues" for clause in done.clauses)
    return named if named and not every else None


def pending(done: DoneWhen, issues: Mapping[int, str], problem: str, questions: Sequence[str]) -> Pending:
    """What is pending.

    `issues`: number -> "open" or "closed" at the branch tip, empty where there is no issue file: what was never filed
    is not open. `problem`: why the store cannot tell of all issues, "" when it can. `questions`: the open ones of the
    current baton, and of the leg that ends.
    """
    wanted = scope(done)
    still = sorted(
        number for number, state in issues.items() if state == "open" and (wanted is None or f"#{number}" in wanted)
    )
    items: list[str] = []
    if still:
        named = ", ".join(f"#{number}" for number in still[:_NAMED])
        more = len(still) - _NAMED
        items.append(
            recorded("open in scope: %(named)s and %(n)d more", named=named, n=more)
            if more > 0
            else recorded("open in scope: %(named)s", named=named)
        )
    if asked := tuple(dict.fromkeys(questions)):
        items.append(recorded("%(n)d open questions", n=len(asked)) if len(asked) > 1 else recorded("1 open question"))
    # where the issues are named, each of them has an answer of its own in done_when
    return Pending(tuple(items), problem if wanted is None else "")


def verdict(done: DoneVerdict, found: Pending) -> DoneVerdict:
    """Whether a watch may be idle: true only where the invariant holds and nothing is pending.

    The invariant's own truth stands where it is not true; what is pending is one more entry of the record.
    """
    if done.truth is not Truth.TRUE:
        return done
    truth = Truth.TRUE if found.quiet else Truth.FALSE if found.items else Truth.UNKNOWN
    return DoneVerdict(truth, (*done.clauses, (NOTHING_PENDING, truth, found.evidence)), done.prose)


def next_action(judged: DoneVerdict) -> str:
    """What a leg does that is started because a watch is not idle; `judged` as `verdict` gives it."""
    holds = all(truth is Truth.TRUE for clause, truth, _ in judged.clauses if clause is not NOTHING_PENDING)
    return SETTLE if holds and judged.clauses else RESTORE


def why(judged: DoneVerdict, truth: Truth) -> str:
    """The evidence of the entries with that truth, one line."""
    return "; ".join(f"{clause.text}: {said}" for clause, found, said in judged.clauses if found is truth)


def empty_run(reason: Reason, run: int, made: int | None) -> int:
    """The run of legs without verified progress after a leg that ended with `reason` and had `made` progress.

    rules.md: an idle end neither adds nor resets; "Verified progress resets the run; the token stays".
    """
    if reason is Reason.IDLE_PARKED and not made:
        return run
    return progress.after_leg(run, made)
