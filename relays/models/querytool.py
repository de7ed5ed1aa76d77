"""Uses of the agents' query tool, and operations on memories that a person has to allow."""

from django.db import models

from relays.models.leg import Leg
from relays.models.relay import Relay


class ToolUse(models.Model):
    """One use of the query tool by a leg's agent, in their order; `words` says what was refused and why."""

    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="tool_uses")
    number = models.PositiveIntegerField()  # from 0 in its leg
    verb = models.CharField(max_length=20)
    about = models.CharField(max_length=200, default="", blank=True)  # what it was asked of: a pointer, a label, a slug
    refused = models.BooleanField(default=False)
    words = models.CharField(max_length=300, default="", blank=True)
    answer_bytes = models.PositiveIntegerField(default=0)
    at = models.DateTimeField()

    class Meta:
        ordering = ["leg_id", "number"]
        constraints = [models.UniqueConstraint(fields=["leg", "number"], name="tooluse_number_once")]

    def __str__(self) -> str:
        return f"{self.leg_id}:{self.number} {self.verb}"


class MemoryOperation(models.Model):
    """What shall happen to memory files and needs more than an agent may do: asked, decided, then carried out.

    `write` is a promotion that a person approved; `found` was done in a leg's commits already: allowed it stands,
    refused it is taken back.
    """

    class Act(models.TextChoices):
        WRITE = "write"
        REWRITE = "rewrite"
        DELETE = "delete"
        WIPE = "wipe"
        RESET = "reset"
        FOUND = "found"

    class State(models.TextChoices):
        ASKED = "asked"
        ALLOWED = "allowed"
        REFUSED = "refused"
        DONE = "done"

    relay = models.ForeignKey(Relay, on_delete=models.CASCADE, related_name="memory_operations")
    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="memory_operations")
    promotion = models.ForeignKey("relays.Promotion", null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    act = models.CharField(max_length=10, choices=Act)
    slug = models.CharField(max_length=200, default="", blank=True)  # of wipe the beginning of slugs, of reset ""
    text = models.TextField(default="", blank=True)  # what is written
    base_sha = models.CharField(max_length=64, default="", blank=True)  # of found: the commit that still had it
    item = models.CharField(max_length=500)  # the line of the episode that asks
    state = models.CharField(max_length=8, choices=State, default=State.ASKED)
    slugs = models.JSONField(default=list)  # what it was carried out on
    commit = models.CharField(max_length=64, default="", blank=True)  # that carried it out; "" = nothing was to change
    at = models.DateTimeField()
    decided_at = models.DateTimeField(null=True, blank=True)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["relay_id", "id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(state__in=["asked", "allowed", "refused", "done"]), name="memory_operation_state"
            ),
            models.CheckConstraint(
                condition=models.Q(act__in=["write", "rewrite", "delete", "wipe", "reset", "found"]),
                name="memory_operation_act",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.relay_id} {self.item} {self.state}"
