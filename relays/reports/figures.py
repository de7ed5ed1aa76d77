"""Numbers as the reader writes them: decimal sign and grouping. The one place where a number becomes text.

Interface: "money, tokens and durations are formatted in one place". Pages and the sentences of reports use it; command
line, API and CSV have their own fixed forms and do not.
"""

from decimal import ROUND_HALF_UP, Decimal

from asgiref.local import Local
from django.utils.formats import get_format
from django.utils.numberformat import format as written
from django.utils.translation import get_language

MINUS = "\N{MINUS SIGN}"
#: what a person may choose, whatever the language of the texts -> an example; "" = as the language writes them
STYLES = {"": "", "en": "1,234.5", "de": "1.234,5", "fr": "1 234,5", "de-ch": "1’234.5"}
#: the two separators, where Django's own table of a locale would differ from the example
_SIGNS = {"fr": (",", "\N{NARROW NO-BREAK SPACE}"), "de-ch": (".", "\N{RIGHT SINGLE QUOTATION MARK}")}

_local = Local()


def use(style: str) -> None:
    """Write numbers in this style until the next call in this request; a word that is no style counts as ""."""
    _local.style = style if style in STYLES else ""


def style() -> str:
    """The style that stands; "" = the language's."""
    return getattr(_local, "style", "")


def signs() -> tuple[str, str]:
    """The decimal sign and the sign between groups, as they stand for the reader: `(",", ".")` in German."""
    chosen = style()
    tongue = chosen or get_language() or "en"
    return _SIGNS.get(chosen) or (
        get_format("DECIMAL_SEPARATOR", tongue, use_l10n=True),
        get_format("THOUSAND_SEPARATOR", tongue, use_l10n=True),
    )


def _written(value: int | float | Decimal, digits: int | None) -> str:
    chosen = signs()
    text = written(value, chosen[0], digits, 3, chosen[1], force_grouping=True, use_l10n=True)
    return str(text).replace("-", MINUS)


def whole(value: int | float | Decimal) -> str:
    """`178612` -> `178,612`, in German `178.612`; a negative number gets a true minus sign."""
    return _written(value, None)


def places(value: int | float | Decimal, digits: int) -> str:
    """With so many decimals, rounded half up: `81.44, 1` -> `81.4`."""
    return _written(Decimal(str(value)).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP), digits)


def dollars(value: Decimal, digits: int = 2) -> str:
    """An amount in the site's currency; the sign stands before the currency: `−$1.52`."""
    return f"{MINUS if value < 0 else ''}${places(abs(value), digits)}"
