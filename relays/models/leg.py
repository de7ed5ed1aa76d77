"""The leg: one bounded agent session, with what it was asked at each boundary and how it ended."""

from django.db import models

from relays.core.vocabulary import Cause, Hold, Reason
from relays.models.relay import Relay


class LegState(models.TextChoices):
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    DRAINING = "draining"
    BACKOFF = "backoff"
    ENDING = "ending"
    ENDED = "ended"
    VOID = "void"


LIVE_STATES = (LegState.STARTING, LegState.RUNNING, LegState.DRAINING, LegState.BACKOFF, LegState.ENDING)
OPEN_STATES = (LegState.PENDING, *LIVE_STATES)


class Leg(models.Model):
    """One bounded session (one generation), numbered from 0."""

    relay = models.ForeignKey(Relay, on_delete=models.CASCADE, related_name="legs")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=8, choices=LegState, default=LegState.PENDING)
    trace = models.CharField(max_length=64, unique=True)
    parent_trace = models.CharField(max_length=64, default="", blank=True)
    from_gate = models.ForeignKey(
        "relays.GateEpisode", null=True, blank=True, on_delete=models.SET_NULL, related_name="+"
    )

    model = models.CharField(max_length=120, default="", blank=True)
    window_tokens = models.PositiveIntegerField(default=0)
    mark_tokens = models.PositiveIntegerField(default=0)
    ceiling_tokens = models.PositiveIntegerField(default=0)

    cursor_sha = models.CharField(max_length=64, default="", blank=True)  # what it started from, verified or rebuilt
    reflog_lines = models.PositiveIntegerField(default=0)  # length of the worktree's HEAD log when it started
    end_sha = models.CharField(max_length=64, default="", blank=True)
    wip_sha = models.CharField(max_length=64, default="", blank=True)
    wip_laid_back = models.CharField(max_length=16, default="", blank=True)  # "", applied, RELAY_WIP_STALE

    armed = models.BooleanField(default=False)
    armed_axis = models.CharField(max_length=16, default="", blank=True)
    armed_at = models.DateTimeField(null=True, blank=True)
    drain_reason = models.CharField(max_length=16, default="", blank=True)  # park, stop, envelope, ceiling, shutdown
    drain_turn = models.PositiveIntegerField(default=0)  # the turn at which draining began
    told_hold = models.CharField(
        max_length=32, default="", blank=True
    )  # what an agent that ends by itself was told, once
    advisory = models.BooleanField(default=False)  # closed with enforce's reason in shadow or advise

    # the end decision is recorded before the agent is told; it is finished whatever happens afterwards
    end_decision = models.JSONField(null=True, blank=True)
    turns_digest = models.CharField(max_length=64, default="", blank=True)  # of all its turns, kept when it closes
    reason = models.CharField(max_length=32, default="", blank=True)
    cause = models.CharField(max_length=20, default="", blank=True)
    hold = models.CharField(max_length=32, default="", blank=True)

    started_at = models.DateTimeField(null=True, blank=True)  # first event
    ended_at = models.DateTimeField(null=True, blank=True)
    charged_until = models.DateTimeField(null=True, blank=True)  # wall clock debited to the relay up to here
    attempts = models.PositiveIntegerField(default=0)
    start_error = models.TextField(default="", blank=True)

    agent_pid = models.PositiveBigIntegerField(default=0)
    agent_started = models.PositiveBigIntegerField(default=0)
    agent_boot_id = models.CharField(max_length=64, default="", blank=True)
    marker = models.CharField(max_length=64, default="", blank=True)  # in the agent's environment, to find strays
    exit_code = models.IntegerField(null=True, blank=True)
    token_hash = models.CharField(max_length=64, default="", blank=True)

    # roll-ups, kept as events arrive so that no page counts calls
    turns = models.PositiveIntegerField(default=0)
    resident_tokens = models.PositiveIntegerField(default=0)
    peak_tokens = models.PositiveIntegerField(default=0)
    peak_turn = models.PositiveIntegerField(default=0)
    last_growth = models.IntegerField(default=0)
    largest_result = models.PositiveIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    cache_read = models.PositiveBigIntegerField(default=0)
    cache_write_5m = models.PositiveBigIntegerField(default=0)
    cache_write_1h = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    spend = models.DecimalField(max_digits=20, decimal_places=10, default=0)
    unpriced_calls = models.PositiveIntegerField(default=0)
    calls = models.PositiveIntegerField(default=0)
    tool_calls = models.PositiveIntegerField(default=0)
    tool_errors = models.PositiveIntegerField(default=0)
    unknown_events = models.PositiveIntegerField(default=0)
    scripted = models.BooleanField(default=False)  # its usage figures are the scripted worker's, not a model's
    last_event_at = models.DateTimeField(null=True, blank=True)

    # verified by the driver from the stores when the leg ended; null = not judged yet
    progress = models.PositiveIntegerField(null=True, blank=True)
    # "made": every commit of this leg; "commits", "issues", "ledger": what counts; "foreign", "outside", …: the rest
    progress_detail = models.JSONField(default=dict)
    # judged at the successor's reload; null = not yet
    fidelity_verified = models.PositiveIntegerField(null=True, blank=True)
    fidelity_dangling = models.PositiveIntegerField(null=True, blank=True)
    fidelity_unknown = models.PositiveIntegerField(null=True, blank=True)
    # what the leg durably made and how much of it its baton reaches; judged with fidelity, null = not yet
    coverage_made = models.PositiveIntegerField(null=True, blank=True)
    coverage_reached = models.PositiveIntegerField(null=True, blank=True)
    # tool calls by how full the window was when they started: tenth "0".."9" -> [calls, errors]
    fullness = models.JSONField(default=dict)

    class Meta:
        ordering = ["relay_id", "number"]
        indexes = [models.Index(fields=["end_sha"], name="leg_end_sha")]  # a tip that a person searches for
        constraints = [
            models.UniqueConstraint(fields=["relay", "number"], name="leg_number_once"),
            models.UniqueConstraint(
                fields=["relay"], condition=~models.Q(state__in=["ended", "void"]), name="leg_one_open_per_relay"
            ),
            models.CheckConstraint(condition=models.Q(state__in=LegState.values), name="leg_state_closed"),
            models.CheckConstraint(
                condition=models.Q(cause__in=["", *[c.value for c in Cause]]), name="leg_cause_closed"
            ),
            models.CheckConstraint(condition=models.Q(hold__in=["", *[h.value for h in Hold]]), name="leg_hold_closed"),
            models.CheckConstraint(
                condition=models.Q(reason__in=["", *[r.value for r in Reason]]), name="leg_reason_closed"
            ),
            models.CheckConstraint(
                condition=~models.Q(state="ended") | (models.Q(ended_at__isnull=False) & ~models.Q(reason="")),
                name="leg_ended_has_reason",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.relay_id} leg {self.number}"


class Boundary(models.Model):
    """One moment when all tools of a turn had ended: what was measured, what was held and what was answered."""

    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="boundaries")
    number = models.PositiveIntegerField()  # from 0 in its leg
    seq = models.PositiveBigIntegerField()  # of the boundary event
    turn = models.PositiveIntegerField()
    at = models.DateTimeField()
    resident_tokens = models.PositiveIntegerField()
    axes = models.JSONField(default=dict)  # axis -> [used, cap, mark]
    armed = models.BooleanField(default=False)
    hold = models.CharField(max_length=32, default="", blank=True)
    hold_detail = models.JSONField(default=list)  # one line each: dirty paths, facts, candidates
    next_actions = models.JSONField(default=list)
    answer = models.CharField(max_length=60)  # go, wind_down[ HOLD], stop
    final = models.BooleanField(default=False)
    # with its evidence; "would": what enforce would have done, in shadow and advise
    decision = models.JSONField(default=dict)

    class Meta:
        ordering = ["leg_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["leg", "number"], name="boundary_number_once"),
            models.UniqueConstraint(fields=["leg", "seq"], name="boundary_seq_once"),
            models.CheckConstraint(
                condition=models.Q(hold__in=["", *[h.value for h in Hold]]), name="boundary_hold_closed"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.leg} boundary {self.number}"

    @property
    def advisory(self) -> bool:
        """Its hold was recorded, in shadow or advise, and kept nobody."""
        return bool(self.decision.get("would"))


class WouldBe(models.Model):
    """An end that `shadow` or `advise` only recorded: how enforce would have judged the leg, and the baton of it.

    `verified`, `dangling`, `unknown`: its pointers at the following leg's reload; null = not judged yet.
    """

    leg = models.ForeignKey(Leg, on_delete=models.CASCADE, related_name="would_be")
    boundary = models.OneToOneField(Boundary, on_delete=models.CASCADE, related_name="would_be")
    reason = models.CharField(max_length=32)
    cause = models.CharField(max_length=20, default="", blank=True)
    hold = models.CharField(max_length=32, default="", blank=True)
    text = models.TextField(default="", blank=True)  # canonical bytes of the would-be baton; "" = none could be made
    digest = models.CharField(max_length=64, default="", blank=True)
    why_none = models.TextField(default="", blank=True)  # one line where there is no baton
    verified = models.PositiveIntegerField(null=True, blank=True)
    dangling = models.PositiveIntegerField(null=True, blank=True)
    unknown = models.PositiveIntegerField(null=True, blank=True)
    judged_at = models.DateTimeField(null=True, blank=True)
    at = models.DateTimeField()

    class Meta:
        ordering = ["leg_id", "id"]

    def __str__(self) -> str:
        return f"{self.leg} would be {self.reason}"


class Tombstone(models.Model):
    """The typed exit record of a leg. Note and self-assessment are templates filled from records, never agent text."""

    leg = models.OneToOneField(Leg, on_delete=models.CASCADE, related_name="tombstone")
    reason = models.CharField(max_length=32)
    cause = models.CharField(max_length=20, default="", blank=True)
    hold = models.CharField(max_length=32, default="", blank=True)
    at_sha = models.CharField(max_length=64)
    note = models.CharField(max_length=500, default="", blank=True)
    assessment = models.JSONField(default=dict)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.leg} {self.reason}"


class ResetTransaction(models.Model):
    """One per rotation: what crossed into the new trace, what did not, and what the budgets carried over."""

    old_leg = models.OneToOneField(Leg, on_delete=models.CASCADE, related_name="reset_out")
    new_leg = models.OneToOneField(Leg, on_delete=models.CASCADE, related_name="reset_in")
    old_trace = models.CharField(max_length=64)
    new_trace = models.CharField(max_length=64)
    # of the seed as it was handed over: another baton before the start makes the leg begin with another one
    seed_digest = models.CharField(max_length=64)
    # [{"kind": "objective_pin"|"baton"|"user_fact"|"preamble", "digest": …, "bytes": n}]
    contributors = models.JSONField()
    omitted = models.JSONField()  # [{"index", "role", "count", "digest", "reason"}]
    rearm = models.JSONField()  # axis -> {"limit", "used", "left"}
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.old_trace} -> {self.new_trace}"
