"""What measured compactions and legs teach: trigger, residue, re-read, what stays cached, orientation, each with n.

Issue: "The engine's parameters that can be learned from the data (trigger, residue, re-read) are learned per agent and
version, with n, and used as defaults when n suffices." Back-test: "A session is predicted with parameters learned
without it (leave one out)".

Only what calls show is learned from: declared figures are not used. A residue is learned in tokens: a summary and what
is attached to it are about as long whatever the window held before.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from statistics import median_low
from typing import Final

from relays.core.baselines import Parameter, Setting, Value
from relays.core.lines import recorded
from relays.core.shadow import Provenance

#: fewer measured values than this teach nothing: one trigger that was off moves every compaction after it
LEAST: Final[Mapping[str, int]] = {"trigger": 3, "residue": 2, "reread": 2, "kept": 2, "orientation": 3}
#: from so many on, the middle half is the range; below it, everything that was seen
QUARTERED: Final = 8
_VERSION: Final = re.compile(r"\d+(?:\.\d+){0,3}", re.ASCII)


@dataclass(frozen=True, slots=True)
class MeasuredCut:
    """One compaction as the calls around it show it; tokens, None = not measured.

    `source`: whose it is (a session), for leaving it out. `before`, `after`: resident tokens of the last call before it
    and of the first one after it; `came`: what is known to have come in between (the last call's output at least).
    `window`: at that time. `base`: system prompt, tools and first words of that session; None where it began with an
    inherited conversation. `kept`: what the first call after it read from the cache. `reread`: what the window grew
    from there to the next durable effect. `automatic`: the agent began it by itself; False = a person did; None = the
    record does not say.
    """

    source: str
    agent: str
    version: str
    before: int
    after: int | None
    window: int | None = None
    came: int = 0
    base: int | None = None
    kept: int | None = None
    reread: int | None = None
    automatic: bool | None = None


@dataclass(frozen=True, slots=True)
class Learned:
    """One parameter: its middle value, the range of what was seen, and from how many. `scope`: whose, in words."""

    name: str
    value: Value
    low: Value
    high: Value
    n: int
    scope: str

    def parameter(self) -> Parameter:
        """As a setting takes it: OBSERVED, varied over what was seen."""
        what = "measured legs" if self.name == "orientation" else "measured compactions"
        return Parameter(self.value, Provenance.OBSERVED, f"{self.n} {what} of {self.scope}", self.low, self.high)


def learn(
    cuts: Iterable[MeasuredCut],
    agent: str,
    version: str,
    setting: Setting,
    *,
    without: str | None = None,
    own: Collection[tuple[int, int | None]] = (),
) -> dict[str, Learned]:
    """What these compactions teach about one agent's version in the window of `setting`; parameter -> Learned.

    `setting`: the defaults: its window, its base (of rows that have none), and its trigger, which says how that agent
    counts (tokens = so many below its window, else a share of it). `without`: leave that source out, and every row
    with (before, after) in `own`: the same compaction, published elsewhere. Each parameter is taken from the versions
    nearest to this one that have enough values together (`LEAST`); one that has too few is not in the answer.
    """
    rows: dict[tuple[int, int | None], MeasuredCut] = {}
    for one in cuts:
        if one.agent == agent and one.source != without and (one.before, one.after) not in own:
            rows.setdefault((one.before, one.after), one)  # published and imported as well: once
    told = any(one.automatic is not None for one in rows.values())
    window, base = setting.tokens("window"), setting.tokens("base")
    below = isinstance(setting["trigger"], int)
    seen: dict[str, list[tuple[MeasuredCut, Value]]] = {"trigger": [], "residue": [], "reread": [], "kept": []}
    for one in rows.values():
        # where an agent says who began a compaction, only its own ones show where it begins them
        if one.window is not None and 0 < one.before <= one.window and (one.automatic or not told):
            seen["trigger"].append((one, _trigger(one, one.window, window, below)))
        if one.after is not None:
            seen["residue"].append((one, max(one.after - (base if one.base is None else one.base), 0)))
        if one.reread is not None:
            seen["reread"].append((one, one.reread))
        if one.kept is not None:
            seen["kept"].append((one, one.kept))
    found: dict[str, Learned] = {}
    for name, values in seen.items():
        near = _nearest(values, version, LEAST[name])
        if near:
            found[name] = middle(name, [value for _, value in near], _scope(agent, [one.version for one, _ in near]))
    return found


def _nearest(values: Sequence[tuple[MeasuredCut, Value]], version: str, least: int) -> list[tuple[MeasuredCut, Value]]:
    """Those of the nearest versions, whole versions, until there are enough; none where there never are."""
    ordered = sorted(values, key=lambda pair: _distance(pair[0].version, version))
    near: list[tuple[MeasuredCut, Value]] = []
    for _, group in groupby(ordered, key=lambda pair: _distance(pair[0].version, version)):
        near += group
        if len(near) >= least:
            return near
    return []


def _numbers(version: str) -> tuple[int, ...] | None:
    named = _VERSION.search(version)
    return tuple(int(part[:9]) for part in named[0].split(".")) if named else None


def _distance(version: str, other: str) -> tuple[int, ...]:
    """How far apart two versions are, part by part; what has no number is farthest, but for the same words."""
    if version == other:
        return (0, 0, 0, 0, 0)
    ours, theirs = _numbers(version), _numbers(other)
    if ours is None or theirs is None:
        return (1, 0, 0, 0, 0)
    pairs = zip((*ours, 0, 0, 0, 0)[:4], (*theirs, 0, 0, 0, 0)[:4], strict=True)
    return (0, *(abs(one - two) for one, two in pairs))


def _scope(agent: str, versions: Sequence[str]) -> str:
    """`codex 0.142.5`, or `claude-code 2.1.20 to 2.1.226`."""
    named = sorted({one for one in versions if one}, key=lambda one: (_numbers(one) or (), one))
    if not named:
        return agent
    return f"{agent} {named[0]}" if len(named) == 1 else f"{agent} {named[0]} to {named[-1]}"


def _trigger(one: MeasuredCut, was: int, window: int, below: bool) -> Value:
    """The level at which it fired, carried over to a window of that size."""
    level = min(one.before + one.came, was)
    if below:
        return max(window - (was - level), 1)
    return (Decimal(level) / was).quantize(Decimal("0.0001"))


def middle(name: str, values: Sequence[Value], scope: str) -> Learned:
    """The middle one of measured values, with their range: it was measured itself. ValueError without a value."""
    if not values:
        raise ValueError(recorded("nothing was measured"))
    ordered = sorted(values)
    cut = len(ordered) // 4 if len(ordered) >= QUARTERED else 0
    return Learned(name, median_low(ordered), ordered[cut], ordered[-1 - cut], len(ordered), scope)


def orientation(values: Sequence[int], scope: str) -> Learned | None:
    """What fresh legs re-read before their first durable effect; None where too few were measured."""
    return middle("orientation", values, scope) if len(values) >= LEAST["orientation"] else None


def apply(setting: Setting, learned: Mapping[str, Learned]) -> Setting:
    """The setting with what was learned in the place of what was assumed.

    A residue that was measured holds what the agent attached to it at once as well. Where re-reading was not measured
    beside it, nothing more is taken for granted: to add what is assumed would count it twice, in favour of the relay.
    """
    for one in learned.values():
        parameter = one.parameter()
        if one.name == "kept":
            most = setting.tokens("base")
            parameter = Parameter(min(int(one.value), most), parameter.provenance, parameter.source,
                                  min(int(one.low), most), min(int(one.high), most))  # fmt: skip
        setting = setting.put(one.name, parameter)
    if "residue" in learned and "reread" not in learned:
        source = recorded("what is read again at once is in the measured residue")
        high = setting.tokens("reread")
        setting = setting.put("reread", Parameter(0, Provenance.OBSERVED, source, 0, high))
    return setting


# --- what others measured and published: it teaches where a site has too little of its own


def _public(source: str, agent: str, version: str, before: int, after: int | None, window: int | None = None,
            automatic: bool | None = None, kept: int | None = None) -> MeasuredCut:  # fmt: skip
    return MeasuredCut(f"public {source}", agent, version, before, after, window, automatic=automatic, kept=kept)


#: measured at the calls before and after each compaction (sessions.md); a window that is not sure is left out
PUBLIC: Final[tuple[MeasuredCut, ...]] = (
    _public("A", "claude-code", "2.1.39", 166_759, 33_960, 200_000, True, 21_460),
    _public("B", "claude-code", "2.1.20", 150_210, 46_694, 200_000),
    _public("B", "claude-code", "2.1.20", 139_043, 53_595, 200_000),
    _public("C", "claude-code", "2.1.226", 203_312, 61_596, None, True, 0),
    _public("C", "claude-code", "2.1.226", 166_408, 64_513, 200_000, True, 29_760),
    _public("C", "claude-code", "2.1.226", 162_768, 67_181, 200_000, True, 29_760),
    _public("C", "claude-code", "2.1.226", 166_089, 63_889, 200_000, True, 29_760),
    _public("D", "claude-code", "2.1.226", 333_253, 58_061),
    _public("D", "claude-code", "2.1.232", 149_567, 65_611, 200_000),
    _public("E", "codex", "0.142", 232_648, 19_748, 258_400),
    _public("E", "codex", "0.142", 226_023, 18_334, 258_400),
    _public("E", "codex", "0.142", 233_515, None, 258_400),
    _public("E", "codex", "0.142", 236_346, None, 258_400),
    _public("E", "codex", "0.142", 223_418, None, 258_400),
)
