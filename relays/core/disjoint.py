"""When two regions are proven to share no path, on any file system that a clone may lie on.

Mission: "Disjointness before fan-out." A glob is turned into what its paths look like once letter case, composition
and invisible characters are folded away, because two spellings may be one file; two globs are apart when no folded
path fits both. Where the proof would cost too much, nothing is proven, and the second relay waits.
"""

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from relays.core.globs import DEEP, WILD, Segment, Token, compile_glob, compile_literal, glob_problem

#: pairs of places in two globs that one proof may look at: a tenth of a second, and far more than honest globs need
EFFORT = 100_000
#: a set of more characters than this (or a negated one) is taken for any run of characters
SET_SIZE = 64

_INVISIBLE = frozenset(
    [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0]
    + [*range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xFFF0, 0xFFF9), *range(0xE0000, 0xE1000)]
)


@lru_cache(maxsize=4096)
def fold(text: str) -> str:
    """The text without what a file system may ignore: case, composition, compatibility forms, marks, invisible signs.

    Character by character, so that the fold of a whole is the folds of its parts, one after the other. It makes more
    names equal than any one file system does; two names that stay apart are two files everywhere.
    """
    return "".join(map(_fold_sign, text))


@lru_cache(maxsize=4096)
def _fold_sign(sign: str) -> str:
    kept: list[str] = []
    for part in unicodedata.normalize("NFKD", sign):
        # up and down: the dotless i and the long s meet their plain letters on the one way or on the other
        cased = part.casefold().upper().casefold()
        kept += [one for one in unicodedata.normalize("NFKD", cased) if not _ignored(one)]
    return "".join(kept)


def _ignored(sign: str) -> bool:
    return unicodedata.combining(sign) > 0 or unicodedata.category(sign) == "Cf" or ord(sign) in _INVISIBLE


#: one element of a folded segment: any run of characters (None), or one of these texts
_Element = frozenset[str] | None


@lru_cache(maxsize=4096)
def _folded(segment: Segment) -> tuple[_Element, ...]:
    """The segment's elements, neighbours that are one fixed text each joined."""
    found: list[_Element] = []
    for token in segment:
        element = _element(token)
        last = found[-1] if found else frozenset()
        if element is None and found and last is None:
            continue
        if element is not None and last is not None and len(element) == len(last) == 1:
            found[-1] = frozenset(["".join((*last, *element))])
        else:
            found.append(element)
    return tuple(found)


def _element(token: Token) -> _Element:
    if token.kind == "c":
        return frozenset([fold(token.sign)])
    if token.chars is None or token.chars.negated:
        return None  # one character can fold to none or to several: any run
    size = sum(max(ord(high) - ord(low) + 1, 0) for low, high in token.chars.ranges)
    if size > SET_SIZE:
        return None
    return frozenset(fold(chr(code)) for low, high in token.chars.ranges for code in range(ord(low), ord(high) + 1))


def _apart_at_an_end(one: tuple[_Element, ...], other: tuple[_Element, ...]) -> bool:
    """True when the fixed texts at the beginnings, or those at the ends, cannot stand in one name."""
    first, second = _fixed(one[0]), _fixed(other[0])
    if first is not None and second is not None:
        if len(one) == len(other) == 1:
            return first != second
        if not (first.startswith(second) or second.startswith(first)):
            return True
    first, second = _fixed(one[-1]), _fixed(other[-1])
    return first is not None and second is not None and not (first.endswith(second) or second.endswith(first))


def _fixed(element: _Element) -> str | None:
    return next(iter(element)) if element is not None and len(element) == 1 else None


#: a place in a folded segment: its element, and what is left of the text that was chosen there
_Place = tuple[int, str]


def _steps(elements: tuple[_Element, ...], place: _Place) -> Iterator[tuple[str, _Place]]:
    """Where one may go from a place: by a character, by any character ("*"), or by none ("")."""
    at, rest = place
    if rest:
        yield rest[0], (at, rest[1:]) if len(rest) > 1 else (at + 1, "")
    elif at < len(elements):
        element = elements[at]
        if element is None:
            yield "*", place
            yield "", (at + 1, "")
        else:
            for text in element:
                yield "", (at, text) if text else (at + 1, "")


class _TooMuch(Exception):
    """The proof would cost more than it may."""


@dataclass(slots=True)
class _Proof:
    """One question about two regions, with what it may still cost and what it has found."""

    left: int = EFFORT
    known: dict[tuple[int, int], bool] = field(default_factory=dict)

    def pay(self, units: int = 1) -> None:
        self.left -= units
        if self.left < 0:
            raise _TooMuch

    def share_a_path(self, one: Sequence[Segment], other: Sequence[Segment]) -> bool:
        """True when a path may fit both programs."""
        seen: set[tuple[int, int]] = set()
        waiting = [(0, 0)]
        while waiting:
            i, j = place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            self.pay()
            if i == len(one) and j == len(other):
                return True
            deep_one, deep_other = i < len(one) and one[i] is DEEP, j < len(other) and other[j] is DEEP
            if deep_one:
                waiting += [(i + 1, j), *([(i, j + 1)] if j < len(other) else [])]
            if deep_other:
                waiting += [(i, j + 1), *([(i + 1, j)] if i < len(one) else [])]
            if (
                i < len(one)
                and j < len(other)
                and not deep_one
                and not deep_other
                and self.share_a_name(one[i], other[j])
            ):
                waiting.append((i + 1, j + 1))
        return False

    def share_a_name(self, one: Segment, other: Segment) -> bool:
        """True when one folded name may fit both segments. One segment is one object as long as its glob is at hand."""
        key = id(one), id(other)
        if key not in self.known:
            self.pay((len(one) + len(other)) // 8)
            folded = _folded(one), _folded(other)
            self.known[key] = not _apart_at_an_end(*folded) and self._share_a_name(*folded)
        return self.known[key]

    def _share_a_name(self, one: tuple[_Element, ...], other: tuple[_Element, ...]) -> bool:
        end = ((len(one), ""), (len(other), ""))
        seen: set[tuple[_Place, _Place]] = set()
        waiting: list[tuple[_Place, _Place]] = [((0, ""), (0, ""))]
        while waiting:
            pair = waiting.pop()
            if pair in seen:
                continue
            seen.add(pair)
            self.pay()
            if pair == end:
                return True
            a, b = pair
            steps_b = list(_steps(other, b))
            for sign_a, to_a in _steps(one, a):
                if not sign_a:
                    waiting.append((to_a, b))
                    continue
                for sign_b, to_b in steps_b:
                    if sign_b and (sign_a == sign_b or "*" in (sign_a, sign_b)):
                        waiting.append((to_a, to_b))
            waiting += [(a, to_b) for sign_b, to_b in steps_b if not sign_b]
        return False


def _programs(glob: str) -> list[tuple[Segment, ...]] | None:
    """What the glob matches, its own text as a path included; None for one that is refused, which proves nothing."""
    if glob_problem(glob):
        return None
    program = compile_glob(glob)
    literal = [compile_literal(glob)] if WILD & set(glob) else []
    return [*literal, *([program] if program is not None else [])]


def proven_disjoint(a: Sequence[str], b: Sequence[str]) -> bool:
    """True only when no path can lie in both regions; neither may be empty (everything is `**`)."""
    proof = _Proof()
    try:
        programs_a, programs_b = ([_programs(glob) for glob in region] for region in (a, b))
        if not a or not b or None in programs_a or None in programs_b:
            return False
        return not any(
            proof.share_a_path(one, other)
            for ones in programs_a
            for one in ones or ()
            for others in programs_b
            for other in others or ()
        )
    except _TooMuch:
        return False
