"""The reader's ladder, steps 6 to 9, over answers that the stores gave: nothing in a baton is trusted before it.

Mission: "Re-verified at read, like a recalled memory. [...] Does the cursor still match git? Are the cited commits
ancestors of HEAD? If not, the baton is RELAY_BATON_STALE and the leg re-derives from the durable store rather than
trusting the note." And: "Same durable store + same baton -> same reload plan."
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from relays.core.baton import Baton, Reading, unique
from relays.core.donewhen import DoneVerdict, Truth
from relays.core.lines import recorded
from relays.core.objective import Pin
from relays.core.pointers import Answer, Kind, Pointer, PointerError, Verdict, read_entry
from relays.core.strictjson import write
from relays.core.vocabulary import Reason

Outcome = Literal["invalid", "stale", "unknown", "done", "held", "fresh"]
Special = Literal["", "wip_tree", "session_image", "no_pointer"]

REDERIVE = "Re-derive progress from the durable store."
REGION_PATH = "progress_cursor.held_region"
_NONE_LEFT_OUT: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PointerAt:
    """One thing of a baton that a store is asked about, with its path and the ladder's step.

    special: `wip_tree` is asked of the wip ref, not of the branch; `session_image` of nobody; `no_pointer` is an entry
    (of another writer) that names none.
    """

    path: str
    step: int
    pointer: Pointer | None
    special: Special = ""


@dataclass(frozen=True, slots=True)
class CheckRecord:
    """One kept record: verified, dangling, unknown, passed, refused or left_out. `pointer`: it counts for fidelity."""

    step: int
    path: str
    verdict: str
    evidence: str
    pointer: bool = False


@dataclass(frozen=True, slots=True)
class Expected:
    """The relay's own objective, done_when and region, where the relay is known here."""

    pin: Pin
    done_when: str
    region: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Ladder:
    """The outcome with its culprit (step and path, None where there is none) and every record in order."""

    outcome: Outcome
    step: int | None
    path: str | None
    evidence: str
    checks: tuple[CheckRecord, ...]

    @property
    def reason(self) -> Reason | None:
        """The token of the outcome; None where the ladder gives none."""
        return {"stale": Reason.BATON_STALE, "done": Reason.GOAL_DONE}.get(self.outcome)

    def as_mapping(self) -> dict[str, object]:
        """The shape of `check-baton`: outcome, step, path, checks."""
        return {
            "outcome": self.outcome,
            "step": self.step,
            "path": self.path,
            "checks": [
                {"step": one.step, "path": one.path, "verdict": one.verdict, "evidence": one.evidence}
                for one in self.checks
            ],
        }


def _entries(name: str, entries: Sequence[str]) -> list[PointerAt]:
    found: list[PointerAt] = []
    for index, entry in enumerate(entries):
        try:
            pointer, _ = read_entry(entry, len(entry.encode()))
        except PointerError:
            pointer = None
        found.append(PointerAt(f"{name}[{index}]", 7, pointer, "" if pointer else "no_pointer"))
    return found


def pointers_of(baton: Baton) -> tuple[PointerAt, ...]:
    """Everything in the baton that steps 6 and 7 judge, in the order in which they judge it."""
    cursor = baton.cursor
    first = [
        PointerAt("progress_cursor.start_sha", 6, Pointer(Kind.COMMIT, cursor.start_sha)),
        PointerAt("tombstone.at_sha", 6, Pointer(Kind.COMMIT, baton.tombstone.at_sha)),
    ]
    second: list[PointerAt] = []
    if cursor.ledger_ref:
        second.append(PointerAt("progress_cursor.ledger_ref", 7, Pointer(Kind.LEDGER, cursor.ledger_ref)))
    for index, artifact in enumerate(baton.artifacts):
        commit = artifact.kind is Kind.COMMIT
        at = PointerAt(f"artifacts[{index}].ref", 6 if commit else 7, Pointer(artifact.kind, artifact.ref))
        (first if commit else second).append(at)
    if cursor.wip_tree:
        wip = Pointer(Kind.COMMIT, cursor.wip_tree)
        second.append(PointerAt("progress_cursor.wip_tree", 7, wip, "wip_tree"))
    if cursor.session_image:
        second.append(PointerAt("progress_cursor.session_image", 7, None, "session_image"))
    second += _entries("open_questions", baton.open_questions)
    second += _entries("do_not_rederive", baton.do_not_rederive)
    return (*first, *second)


def _judge_pointer(at: PointerAt, answers: Mapping[str, Answer], left_out: frozenset[int]) -> CheckRecord:
    if at.step in left_out:
        return CheckRecord(at.step, at.path, "left_out", "not asked", at.pointer is not None)
    if at.special == "session_image":
        return CheckRecord(
            7, at.path, "unknown", recorded("another program's image: kept, no store here answers for it")
        )
    if at.pointer is None:
        return CheckRecord(at.step, at.path, "unknown", recorded("it names no pointer: no store can vouch for it"))
    answer = answers.get(at.path)
    if answer is None:
        return CheckRecord(at.step, at.path, "unknown", recorded("no store answered"), True)
    return CheckRecord(at.step, at.path, str(answer.verdict), answer.evidence, True)


def _judge_expected(baton: Baton, expected: Expected | None) -> list[CheckRecord]:
    names = ("objective", "done_when", REGION_PATH)
    if expected is None:
        return [CheckRecord(7, name, "left_out", recorded("the relay is not known here")) for name in names]
    pin, own = baton.objective, expected.pin
    equal = (
        (pin.pin_id, pin.text, pin.digest) == (own.pin_id, own.text, own.digest),
        baton.done_when == expected.done_when,
        unique(baton.cursor.held_region) == unique(expected.region),
    )
    return [
        CheckRecord(7, name, "passed", recorded("equal to the relay's own"))
        if same
        else CheckRecord(7, name, "refused", recorded("not the relay's own"))
        for name, same in zip(names, equal, strict=True)
    ]


def _judge_done(done: DoneVerdict | None) -> CheckRecord:
    if done is None:
        return CheckRecord(8, "done_when", "left_out", "not evaluated")
    if done.prose:
        return CheckRecord(8, "done_when", "passed", recorded("prose: not done until a person confirms it"))
    evidence = "; ".join(f"{clause.text}: {said}" for clause, _, said in done.clauses)
    if done.truth is Truth.TRUE:
        return CheckRecord(8, "done_when", "refused", recorded("the goal is reached: %(evidence)s", evidence=evidence))
    if done.truth is Truth.UNKNOWN:
        return CheckRecord(8, "done_when", "left_out" if done.left_out else "unknown", evidence)
    return CheckRecord(8, "done_when", "passed", recorded("not done: %(evidence)s", evidence=evidence))


def climb(
    reading: Reading,
    *,
    answers: Mapping[str, Answer] | None,
    expected: Expected | None,
    done: DoneVerdict | None,
    holder: str | None,
    leave_out: frozenset[int] = _NONE_LEFT_OUT,
) -> Ladder:
    """The whole ladder over what the stores answered, by the path of `pointers_of`.

    answers None: no store at all, steps 6 to 9 are left out and the outcome is unknown. holder: who else holds the
    region, None when it is free or ours. leave_out: steps that this caller may not take (9 from outside).
    Every pointer is judged and kept, also after one that dangles; the first dangling or unequal field is the culprit.
    """
    checks = [CheckRecord(one.step, one.path, one.verdict, one.evidence) for one in reading.steps]
    refusal = reading.refusal
    if reading.baton is None or refusal is not None:
        step, path, evidence = (refusal.step, refusal.path, refusal.evidence) if refusal else (1, "", "not read")
        return Ladder("invalid", step, path, evidence, tuple(checks))
    baton = reading.baton

    if answers is None:
        paths = [(one.step, one.path, one.pointer is not None) for one in pointers_of(baton)]
        paths += [(8, "done_when", False), (9, REGION_PATH, False)]
        checks += [
            CheckRecord(step, path, "left_out", recorded("no store is at hand"), is_one) for step, path, is_one in paths
        ]
        return Ladder("unknown", None, None, recorded("steps 6 to 9 need the stores and were left out"), tuple(checks))

    judged = [_judge_pointer(one, answers, leave_out) for one in pointers_of(baton)]
    if 7 in leave_out:
        judged.append(CheckRecord(7, "objective", "left_out", "not compared"))
    else:
        judged += _judge_expected(baton, expected)
    checks += judged

    def ended(outcome: Outcome, culprit: CheckRecord | None, *not_reached: int) -> Ladder:
        for step in not_reached:
            path = "done_when" if step == 8 else REGION_PATH
            checks.append(CheckRecord(step, path, "left_out", recorded("not reached: %(outcome)s", outcome=outcome)))
        if culprit is None:
            return Ladder(outcome, None, None, recorded("every step passed"), tuple(checks))
        return Ladder(outcome, culprit.step, culprit.path, culprit.evidence, tuple(checks))

    if dangling := [one for one in judged if one.verdict in ("dangling", "refused")]:
        return ended("stale", dangling[0], 8, 9)
    silent = [one for one in judged if one.verdict == "unknown" and one.path != "progress_cursor.session_image"]
    if silent:
        return ended("unknown", silent[0], 8, 9)

    goal = CheckRecord(8, "done_when", "left_out", "not evaluated") if 8 in leave_out else _judge_done(done)
    checks.append(goal)
    if goal.verdict == "refused":
        return ended("done", goal, 9)
    if goal.verdict == "unknown":
        return ended("unknown", goal, 9)

    if 9 in leave_out:
        region = CheckRecord(9, REGION_PATH, "left_out", "no lease is taken from outside")
    elif holder is not None:
        region = CheckRecord(9, REGION_PATH, "refused", f"held by {holder}")
    else:
        region = CheckRecord(9, REGION_PATH, "passed", "the region is free or this relay's own")
    checks.append(region)
    return ended("held", region) if region.verdict == "refused" else ended("fresh", None)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A commit that the cursor may be rebuilt at, and where it comes from."""

    sha: str
    source: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class CursorChoice:
    """The rebuilt cursor and its source; None when nothing verifies, so that a person must be asked."""

    sha: str | None
    source: str


def choose_cursor(candidates: Sequence[Candidate]) -> CursorChoice:
    """The first candidate that verifies, in the order: merge-base, newest earlier cursor, the relay's start."""
    for one in candidates:
        if one.verdict is Verdict.VERIFIED:
            return CursorChoice(one.sha, one.source)
    return CursorChoice(None, "")


@dataclass(frozen=True, slots=True)
class Reread:
    """What a fresh leg reads anew after the cursor: commits in the branch's order, issues and ledger rows in theirs."""

    commits: tuple[str, ...] = ()
    issues: tuple[str, ...] = ()
    ledger: tuple[str, ...] = ()


def plan_mapping(
    ladder: Ladder,
    *,
    baton_digest: str,
    branch: str,
    tip: str,
    cursor: str | None,
    rebuilt: bool,
    reread: Reread,
    next_action: str,
) -> dict[str, object]:
    """The reload plan as plain data; no times and no machine paths in it."""
    whole = ladder.as_mapping()
    return {
        "outcome": whole["outcome"],
        "baton_digest": baton_digest,
        "branch": branch,
        "tip": tip,
        "checks": whole["checks"],
        "cursor": {"sha": cursor, "rebuilt": rebuilt},
        "reread": {
            "commits": list(reread.commits),
            "issues": list(reread.issues),
            "ledger": list(reread.ledger),
        },
        "next_action": next_action,
    }


def plan_bytes(plan: Mapping[str, object]) -> bytes:
    """The plan's canonical bytes: the same store and the same baton give the same bytes, every time."""
    return write(plan).encode("utf-8", "replace")
