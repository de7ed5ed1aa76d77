"""The legal changes of relay, gate episode and leg, whole; and how the end of a leg is judged, once.

Mission: "A leg has a window ceiling and ends at a safe point, never mid-action", and "if the window ceiling is hit
before a safe point ever arrives, fail closed". A change that is not in a table here is a bug.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from relays.core import backoff
from relays.core.donewhen import DoneVerdict, Truth
from relays.core.externalize import GateVerdict
from relays.core.lines import recorded
from relays.core.safepoint import SafePoint
from relays.core.vocabulary import Ask, Cause, Hold, Mode, Reason, strongest

Changes = Mapping[str, frozenset[str]]

#: what a thing is before it exists
NEW = "new"


def _table(rows: Mapping[str, str]) -> dict[str, frozenset[str]]:
    return {state: frozenset(targets.split()) for state, targets in rows.items()}


RELAY: dict[str, frozenset[str]] = _table(
    {
        NEW: "ready waiting",
        "ready": "running done idle waiting parked stopped",
        "waiting": "ready running parked stopped",
        "running": "ready waiting idle done parked stopped",
        "idle": "ready waiting parked stopped",
        "parked": "ready done stopped",
        "done": "",
        "stopped": "",
    }
)

GATE: dict[str, frozenset[str]] = _table(
    {
        NEW: "waiting",
        "waiting": "approved refused expired superseded",
        "approved": "requested confirmed waiting superseded",
        "requested": "dispatched confirmed approved superseded",
        "dispatched": "confirmed waiting superseded",
        "confirmed": "",
        "refused": "",
        "expired": "",
        "superseded": "",
    }
)

LEG: dict[str, frozenset[str]] = _table(
    {
        NEW: "pending",
        "pending": "starting void",
        "starting": "running pending ending",
        "running": "draining backoff ending",
        "draining": "ending running",
        "backoff": "running ending",
        "ending": "ended",
        "ended": "",
        "void": "",
    }
)


class IllegalChange(ValueError):
    """A change that the table does not have: a bug in whoever asked for it."""

    def __init__(self, frm: str, to: str) -> None:
        self.frm, self.to = frm, to
        super().__init__(f"{frm} does not change to {to}")


def may_change(table: Changes, frm: str, to: str) -> bool:
    """True when the table has this change. Staying is no change; an unknown state changes to nothing."""
    return to in table.get(frm, frozenset())


def check_change(table: Changes, frm: str, to: str) -> None:
    """Raise IllegalChange unless the table has this change."""
    if not may_change(table, frm, to):
        raise IllegalChange(frm, to)


def sources(table: Changes, to: str) -> frozenset[str]:
    """The states that may change to `to`: what a conditional update filters on."""
    return frozenset(state for state, targets in table.items() if to in targets and state != NEW)


def final_states(table: Changes) -> frozenset[str]:
    """The states with no way out."""
    return frozenset(state for state, targets in table.items() if not targets)


#: ends that no successor may follow by itself, wherever the tree stands: the window was passed, nothing is known of
#: the tree, nobody can sign in, or no agent ran
NEVER_ROTATES: frozenset[Cause] = frozenset({Cause.OVERRUN, Cause.HOST_LOST, Cause.SIGN_IN, Cause.START_FAILED})

#: ends for which `on_crash = park` parks
CRASHES: frozenset[Cause] = frozenset({Cause.AGENT_CRASH, Cause.SILENCE, Cause.SUPERVISOR_CRASH})

#: ends in which the model's answer stayed away until the agent or our patience gave up: "`parked`: … retries over"
GAVE_UP: frozenset[Cause] = frozenset({Cause.AGENT_CRASH, Cause.SILENCE, Cause.SIGN_IN})

#: holds that speak of the next action only: done needs none
_NEXT_ACTION_HOLDS = frozenset({Hold.NO_NEXT_ACTION, Hold.AMBIGUOUS_NEXT_ACTION})


@dataclass(frozen=True, slots=True)
class EndView:
    """Everything that the end of a leg is judged by, on the tree as the agent left it.

    `done`: None where it was not judged. `watch`, `watch_pending`: an invariant, and whether anything is pending
    (unknown counts as pending). `tree_ok`: clean or explicitly parked. `empty_legs`: the run with this leg, 0 when
    this leg has progress. `no_progress_legs`: K, 0 = off. `cause`: what forces the end, None when it fired.
    `agent_ended`: it ended by itself. `prose`: the relay's goal is prose. `green_failed`: the green command failed
    at this tip. `crash_parks`: the policy says `on_crash = park`. `trouble`: what kept the model's answer away when the
    leg ended, "" where it answered.
    """

    done: DoneVerdict | None
    watch: bool
    watch_pending: bool
    safe: SafePoint
    gate: GateVerdict
    tree_ok: bool
    empty_legs: int
    no_progress_legs: int
    cause: Cause | None
    agent_ended: bool
    prose: bool
    green_failed: bool = False
    crash_parks: bool = False
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class EndDecision:
    """How a leg ended. `cause` and `hold` only beside `RELAY_PARKED_UNSAFE`; `ask`: what a person is asked; `detail`:
    the evidence, one line each. Recorded before it is carried out, then finished whatever happens."""

    reason: Reason
    cause: str = ""
    hold: str = ""
    ask: str = ""
    detail: tuple[str, ...] = ()

    def as_mapping(self) -> dict[str, object]:
        """The record, as JSON."""
        return {
            "reason": str(self.reason),
            "cause": self.cause,
            "hold": self.hold,
            "ask": self.ask,
            "detail": list(self.detail),
        }

    @classmethod
    def from_mapping(cls, record: Mapping[str, object]) -> "EndDecision":
        """Read what `as_mapping` wrote; KeyError or ValueError for anything else."""
        detail = record["detail"]
        if not isinstance(detail, list | tuple):
            raise ValueError("detail is no list")
        return cls(
            Reason(str(record["reason"])),
            str(record["cause"]),
            str(record["hold"]),
            str(record["ask"]),
            tuple(str(line) for line in detail),
        )


def judge_end(view: EndView) -> EndDecision:
    """Judge how a leg ended; the first rule that matches wins (states.md, How a leg ends)."""
    holds = _holds(view)
    forced = (recorded("what ended it: %(cause)s", cause=view.cause),) if view.cause else ()

    if view.done is not None and view.done.truth is Truth.TRUE and holds <= _NEXT_ACTION_HOLDS:
        if not view.watch:
            return EndDecision(
                Reason.GOAL_DONE, detail=(recorded("done_when holds, and nothing is left in the tree"), *forced)
            )
        if not view.watch_pending:
            return EndDecision(
                Reason.IDLE_PARKED, detail=(recorded("the invariant holds and nothing is pending"), *forced)
            )

    if not _parks_whatever(view):
        if not holds and not view.green_failed:
            run = recorded("legs in a row without verified progress: %(empty_legs)s", empty_legs=view.empty_legs)
            if 0 < view.no_progress_legs <= view.empty_legs:
                return EndDecision(Reason.NO_PROGRESS, detail=(f"{run} of {view.no_progress_legs}", *forced))
            return EndDecision(Reason.ROTATED, detail=(recorded("safe point and gate passed"), run, *forced))
        if view.prose and view.agent_ended and holds == {Hold.NO_NEXT_ACTION}:
            return EndDecision(
                Reason.ROTATED,
                ask=str(Ask.DONE_UNCONFIRMED),
                detail=(recorded("the agent ended without a next action, and the goal is prose"), *forced),
            )

    if not holds and view.green_failed:
        holds = frozenset({Hold.NOT_AT_SAFE_POINT})
    hold = strongest(holds)
    # an end that fired and is judged again on a tree that changed meanwhile has no cause of its own: the agent exited
    cause = view.cause or Cause.AGENT_EXIT
    plainly = (
        (recorded("no answer of the model: %(trouble)s", trouble=backoff.WORDS[view.trouble]),)
        if _gave_up(view)
        else ()
    )
    return EndDecision(Reason.PARKED_UNSAFE, str(cause), str(hold or ""), detail=(*plainly, *_evidence(view, hold)))


def has_successor(
    decision: EndDecision, *, park: bool, stop: bool, envelope_spent: bool, blocking_ask: bool, mode: Mode
) -> bool:
    """Whether a next leg is made: "only after RELAY_ROTATED without a person's park, stop, spent envelope or blocking
    ask", and in `enforce` alone; an advisory end parks the relay."""
    if decision.reason is not Reason.ROTATED or decision.ask:
        return False
    return mode is Mode.ENFORCE and not (park or stop or envelope_spent or blocking_ask)


def _holds(view: EndView) -> frozenset[Hold]:
    """What stands against a safe end, fail closed where the parts of the view do not agree. Without the green
    command, which is judged only where the leg would fire."""
    holds = set(view.safe.holds)
    if not view.safe.safe and not holds:
        holds.add(Hold.NOT_AT_SAFE_POINT)
    if not view.tree_ok and not holds & {Hold.TREE_DIRTY_UNPARKED, Hold.NOT_AT_SAFE_POINT}:
        holds.add(Hold.TREE_DIRTY_UNPARKED)
    if not view.gate.admit:
        holds.add(Hold.NOT_EXTERNALIZED)
    return frozenset(holds)


def _parks_whatever(view: EndView) -> bool:
    return view.cause in NEVER_ROTATES or (view.crash_parks and view.cause in CRASHES) or _gave_up(view)


def _gave_up(view: EndView) -> bool:
    """A successor would meet the same: a person comes."""
    return bool(view.trouble) and view.cause in GAVE_UP


def _evidence(view: EndView, hold: Hold | None) -> tuple[str, ...]:
    if hold is Hold.NOT_EXTERNALIZED:
        return tuple(f"{culprit.label}: {culprit.fix}" for culprit in view.gate.culprits)
    if hold is None:
        return ()
    lines = tuple(view.safe.detail.get(hold, ()))
    if hold is Hold.NOT_AT_SAFE_POINT and hold not in view.safe.holds and view.green_failed:
        lines += (recorded("the green command failed at this tip"),)
    return lines
