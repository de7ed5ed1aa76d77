"""From the outbox to the receivers: who wants to hear of a notice, and each attempt to tell them.

A notice goes to a channel once, however many subscribed and however many workers look: a worker claims a delivery by a
conditional update. What failed is tried again, later each time; after the last try it is dead, which a page shows.
"""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from relays.core import notify
from relays.core.lines import recorded
from relays.models import Channel, Delivery, Notice, Subscription
from relays.models.pulse import bump
from relays.notices import sending
from relays.reports.notifications import TOPIC
from relays.reports.roles import READ, may

#: how long after an attempt the next one is due; after the last of them it is dead
DELAYS: Final = tuple(timedelta(seconds=n) for n in (5, 20, 60, 300, 1200, 3600, 10800))
LOST: Final = timedelta(seconds=120)  # a claim so old is of a worker that died: no task runs for so long
AT_IT: Final = timedelta(seconds=30)  # nothing that is sent takes longer: a claim that is younger is at work
STALE: Final = timedelta(hours=24)  # what nobody sent for so long is not told any more
KEPT: Final = timedelta(days=30)
#: what is told once a month is known for longer: else the month's last day would find it untold
KEPT_MONTHLY: Final = timedelta(days=100)
#: messages that a service which people read gets in so long; what comes beyond goes together, once in `GATHER`
ALONE: Final = 10
WINDOW: Final = timedelta(minutes=10)
GATHER: Final = timedelta(seconds=60)
MOST_TOGETHER: Final = 500
#: a receiver that kept a worker waiting for so many seconds has its other notices wait as long as the failed one, at
#: most `PUT_OFF`: one that is silent never takes the turn of all others
SLOW: Final = 2.0
PUT_OFF: Final = timedelta(seconds=60)
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
    while spread(timezone.now()) and time.monotonic() < until:
        pass
    while time.monotonic() < until:
        due = list(_due(timezone.now()).values_list("pk", "attempts", "channel", "channel__kind")[:BATCH])
        if not due:
            break
        crowded: dict[int, bool] = {}
        for pk, attempts, channel, kind in due:
            if time.monotonic() > until:
                break
            if kind == Channel.Kind.APPRISE and channel not in crowded:
                crowded[channel] = _crowded(channel)
                if crowded[channel]:
                    sent += _together(channel)
            if not crowded.get(channel):
                sent += _one(pk, attempts)
    return sent


def _crowded(channel: int) -> bool:
    """Whether people who read there would be flooded, were each of what is due a message of its own."""
    now = timezone.now()
    lately = Delivery.objects.filter(channel=channel, state=Delivery.State.SENT, done_at__gt=now - WINDOW)
    return _due(now).filter(channel=channel).count() + lately.count() > ALONE


def _together(channel_id: int) -> int:
    """Send all that is due on a channel as one message, or put it off until the next one may go; how many were told."""
    now = timezone.now()
    last = Delivery.objects.filter(channel=channel_id, state=Delivery.State.SENT).order_by("-done_at").first()
    if last is not None and last.done_at is not None and last.done_at + GATHER > now:
        # those that a worker died with, too: what stays due would be looked at again at once, for the whole pass
        due_here = _due(now).order_by().filter(channel=channel_id)
        due_here.update(state=Delivery.State.WAITING, not_before=last.done_at + GATHER, claimed_at=None)
        return 0
    due = _due(now).filter(channel=channel_id).values_list("pk", "attempts")[:MOST_TOGETHER]
    keys = [pk for pk, attempts in list(due) if claim(pk, attempts, now)]
    rows = list(Delivery.objects.filter(pk__in=keys).select_related(*_WITH).order_by("notice"))
    rows = [row for row in rows if _wanted(row)]
    if not rows:
        return 0
    channel = rows[0].channel
    if channel.active and len(rows) == 1:
        answer = sending.send(rows[0], rows[0].notice, channel)
    elif channel.active:
        names = sorted({str(name) for row in rows for name in row.readers})
        answer = sending.send_together(names, [row.notice for row in rows], channel)
        answer = replace(
            answer, text=recorded("%(n)d notices in one message: %(answer)s", n=len(rows), answer=answer.text)
        )
    else:
        answer = _removed()
    finish(rows, answer)
    return len(rows) if answer.sent else 0


def spread(now: datetime) -> int:
    """Make the deliveries of the oldest notices that nobody looked at yet; how many notices that were."""
    site_channels()
    seen = 0
    for notice in Notice.objects.filter(spread_at__isnull=True).select_related("relay").order_by("pk")[:BATCH]:
        with transaction.atomic():
            if not Notice.objects.filter(pk=notice.pk, spread_at__isnull=True).update(spread_at=now):
                continue
            seen += 1
            if now - notice.at > STALE or notice.event == Notice.Event.TEST:
                continue
            found = _readers(notice)
            for channel, readers in found.items():
                Delivery.objects.create(notice=notice, channel=channel, readers=sorted(readers), not_before=now)
            if found:
                bump(TOPIC)
    return seen


def site_channels() -> None:
    """One channel for each address of NOTIFY_URLS; one whose address went is active no more."""
    keys = {notify.digest(settings.SECRET_KEY, f"site {url}"): url for url in settings.NOTIFY_URLS}
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
    delivery = Delivery.objects.select_related(*_WITH).get(pk=pk)
    if not _wanted(delivery):
        return False
    if delivery.channel.active:
        answer = sending.send(delivery, delivery.notice, delivery.channel)
    else:
        answer = _removed()
    finish([delivery], answer)
    return answer.sent


_WITH: Final = ("channel", "notice__relay__owner", "notice__owner")


def _removed() -> sending.Answer:
    return sending.Answer(False, recorded("its channel was removed"), final=True)


def _wanted(delivery: Delivery) -> bool:
    """Whether it is still to be told: hours may lie between what happened and a try. Else it is no delivery any more.

    Of those who asked somebody must be subscribed, let in, and allowed to look.
    """
    notice, channel = delivery.notice, delivery.channel
    if notice.event == Notice.Event.TEST or not channel.active:
        return True
    if channel.site:
        return True
    asked = Subscription.objects.filter(channel=channel, user__is_active=True, user__username__in=delivery.readers)
    if any(may(one.user, READ) for one in asked.select_related("user")):
        return True
    mine = Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.SENDING, attempts=delivery.attempts)
    with transaction.atomic():
        mine.delete()
        bump(TOPIC)
    return False


def finish(deliveries: Sequence[Delivery], answer: sending.Answer) -> None:
    """Keep what came of an attempt, unless another worker has taken it over meanwhile. All are of one channel."""
    now = timezone.now()
    with transaction.atomic():
        for delivery in deliveries:
            mine = Delivery.objects.filter(pk=delivery.pk, state=Delivery.State.SENDING, attempts=delivery.attempts)
            over = answer.final or delivery.attempts > len(DELAYS) or delivery.notice.event == Notice.Event.TEST
            if answer.sent or over:
                state = Delivery.State.SENT if answer.sent else Delivery.State.DEAD
                values = {"state": state, "done_at": now, "claimed_at": None}
            else:
                again = now + DELAYS[delivery.attempts - 1]
                values = {"state": Delivery.State.WAITING, "not_before": again, "claimed_at": None}
            mine.update(answer=answer.text[:500], **values)
        if not answer.sent and answer.waited > SLOW:
            _put_off(deliveries[0], now)
        bump(TOPIC)


def _put_off(failed: Delivery, now: datetime) -> None:
    """The others of a receiver that kept a worker waiting come later, and at last not at all."""
    later = now + min(DELAYS[min(failed.attempts, len(DELAYS)) - 1], PUT_OFF)
    others = Delivery.objects.filter(channel=failed.channel_id, state=Delivery.State.WAITING)
    others.filter(not_before__lt=later).update(not_before=later)
    # whose turn never came for a day: no news any more
    old = others.filter(attempts=0, notice__at__lt=now - STALE)
    old.update(state=Delivery.State.DEAD, done_at=now, answer=recorded("its receiver was silent for a day"))


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
        return sending.Answer(False, recorded("a test was sent a moment ago; look at the list below"))
    answer = sending.send(delivery, notice, channel)
    finish([delivery], answer)
    return answer


def again(pk: int) -> bool:
    """A dead delivery is tried once more, from the first attempt on; False where it is not dead."""
    values = {"state": Delivery.State.WAITING, "attempts": 0, "not_before": timezone.now(), "done_at": None}
    dead = Delivery.objects.filter(pk=pk, state=Delivery.State.DEAD, channel__active=True)
    return bool(dead.exclude(notice__event=Notice.Event.TEST).update(**values))


def prune(now: datetime) -> int:
    """Delete notices older than 30 days with what became of them, of budgets and months after 100; how many."""
    monthly = Q(event__in=(Notice.Event.BUDGET_WARNING, Notice.Event.MONTHLY_REPORT))
    over = (~monthly & Q(at__lt=now - KEPT)) | (monthly & Q(at__lt=now - KEPT_MONTHLY))
    old = list(Notice.objects.filter(over).order_by("pk").values_list("pk", flat=True)[:2000])
    return Notice.objects.filter(pk__in=old).delete()[0] if old else 0
