"""Pushes that people decided, carried out: claimed, tried, and their result kept. Safe to repeat."""

import logging
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from relays.driver import git
from relays.driver.changes import bump, topic
from relays.models import Push, PushState
from relays.stores.base import StoreUnavailable
from relays.stores.push import Rejected, push

log = logging.getLogger(__name__)

BATCH = 1  # a pass takes a minute at most, and so may a push
TRIES = 6
FIRST = timedelta(seconds=60)  # longer than a push may take: one that died is tried again, none runs twice


def carry_out() -> int:
    """Try what is due; how many came to an end. What is refused is not asked again; what does not answer is."""
    ended = 0
    now = timezone.now()
    for row in Push.objects.select_related("relay").filter(state=PushState.WAITING, not_before__lte=now)[:BATCH]:
        claimed = Push.objects.filter(pk=row.pk, attempts=row.attempts, state=PushState.WAITING).update(
            attempts=row.attempts + 1, not_before=now + FIRST * 2**row.attempts
        )
        if not claimed:
            continue
        try:
            result, state = push(git.store(row.relay), row.where, row.tip, row.branch), PushState.DONE
        except Rejected as error:
            result, state = error.evidence, PushState.FAILED
        except StoreUnavailable as error:
            last = row.attempts + 1 >= TRIES
            result, state = error.evidence, PushState.FAILED if last else PushState.WAITING
            log.warning("push of %s: %s", row.relay_id, error.evidence)
        ended += state != PushState.WAITING
        with transaction.atomic():
            done_at = timezone.now() if state != PushState.WAITING else None
            Push.objects.filter(pk=row.pk).update(state=state, result=result[:2000], done_at=done_at)
            bump(topic(row.relay_id))
    return ended
