"""The baton and every check of it: canonical bytes, digest, and each ladder step and pointer with its evidence."""

from django.db import models

from relays.models.leg import Leg
from relays.models.relay import Relay


class Baton(models.Model):
    """Written once, never changed; at most one per relay is current."""

    relay = models.ForeignKey(Relay, on_delete=models.CASCADE, related_name="batons")
    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="batons")  # the closing leg
    text = models.TextField()  # canonical bytes, as text
    digest = models.CharField(max_length=64)
    pin_digest = models.CharField(max_length=64)  # the objective's, so that no page reads all batons for it
    size = models.PositiveIntegerField()
    current = models.BooleanField(default=True)
    why = models.CharField(max_length=20, default="rotation")  # rotation, stale, decision
    at = models.DateTimeField()

    class Meta:
        ordering = ["relay_id", "id"]
        constraints = [
            models.UniqueConstraint(fields=["relay"], condition=models.Q(current=True), name="baton_one_current"),
        ]

    def __str__(self) -> str:
        return self.digest[:12]


class Verification(models.Model):
    """One run of the reader's ladder over one baton."""

    relay = models.ForeignKey(Relay, on_delete=models.CASCADE, related_name="verifications")
    baton = models.ForeignKey(Baton, on_delete=models.CASCADE, related_name="verifications")
    leg = models.ForeignKey(
        Leg, null=True, blank=True, on_delete=models.CASCADE, related_name="verifications"
    )  # whose reload
    purpose = models.CharField(max_length=10)  # reload, verify
    outcome = models.CharField(max_length=8)  # fresh, stale, invalid, held, done, unknown
    step = models.PositiveIntegerField(null=True, blank=True)
    path = models.CharField(max_length=200, default="", blank=True)
    evidence = models.TextField(default="", blank=True)
    branch = models.CharField(max_length=250)
    tip = models.CharField(max_length=64, default="", blank=True)
    cursor_sha = models.CharField(max_length=64, default="", blank=True)
    rebuilt = models.BooleanField(default=False)
    plan = models.JSONField(default=dict)  # the reload plan, byte-identical for the same store and baton
    at = models.DateTimeField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.baton} {self.outcome}"


class Check(models.Model):
    """One step of the ladder or one pointer, with its verdict and one line of evidence."""

    verification = models.ForeignKey(Verification, on_delete=models.CASCADE, related_name="checks")
    number = models.PositiveIntegerField()
    step = models.PositiveIntegerField()
    path = models.CharField(max_length=200, default="", blank=True)
    verdict = models.CharField(max_length=10)  # verified, dangling, unknown, passed, refused, left_out
    pointer = models.BooleanField(default=False)  # counts for fidelity
    evidence = models.TextField(default="", blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["verification_id", "number"]
        constraints = [models.UniqueConstraint(fields=["verification", "number"], name="check_once")]

    def __str__(self) -> str:
        return f"{self.step} {self.path} {self.verdict}"
