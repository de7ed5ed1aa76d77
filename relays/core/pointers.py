"""Pointers into the durable store: the only thing that a baton carries, each judged with one of three verdicts.

Mission: "Everything the relay carries forward is a pointer into one of these, and each pointer resolves to something a
witness can check." A ref comes from an agent and is hostile: it is judged here before it reaches a process or a path.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from relays.core.lines import recorded

REF_BYTES = 500
ENTRY_BYTES = 500
LABEL_BYTES = 120


class Kind(StrEnum):
    """Which durable store answers for a pointer."""

    COMMIT = "commit"
    ISSUE = "issue"
    MEMORY = "memory"
    LEDGER = "ledger"
    FILE = "file"


class Verdict(StrEnum):
    """What a store said about one pointer; `unknown` is never counted as verified and never shown as dangling."""

    VERIFIED = "verified"
    DANGLING = "dangling"
    UNKNOWN = "unknown"


class PointerError(ValueError):
    """A ref or an entry that is refused; `why` is one line and quotes nothing of it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass(frozen=True, slots=True)
class Pointer:
    """One ref of one kind; `str()` gives `kind:ref`."""

    kind: Kind
    ref: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.ref}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One pointer's verdict with one line of evidence; `detail` holds what a store knows beside it (open or closed)."""

    verdict: Verdict
    evidence: str
    detail: Mapping[str, object] = field(default_factory=dict)


def first_known(answers: Iterable[Answer]) -> Answer:
    """Several stores asked one after the other about one pointer: the first answer that is not unknown decides.

    No store is asked after that one. Where none of them knows, the last one's evidence stands.
    """
    found = Answer(Verdict.UNKNOWN, recorded("no store was asked"))
    for answer in answers:
        found = answer
        if answer.verdict is not Verdict.UNKNOWN:
            break
    return found


# fullmatch everywhere: `$` would let a trailing newline pass; [0-9] because \d takes digits of every script.
_SHA = re.compile(r"(?:[0-9a-f]{40}|[0-9a-f]{64})")
_ISSUE = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9_][A-Za-z0-9._-]*)?#[1-9][0-9]{0,11}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_LEDGER_LINE = re.compile(r"([^ ]+)#L[1-9][0-9]{0,8}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")  # category Cc, whole
_ENTRY = re.compile(r"(?:(commit|issue|memory|ledger|file):([^ ]+)|(#[1-9][0-9]{0,11}))(?: (.*))?")


def is_sha(text: str) -> bool:
    """A full object name: lower-case hex, 40 or 64 digits; never an abbreviation, a branch or HEAD."""
    return _SHA.fullmatch(text) is not None


def control_character(text: str) -> bool:
    """True when a control character (CR, LF, NUL, tab, C0, DEL, C1) stands in the text."""
    return _CONTROL.search(text) is not None


def utf8_size(text: str) -> int | None:
    """Bytes of the text in UTF-8; None where it cannot be written (a lone surrogate)."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def name_problem(text: str) -> str:
    """Why a hostile name must not reach a process or a path, in one line; "" when it may."""
    if not text:
        return recorded("it is empty")
    if utf8_size(text) is None:
        return recorded("it holds a lone surrogate")
    if control_character(text):
        return recorded("it holds a control character")
    if text != text.strip():
        return recorded("it begins or ends with a blank")
    if text.startswith("-"):
        return recorded("it begins with '-', as an option does")
    if "\\" in text:
        return recorded("it holds a backslash")
    if text.startswith("/"):
        return recorded("it is an absolute path")
    if ".." in text.split("/"):
        return recorded("it leaves its folder with '..'")
    return ""


def path_problem(text: str) -> str:
    """`name_problem`, and what would make a path or glob mean something else to git; "" when it may be used."""
    if problem := name_problem(text):
        return problem
    if text[0] in "!:":
        return recorded("it begins with %(what)s, which git reads as an instruction", what=repr(text[0]))
    return ""


def check_ref(kind: Kind, ref: str, limit: int = REF_BYTES) -> None:
    """Raises PointerError when the ref may not be used for that kind; `limit` is its size in UTF-8 bytes.

    commit: 40 or 64 lower-case hex. issue: `#n` or `owner/repo#n`. memory: a slug. ledger: a row id or `path#Lnn`.
    file: a relative path or gitignore-style glob.
    """
    if kind is Kind.COMMIT and limit >= 64 and is_sha(ref):
        return  # thousands at once: nothing below refuses what is all hex
    problem = path_problem(ref) if kind is Kind.FILE else name_problem(ref)
    if problem:
        raise PointerError(f"{kind} ref: {problem}")
    size = utf8_size(ref)
    if size is None or size > limit:
        raise PointerError(f"{kind} ref: more than {limit} bytes")
    match kind:
        case Kind.COMMIT:
            if not is_sha(ref):
                raise PointerError(recorded("commit ref: not a full object name (40 or 64 lower-case hex digits)"))
        case Kind.ISSUE:
            if not _ISSUE.fullmatch(ref):
                raise PointerError(recorded("issue ref: neither '#n' nor 'owner/repo#n'"))
        case Kind.MEMORY:
            if not _NAME.fullmatch(ref):
                raise PointerError(recorded("memory ref: not a slug (letters, digits, '.', '_', '-')"))
        case Kind.LEDGER:
            line = _LEDGER_LINE.fullmatch(ref)
            if not _NAME.fullmatch(ref) and (line is None or path_problem(line[1])):
                raise PointerError(recorded("ledger ref: neither a row id nor 'path#Lnn'"))
        case Kind.FILE:
            pass


def parse_pointer(text: str, limit: int = REF_BYTES) -> Pointer:
    """`kind:ref`, or `#n` for an issue; raises PointerError for anything else and above `limit` bytes in all."""
    size = utf8_size(text)
    if size is None or size > limit:
        raise PointerError(f"not text of at most {limit} bytes")
    if text.startswith("#"):
        kind, ref = Kind.ISSUE, text
    else:
        word, colon, ref = text.partition(":")
        if not colon or word not in tuple(Kind):
            raise PointerError(recorded("not 'kind:ref' with a kind of commit, issue, memory, ledger, file"))
        kind = Kind(word)
    check_ref(kind, ref, limit)
    return Pointer(kind, ref)


def read_entry(text: str, limit: int = REF_BYTES) -> tuple[Pointer | None, str]:
    """An entry of `open_questions` or `do_not_rederive` -> its pointer and its label; (None, text) where none is meant.

    Raises PointerError where a pointer is meant (`kind:`, at once followed by a ref) and its ref is refused.
    """
    found = _ENTRY.fullmatch(text)
    if found is None:
        return None, text
    kind, ref = (Kind(found[1]), found[2]) if found[1] else (Kind.ISSUE, found[3])
    label = found[4] or ""
    check_ref(kind, ref, limit)
    return Pointer(kind, ref), label


def parse_entry(text: str) -> tuple[Pointer | None, str]:
    """As `read_entry`, but a refused ref counts as no pointer; never raises."""
    try:
        return read_entry(text)
    except PointerError:
        return None, text


def one_line(text: str, limit: int) -> str:
    """Agent text as one line of at most `limit` UTF-8 bytes, cut at a character; control characters become blanks."""
    plain = "".join(" " if unicodedata.category(sign) == "Cc" else sign for sign in text)
    # an unpaired surrogate has no UTF-8 form: it becomes "?"
    raw = plain.strip().encode("utf-8", "replace")
    return raw[: max(limit, 0)].decode("utf-8", "ignore").rstrip()


def format_entry(pointer: Pointer, label: str) -> str:
    """`kind:ref label` of at most 500 bytes, the label at most 120; a blank in a path is written `?`.

    Raises PointerError where the ref is refused or too long; never for what `parse_pointer` accepted.
    """
    check_ref(pointer.kind, pointer.ref)
    head = str(pointer).replace(" ", "?")  # only a file's ref can hold one, and an entry ends its pointer at a blank
    room = ENTRY_BYTES - len(head.encode()) - 1
    if room < -1:
        raise PointerError(f"{pointer.kind} ref: too long for an entry of {ENTRY_BYTES} bytes")
    tail = one_line(label, min(LABEL_BYTES, room))
    return f"{head} {tail}" if tail else head
