"""API tokens: a program's way in, as narrow as its role and never wider than the person it belongs to."""

from datetime import datetime

from django.conf import settings
from django.db import models


class ApiToken(models.Model):
    """interface.md, Roles: "API tokens belong to a person, are stored hashed, have a role and an expiry, and are shown
    once." The digest is a plain SHA-256: the secret is 256 random bits, so that no guess gets closer to it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)  # what it is for, as its owner calls it
    digest = models.CharField(max_length=64, unique=True)
    start = models.CharField(max_length=12)  # the first signs of the secret, by which a person knows it again
    role = models.CharField(max_length=16)  # a role of relays.reports.roles, or `sender`
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)  # to the minute
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["user", "-created_at"], name="apitoken_of_user")]

    def __str__(self) -> str:
        return f"{self.name} ({self.start}…)"

    def stands(self, now: datetime) -> bool:
        """Neither revoked nor over."""
        return self.revoked_at is None and self.expires_at > now
