"""Sessions of agents that nobody drives: the files they were read from, their calls, and what a relay would have done.

architecture.md: "Session, SourceFile (inode, offset, head hash)". Texts of sessions are not stored.
"""

from django.conf import settings
from django.db import models


class SourceFile(models.Model):
    """One file that was read, and how far. Nothing is ever written to it."""

    class Status(models.TextChoices):
        READ = "read"
        GONE = "gone"  # no longer there; what was read of it stays
        REFUSED = "refused"  # no permission
        FAILED = "failed"  # unreadable for another reason, see `error`
        SKIPPED = "skipped"  # holds no session (yet); kept so that it is not opened again until it changes

    path = models.CharField(max_length=4096, unique=True)
    agent = models.CharField(max_length=20, blank=True)  # claude-code, codex, gemini-cli, opencode, relay; "" skipped
    form = models.CharField(max_length=20, blank=True)  # the reader: see relays.sessions.detect; "" of a skipped file
    status = models.CharField(max_length=8, choices=Status, default=Status.READ)
    error = models.CharField(max_length=300, default="", blank=True)
    device = models.BigIntegerField(default=0)
    inode = models.BigIntegerField(default=0)  # its 64 bits, read with a sign
    size = models.PositiveBigIntegerField(default=0)
    mtime_ns = models.PositiveBigIntegerField(default=0)
    offset = models.PositiveBigIntegerField(default=0)  # bytes read, up to the end of a line
    lines = models.PositiveBigIntegerField(default=0)
    head = models.CharField(max_length=64, default="", blank=True)  # SHA-256 of its first `head_bytes`
    head_bytes = models.PositiveIntegerField(default=0)
    tail = models.CharField(max_length=64, default="", blank=True)  # SHA-256 of the last bytes before `offset`
    state = models.JSONField(default=dict)  # the reader's own, to go on from `offset`
    records = models.JSONField(default=dict)  # kind of record -> [count, bytes]
    read_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.path


class Session(models.Model):
    """One session of an agent with the roll-ups that pages show; each is recomputed from its rows, never guessed.

    Token sums, `calls` and `cost` are of calls that count here (not of copies that an earlier session made).
    """

    agent = models.CharField(max_length=20)
    sid = models.CharField(max_length=200)  # the agent's own id
    cwd = models.CharField(max_length=4096, default="", blank=True)
    branch = models.CharField(max_length=300, default="", blank=True)
    version = models.CharField(max_length=60, default="", blank=True)
    model_names = models.JSONField(default=list)  # sorted
    parent = models.CharField(max_length=200, default="", blank=True)
    copy_hint = models.BooleanField(default=False)
    first_at = models.DateTimeField(null=True, blank=True)
    last_at = models.DateTimeField(null=True, blank=True)
    calls = models.PositiveIntegerField(default=0)  # main, sub and aux
    main_calls = models.PositiveIntegerField(default=0)
    copied_calls = models.PositiveIntegerField(default=0)  # inherited or replayed: counted elsewhere
    agents = models.PositiveIntegerField(default=0)  # sub-agents
    input_tokens = models.PositiveBigIntegerField(default=0)
    cache_read = models.PositiveBigIntegerField(default=0)
    cache_write_5m = models.PositiveBigIntegerField(default=0)
    cache_write_1h = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    lower_bound = models.BooleanField(default=False)  # of a call at least, output is only a lower bound
    max_resident = models.PositiveBigIntegerField(default=0)
    window_tokens = models.PositiveBigIntegerField(null=True, blank=True)  # declared, else known by model, else None
    compactions = models.PositiveIntegerField(default=0)
    cost = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)  # of what has a price
    unpriced_calls = models.PositiveIntegerField(default=0)
    reported_cost = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)  # the agent's own
    anomalies = models.JSONField(default=dict)  # kind -> count
    series = models.JSONField(default=list)  # reduced points of the window, see relays.sessions.project
    fill = models.JSONField(default=dict)  # what filled the window, see relays.sessions.project
    shadow = models.JSONField(default=dict)  # what a relay would have done, see relays.sessions.shadow
    projected_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "sid"], name="session_once")]
        indexes = [
            models.Index(fields=["-last_at", "-id"], name="session_latest"),
            models.Index(fields=["sid"], name="session_sid"),
            # forks and sub-agents of a session: asked for by each projection and by the session's page
            models.Index(fields=["agent", "parent"], name="session_parent"),
            # those whose rows are newer than their figures: few, and asked for at each look
            models.Index(fields=["id"], name="session_waiting", condition=models.Q(projected_at__isnull=True)),
        ]

    def __str__(self) -> str:
        return f"{self.agent} {self.sid}"

    @property
    def unread(self) -> bool:
        """Another session's file names it (`continued-in`), and nothing of its own was read yet."""
        told = (self.first_at, self.cwd, self.branch, self.version, self.model_names)
        return bool(self.parent) and not any((*told, self.calls, self.copied_calls, self.compactions, self.anomalies))


class SessionFile(models.Model):
    """That a file tells of a session, and what it says of it: a session's own fields are joined from these."""

    source = models.ForeignKey(SourceFile, on_delete=models.CASCADE, related_name="session_rows")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="file_rows")
    about = models.JSONField(default=dict)  # the fields of relays.core.meter.About

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "session"], name="sessionfile_once")]

    def __str__(self) -> str:
        return f"{self.source_id}:{self.session_id}"


class PriceRow(models.Model):
    """A price as it was used, kept so that an upgrade of the price library rewrites no history."""

    digest = models.CharField(max_length=64, unique=True)  # of everything below
    model = models.CharField(max_length=200)
    provider = models.CharField(max_length=60)
    source = models.CharField(max_length=60)  # "genai-prices 0.2.3" or "site"
    since = models.DateTimeField(null=True, blank=True)  # effective from; None = always
    rates = models.JSONField()  # see relays.core.pricing

    def __str__(self) -> str:
        return f"{self.provider} {self.model} ({self.source})"


class SessionCall(models.Model):
    """One call as one file shows it. All rows of one `key` carry the same field-wise maximum; exactly one `counts`.

    cost.md: "One API call counts once: one call per `message.id` … field-wise maximum over its rows".
    """

    class Copied(models.TextChoices):
        INHERITED = "inherited"  # another session made it first
        REPLAY = "replay"
        ESTIMATED = "estimated"

    # the constraint and the index below begin with these two: an index of their own would only make writing slower
    source = models.ForeignKey(SourceFile, on_delete=models.CASCADE, related_name="call_rows", db_index=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="call_rows", db_index=False)
    key = models.CharField(max_length=200, db_index=True)
    line = models.PositiveBigIntegerField()
    chain = models.CharField(max_length=4)  # main, sub, aux
    agent_id = models.CharField(max_length=120, default="", blank=True)
    model = models.CharField(max_length=120, default="", blank=True)
    at = models.DateTimeField(null=True, blank=True)
    input_tokens = models.PositiveBigIntegerField(default=0)
    cache_read = models.PositiveBigIntegerField(default=0)
    cache_write_5m = models.PositiveBigIntegerField(default=0)
    cache_write_1h = models.PositiveBigIntegerField(default=0)
    output_tokens = models.PositiveBigIntegerField(default=0)
    reasoning = models.PositiveBigIntegerField(default=0)
    resident = models.PositiveBigIntegerField(default=0)  # input side of a main-chain call, else 0
    lower_bound = models.BooleanField(default=False)
    window = models.PositiveBigIntegerField(null=True, blank=True)
    vector = models.CharField(max_length=120, default="", blank=True)
    turn = models.CharField(max_length=80, default="", blank=True)
    tools = models.PositiveIntegerField(default=0)
    tool_errors = models.PositiveIntegerField(default=0)
    fill = models.JSONField(default=dict)
    claimed = models.CharField(max_length=9, default="", blank=True)  # what the file itself says: replay, estimated
    copied = models.CharField(max_length=9, choices=Copied, default="", blank=True)  # what it is, all files considered
    shown = models.BooleanField(default=True)  # exactly one row of (session, key)
    counts = models.BooleanField(default=True)  # exactly one row of a key, none of a replay
    cost = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)  # null = unpriced, never 0
    price = models.ForeignKey(
        PriceRow, on_delete=models.PROTECT, null=True, blank=True, related_name="+", db_index=False
    )
    reported_cost = models.DecimalField(max_digits=20, decimal_places=10, null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "session", "key"], name="sessioncall_once")]
        indexes = [models.Index(fields=["session", "shown", "source", "line"], name="sessioncall_order")]

    def __str__(self) -> str:
        return self.key


class SessionBoundary(models.Model):
    """A compaction that an agent recorded, declared beside measured."""

    source = models.ForeignKey(SourceFile, on_delete=models.CASCADE, related_name="boundary_rows")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="boundary_rows")
    uid = models.CharField(max_length=200)
    line = models.PositiveBigIntegerField()
    at = models.DateTimeField(null=True, blank=True)
    kind = models.CharField(max_length=12, default="compaction")  # compaction, microcompact
    trigger = models.CharField(max_length=8, default="unknown")  # auto, manual, unknown
    declared_pre = models.PositiveBigIntegerField(null=True, blank=True)
    declared_post = models.PositiveBigIntegerField(null=True, blank=True)
    duration_ms = models.PositiveBigIntegerField(null=True, blank=True)
    measured_before = models.PositiveBigIntegerField(null=True, blank=True)
    measured_after = models.PositiveBigIntegerField(null=True, blank=True)
    after_call = models.PositiveIntegerField(default=0)  # main calls of the session before it
    shown = models.BooleanField(default=True)  # exactly one row of (session, uid)
    counts = models.BooleanField(default=True)  # exactly one row of a uid: copies of an earlier session's do not

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "session", "uid"], name="sessionboundary_once")]
        indexes = [models.Index(fields=["uid"], name="sessionboundary_uid")]

    def __str__(self) -> str:
        return f"{self.kind} {self.uid}"


class SessionAct(models.Model):
    """What a session durably did: a commit, a written file, an issue that it named. The would-be baton points at it."""

    source = models.ForeignKey(SourceFile, on_delete=models.CASCADE, related_name="act_rows")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="act_rows")
    kind = models.CharField(max_length=8)  # commit, file, issue
    ref = models.CharField(max_length=500)
    line = models.PositiveBigIntegerField()
    at = models.DateTimeField(null=True, blank=True)
    call = models.CharField(max_length=200, default="", blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "session", "kind", "ref"], name="sessionact_once")]

    def __str__(self) -> str:
        return f"{self.kind}:{self.ref}"


class SessionTouch(models.Model):
    """A file that a main call of a session read or wrote: what its window held, and what was read again.

    cost.md: "Of the files and references that were resident before a compaction, the share that is read again".
    """

    source = models.ForeignKey(SourceFile, on_delete=models.CASCADE, related_name="touch_rows")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="touch_rows")
    call = models.CharField(max_length=200)
    ref = models.CharField(max_length=500)
    line = models.PositiveBigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "session", "call", "ref"], name="sessiontouch_once")]

    def __str__(self) -> str:
        return self.ref


class SessionText(models.Model):
    """A line of a file without its secrets, only where the site keeps transcripts: see relays.sessions.texts."""

    source = models.ForeignKey(SourceFile, on_delete=models.CASCADE, related_name="text_rows")
    line = models.PositiveBigIntegerField()
    text = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["source", "line"], name="sessiontext_once")]

    def __str__(self) -> str:
        return f"{self.source_id}:{self.line}"


class SessionAnomaly(models.Model):
    """What was met in a file, counted; `session` is null where it is the file's own."""

    source = models.ForeignKey(SourceFile, on_delete=models.CASCADE, related_name="anomaly_rows")
    session = models.ForeignKey(Session, on_delete=models.CASCADE, null=True, related_name="anomaly_rows")
    kind = models.CharField(max_length=20)
    detail = models.CharField(max_length=120, default="", blank=True)
    line = models.PositiveBigIntegerField(default=0)  # the first one's
    count = models.PositiveIntegerField(default=1)
    projected = models.BooleanField(default=False)  # found by comparing calls: made anew with the roll-ups

    class Meta:
        indexes = [models.Index(fields=["source", "kind"], name="sessionanomaly_kind")]

    def __str__(self) -> str:
        return f"{self.kind} × {self.count}"


class SessionLeg(models.Model):
    """A shadow leg: a stretch between session start, would-rotate points and compactions (mission, phase 0)."""

    class Ended(models.TextChoices):
        WOULD_ROTATE = "would_rotate"
        COMPACTION = "compaction"
        END = "end"  # of what was read

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="leg_rows")
    number = models.PositiveIntegerField()  # from 0
    first_call = models.PositiveIntegerField()  # main calls of the session, from 1, both inclusive
    last_call = models.PositiveIntegerField()
    ended = models.CharField(max_length=12, choices=Ended)
    peak = models.PositiveBigIntegerField()
    baton = models.JSONField(default=dict)  # would-be: pointers, and the fields that cannot be known by name
    verified = models.PositiveIntegerField(null=True, blank=True)  # null = not judged yet
    dangling = models.PositiveIntegerField(null=True, blank=True)
    unknown = models.PositiveIntegerField(null=True, blank=True)
    checks = models.JSONField(default=list)  # pointer, verdict, evidence
    judged_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["session_id", "number"]
        constraints = [models.UniqueConstraint(fields=["session", "number"], name="sessionleg_once")]

    def __str__(self) -> str:
        return f"{self.session_id}:{self.number}"


class FullnessCount(models.Model):
    """Tool results and failures of a session by model and by how full the window was, in twentieths (20 = over it)."""

    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="fullness_rows")
    model = models.CharField(max_length=120)
    twentieth = models.PositiveSmallIntegerField()
    tools = models.PositiveIntegerField()
    errors = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["session", "model", "twentieth"], name="fullness_once")]
        indexes = [models.Index(fields=["model", "twentieth"], name="fullness_model")]

    def __str__(self) -> str:
        return f"{self.model} {self.twentieth}/20"


class Import(models.Model):
    """One import or follow that somebody asked for: what, how far, and why it stopped."""

    class Status(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        CANCELLED = "cancelled"
        FAILED = "failed"

    paths = models.JSONField()
    follow = models.BooleanField(default=False)
    status = models.CharField(max_length=9, choices=Status, default=Status.WAITING)
    cancel = models.BooleanField(default=False)
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    asked_at = models.DateTimeField()
    beat_at = models.DateTimeField(null=True, blank=True)  # last sign of whoever works on it
    next_at = models.DateTimeField(null=True, blank=True)  # a follow looks again at
    ended_at = models.DateTimeField(null=True, blank=True)
    files_total = models.PositiveIntegerField(null=True, blank=True)  # null = not listed yet
    files_done = models.PositiveIntegerField(default=0)
    bytes_total = models.PositiveBigIntegerField(null=True, blank=True)
    bytes_done = models.PositiveBigIntegerField(default=0)
    problems = models.JSONField(default=list)  # [{"path", "why"}], the first hundred
    error = models.CharField(max_length=500, default="", blank=True)

    class Meta:
        indexes = [models.Index(fields=["status", "next_at"], name="import_due")]

    def __str__(self) -> str:
        return f"import {self.pk} {self.status}"


class ImportedFile(models.Model):
    """Which files an import covered: its totals count each call of theirs once."""

    job = models.ForeignKey(Import, on_delete=models.CASCADE, related_name="file_rows")
    source = models.ForeignKey(SourceFile, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["job", "source"], name="importedfile_once")]

    def __str__(self) -> str:
        return f"{self.job_id}:{self.source_id}"
