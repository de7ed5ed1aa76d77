"""The externalize gate: a leg may end only when all that it relies on stands in a durable store.

Mission: "every load-bearing fact must be in a durable store first. If a fact lives only in the transcript, rotation
is refused rather than laundered into prose." The gate fails closed: no class, no pointer, no answer all refuse. It
cannot see a fact that was neither declared nor left a trace; the page says so.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from relays.core.lines import recorded
from relays.core.pointers import Answer, Kind, Pointer, PointerError, Verdict, parse_pointer
from relays.core.safepoint import TreeState
from relays.core.vocabulary import Reason

Source = Literal["declared", "detected"]

#: the one class that need not survive the leg
EPHEMERAL = "turn"

#: the label of the culprit that stands for a missing `externalized`
STATEMENT = "externalized"

#: the label of the finding that stands for a tree that could not be read
UNREAD_TREE = recorded("the working tree, which could not be read")

#: the kind of the finding that the branch no longer holds what the leg started from
LOST = "cursor_lost"

#: kind of fact -> what would externalize it while it has no pointer
FIXES: dict[str, str] = {
    "fact": "commit it, file it as an issue or append a ledger row, then declare it again with that pointer",
    "decision": "append a ledger row for it, or commit it, then declare it again with that pointer",
    "open_question": "file it as an issue or append a ledger row, then declare it again with that pointer",
    "dead_end": "write it to a memory file or append a ledger row, then declare it again with that pointer",
    "dirty": "commit it, or send park_tree",
    "stash": "apply the stash and commit it, or drop it",
    "file_outside": "move it into the repository and commit it",
    "commit_off_branch": "bring the commit onto the relay's branch",
    LOST: "bring the branch back to hold the work of earlier legs (merge or cherry-pick that commit)",
    "todo": "finish it, or file it as an issue, then close it in the to-do list",
    "statement": "declare all that you rely on, then send externalized",
}

#: kind of finding -> what the detector saw, in words
DETECTED: dict[str, str] = {
    "dirty": "uncommitted work",
    "stash": "stashed work",
    "file_outside": recorded("a file outside the repository"),
    "commit_off_branch": recorded("a commit that is not on the branch"),
    LOST: recorded("work that the branch lost"),
    "todo": recorded("an open task"),
}

#: kind of pointer -> what would make it resolve
POINTER_FIXES: dict[Kind, str] = {
    Kind.COMMIT: "commit the work on the relay's branch and give its full SHA",
    Kind.ISSUE: "file the issue in the issue store and give its number",
    Kind.MEMORY: "write the memory file in the memory folder",
    Kind.LEDGER: "append the ledger row and give its id",
    Kind.FILE: "commit a file that matches it on the relay's branch",
}

ASK_AGAIN = "make the store answer and check again, or back it with a pointer into another store"


@dataclass(frozen=True, slots=True)
class LoadBearing:
    """One thing that a leg may rely on.

    `kind`: the event that declared it, or what the detector found; a key of FIXES. `durability`: the class that the
    agent gave. `backing`: `kind:ref`, or "" for none. `source`: the agent declared it, or the detector found it.
    """

    label: str
    kind: str = "fact"
    durability: str = ""
    backing: str = ""
    source: Source = "declared"


def ephemeral(durability: str) -> bool:
    """Only `turn`, exactly; an unknown class is load-bearing."""
    return durability == EPHEMERAL


@dataclass(frozen=True, slots=True)
class Culprit:
    """What refuses the gate. `verdict` None: there is no pointer to judge. `fix`: one sentence."""

    label: str
    backing: str
    verdict: Verdict | None
    fix: str


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """`admit` only without culprits; `facts`: each fact, its verdict (None = none needed or to judge), evidence."""

    admit: bool
    culprits: tuple[Culprit, ...] = ()
    facts: tuple[tuple[LoadBearing, Verdict | None, str], ...] = ()

    @property
    def reason(self) -> Reason | None:
        return None if self.admit else Reason.NOT_EXTERNALIZED


def detect(
    *,
    tree: TreeState,
    stashes: int,
    open_todos: Iterable[str],
    files_outside: Iterable[str],
    commits_off_branch: Iterable[str],
    declared: Iterable[LoadBearing],
    cursor_lost: str = "",
) -> tuple[LoadBearing, ...]:
    """What the detector finds by itself, in a fixed order.

    `tree`: unparked paths count, parked ones are stored. `stashes`: how many this leg left. `open_todos`: their ids.
    `files_outside`, `commits_off_branch`: paths and SHAs. `declared`: decisions, open questions and dead ends; one
    without a pointer is a finding whatever class it carries, one with a pointer is passed on as it was declared.
    `cursor_lost`: the commit that the leg started from, where the branch lost work up to it; "" where it did not.
    """
    found = [_found(path, "dirty") for path in tree.unparked] if tree.known else [_found(UNREAD_TREE, "dirty")]
    if stashes > 0:
        found.append(
            _found(
                recorded("%(n)d stashed changes", n=stashes) if stashes > 1 else recorded("1 stashed change"),
                "stash",
            )
        )
    for fact in declared:
        found.append(fact if fact.backing.strip() else replace(fact, durability="", backing="", source="detected"))
    found += [_found(path, "file_outside") for path in files_outside]
    found += [_found(sha, "commit_off_branch") for sha in commits_off_branch]
    if cursor_lost:
        label = recorded(
            "work of earlier legs up to %(cursor_lost)s that the branch lost", cursor_lost=cursor_lost[:12]
        )
        found.append(LoadBearing(label, LOST, backing=f"commit:{cursor_lost}", source="detected"))
    found += [_found(todo, "todo") for todo in open_todos]
    return tuple(found)


def _found(label: str, kind: str) -> LoadBearing:
    return LoadBearing(label, kind, source="detected")


def gate(
    facts: Sequence[LoadBearing],
    answers: Mapping[str, Answer],
    *,
    statement_required: bool,
    statement_holds: bool,
) -> GateVerdict:
    """Admit only when every load-bearing fact has a backing pointer that is `verified`.

    `answers`: backing text (as declared, or in its canonical form) -> the store's answer; a missing one is `unknown`.
    The statement is required of a leg that is armed or draining. Culprits stand in the order of the facts, the
    statement last; a fact that is given twice is judged once.
    """
    judged = [_judge(fact, answers) for fact in dict.fromkeys(facts)]
    culprits = [
        Culprit(fact.label, fact.backing, verdict, _fix(fact, verdict))
        for fact, verdict, _ in judged
        if not ephemeral(fact.durability) and verdict is not Verdict.VERIFIED
    ]
    if statement_required and not statement_holds:
        culprits.append(Culprit(STATEMENT, "", None, FIXES["statement"]))
    return GateVerdict(not culprits, tuple(culprits), tuple(judged))


def _judge(fact: LoadBearing, answers: Mapping[str, Answer]) -> tuple[LoadBearing, Verdict | None, str]:
    if ephemeral(fact.durability):
        return fact, None, recorded("class %(ephemeral)s: it need not survive the leg", ephemeral=EPHEMERAL)
    if not fact.backing.strip():
        return fact, None, "no pointer"
    try:
        pointer = parse_pointer(fact.backing)
    except PointerError as refusal:
        return fact, None, recorded("not a pointer: %(why)s", why=refusal.why)
    answer = answers.get(fact.backing) or answers.get(str(pointer))
    if answer is None:
        return fact, Verdict.UNKNOWN, recorded("no store was asked")
    return fact, answer.verdict, answer.evidence


def _fix(fact: LoadBearing, verdict: Verdict | None) -> str:
    if verdict is Verdict.UNKNOWN:
        return ASK_AGAIN
    pointer = _pointer(fact.backing)
    if verdict is None or pointer is None or fact.kind == LOST:
        return FIXES.get(fact.kind, FIXES["fact"])
    return POINTER_FIXES[pointer.kind]


def _pointer(backing: str) -> Pointer | None:
    try:
        return parse_pointer(backing)
    except PointerError:
        return None
