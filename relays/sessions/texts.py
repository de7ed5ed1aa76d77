"""What a session said, kept only where the site asks for it, and then without its secrets.

Issue "Sessions in": "Texts of sessions are not stored: structure, counts and digests, unless a site setting says
otherwise; then with secrets redacted." The setting is KEEP_TRANSCRIPTS. Kept are the lines of files that hold one
record a line, from when it is set on; a line is kept once, whoever reads it how often.
"""

from collections.abc import Iterable
from typing import Final

import orjson

from relays.core.redact import redact, redact_record

#: characters of one record that are kept
LONGEST: Final = 20_000
CUT: Final = " …[cut]"


def kept(raw: bytes) -> str:
    """A line of a file as it is kept: its record without secrets, cut to `LONGEST` characters."""
    try:
        text = orjson.dumps(redact_record(orjson.loads(raw))).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        text = redact(raw[: LONGEST * 4].decode("utf-8", "replace"))
    text = text.replace("\0", "")
    return text if len(text) <= LONGEST else text[: LONGEST - len(CUT)] + CUT


def store(source: int, lines: Iterable[tuple[int, str]]) -> None:
    """Keep lines of one file; those that are kept already stay. Inside the transaction that stores their part."""
    from relays.models import SessionText  # here: a process that only reads files needs no database

    SessionText.objects.bulk_create(
        [SessionText(source_id=source, line=line, text=text) for line, text in lines],
        ignore_conflicts=True,
        batch_size=200,
    )


def forget(source: int) -> None:
    """A file that is read again from its start: its lines are others now."""
    from relays.models import SessionText

    SessionText.objects.filter(source=source).delete()
