"""The change number that live pages follow, and the outbox of effects that are carried out after their transaction."""

from collections.abc import Iterable

from django.db import connection, models


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


#: in SQL of our own: every write of a driver ends with these, and each costs six times as much where it is composed
_RAISE = "UPDATE relays_pulse SET number = number + 1 WHERE id = 1"
_NUMBER = "SELECT number FROM relays_pulse WHERE id = 1"
_MARK = "INSERT INTO relays_topic (name, number) VALUES {} ON CONFLICT (name) DO UPDATE SET number = excluded.number"


def raise_number(topics: Iterable[str]) -> int:
    """Raise the change number by one, mark `topics` with it, and return it; inside the caller's transaction."""
    names = list(dict.fromkeys(topics))
    with connection.cursor() as cursor:
        cursor.execute(_RAISE)
        if not cursor.rowcount:
            Pulse.objects.get_or_create(pk=1)
            cursor.execute(_RAISE)
        cursor.execute(_NUMBER)
        number = int(cursor.fetchone()[0])
        if names:
            rows = [value for name in names for value in (name, number)]
            cursor.execute(_MARK.format(", ".join(["(%s, %s)"] * len(names))), rows)
    return number


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
