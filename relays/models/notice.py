"""Notices: what happened that people want to hear of, who wants to hear it where, and each attempt to tell them.

Interface, Outgoing: "webhook and Apprise notifications on gate opened / decided / relay done, signed, retried, with
deep link". A notice is written in the transaction of what it tells; workers deliver it after the commit.
"""

from django.conf import settings
from django.db import models


class Channel(models.Model):
    """A place that notices are sent to. Only an admin makes one: an address typed by a person is a door into the net.

    No secret of a webhook is stored: it is derived from SECRET_KEY and `salt`. `url` may hold one (an Apprise address
    often does), so it lies here sealed (`relays.notices.sealed`), and pages show `shown` only. A channel of NOTIFY_URLS
    has no `url`: it is found by `key` in the setting.
    """

    class Kind(models.TextChoices):
        WEBHOOK = "webhook"
        APPRISE = "apprise"

    name = models.CharField(max_length=80)
    kind = models.CharField(max_length=8, choices=Kind)
    url = models.TextField(default="", blank=True)
    shown = models.CharField(max_length=200)
    key = models.CharField(max_length=64, unique=True)  # keyed digest of the address, the site's marked as such
    salt = models.CharField(max_length=64)
    site = models.BooleanField(default=False)  # named by NOTIFY_URLS: it gets every event
    active = models.BooleanField(default=True)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name", "id"]
        constraints = [
            models.CheckConstraint(condition=models.Q(kind__in=["webhook", "apprise"]), name="channel_kind_closed")
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.shown})"


class Subscription(models.Model):
    """What one person wants to hear on one channel: which events, of which relays."""

    class Scope(models.TextChoices):
        ALL = "all"
        MINE = "mine"  # relays that the person started
        RELAY = "relay"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="subscriptions")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="subscriptions")
    scope = models.CharField(max_length=5, choices=Scope)
    relay = models.ForeignKey("relays.Relay", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    events = models.JSONField(default=list)
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["channel", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "channel", "scope"],
                condition=models.Q(relay__isnull=True),
                name="subscription_scope_once",
            ),
            models.UniqueConstraint(fields=["user", "channel", "relay"], name="subscription_relay_once"),
            models.CheckConstraint(
                condition=models.Q(scope="relay", relay__isnull=False)
                | (models.Q(scope__in=["all", "mine"]) & models.Q(relay__isnull=True)),
                name="subscription_relay_iff_scope",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user_id} on {self.channel_id}: {self.scope}"


class Notice(models.Model):
    """One thing that happened: the outbox, written with what it tells and unique by `key`, however often it is told."""

    class Event(models.TextChoices):
        GATE_OPENED = "gate_opened"
        GATE_DECIDED = "gate_decided"
        GATE_CONFIRMED = "gate_confirmed"
        RELAY_DONE = "relay_done"
        BUDGET_WARNING = "budget_warning"
        MONTHLY_REPORT = "monthly_report"
        TEST = "test"

    event = models.CharField(max_length=16, choices=Event)
    key = models.CharField(max_length=120, unique=True)
    relay = models.ForeignKey("relays.Relay", null=True, on_delete=models.CASCADE, related_name="notices")
    gate = models.ForeignKey("relays.GateEpisode", null=True, on_delete=models.CASCADE, related_name="+")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="+")
    detail = models.JSONField(default=dict)
    at = models.DateTimeField()
    spread_at = models.DateTimeField(null=True, blank=True)  # when its deliveries were made

    class Meta:
        ordering = ["id"]
        indexes = [
            models.Index(fields=["spread_at", "id"], name="notice_to_spread"),
            models.Index(fields=["at"], name="notice_age"),
        ]

    def __str__(self) -> str:
        return self.key


class Delivery(models.Model):
    """One notice on one channel: once, whoever subscribed and however many workers look.

    A worker claims it by a conditional update (`waiting` to `sending`). One that died while sending leaves it unknown
    whether it arrived: it is sent again under the same number, by which a receiver knows it.
    """

    class State(models.TextChoices):
        WAITING = "waiting"
        SENDING = "sending"
        SENT = "sent"
        DEAD = "dead"

    notice = models.ForeignKey(Notice, on_delete=models.CASCADE, related_name="deliveries")
    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    readers = models.JSONField(default=list)  # names of whose subscriptions asked for it; empty: the site's
    state = models.CharField(max_length=7, choices=State, default=State.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField()
    claimed_at = models.DateTimeField(null=True, blank=True)
    answer = models.CharField(max_length=500, default="", blank=True)  # what the receiver said, or why it was not sent
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["notice", "channel"], name="delivery_once"),
            models.CheckConstraint(
                condition=models.Q(state__in=["waiting", "sending", "sent", "dead"]), name="delivery_state_closed"
            ),
        ]
        indexes = [models.Index(fields=["state", "not_before"], name="delivery_due")]

    def __str__(self) -> str:
        return f"{self.notice_id} on {self.channel_id}: {self.state}"
