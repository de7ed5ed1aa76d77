"""A verification of the whole chain of decisions that somebody asked for on the page: how far it is, what it found."""

from django.conf import settings
from django.db import models


class AuditRun(models.Model):
    """One verification. It is read in steps; between two of them nobody holds it, and its place is stored here."""

    class Phase(models.TextChoices):
        DECISIONS = "decisions"
        BATONS = "batons"

    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    asked_at = models.DateTimeField()
    phase = models.CharField(max_length=9, choices=Phase, default=Phase.DECISIONS)
    place = models.PositiveBigIntegerField(default=0)  # of the phase: number of the last decision or key of the baton
    total = models.PositiveBigIntegerField(default=0)  # decisions and batons there were when it was asked for
    done = models.PositiveBigIntegerField(default=0)  # of those
    rows = models.PositiveBigIntegerField(default=0)  # decisions that were read
    head = models.CharField(max_length=64, default="", blank=True)
    first_bad = models.PositiveBigIntegerField(null=True, blank=True)
    why = models.JSONField(default=list)
    ok = models.BooleanField(null=True, blank=True)  # null: not known yet, or cancelled
    cancelled = models.BooleanField(default=False)
    beat_at = models.DateTimeField(null=True, blank=True)  # whoever reads for it was alive then; null: nobody does
    ended_at = models.DateTimeField(null=True, blank=True)

    running = models.BooleanField(null=True, default=True, unique=True)  # null once it has ended: at most one goes on

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(running=True, ended_at__isnull=True)
                | models.Q(running__isnull=True, ended_at__isnull=False),
                name="audit_runs_until_its_end",
            )
        ]

    def __str__(self) -> str:
        return f"audit {self.pk} {self.phase}"
