"""What an ask asks about, read from the lines of its episode, and what a person may say to each of them.

Mission: "When Fak Asks Instead Of Guessing". Each ask has its own way out: an assumption is confirmed or refreshed, a
page fault is served by hand or waived; the others are settled as a whole by the approval or the refusal itself.
"""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from relays.core.pointers import PointerError, parse_pointer
from relays.core.sentences import RuleError, phrase
from relays.core.vocabulary import Ask

TEXT_BYTES: Final = 500
KEY_BYTES: Final = 120  # of a key in the line of an episode
CONFIRMED, REFRESHED, SERVED, WAIVED = (
    phrase("confirmed"),
    phrase("refreshed"),
    phrase("served"),
    phrase("waived"),
)
#: ask -> what a person may make of one of its subjects
WAYS: Final[Mapping[str, tuple[str, str]]] = {
    Ask.LOW_CONFIDENCE_ASSUMPTION: (CONFIRMED, REFRESHED),
    Ask.UNSERVED_PAGE_FAULT: (SERVED, WAIVED),
}

# the key is the last quoted word of the line: what comes before it is an agent's text
_LEANS = re.compile(r".* leans on ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"): (?:query|refresh), [^'\"]*", re.DOTALL)
_FAULT = re.compile(r"page fault: (.*?): (?:deny|query_user), .*", re.DOTALL)


class SettleError(RuleError):
    """What was said to a subject cannot be; one line."""


@dataclass(frozen=True, slots=True)
class Settling:
    """What a person says: `confirm` and `refresh` name assumptions, `serve` (record -> text) and `waive` records."""

    confirm: Sequence[str] = ()
    refresh: Sequence[str] = ()
    serve: Mapping[str, str] = field(default_factory=dict)
    waive: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.confirm or self.refresh or self.serve or self.waive)


@dataclass(frozen=True, slots=True)
class Settled:
    """One subject and what became of it; `text`: what serves it, "" for the other ways."""

    subject: str
    became: str
    text: str = ""


def assumptions_of(items: Iterable[str]) -> tuple[str, ...]:
    """The keys that the lines of a LOW_CONFIDENCE_ASSUMPTION lean on, each once, in their order."""
    found: dict[str, None] = {}
    for item in items:
        if match := _LEANS.fullmatch(item):
            found[str(ast.literal_eval(match[1]))] = None
    return tuple(found)


def faults_of(items: Iterable[str]) -> tuple[str, ...]:
    """The records `kind:ref` that the lines of an UNSERVED_PAGE_FAULT say a leg needed."""
    found: dict[str, None] = {}
    for item in items:
        match = _FAULT.fullmatch(item)
        if match and (name := _pointer(match[1])):
            found[name] = None
    return tuple(found)


def settle(ask: str, said: Settling, *, subjects: Sequence[str], waivable: Sequence[str] = ()) -> tuple[Settled, ...]:
    """What becomes of each subject, in their order; of an assumption of which nothing is said: confirmed.

    `subjects`: what the episode asks about; `waivable`: what may be waived beside them (optional pointers of the
    baton). Raises SettleError for what this ask does not ask, for a subject that is said two things to, and for a text
    that is none.
    """
    ways = WAYS.get(ask, ())
    known = {**dict.fromkeys(subjects), **dict.fromkeys(waivable)}
    chosen: dict[str, Settled] = {}
    every = [
        *((name, CONFIRMED, "") for name in said.confirm),
        *((name, REFRESHED, "") for name in said.refresh),
        *((name, SERVED, text) for name, text in said.serve.items()),
        *((name, WAIVED, "") for name in said.waive),
    ]
    for given, became, text in every:
        name = (_pointer(given) or given) if became in (SERVED, WAIVED) else given
        if became not in ways:
            can = (
                phrase("%(one)s or %(other)s", one=ways[0], other=ways[1])
                if ways
                else phrase("approved or refused as a whole")
            )
            raise SettleError(
                phrase(
                    "%(given)s cannot be %(became)s here: what %(ask)s asks about is %(can)s",
                    given=repr(given[:120]),
                    became=became,
                    ask=ask,
                    can=can,
                )
            )
        if name not in known or (became == SERVED and name not in subjects):
            names = ", ".join(repr(one) for one in list(known)[:8]) or phrase("nothing")
            raise SettleError(
                phrase(
                    "%(given)s is not asked about here; asked about: %(names)s", given=repr(given[:120]), names=names
                )
            )
        if name in chosen:
            raise SettleError(phrase("%(given)s is named twice; say one thing to it", given=repr(given[:120])))
        if became == SERVED:
            text = text.strip()
            if not text or not text.isprintable() or len(text.encode()) > TEXT_BYTES:
                raise SettleError(
                    phrase(
                        "%(given)s: what serves it is one line of at most %(text_bytes)s bytes",
                        given=repr(given[:120]),
                        text_bytes=TEXT_BYTES,
                    )
                )
        chosen[name] = Settled(name, became, text)
    if ask == Ask.LOW_CONFIDENCE_ASSUMPTION:
        for name in subjects:
            chosen.setdefault(name, Settled(name, CONFIRMED))
    return tuple(chosen[name] for name in known if name in chosen)


def _pointer(text: str) -> str:
    try:
        return str(parse_pointer(text))
    except PointerError:
        return ""
