"""What the page of the fleet's cost was asked for, out of its address, and which stored rows that means.

Interface, page 7: "by day, model, relay, owner"; days are cut in the fleet's one time zone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from django.db.models import Count, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.models import DayCost, Leg

DAYS = 30  # that the page shows before a range is chosen
KINDS = ("relay", "session")


@dataclass(frozen=True, slots=True)
class Query:
    """What the page was asked for; days are of the fleet's zone, `None` = open. `problems`: field -> what is wrong."""

    since: date | None
    until: date | None
    kind: str = ""
    model: str = ""
    agent: str = ""
    repo: str = ""
    owner: str = ""
    scripted: bool = False
    page: int = 1
    everything: bool = False  # all days, also calls without a time
    problems: tuple[tuple[str, str], ...] = ()

    @property
    def filtered(self) -> bool:
        return any((self.kind, self.model, self.agent, self.repo, self.owner, self.scripted))


def clean_query(values: Mapping[str, str], today: date) -> Query:
    """A query from untrusted text; a day that is none is told beside its field, other unknown words are dropped."""

    def word(name: str, most: int) -> str:
        return "".join(char for char in values.get(name, "") if char.isprintable()).strip()[:most]

    problems: list[tuple[str, str]] = []
    everything = word("range", 5) == "all"
    since, until = _day(word("since", 40), "since", problems), _day(word("until", 40), "until", problems)
    if since and until and since > until:
        problems.append(
            (
                "until",
                _("%(until)s is before %(since)s: choose a day on or after it") % {"until": until, "since": since},
            )
        )
        until = None
    if since is None and until is None and not everything:
        since = today - timedelta(days=DAYS - 1)
    page, kind = word("page", 9), word("kind", 10)
    return Query(
        since=None if everything else since, until=None if everything else until,
        kind=kind if kind in KINDS else "", model=word("model", 120), agent=word("agent", 40), repo=word("repo", 4096),
        owner=word("owner", 150), scripted=word("scripted", 1) == "1",
        page=int(page) if page.isascii() and page.isdecimal() and int(page) else 1, everything=everything,
        problems=tuple(problems),
    )  # fmt: skip


def _day(text: str, field: str, problems: list[tuple[str, str]]) -> date | None:
    if not text:
        return None
    try:
        found = date.fromisoformat(text) if len(text) == 10 else None
    except ValueError:
        found = None
    # the ends of the calendar have no midnight in every zone
    if found is None or not 1 < found.year < 9999:
        problems.append((field, _("%(text)s is no day: write it as 2026-11-30") % {"text": repr(text[:20])}))
        return None
    return found


def matching(query: Query, *, scripted: bool | None = None) -> QuerySet[DayCost]:
    found = DayCost.objects.filter(scripted=query.scripted if scripted is None else scripted)
    if query.since:
        found = found.filter(day__gte=query.since)
    if query.until:
        found = found.filter(day__lte=query.until)
    for field, value in (
        ("kind", query.kind), ("model", query.model), ("agent", query.agent), ("repository", query.repo),
        ("owner__username", query.owner),
    ):  # fmt: skip
        if value:
            found = found.filter(**{field: value})
    return found


def matching_legs(query: Query) -> QuerySet[Leg]:
    """Legs that ended in this time, with the same filters: where verified progress is counted."""
    found = Leg.objects.filter(progress__isnull=False, scripted=query.scripted)
    if query.kind == "session":
        return found.none()
    if query.since:
        found = found.filter(ended_at__gte=midnight(query.since))
    if query.until:
        found = found.filter(ended_at__lt=midnight(query.until + timedelta(days=1)))
    for field, value in (
        ("model", query.model), ("relay__agent", query.agent), ("relay__repo", query.repo),
        ("relay__owner__username", query.owner),
    ):  # fmt: skip
        if value:
            found = found.filter(**{field: value})
    # one model's money over units that others worked for, too, would flatter it
    return found.exclude(pk__in=mixed_legs()) if query.model else found


def mixed_legs() -> QuerySet[Any]:
    """Keys of legs that worked with more than one model, sub-agents included."""
    found = DayCost.objects.filter(leg__isnull=False).order_by().values("leg").annotate(n=Count("model", distinct=True))
    return found.filter(n__gt=1).values("leg")


def fleet_day() -> date:
    """Today in the fleet's zone, whatever the viewer's: days are cut there."""
    return timezone.localdate(timezone=timezone.get_default_timezone())


def midnight(day: date) -> datetime:
    return timezone.make_aware(datetime(day.year, day.month, day.day), timezone.get_default_timezone())
