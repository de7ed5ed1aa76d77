"""What things cost, computed in the background and kept: comparisons, work streams, learned parameters, back-tests.

cost.md: "A manager trusts this page only if it can lose. Every figure carries its provenance: OBSERVED (from usage
records), SIMULATED (from the model below) or ASSUMED (a parameter)". Pages read these rows and compute nothing.
Money inside JSON is a decimal string of dollars.
"""

from django.db import models

from relays.models.relay import Relay
from relays.models.session import Session


class Comparison(models.Model):
    """One relay or one session against other ways to carry the same work. Exactly one of `relay`, `session` is set.

    `observed`: {"cost" or null, "calls", "unpriced", "unpriced_models", "peak_tokens", "events", "cache_bust_tokens",
    "hit_rate" or null, "tokens": five buckets, "reported" or null}. `baselines`: [{"policy", "provenance", "cost" or
    null, "peak_tokens", "events", "cache_bust_tokens", "hit_rate", "exceeded_at" or null, "band": [low, high] or null,
    "parameters": {name: {"value", "low", "high", "provenance", "source", "unit"}}}], the one that the verdict is about
    first. `sensitivity`: [{"name", "low", "high", "saving_low", "saving_high", "breaks" or null}]. `line`: [[tokens
    that a fresh leg re-reads, saving]]. `series`: {"x", "observed", "base", "low", "high"}, at most 600 points each.
    `legs`: [{"leg", "calls", "input", "cache_read", "cache_write", "output", "unpriced", "peak"}], money by bucket.
    `busts`: [{"leg", "turn", "tokens"}]. `orientation`: {"n", "median" or null, "values": [[leg, tokens]]}.
    `prices`: {"read", "write", "output", "input", "source"}. `progress`: {"commits", "issues", "rows", "units"}.
    `faithful`: {"verdict", "what", "rows": [[label, share or null, n]]}. `forecast`: [{"axis", "limit", "used",
    "per_leg", "legs_left", "progress_left"}] or [] where nothing can be said yet; `forecast_why` says why.
    `residency`: of a relay, the window of the baseline that the verdict is about: {"policy", "calls", "before": turns
    that were not played, "turns": of the goal when it was, "peak", "events": calls, "points": [[call, tokens]]}.
    """

    relay = models.OneToOneField(Relay, on_delete=models.CASCADE, null=True, blank=True, related_name="comparison")
    session = models.OneToOneField(Session, on_delete=models.CASCADE, null=True, blank=True, related_name="comparison")
    computed_at = models.DateTimeField(null=True, blank=True)  # null = asked for and never computed
    wanted_at = models.DateTimeField(null=True, blank=True)  # a person or a change asks for a new one; null = it stands
    digest = models.CharField(max_length=64, default="", blank=True)  # of what it was computed from
    took_ms = models.PositiveIntegerField(default=0)  # to compute it: what took long is done anew less often
    why = models.CharField(max_length=300, default="", blank=True)  # one line where nothing can be compared
    scripted = models.BooleanField(default=False)  # figures of the scripted worker, not of a model

    verdict = models.CharField(max_length=8, default="not yet")  # cheaper, dearer, not yet: said of the relay's side
    verdict_why = models.CharField(max_length=300, default="", blank=True)
    saving = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)  # dollars; below 0 = lost
    saving_low = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)
    saving_high = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)
    break_even = models.BigIntegerField(null=True, blank=True)  # tokens re-read per fresh leg at which nothing is won

    observed = models.JSONField(default=dict)
    baselines = models.JSONField(default=list)
    sensitivity = models.JSONField(default=list)
    line = models.JSONField(default=list)
    series = models.JSONField(default=dict)
    legs = models.JSONField(default=list)
    busts = models.JSONField(default=list)
    residency = models.JSONField(default=dict)
    orientation = models.JSONField(default=dict)
    prices = models.JSONField(default=dict)
    progress = models.JSONField(default=dict)
    money_per_unit = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)
    tokens_per_unit = models.BigIntegerField(null=True, blank=True)
    faithful = models.JSONField(default=dict)
    forecast = models.JSONField(default=list)
    forecast_why = models.CharField(max_length=300, default="", blank=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(relay__isnull=True, session__isnull=False)
                | models.Q(relay__isnull=False, session__isnull=True),
                name="comparison_of_one",
            ),
            models.CheckConstraint(
                condition=models.Q(verdict__in=["cheaper", "dearer", "not yet"]), name="comparison_verdict_closed"
            ),
        ]
        indexes = [
            models.Index(fields=["wanted_at"], name="comparison_wanted", condition=models.Q(wanted_at__isnull=False))
        ]

    def __str__(self) -> str:
        return f"{self.relay_id or self.session_id}: {self.verdict}"


class StoredWork(models.Model):
    """The work stream of a comparison, kept where it is short enough to be played while a page is asked for.

    `steps`: [[new tokens, output tokens, 1 = cold before it, 1 = a durable effect came with it, lost, price]], zeros at
    the end left out. `more`: the rest of the ground that it is played on, see `relays.costs.against`.
    """

    comparison = models.OneToOneField(Comparison, on_delete=models.CASCADE, related_name="work")
    base = models.PositiveBigIntegerField()
    window = models.PositiveBigIntegerField()
    steps = models.JSONField(default=list)
    more = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"work of {self.comparison_id}"


class LearnedParameter(models.Model):
    """A parameter of the engine as measured compactions or legs gave it, per agent and version ("" = all versions).

    `value`: tokens, or a part where `unit` is "part". `low`, `high`: the middle half of what was measured.
    """

    agent = models.CharField(max_length=40)
    version = models.CharField(max_length=60, default="", blank=True)
    name = models.CharField(max_length=20)  # trigger, residue, reread, orientation
    unit = models.CharField(max_length=8, default="tokens")
    value = models.FloatField()
    low = models.FloatField()
    high = models.FloatField()
    n = models.PositiveIntegerField()
    sessions = models.PositiveIntegerField(default=0)  # how many sessions or legs they came from
    used = models.BooleanField(default=False)  # n suffices: it is a default now
    source = models.CharField(max_length=200, default="", blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "version", "name"], name="learned_once")]

    def __str__(self) -> str:
        return f"{self.agent} {self.version} {self.name} {self.value}"


class BackTest(models.Model):
    """How well the engine predicted one session that really compacted, with parameters learned without it.

    cost.md: "where its file lacks the compaction's own call, that call is left out on both sides, and the page says
    so". `error`: (predicted - observed) / observed, null where either is unknown (`why` says so). `counts`: whether it
    is one of those that the median and the share are of; a session that a person compacted is not.
    """

    session = models.OneToOneField(Session, on_delete=models.CASCADE, related_name="backtest")
    observed_cost = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)
    predicted_cost = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)
    error = models.FloatField(null=True, blank=True)
    observed_compactions = models.PositiveIntegerField(default=0)
    predicted_compactions = models.PositiveIntegerField(null=True, blank=True)
    observed_at = models.JSONField(default=list)  # main calls, from 1, after which it compacted
    predicted_at = models.JSONField(default=list)
    left_out_calls = models.PositiveIntegerField(default=0)  # compactions whose own call its file lacks
    counts = models.BooleanField(default=True)
    #: name -> {"value", "n", "provenance", "source"}, as used
    learned = models.JSONField(default=dict)
    why = models.CharField(max_length=300, default="", blank=True)
    digest = models.CharField(max_length=64, default="", blank=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"back-test of {self.session_id}"


class DayCost(models.Model):
    """What one leg or one session cost on one day of the fleet's time zone, by model. Σ of its rows = Σ of its calls.

    cost.md: "Roll-ups (leg, relay, fleet, day, model) are derived from calls and reconcile to the sum exactly". `units`
    are of 1e-10 dollars, so that a database adds them exactly; calls without a price are counted in `unpriced` and add
    nothing to it. `day` null: the call has no time.
    """

    day = models.DateField(null=True, blank=True)
    kind = models.CharField(max_length=7)  # relay, session
    relay = models.ForeignKey(Relay, on_delete=models.CASCADE, null=True, blank=True, related_name="day_costs")
    leg = models.ForeignKey("relays.Leg", on_delete=models.CASCADE, null=True, blank=True, related_name="day_costs")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, null=True, blank=True, related_name="day_costs")
    model = models.CharField(max_length=120, default="", blank=True)
    agent = models.CharField(max_length=40, default="", blank=True)
    repository = models.TextField(default="", blank=True)  # a relay's repository, a session's folder
    owner = models.ForeignKey(
        "auth.User", on_delete=models.CASCADE, null=True, blank=True, related_name="+"
    )  # null for a session: nobody drives it
    scripted = models.BooleanField(default=False)
    calls = models.PositiveIntegerField(default=0)
    unpriced = models.PositiveIntegerField(default=0)
    input_tokens = models.PositiveBigIntegerField(default=0)
    cache_read = models.PositiveBigIntegerField(default=0)
    cache_write_5m = models.PositiveBigIntegerField(default=0)
    cache_write_1h = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    units = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=models.Q(kind="relay", relay__isnull=False, leg__isnull=False, session__isnull=True)
                | models.Q(kind="session", relay__isnull=True, leg__isnull=True, session__isnull=False),
                name="daycost_of_one",
            )
        ]
        indexes = [
            models.Index(fields=["day", "kind"], name="daycost_day"),
            models.Index(fields=["owner", "day"], name="daycost_owner"),
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.model}"


class CostDue(models.Model):
    """How far the roll-ups and figures of one leg or one session have come; a row whose `seen` is older is due.

    `seen`: what the leg or session looked like (its last event, its projection) when its rows were made.
    """

    leg = models.OneToOneField("relays.Leg", on_delete=models.CASCADE, null=True, blank=True, related_name="cost_due")
    session = models.OneToOneField(Session, on_delete=models.CASCADE, null=True, blank=True, related_name="cost_due")
    seen = models.DateTimeField()
    zone = models.CharField(max_length=60)  # the fleet's time zone when its days were cut
    effect_turn = models.PositiveIntegerField(null=True, blank=True)  # of the leg: its first durable effect's turn
    orientation = models.PositiveBigIntegerField(null=True, blank=True)  # tokens that it grew before that turn
    compactions = models.PositiveIntegerField(default=0)  # of the session: how many `cuts` there are
    #: of the session: each compaction as the calls around it show it, see relays.costs.learned
    cuts = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"costs of {self.leg_id or self.session_id}"


class OwnerBudget(models.Model):
    """What the relays of one owner may cost in one month of the fleet's time zone; `month` null = each month without

    a row of its own. It warns and stops nothing: what stops a relay is its envelope.
    """

    owner = models.ForeignKey("auth.User", on_delete=models.CASCADE, related_name="cost_budgets")
    month = models.DateField(null=True, blank=True)  # its first day
    limit = models.DecimalField(max_digits=20, decimal_places=10)
    currency = models.CharField(max_length=3, default="USD")
    warn_at = models.FloatField(default=0.8)  # the part of the limit from which on it warns
    set_by = models.ForeignKey("auth.User", on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    set_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["owner", "month"], name="ownerbudget_month_once"),
            models.UniqueConstraint(
                fields=["owner"], condition=models.Q(month__isnull=True), name="ownerbudget_each_once"
            ),
            models.CheckConstraint(condition=models.Q(limit__gt=0), name="ownerbudget_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.owner_id} {self.month or 'each month'} {self.limit}"


class OwnerMonth(models.Model):
    """What an owner's relays cost in a month, with the warning that it raised: Σ of `DayCost`, scripted ones apart."""

    owner = models.ForeignKey("auth.User", on_delete=models.CASCADE, related_name="cost_months")
    month = models.DateField()
    units = models.BigIntegerField(default=0)  # of 1e-10 dollars
    unpriced = models.PositiveIntegerField(default=0)
    calls = models.PositiveIntegerField(default=0)
    limit = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)  # that held when last judged
    state = models.CharField(max_length=6, default="none")  # none (no limit), fine, warned, over
    warned_at = models.DateTimeField(null=True, blank=True)  # when it first came to `warned` or `over`

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "month"], name="ownermonth_once")]

    def __str__(self) -> str:
        return f"{self.owner_id} {self.month}"


class CostState(models.Model):
    """What is known over everything: `backtest`, `faithful`, `learned`; each the JSON that its maker describes."""

    name = models.CharField(primary_key=True, max_length=20)
    value = models.JSONField(default=dict)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return self.name
