"""The change number that live pages follow, and the outbox of effects that are carried out after their transaction."""

from django.db import models


class Pulse(models.Model):
    """A single row: the change number, bumped in the same transaction as every visible write."""

    number = models.PositiveBigIntegerField(default=0)

    def __str__(self) -> str:
        return str(self.number)


class Topic(models.Model):
    """What changed last at which number: `inbox`, `relays`, `relay:<id>`."""

    name = models.CharField(primary_key=True, max_length=80)
    number = models.PositiveBigIntegerField(db_index=True)

    def __str__(self) -> str:
        return f"{self.name} {self.number}"


class Outbox(models.Model):
    """An effect outside the database that a committed transaction owes: retried until it is done, safe to repeat."""

    class Kind(models.TextChoices):
        GIT_NOTE = "git_note"
        LEDGER_REF = "ledger_ref"

    kind = models.CharField(max_length=12, choices=Kind)
    relay = models.ForeignKey("relays.Relay", on_delete=models.CASCADE, related_name="outbox")
    target = models.CharField(max_length=80)  # pk of what it is about
    attempts = models.PositiveIntegerField(default=0)
    not_before = models.DateTimeField()
    error = models.TextField(default="", blank=True)
    done_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["kind", "target"], name="outbox_once")]
        indexes = [models.Index(fields=["done_at", "not_before"], name="outbox_due")]

    def __str__(self) -> str:
        return f"{self.kind} {self.target}"


class Heartbeat(models.Model):
    """When each background process was last alive; the page and the doctor read it."""

    name = models.CharField(primary_key=True, max_length=60)  # worker:<host>, beat:<host>
    at = models.DateTimeField()
    detail = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.name


class SignInLink(models.Model):
    """A one-time sign-in link: stored hashed, used once, short-lived."""

    user = models.ForeignKey("auth.User", on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.user} until {self.expires_at}"
