"""Maintenance: an act of one person on many relays, or on what they left behind; workers carry it out step by step."""

from django.conf import settings
from django.db import models


class Maintenance(models.Model):
    """One act. Its decisions share it: each names `maintenance` in its detail."""

    class Kind(models.TextChoices):
        PARK_ALL = "park_all"
        RESUME_ALL = "resume_all"
        POLICY_ALL = "policy_all"
        CLEAN = "clean"

    class Status(models.TextChoices):
        LOOKING = "looking"  # of clean: what would go is being listed
        LISTED = "listed"  # of clean: a person looks at the list
        RUNNING = "running"
        DONE = "done"
        CANCELLED = "cancelled"
        FAILED = "failed"

    kind = models.CharField(max_length=10, choices=Kind)
    status = models.CharField(max_length=9, choices=Status)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    comment = models.TextField(default="", blank=True)
    sets = models.JSONField(default=list)  # of policy_all: key=value, each
    asked_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    cancel = models.BooleanField(default=False)
    beat_at = models.DateTimeField(null=True, blank=True)  # of the worker that is at it; null: nobody is
    looked = models.JSONField(default=list)  # of clean: places that were looked at
    error = models.CharField(max_length=500, default="", blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["kind"],
                condition=models.Q(status__in=["looking", "listed", "running"]),
                name="maintenance_one_open_per_kind",
            )
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.pk} {self.status}"


class MaintenanceItem(models.Model):
    """One relay, or one thing that was left behind, of an act."""

    class State(models.TextChoices):
        PLANNED = "planned"
        DONE = "done"
        KEPT = "kept"  # and why

    act = models.ForeignKey(Maintenance, on_delete=models.CASCADE, related_name="items")
    relay = models.ForeignKey("relays.Relay", null=True, on_delete=models.CASCADE, related_name="+")
    path = models.TextField(default="", blank=True)
    unit = models.TextField(default="", blank=True)  # of clean: the place that is looked at as a whole
    state = models.CharField(max_length=7, choices=State, default=State.PLANNED)
    why = models.TextField(default="", blank=True)
    decision = models.PositiveBigIntegerField(null=True, blank=True)  # the number of the decision on this relay
    at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(
                fields=["act", "relay"], condition=models.Q(relay__isnull=False), name="maintenanceitem_relay_once"
            )
        ]
        indexes = [models.Index(fields=["act", "state"], name="maintenanceitem_state")]

    def __str__(self) -> str:
        return f"{self.act_id}: {self.relay_id or self.path} {self.state}"
