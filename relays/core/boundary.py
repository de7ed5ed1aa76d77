"""What a leg is answered at a boundary: the two-phase arm and fire, and everything that comes before it.

Mission: "Rotation is two-phase (arm, then fire) so it never lands mid-action." One function decides; the driver
only measures what it asks for and carries out what it says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from relays.core.donewhen import DoneVerdict, Truth
from relays.core.externalize import GateVerdict
from relays.core.lines import recorded
from relays.core.rotation import AxisUse, CapVerdict
from relays.core.safepoint import SafePoint, TreeState
from relays.core.vocabulary import Cause, Hold, Mode, strongest


class Green(StrEnum):
    """The kept answer of the green command for the present tip."""

    NONE = "none"  # the policy has no green command
    PASSED = "passed"
    FAILED = "failed"
    NOT_KNOWN = "not known"


@dataclass(frozen=True, slots=True)
class BoundaryView:
    """Everything a boundary is judged by, as values."""

    mode: Mode
    armed: bool  # before this boundary
    crossed: AxisUse | None
    may_arm: bool  # hysteresis
    in_flight: frozenset[str]
    tree: TreeState
    safe: SafePoint
    gate: GateVerdict
    done: DoneVerdict | None
    watch_quiet: bool | None  # None: not a watch; else whether nothing is pending
    ceiling: bool  # no further model call may pass
    draining: str  # "", park, stop, envelope, shutdown
    drain_over: bool  # a spent envelope has used its last turns
    cap: CapVerdict
    green: Green
    final: bool  # the agent says that it ends here
    told: bool  # it was told once what holds


class Step(StrEnum):
    GO = "go"
    WIND_DOWN = "wind_down"
    STOP = "stop"
    WAIT = "wait"  # no further model call, tools running: answer nothing until they have ended or tool_limit is over


@dataclass(frozen=True, slots=True)
class BoundaryDecision:
    """`end`: the leg's end is to be judged now; `cause` is what forces it, after a wait too (None = it fires)."""

    step: Step
    armed: bool
    hold: Hold | None
    detail: tuple[str, ...] = ()
    end: bool = False
    cause: Cause | None = None
    needs_green: bool = False  # the green command's answer for this tip is what is missing
    would: Mapping[str, object] = field(default_factory=dict)  # shadow and advise: what enforce would have done

    @property
    def answer(self) -> str:
        """The line that the agent gets."""
        if self.step is Step.WIND_DOWN and self.hold:
            return f"{Step.WIND_DOWN} {self.hold}"
        return str(self.step)


def decide(view: BoundaryView) -> BoundaryDecision:
    """Judge one boundary.

    rules.md: "Shadow and advise never hold, stop or rotate, not at the ceiling either (advise answers
    `wind_down <HOLD>`, shadow `go`); ladder, region, envelope, containment and a person's park and stop always act."
    """
    if view.mode is Mode.ENFORCE:
        return _enforce(view)
    # what acts in every mode is judged as in enforce, but for the ceiling, which only enforce has
    acting = _enforce(replace(view, ceiling=False))
    # an agent that ends by itself is let go; one that is held at its end is only told so, in advise
    if view.draining or (view.final and acting.end):
        return acting
    enforced = _enforce(view)
    return BoundaryDecision(
        Step.WIND_DOWN if view.mode is Mode.ADVISE and enforced.step is not Step.GO else Step.GO,
        enforced.armed,
        enforced.hold,
        enforced.detail,
        # its answer is wanted here too: what enforce would do hangs on it, and it changes nothing of the relay
        needs_green=enforced.needs_green,
        would={
            "step": str(enforced.step),
            "hold": str(enforced.hold or ""),
            "end": enforced.end,
            "cause": str(enforced.cause or ""),
        },
    )


def owes_statement(mode: Mode, *, armed: bool, draining: str) -> bool:
    """Whether the gate asks for the agent's `externalized`: "a leg that is armed or draining must have said" it.

    In shadow an agent is never told that it is armed, so only a drain, which is told in every mode, asks for it. A
    leg that waits at the ceiling for running tools was not told anything either.
    """
    drains = draining not in ("", "ceiling")
    return drains or (armed and mode is not Mode.SHADOW)


def _enforce(view: BoundaryView) -> BoundaryDecision:
    holds = set(view.safe.holds)
    if not view.gate.admit:
        holds.add(Hold.NOT_EXTERNALIZED)
    armed = view.armed
    if not armed and view.crossed is not None:
        if view.may_arm:
            armed = True
        elif not view.draining:
            holds.add(Hold.HYSTERESIS)
    done = _done_here(view)
    stands = not (holds - {Hold.HYSTERESIS})  # safe point and gate

    if view.ceiling:
        if view.in_flight:
            return _with(view, Step.WAIT, armed, holds, cause=Cause.CEILING)
        return _with(view, Step.STOP, armed, holds, end=True, cause=Cause.CEILING)
    if done:
        return _with(view, Step.STOP, armed, set(), end=True)
    # "`green` and the cap are judged only where it would fire", and the cap, which is the stronger hold, first
    if armed and stands and not view.draining and not view.cap.admit and not view.final:
        holds.add(Hold.ROTATION_CAPPED)
    elif (armed or view.draining) and stands and view.green in {Green.FAILED, Green.NOT_KNOWN}:
        holds.add(Hold.NOT_AT_SAFE_POINT)
    if (armed or view.draining) and not holds:
        return _with(view, Step.STOP, armed, holds, end=True)
    if view.draining and view.drain_over:
        # "the end is judged as at the ceiling": running tools are waited for
        if view.in_flight:
            return _with(view, Step.WAIT, armed, holds, cause=Cause.ENVELOPE)
        return _with(view, Step.STOP, armed, holds, end=True, cause=Cause.ENVELOPE)
    if view.final:
        # "A program that still lives is first told once what holds": hysteresis and cap do not hold an end
        holding = holds - {Hold.HYSTERESIS, Hold.ROTATION_CAPPED}
        if not holding and view.green in {Green.FAILED, Green.NOT_KNOWN}:
            holding = {Hold.NOT_AT_SAFE_POINT}
        if not holding or view.told:
            return _with(view, Step.STOP, armed, holding, end=True, cause=Cause.AGENT_EXIT)
        return _with(view, Step.WIND_DOWN, armed, holding)
    return _with(view, Step.WIND_DOWN if armed or view.draining else Step.GO, armed, holds)


def _done_here(view: BoundaryView) -> bool:
    """ "Done at a boundary needs a clean or parked tree and the gate, but no next action." """
    return (
        view.done is not None
        and view.done.truth is Truth.TRUE
        and view.watch_quiet is not False
        and not view.in_flight
        and view.tree.green_or_parked
        and view.gate.admit
    )


def _with(
    view: BoundaryView,
    step: Step,
    armed: bool,
    holds: set[Hold],
    *,
    end: bool = False,
    cause: Cause | None = None,
) -> BoundaryDecision:
    hold = strongest(frozenset(holds))
    return BoundaryDecision(
        step,
        armed,
        hold,
        _detail(view, hold),
        end,
        cause,
        needs_green=hold is Hold.NOT_AT_SAFE_POINT and view.green is Green.NOT_KNOWN and not view.tree.operation,
    )


def _detail(view: BoundaryView, hold: Hold | None) -> tuple[str, ...]:
    if hold is None:
        return ()
    if hold is Hold.NOT_EXTERNALIZED:
        return tuple(f"{culprit.label}: {culprit.fix}" for culprit in view.gate.culprits)
    if hold is Hold.HYSTERESIS:
        return (recorded("no verified progress since an earlier leg armed"),)
    if hold is Hold.ROTATION_CAPPED:
        return (recorded("%(used)s of %(limit)s rotations in the last hour", used=view.cap.used, limit=view.cap.limit),)
    if hold is Hold.NOT_AT_SAFE_POINT and not view.tree.operation:
        return (recorded("the green command's answer for this tip: %(green)s", green=view.green),)
    return tuple(view.safe.detail.get(hold, ()))
