"""Groups of reviewers: whose members alone may decide on the gates of a relay that names one."""

from django.conf import settings
from django.db import models


class ReviewerGroup(models.Model):
    """A name and its people. A member decides only with the role that may review; without it they are not counted."""

    name = models.CharField(max_length=60, unique=True)
    members = models.ManyToManyField(settings.AUTH_USER_MODEL, related_name="reviewer_groups", blank=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
