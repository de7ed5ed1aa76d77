"""The relay: one goal, run as a sequence of legs; with its region lease and its driver claim."""

from datetime import timedelta

from django.conf import settings
from django.db import models

from relays.core.budget import Spent
from relays.core.objective import Pin
from relays.core.policy import MEMORY_ROOT
from relays.core.vocabulary import Mode


class RelayStatus(models.TextChoices):
    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    IDLE = "idle"
    PARKED = "parked"
    DONE = "done"
    STOPPED = "stopped"


FINAL_STATUSES = (RelayStatus.DONE, RelayStatus.STOPPED)


class Request(models.TextChoices):
    """What a person asked of a relay; the driver carries it out. `leg`: park it when its present leg has ended."""

    NONE = ""
    DRAIN = "drain"
    NOW = "now"
    LEG = "leg"


class Relay(models.Model):
    """One goal. `id` is its public name; objective, done_when and region are ours: a baton must equal them."""

    id = models.CharField(primary_key=True, max_length=40)  # RLY-YYYYMMDD-NNNN
    status = models.CharField(max_length=8, choices=RelayStatus, default=RelayStatus.READY)
    status_why = models.TextField(default="", blank=True)  # one line: why it waits, who parked it
    status_at = models.DateTimeField()
    next_at = models.DateTimeField(null=True, blank=True)
    unknown_since = models.DateTimeField(null=True, blank=True)  # first of an unbroken run of unknown ladders
    attempts = models.PositiveIntegerField(default=0)  # of the present wait: back-off doubles with it
    ended_reason = models.CharField(max_length=32, default="", blank=True)  # RELAY_GOAL_DONE or STOPPED
    ended_at = models.DateTimeField(null=True, blank=True)

    pin_id = models.CharField(max_length=200)
    objective = models.TextField()
    objective_digest = models.CharField(max_length=64)
    done_when = models.TextField()
    watch = models.BooleanField(default=False)
    region = models.JSONField(default=list)

    repo = models.TextField()  # absolute path of the work tree that was named at start
    git_dir = models.TextField()  # absolute path of the common git directory
    branch = models.CharField(max_length=250)
    worktree = models.TextField()
    start_sha = models.CharField(max_length=64)

    agent = models.CharField(max_length=40)
    agent_args = models.JSONField(default=dict)
    policy = models.JSONField(default=dict)  # the snapshot that the relay started with, plus recorded changes
    # the stored policy that it started with or was last given by a decision; null = none was named
    policy_version = models.ForeignKey(
        "relays.PolicyVersion", null=True, blank=True, on_delete=models.PROTECT, related_name="relays"
    )
    mode = models.CharField(max_length=8, choices=[(mode.value, mode.value) for mode in Mode], default=Mode.ENFORCE)

    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="relays")
    os_user = models.CharField(max_length=100, default="", blank=True)
    reviewers = models.ForeignKey(  # whose members alone decide on its gates; null: whoever may review
        "relays.ReviewerGroup", null=True, blank=True, on_delete=models.PROTECT, related_name="relays"
    )
    created_at = models.DateTimeField()

    park = models.CharField(max_length=5, choices=Request, default=Request.NONE, blank=True)
    stop = models.CharField(max_length=5, choices=Request, default=Request.NONE, blank=True)

    empty_run = models.PositiveIntegerField(default=0)  # legs in a row without verified progress
    armed_legs = models.PositiveIntegerField(default=0)  # since the last resume: hysteresis starts anew there
    progress_at_arm = models.PositiveIntegerField(default=0)  # verified progress in all when a leg last armed

    # spent so far over all legs; never reset (rules.md, Budgets never reset by accident)
    turns_used = models.PositiveBigIntegerField(default=0)
    output_used = models.PositiveBigIntegerField(default=0)
    spend_used = models.DecimalField(max_digits=20, decimal_places=10, default=0)
    unpriced_calls = models.PositiveBigIntegerField(default=0)
    wall_used = models.DurationField(default=timedelta)
    legs_used = models.PositiveIntegerField(default=0)
    queries_used = models.PositiveIntegerField(default=0)
    warned_axes = models.JSONField(default=list)

    # what an idle watch last saw: it wakes when the tip or the digest of the issue store is another
    idle_tip = models.CharField(max_length=64, default="", blank=True)
    idle_issues = models.CharField(max_length=64, default="", blank=True)
    idle_looks = models.PositiveBigIntegerField(default=0)  # quiet looks since it became idle
    idle_looked_at = models.DateTimeField(null=True, blank=True)

    # what is worth a look about its repository, one line each: config that would run a program, and the like
    findings = models.JSONField(default=list)

    last_data_at = models.DateTimeField(null=True, blank=True)
    progress_total = models.PositiveIntegerField(default=0)
    progress_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at", "-id"]
        constraints = [
            models.CheckConstraint(condition=models.Q(status__in=RelayStatus.values), name="relay_status_closed"),
            models.CheckConstraint(
                condition=models.Q(status__in=["done", "stopped"], ended_at__isnull=False)
                | (~models.Q(status__in=["done", "stopped"]) & models.Q(ended_at__isnull=True)),
                name="relay_ended_iff_final",
            ),
        ]
        indexes = [models.Index(fields=["status", "next_at"], name="relay_due")]

    def __str__(self) -> str:
        return self.id

    @property
    def final(self) -> bool:
        return self.status in FINAL_STATUSES

    @property
    def parks_now(self) -> bool:
        """A park that ends its present leg, by draining or at once; `leg` lets that leg end by itself."""
        return self.park in (Request.DRAIN, Request.NOW)

    @property
    def pin(self) -> Pin:
        """The objective as a baton carries it."""
        return Pin(self.pin_id, self.objective, self.objective_digest)

    @property
    def spent(self) -> Spent:
        """What all legs together have used, from the relay's own roll-ups."""
        return Spent(
            turns=self.turns_used,
            output_tokens=self.output_used,
            spend=self.spend_used,
            unpriced_calls=self.unpriced_calls,
            wall=self.wall_used,
            legs=self.legs_used,
            queries=self.queries_used,
        )

    @property
    def memory_root(self) -> str:
        """The folder of memory slugs that its policy names."""
        return str(self.policy.get("memory_root") or MEMORY_ROOT)


class Repository(models.Model):
    """One row per common git directory: its conditional update puts competing region claims in order."""

    git_dir = models.TextField(unique=True)
    leases = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return self.git_dir


class RegionLease(models.Model):
    """The region a relay holds until it is done or stopped, or an operator releases it."""

    relay = models.OneToOneField(Relay, on_delete=models.CASCADE, related_name="lease")
    repository = models.ForeignKey(Repository, on_delete=models.PROTECT, related_name="held")
    region = models.JSONField()
    held = models.BooleanField(default=True)
    since = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["repository", "held"], name="lease_held")]

    def __str__(self) -> str:
        return f"{self.relay_id} {self.region}"


class DriverClaim(models.Model):
    """One driver per relay. Every write of a supervisor carries `fence`; an older fence writes nothing."""

    relay = models.OneToOneField(Relay, on_delete=models.CASCADE, related_name="claim")
    fence = models.PositiveBigIntegerField(default=0)
    holder = models.CharField(max_length=200, default="", blank=True)  # host:pid, for people
    host = models.CharField(max_length=200, default="", blank=True)
    boot_id = models.CharField(max_length=64, default="", blank=True)
    pid = models.PositiveBigIntegerField(default=0)
    pid_started = models.PositiveBigIntegerField(default=0)  # clock ticks since boot: a pid alone is no identity
    heartbeat = models.DateTimeField(null=True, blank=True)
    spawned_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.relay_id} fence {self.fence}"
