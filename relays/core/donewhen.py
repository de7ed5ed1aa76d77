"""done_when: how a fresh leg checks "am I already done?" against the durable store, never against a claim.

Mission: "Evaluate done_when against the durable store first. If the goal is already satisfied, end the relay with
RELAY_GOAL_DONE and write no new leg." One line; clauses joined by `and`; what does not parse is prose, which is legal
but never true by itself.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from relays.core.lines import recorded
from relays.core.pointers import Kind, Pointer, PointerError, check_ref, control_character, utf8_size
from relays.core.sentences import RuleError, Sentence, phrase, quoted
from relays.core.strictjson import shown

LINE_BYTES = 500


class Truth(StrEnum):
    """Three values: a clause whose store does not answer is unknown, never false and never true."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


class DoneWhenError(RuleError):
    """No line at all: empty, too long, or with a control character; `why` is one line."""

    def __init__(self, why: Sentence) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause: its word, the value behind the colon without quotes, and the clause as written."""

    kind: str  # commit, issue, issues, file, no-file, ledger, cmd
    value: str
    text: str

    @property
    def pointer(self) -> Pointer | None:
        """What a store is asked for; None for `issues` and `cmd`."""
        kind = _POINTER_KINDS.get(self.kind)
        return Pointer(kind, self.value) if kind is not None else None


@dataclass(frozen=True, slots=True)
class DoneWhen:
    """A parsed line: its clauses, or prose with the reason why it is prose (naming the clause)."""

    text: str
    clauses: tuple[Clause, ...]
    prose: bool
    why_prose: Sentence


@dataclass(frozen=True, slots=True)
class DoneVerdict:
    """The truth of a line with each clause's truth and evidence.

    `left_out`: unknown only because commands were not run here; no store failed to answer.
    """

    truth: Truth
    clauses: tuple[tuple[Clause, Truth, str], ...]
    prose: bool
    left_out: bool = False


_POINTER_KINDS = {
    "commit": Kind.COMMIT,
    "issue": Kind.ISSUE,
    "file": Kind.FILE,
    "no-file": Kind.FILE,
    "ledger": Kind.LEDGER,
}
#: words that must follow the value
_TAILS = {"issue": "closed", "issues": "open"}
_CLAUSE = re.compile(r'(commit|issue|issues|file|no-file|ledger|cmd):(?:"((?:[^"\\]|\\.)*+)"|([^" ]+))(?: +([a-z]+))?')
_ESCAPE = re.compile(r"\\(.)")
_AND = re.compile(r' +and +|"(?:[^"\\]|\\.)*+"?')


def _split(text: str) -> list[str]:
    """The clauses between the `and`s that stand outside quotes."""
    parts: list[str] = []
    start = 0
    for found in _AND.finditer(text):
        if not found.group().startswith('"'):
            parts.append(text[start : found.start()])
            start = found.end()
    parts.append(text[start:])
    return [part.strip(" ") for part in parts]


class _Prose(RuleError):
    """Why a clause does not parse."""


def _clause(text: str) -> Clause:
    found = _CLAUSE.fullmatch(text)
    if found is None:
        raise _Prose(phrase("it is none of the clauses that a store can answer"))
    kind, inner, plain, tail = found.groups()
    if inner is not None:
        if any(sign not in '"\\' for sign in _ESCAPE.findall(inner)):
            raise _Prose(phrase('only \\" and \\\\ are escapes'))
        value = _ESCAPE.sub(r"\1", inner)
    else:
        value = plain
    wanted = _TAILS.get(kind)
    if tail != wanted:
        raise _Prose(
            phrase("%(kind)s: must end with %(wanted)s", kind=kind, wanted=repr(wanted))
            if wanted
            else phrase("nothing may follow the value of %(kind)s:", kind=kind)
        )
    if kind == "issues" and value != "none":
        raise _Prose(phrase("it is not 'issues:none open'"))
    if kind == "cmd" and not value.strip():
        raise _Prose(phrase("the command is empty"))
    if kind in _POINTER_KINDS:
        try:
            check_ref(_POINTER_KINDS[kind], value)
        except PointerError as error:
            raise _Prose(quoted(error.why)) from None
    return Clause(kind, value, text)


def parse(text: str) -> DoneWhen:
    """A line -> its clauses, or prose that names the clause which does not parse.

    Raises DoneWhenError only for what is no line: empty, more than 500 UTF-8 bytes, control character, surrogate.
    """
    if not text.strip():
        raise DoneWhenError(phrase("done_when is empty"))
    size = utf8_size(text)
    if size is None:
        raise DoneWhenError(phrase("done_when holds a lone surrogate"))
    if size > LINE_BYTES:
        raise DoneWhenError(
            phrase("done_when is %(size)s bytes long, more than %(line_bytes)s", size=size, line_bytes=LINE_BYTES)
        )
    if control_character(text):
        raise DoneWhenError(phrase("done_when holds a line break or another control character"))
    return _parsed(text)


def of_baton(text: str) -> DoneWhen:
    """The line of an accepted baton whose relay is not known here; never raises, what cannot be judged is prose."""
    return _parsed(text) if text.strip() else DoneWhen(text, (), True, phrase("done_when is empty"))


def _parsed(text: str) -> DoneWhen:
    clauses: list[Clause] = []
    for part in _split(text):
        try:
            clauses.append(_clause(part))
        except _Prose as why:
            return DoneWhen(text, (), True, phrase("%(clause)s: %(why)s", clause=repr(shown(part, 80)), why=why.said))
    return DoneWhen(text, tuple(clauses), False, Sentence(""))


def evaluate(done: DoneWhen, answers: Mapping[Clause, tuple[Truth, str]]) -> DoneVerdict:
    """The truth of a line from its clauses' answers: false beats unknown beats true; prose is never true by itself.

    A command without an answer was left out; any other clause without one is unknown.
    """
    if done.prose:
        return DoneVerdict(Truth.FALSE, (), True)
    judged: list[tuple[Clause, Truth, str]] = []
    left_out = False
    truths: set[Truth] = set()
    for clause in done.clauses:
        if clause in answers:
            truth, evidence = answers[clause]
            truths.add(truth)
        elif clause.kind == "cmd":
            truth, evidence = Truth.UNKNOWN, recorded("left out: no command is run here")
            left_out = True
        else:
            truth, evidence = Truth.UNKNOWN, recorded("no store answered")
            truths.add(truth)
        judged.append((clause, truth, evidence))
    if Truth.FALSE in truths:
        return DoneVerdict(Truth.FALSE, tuple(judged), False)
    if Truth.UNKNOWN in truths:
        return DoneVerdict(Truth.UNKNOWN, tuple(judged), False)
    return DoneVerdict(Truth.UNKNOWN if left_out else Truth.TRUE, tuple(judged), False, left_out)
