"""What a person prefers: how pages are laid out for them. No rule reads it."""

from django.conf import settings
from django.db import models


class Layout(models.Model):
    """Mission: "What remains user-controlled is […] layout preferences". One row per person who chose any."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="layout")
    density = models.CharField(max_length=8, default="roomy")  # roomy, compact
    first_tab = models.CharField(max_length=16, default="batons")  # of a relay's records
    closed = models.JSONField(default=list)  # panels beside a relay's graph that show their head only
    language = models.CharField(max_length=16, default="", blank=True)  # "" = as the browser asks
    zone = models.CharField(max_length=64, default="", blank=True)  # "" = the browser's
    numbers = models.CharField(max_length=8, default="", blank=True)  # "" = as the language writes them
    theme = models.CharField(max_length=8, default="", blank=True)  # light, dark, "" = the system's
    keys = models.CharField(max_length=8, default="on")  # on, off: shortcuts of one character
    hints_done = models.BooleanField(default=False)  # read or skipped; they are never shown again

    def __str__(self) -> str:
        return f"{self.user}: {self.density}"
