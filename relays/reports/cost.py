"""What a relay or a session cost against another way to carry its work: one page, from stored comparisons only.

Mission: "an operator can see, per relay, cost vs a compaction baseline"; "cheaper and more faithful than compaction, or
it is not worth its complexity". The page says cheaper, dearer or not yet in words, and it can say that the relay lost.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from pathlib import PurePath

from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop, ngettext

from relays.models import BackTest, Comparison, CostState, Relay, Session
from relays.reports import compared as stored
from relays.reports import stored_json
from relays.reports.compared import CHEAPER, DEARER, Baseline, Compared, LegMoney, Parameter, Series
from relays.reports.figures import places, whole
from relays.reports.flat import reduced
from relays.reports.sentences import told

ROWS = 60  # of the table beside the chart of cumulative money
LEG_ROWS = 200  # legs and boundaries that their charts and tables show; the CSV has all

#: policy of the engine -> how people call it, and its event
POLICIES: dict[str, tuple[str, str]] = {
    "relay": (gettext_noop("relay"), "rotation"),
    "compaction": (gettext_noop("compaction"), "compaction"),
    "context_editing": (gettext_noop("context editing"), "clearing"),
    "sliding_window": (gettext_noop("sliding window"), "cut"),
    "none": (gettext_noop("no carry-over policy"), "event"),
}
#: parameter of the engine -> words, and the unit where the stored one says none
PARAMETERS: dict[str, tuple[str, str]] = {
    "window": (gettext_noop("window"), gettext_noop("tokens")),
    "base": (gettext_noop("base and tools"), "tokens"),
    "mark": (gettext_noop("soft mark"), ""),
    "baton": (gettext_noop("baton"), "tokens"),
    "orientation": (gettext_noop("re-read, fresh leg"), "tokens"),
    "handover": (gettext_noop("winding down"), gettext_noop("tokens out")),
    "trigger": (gettext_noop("trigger"), ""),
    "residue": (gettext_noop("residue above the base"), ""),
    "reread": (gettext_noop("re-read, compaction"), "tokens"),
    "summary_call": (gettext_noop("summary call"), gettext_noop("tokens out")),
    "kept": (gettext_noop("base cached over a cut"), "tokens"),
    "clear_at": (gettext_noop("clears results at"), ""),
    "keep": (gettext_noop("calls whose results stay"), ""),
    "slide": (gettext_noop("slides at"), ""),
}
_UNITS = {"part": gettext_noop("of window"), "tokens": "tokens"}


def money(amount: Decimal) -> str:
    """`$7.60`, without a sign; as many decimals as a small amount needs, so that it never reads as nothing."""
    size = abs(amount)
    return f"${places(size, 2 if size >= Decimal('0.1') or not size else 4 if size >= Decimal('0.001') else 6)}"


def signed(amount: Decimal) -> str:
    """The same with a true minus sign where money was lost."""
    sign = "\N{MINUS SIGN}" if amount < 0 else ""
    return f"{sign}{money(amount)}"


def thousands(tokens: int) -> str:
    """`53.3k`: for break-even and headlines; below 1,000 the number itself."""
    return f"{places(tokens / 1000, 1)}k" if tokens >= 1000 else whole(tokens)


# ---- whose cost it is -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Subject:
    """The relay or the session of the page: how it is called in words, and where its own page is."""

    kind: str  # relay, session
    key: str  # of its addresses
    name: str
    title: str
    agent: str
    repo_name: str
    models: tuple[str, ...]

    @property
    def own(self) -> str:
        return _("this relay") if self.kind == "relay" else _("this session")

    @property
    def base(self) -> str:
        """What the verdict compares with, as a noun."""
        return _("compaction") if self.kind == "relay" else _("one relay")


def topic_of(of: Relay | Session) -> str:
    """What the page listens to: it changes when a comparison is stored, not with every call."""
    return f"cost:{of.pk}" if isinstance(of, Relay) else f"cost:session:{of.pk}"


def subject_of(of: Relay | Session, models: Sequence[str] = ()) -> Subject:
    if isinstance(of, Relay):
        name = PurePath(of.repo).name or of.repo
        return Subject("relay", of.pk, of.pk, of.objective, of.agent, name, tuple(models))
    told = tuple(map(str, of.model_names)) if isinstance(of.model_names, list) else ()
    name = PurePath(of.cwd.replace("\\", "/")).name or of.cwd
    return Subject("session", str(of.pk), of.sid[:13], name or of.sid, f"{of.agent} {of.version}".strip(), name, told)


def finding(subject: Subject, data: Compared) -> str:
    """The result in one sentence: cheaper, dearer or not yet, and what would turn it."""
    if not data.known or data.saving is None:
        return _("Cost against %(base)s: not yet, %(why_not)s") % {
            "base": subject.base,
            "why_not": told(data.why_not or data.verdict_why) or _("nothing is compared"),
        }
    if data.verdict == CHEAPER:
        won = money(data.saving)
        start = (
            _("Cheaper than %(base)s by %(won)s") % {"base": subject.base, "won": won}
            if subject.kind == "relay"
            else _("A relay would have saved %(won)s") % {"won": won}
        )
        return start + _turns(data, _("unless a fresh leg re-reads more than %(tokens)s tokens"))
    if data.verdict == DEARER:
        lost = money(data.saving)
        start = (
            _("Dearer than %(base)s by %(lost)s") % {"base": subject.base, "lost": lost}
            if subject.kind == "relay"
            else _("A relay would have cost %(lost)s more") % {"lost": lost}
        )
        if not data.break_even or data.break_even < 0:
            return _("%(start)s, however little a fresh leg re-reads") % {"start": start}
        return start + _turns(data, _("and cheaper only if a fresh leg re-reads less than %(tokens)s tokens"))
    band = data.saving_band
    if band is not None and band[0] < 0 < band[1]:
        ends = _("between %(band)s cheaper and %(band2)s dearer") % {"band": money(band[1]), "band2": money(band[0])}
        return (
            _("Not yet decided: %(ends)s than compaction") % {"ends": ends}
            if subject.kind == "relay"
            else _("Not yet decided: as a relay %(ends)s") % {"ends": ends}
        )
    return _("Cost against %(base)s: not yet, %(verdict_why)s") % {
        "base": subject.base,
        "verdict_why": told(data.verdict_why) or _("the records do not decide it"),
    }


def _turns(data: Compared, words: str) -> str:
    """The clause with the break-even, "" where there is none within what can be."""
    if data.break_even is None or data.break_even < 0:
        return ""
    return f", {words % {'tokens': thousands(data.break_even)}}"


# ---- the page -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A parameter as the page shows it. `shown`: the value as text; `range`: its low and high end, "" without one."""

    name: str
    words: str
    shown: str
    unit: str
    range: str
    provenance: str
    source: str


@dataclass(frozen=True, slots=True)
class WayRow:
    """One way to carry this work. `against`: its money over that of the observed way, as a part (0.27 = 27 % more)."""

    name: str
    own: bool
    cost: Decimal | None
    per_unit: Decimal | None
    against: Decimal | None
    band: tuple[Decimal, Decimal] | None
    peak: int | None
    events: int | None
    event: str
    exceeded_at: int | None
    bust: int | None
    hit_rate: float | None
    provenance: str


@dataclass(frozen=True, slots=True)
class SensitiveRow:
    words: str
    range: str
    saving_low: Decimal
    saving_high: Decimal
    turns: bool
    turns_at: str


@dataclass(frozen=True, slots=True)
class CumulativeRow:
    call: int
    own: float
    base: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class BackTested:
    """How far the simulation may be believed. None = not yet; `median` and `error` are parts (0.038 = 3.8 %)."""

    sessions: int
    median: float | None
    right: int | None
    left_out: int
    at: datetime | None
    this: BackTest | None

    @property
    def error(self) -> float | None:
        """How far off this session's prediction is, without its sign."""
        return abs(self.this.error) if self.this is not None and self.this.error is not None else None

    @property
    def share_right(self) -> float | None:
        return self.right / self.sessions if self.right is not None and self.sessions else None


@dataclass(frozen=True, slots=True)
class CostPage:
    """Everything that the page of one relay or session shows. Two queries, three for a session."""

    subject: Subject
    data: Compared
    finding: str
    parameters: tuple[ParameterRow, ...]
    ways: tuple[WayRow, ...]
    sensitivity: tuple[SensitiveRow, ...]
    backtest: BackTested
    prices: tuple[tuple[str, str], ...]  # (words, dollars per million tokens)
    prices_source: str

    @property
    def rows(self) -> tuple[CumulativeRow, ...]:
        return cumulative_rows(self.data.series)

    @property
    def legs(self) -> tuple[LegMoney, ...]:
        return self.data.legs[-LEG_ROWS:]


def cost_page(of: Relay | Session) -> CostPage:
    """The stored comparison of a relay or a session as a page; nothing is computed that needs its calls."""
    key = {"relay": of} if isinstance(of, Relay) else {"session": of}
    row = Comparison.objects.filter(**key).first()
    return page_of(of, row, backtested(of if isinstance(of, Session) else None))


def page_of(of: Relay | Session, row: Comparison | None, tested: BackTested) -> CostPage:
    """No query: what `cost_page` shows of this row."""
    data = stored.compared(row)
    subject = subject_of(of)
    prices = stored_json.mapping(row.prices) if row is not None else {}
    return CostPage(
        subject=subject,
        data=data,
        finding=finding(subject, data),
        parameters=parameter_rows(data),
        ways=way_rows(subject, data),
        sensitivity=sensitive_rows(data),
        backtest=tested,
        prices=tuple(
            (words, str(prices[name]))
            for name, words in (
                ("read", _("cache read")),
                ("write", _(_WRITES.get(str(prices.get("rest")), gettext_noop("cache write")))),
                ("output", _("output")),
            )
            if prices.get(name) not in (None, "")
        ),
        prices_source=_price_source(prices),
    )


_WRITES = {
    "input": gettext_noop("input"),
    "cache_write_1h": gettext_noop("cache write, 1 h"),
    "cache_write_5m": gettext_noop("cache write, 5 min"),
}


def _price_source(prices: Mapping[str, object]) -> str:
    """Where the prices are from; of several models the first one's are shown."""
    source, models = str(prices.get("source") or ""), stored_json.count(prices.get("models")) or 1
    return (
        _("%(source)s; the first of %(models)s prices of this work") % {"source": source, "models": models}
        if models > 1
        else source
    )


def backtested(session: Session | None = None) -> BackTested:
    """One query, two where a session is named."""
    state = CostState.objects.filter(name="backtest").first()
    told: Mapping[str, object] = stored_json.mapping(state.value) if state else {}
    return BackTested(
        sessions=stored_json.count(told.get("sessions")) or 0,
        median=stored_json.share(told.get("median_abs_error")),
        right=_right(told),
        left_out=stored_json.count(told.get("left_out_calls")) or 0,
        at=state.at if state else None,
        this=BackTest.objects.filter(session=session).first() if session is not None else None,
    )


def _right(told: Mapping[str, object]) -> int | None:
    """`count_right` is stored as a part of the sessions."""
    part, sessions = stored_json.share(told.get("count_right")), stored_json.count(told.get("sessions")) or 0
    return round(part * sessions) if part is not None else None


# ---- rows -----------------------------------------------------------------------------------------------------------


def shown(value: object, unit: str) -> str:
    """A value of a parameter as text: tokens grouped, parts and prices as they are."""
    found = stored_json.amount(value)
    if found is None:
        return str(value) if value not in (None, "") else "—"
    if "token" in unit or abs(found) >= 1000:
        return places(found, 0)
    return f"{found.quantize(Decimal('0.0001')).normalize():f}"


def parameter_words(name: str, unit: str = "") -> tuple[str, str]:
    """Words and unit; a level is a part or tokens, as it is stored."""
    words, own = PARAMETERS.get(name, (name.replace("_", " "), ""))
    if name == "residue" and unit == "part":
        return words, _("of the rest")
    given = own or ("" if name == "keep" else _UNITS.get(unit, unit))
    return _(words), _(given) if given else ""


def parameter_rows(data: Compared) -> tuple[ParameterRow, ...]:
    """The parameters of both sides, each once: those of the first baseline, then what other ones add."""
    seen: dict[str, Parameter] = {}
    for one in (one for way in data.baselines[:1] for one in way.parameters):
        seen.setdefault(one.name, one)
    order = {name: nth for nth, name in enumerate(PARAMETERS)}
    return tuple(
        _parameter(one) for one in sorted(seen.values(), key=lambda one: (order.get(one.name, len(order)), one.name))
    )


def _parameter(one: Parameter) -> ParameterRow:
    words, unit = parameter_words(one.name, one.unit)
    ends = one.low is not None and one.high is not None and one.low != one.high
    return ParameterRow(
        name=one.name, words=words, shown=shown(one.value, unit), unit=unit,
        range=f"{shown(one.low, unit)} … {shown(one.high, unit)}" if ends else "", provenance=one.provenance,
        source=one.source,
    )  # fmt: skip


def way_rows(subject: Subject, data: Compared) -> tuple[WayRow, ...]:
    """The observed way first, then each baseline; per verified unit only where units were counted."""
    seen, units = data.observed, data.progress["units"]
    event = "rotation" if subject.kind == "relay" else "compaction"
    own = WayRow(
        name=subject.own, own=True, cost=seen.cost, per_unit=_each(seen.cost, units), against=None, band=None,
        peak=seen.peak, events=seen.events, event=_events(event, seen.events), exceeded_at=None, bust=seen.bust,
        hit_rate=seen.hit_rate,
        provenance="OBSERVED",
    )  # fmt: skip
    return (own, *(_way(one, seen.cost, units) for one in data.baselines))


def policy_name(policy: str) -> str:
    """How people call a policy of the engine."""
    return _(POLICIES[policy][0]) if policy in POLICIES else policy.replace("_", " ")


def _way(one: Baseline, cost: Decimal | None, units: int) -> WayRow:
    event = POLICIES[one.policy][1] if one.policy in POLICIES else "event"
    done = one.cost if one.finishes else None
    return WayRow(
        name=policy_name(one.policy), own=False, cost=done, per_unit=_each(done, units),
        against=(done - cost) / cost if done is not None and cost else None, band=one.band if one.finishes else None,
        peak=one.peak, events=one.events, event=_events(event, one.events), exceeded_at=one.exceeded_at, bust=one.bust,
        hit_rate=one.hit_rate, provenance=one.provenance,
    )  # fmt: skip


def _events(event: str, count: int | None) -> str:
    """`4 rotations`; "" where they are not counted."""
    n = count or 0
    told = {
        "rotation": ngettext("%(n)s rotation", "%(n)s rotations", n),
        "compaction": ngettext("%(n)s compaction", "%(n)s compactions", n),
        "clearing": ngettext("%(n)s clearing", "%(n)s clearings", n),
        "cut": ngettext("%(n)s cut", "%(n)s cuts", n),
        "event": ngettext("%(n)s event", "%(n)s events", n),
    }
    return told.get(event, told["event"]) % {"n": whole(n)} if count is not None else ""


def _each(cost: Decimal | None, units: int) -> Decimal | None:
    return cost / units if cost is not None and units else None


def sensitive_rows(data: Compared) -> tuple[SensitiveRow, ...]:
    """The widest first."""
    found = []
    for one in sorted(data.sensitivity, key=lambda one: one.least - one.most):
        words, unit = parameter_words(one.name, one.unit)
        turns_at = f"{shown(one.turns_at, unit)}" if one.turns_at is not None else ""
        ends = f"{shown(one.low, unit)} … {shown(one.high, unit)}"
        found.append(SensitiveRow(words, ends, one.saving_low, one.saving_high, one.turns, turns_at))
    return tuple(found)


def sensitive_labels(data: Compared) -> dict[str, str]:
    """Name of a parameter -> its words and range, for the chart."""
    labels = {}
    for one in data.sensitivity:
        words, unit = parameter_words(one.name, one.unit)
        labels[one.name] = f"{words}  {_short(one.low, unit)} … {_short(one.high, unit)}"
    return labels


def _short(value: object, unit: str) -> str:
    number = stored_json.amount(value)
    return thousands(int(number)).replace(".0k", "k") if number is not None and number >= 1000 else shown(value, unit)


def cumulative_rows(data: Series) -> tuple[CumulativeRow, ...]:
    """Points of the lines as a table, the dearest point of each stretch among them."""
    if not data.observed:
        return ()
    at = reduced(range(len(data.x)), [round(value * 10**6) for value in data.observed], ROWS)
    return tuple(
        CumulativeRow(
            data.x[n], data.observed[n], *(line[n] if line else None for line in (data.base, data.low, data.high))
        )
        for n in at
    )


def orientation_now(data: Compared) -> int | None:
    """What a fresh leg re-reads in this comparison: the parameter, else what was measured."""
    told = next((one.value for way in data.baselines[:1] for one in way.parameters if one.name == "orientation"), None)
    found = stored_json.count(told)
    return found if found is not None else data.orientation.median
