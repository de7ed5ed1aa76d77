"""One line that goes into a record: English there, and told again in the reader's language where a page shows it.

Interface: "all texts translatable (English first)". A record keeps one text, for programs and for the digests that are
made of it; pages find the sentence again in the text and fill it in another language. So rows of before are told too.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

#: `%(n)d` is a count, which is told as the reader writes numbers; `%(name)s` is told as it stands, or is a line itself;
#: a name that ends in `_word` stands for a word of a closed set
_PLACE = re.compile(r"%\((\w+)\)([ds])")
_COUNT = re.compile(r"-?(0|[1-9][0-9]*)")


def recorded(text: str, /, **values: object) -> str:
    """The English line. `text` is written out where it is said: `make messages` finds each by this name."""
    return text % values if values else text


@dataclass(frozen=True, slots=True)
class Pattern:
    """A line with places: `literals` stand before, between and behind the `names`; `counts` are those that are `d`."""

    text: str
    literals: tuple[str, ...]
    names: tuple[str, ...]
    counts: frozenset[str]

    @property
    def own(self) -> int:
        """How many signs of it are its own."""
        return sum(map(len, self.literals))

    def read(self, line: str) -> Mapping[str, str | int] | None:
        """The values of which `line` was made, or None where it is none of these. Linear in the length of the line.

        Each value ends where the text behind it first comes; where that is ambiguous the line is still said whole.
        """
        first, last = self.literals[0], self.literals[-1]
        if not line.startswith(first) or not line.endswith(last) or len(line) < self.own:
            return None
        at, end = len(first), len(line) - len(last)
        values: dict[str, str | int] = {}
        for n, (name, behind) in enumerate(zip(self.names, self.literals[1:], strict=True), start=1):
            stop = end if n == len(self.names) else line.find(behind, at, end)
            if stop < at:
                return None
            value = line[at:stop]
            if name in values and values[name] != value:
                return None
            if name in self.counts and not _COUNT.fullmatch(value):
                return None
            values[name] = int(value) if name in self.counts else value
            at = stop + len(behind)
        return values


def pattern(text: str) -> Pattern:
    """The line's pattern; one without places has no names."""
    pieces = _PLACE.split(text)
    names = tuple(pieces[1::3])
    counts = frozenset(name for name, kind in zip(names, pieces[2::3], strict=True) if kind == "d")
    return Pattern(text, tuple(piece.replace("%%", "%") for piece in pieces[::3]), names, counts)


def as_text(text: str) -> str:
    """A translation whose counts are filled in as text, grouped as the reader writes them."""
    return _PLACE.sub(r"%(\1)s", text)
