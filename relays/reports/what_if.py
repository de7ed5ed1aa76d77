"""The same comparison with parameters that the viewer changed: in the address, so that a link shares them.

cost.md: "every parameter is shown and can be changed on the page". What is stored is never changed by it. Only a work
stream that is kept is played, and the longest kept one is short enough to be played while the page is asked for.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final
from urllib.parse import urlencode

from django.utils.translation import gettext as _

from relays.core.baselines import Value
from relays.core.sentences import RuleError
from relays.costs import against
from relays.models import Comparison, Relay, Session, StoredWork
from relays.reports import cost
from relays.reports.compared import Compared
from relays.reports.figures import whole
from relays.reports.sentences import refused

MOST_TOKENS: Final = 1_000_000_000
_NUMBER: Final = re.compile(r"[0-9]{1,10}(\.[0-9]{1,9})?|\.[0-9]{1,9}", re.ASCII)
#: levels at which something happens: at 0 it would happen at each call before anything was done
_NOT_ZERO: Final = frozenset({"mark", "trigger", "clear_at", "slide"})


@dataclass(frozen=True, slots=True)
class Asked:
    """What the address says: name -> text as written, the values that could be read, and what is wrong with others."""

    texts: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Value] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

    @property
    def query(self) -> str:
        return urlencode(sorted(self.texts.items()))


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter of the form. `stands`: its stored value as text, `text`: what the viewer wrote, `error`: about it."""

    name: str
    words: str
    unit: str
    stands: str
    text: str
    error: str


@dataclass(frozen=True, slots=True)
class Page:
    """`shown`: with the viewer's parameters where they could be played, else as stored. `query`: of a link to it.

    `changed`: (words, new value, stored value) of what was played; `stored`: the finding without it; `problem`: why
    nothing was played; `fields` is empty where nothing can be.
    """

    shown: cost.CostPage
    query: str = ""
    fields: tuple[Field, ...] = ()
    changed: tuple[tuple[str, str, str], ...] = ()
    stored: str = ""
    problem: str = ""

    @property
    def asked(self) -> bool:
        return bool(self.query)


def asked(values: Mapping[str, str]) -> Asked:
    """Parameters out of an address: unknown names are not parameters, empty ones stand as they are."""
    texts: dict[str, str] = {}
    read: dict[str, Value] = {}
    errors: dict[str, str] = {}
    for name in against.CHOICES:
        text = values.get(name, "").replace(",", "").replace("_", "").strip()[:40].strip()
        if not text:
            continue
        texts[name] = text
        try:
            read[name] = _read(name, text)
        except ValueError as wrong:
            errors[name] = str(wrong)
    return Asked(texts, read, errors)


def _read(name: str, text: str) -> Value:
    """A share (with a point) or whole tokens. Raises ValueError with what is to be written instead."""
    level = name in against.SHARES
    wanted = _("a share up to 1, such as 0.6, or a number of tokens") if level else _("a whole number of tokens")
    if not _NUMBER.fullmatch(text):
        raise ValueError(_("%(text)s is no number: write %(wanted)s") % {"text": repr(text), "wanted": wanted})
    if "." in text:
        if not level:
            raise ValueError(_("%(text)s is no whole number: write %(wanted)s") % {"text": text, "wanted": wanted})
        part = Decimal(text)
        if part > 1:
            raise ValueError(_("%(text)s is more than all of it: write %(wanted)s") % {"text": text, "wanted": wanted})
        if not part and name in _NOT_ZERO:
            raise ValueError(_("at 0 nothing could be done before it: write %(wanted)s") % {"wanted": wanted})
        return part
    tokens = int(text)
    if tokens > MOST_TOKENS:
        raise ValueError(
            _("%(text)s is too many: at most %(MOST_TOKENS)s tokens")
            % {"text": text, "MOST_TOKENS": whole(MOST_TOKENS)}
        )
    if not tokens and name in _NOT_ZERO:
        raise ValueError(_("at 0 nothing could be done before it: write %(wanted)s") % {"wanted": wanted})
    return tokens


def page(of: Relay | Session, told: Asked) -> Page:
    """The page of a relay or session, with the viewer's parameters. Three queries, four for a session."""
    key = {"relay": of} if isinstance(of, Relay) else {"session": of}
    row = Comparison.objects.filter(**key).first()
    tested = cost.backtested(of if isinstance(of, Session) else None)
    shown = cost.page_of(of, row, tested)
    work = StoredWork.objects.filter(comparison=row).first() if row is not None and told.texts else None
    if row is None or not shown.data.known or shown.data.saving is None:
        problem = _("nothing is compared yet that could be played with other parameters") if told.texts else ""
        return Page(shown, told.query, problem=problem)
    fields = _fields(shown.data, told)
    if not told.texts:
        return Page(shown, "", fields)
    if told.errors:
        problem = _("nothing was played: a parameter cannot be read")
        return Page(shown, told.query, fields, problem=problem)
    if work is None:
        problem = _("this work is too long to be played while you wait: what is stored stands")
        return Page(shown, told.query, fields, problem=problem)
    try:
        ground = against.changed(against.read(work.base, work.window, work.steps, work.more), told.values)
        figures = against.figures_of(ground)
    except (ValueError, KeyError, TypeError) as wrong:
        why = refused(wrong) if isinstance(wrong, RuleError) else _("what is stored of it does not read")
        return Page(shown, told.query, fields, problem=_("nothing was played: %(wrong)s") % {"wrong": why})
    for name, value in figures.items():
        setattr(row, name, value)
    return Page(cost.page_of(of, row, tested), told.query, fields, _changed(shown.data, told), stored=shown.finding)


def _parameters(data: Compared) -> dict[str, tuple[str, str, str]]:
    """Name -> (words, unit, stored value) over all ways, each once."""
    found: dict[str, tuple[str, str, str]] = {}
    for one in (one for way in data.baselines for one in way.parameters):
        words, unit = cost.parameter_words(one.name, one.unit)
        found.setdefault(one.name, (words, unit, cost.shown(one.value, unit)))
    return found


def _fields(data: Compared, told: Asked) -> tuple[Field, ...]:
    known = _parameters(data)
    return tuple(
        Field(name, *known[name], text=told.texts.get(name, ""), error=told.errors.get(name, ""))
        for name in cost.PARAMETERS
        if name in known and name in against.CHOICES
    )


def _changed(data: Compared, told: Asked) -> tuple[tuple[str, str, str], ...]:
    known = _parameters(data)
    return tuple(
        (words, cost.shown(value, "tokens" if isinstance(value, int) else ""), stands)
        for name, value in told.values.items()
        for words, _, stands in (known.get(name, (name.replace("_", " "), "", "—")),)
    )
