"""`/notifications/`: what a person is told of and where, the channels of the site, and what became of each notice."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import Count, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from relays.models import Channel, Delivery, Notice, Subscription
from relays.reports.roles import ADMINISTER, may

TOPIC = "notices"
SHOWN = 50
LOOKED = 500  # deliveries among which a person's own are looked for
RECENT = timedelta(days=7)

#: what a person can choose to hear of
EVENTS = {
    Notice.Event.GATE_OPENED: _("a relay waits for a person"),
    Notice.Event.GATE_DECIDED: _("a gate was approved, refused, has expired, or needs nobody any more"),
    Notice.Event.GATE_CONFIRMED: _("the new leg of an approved gate was seen"),
    Notice.Event.RELAY_DONE: _("a relay reached its goal"),
    Notice.Event.BUDGET_WARNING: _("a budget is nearly spent: of a relay, or of an owner's month"),
    Notice.Event.MONTHLY_REPORT: _("what relays cost in the month that ended"),
}
WORDS = {str(event): words for event, words in [*EVENTS.items(), (Notice.Event.TEST, _("a test"))]}


@dataclass(frozen=True, slots=True)
class Mine:
    row: Subscription
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Place:
    """A channel with how its deliveries of the last week went."""

    row: Channel
    readers: int
    sent: int
    dead: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Told:
    row: Delivery
    what: str
    address: tuple[str, object] | None


@dataclass(frozen=True, slots=True)
class Page:
    """`open`: the channels that one may subscribe to; `places`: all of them, for an admin."""

    mine: tuple[Mine, ...]
    open: tuple[Channel, ...]
    places: tuple[Place, ...]
    told: tuple[Told, ...]
    dead: int


def notifications(user: User) -> Page:
    """Seven queries at most."""
    admin = may(user, ADMINISTER)
    mine = Subscription.objects.filter(user=user).select_related("channel", "relay")
    channels = list(Channel.objects.filter(active=True))
    told = told_to(user, all_of_them=admin)
    return Page(
        mine=tuple(Mine(row, tuple(str(WORDS.get(event, event)) for event in row.events)) for row in mine),
        open=tuple(row for row in channels if not row.site),
        places=_places(channels) if admin else (),
        told=told,
        dead=sum(one.row.state == Delivery.State.DEAD for one in told),
    )


def told_to(user: User, *, all_of_them: bool) -> tuple[Told, ...]:
    """The newest deliveries: an admin's are everybody's, else those that the person asked for."""
    rows = Delivery.objects.select_related("notice", "channel").order_by("-pk")
    found = list(rows[:SHOWN] if all_of_them else rows[:LOOKED])
    if not all_of_them:
        found = [row for row in found if user.get_username() in row.readers][:SHOWN]
    return tuple(Told(row, str(WORDS.get(row.notice.event, row.notice.event)), _address(row.notice)) for row in found)


def dead_recently(now: datetime | None = None) -> int:
    """Notices of the last week that could not be delivered: what Health warns of. One query."""
    since = (now or timezone.now()) - RECENT
    dead = Delivery.objects.filter(state=Delivery.State.DEAD, done_at__gte=since)
    return dead.exclude(notice__event=Notice.Event.TEST).count()


def links_lead_nowhere() -> bool:
    """Whether notices go out with links to this very machine (PUBLIC_URL was not set). One query at most."""
    host = (urlsplit(settings.PUBLIC_URL).hostname or "").rstrip(".")
    local = host == "localhost" or host.endswith(".localhost") or host.startswith("127.") or host == "::1"
    return local and any(not _is_local(row.shown) for row in Channel.objects.filter(active=True))


def _is_local(shown: str) -> bool:
    """Whether a channel is a receiver on this machine, which reads such links rightly."""
    return shown.partition("://")[2].startswith(("127.", "localhost", "[::1]"))


def _address(notice: Notice) -> tuple[str, object] | None:
    if notice.gate_id:
        return "gate", notice.gate_id
    return ("relay", notice.relay_id) if notice.relay_id else None


def _places(channels: list[Channel]) -> tuple[Place, ...]:
    since = timezone.now() - RECENT
    keys = [row.pk for row in channels]
    rows = Delivery.objects.filter(channel__in=keys, notice__at__gte=since).order_by()
    states = Counter({(pk, state): n for pk, state, n in rows.values_list("channel", "state").annotate(n=Count("pk"))})
    asked = Subscription.objects.filter(Q(user__is_active=True), channel__in=keys).order_by()
    readers = dict(asked.values_list("channel").annotate(n=Count("user", distinct=True)))
    return tuple(
        Place(
            row,
            readers.get(row.pk, 0),
            states[row.pk, Delivery.State.SENT],
            states[row.pk, Delivery.State.DEAD],
            states[row.pk, Delivery.State.WAITING] + states[row.pk, Delivery.State.SENDING],
        )
        for row in channels
    )
