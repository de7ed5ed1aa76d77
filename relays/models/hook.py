"""What programs that nobody drives said through their hooks, as it came, and how much of it was not kept."""

from django.conf import settings
from django.db import models

from relays.models.token import ApiToken


class HookEvent(models.Model):
    """One hook call: names, ids and places only. No prompt, no tool's input or answer: texts are the transcript's."""

    class Signal(models.TextChoices):
        NONE = ""
        WOULD_ROTATE = "would_rotate"  # before a compaction: a relay would rotate here
        COMPACTED = "compacted"
        FAILED = "failed"
        ENDED = "ended"

    token = models.ForeignKey(ApiToken, null=True, on_delete=models.SET_NULL, related_name="+")
    agent = models.CharField(max_length=20)  # as Session.agent
    sid = models.CharField(max_length=200)  # as Session.sid; its session may be read later
    event = models.CharField(max_length=40)
    known = models.BooleanField(default=True)
    signal = models.CharField(max_length=12, choices=Signal, default=Signal.NONE, blank=True)
    blocked = models.BooleanField(default=False)  # the site's setting had the compaction refused
    said = models.JSONField(default=dict)  # the kept fields, see relays.core.hooks
    size = models.PositiveIntegerField()  # bytes of the body
    at = models.DateTimeField()

    class Meta:
        ordering = ["-at", "-id"]
        indexes = [
            models.Index(fields=["agent", "sid", "-at"], name="hookevent_of_session"),
            models.Index(fields=["at"], name="hookevent_age"),
        ]

    def __str__(self) -> str:
        return f"{self.event} of {self.sid}"


class HookTally(models.Model):
    """How many calls of one token came in one minute, and what became of them; without a token: of those refused."""

    token = models.ForeignKey(ApiToken, null=True, on_delete=models.CASCADE, related_name="hook_tallies")
    minute = models.DateTimeField()
    kept = models.PositiveIntegerField(default=0)
    dropped = models.PositiveIntegerField(default=0)  # over the bound of a minute
    torn = models.PositiveIntegerField(default=0)  # no JSON object with a session and an event, or too large
    refused = models.PositiveIntegerField(default=0)  # no token, or one that does not stand or may not send

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["token", "minute"], name="hooktally_once"),
            models.UniqueConstraint(
                fields=["minute"], condition=models.Q(token__isnull=True), name="hooktally_once_without"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.minute} {self.kept}"


class HookFollow(models.Model):
    """The transcript that a session's hooks named, and the follow that reads it: one per session."""

    agent = models.CharField(max_length=20)
    sid = models.CharField(max_length=200)
    path = models.CharField(max_length=4096)
    job = models.ForeignKey("relays.Import", null=True, on_delete=models.SET_NULL, related_name="+")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()  # of the last event that named it

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "sid"], name="hookfollow_once")]

    def __str__(self) -> str:
        return f"{self.sid}: {self.path}"
