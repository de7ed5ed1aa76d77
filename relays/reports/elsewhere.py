"""What else a search means, beside the relays that match: a gate by its number, sessions, a baton by its digest.

Issue: "search over relays, objectives, SHAs, tokens": whoever has a number, an id or a digest from a notice, a log or a
colleague finds its page with the one search field.
"""

import re
from dataclasses import dataclass

from relays.models import Baton, GateEpisode, Session
from relays.reports.relays import sha_of
from relays.reports.sessions import found_by

MOST = 5  # sessions and batons that are named


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """`sessions_more`: that match beside the named ones."""

    gate: GateEpisode | None = None
    sessions: tuple[Session, ...] = ()
    sessions_more: int = 0
    batons: tuple[Baton, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.gate or self.sessions or self.batons)


def elsewhere(text: str) -> Elsewhere:
    """At most four queries, none without a text."""
    if not text:
        return Elsewhere()
    sessions = Session.objects.filter(found_by(text))
    named = tuple(sessions.only("pk", "sid", "agent", "cwd", "last_at").order_by("-last_at", "-pk")[: MOST + 1])
    return Elsewhere(
        gate=_gate(text),
        sessions=named[:MOST],
        sessions_more=sessions.count() - MOST if len(named) > MOST else 0,
        batons=_batons(text),
    )


def _gate(text: str) -> GateEpisode | None:
    """`gate 7`, `#7` or `7` alone."""
    found = re.fullmatch(r"(?:gate\s*#?|#)?\s*([0-9]{1,12})", text.strip(), re.IGNORECASE)
    number = int(found.group(1)) if found else 0
    return GateEpisode.objects.filter(pk=number).select_related("relay").first() if number else None


def _batons(text: str) -> tuple[Baton, ...]:
    sha = sha_of(text)
    found = Baton.objects.filter(digest__startswith=sha) if sha else Baton.objects.none()
    return tuple(found.select_related("leg").defer("text").order_by("-pk")[:MOST])
