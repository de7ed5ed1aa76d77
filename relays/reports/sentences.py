"""A sentence of the rules in the reader's language, its numbers as the reader writes them.

Interface: "number formats by locale; all texts translatable (English first)". Pages only: programs read `str()`.
"""

from django.utils.translation import gettext as _

from relays.core.sentences import Places, RuleError, Sentence
from relays.reports.figures import places, whole


def told(said: str, *, typed: bool = False) -> str:
    """Text of a record is told as it was recorded, unless the whole of it is a text of the product.

    `typed`: whole numbers stand as one would type them, such as a limit that may be written into the field again.
    """
    if not isinstance(said, Sentence) or not said.values:
        return _(str(said)) if said else ""
    return _(said.text) % {name: _value(value, typed) for name, value in said.values.items()}


def _value(value: str | int | Places, typed: bool) -> str:
    if isinstance(value, Sentence):
        return told(value, typed=typed)
    if isinstance(value, str) or (typed and isinstance(value, int)):
        return str(value)
    return whole(value) if isinstance(value, int) else places(value.value, value.digits)


def refused(error: RuleError) -> str:
    """What an error of the rules says; the values in it, and what comes from elsewhere, as they are."""
    return told(error.said, typed=True)
