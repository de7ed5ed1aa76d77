"""Globs with gitignore meaning: what may stand as one, and which paths it matches.

A glob without a slash matches at any depth, one that matches a folder covers all in it. They come from agents and from
batons, so they are matched in time proportional to glob x path: translated to a regular expression, `*a*a*a*a*b` alone
keeps a processor busy for minutes.
"""

from dataclasses import dataclass
from functools import lru_cache

from relays.core.lines import recorded
from relays.core.pointers import path_problem, utf8_size

GLOB_BYTES = 500
#: characters that make a glob match more than its own text
WILD = frozenset("*?[")


def glob_problem(glob: str, limit: int = GLOB_BYTES) -> str:
    """Why a glob may not stand in a region, in one line; "" when it may. `limit` is in UTF-8 bytes."""
    if problem := path_problem(glob):
        return problem
    size = utf8_size(glob)
    if size is None or size > limit:
        return recorded("it is longer than %(limit)d bytes", limit=limit)
    if glob.startswith("#"):
        return recorded("it begins with '#', a comment in gitignore")
    parts = glob.rstrip("/").split("/")
    if "." in parts or "" in parts:
        return recorded("it has an empty or '.' segment")
    if any(_compile_segment(part) is None for part in parts):
        return recorded("a '[' is not closed, or a [:class:] is used")
    return ""


@dataclass(frozen=True, slots=True)
class CharSet:
    """A bracket expression: ranges of characters, perhaps negated."""

    negated: bool
    ranges: tuple[tuple[str, str], ...]

    def has(self, sign: str) -> bool:
        return any(low <= sign <= high for low, high in self.ranges) is not self.negated


STAR = "*"  # within a segment: any run of characters; between segments (`DEEP`): any run of segments
ANY = "?"


@dataclass(frozen=True, slots=True)
class Token:
    """One element of a segment: a star, any one character, a literal or a set."""

    kind: str  # "*", "?", "c", "["
    sign: str = ""
    chars: CharSet | None = None

    def takes(self, sign: str) -> bool:
        if self.kind == "c":
            return sign == self.sign
        return self.kind == ANY or (self.chars is not None and self.chars.has(sign))


Segment = tuple[Token, ...]


@lru_cache(maxsize=4096)
def _compile_segment(text: str) -> Segment | None:
    """The tokens of one segment; None where a bracket is not closed or names a class. One text, one object."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        sign = text[at]
        at += 1
        if sign == "*":
            if not tokens or tokens[-1].kind != STAR:
                tokens.append(Token(STAR))
        elif sign == "?":
            tokens.append(Token(ANY))
        elif sign == "[":
            negated = text[at : at + 1] in ("!", "^")
            start = at + negated
            end = text.find("]", start + 1)  # a "]" that stands first is a literal
            if end < 0 or "[:" in text[start:end]:
                return None
            tokens.append(Token("[", chars=CharSet(negated, _ranges(text[start:end]))))
            at = end + 1
        else:
            tokens.append(Token("c", sign))
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


def _segment_matches(tokens: Segment, text: str) -> bool:
    """Greedy with one point of return: a run between stars is taken at its first place, which leaves the most room."""
    token = sign = 0
    star = back = -1
    while sign < len(text):
        if token < len(tokens) and tokens[token].kind == STAR:
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
    return all(rest.kind == STAR for rest in tokens[token:])


DEEP: Segment = ()  # stands for any run of segments: no real segment is empty
ONE: Segment = (Token(STAR),)


@lru_cache(maxsize=4096)
def compile_glob(glob: str) -> tuple[Segment, ...] | None:
    """Segments with `DEEP` between; the end is deep, because a folder covers what is in it. None: matches nothing."""
    folder_only = glob.endswith("/")
    parts = glob.rstrip("/").split("/")
    program: list[Segment] = [] if len(parts) > 1 else [DEEP]
    for index, part in enumerate(parts):
        if part == "**" and len(parts) > 1:
            program.append(DEEP)
            if index == len(parts) - 1:
                program.append(ONE)
        else:
            tokens = _compile_segment(part)
            if not tokens:
                return None
            program.append(tokens)
    if folder_only:
        program += [DEEP, ONE] if parts[-1] != "**" or len(parts) == 1 else [ONE]
    program.append(DEEP)
    return tuple(program)


@lru_cache(maxsize=4096)
def _literal_segment(text: str) -> Segment:
    return tuple(Token("c", sign) for sign in text)


def compile_literal(glob: str) -> tuple[Segment, ...]:
    """The glob's own text as a path, and what would lie in a folder of that name."""
    return (*map(_literal_segment, glob.rstrip("/").split("/")), DEEP)


def _path_matches(program: tuple[Segment, ...], segments: list[str]) -> bool:
    part = at = 0
    deep = back = -1
    while at < len(segments):
        if part < len(program) and program[part] is DEEP:
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
    return all(rest is DEEP for rest in program[part:])


def glob_matches(glob: str, path: str) -> bool:
    """True when the path of a file (relative, `/` between segments) is the glob's own text or matched by it."""
    if glob == path:
        return True
    program = compile_glob(glob)
    return program is not None and _path_matches(program, path.split("/"))
