"""A sentence of the rules in the reader's language, its numbers as the reader writes them.

Interface: "number formats by locale; all texts translatable (English first)". Pages only: programs read `str()`.
"""

from django.utils.translation import gettext as _

from relays.core.policy import PolicyError
from relays.core.region import RegionError
from relays.core.sentences import Places, Sentence
from relays.reports.figures import places, whole


def told(said: Sentence | str) -> str:
    """Text of a record is told as it was recorded, unless the whole of it is a text of the product."""
    if isinstance(said, str):
        return _(said) if said else ""
    text = _(said.text)
    return text % {name: _value(value) for name, value in said.values.items()} if said.values else text


def _value(value: str | int | Places | Sentence) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return whole(value)
    return told(value) if isinstance(value, Sentence) else places(value.value, value.digits)


def prose(why: str) -> str:
    """Why `done_when` is prose: the clause as it was written, and what is wrong with it in the reader's language."""
    clause, between, wrong = why.rpartition(": ")
    return clause + between + told(wrong)


def refused(error: Exception) -> str:
    """What an error of the rules says; the values in it, and what comes from elsewhere, as they are."""
    if isinstance(error, PolicyError):
        return _("policy key %(key)s: %(why)s") % {"key": error.key, "why": told(error.why)}
    if isinstance(error, RegionError):
        return f"{error.glob!r}: {told(error.why)}"
    return told(str(error))
