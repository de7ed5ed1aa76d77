"""Effects outside the database that a committed transaction owes: git notes, and the refs that travel.

Nothing is pushed: no policy says so yet. What is written lies in the relay's own repository.
"""

import json
import logging
from datetime import timedelta

from django.utils import timezone

from relays.driver import git, travel
from relays.models import Baton, LedgerRow, Outbox
from relays.stores.base import StoreUnavailable

log = logging.getLogger(__name__)

BATCH = 20
LONGEST = timedelta(minutes=30)


def carry_out() -> int:
    """Try what is due; how many were done. A failure is kept with its error and tried again later, doubling."""
    done = 0
    now = timezone.now()
    written: set[str] = set()  # relays whose ledger was written in this pass, after all of these were owed
    for row in Outbox.objects.select_related("relay").filter(done_at__isnull=True, not_before__lte=now)[:BATCH]:
        # the next try is set before the work starts: a crash in between costs a repeat, never a hot loop
        delay = min(timedelta(seconds=10) * 2 ** min(row.attempts, 8), LONGEST)
        claimed = Outbox.objects.filter(pk=row.pk, attempts=row.attempts, done_at__isnull=True).update(
            attempts=row.attempts + 1, not_before=now + delay
        )
        if not claimed:
            continue
        try:
            if not (row.relay_id in written and _only_ledger(row)):
                _do(row)
        except StoreUnavailable as error:
            Outbox.objects.filter(pk=row.pk).update(error=error.evidence[:2000])
            log.warning("outbox %s: %s", row, error.evidence)
            continue
        if _only_ledger(row):
            written.add(row.relay_id)
        # owed again meanwhile, it is not done: whoever owed it began to count its attempts anew
        Outbox.objects.filter(pk=row.pk, attempts=row.attempts + 1).update(done_at=timezone.now(), error="")
        done += 1
    return done


def _only_ledger(row: Outbox) -> bool:
    """Whether it stands for rows of the ledger, owed once each; the record of a relay is owed over and over."""
    return row.kind == Outbox.Kind.LEDGER_REF and row.target != travel.target(row.relay_id)


def _do(row: Outbox) -> None:
    """Each effect is safe to repeat: a note that is there is not written again."""
    store = git.store(row.relay)
    if row.kind == Outbox.Kind.GIT_NOTE:
        text = Baton.objects.values_list("text", flat=True).get(pk=int(row.target))
        store.add_note(json.loads(text)["tombstone"]["at_sha"], text)
        return
    if _only_ledger(row):
        # all rows are read, so that whatever stands there is put right; only blocks that differ are stored again
        rows = LedgerRow.objects.filter(relay=row.relay).order_by("at", "id")
        store.write_ledger_ref(
            row.relay_id,
            [
                {"id": pk, "refs": refs, "note": note, "by": by, "at": at.isoformat()}
                for pk, refs, note, by, at in rows.values_list("pk", "refs", "note", "by", "at")
            ],
        )
    travel.write(row.relay_id, store)
