"""What the page Vocabulary reads: the closed set of tokens, by category, with meaning and fix. No query.

Mission: "Closed vocabulary. Rotation and tombstone reasons are a fixed set; a relay never refuses with prose."
"""

from dataclasses import dataclass
from itertools import groupby

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from relays.core.vocabulary import TOKENS, TONES, Category, Token


@dataclass(frozen=True, slots=True)
class Group:
    """The tokens of one category with the one shape and colour that they share."""

    category: str
    about: str
    tone: str
    shape: str
    tokens: tuple[Token, ...]


_ABOUT: dict[Category, "str | Promise"] = {
    Category.ADVISORY: _("said while a leg works; nothing stops"),
    Category.TRUE_DRAIN: _("a clean end; nobody is needed"),
    Category.STALE_CLAIM: _("a claim that the stores do not bear out"),
    Category.OPERATOR_GATE: _("the relay is parked until a person decides"),
    Category.ASK: _("a person is asked instead of guessing"),
    Category.HOLD: _("why a boundary did not rotate, strongest first"),
    Category.BUDGET: _("which limit stopped a relay, and the states of a stop"),
    Category.UNKNOWN: _("a word from elsewhere: kept as text, drives nothing"),
}


def vocabulary() -> tuple[Group, ...]:
    """Every token of the product in the order of its table."""
    return tuple(
        Group(str(category), str(_ABOUT[category]), *TONES[category], tuple(tokens))
        for category, tokens in groupby(TOKENS.values(), key=lambda row: row.category)
    )
