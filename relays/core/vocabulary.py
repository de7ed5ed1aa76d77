"""The closed vocabulary: every word that a relay may use to say why something happened.

Mission: "Closed vocabulary. Rotation and tombstone reasons are a fixed set; a relay never refuses with prose."
A word that is not here is shown as an unknown token and drives nothing.
"""

from dataclasses import dataclass
from enum import StrEnum


class Category(StrEnum):
    """What kind of stop a token is; each has one colour and one shape, the same on every page."""

    ADVISORY = "advisory"
    TRUE_DRAIN = "TRUE_DRAIN"
    STALE_CLAIM = "STALE_CLAIM"
    OPERATOR_GATE = "OPERATOR_GATE"
    ASK = "ASK"
    HOLD = "HOLD"
    BUDGET = "BUDGET"
    UNKNOWN = "unknown"


#: category -> the stylesheet's tone (`tok-<tone>`) and shape (`#sh-<shape>`)
TONES: dict[Category, tuple[str, str]] = {
    Category.ADVISORY: ("advisory", "ring"),
    Category.TRUE_DRAIN: ("drain", "disc"),
    Category.STALE_CLAIM: ("stale", "diamond"),
    Category.OPERATOR_GATE: ("gate", "octagon"),
    Category.ASK: ("gate", "octagon"),
    Category.HOLD: ("hold", "bars"),
    Category.BUDGET: ("hold", "bars"),
    Category.UNKNOWN: ("unknown", "dashed"),
}


class Reason(StrEnum):
    """Why a leg ended (the tombstone's reason) or what a rule said about it."""

    ARMED = "RELAY_ARMED"
    ROTATED = "RELAY_ROTATED"
    GOAL_DONE = "RELAY_GOAL_DONE"
    NOT_EXTERNALIZED = "RELAY_NOT_EXTERNALIZED"
    PARKED_UNSAFE = "RELAY_PARKED_UNSAFE"
    BATON_STALE = "RELAY_BATON_STALE"
    NO_PROGRESS = "RELAY_NO_PROGRESS"
    IDLE_PARKED = "RELAY_IDLE_PARKED"


class Hold(StrEnum):
    """Why a boundary did not rotate, strongest first; the order is the rule."""

    IN_FLIGHT_TOOL_CALL = "IN_FLIGHT_TOOL_CALL"
    TREE_DIRTY_UNPARKED = "TREE_DIRTY_UNPARKED"
    NO_NEXT_ACTION = "NO_NEXT_ACTION"
    AMBIGUOUS_NEXT_ACTION = "AMBIGUOUS_NEXT_ACTION"
    NOT_EXTERNALIZED = "RELAY_NOT_EXTERNALIZED"
    HYSTERESIS = "HYSTERESIS"
    ROTATION_CAPPED = "ROTATION_CAPPED"
    NOT_AT_SAFE_POINT = "NOT_AT_SAFE_POINT"


#: strongest first
HOLD_ORDER: tuple[Hold, ...] = tuple(Hold)


class Ask(StrEnum):
    """A person is asked instead of guessing."""

    OBJECTIVE_DRIFT = "OBJECTIVE_DRIFT"
    LOW_CONFIDENCE_ASSUMPTION = "LOW_CONFIDENCE_ASSUMPTION"
    AMBIGUOUS_MEMORY_PROMOTION = "AMBIGUOUS_MEMORY_PROMOTION"
    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    UNSERVED_PAGE_FAULT = "UNSERVED_PAGE_FAULT"
    DESTRUCTIVE_MEMORY_OPERATION = "DESTRUCTIVE_MEMORY_OPERATION"
    DONE_UNCONFIRMED = "DONE_UNCONFIRMED"


class Cause(StrEnum):
    """What ended a leg that did not end at a safe point."""

    CEILING = "ceiling"
    OVERRUN = "overrun"
    AGENT_EXIT = "agent_exit"
    AGENT_CRASH = "agent_crash"
    SILENCE = "silence"
    SUPERVISOR_CRASH = "supervisor_crash"
    PARK_NOW = "park_now"
    STOP = "stop"
    SIGN_IN = "sign_in"
    HOST_LOST = "host_lost"
    ENVELOPE = "envelope"
    START_FAILED = "start_failed"


class StopReason(StrEnum):
    """Which envelope axis stopped a relay, and the states of a stop."""

    TURNS = "BUDGET_TURNS_EXHAUSTED"
    TOKENS = "BUDGET_TOKENS_EXHAUSTED"
    LEGS = "BUDGET_LEGS_EXHAUSTED"
    QUERIES = "BUDGET_QUERIES_EXHAUSTED"
    SPEND = "BUDGET_SPEND_EXHAUSTED"
    TIME = "TIME_BUDGET_EXHAUSTED"
    PAUSED = "PAUSED"
    DRAINING = "DRAINING"
    STOPPED = "STOPPED"


class Extra(StrEnum):
    """Words beside the holds."""

    WIP_STALE = "RELAY_WIP_STALE"
    COLLISION_RISK = "COLLISION_RISK"


class Mode(StrEnum):
    SHADOW = "shadow"
    ADVISE = "advise"
    ENFORCE = "enforce"


@dataclass(frozen=True, slots=True)
class Token:
    """One word: what it is, what it means and what the operator does about it."""

    value: str
    category: Category
    label: str
    meaning: str
    fix: str

    @property
    def tone(self) -> str:
        return TONES[self.category][0]

    @property
    def shape(self) -> str:
        return TONES[self.category][1]

    @property
    def known(self) -> bool:
        return self.category is not Category.UNKNOWN


def _rows(category: Category, *rows: tuple[str, str, str, str]) -> list[Token]:
    return [Token(str(value), category, label, meaning, fix) for value, label, meaning, fix in rows]


_TABLE: list[Token] = [
    *_rows(
        Category.ADVISORY,
        (
            Reason.ARMED,
            "armed",
            "a soft mark was crossed",
            "finish the current action, externalize, rotate at the next safe point",
        ),
    ),
    *_rows(
        Category.TRUE_DRAIN,
        (
            Reason.ROTATED,
            "rotated",
            "clean end at a safe point",
            "the successor re-verifies the cursor before trusting anything",
        ),
        (Reason.GOAL_DONE, "goal done", "done_when holds in the durable store", "close the relay; no new leg"),
        (
            Reason.IDLE_PARKED,
            "idle",
            "a watch goal holds and nothing is pending",
            "none: it wakes by itself when what it watches changes",
        ),
    ),
    *_rows(
        Category.STALE_CLAIM,
        (
            Reason.NOT_EXTERNALIZED,
            "not externalized",
            "load-bearing state lives only in the transcript",
            "commit, file or ledger it, then check again; else park",
        ),
        (
            Reason.BATON_STALE,
            "baton stale",
            "the baton no longer matches ground truth",
            "drop it, rebuild the cursor, write a fresh one",
        ),
        (
            Extra.WIP_STALE,
            "parked work not laid back",
            "parked work could not be laid back on the tree",
            "the work is kept under its ref; merge it by hand or drop it",
        ),
    ),
    *_rows(
        Category.OPERATOR_GATE,
        (
            Reason.PARKED_UNSAFE,
            "parked unsafe",
            "the leg ended without a safe point",
            "a person looks at what is durable and resumes",
        ),
        (
            Reason.NO_PROGRESS,
            "no progress",
            "several legs in a row without verified progress",
            "a person finds the blocker or narrows the objective",
        ),
    ),
    *_rows(
        Category.ASK,
        (
            Ask.OBJECTIVE_DRIFT,
            "objective drift",
            "the carried objective no longer reconciles with the stated one",
            "confirm the objective, or state a new one",
        ),
        (
            Ask.LOW_CONFIDENCE_ASSUMPTION,
            "low confidence",
            "an assumption too weak for an effect",
            "confirm the assumption, or have it read again",
        ),
        (
            Ask.AMBIGUOUS_MEMORY_PROMOTION,
            "ambiguous memory",
            "an observation that has not earned durable status",
            "promote it with evidence, or refuse it",
        ),
        (
            Ask.BUDGET_EXHAUSTED,
            "budget exhausted",
            "an axis of the relay's envelope is spent",
            "set a new limit for that axis and resume, or stop",
        ),
        (
            Ask.UNSERVED_PAGE_FAULT,
            "unserved page fault",
            "a record that the relay needs did not come back from its store",
            "bring the store back and approve (it is tried again), serve the record by hand, waive it, or stop",
        ),
        (
            Ask.DESTRUCTIVE_MEMORY_OPERATION,
            "destructive memory operation",
            "a delete, reset or wipe of memory was asked for",
            "allow it or refuse it",
        ),
        (
            Ask.DONE_UNCONFIRMED,
            "done, unconfirmed",
            "the agent believes a prose goal reached",
            "confirm that the goal is reached, or refuse",
        ),
    ),
    *_rows(
        Category.HOLD,
        (
            Hold.IN_FLIGHT_TOOL_CALL,
            "tool in flight",
            "a tool call has started and not ended",
            "wait for the tool, or park now",
        ),
        (
            Hold.TREE_DIRTY_UNPARKED,
            "dirty tree",
            "the tree has changes that are neither committed nor explicitly parked",
            "commit them, or let the agent park the tree",
        ),
        (Hold.NO_NEXT_ACTION, "no next action", "the leg names no single next step", "name one next step in one line"),
        (
            Hold.AMBIGUOUS_NEXT_ACTION,
            "several next actions",
            "the leg names more than one next step",
            "choose one of them",
        ),
        (
            Hold.HYSTERESIS,
            "hysteresis",
            "no verified progress since an earlier leg last armed",
            "none: the leg works on until it has verified progress",
        ),
        (
            Hold.ROTATION_CAPPED,
            "rotation capped",
            "as many rotations in the last hour as the policy allows",
            "none: it rotates when the oldest rotation is an hour old",
        ),
        (
            Hold.NOT_AT_SAFE_POINT,
            "not at a safe point",
            "the green command failed, or git is in mid-operation",
            "finish or abort the git operation; make the green command pass",
        ),
        (
            Extra.COLLISION_RISK,
            "region held",
            "the region overlaps one that another relay holds",
            "wait for the holder, narrow the region, or stop the holder",
        ),
    ),
    *_rows(
        Category.BUDGET,
        (StopReason.TURNS, "turns spent", "the relay's turn budget is spent", "set a new limit"),
        (StopReason.TOKENS, "output tokens spent", "the relay's output-token budget is spent", "set a new limit"),
        (StopReason.LEGS, "legs spent", "the relay's leg budget is spent", "set a new limit"),
        (StopReason.QUERIES, "queries spent", "the relay's clarification-query budget is spent", "set a new limit"),
        (StopReason.SPEND, "money spent", "the relay's money budget is spent", "set a new limit"),
        (StopReason.TIME, "time spent", "the relay's wall-clock budget is spent", "set a new limit"),
        (StopReason.PAUSED, "paused", "a person parked the relay", "resume it"),
        (StopReason.DRAINING, "draining", "the leg ends at its next safe point", "wait, or park now"),
        (StopReason.STOPPED, "stopped", "a person stopped the relay", "none: a stopped relay stays stopped"),
    ),
]

TOKENS: dict[str, Token] = {token.value: token for token in _TABLE}

#: tokens that a tombstone may carry (baton ladder, step 5)
TOMBSTONE_REASONS: frozenset[str] = frozenset(Reason)

#: reasons and asks that open a gate episode
GATE_TOKENS: frozenset[str] = frozenset({Reason.PARKED_UNSAFE, Reason.NO_PROGRESS, *Ask})


def token(value: str) -> Token:
    """The table's row for a word; a word from elsewhere is kept as text and marked unknown, never guessed."""
    return TOKENS.get(value) or Token(
        value,
        Category.UNKNOWN,
        "unknown token",
        "not a word of this vocabulary",
        "find out who wrote it; it drives nothing",
    )


def strongest(holds: "set[Hold] | frozenset[Hold]") -> Hold | None:
    """The one hold that a boundary records, or None."""
    return next((hold for hold in HOLD_ORDER if hold in holds), None)
