"""Ringing a doorbell: one short message that names a task and what it is for. The database holds the truth."""

import logging

from django.db import transaction

log = logging.getLogger(__name__)


def ring(task: str, what: str | int) -> None:
    """Ring `task` for `what` after the commit. A lost bell costs time only: `reconcile` rings again."""

    def send() -> None:
        # a second's worth of modules that most commands and every supervisor do without
        from kombu.exceptions import OperationalError as BrokerError

        from relaysite.celery import app

        try:
            app.send_task(task, args=[what], ignore_result=True, retry=False)
        except (BrokerError, OSError) as error:
            log.warning("bell %s for %s not rung (%s); reconcile will find it", task, what, error)

    transaction.on_commit(send)
