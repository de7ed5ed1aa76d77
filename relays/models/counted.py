"""What each leg made or met, one row a thing, so that a later leg looks up its own candidates and reads no history."""

from django.db import models

from relays.models.leg import Leg
from relays.models.relay import Relay


class Counted(models.Model):
    """One thing of an ended leg. Written in the transaction that closes the leg, never changed.

    rules.md, Reload: "SHAs and patch-ids of earlier legs never count again". `commit`: every commit that the leg made
    (`counts`: it is verified progress; `shared`: an earlier leg made it too). `patch`, `issue`, `ref`: of what counts.
    `tree`: the tree at its cursor. `foreign`: a commit by others that it met.
    """

    class Kind(models.TextChoices):
        COMMIT = "commit"
        PATCH = "patch"
        ISSUE = "issue"
        REF = "ref"
        TREE = "tree"
        FOREIGN = "foreign"

    relay = models.ForeignKey(Relay, on_delete=models.CASCADE, related_name="counted")
    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="counted")
    kind = models.CharField(max_length=8, choices=Kind)
    value = models.CharField(max_length=600)
    counts = models.BooleanField(default=False)
    shared = models.BooleanField(default=False)

    class Meta:
        ordering = ["leg_id", "id"]
        constraints = [models.UniqueConstraint(fields=["leg", "kind", "value"], name="counted_once")]
        indexes = [
            models.Index(fields=["relay", "kind", "value"], name="counted_by_value"),
            models.Index(fields=["kind", "value"], name="counted_anywhere"),  # a SHA that a person searches for
            models.Index(fields=["relay"], condition=models.Q(shared=True), name="counted_shared"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"
