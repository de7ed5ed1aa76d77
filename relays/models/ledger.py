"""The intent ledger: append-only rows of references, written by agents, people and the driver."""

from django.db import models

from relays.models.leg import Leg
from relays.models.relay import Relay


class LedgerRow(models.Model):
    """`id` is `<relay>.<leg>.<source><n>`: a reader can tell whose row it is without a look-up.

    Source `e` = event `n` of that leg, `q` = a question that it asked, `c` = the command line, `d` = the driver,
    `p` = a person's decision, `t` = use `n` of the query tool.
    """

    id = models.CharField(primary_key=True, max_length=80)
    relay = models.ForeignKey(Relay, on_delete=models.PROTECT, related_name="ledger")
    leg = models.ForeignKey(Leg, null=True, blank=True, on_delete=models.PROTECT, related_name="ledger")
    refs = models.JSONField()  # ["kind:ref", …]
    note = models.CharField(max_length=500, default="", blank=True)
    verdicts = models.JSONField(default=list)  # as they were when the row was written
    by = models.CharField(max_length=10)  # agent, person, driver
    at = models.DateTimeField()

    class Meta:
        ordering = ["relay_id", "at", "id"]

    def __str__(self) -> str:
        return self.id
