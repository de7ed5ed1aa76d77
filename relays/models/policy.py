"""Named policies: each version is written once, and a relay remembers which one it started with."""

from django.conf import settings
from django.db import models


class PolicyVersion(models.Model):
    """One version of a named policy: the text as a person wrote it and the table that it says. Never changed.

    rules.md: "Policy is data: a `[relay]` table (TOML), validated, versioned". A version that was saved was valid over
    the site's table of that day; a start judges it again.
    """

    name = models.CharField(max_length=60)
    number = models.PositiveIntegerField()  # from 1 in its name
    text = models.TextField()
    table = models.JSONField()  # dotted key -> value, canonical
    digest = models.CharField(max_length=64)  # sha256 of the table
    comment = models.TextField(default="", blank=True)
    made_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    at = models.DateTimeField()

    class Meta:
        ordering = ["name", "-number"]
        constraints = [models.UniqueConstraint(fields=["name", "number"], name="policy_version_once")]

    def __str__(self) -> str:
        return f"{self.name}@{self.number}"
