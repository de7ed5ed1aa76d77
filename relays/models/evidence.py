"""What a leg's agent reported: its events as they came, its model calls, and the facts that it declared."""

from django.db import models

from relays.models.leg import Leg


class Event(models.Model):
    """One line of a leg's stream, appended once (unique by leg and sequence)."""

    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=40)
    known = models.BooleanField(default=True)
    payload = models.JSONField()
    at = models.DateTimeField()

    class Meta:
        ordering = ["leg_id", "seq"]
        constraints = [models.UniqueConstraint(fields=["leg", "seq"], name="event_once")]

    def __str__(self) -> str:
        return f"{self.leg_id}:{self.seq} {self.kind}"


class Call(models.Model):
    """One model call with its five disjoint buckets; `resident_tokens` is 0 for a side chain."""

    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="call_rows")
    key = models.CharField(max_length=200, unique=True)  # over all sources: one call counts once
    turn = models.PositiveIntegerField()  # of the leg's main chain, from 1
    model = models.CharField(max_length=120, default="", blank=True)
    main = models.BooleanField(default=True)
    input_tokens = models.PositiveIntegerField(default=0)
    cache_read = models.PositiveIntegerField(default=0)
    cache_write_5m = models.PositiveIntegerField(default=0)
    cache_write_1h = models.PositiveIntegerField(default=0)
    output_tokens = models.PositiveIntegerField(default=0)
    resident_tokens = models.PositiveIntegerField(default=0)
    cache_reported = models.BooleanField(default=True)  # else the program says nothing of its cache: not warm, not cold
    cost = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)  # null = unpriced, never 0
    listed = models.BooleanField(default=False)  # its cost is the price list's: the agent reported none
    scripted = models.BooleanField(default=False)
    at = models.DateTimeField()

    class Meta:
        ordering = ["leg_id", "turn", "id"]
        indexes = [models.Index(fields=["leg", "turn"], name="call_leg_turn")]

    def __str__(self) -> str:
        return self.key


class Fact(models.Model):
    """A load-bearing thing of a leg, declared or found by the detector; it passes only with a verified backing."""

    class Kind(models.TextChoices):
        FACT = "fact"
        DECISION = "decision"
        OPEN_QUESTION = "open_question"
        DEAD_END = "dead_end"
        ARTIFACT = "artifact"
        DETECTED = "detected"

    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="facts")
    seq = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=16, choices=Kind)
    label = models.CharField(max_length=500)
    durability = models.CharField(max_length=40, default="", blank=True)
    backing = models.CharField(max_length=500, default="", blank=True)  # "kind:ref", "" = none
    verdict = models.CharField(
        max_length=10, default="", blank=True
    )  # verified, dangling, unknown; "" = not judged yet
    evidence = models.TextField(default="", blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["leg_id", "seq"]
        constraints = [models.UniqueConstraint(fields=["leg", "seq", "kind"], name="fact_once")]

    def __str__(self) -> str:
        return f"{self.kind}: {self.label}"


class Assumption(models.Model):
    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="assumptions")
    key = models.CharField(max_length=200)
    statement = models.TextField()
    source = models.CharField(max_length=20)
    confidence = models.FloatField(null=True, blank=True)
    action = models.CharField(max_length=10)  # use, query, refresh
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["leg", "key"], name="assumption_once")]

    def __str__(self) -> str:
        return self.key


class Promotion(models.Model):
    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="promotions")
    seq = models.PositiveBigIntegerField()
    slug = models.CharField(max_length=200)
    durability = models.CharField(max_length=40, default="", blank=True)
    outcome = models.CharField(max_length=12)  # promoted, refused, expired, ambiguous
    evidence = models.CharField(max_length=500, default="", blank=True)  # the pointer that it named
    reason = models.CharField(max_length=200, default="", blank=True)
    digest = models.CharField(max_length=64, default="", blank=True)  # sha256 of the memory's text; "" = not seen here
    text = models.TextField(default="", blank=True)  # where a person has to say: until it is written; refused it stays
    decided_by = models.CharField(max_length=150, default="", blank=True)  # the person who said; "" = its evidence
    expires_at = models.DateTimeField(null=True, blank=True)
    superseded_at = models.DateTimeField(null=True, blank=True)  # a later promotion of the slug took its place
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["leg", "seq"], name="promotion_once")]

    def __str__(self) -> str:
        return f"{self.slug} {self.outcome}"


class PageFault(models.Model):
    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="page_faults")
    seq = models.PositiveBigIntegerField()
    kind = models.CharField(max_length=20)
    ref = models.CharField(max_length=500)
    required = models.BooleanField()
    outcome = models.CharField(max_length=24)  # page_in, continue_with_pointer, query_user, deny
    reason = models.CharField(max_length=200, default="", blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["leg", "seq"], name="page_fault_once")]

    def __str__(self) -> str:
        return f"{self.kind}:{self.ref} {self.outcome}"


class CommandResult(models.Model):
    """The kept answer of a `cmd` clause or the green command for one tip."""

    relay = models.ForeignKey("relays.Relay", on_delete=models.CASCADE, related_name="command_results")
    command = models.TextField()
    tip = models.CharField(max_length=64)
    passed = models.BooleanField()
    exit_code = models.IntegerField(null=True, blank=True)  # null = timed out or could not start
    output = models.TextField(default="", blank=True)  # its last lines
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["relay", "tip", "at"], name="command_result_tip")]

    def __str__(self) -> str:
        return f"{self.command} at {self.tip}: {self.exit_code}"
