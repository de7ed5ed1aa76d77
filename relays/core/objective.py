"""The objective pin: what the relay is for, carried by identity and digest, byte-identical over every leg.

Mission: "The pinned objective is carried across replans, resets, and session migrations by identity and digest, not by
a model-authored summary. If the carried objective no longer matches what the user stated, fak surfaces an objective
reconciliation outcome instead of treating the rewrite as continuity."
"""

import hashlib
from dataclasses import dataclass
from enum import StrEnum

from relays.core.pointers import control_character, utf8_size
from relays.core.sentences import RuleError, Sentence, phrase

TEXT_BYTES = 4096
PIN_ID_BYTES = 500

# The white space that other writers of this schema trim; str.strip() alone would also take U+001C to U+001F.
_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))


class ObjectiveError(RuleError):
    """A pin that cannot be made; `why` is one line."""

    def __init__(self, why: Sentence) -> None:
        super().__init__(why)
        self.why = why


class Reconciliation(StrEnum):
    """What became of the objective between two statements of it."""

    PRESERVED = "preserved"
    ESTABLISHED = "established"
    DRIFTED = "drifted"
    DROPPED = "dropped"
    QUERY_USER = "query_user"

    @property
    def asks(self) -> bool:
        """True where a person is asked (`OBJECTIVE_DRIFT`) instead of guessing."""
        return self in (Reconciliation.DRIFTED, Reconciliation.DROPPED, Reconciliation.QUERY_USER)


@dataclass(frozen=True, slots=True)
class Pin:
    """An objective with its identity; `step` and `source_span_id` say where it was stated and are not hashed."""

    pin_id: str
    text: str
    digest: str
    step: int = 0
    source_span_id: str = ""

    @property
    def unset(self) -> bool:
        return not (self.pin_id or self.text or self.digest)


def trim(text: str) -> str:
    """White space cut at both ends, as it is done once, when a pin is made; never when one is read."""
    return text.strip(_BLANKS)


def pin_digest(pin_id: str, text: str) -> str:
    """Lower-case hex sha256 of pin id, one NUL byte and text, untrimmed, in UTF-8.

    Raises ObjectiveError for a lone surrogate.
    """
    try:
        return hashlib.sha256(pin_id.encode() + b"\0" + text.encode()).hexdigest()
    except UnicodeEncodeError:
        raise ObjectiveError(phrase("the objective holds a lone surrogate: it has no UTF-8 form")) from None


def verifies(pin: Pin) -> bool:
    """True when the digest is the one of the text as it stands; an upper-case digest is not."""
    try:
        return pin.digest == pin_digest(pin.pin_id, pin.text)
    except ObjectiveError:
        return False


def make_pin(pin_id: str, text: str) -> Pin:
    """A new pin, both parts trimmed.

    Raises ObjectiveError when a part is empty or too long, or a control character could make two pins collide.
    """
    pin_id, text = trim(pin_id), trim(text)
    if not pin_id:
        raise ObjectiveError(phrase("the pin id is empty"))
    if control_character(pin_id):
        raise ObjectiveError(phrase("the pin id holds a control character"))
    if not text:
        raise ObjectiveError(phrase("the objective is empty"))
    id_size, text_size = utf8_size(pin_id), utf8_size(text)
    if id_size is None or text_size is None:
        raise ObjectiveError(phrase("the objective holds a lone surrogate: it has no UTF-8 form"))
    if id_size > PIN_ID_BYTES:
        raise ObjectiveError(phrase("the pin id is longer than %(pin_id_bytes)s bytes", pin_id_bytes=PIN_ID_BYTES))
    if text_size > TEXT_BYTES:
        raise ObjectiveError(phrase("the objective is longer than %(text_bytes)s bytes", text_bytes=TEXT_BYTES))
    if "\0" in text:
        raise ObjectiveError(phrase("the objective holds a NUL character"))
    return Pin(pin_id, text, pin_digest(pin_id, text))


def reconcile(before: Pin | None, after: Pin | None) -> Reconciliation:
    """The carried objective against the stated one; None and an empty pin are unset.

    A pin whose digest does not verify is never accepted, not as the first one either.
    """
    carried = before if before is not None and not before.unset else None
    stated = after if after is not None and not after.unset else None
    if stated is None:
        return Reconciliation.PRESERVED if carried is None else Reconciliation.DROPPED
    if not verifies(stated):
        return Reconciliation.QUERY_USER
    if carried is None:
        return Reconciliation.ESTABLISHED
    if carried.pin_id != stated.pin_id:
        return Reconciliation.DROPPED
    return Reconciliation.PRESERVED if carried.digest == stated.digest else Reconciliation.DRIFTED
