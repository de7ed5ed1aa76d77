"""Regions: the globs that a relay may write to, what they match, and when two of them can be proven disjoint.

Mission: "Disjointness before fan-out. A relay holds a lane across legs; the baton carries held_region so leg N+1
re-acquires the same lease and does not collide with peers on the shared tree."

Globs have gitignore meaning (a glob without a slash matches at any depth, one that matches a folder covers all in it).
They come from agents and from batons, so they are matched here in time proportional to glob x path: translated to a
regular expression, `*a*a*a*a*b` alone keeps a processor busy for minutes.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from relays.core.pointers import path_problem, utf8_size

EVERYTHING: tuple[str, ...] = ("**",)
MAX_GLOBS = 64
GLOB_BYTES = 500

_WILD = frozenset("*?[")


class RegionError(ValueError):
    """A glob that is refused: `glob` and `why` (one line)."""

    def __init__(self, glob: str, why: str) -> None:
        super().__init__(f"{glob!r}: {why}")
        self.glob = glob
        self.why = why


def glob_problem(glob: str, limit: int = GLOB_BYTES) -> str:
    """Why a glob may not stand in a region, in one line; "" when it may. `limit` is in UTF-8 bytes."""
    if problem := path_problem(glob):
        return problem
    size = utf8_size(glob)
    if size is None or size > limit:
        return f"it is longer than {limit} bytes"
    if glob.startswith("#"):
        return "it begins with '#', a comment in gitignore"
    parts = glob.rstrip("/").split("/")
    if "." in parts or "" in parts:
        return "it has an empty or '.' segment"
    if any(_compile_segment(part) is None for part in parts):
        return "a '[' is not closed, or a [:class:] is used"
    return ""


def check_region(globs: Sequence[str]) -> tuple[str, ...]:
    """The globs without repeats, in order; none given means everything.

    Raises RegionError for a hostile glob and for more than 64.
    """
    region = tuple(dict.fromkeys(globs)) or EVERYTHING
    if len(region) > MAX_GLOBS:
        raise RegionError(region[MAX_GLOBS], f"more than {MAX_GLOBS} globs")
    for glob in region:
        if problem := glob_problem(glob):
            raise RegionError(glob, problem)
    return region


@dataclass(frozen=True, slots=True)
class _Set:
    """A bracket expression: ranges of characters, perhaps negated."""

    negated: bool
    ranges: tuple[tuple[str, str], ...]

    def has(self, sign: str) -> bool:
        return any(low <= sign <= high for low, high in self.ranges) is not self.negated


_STAR = "*"  # within a segment: any run of characters; between segments (`_DEEP`): any run of segments
_ANY = "?"


@dataclass(frozen=True, slots=True)
class _Token:
    """One element of a segment: a star, any one character, a literal or a set."""

    kind: str  # "*", "?", "c", "["
    sign: str = ""
    chars: _Set | None = None

    def takes(self, sign: str) -> bool:
        if self.kind == "c":
            return sign == self.sign
        return self.kind == _ANY or (self.chars is not None and self.chars.has(sign))


_Segment = tuple[_Token, ...]


def _compile_segment(text: str) -> _Segment | None:
    """The tokens of one segment; None where a bracket is not closed or names a class."""
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        sign = text[at]
        at += 1
        if sign == "*":
            if not tokens or tokens[-1].kind != _STAR:
                tokens.append(_Token(_STAR))
        elif sign == "?":
            tokens.append(_Token(_ANY))
        elif sign == "[":
            negated = text[at : at + 1] in ("!", "^")
            start = at + negated
            end = text.find("]", start + 1)  # a "]" that stands first is a literal
            if end < 0 or "[:" in text[start:end]:
                return None
            tokens.append(_Token("[", chars=_Set(negated, _ranges(text[start:end]))))
            at = end + 1
        else:
            tokens.append(_Token("c", sign))
    return tuple(tokens)


def _ranges(body: str) -> tuple[tuple[str, str], ...]:
    ranges: list[tuple[str, str]] = []
    at = 0
    while at < len(body):
        if body[at + 1 : at + 2] == "-" and at + 2 < len(body):
            ranges.append((body[at], body[at + 2]))
            at += 3
        else:
            ranges.append((body[at], body[at]))
            at += 1
    return tuple(ranges)


def _segment_matches(tokens: _Segment, text: str) -> bool:
    """Greedy with one point of return: a run between stars is taken at its first place, which leaves the most room."""
    token = sign = 0
    star = back = -1
    while sign < len(text):
        if token < len(tokens) and tokens[token].kind == _STAR:
            star, back = token, sign
            token += 1
        elif token < len(tokens) and tokens[token].takes(text[sign]):
            token += 1
            sign += 1
        elif star >= 0:
            back += 1
            token, sign = star + 1, back
        else:
            return False
    return all(rest.kind == _STAR for rest in tokens[token:])


_DEEP: _Segment = ()  # stands for any run of segments: no real segment is empty
_ONE: _Segment = (_Token(_STAR),)


@lru_cache(maxsize=4096)
def _compile(glob: str) -> tuple[_Segment, ...] | None:
    """Segments with `_DEEP` between; the end is deep, because a folder covers what is in it. None: matches nothing."""
    folder_only = glob.endswith("/")
    parts = glob.rstrip("/").split("/")
    program: list[_Segment] = [] if len(parts) > 1 else [_DEEP]
    for index, part in enumerate(parts):
        if part == "**" and len(parts) > 1:
            program.append(_DEEP)
            if index == len(parts) - 1:
                program.append(_ONE)
        else:
            tokens = _compile_segment(part)
            if not tokens:
                return None
            program.append(tokens)
    if folder_only:
        program += [_DEEP, _ONE] if parts[-1] != "**" or len(parts) == 1 else [_ONE]
    program.append(_DEEP)
    return tuple(program)


def _path_matches(program: tuple[_Segment, ...], segments: list[str]) -> bool:
    part = at = 0
    deep = back = -1
    while at < len(segments):
        if part < len(program) and program[part] is _DEEP:
            deep, back = part, at
            part += 1
        elif part < len(program) and _segment_matches(program[part], segments[at]):
            part += 1
            at += 1
        elif deep >= 0:
            back += 1
            part, at = deep + 1, back
        else:
            return False
    return all(rest is _DEEP for rest in program[part:])


def glob_matches(glob: str, path: str) -> bool:
    """True when the path of a file (relative, `/` between segments) is the glob's own text or matched by it."""
    if glob == path:
        return True
    program = _compile(glob)
    return program is not None and _path_matches(program, path.split("/"))


def matches(region: Sequence[str], path: str) -> bool:
    """True when the file lies in the region; an empty region is everything, as at the start of a relay."""
    return any(glob_matches(glob, path) for glob in region or EVERYTHING)


def _literal_head(glob: str) -> tuple[str, ...]:
    """The leading segments that any matched path must have; empty for a glob that matches at any depth."""
    parts = glob.rstrip("/").split("/")
    if len(parts) == 1 or glob_problem(glob):
        return ()
    head: list[str] = []
    for part in parts:
        if _WILD & set(part):
            break
        # Two spellings may be one file where the file system folds case or composes characters.
        head.append(unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", part).casefold()))
    return tuple(head)


def proven_disjoint(a: Sequence[str], b: Sequence[str]) -> bool:
    """True only when no path can lie in both regions: every pair of globs parts ways in a literal leading segment."""
    heads_a = [_literal_head(glob) for glob in a or EVERYTHING]
    heads_b = [_literal_head(glob) for glob in b or EVERYTHING]
    return all(
        any(one != other for one, other in zip(head_a, head_b, strict=False))
        for head_a in heads_a
        for head_b in heads_b
    )
