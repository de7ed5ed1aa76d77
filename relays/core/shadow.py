"""The shadow relay of a session that nobody drives: where it would have rotated, and with which baton.

Mission, phase 0: "observe only. Instrument context growth per leg; emit a shadow 'would rotate here at soft mark X'
signal and a would-be baton; change no behavior." Every figure says where it comes from: OBSERVED, SIMULATED or ASSUMED.

The simulated window starts where the session's started and grows by what the session's window grew; a compaction
shrinks only the observed window. When it reaches the mark, a fresh leg begins with base, baton and orientation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

from relays.core.batonform import Bounds
from relays.core.lines import recorded
from relays.core.policy import Policy
from relays.core.rotation import context_mark, mark_tokens

#: tokens of a baton: it is bounded by its form, whatever the work
BATON_TOKENS: Final = 2_000
#: tokens that a fresh leg re-reads, where nothing is measured
ORIENTATION_TOKENS: Final = 20_000
POINTS: Final = 1_000

Ended = Literal["would_rotate", "compaction", "end"]


class Provenance(StrEnum):
    """Where a figure comes from."""

    OBSERVED = "OBSERVED"
    SIMULATED = "SIMULATED"
    ASSUMED = "ASSUMED"


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure with its provenance and, in words, its source."""

    value: int | float
    provenance: Provenance
    source: str

    def as_json(self) -> list[object]:
        return [self.value, str(self.provenance), self.source]


@dataclass(frozen=True, slots=True)
class MainCall:
    """One call of the main chain, in the session's order: its resident tokens, and whether a compaction was recorded

    between the call before and this one.
    """

    resident: int
    boundary: bool = False


@dataclass(frozen=True, slots=True)
class LegCut:
    """A shadow leg: main calls `first_call` to `last_call` of the session, from 1, both inclusive.

    `peak`: the observed window's (OBSERVED). `simulated_peak`: the simulated window's, None where there is none.
    """

    number: int  # from 0
    first_call: int
    last_call: int
    ended: Ended
    peak: int
    simulated_peak: int | None


@dataclass(frozen=True, slots=True)
class Shadow:
    """What a relay would have done. `why`: "", or why nothing is simulated: then `legs` end at compactions only.

    `simulated`: the simulated window per main call; `rotations`: the calls after which it would have rotated, from 1.
    `mark`: in tokens. `legs` cover all calls without gap or overlap.
    """

    legs: tuple[LegCut, ...]
    simulated: tuple[int, ...] = ()
    rotations: tuple[int, ...] = ()
    mark: int | None = None
    parameters: dict[str, Figure] = field(default_factory=dict)
    why: str = ""

    @property
    def peak(self) -> int | None:
        """The most that the simulated window held (SIMULATED); None where nothing is simulated."""
        return max(self.simulated, default=None)

    def summary(self) -> dict[str, object]:
        """JSON for `Session.shadow`.

        `window`, `mark`, `peak`: tokens or null. `legs`, `rotations`: counts. `points`: [call, simulated, flag], at
        most 1,000, flag 1 = would rotate after it. `parameters`: name -> [value, provenance, source]. `orientation`:
        the same triple, or null. `why`: "" or why nothing is simulated.
        """
        orientation = self.parameters.get("orientation")
        window = self.parameters.get("window")
        return {
            "window": window.value if window else None,
            "mark": self.mark,
            "legs": len(self.legs),
            "rotations": len(self.rotations),
            "peak": self.peak,
            "points": [list(point) for point in reduced(self.simulated, self.rotations)],
            "parameters": {name: figure.as_json() for name, figure in self.parameters.items()},
            "orientation": orientation.as_json() if orientation else None,
            "why": self.why,
        }


def would(
    calls: Sequence[MainCall],
    window: Figure | None,
    policy: Policy,
    *,
    model: str = "",
    effect: int | None = None,
    baton: Figure | None = None,
    orientation: Figure | None = None,
) -> Shadow:
    """The shadow relay of one session.

    `window`: tokens, None = not known (of `model`, for the words). `policy`: whose context mark counts. `effect`: the
    main call, from 1, that did the session's first durable act: what the window grew until then is the orientation
    (OBSERVED). `baton`, `orientation` replace the defaults. No calls: no legs.
    """
    if not calls:
        return Shadow((), why=recorded("not yet: no call of the main chain"))
    growth = [max(0, call.resident - before.resident) for before, call in zip(calls, calls[1:], strict=False)]
    for at, call in enumerate(calls[1:]):
        if call.boundary:
            growth[at] = 0  # what came in beside the summary cannot be told apart
    parameters = {
        "base": Figure(calls[0].resident, Provenance.OBSERVED, recorded("the session's first call")),
        "growth": Figure(
            sum(growth), Provenance.OBSERVED, recorded("what the window grew from call to call, compactions apart")
        ),
        "baton": baton
        or Figure(BATON_TOKENS, Provenance.ASSUMED, recorded("the size of a baton is bounded by its form")),
        "orientation": orientation or measured_orientation(growth, effect),
    }
    if window is None or window.value <= 0:
        why = recorded("not yet: the window of %(model)s is not known", model=model or "this model")
        return Shadow(_legs(calls, (), ()), parameters=parameters, why=why)
    size = int(window.value)
    tokens = mark_tokens(policy, size)
    absolute = context_mark(policy, size) < policy.mark.context
    mark = Figure(
        context_mark(policy, size),
        Provenance.ASSUMED,
        recorded(
            "the site's policy, %(context)s, as a part of the window",
            context="mark.context_tokens" if absolute else "mark.context",
        ),
    )
    parameters = {"window": window, "mark": mark, **parameters}
    fresh = int(sum(parameters[name].value for name in ("base", "baton", "orientation")))
    if fresh >= tokens:
        why = recorded(
            "no relay fits: a fresh leg would begin with %(fresh)s tokens, and the mark is at %(tokens)s",
            fresh=f"{fresh:,}",
            tokens=f"{tokens:,}",
        )
        return Shadow(_legs(calls, (), ()), mark=tokens, parameters=parameters, why=why)
    simulated = [calls[0].resident]
    rotations: list[int] = []
    for number, grown in enumerate(growth, 1):
        if simulated[-1] >= tokens:
            rotations.append(number)
            simulated.append(fresh)
        else:
            simulated.append(simulated[-1] + grown)
    return Shadow(_legs(calls, rotations, simulated), tuple(simulated), tuple(rotations), tokens, parameters)


def measured_orientation(growth: Sequence[int], effect: int | None) -> Figure:
    """Cost: "measured from real legs: all input growth before its first durable effect"; 20,000 where none is seen.

    `growth[i]`: what the window grew from call i+1 to call i+2; `effect`: the call of the first durable act, from 1.
    """
    if effect is None:
        return Figure(ORIENTATION_TOKENS, Provenance.ASSUMED, recorded("nothing measured: no durable act was seen"))
    return Figure(
        sum(growth[: max(effect - 1, 0)]),
        Provenance.OBSERVED,
        recorded("what the window grew before the first durable act, at call %(effect)s", effect=effect),
    )


def _legs(calls: Sequence[MainCall], rotations: Sequence[int], simulated: Sequence[int]) -> tuple[LegCut, ...]:
    """Cut after each rotation and before each call that follows a compaction; a cut that is both is a rotation's."""
    rotated = frozenset(rotations)
    cuts: list[tuple[int, Ended]] = []
    for number in range(1, len(calls)):
        if number in rotated:
            cuts.append((number, "would_rotate"))
        elif calls[number].boundary:
            cuts.append((number, "compaction"))
    cuts.append((len(calls), "end"))
    legs: list[LegCut] = []
    first = 1
    for last, ended in cuts:
        peak = max(call.resident for call in calls[first - 1 : last])
        legs.append(LegCut(len(legs), first, last, ended, peak, max(simulated[first - 1 : last], default=None)))
        first = last + 1
    return tuple(legs)


def reduced(values: Sequence[int], flagged: Iterable[int] = (), most: int = POINTS) -> tuple[tuple[int, int, int], ...]:
    """(call from 1, value, flag) in order, at most `most` (at least 4): the first, the last and, of each of equal

    stretches, its minimum and maximum. Cost: "a peak is never averaged away".
    """
    marks = frozenset(flagged)
    count = len(values)
    if count <= most:
        keep: Iterable[int] = range(count)
    else:
        buckets = (most - 2) // 2
        chosen = {0, count - 1}
        for bucket in range(buckets):
            stretch = range(bucket * count // buckets, (bucket + 1) * count // buckets)
            chosen |= {min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__)}
        keep = sorted(chosen)
    return tuple((at + 1, values[at], int(at + 1 in marks)) for at in keep)


# --- the would-be baton

SourceOf = Literal["tool call", "repository"]

#: fields of a baton that no act of a session tells, whatever it did
NEVER_KNOWN: Final = (
    "objective",
    "done_when",
    "progress_cursor.ledger_ref",
    "progress_cursor.held_region",
    "next_action",
    "open_questions",
    "do_not_rederive",
)
#: fields that are known where a commit is
NEEDS_COMMIT: Final = ("progress_cursor.start_sha", "tombstone.at_sha")
#: pointers that a would-be baton carries: the latest, as a real one is bounded by its form
MOST_POINTERS: Final = Bounds().artifacts


@dataclass(frozen=True, slots=True)
class Done:
    """A durable act: `kind` commit, file or issue; `source`: its own tool call, or the repository it worked in."""

    kind: str
    ref: str
    source: SourceOf = "tool call"


def would_be_baton(leg: LegCut, session: str, acts: Sequence[Done], head: str | None) -> dict[str, object]:
    """The baton that this leg would have written, from what the session durably did up to its end.

    `acts`: oldest first, each once. `head`: the full SHA of its last commit, None where none is known. Nothing is
    invented: `missing` names each field that is not baton-expressible. `pointers`: `kind:ref`, oldest first; `seen`:
    those of them that were only seen in the repository; `dropped`: how many are over the bound of a baton, the oldest.
    """
    carried = acts[-MOST_POINTERS:]
    missing = list(NEVER_KNOWN)
    if head is None:
        missing += NEEDS_COMMIT
    reason = "RELAY_ROTATED" if leg.ended == "would_rotate" else None
    if reason is None:
        missing.append("tombstone.reason")
    return {
        "leg": leg.number + 1,
        "parent_trace": session,
        "pointers": [f"{act.kind}:{act.ref}" for act in carried],
        "seen": [f"{act.kind}:{act.ref}" for act in carried if act.source == "repository"],
        "dropped": len(acts) - len(carried),
        "start_sha": head,
        "reason": reason,
        "missing": sorted(missing),
    }
