"""Each compaction of a session as the calls around it show it: what the engine's parameters are learned from.

Only what calls show is kept: figures that an agent declares of its own compactions are 3-5 times too low (sessions.md).
"""

from typing import Any, Final

from relays.core.learning import MeasuredCut
from relays.core.usage import resident
from relays.costs import faithful, streams
from relays.models import CostDue, Session, SessionBoundary

#: sessions that are learned from: programs change, and the newest tell most
MOST: Final = 500
_AUTOMATIC = {"auto": True, "manual": False}


def cuts_of(session: Session) -> list[dict[str, Any]]:
    """JSON, one a compaction: {"before", "after", "window", "came", "base" or null, "kept", "reread" or null,

    "automatic": true, false or null, "again": [files that the window held, of them read again] or null}, tokens.
    """
    seen = streams.of_session(session)
    stream = seen.stream
    if stream is None:
        return []
    told = SessionBoundary.objects.filter(session=session, shown=True, counts=True, kind="compaction")
    triggers = [_AUTOMATIC.get(one) for one in told.order_by("after_call", "line").values_list("trigger", flat=True)]
    base = None if began_inherited(session) else resident(seen.calls[0].buckets)
    again = faithful.cuts_of(session, seen.keys, stream.cuts)
    found = []
    for number, (cut, (before, after), reread) in enumerate(zip(stream.cuts, stream.after, stream.reread, strict=True)):
        found.append(
            {
                "before": before,
                "after": after,
                "window": session.window_tokens,
                "came": seen.calls[cut - 1].buckets.output,
                "base": base,
                "kept": min(seen.calls[cut].buckets.cache_read, after),
                "reread": reread,
                "again": list(again[number] or ()) or None,
                "automatic": triggers[number] if number < len(triggers) else None,
            }
        )
    return found


def began_inherited(session: Session) -> bool:
    """Whether its first own call carries a conversation of another session: then that call shows no base."""
    return bool(session.copied_calls or session.copy_hint or session.parent)


def rows(agent: str = "") -> list[MeasuredCut]:
    """Measured compactions of the newest sessions of the site, or of one agent's. One query, of no call."""
    kept = CostDue.objects.filter(compactions__gt=0).order_by("-session__last_at", "-session_id")
    if agent:
        kept = kept.filter(session__agent=agent)
    found: list[MeasuredCut] = []
    columns = ("session__sid", "session__agent", "session__version", "cuts")
    for sid, whose, version, cuts in kept.values_list(*columns)[:MOST]:
        for cut in cuts:
            found.append(
                MeasuredCut(
                    source=sid, agent=whose, version=version, before=cut["before"], after=cut["after"],
                    window=cut["window"], came=cut["came"], base=cut["base"], kept=cut["kept"],
                    reread=cut["reread"], automatic=cut["automatic"],
                )
            )  # fmt: skip
    return found
