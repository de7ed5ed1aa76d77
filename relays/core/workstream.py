"""From observed calls to a work stream: what was new at each call, what of its prefix was lost, what was read again.

Cost: "Take the observed work stream of a relay or a session: per call, what was new (tool results, user text) and what
was produced (output)." Orientation is "measured from real legs: all input growth before its first durable effect".

What the observed carrier itself did (a new leg, a compaction) is taken out of the stream: the window that shrank, the
tokens written again because of it. What came from outside stays in it, for every carrier alike: gaps, and prefixes that
the provider no longer had in its cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from relays.core.carryover import ALL, Step, Work
from relays.core.usage import Buckets, resident

#: how long a prefix stays in the cache: as the call that wrote last says, else the shorter one
SHORT, LONG = timedelta(minutes=5), timedelta(hours=1)
#: a prefix that came back shorter by no more than this lost nothing: caches keep whole blocks, ends of turns are redone
SLACK: Final = 2_048
#: a window that shrinks by more than both without a record of it is unexplained, as in a session's graph
DROP_PART: Final = 0.30
DROP_TOKENS: Final = 10_000
#: re-reading is looked for in so many calls after a cut; "the share that is read again within 20 calls after it"
SOON: Final = 20


@dataclass(frozen=True, slots=True)
class MainCall:
    """One call of the main chain in its order. `fresh`: the observed carrier cut the window just before it.

    `effect`: a durable effect came with it. `price`: which of the prices of the stream holds for it. `told`: the agent
    reports what it read from the cache. `then`: resident tokens of the carrier's own call right after it (a leg
    that winds down), which is no step; 0 = there was none.
    """

    buckets: Buckets
    at: datetime | None = None
    fresh: bool = False
    effect: bool = False
    price: int = 0
    told: bool = True
    then: int = 0


@dataclass(frozen=True, slots=True)
class Stream:
    """What the calls of one relay or session give.

    `cuts`: after which calls (from 1) the observed carrier cut the window. `busts`: per cut, tokens that were written
    again at the next call because of it. `reread`: per cut, the growth between the first call after it and the first
    durable effect; where none came, see `of`. `lost`: tokens of prefixes that were lost for no reason of the carrier's.
    `after`: per cut, (resident before, resident after). `drops`: how often the window shrank for no recorded reason
    (cleared, rewound, another session): what another carrier would have held then, nobody can say.
    """

    work: Work
    cuts: tuple[int, ...] = ()
    busts: tuple[int, ...] = ()
    reread: tuple[int | None, ...] = ()
    after: tuple[tuple[int, int], ...] = ()
    lost: int = 0
    peak: int = 0
    drops: int = 0

    def without_reread(self) -> "Stream":
        """The same work without what the observed carrier made it read again: what another carrier starts from.

        A cut without a measured re-reading keeps all its growth.
        """
        steps = list(self.work.steps)
        for cut, again in zip(self.cuts, self.reread, strict=True):
            left = again or 0
            at = cut  # the step of the first call after the cut
            while left > 0 and at < len(steps):
                taken = min(left, steps[at].new)
                steps[at] = replace(steps[at], new=steps[at].new - taken)
                left -= taken
                at += 1
        return replace(self, work=replace(self.work, steps=tuple(steps)))


def of(calls: Sequence[MainCall], window: int, *, soon: int | None = None) -> Stream:
    """The stream of these calls, at least one of them, in a window of that size.

    `soon`: re-reading counts only where its durable effect comes within so many calls after the cut. None = up to the
    next cut, and what did nothing durable up to there has read again all that it read (but for the last stretch, which
    may still do something): reading is no work that another carrier would have had to do. Raises ValueError without a
    call.
    """
    if not calls:
        raise ValueError("there is no call")
    residents = [resident(call.buckets) for call in calls]
    steps: list[Step] = []
    cuts: list[int] = []
    busts: list[int] = []
    after: list[tuple[int, int]] = []
    lost = 0
    last = len(calls) - 1
    for at, call in enumerate(calls):
        cut_next = at < last and calls[at + 1].fresh
        output = call.buckets.output
        # over a cut only the carrier's own call tells what came in; without one, what the call wrote is the least of it
        came = max(output, call.then - residents[at])
        new = came if at == last or cut_next else max(0, residents[at + 1] - residents[at])
        part = cold = 0
        if at and not call.fresh and call.told:
            prefix = min(residents[at - 1], residents[at])
            missing = prefix - call.buckets.cache_read
            if missing > SLACK and prefix:
                part = min(ALL, missing * ALL // prefix)
                lost += missing
        elif at and not call.fresh:
            cold = _gap(calls[at - 1], call)
        if at and call.fresh:
            cuts.append(at)
            uncached = residents[at] - call.buckets.cache_read
            before = max(residents[at - 1], calls[at - 1].then)
            busts.append(max(0, min(before, uncached)))
            after.append((before, residents[at]))
        steps.append(Step(new, output, bool(cold), call.effect, call.price, part))
    base = min([residents[0], *(fresh for _, fresh in after)])
    kept = _kept(calls, residents, base)
    work = Work(base, window, tuple(steps), kept, residents[0] - base, min(calls[0].buckets.cache_read, residents[0]))
    reread = tuple(_reread(calls, residents, cut, end, soon) for cut, end in _stretches(cuts, len(calls)))
    peak = max(*residents, *(call.then for call in calls), 0)
    drops = sum(
        not call.fresh and before - now > max(DROP_TOKENS, DROP_PART * before)
        for call, before, now in zip(calls[1:], residents, residents[1:], strict=False)
    )
    return Stream(work, tuple(cuts), tuple(busts), reread, tuple(after), lost, peak, drops)


def _gap(before: MainCall, call: MainCall) -> bool:
    """Whether the cache had forgotten by then; only asked where the agent does not say what it read from it."""
    if before.at is None or call.at is None:
        return False
    return call.at - before.at > (LONG if before.buckets.cache_write_1h else SHORT)


def _kept(calls: Sequence[MainCall], residents: Sequence[int], base: int) -> int:
    """What stays cached over a cut: the middle of what calls after cuts read, else of what the first call read."""
    read = sorted(call.buckets.cache_read for call in calls[1:] if call.fresh and call.told)
    found = read[len(read) // 2] if read else calls[0].buckets.cache_read
    return max(0, min(found, base))


def _stretches(cuts: Sequence[int], calls: int) -> list[tuple[int, int]]:
    """From each cut to the next one, the last to the end; none where nothing was cut."""
    return list(zip(cuts, [*cuts[1:], calls], strict=True)) if cuts else []


def _reread(calls: Sequence[MainCall], residents: Sequence[int], first: int, end: int, soon: int | None) -> int | None:
    """What the window grew from call `first` (from 0) to the one with the first durable effect before `end`.

    Where there is none: all that it grew, if another stretch follows and `soon` sets no bound; else not known.
    """
    until = end if soon is None else min(end, first + soon)
    for at in range(first, until):
        if calls[at].effect:
            return max(0, residents[at] - residents[first])
    idle = soon is None and end < len(calls)
    return max(0, residents[end - 1] - residents[first]) if idle else None


def orientation(stream: Stream, calls: Sequence[MainCall]) -> int | None:
    """What the window grew before the first durable effect of all: of a session that never cut, the nearest thing."""
    until = stream.cuts[0] if stream.cuts else len(calls)
    return _reread(calls, [resident(call.buckets) for call in calls], 0, until, until)
