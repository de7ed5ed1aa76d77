"""A push of a finished branch: decided by a person, carried out in the background, its result kept."""

from django.db import models

from relays.models.gate import Decision
from relays.models.relay import Relay


class PushState(models.TextChoices):
    WAITING = "waiting"
    DONE = "done"
    FAILED = "failed"


class Push(models.Model):
    """One branch tip on its way to one address. At most one of a relay waits."""

    relay = models.ForeignKey(Relay, on_delete=models.CASCADE, related_name="pushes")
    decision = models.OneToOneField(Decision, on_delete=models.PROTECT, related_name="+")
    where = models.CharField(max_length=500)  # as the policy named it when it was decided
    branch = models.CharField(max_length=250)
    tip = models.CharField(max_length=64)
    state = models.CharField(max_length=7, choices=PushState, default=PushState.WAITING)
    attempts = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField()
    result = models.TextField(default="", blank=True)  # what git said, one line
    at = models.DateTimeField()
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["relay"], condition=models.Q(state="waiting"), name="push_one_waits_per_relay"
            ),
            models.CheckConstraint(condition=models.Q(state__in=PushState.values), name="push_state_closed"),
        ]
        indexes = [models.Index(fields=["state", "not_before"], name="push_due")]

    def __str__(self) -> str:
        return f"{self.branch} to {self.where}: {self.state}"
