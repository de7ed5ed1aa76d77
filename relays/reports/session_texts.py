"""The lines of a session's file that the site kept, some at a time: only where KEEP_TRANSCRIPTS is, or was, set."""

import json
from dataclasses import dataclass
from typing import Final

from relays.models import Session, SessionText, SourceFile

LINES: Final = 50


@dataclass(frozen=True, slots=True)
class Texts:
    """One page. `earlier` and `later`: the `from` of the neighbouring pages, None = there is none."""

    source: SourceFile
    lines: tuple[tuple[int, str], ...]
    earlier: int | None
    later: int | None


def texts(session: Session, source_id: int, start: int) -> Texts | None:
    """The kept lines of one of the session's files from line `start` on; None where it is no file of this session."""
    source = SourceFile.objects.filter(pk=source_id, session_rows__session=session).defer("state").first()
    if source is None:
        return None
    rows = SessionText.objects.filter(source=source)
    found = list(rows.filter(line__gte=start).order_by("line").values_list("line", "text")[: LINES + 1])
    before = list(rows.filter(line__lt=start).order_by("-line").values_list("line", flat=True)[:LINES])
    return Texts(
        source=source,
        lines=tuple((line, _laid_out(text)) for line, text in found[:LINES]),
        earlier=before[-1] if before else None,
        later=found[LINES][0] if len(found) > LINES else None,
    )


def _laid_out(text: str) -> str:
    """A record over several lines, as a person reads it; what was cut stays as it is."""
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1)
    except ValueError:
        return text
