"""How sure a comparison is: what each parameter could do to it, the band, the break-even, and the word for it all.

Cost: "A manager trusts this page only if it can lose"; "Shown with it: the sensitivity of the verdict to each
parameter, and the break-even ('the relay loses when a fresh leg re-reads more than n tokens')". Issue: "a band, not a
point; the verdict cheaper / dearer / not yet".

One side may be observed: then its money is what was paid, and only the other side's parameters are uncertain.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_HALF_EVEN, Decimal
from itertools import pairwise
from typing import Final, Literal

from relays.core.baselines import Parameter, PolicyName, Setting, Value
from relays.core.carryover import Carried, Work, play
from relays.core.carryover_policies import NEVER, RotatedAt, tokens_of
from relays.core.carryover_prices import EXACT, Prices
from relays.core.lines import recorded

Word = Literal["cheaper", "dearer", "not yet"]
Side = Literal["relay", "baseline"]

#: the parameters that a policy looks at
OF: Final[dict[PolicyName, tuple[str, ...]]] = {
    "relay": ("mark", "baton", "orientation", "handover", "kept"),
    "compaction": ("trigger", "residue", "reread", "summary_call", "kept"),
    "context_editing": ("clear_at", "keep", "kept"),
    "sliding_window": ("slide", "kept"),
    "none": (),
}
#: what a policy decides: shown with what it does, but nothing that is not known, so that no band has it
CHOSEN: Final = frozenset({"mark", "clear_at", "keep", "slide"})
#: how many values of orientation are played to find where the relay begins to lose for good
GRID: Final = 16
_SHARE: Final = Decimal("0.000001")


@dataclass(frozen=True, slots=True)
class Observed:
    """What one side really cost, in the unit of the prices, instead of what the engine says of it."""

    side: Side
    money: Decimal


@dataclass(frozen=True, slots=True)
class Row:
    """What one parameter does to the saving: at `low` and at `high` of it.

    `breaks`: the value between them at which the verdict turns (the last one that still has the sign of `low`'s), None
    where it does not.
    """

    name: str
    parameter: Parameter
    low: Value
    high: Value
    saving_low: Decimal | None
    saving_high: Decimal | None
    breaks: Value | None = None


@dataclass(frozen=True, slots=True)
class BreakEven:
    """ "The relay loses when a fresh leg re-reads more than n tokens": `tokens` = n, else None and `why`.

    `line`: (orientation, saving) of what was played, ascending.
    """

    tokens: int | None
    why: str
    line: tuple[tuple[int, Decimal | None], ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """A relay against one baseline, on one work stream.

    `relay`, `baseline`: what the engine made of the stream, SIMULATED. `relay_money`, `baseline_money`: what is
    compared; of an observed side what was paid. `saving`: the part of the baseline's money that the relay saves
    (negative: it costs more), None where the baseline costs nothing; `saving_low`, `saving_high`: over every parameter
    that is not known for sure, one at a time (what a policy decides is known). `band`: the same for the money of the
    side that is simulated (the baseline's where both are). `why`: one line for the verdict.
    """

    against: PolicyName
    setting: Setting
    relay: Carried
    baseline: Carried
    relay_money: Decimal
    baseline_money: Decimal
    saving: Decimal | None
    saving_low: Decimal | None
    saving_high: Decimal | None
    band: tuple[Decimal, Decimal]
    rows: tuple[Row, ...]
    break_even: BreakEven
    verdict: Word
    why: str
    observed: Side | None = None
    _variants: tuple[Carried, ...] = field(default=(), repr=False)

    @property
    def simulated(self) -> Carried:
        """The side whose band is shown."""
        return self.relay if self.observed == "baseline" else self.baseline

    def envelope(self, calls: Sequence[int]) -> tuple[tuple[Decimal, ...], tuple[Decimal, ...]]:
        """Cumulative money of the simulated side after each of these calls, at its lowest and at its highest.

        A run that failed stands still from there on.
        """
        played = (self.simulated, *self._variants)
        columns = [[one.money_after(min(call, one.played)) for one in played] for call in calls]
        return tuple(min(column) for column in columns), tuple(max(column) for column in columns)


@dataclass(frozen=True, slots=True)
class Bench:
    """One comparison's fixed parts; plays it with other parameters. `relay_work` and `work` may differ: what a carrier

    made the agent read again is no work of the other one's.
    """

    work: Work
    relay_work: Work
    prices: Prices | Sequence[Prices]
    against: PolicyName
    #: what was paid - what the engine says of it; 0 for a side that is simulated
    relay_paid: Decimal = Decimal(0)
    baseline_paid: Decimal = Decimal(0)
    #: the calls after which an observed relay rotated; none = where its mark says
    rotated: frozenset[int] = frozenset()

    def relay(self, setting: Setting) -> Carried:
        work = _kept(self.relay_work, setting)
        if not self.rotated:
            return play(work, setting.policy("relay"), self.prices)
        policy = RotatedAt(
            self.rotated, setting.tokens("baton"), setting.tokens("orientation"), setting.tokens("handover") or None
        )
        return play(replace(work, window=NEVER), policy, self.prices)

    def room(self, setting: Setting) -> int:
        """The most that a fresh leg could re-read: up to its mark, or up to the window where it really ran."""
        window = self.relay_work.window
        most = window if self.rotated else tokens_of(setting["mark"], window)
        return most - self.relay_work.base - setting.tokens("baton") - 1

    def baseline(self, setting: Setting) -> Carried:
        return play(_kept(self.work, setting), setting.policy(self.against), self.prices)

    def saving(self, relay: Decimal, baseline: Decimal) -> Decimal | None:
        """Of money as the engine says it, to six digits."""
        paid = EXACT.add(baseline, self.baseline_paid)
        if paid <= 0:
            return None
        share = EXACT.divide(EXACT.subtract(paid, EXACT.add(relay, self.relay_paid)), paid)
        return share.quantize(_SHARE, ROUND_HALF_EVEN, EXACT)


def _kept(work: Work, setting: Setting) -> Work:
    kept = min(setting.tokens("kept"), work.base)
    return work if kept == work.kept else Work(work.base, work.window, work.steps, kept, work.first, work.warm)


def compare(
    work: Work,
    setting: Setting,
    prices: Prices | Sequence[Prices],
    *,
    against: PolicyName = "compaction",
    observed: Observed | None = None,
    relay_work: Work | None = None,
    rotated: Sequence[int] = (),
) -> Comparison:
    """Play `work` as a relay and as `against`, and say what is sure of it.

    `setting`: its `window` and `base` are ignored, the stream has its own; its `kept` holds for both sides. `observed`:
    what one side really cost. `relay_work`: the relay's own stream where it differs. `rotated`: the calls after which
    an observed relay rotated: it is played with these, not with what its mark would have done. Raises ValueError for
    parameters that cannot be, or for a relay against itself.
    """
    if against == "relay":
        raise ValueError("a relay is not compared with itself: name a baseline")
    seen = observed.side if observed else None
    bench = Bench(work, relay_work or work, prices, against, rotated=frozenset(rotated if seen == "relay" else ()))
    relay, baseline = bench.relay(setting), bench.baseline(setting)
    if observed is not None:
        paid = EXACT.subtract(observed.money, relay.money if observed.side == "relay" else baseline.money)
        bench = replace(bench, relay_paid=paid) if observed.side == "relay" else replace(bench, baseline_paid=paid)
    rows: list[Row] = []
    variants: list[Carried] = []
    for name in _uncertain(against, seen):
        row, played = _row(bench, setting, name, seen, relay, baseline)
        if row is not None:
            rows.append(row)
            if name not in CHOSEN:
                variants += played
    saving = bench.saving(relay.money, baseline.money)
    unsure = [row for row in rows if row.name not in CHOSEN]
    savings = [one for row in unsure for one in (row.saving_low, row.saving_high) if one is not None]
    low, high = (min([saving, *savings]), max([saving, *savings])) if saving is not None else (None, None)
    shown, paid = (relay, bench.relay_paid) if seen == "baseline" else (baseline, bench.baseline_paid)
    amounts = [EXACT.add(one.money, paid) for one in (shown, *variants)]
    even = break_even(bench, setting, baseline)
    rows = [_one_turn(row, even) for row in rows]
    verdict, why = _verdict(relay, baseline, low, high, against)
    return Comparison(
        against=against,
        setting=setting,
        relay=relay,
        baseline=baseline,
        relay_money=EXACT.add(relay.money, bench.relay_paid),
        baseline_money=EXACT.add(baseline.money, bench.baseline_paid),
        saving=saving,
        saving_low=low,
        saving_high=high,
        band=(min(amounts), max(amounts)),
        rows=tuple(rows),
        break_even=even,
        verdict=verdict,
        why=why,
        observed=seen,
        _variants=tuple(variants),
    )


def band(work: Work, setting: Setting, prices: Prices | Sequence[Prices], name: PolicyName) -> tuple[Decimal, Decimal]:
    """The money of one policy at its lowest and its highest over what is not known of it, one parameter at a time."""
    amounts = [play(_kept(work, setting), setting.policy(name), prices).money]
    for one in OF[name]:
        parameter = setting.parameters[one]
        if one in CHOSEN or parameter.low is None or parameter.high is None:
            continue
        for value in (parameter.low, parameter.high):
            varied = setting.given(one, value)
            amounts.append(play(_kept(work, varied), varied.policy(name), prices).money)
    return min(amounts), max(amounts)


def _uncertain(against: PolicyName, seen: Side | None) -> Iterator[str]:
    """The parameters of whatever is simulated, each once. What was paid was paid: no parameter changes it."""
    named = (*(OF["relay"] if seen != "relay" else ()), *(OF[against] if seen != "baseline" else ()))
    yield from dict.fromkeys(named)


def _row(
    bench: Bench, setting: Setting, name: str, seen: Side | None, relay: Carried, baseline: Carried
) -> tuple[Row | None, list[Carried]]:
    """One parameter at both ends of its range, None where it has none; and what was played of the side shown."""
    parameter = setting.parameters[name]
    if parameter.low is None or parameter.high is None or parameter.low == parameter.high:
        return None, []
    shown: list[Carried] = []

    def at(value: Value, *, kept: bool = False) -> Decimal | None:
        varied = setting.given(name, value)
        ours = bench.relay(varied) if name in OF["relay"] and seen != "relay" else relay
        theirs = bench.baseline(varied) if name in OF[bench.against] and seen != "baseline" else baseline
        mine = ours if seen == "baseline" else theirs
        if kept and mine is not (relay if seen == "baseline" else baseline):
            shown.append(mine)
        return bench.saving(ours.money, theirs.money)

    low, high = at(parameter.low, kept=True), at(parameter.high, kept=True)
    breaks = None
    if low is not None and high is not None and (low > 0) != (high > 0):
        breaks = _turn(parameter.low, parameter.high, lambda value: ((at(value) or 0) > 0) == (low > 0))
    return Row(name, parameter, parameter.low, parameter.high, low, high, breaks), shown


def _one_turn(row: Row, even: BreakEven) -> Row:
    """The row of orientation names the same turn as the break-even, where it has more than one."""
    turns = row.name == "orientation" and row.breaks is not None
    if turns and even.tokens is not None and row.low <= even.tokens <= row.high:
        return replace(row, breaks=even.tokens)
    return row


#: a share is looked for in so many steps
_STEPS: Final = 1_000


def _turn(low: Value, high: Value, same: Callable[[Value], bool]) -> Value:
    """The last value from `low` on for which `same` holds, by halving; it holds at `low` and not at `high`."""
    if isinstance(low, Decimal) or isinstance(high, Decimal):
        first, last = Decimal(low), Decimal(high)

        def value(step: int) -> Value:
            return first + (last - first) * step / _STEPS

        steps = _STEPS
    else:
        whole, way = low, high - low

        def value(step: int) -> Value:
            return whole + (step if way > 0 else -step)

        steps = abs(way)
    return value(_last(0, steps, lambda step: same(value(step))))


def _last(holds: int, fails: int, test: Callable[[int], bool]) -> int:
    """The last number before a change, by halving: `test` holds for what comes back and fails for the next number."""
    while fails - holds > 1:
        middle = (holds + fails) // 2
        if test(middle):
            holds = middle
        else:
            fails = middle
    return holds


def break_even(bench: Bench, setting: Setting, baseline: Carried) -> BreakEven:
    """ "The relay loses when a fresh leg re-reads more than n tokens", on this stream, all else as in `setting`.

    A window that is cut earlier is now and then a little cheaper, so that money does not grow with every single token:
    n is the last turn from not losing to losing among `GRID` values up to `room`, then found to the token. At n the
    relay does not lose, at n + 1 it does, and it does at every value above that was played.
    """
    room = bench.room(setting)
    if room <= 0:
        return BreakEven(None, recorded("a fresh leg would begin at its mark: no relay fits into this window"))
    if baseline.exceeded_at is not None:
        return BreakEven(
            None,
            recorded("the other side fails after call %(call)d: nothing to compare", call=baseline.exceeded_at),
        )

    costs: dict[int, Decimal] = {}  # and no more of each run: a long stream's are large
    rotates: list[bool] = []

    def loses(tokens: int) -> bool:
        played = bench.relay(setting.given("orientation", tokens))
        costs[tokens] = played.money
        rotates.append(bool(played.events))
        return EXACT.add(played.money, bench.relay_paid) > EXACT.add(baseline.money, bench.baseline_paid)

    grid = sorted({room * step // GRID for step in range(GRID + 1)})
    lost = [loses(tokens) for tokens in grid]
    line = tuple((tokens, bench.saving(costs[tokens], baseline.money)) for tokens in grid)
    if not rotates[0]:
        return BreakEven(None, recorded("the relay does not rotate in this work: nothing is read again"), line)
    if not lost[-1]:
        return BreakEven(None, recorded("the relay does not lose, whatever a fresh leg re-reads"), line)
    if all(lost):
        return BreakEven(None, recorded("the relay loses even where a fresh leg re-reads nothing"), line)
    at = max(place for place, (before, after) in enumerate(pairwise(lost)) if not before and after)
    found = _last(grid[at], grid[at + 1], lambda tokens: not loses(tokens))
    return BreakEven(
        found,
        recorded("the relay loses when a fresh leg re-reads more than %(found)s tokens", found=f"{found:,}"),
        line,
    )


def _verdict(
    relay: Carried, baseline: Carried, low: Decimal | None, high: Decimal | None, against: PolicyName
) -> tuple[Word, str]:
    """ "cheaper / dearer / not yet": a word only where the whole band has one sign."""
    named = against.replace("_", " ") if against != "none" else recorded("a window that only grows")
    if low is None or high is None:
        return "not yet", recorded("nothing was paid yet")
    if relay.exceeded_at is not None:
        return "not yet", recorded(
            "as a relay the window would be full after call %(call)d: nothing to compare",
            call=relay.exceeded_at,
        )
    if baseline.exceeded_at is not None:
        return "not yet", recorded(
            "with %(named_word)s the run fails after call %(call)d: nothing to compare",
            named_word=named,
            call=baseline.exceeded_at,
        )
    if not relay.events and not baseline.events:
        return "not yet", recorded(
            "the work is too short: neither would the relay rotate nor the other side cut its window"
        )
    if low > 0:
        first, last = _percent(low), _percent(high)
        if first == last:
            return "cheaper", recorded("the relay saves %(much)s against %(named_word)s", much=first, named_word=named)
        return "cheaper", recorded(
            "the relay saves %(low)s to %(high)s against %(named_word)s", low=first, high=last, named_word=named
        )
    if high < 0:
        first, last = _percent(-high), _percent(-low)
        if first == last:
            return "dearer", recorded(
                "the relay lost: it costs %(much)s more than %(named_word)s", much=first, named_word=named
            )
        return "dearer", recorded(
            "the relay lost: it costs %(low)s to %(high)s more than %(named_word)s",
            low=first,
            high=last,
            named_word=named,
        )
    return (
        "not yet",
        recorded(
            "between %(low)s dearer and %(high)s cheaper than %(named_word)s: it depends on what is not known",
            low=_percent(-low),
            high=_percent(high),
            named_word=named,
        ),
    )


def _percent(share: Decimal) -> str:
    return f"{share * 100:.1f} %"
