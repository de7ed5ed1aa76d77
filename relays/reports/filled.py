"""What filled the window of a leg: what it began with, its own output, and the results of each tool.

cost.md, Charts: what fills the window. Growth is observed; where several things came in between two calls it is shared
out by their sizes, and growth that no record accounts for is said to be unknown, never spread over the others.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from django.utils.translation import gettext as _

from relays.models import Call, Event, Leg
from relays.sessions.series import UNKNOWN, shared_out

CALLS = 3_000  # main calls that are looked at
EVENTS = 12_000  # tool events that are looked at
KINDS = 8  # shown apart; the rest together
OWN = "own output"
BASE = "base"
REST = "rest"


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of what lies in the window. `tone` chooses its colour and pattern, from 0."""

    name: str
    tokens: int
    share: float
    tone: int


@dataclass(frozen=True, slots=True)
class Filled:
    """`parts` add up to `tokens`, the most that the window held so far; `cut`: only the first turns were looked at."""

    parts: tuple[Part, ...]
    tokens: int
    turns: int
    cut: bool


def filled(leg: Leg) -> Filled | None:
    """Two queries; None before the first call."""
    calls = list(
        Call.objects.filter(leg=leg, main=True)
        .order_by("turn", "id")
        .values_list("turn", "resident_tokens", "output_tokens")[: CALLS + 1]
    )
    if not calls:
        return None
    results, cut_events = _results(leg)
    cut = len(calls) > CALLS or cut_events
    calls = calls[:CALLS]
    known = max(results, default=0) if cut_events else calls[-1][0]
    sums: dict[str, int] = defaultdict(int)
    sums[BASE] = calls[0][1]
    peak = (calls[0][1], dict(sums))
    for (turn, before, output), (_next, now, _out) in zip(calls, calls[1:], strict=False):
        if turn > known:
            break
        if now < before:  # it shrank by itself: what is gone cannot be told apart
            sums = defaultdict(int, {BASE: now})
        else:
            came: dict[str, int] = {OWN: output, **results.get(turn, {})}
            for kind, tokens in shared_out(now - before, {kind: size for kind, size in came.items() if size}):
                sums[kind] += tokens
        if now >= peak[0]:
            peak = (now, dict(sums))
    return Filled(_parts(peak[1], peak[0]), peak[0], len(calls), cut)


def _results(leg: Leg) -> tuple[dict[int, dict[str, int]], bool]:
    """turn -> tool -> tokens of its results. Events stand in the order in which they came, a turn's after its start."""
    rows = list(
        Event.objects.filter(leg=leg, kind__in=("turn_started", "usage", "tool_started", "tool_ended"))
        .order_by("seq")
        .values_list("kind", "payload")[: EVENTS + 1]
    )
    found: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    names: dict[str, str] = {}
    turn = 0
    for kind, payload in rows[:EVENTS]:
        if not isinstance(payload, Mapping):
            continue
        if kind == "usage":
            turn += payload.get("chain", "main") == "main"
        elif kind == "tool_started":
            names[str(payload.get("id"))] = str(payload.get("name") or "tool")[:40]
        elif kind == "tool_ended":
            size = payload.get("result_tokens")
            if size is None:
                size = int(payload.get("result_bytes") or 0) // 4
            found[turn][names.pop(str(payload.get("id")), "tool")] += int(size or 0)
    return {turn: dict(tools) for turn, tools in found.items()}, len(rows) > EVENTS


def _parts(sums: Mapping[str, int], tokens: int) -> tuple[Part, ...]:
    """The base first, then the largest; what lacks of `tokens` is unknown."""
    lacking = tokens - sum(sums.values())
    parts = {**sums, UNKNOWN: sums.get(UNKNOWN, 0) + max(0, lacking)}
    ranked = sorted(
        ((kind, size) for kind, size in parts.items() if size and kind not in (BASE, UNKNOWN)), key=lambda one: -one[1]
    )
    rest = sum(size for _kind, size in ranked[KINDS:])
    ordered = [(BASE, parts.get(BASE, 0)), *ranked[:KINDS], (REST, rest), (UNKNOWN, parts[UNKNOWN])]
    return tuple(
        Part(_name(kind), size, 100 * size / tokens if tokens else 0.0, tone)
        for tone, (kind, size) in enumerate((kind, size) for kind, size in ordered if size)
    )


def _name(kind: str) -> str:
    return {
        BASE: _("what it began with: system, tools, seed"),
        OWN: _("its own output"),
        REST: _("results of other tools"),
        UNKNOWN: _("unknown: no record accounts for it"),
    }.get(kind) or _("results of %s") % kind
