"""A sentence of the rules in the reader's language, its numbers as the reader writes them.

Interface: "number formats by locale; all texts translatable (English first)". Pages only: programs read `str()`.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from weakref import WeakKeyDictionary

from django.utils.translation import gettext as _
from django.utils.translation import pgettext
from django.utils.translation.trans_real import DjangoTranslation, catalog

from relays.core.lines import as_text, pattern
from relays.core.sentences import Places, RuleError, Sentence
from relays.reports.figures import MINUS, places, whole

#: under which `make messages` collects the lines of records, so that they are told from all other texts
CONTEXT = "line of a record"
#: signs of its own that a line needs to be known by them alone
LEAST = 7
#: how many joints of a text are looked at
DEEP = 4
#: a figure that a line was filled with as English writes it; one without a sign of grouping may be a name
_NUMBER = re.compile(r"(?P<before>[-−]?\$?)(?P<figure>\d{1,3}(,\d{3})+(\.\d+)?|\d+\.\d+)(?P<behind>( %)?)")


def told(said: str, *, typed: bool = False) -> str:
    """Text of a record is told as it was recorded, unless the whole of it is a text or a line of the product.

    `typed`: whole numbers stand as one would type them, such as a limit that may be written into the field again.
    """
    if not isinstance(said, Sentence) or not said.values:
        return _recorded(str(said)) if said else ""
    return _(said.text) % {name: _value(value, typed) for name, value in said.values.items()}


def _value(value: str | int | Places, typed: bool) -> str:
    if isinstance(value, Sentence):
        return told(value, typed=typed)
    if isinstance(value, str) or (typed and isinstance(value, int)):
        return str(value)
    return whole(value) if isinstance(value, int) else places(value.value, value.digits)


def _recorded(text: str) -> str:
    known = _(text)
    return _line(text) if known == text else known


def _line(text: str, deep: int = 0) -> str:
    """The line in the reader's language; of several that were joined, each; what is none is data, and stays so."""
    known = pgettext(CONTEXT, text)
    if known != text:
        return known
    lines = _lines()
    found = lines.find(text)
    if found is not None:
        said, values = found
        return as_text(pgettext(CONTEXT, said)) % {name: _filled(name, value) for name, value in values.items()}
    for sign in ("; ", ": ") if lines.patterns and deep < DEEP else ():
        head, between, rest = text.partition(sign)
        parts = (_line(head, deep + 1), _line(rest, deep + 1)) if between else (head, rest)
        if parts != (head, rest):
            return sign.join(parts)
    return text


def _filled(name: str, value: str | int) -> str:
    if isinstance(value, int):
        return whole(value)
    if name.endswith("_word"):
        known = _(value.replace("_", " "))
        return known if known != value else _line(value)
    number = _NUMBER.fullmatch(value)
    if number is not None:
        figure = Decimal(number["figure"].replace(",", ""))
        digits = -int(figure.as_tuple().exponent)
        return f"{number['before'].replace('-', MINUS)}{places(figure, digits)}{number['behind']}"
    return _line(value)


class _Lines:
    """The lines that a language has: the one with most signs of its own is the one that a text is.

    One that says hardly anything by itself is only taken where its words are words of the product.
    """

    def __init__(self, texts: list[str]) -> None:
        self.patterns = sorted((one for one in map(pattern, texts) if one.names), key=lambda one: -one.own)
        self.find = lru_cache(4096)(self._find)

    def _find(self, text: str) -> tuple[str, Mapping[str, str | int]] | None:
        for one in self.patterns:
            values = one.read(text)
            if values is not None and (one.own >= LEAST or self._known(values)):
                return one.text, values
        return None

    @staticmethod
    def _known(values: Mapping[str, str | int]) -> bool:
        words = [str(value).replace("_", " ") for name, value in values.items() if name.endswith("_word")]
        return bool(words) and all(_(word) != word for word in words)


_known: "WeakKeyDictionary[DjangoTranslation, _Lines]" = WeakKeyDictionary()


def _lines() -> _Lines:
    active = catalog()
    if active not in _known:
        head = f"{CONTEXT}\x04"
        _known[active] = _Lines(
            [
                key.removeprefix(head)
                for key in active._catalog.keys()  # type: ignore[attr-defined]
                if isinstance(key, str) and key.startswith(head)
            ]
        )
    return _known[active]


def refused(error: RuleError) -> str:
    """What an error of the rules says; the values in it, and what comes from elsewhere, as they are."""
    return told(error.said, typed=True)
