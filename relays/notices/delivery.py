"""From the outbox to the receivers: who wants to hear of a notice, and each attempt to tell them.

A notice goes to a channel once, however many subscribed and however many workers look: a worker claims a delivery by a
conditional update. What failed is tried again, later each time; after the last try it is dead, which a page shows.
"""

import logging
import time
from collections import defaultdict
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.core import notify
from relays.models import Channel, Delivery, Notice, Subscription
from relays.models.pulse import bump
from relays.notices import sending
from relays.reports.notifications import TOPIC
from relays.reports.roles import READ, may

log = logging.getLogger(__name__)

#: how long after an attempt the next one is due; after the last of them it is dead
DELAYS: Final = tuple(timedelta(seconds=n) for n in (5, 20, 60, 300, 1200, 3600, 10800))
LOST: Final = timedelta(seconds=120)  # a claim so old is of a worker that died: no task runs for so long
AT_IT: Final = timedelta(seconds=30)  # nothing that is sent takes longer: a claim that is younger is at work
STALE: Final = timedelta(hours=24)  # what nobody sent for so long is not told any more
KEPT: Final = timedelta(days=30)
BATCH: Final = 50
PASS_TAKES: Final = 20.0  # seconds; the workers drive relays too


def step(seconds: float = PASS_TAKES) -> int:
    """One look: spread what is new, send what is due; how many were sent.

    While another worker sends, this one goes back to its relays: a slow receiver never takes all of them.
    """
    now = timezone.now()
    if Delivery.objects.filter(state=Delivery.State.SENDING, claimed_at__gt=now - AT_IT).exists():
        return 0
    return work(seconds)


def work(seconds: float = PASS_TAKES) -> int:
    """The same beside others who do it too."""
    until, sent = time.monotonic() + seconds, 0
    spread(timezone.now())
    while time.monotonic() < until:
        due = list(_due(timezone.now()).values_list("pk", "attempts")[:BATCH])
        if not due:
            break
        for pk, attempts in due:
            if time.monotonic() > until:
                break
            sent += _one(pk, attempts)
    return sent


def spread(now: datetime) -> int:
    """Make the deliveries of notices that nobody looked at yet; how many there are to make."""
    site_channels()
    made = 0
    for notice in Notice.objects.filter(spread_at__isnull=True).select_related("relay").order_by("pk")[:BATCH]:
        with transaction.atomic():
            if not Notice.objects.filter(pk=notice.pk, spread_at__isnull=True).update(spread_at=now):
                continue
            if now - notice.at > STALE or notice.event == Notice.Event.TEST:
                continue
            for channel, readers in _readers(notice).items():
                Delivery.objects.create(notice=notice, channel=channel, readers=sorted(readers), not_before=now)
                made += 1
            if made:
                bump(TOPIC)
    return made


def site_channels() -> None:
    """One channel for each address of NOTIFY_URLS; one whose address went is active no more."""
    keys = {notify.digest(f"site {url}"): url for url in settings.NOTIFY_URLS}
    known = {row.key: row for row in Channel.objects.filter(site=True)}
    for key, url in keys.items():
        if key not in known:
            found = notify.parse(url)
            values = {
                "name": "NOTIFY_URLS", "kind": found.kind, "shown": found.shown, "salt": key, "site": True,
                "created_at": timezone.now(),
            }  # fmt: skip
            Channel.objects.get_or_create(key=key, defaults=values)
        elif not known[key].active:
            Channel.objects.filter(pk=known[key].pk).update(active=True)
    gone = [row.pk for key, row in known.items() if key not in keys and row.active]
    if gone:
        Channel.objects.filter(pk__in=gone).update(active=False)


def _readers(notice: Notice) -> dict[Channel, set[str]]:
    """The channels that a notice goes to, with the names of those who asked; the site's have none."""
    found: dict[Channel, set[str]] = defaultdict(set)
    if not (notice.event == Notice.Event.MONTHLY_REPORT and notice.owner_id):
        for channel in Channel.objects.filter(site=True, active=True):
            found[channel] = set()
    asked = Subscription.objects.filter(channel__active=True, user__is_active=True, created_at__lte=notice.at)
    for one in asked.select_related("channel", "user").order_by("pk"):
        if notice.event in one.events and wants(one, notice) and may(one.user, READ):
            found[one.channel].add(one.user.get_username())
    return found


def wants(one: Subscription, notice: Notice) -> bool:
    """Whether the scope of a subscription covers a notice."""
    if one.scope == Subscription.Scope.RELAY:
        return one.relay_id is not None and one.relay_id == notice.relay_id
    if notice.event == Notice.Event.MONTHLY_REPORT:  # the fleet's for who hears of all, else one's own
        mine = one.scope == Subscription.Scope.MINE and notice.owner_id == one.user_id
        return mine if notice.owner_id else one.scope == Subscription.Scope.ALL
    owner = notice.owner_id or (notice.relay.owner_id if notice.relay else None)
    return one.scope == Subscription.Scope.ALL or owner is None or owner == one.user_id


def _due(now: datetime) -> QuerySet[Delivery]:
    lost = Q(state=Delivery.State.SENDING, claimed_at__lte=now - LOST)
    return Delivery.objects.filter(lost | Q(state=Delivery.State.WAITING, not_before__lte=now)).order_by(
        "not_before", "pk"
    )


def claim(pk: int, attempts: int, now: datetime) -> bool:
    """Whether this worker may send it: the one conditional update that makes it one."""
    return bool(
        _due(now)
        .order_by()
        .filter(pk=pk, attempts=attempts)
        .update(state=Delivery.State.SENDING, attempts=F("attempts") + 1, claimed_at=now)
    )


def _one(pk: int, attempts: int) -> bool:
    if not claim(pk, attempts, timezone.now()):
        return False
    delivery = Delivery.objects.select_related("channel", "notice__relay__owner", "notice__owner").get(pk=pk)
    if delivery.channel.active:
        try:
            answer = sending.send(delivery, delivery.notice, delivery.channel)
        except Exception as error:  # noqa: BLE001 - one that cannot be sent keeps no other from its turn
            log.exception("notice %s on channel %s could not be sent", delivery.notice_id, delivery.channel_id)
            answer = sending.Answer(
                False, _("%(error)s: it could not be sent; see the worker's log") % {"error": type(error).__name__}
            )
    else:
        answer = sending.Answer(False, _("its channel was removed"), final=True)
    finish(delivery, answer)
    return answer.sent


def finish(delivery: Delivery, answer: sending.Answer) -> None:
    """Keep what came of an attempt, unless another worker has taken it over meanwhile."""
    now = timezone.now()
    mine = Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.SENDING, attempts=delivery.attempts)
    over = answer.final or delivery.attempts > len(DELAYS) or delivery.notice.event == Notice.Event.TEST
    if answer.sent or over:
        state = Delivery.State.SENT if answer.sent else Delivery.State.DEAD
        values = {"state": state, "done_at": now, "claimed_at": None}
    else:
        again = now + DELAYS[delivery.attempts - 1]
        values = {"state": Delivery.State.WAITING, "not_before": again, "claimed_at": None}
    with transaction.atomic():
        mine.update(answer=answer.text[:500], **values)
        bump(TOPIC)


def test(channel: Channel, reader: str) -> sending.Answer:
    """Send a test now and say what came back; it is kept like every other delivery."""
    now = timezone.now()
    try:
        with transaction.atomic():
            # one a second and channel: a double press is one test
            key = f"test:{channel.pk}:{int(now.timestamp())}"
            notice = Notice.objects.create(event=Notice.Event.TEST, key=key, at=now, spread_at=now)
            delivery = Delivery.objects.create(
                notice=notice, channel=channel, readers=[reader], not_before=now, state=Delivery.State.SENDING,
                attempts=1, claimed_at=now,
            )  # fmt: skip
    except IntegrityError:
        return sending.Answer(False, _("a test was sent a moment ago; look at the list below"))
    answer = sending.send(delivery, notice, channel)
    finish(delivery, answer)
    return answer


def again(pk: int) -> bool:
    """A dead delivery is tried once more, from the first attempt on; False where it is not dead."""
    values = {"state": Delivery.State.WAITING, "attempts": 0, "not_before": timezone.now(), "done_at": None}
    dead = Delivery.objects.filter(pk=pk, state=Delivery.State.DEAD, channel__active=True)
    return bool(dead.exclude(notice__event=Notice.Event.TEST).update(**values))


def prune(now: datetime) -> int:
    """Delete notices older than 30 days with what became of them; how many."""
    old = list(Notice.objects.filter(at__lt=now - KEPT).order_by("pk").values_list("pk", flat=True)[:2000])
    return Notice.objects.filter(pk__in=old).delete()[0] if old else 0
