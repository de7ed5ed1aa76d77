"""Gate episodes: stops that wait for a person; and the append-only record of what people decided."""

from django.conf import settings
from django.db import models

from relays.core.vocabulary import GATE_TOKENS
from relays.models.leg import Leg
from relays.models.relay import Relay


class GateState(models.TextChoices):
    WAITING = "waiting"
    APPROVED = "approved"
    REQUESTED = "requested"
    DISPATCHED = "dispatched"
    CONFIRMED = "confirmed"
    REFUSED = "refused"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"


#: what an episode keeps waiting unless it names another step
NEXT_LEG = "next leg"

OPEN_GATES = (GateState.WAITING, GateState.APPROVED, GateState.REQUESTED, GateState.DISPATCHED)


class GateEpisode(models.Model):
    """One stop that waits for a person: at most one open per relay and token."""

    relay = models.ForeignKey(Relay, on_delete=models.CASCADE, related_name="gates")
    leg = models.ForeignKey(Leg, null=True, blank=True, on_delete=models.SET_NULL, related_name="gates")
    token = models.CharField(max_length=32)
    state = models.CharField(max_length=10, choices=GateState, default=GateState.WAITING)
    items = models.JSONField(default=list)  # one line each: what is asked
    blocks = models.CharField(max_length=40, default=NEXT_LEG)
    error = models.TextField(default="", blank=True)  # of a failed start
    closed_why = models.TextField(default="", blank=True)  # of one that lost its cause: one line
    looked_at = models.DateTimeField(null=True, blank=True)  # whether its cause still stands
    opened_at = models.DateTimeField()
    state_at = models.DateTimeField()
    round = models.PositiveIntegerField(default=0)  # approvals count only in the round they were given in
    reopened_from = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["opened_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["relay", "token"],
                condition=models.Q(state__in=["waiting", "approved", "requested", "dispatched"]),
                name="gate_one_open_per_kind",
            ),
            models.CheckConstraint(condition=models.Q(state__in=GateState.values), name="gate_state_closed"),
            models.CheckConstraint(condition=models.Q(token__in=sorted(GATE_TOKENS)), name="gate_token_closed"),
        ]
        indexes = [models.Index(fields=["state", "opened_at"], name="gate_inbox")]

    def __str__(self) -> str:
        return f"{self.relay_id} {self.token} {self.state}"


class GateChange(models.Model):
    """One state that an episode came into: when, and who brought it there (nobody: the machine did)."""

    gate = models.ForeignKey(GateEpisode, on_delete=models.CASCADE, related_name="changes")
    state = models.CharField(max_length=10, choices=GateState)
    at = models.DateTimeField()
    by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, blank=True, on_delete=models.PROTECT, related_name="+")
    why = models.CharField(max_length=500, default="", blank=True)  # one line, where the state alone does not say it

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.gate_id} {self.state}"


class Decision(models.Model):
    """One act of a person, recorded first and carried out after; append-only, hash-chained over the whole table."""

    seq = models.PositiveBigIntegerField(unique=True)
    relay = models.ForeignKey(Relay, null=True, blank=True, on_delete=models.PROTECT, related_name="decisions")
    gate = models.ForeignKey(GateEpisode, null=True, blank=True, on_delete=models.PROTECT, related_name="decisions")
    act = models.CharField(
        max_length=24
    )  # start, park, park_now, stop, stop_now, resume, approve, refuse, next_action, answer, …
    actor = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    os_user = models.CharField(max_length=100, default="", blank=True)
    comment = models.TextField(default="", blank=True)
    seen = models.CharField(max_length=64, default="", blank=True)  # digest of what was shown
    detail = models.JSONField(default=dict)
    previous = models.CharField(max_length=64)
    digest = models.CharField(max_length=64, unique=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["seq"]
        indexes = [
            models.Index(fields=["act", "seq"], name="decision_act"),
            models.Index(fields=["at"], name="decision_at"),
        ]

    def __str__(self) -> str:
        return f"{self.seq} {self.act}"
