"""A stored comparison as typed figures: read tolerantly, never made up, nothing computed that was not stored.

cost.md: "Every figure carries its provenance: OBSERVED (from usage records), SIMULATED (from the model below) or
ASSUMED (a parameter)". What is not stored is None, and a page says `not yet` or `—`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.utils.translation import gettext as _

from relays.core import faithful as faithful_rule
from relays.core.sentences import Sentence
from relays.models import Comparison, Session
from relays.reports.stored_json import amount, count, mapping, numbers, pair, rows, share

#: verdict of a comparison -> how the relay's verdict `cheaper` is called (rules.md)
AS_VERDICT = {"cheaper": "holds", "dearer": "violated"}
CHEAPER, DEARER, NOT_YET = "cheaper", "dearer", "not yet"
BUCKETS = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output")


@dataclass(frozen=True, slots=True)
class Observed:
    """What the records say. Money in the site's currency; `cost` None = nothing of it has a price."""

    cost: Decimal | None
    calls: int
    unpriced: int
    unpriced_models: tuple[str, ...]
    peak: int | None
    events: int | None  # rotations of a relay, compactions of a session
    bust: int | None
    hit_rate: float | None
    reported: Decimal | None  # what the agent itself says
    tokens: Mapping[str, int]  # the five buckets

    @property
    def total_tokens(self) -> int:
        return sum(self.tokens.values())


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the simulation with where it comes from. Tokens, a share, or dollars per million: see `unit`."""

    name: str
    value: object
    unit: str
    low: object
    high: object
    provenance: str
    source: str


@dataclass(frozen=True, slots=True)
class Baseline:
    """The same work carried another way. `exceeded_at`: the call at which the window was full and the run failed."""

    policy: str
    provenance: str
    cost: Decimal | None
    peak: int | None
    events: int | None
    bust: int | None
    hit_rate: float | None
    exceeded_at: int | None
    band: tuple[Decimal, Decimal] | None
    parameters: tuple[Parameter, ...]

    @property
    def finishes(self) -> bool:
        return self.exceeded_at is None


@dataclass(frozen=True, slots=True)
class Sensitive:
    """What is saved when one parameter alone stands at the low or the high end of its range."""

    name: str
    unit: str
    low: object
    high: object
    saving_low: Decimal
    saving_high: Decimal
    turns_at: object  # the value at which the verdict turns, None where it does not within reason

    @property
    def turns(self) -> bool:
        """Whether the verdict is another one at one of both ends."""
        return (self.saving_low < 0) != (self.saving_high < 0)

    @property
    def least(self) -> Decimal:
        return min(self.saving_low, self.saving_high)

    @property
    def most(self) -> Decimal:
        return max(self.saving_low, self.saving_high)


@dataclass(frozen=True, slots=True)
class Series:
    """Cumulative money over the calls, reduced; all lists have the length of `x`, or are empty."""

    x: tuple[int, ...] = ()
    observed: tuple[float, ...] = ()
    base: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class LegMoney:
    """Money of one leg (or stretch of a session) by bucket; a bucket of None has no price."""

    leg: int
    to: int | None  # of neighbours that are added up (a relay of over 1,000 legs): the last of them
    calls: int
    input: Decimal
    cache_read: Decimal
    cache_write: Decimal
    output: Decimal
    unpriced: int
    peak: int | None

    @property
    def name(self) -> str:
        return (
            str(self.leg) if self.to in (None, self.leg) else _("%(leg)s to %(to)s") % {"leg": self.leg, "to": self.to}
        )

    @property
    def total(self) -> Decimal:
        return self.input + self.cache_read + self.cache_write + self.output


@dataclass(frozen=True, slots=True)
class Bust:
    """Tokens that had to be written again because their prefix was no longer valid, at one boundary: which leg it

    ended, and after how many of its main calls.
    """

    leg: int
    turn: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A figure measured over `n` legs or sessions; `median` None = not measured."""

    n: int
    median: int | None


@dataclass(frozen=True, slots=True)
class Faithful:
    """`rows`: (what, share 0…1 or None, of how many). Verdict holds, violated or not yet; OBSERVED only."""

    verdict: str
    said: Sentence | str
    rows: tuple[tuple[str, float | None, int], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of the envelope with what is left of it, in legs and in verified units, as it has gone so far."""

    axis: str
    limit: object
    used: object
    per_leg: object
    legs_left: int | None
    progress_left: int | None


@dataclass(frozen=True, slots=True)
class Compared:
    """`known` False: nothing is compared, `why_not` says what is missing; observed figures may be there all the same.

    `saving` is the relay's: below 0 the relay is the dearer way, whichever side was observed. `wanted`: a newer one is
    being computed.
    """

    known: bool
    why_not: str
    computed_at: datetime | None
    wanted: bool
    verdict: str
    verdict_why: str
    saving: Decimal | None
    saving_band: tuple[Decimal, Decimal] | None
    break_even: int | None
    scripted: bool
    observed: Observed
    baselines: tuple[Baseline, ...]
    sensitivity: tuple[Sensitive, ...]
    line: tuple[tuple[int, Decimal], ...]
    series: Series
    legs: tuple[LegMoney, ...]
    busts: tuple[Bust, ...]
    orientation: Measured
    faithful: Faithful
    progress: Mapping[str, int]
    money_per_unit: Decimal | None
    tokens_per_unit: int | None
    forecast: tuple[Axis, ...]
    forecast_why: str

    @property
    def first(self) -> Baseline | None:
        """The baseline that the verdict is against."""
        return self.baselines[0] if self.baselines else None

    @property
    def as_verdict(self) -> str:
        return AS_VERDICT.get(self.verdict, "not yet")

    @property
    def share(self) -> Decimal | None:
        """What is saved as a part of what the other way costs; negative where the relay is dearer."""
        first = self.first
        if self.saving is None or first is None:
            return None
        other = self.observed.cost if first.policy == "relay" else first.cost
        return self.saving / other if other else None


# ---- the row's JSON as figures --------------------------------------------------------------------------------------


def observed(value: object) -> Observed:
    stored = mapping(value)
    tokens = mapping(stored.get("tokens"))
    models = stored.get("unpriced_models")
    return Observed(
        cost=amount(stored.get("cost")),
        calls=count(stored.get("calls")) or 0,
        unpriced=count(stored.get("unpriced")) or 0,
        unpriced_models=tuple(map(str, models)) if isinstance(models, list) else (),
        peak=count(stored.get("peak_tokens")),
        events=count(stored.get("events")),
        bust=count(stored.get("cache_bust_tokens")),
        hit_rate=share(stored.get("hit_rate")),
        reported=amount(stored.get("reported")),
        tokens={name: count(tokens.get(name)) or 0 for name in BUCKETS},
    )


def parameters(value: object) -> tuple[Parameter, ...]:
    stored = mapping(value)
    return tuple(
        Parameter(
            name=str(name),
            value=one.get("value"),
            unit=str(one.get("unit") or ""),
            low=one.get("low"),
            high=one.get("high"),
            provenance=str(one.get("provenance") or "ASSUMED").upper(),
            source=str(one.get("source") or ""),
        )
        for name, one in ((name, mapping(one)) for name, one in stored.items())
        if "value" in one
    )


def baseline(stored: Mapping[str, object]) -> Baseline:
    return Baseline(
        policy=str(stored.get("policy") or ""),
        provenance=str(stored.get("provenance") or "SIMULATED").upper(),
        cost=amount(stored.get("cost")),
        peak=count(stored.get("peak_tokens")),
        events=count(stored.get("events")),
        bust=count(stored.get("cache_bust_tokens")),
        hit_rate=share(stored.get("hit_rate")),
        exceeded_at=count(stored.get("exceeded_at")),
        band=pair(stored.get("band")),
        parameters=parameters(stored.get("parameters")),
    )


def sensitive(stored: Mapping[str, object]) -> Sensitive | None:
    low, high = amount(stored.get("saving_low")), amount(stored.get("saving_high"))
    if low is None or high is None:
        return None
    return Sensitive(
        name=str(stored.get("name") or ""),
        unit=str(stored.get("unit") or ""),
        low=stored.get("low"),
        high=stored.get("high"),
        saving_low=low,
        saving_high=high,
        turns_at=stored.get("breaks"),
    )


def axes(value: object) -> tuple[Axis, ...]:
    """The stored forecast, axis by axis."""
    return tuple(
        Axis(
            str(one.get("axis") or ""), one.get("limit"), one.get("used"), one.get("per_leg"),
            count(one.get("legs_left")), count(one.get("progress_left")),
        )
        for one in rows(value)
    )  # fmt: skip


def compared(row: Comparison | None) -> Compared:
    """The stored row as figures; None = nothing was ever asked for. No query beyond the row."""
    if row is None:
        row = Comparison(why="", verdict=NOT_YET)
    made = tuple(baseline(one) for one in rows(row.baselines))
    known = row.computed_at is not None and not row.why and bool(made)
    stored, line = mapping(row.series), row.line if isinstance(row.line, list) else []
    points = [(count(one[0]), amount(one[1])) for one in line if isinstance(one, list) and len(one) == 2]
    orientation, progress = mapping(row.orientation), mapping(row.progress)
    return Compared(
        known=known,
        why_not="" if known else row.why or _why_not(row),
        computed_at=row.computed_at,
        wanted=row.wanted_at is not None,
        verdict=row.verdict if known else NOT_YET,
        verdict_why=row.verdict_why,
        saving=row.saving if known else None,
        saving_band=pair([row.saving_low, row.saving_high]) if known else None,
        break_even=row.break_even if known else None,
        scripted=row.scripted,
        observed=observed(row.observed),
        baselines=made,
        sensitivity=tuple(one for one in map(sensitive, rows(row.sensitivity)) if one is not None),
        line=tuple((at, money) for at, money in points if at is not None and money is not None),
        series=_series(stored),
        legs=tuple(_leg(one) for one in rows(row.legs)),
        busts=tuple(
            Bust(count(one.get("leg")) or 0, count(one.get("turn")) or 0, count(one.get("tokens")) or 0)
            for one in rows(row.busts)
        ),
        orientation=Measured(count(orientation.get("n")) or 0, count(orientation.get("median"))),
        faithful=faithful(mapping(row.faithful)),
        progress={name: count(progress.get(name)) or 0 for name in ("commits", "issues", "rows", "units")},
        money_per_unit=row.money_per_unit,
        tokens_per_unit=row.tokens_per_unit,
        forecast=axes(row.forecast),
        forecast_why=row.forecast_why,
    )  # fmt: skip


def _why_not(row: Comparison) -> str:
    if row.computed_at is None and row.wanted_at is not None:
        return _("it is being computed now")
    if row.computed_at is None:
        return _("it has not been computed yet")
    return _("no other way to carry this work could be played")


def _series(stored: Mapping[str, object]) -> Series:
    x = tuple(int(one) for one in numbers(stored.get("x")))
    lines = [numbers(stored.get(name)) for name in ("observed", "base", "low", "high")]
    return Series(x, *(line if len(line) == len(x) else () for line in lines))


def _leg(one: Mapping[str, object]) -> LegMoney:
    def money(name: str) -> Decimal:
        return amount(one.get(name)) or Decimal(0)

    return LegMoney(
        leg=count(one.get("leg")) or 0, to=count(one.get("to")), calls=count(one.get("calls")) or 0,
        input=money("input"), cache_read=money("cache_read"), cache_write=money("cache_write"), output=money("output"),
        unpriced=count(one.get("unpriced")) or 0, peak=count(one.get("peak")),
    )  # fmt: skip


def faithful(stored: Mapping[str, object]) -> Faithful:
    told = stored.get("rows")
    found = [one for one in told if isinstance(one, list | tuple) and len(one) == 3] if isinstance(told, list) else []
    return Faithful(
        verdict=str(stored.get("verdict") or NOT_YET),
        said=faithful_rule.stored(stored),
        rows=tuple((str(words), share(part), count(n) or 0) for words, part, n in found),
    )


@dataclass(frozen=True, slots=True)
class Brief:
    """What a session would have cost as a relay, for its own page. `saving` below 0: the relay would have lost."""

    cost: Decimal | None
    saving: Decimal | None
    verdict: str


def brief(session: Session) -> Brief | None:
    """None = nothing is compared yet. One query."""
    told = Comparison.objects.filter(session=session, computed_at__isnull=False)
    row = told.values_list("baselines", "saving", "verdict").first()
    if row is None:
        return None
    first = next(iter(rows(row[0])), {})
    return Brief(amount(first.get("cost")) if first.get("policy") == "relay" else None, row[1], row[2])
