"""Taking single values out of an agent's JSON: bounded, storable, and never trusted to have the type they should.

Every text that leaves here is printable, without NUL, and fits its column; identifiers that are too long keep their
beginning and a digest, so that two different ones stay different.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from relays.core.meter import AnomalyKind, Extract

ID_CHARS: Final = 150  # of a session or message: three of them with an agent's name still fit a key
NAME_CHARS: Final = 80
REF_CHARS: Final = 500
#: no call of any model comes near; larger counts would not fit their sums' columns
TOKENS_MAX: Final = 10**12
_COST_MAX: Final = Decimal(10**9)


def table(value: object) -> dict[str, Any]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def rows(value: object) -> list[Any]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []


def text(value: object, limit: int = NAME_CHARS) -> str:
    """A text on one line, printable, cut at `limit`; "" for anything else."""
    if not isinstance(value, str):
        return ""
    if not value.isprintable():
        value = "".join(letter if letter.isprintable() else " " for letter in value[: 4 * limit]).strip()
    return value[:limit]


def ident(value: object, limit: int = ID_CHARS) -> str:
    """An identifier: like `text`, but what is longer than `limit` stays distinct."""
    if not isinstance(value, str):
        return ""
    if len(value) <= limit and value.isprintable():
        return value
    digest = hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text(value, limit - 17)}~{digest}"


def content_id(record: Mapping[str, Any]) -> str:
    """What a record without any identifier is known by: its content, which a copy repeats at whatever line."""
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()[:24]


def tokens(source: Mapping[str, Any], name: str, out: Extract, session: str, line: int) -> int:
    """A token count. What is there and cannot be one (negative, no whole number, absurd) is 0 and said so."""
    value = source.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= TOKENS_MAX:
        out.note(AnomalyKind.IMPLAUSIBLE_USAGE, session, line, text(name))
        return 0
    if isinstance(value, float) and not value.is_integer():
        out.note(AnomalyKind.IMPLAUSIBLE_USAGE, session, line, text(name))
    return int(value)


def whole(value: object) -> int | None:
    """A plain whole number that is not negative, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS_MAX else None


def money(value: object) -> str:
    """A cost as decimal text, "" where there is none: 0 that an agent writes for "no price known" is none either."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return ""
    try:
        amount = Decimal(str(value))
    except InvalidOperation:
        return ""
    if not amount.is_finite() or not 0 < amount <= _COST_MAX:
        return ""
    return f"{amount.normalize():f}"


def seconds(value: object) -> float | None:
    """Seconds since 1970 of an ISO 8601 text or of a number of seconds; None where it is no time."""
    if isinstance(value, str):
        try:
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            return None
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 10**11:
        return float(value)
    return None


def from_millis(value: object) -> str:
    """ISO 8601 text of milliseconds since 1970, "" where it is no such time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 10**14:
        return ""
    return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment(value: object) -> str:
    """An ISO 8601 text, "" where it is none that can be read; see `in_utc`."""
    return in_utc(value) if isinstance(value, str) and len(value) <= 40 and seconds(value) is not None else ""


def in_utc(at: str) -> str:
    """A time in UTC as the file has it; one with another zone, or none, is written so that texts compare as times do.

    "" where it is none that can be read, or stands outside of the calendar.
    """
    try:
        read = datetime.fromisoformat(at)
        if at.endswith("Z") and at[4:5] == at[7:8] == "-" and at[10:11] == "T":
            return at
        return (read.astimezone(UTC) if read.tzinfo else read).isoformat().replace("+00:00", "") + "Z"
    except (ValueError, OverflowError):
        return ""
