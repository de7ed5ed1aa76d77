"""What the hooks of a session said: signals for its shadow relay, beside what the transcript shows.

Rules, Advisory before enforcement: "Sessions that nobody drives are always shadow". The hint is the hook's, the truth
is the transcript's boundary.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Exists, Max, OuterRef, Sum
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from relays.models import HookEvent, HookFollow, HookTally, Session

SHOWN = 20
UNREAD = 5
_WORDS = {
    "would_rotate": gettext_noop("would rotate here"),
    "compacted": gettext_noop("compacted"),
    "failed": gettext_noop("failed"),
    "ended": gettext_noop("ended"),
}


@dataclass(frozen=True, slots=True)
class SignalLine:
    """One signal. `words`: what it means; `why`: the event's own word for it."""

    at: datetime
    event: str
    signal: str
    words: str
    why: str
    blocked: bool


@dataclass(frozen=True, slots=True)
class Signals:
    """`lines`: the newest signals; `events`: each event with how many, known or not; `follows`: an import's number."""

    lines: tuple[SignalLine, ...]
    total: int
    events: tuple[tuple[str, int, bool], ...]
    calls: int
    last_at: datetime | None
    follows: int | None


@dataclass(frozen=True, slots=True)
class Tallies:
    """Calls of the last day over all tokens, and of those without one that stands."""

    kept: int
    dropped: int
    torn: int
    refused: int
    unread: tuple[str, ...]  # sessions that called and whose file was never read, UNREAD at most


def signals(session: Session) -> Signals | None:
    """None where no hook ever named the session. Three queries."""
    mine = HookEvent.objects.filter(agent=session.agent, sid=session.sid)
    found = list(
        mine.order_by().values_list("event", "known").annotate(n=Count("id"), last=Max("at")).order_by("-n", "event")
    )
    if not found:
        return None
    told = mine.exclude(signal="")
    lines = [
        SignalLine(row.at, row.event, row.signal, _(_WORDS[row.signal]), _why(row), row.blocked)
        for row in told.order_by("-at", "-id")[: SHOWN + 1]
    ]
    follow = HookFollow.objects.filter(agent=session.agent, sid=session.sid).values_list("job", flat=True).first()
    return Signals(
        lines=tuple(lines[:SHOWN]),
        total=told.count() if len(lines) > SHOWN else len(lines),
        events=tuple((event, n, known) for event, known, n, _ in found),
        calls=sum(n for _, _, n, _ in found),
        last_at=max(last for *_, last in found),
        follows=follow,
    )


def tallies(now: datetime) -> Tallies:
    """Two queries."""
    day = now - timedelta(days=1)
    read = Session.objects.filter(agent=OuterRef("agent"), sid=OuterRef("sid"))
    called = HookEvent.objects.filter(~Exists(read), at__gte=day).order_by("sid").values_list("sid", flat=True)
    since = HookTally.objects.filter(minute__gte=day)
    sums = since.aggregate(kept=Sum("kept"), dropped=Sum("dropped"), torn=Sum("torn"), refused=Sum("refused"))
    return Tallies(**{name: value or 0 for name, value in sums.items()}, unread=tuple(called.distinct()[:UNREAD]))


def _why(row: HookEvent) -> str:
    said = row.said if isinstance(row.said, dict) else {}
    found = (said.get(name) for name in ("trigger", "reason", "error", "source", "tool_name"))
    return str(next(filter(None, found), ""))
