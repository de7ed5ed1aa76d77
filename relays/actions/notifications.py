"""A person chooses what they are told of; an admin makes the channels, since an address is a door into the net."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from relays.actions.base import Actor, NotFound, NotLegalNow, NotPermitted, Usage, need, record, relay_or_refuse
from relays.core import notify
from relays.models import Channel, Delivery, Subscription
from relays.models.pulse import bump
from relays.notices import delivery as delivering
from relays.notices import sealed
from relays.notices.sending import Answer
from relays.reports import roles
from relays.reports.notifications import EVENTS, TOPIC
from relays.reports.sentences import refused

NAME_LENGTH = 80
MOST = 50  # channels of a site, and subscriptions of a person


@dataclass(frozen=True, slots=True)
class Made:
    """A channel, and the secret that its webhooks are signed with: "" for Apprise. Shown once."""

    channel: Channel
    secret: str


def add_channel(actor: Actor, *, name: str, url: str) -> Made:
    """Raises NotPermitted (no admin), Usage (a name or an address that is none), NotLegalNow (there, or too many)."""
    need(actor, roles.ADMINISTER, _("make a channel"))
    name, url = name.strip(), url.strip()
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise Usage(
            _("channel: its name is one line of 1 to %(name_length)s printable characters; say who reads it")
            % {"name_length": NAME_LENGTH}
        )
    try:
        found = notify.parse(url)
    except notify.AddressError as error:
        raise Usage(_("channel %(name)s: %(error)s") % {"name": name, "error": refused(error)}) from error
    now, key = timezone.now(), notify.digest(settings.SECRET_KEY, url)
    with transaction.atomic():
        if Channel.objects.filter(active=True).count() >= MOST:
            raise NotLegalNow(
                _("channel %(name)s: there are %(most)s channels; remove one first") % {"name": name, "most": MOST}
            )
        row = Channel.objects.filter(key=key, site=False).first()
        if row is not None and row.active:
            raise NotLegalNow(
                _("channel %(name)s: channel %(row)s has this address; subscribe to that one")
                % {"name": name, "row": repr(row.name)}
            )
        values = {"name": name, "salt": secrets.token_hex(16), "active": True, "made_by": actor.user,
                  "url": sealed.seal(url)}  # fmt: skip
        if row is None:
            fixed = {"kind": found.kind, "shown": found.shown, "created_at": now}
            row, made = Channel.objects.get_or_create(key=key, defaults={**fixed, **values})
            if not made:  # another admin made it at the same moment
                raise NotLegalNow(
                    _("channel %(name)s: channel %(row)s has this address; subscribe to that one")
                    % {"name": name, "row": repr(row.name)}
                )
        else:
            Channel.objects.filter(pk=row.pk).update(**values)
            row.refresh_from_db()
        record(actor, "channel", now=now, detail={"channel": row.pk, "name": name, "to": found.shown})
        bump(TOPIC)
    return Made(row, _secret(row))


def new_secret(actor: Actor, channel_id: object) -> Made:
    """Sign a webhook with another secret from now on; what was shown before is of no use any more."""
    need(actor, roles.ADMINISTER, _("change a channel"))
    row = _channel(channel_id)
    if row.kind != Channel.Kind.WEBHOOK:
        raise NotLegalNow(_("channel %(row)s: only a webhook is signed") % {"row": row.name})
    with transaction.atomic():
        Channel.objects.filter(pk=row.pk).update(salt=secrets.token_hex(16))
        record(actor, "channel_secret", now=timezone.now(), detail={"channel": row.pk, "name": row.name})
    row.refresh_from_db()
    return Made(row, _secret(row))


def remove_channel(actor: Actor, channel_id: object) -> Channel:
    """Nothing is sent there any more; its address is forgotten, what was sent stays known."""
    need(actor, roles.ADMINISTER, _("remove a channel"))
    row = _channel(channel_id)
    if row.site:
        raise NotLegalNow(
            _("channel %(row)s: it stands in the setting NOTIFY_URLS; take it out there and start anew")
            % {"row": row.name}
        )
    with transaction.atomic():
        if not Channel.objects.filter(pk=row.pk, active=True).update(active=False, url=""):
            raise NotLegalNow(_("channel %(row)s: it is removed already; nothing was changed") % {"row": row.name})
        Subscription.objects.filter(channel=row).delete()
        record(actor, "remove_channel", now=timezone.now(), detail={"channel": row.pk, "name": row.name})
        bump(TOPIC)
    return row


def subscribe(
    actor: Actor, channel_id: object, *, scope: str, events: Sequence[str], relay_id: str = ""
) -> Subscription:
    """Be told of these events on a channel: of all relays, of one's own, or of one. Chosen again, it replaces that."""
    need(actor, roles.READ, _("subscribe"))
    row = _channel(channel_id)
    if row.site:
        raise NotLegalNow(_("channel %(row)s: it gets every event already") % {"row": row.name})
    chosen = [event for event in EVENTS if event in events]
    if not chosen or len(chosen) != len(set(events)):
        raise Usage(_("subscribe: choose at least one of %(events)s") % {"events": ", ".join(EVENTS)})
    if scope not in Subscription.Scope.values:
        raise Usage(_("subscribe: scope %(scope)s is not known; take all, mine or relay") % {"scope": repr(scope[:20])})
    relay = relay_or_refuse(relay_id.strip()) if scope == Subscription.Scope.RELAY else None
    with transaction.atomic():
        key: dict[str, Any] = {"user": actor.user, "channel": row, "scope": scope, "relay": relay}
        if not Subscription.objects.filter(**key).exists():
            if Subscription.objects.filter(user=actor.user).count() >= MOST:
                raise NotLegalNow(_("subscribe: you have %(most)s subscriptions; remove one first") % {"most": MOST})
        values = {"events": [str(event) for event in chosen], "created_at": timezone.now()}
        try:
            found, _made = Subscription.objects.update_or_create(**key, defaults=values)
        except IntegrityError as error:
            raise NotLegalNow(_("subscribe: it was chosen in another window at this moment; look again")) from error
        bump(TOPIC)
    return found


def unsubscribe(actor: Actor, subscription_id: object) -> None:
    """Of one's own only. Raises NotFound."""
    need(actor, roles.READ, _("unsubscribe"))
    pk = _number(subscription_id)
    if not Subscription.objects.filter(pk=pk, user=actor.user).delete()[0]:
        raise NotFound(
            _("subscription %(subscription_id)s is not one of yours; nothing was changed")
            % {"subscription_id": repr(str(subscription_id)[:40])}
        )
    bump(TOPIC)


def test(actor: Actor, channel_id: object) -> Answer:
    """Send a test now: an admin to any channel, others to those that they are subscribed to."""
    need(actor, roles.READ, _("test a channel"))
    row = _channel(channel_id)
    if not _may_see(actor.user, row):
        raise NotPermitted(_("test %(row)s: subscribe to it first, or ask an admin") % {"row": row.name})
    return delivering.test(row, actor.user.get_username())


def again(actor: Actor, delivery_id: object) -> Delivery:
    """Try a dead delivery once more from the start: an admin any, others their own."""
    need(actor, roles.READ, _("send again"))
    row = Delivery.objects.select_related("channel").filter(pk=_number(delivery_id)).first()
    if row is None or not (roles.may(actor.user, roles.ADMINISTER) or actor.user.get_username() in row.readers):
        raise NotFound(
            _("delivery %(delivery_id)s is not known here; the page Notifications lists them")
            % {"delivery_id": repr(str(delivery_id)[:40])}
        )
    with transaction.atomic():
        if not delivering.again(row.pk):
            raise NotLegalNow(
                _("delivery %(row)s: it is %(state)s; only a dead one of a channel that stands goes again")
                % {"row": row.pk, "state": _(row.state)}
            )
        bump(TOPIC)
    return row


def _may_see(user: User, row: Channel) -> bool:
    return roles.may(user, roles.ADMINISTER) or Subscription.objects.filter(user=user, channel=row).exists()


def _secret(row: Channel) -> str:
    return notify.secret_of(settings.SECRET_KEY, row.salt) if row.kind == Channel.Kind.WEBHOOK else ""


def _number(given: object) -> int:
    text = str(given)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else 0


def _channel(channel_id: object) -> Channel:
    row = Channel.objects.filter(pk=_number(channel_id), active=True).first()
    if row is None:
        raise NotFound(
            _("channel %(channel_id)s is not known here; the page Notifications lists them")
            % {"channel_id": repr(str(channel_id)[:40])}
        )
    return row
