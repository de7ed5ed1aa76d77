"""What the page Vocabulary reads: every closed word with its meaning and fix, and the search in them. No query.

Mission: "Closed vocabulary. Rotation and tombstone reasons are a fixed set; a relay never refuses with prose."
"""

from dataclasses import dataclass, replace
from itertools import groupby

from django.utils.functional import Promise
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from relays.core import words
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


@dataclass(frozen=True, slots=True)
class Found:
    """What a search leaves: whole groups without what does not match; `shown` words of `total`."""

    groups: tuple[Group, ...]
    words: tuple[words.Group, ...]
    shown: int
    total: int
    query: str


def search(query: str) -> Found:
    """Words whose name, meaning or fix (also as the reader reads them) hold every word of the query."""
    wanted = query.strip()[:100].casefold().split()

    def fits(*texts: str) -> bool:
        text = " ".join([*texts, *(str(_now(one)) for one in texts if one)]).casefold()
        return all(one in text for one in wanted)

    groups = []
    for group in vocabulary():
        left = tuple(one for one in group.tokens if fits(one.value, one.label, one.meaning, one.fix, group.category))
        if left:
            groups.append(replace(group, tokens=left))
    others = []
    for other in words.GROUPS:
        kept = tuple(one for one in other.words if fits(one.value, one.meaning, one.fix, other.title))
        if kept:
            others.append(replace(other, words=kept))
    shown = sum(len(group.tokens) for group in groups) + sum(len(other.words) for other in others)
    return Found(tuple(groups), tuple(others), shown, len(TOKENS) + len(words.WORDS), query.strip()[:100])
